//! `playground quality`: what a model loses against another of the same vocabulary.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use cpu::{Arithmetic, CpuNetwork};
use engine::runtime::build_tokenizer;
use model::Session;
use model::package::Package;
use serde_json::{Value, json};
use tokens::model::ModelTokenizer;

use super::open::open;
use super::run::failed;
use crate::progress::{Progress, Unit};
use crate::text;

/// Tokens of a window whose predictions are not counted: they have too little before them.
const WARM_UP: usize = 16;

#[derive(Args)]
pub struct Arguments {
    /// The model to compare with, such as the one that the other was quantized from.
    a: PathBuf,
    /// The model in question.
    b: PathBuf,
    /// The text to predict.
    #[arg(long)]
    text: PathBuf,
    /// At most so many of its tokens.
    #[arg(long, default_value_t = 1024)]
    tokens: usize,
    /// Tokens of a window; each is predicted on its own.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=8192))]
    window: u32,
}

/// Sums over predicted tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: usize,
    divergence: f64,
    square: f64,
    same: usize,
    /// Negative log-likelihoods of the text's own tokens.
    surprise: [f64; 2],
}

impl Sums {
    /// Adds a prediction: the logits of both, and the token that came.
    fn add(&mut self, a: &[f32], b: &[f32], token: usize) {
        let (a_offset, b_offset) = (log_sum(a), log_sum(b));
        let pairs = a.iter().zip(b);
        let divergence: f64 = pairs
            .map(|(a, b)| {
                let (a, b) = (f64::from(*a) - a_offset, f64::from(*b) - b_offset);
                a.exp() * (a - b)
            })
            .sum();
        self.count += 1;
        self.divergence += divergence;
        self.square += divergence * divergence;
        self.same += usize::from(largest(a) == largest(b));
        self.surprise[0] += a_offset - f64::from(a[token]);
        self.surprise[1] += b_offset - f64::from(b[token]);
    }

    fn answer(&self) -> Value {
        let count = self.count as f64;
        let mean = self.divergence / count;
        let variance = (self.square / count - mean * mean).max(0.0);
        let perplexity = self.surprise.map(|sum| (sum / count).exp());
        json!({
            "tokens": self.count,
            "mean_kl": mean,
            "mean_kl_standard_error": (variance / count).sqrt(),
            "same_top1_percent": 100.0 * self.same as f64 / count,
            "perplexity_a": perplexity[0],
            "perplexity_b": perplexity[1],
            "perplexity_ratio": perplexity[1] / perplexity[0],
        })
    }
}

/// The logarithm of the sum of exponentials, in double precision.
fn log_sum(logits: &[f32]) -> f64 {
    let most = f64::from(logits[largest(logits)]);
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - most).exp()).sum();
    most + sum.ln()
}

/// The first of the largest.
fn largest(logits: &[f32]) -> usize {
    let mut best = 0;
    for (index, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = index;
        }
    }
    best
}

/// Compares two models on the CPU, where activations have 15 bits or more (see [`Arithmetic`]): mean Kullback-Leibler divergence of B's
/// predictions from A's, how often both find the same token most probable, and perplexities.
pub async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let text = text::read_file(&arguments.text)?;
    let (a, mut a_source) = open(&arguments.a).await?;
    let (b, mut b_source) = open(&arguments.b).await?;
    ensure!(
        a.plan.config.vocab == b.plan.config.vocab,
        "the models have vocabularies of {} and {} tokens; only models of one vocabulary can be compared",
        a.plan.config.vocab,
        b.plan.config.vocab
    );
    let tokenizer = tokenizer(&a)?;
    let ids = tokenizer.encode(&text, false)?;
    ensure!(
        ids == self::tokenizer(&b)?.encode(&text, false)?,
        "the models have different tokenizers; only models of one vocabulary can be compared"
    );
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let ids = &ids[..ids.len().min(arguments.tokens)];
    ensure!(
        ids.len() > WARM_UP + 1,
        "the text has {} tokens; at least {} are needed",
        ids.len(),
        WARM_UP + 2
    );

    let a_network = cpu::load(&mut a_source, &a.plan, Arithmetic::Fast, |_| true).await?;
    let b_network = cpu::load(&mut b_source, &b.plan, Arithmetic::Fast, |_| true).await?;
    let window = arguments.window as usize;
    let mut a_session = Session::new(a_network, window);
    let mut b_session = Session::new(b_network, window);
    let mut sums = Sums::default();
    let mut progress = Progress::of(Unit::Tokens, "Predicting", ids.len() as u64);
    for part in ids.chunks(window - usize::from(bos.is_some())) {
        let window: Vec<u32> = bos.into_iter().chain(part.iter().copied()).collect();
        let counted = WARM_UP..window.len().saturating_sub(1);
        if counted.is_empty() {
            continue;
        }
        for session in [&mut a_session, &mut b_session] {
            session.clear();
            session.prefill(&window[..WARM_UP], |_| true).await?;
        }
        for place in counted {
            let ids = &window[..place + 1];
            let (a, b) = (
                logits(&mut a_session, ids).await?,
                logits(&mut b_session, ids).await?,
            );
            sums.add(&a, &b, window[place + 1] as usize);
            progress.add(1);
        }
    }
    let (_, seconds) = progress.finish();
    ensure!(
        sums.count > 0,
        "no window of the text has more than {WARM_UP} tokens"
    );
    let mut answer = sums.answer();
    answer["a"] =
        json!({ "name": a.name, "quantization": a.quantization, "bytes": a.plan.tensor_bytes() });
    answer["b"] =
        json!({ "name": b.name, "quantization": b.quantization, "bytes": b.plan.tensor_bytes() });
    answer["seconds"] = json!(seconds);
    Ok(answer)
}

/// The logits after these tokens; the session has run all but the last of them already.
async fn logits(session: &mut Session<CpuNetwork>, ids: &[u32]) -> anyhow::Result<Vec<f32>> {
    session.prefill(ids, |_| true).await?;
    Ok(session.logits().await?)
}

/// The tokenizer of a package.
fn tokenizer(package: &Package) -> anyhow::Result<ModelTokenizer> {
    build_tokenizer(package.tokenizer.clone(), package.special.clone()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_predictions_diverge_by_nothing() {
        let mut sums = Sums::default();
        for token in 0..3 {
            sums.add(&[1.0, -2.0, 0.5], &[3.0, 0.0, 2.5], token);
        }
        let answer = sums.answer();
        let number = |key: &str| answer[key].as_f64().expect("a number");
        assert!(number("mean_kl").abs() < 1e-12);
        assert!((number("perplexity_ratio") - 1.0).abs() < 1e-12);
        assert_eq!(number("same_top1_percent"), 100.0);
    }

    #[test]
    fn sums_are_those_of_the_definitions() {
        // Probabilities 1/4 and 3/4 against 1/2 and 1/2.
        let (a, b) = ([0.0, 3f32.ln()], [5.0, 5.0]);
        let mut sums = Sums::default();
        sums.add(&a, &b, 1);
        sums.add(&a, &b, 0);
        let answer = sums.answer();
        let near = |key: &str, expected: f64| {
            let found = answer[key].as_f64().expect("a number");
            assert!((found - expected).abs() < 1e-6, "{key}: {found}");
        };
        near("mean_kl", 0.25 * 0.5f64.ln() + 0.75 * 1.5f64.ln());
        near("mean_kl_standard_error", 0.0);
        // Where both are equal, the first counts as the largest.
        near("same_top1_percent", 0.0);
        near("perplexity_a", (16.0f64 / 3.0).sqrt());
        near("perplexity_b", 2.0);
    }
}
