//! How new markers get their first embedding rows: the mean of the rows of related words.

use crate::{Llama3Tokenizer, marker_id};
use formats::FrameKind;

/// Words whose rows a frame kind's marker starts from.
pub fn agenticml_seed_words(kind: FrameKind) -> &'static [&'static str] {
    match kind {
        FrameKind::Goal => &["goal", "objective", "purpose", "aim"],
        FrameKind::Mission => &["mission", "task", "instruction", "assignment", "problem"],
        FrameKind::Obs => &["observation", "context", "environment", "situation"],
        FrameKind::Belief => &["belief", "state", "knowledge", "assumption"],
        FrameKind::Plan => &["plan", "strategy", "approach", "method"],
        FrameKind::Think => &["think", "reasoning", "thought", "reflection"],
        FrameKind::Action => &[
            "action",
            "call",
            "tool",
            "command",
            "invocation",
            "function",
        ],
        FrameKind::End => &["end", "stop", "done", "complete", "finish", "terminate"],
        FrameKind::Result => &["result", "output", "response", "outcome"],
        FrameKind::Feedback => &["feedback", "update", "progress", "comment"],
        FrameKind::Reward => &["reward", "score", "bonus", "credit"],
    }
}

/// The template tokens that the ChatML arm initialises, with their words. `<|eom_id|>` is not among
/// them, though two that the base model has trained are.
pub const CHATML_SEED_WORDS: [(&str, &[&str]); 6] = [
    ("<|start_header_id|>", &["start", "begin", "role", "header"]),
    ("<|end_header_id|>", &["end", "stop", "header", "close"]),
    ("<|eot_id|>", &["end", "stop", "done", "finish"]),
    ("<|begin_of_text|>", &["begin", "start", "text"]),
    ("<|end_of_text|>", &["end", "stop", "text"]),
    ("<|python_tag|>", &["python", "tool", "call", "function"]),
];

/// Ids whose rows are pooled for an AgenticML marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The ids.
    pub ids: Vec<u32>,
    /// Words left out because they are several tokens, with how many.
    pub skipped: Vec<(String, usize)>,
}

/// Seeds of an AgenticML marker: each word with a space before it, if that is one token. If none is,
/// the first token of the first word.
pub fn agenticml_seeds(tokenizer: &Llama3Tokenizer, words: &[&str]) -> Seeds {
    let mut seeds = Seeds::default();
    let mut fallback = None;
    for word in words {
        let ids = tokenizer.encode_trusted(&format!(" {word}"));
        if let [id] = ids[..] {
            seeds.ids.push(id);
        } else {
            seeds.skipped.push(((*word).to_owned(), ids.len()));
        }
        fallback = fallback.or(ids.first().copied());
    }
    if seeds.ids.is_empty() {
        seeds.ids.extend(fallback);
    }
    seeds
}

/// Seeds of a ChatML token: all tokens of all words, without a space before them.
pub fn chatml_seeds(tokenizer: &Llama3Tokenizer, words: &[&str]) -> Vec<u32> {
    words
        .iter()
        .flat_map(|word| tokenizer.encode_trusted(word))
        .collect()
}

/// Type in which a model's rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowType {
    /// 32-bit floats.
    F32,
    /// The upper half of 32-bit floats.
    Bf16,
}

impl RowType {
    /// The nearest value of this type, ties to even.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::Bf16 if value.is_nan() => value,
            Self::Bf16 => {
                let bits = value.to_bits();
                let half = 0x7fff + ((bits >> 16) & 1);
                f32::from_bits(bits.wrapping_add(half) & 0xffff_0000)
            }
        }
    }
}

/// Mean of rows of equal length, in f32. Empty of no rows.
pub fn mean(rows: &[&[f32]]) -> Vec<f32> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let mut sum = vec![0.0f32; first.len()];
    for row in rows {
        for (sum, value) in sum.iter_mut().zip(*row) {
            *sum += value;
        }
    }
    sum.iter().map(|sum| sum / rows.len() as f32).collect()
}

/// The row that pooling gives: the mean, rounded to the model's type.
pub fn pooled_row(rows: &[&[f32]], kind: RowType) -> Vec<f32> {
    mean(rows)
        .into_iter()
        .map(|value| kind.round(value))
        .collect()
}

/// Euclidean length of a row.
pub fn norm(row: &[f32]) -> f32 {
    row.iter().map(|value| value * value).sum::<f32>().sqrt()
}

/// Largest difference between two rows.
pub fn max_error(a: &[f32], b: &[f32]) -> f32 {
    let errors = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    errors.fold(0.0, f32::max)
}

/// A marker's rows in both matrices and the means they should be near to.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkerRows {
    /// The marker's name.
    pub name: String,
    /// Its row of the input embedding.
    pub embed: Vec<f32>,
    /// Its row of the output head.
    pub head: Vec<f32>,
    /// Mean of its seeds' rows of the input embedding.
    pub embed_mean: Vec<f32>,
    /// Mean of its seeds' rows of the output head.
    pub head_mean: Vec<f32>,
    /// Number of its seeds.
    pub seeds: usize,
    /// Whether AgenticML's two additional conditions apply.
    pub agenticml: bool,
}

/// What is wrong with a marker's rows, by the reference's conditions; nothing if they are as
/// initialised. (Texts of the conditions that its published cases never break are our own.)
pub fn verify(rows: &MarkerRows) -> Vec<String> {
    const MAX_ERROR: f32 = 0.05;
    const MIN_NORM: f32 = 0.15;
    const MAX_RATIO: f32 = 3.0;
    const MAX_HEAD_RATIO: f32 = 4.5;
    let name = &rows.name;
    let mut errors = Vec::new();
    if rows.agenticml && rows.seeds < 2 {
        errors.push(format!("{name}: only {} seed token(s)", rows.seeds));
    }
    for (matrix, row, mean) in [
        ("embed", &rows.embed, &rows.embed_mean),
        ("lm_head", &rows.head, &rows.head_mean),
    ] {
        let error = max_error(row, mean);
        if error > MAX_ERROR {
            errors.push(format!(
                "{name}: {matrix} row differs from seed mean (max err {error:.6})"
            ));
        }
    }
    let (embed, head, mean) = (norm(&rows.embed), norm(&rows.head), norm(&rows.embed_mean));
    for (matrix, norm) in [("embed", embed), ("lm_head", head)] {
        if norm < MIN_NORM {
            errors.push(format!("{name}: {matrix} norm {norm:.3} below {MIN_NORM}"));
        }
    }
    let ratio = embed / mean;
    if !(1.0 / MAX_RATIO..=MAX_RATIO).contains(&ratio) {
        errors.push(format!(
            "{name}: embed/seed-mean norm ratio {ratio:.3} outside [1/3.0, 3.0]"
        ));
    }
    if rows.agenticml && head > MAX_HEAD_RATIO * mean {
        errors.push(format!(
            "{name}: lm_head norm {head:.3} above {MAX_HEAD_RATIO} times the embed seed mean"
        ));
    }
    errors
}

/// A marker's id and seeds, for each marker of AgenticML.
pub fn agenticml_targets(tokenizer: &Llama3Tokenizer) -> Vec<(FrameKind, u32, Seeds)> {
    FrameKind::ALL
        .into_iter()
        .map(|kind| {
            let seeds = agenticml_seeds(tokenizer, agenticml_seed_words(kind));
            (kind, marker_id(kind), seeds)
        })
        .collect()
}
