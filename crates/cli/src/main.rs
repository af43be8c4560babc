//! The native program `playground`: the same engine as the page's, on the command line.
//!
//! Every subcommand but `conform` prints JSON on standard output, and all print messages on standard
//! error.

mod conform;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::{Parser, Subcommand};
use engine::protocol::{Event, Failure, Prompt, Sampling};
use engine::runtime::{Engine, StopFlag};
use llama::{Gpu, Session};
use serde_json::{Value, json};
use weights::source::FileSource;

#[derive(Parser)]
#[command(
    name = "playground",
    version,
    about = "AgenticML Playground on the command line"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run files of golden cases: what the published reference does, case by case.
    Conform(conform::Arguments),
    #[command(flatten)]
    Text(text::Command),
    /// Continue a prompt with a GGUF model on the GPU.
    Generate {
        /// A GGUF file of a Llama-architecture model.
        model: PathBuf,
        /// The prompt as text; the model's special tokens are recognised in it.
        #[arg(long, conflicts_with_all = ["prompt_tokens", "messages"])]
        prompt: Option<String>,
        /// The prompt as token ids, separated by commas.
        #[arg(long, value_delimiter = ',', conflicts_with = "messages")]
        prompt_tokens: Option<Vec<u32>>,
        /// The prompt as a JSON list of chat messages, for the model's own chat template.
        #[arg(long)]
        messages: Option<String>,
        /// At most this many new tokens.
        #[arg(long = "max", default_value_t = 64)]
        max_tokens: u32,
        /// Longest context in tokens.
        #[arg(long, default_value_t = 2048)]
        context: u32,
        /// 0 takes the most probable token.
        #[arg(long, default_value_t = 0.0)]
        temperature: f32,
        /// Keep the k most probable tokens; 0 keeps all.
        #[arg(long, default_value_t = 0)]
        top_k: u32,
        /// Keep the smallest set of tokens of this probability; 1 keeps all.
        #[arg(long, default_value_t = 1.0)]
        top_p: f32,
        /// Drop tokens below this share of the best one's probability; 0 keeps all.
        #[arg(long, default_value_t = 0.0)]
        min_p: f32,
        /// Seed of the sampler.
        #[arg(long, default_value_t = 42)]
        seed: u64,
    },
    /// Print the logits of the last of the given tokens.
    Logits {
        /// A GGUF file of a Llama-architecture model.
        model: PathBuf,
        /// Token ids, separated by commas.
        #[arg(long, value_delimiter = ',', required = true)]
        tokens: Vec<u32>,
        /// Print the k highest, as pairs of id and logit.
        #[arg(long, default_value_t = 32)]
        top: usize,
        /// Print all of them, in the order of ids.
        #[arg(long)]
        all: bool,
    },
}

fn main() -> ExitCode {
    match pollster::block_on(run(Arguments::parse().command)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("playground: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    let answer = match command {
        Command::Conform(arguments) => return conform::conform(&arguments),
        Command::Text(command) => text::run(&command)?,
        Command::Generate {
            model,
            prompt,
            prompt_tokens,
            messages,
            max_tokens,
            context,
            temperature,
            top_k,
            top_p,
            min_p,
            seed,
        } => {
            let prompt = match (prompt, prompt_tokens, messages) {
                (Some(text), _, _) => Prompt::Text { text },
                (_, Some(ids), _) => Prompt::Ids { ids },
                (_, _, Some(json)) => Prompt::Messages { json },
                _ => return Err(anyhow!("give --prompt, --prompt-tokens or --messages")),
            };
            let sampling = Sampling {
                temperature,
                top_k,
                top_p,
                min_p,
                seed,
            };
            generate(&model, &prompt, &sampling, max_tokens, context)
                .await?
                .to_string()
        }
        Command::Logits {
            model,
            tokens,
            top,
            all,
        } => logits(&model, &tokens, top, all).await?.to_string(),
    };
    text::print(&answer)?;
    Ok(ExitCode::SUCCESS)
}

async fn generate(
    model: &Path,
    prompt: &Prompt,
    sampling: &Sampling,
    max_tokens: u32,
    context: u32,
) -> anyhow::Result<Value> {
    let mut engine = Engine::new(StopFlag::default());
    let info = engine
        .load(open(model)?, context, &|_| {})
        .await
        .map_err(failed)?;
    eprintln!(
        "{} on {}, loaded in {:.1} s",
        info.name, info.adapter.name, info.seconds
    );
    let told = std::cell::RefCell::new(Vec::new());
    engine
        .generate(0, prompt, sampling, max_tokens, &|event| {
            told.borrow_mut().push(event)
        })
        .await
        .map_err(failed)?;
    let mut answer = json!({ "prompt_ids": [], "ids": [], "text": "" });
    let (mut ids, mut text) = (Vec::new(), String::new());
    for event in told.into_inner() {
        match event {
            Event::Prompt { ids, .. } => answer["prompt_ids"] = json!(ids),
            Event::Token {
                id,
                text: piece,
                special,
                ..
            } => {
                ids.push(id);
                if !special {
                    text.push_str(&piece);
                }
            }
            Event::Finished { reason, stats, .. } => {
                answer["reason"] = json!(reason);
                answer["stats"] = json!(stats);
            }
            _ => {}
        }
    }
    answer["ids"] = json!(ids);
    answer["text"] = json!(text);
    Ok(answer)
}

async fn logits(model: &Path, tokens: &[u32], top: usize, all: bool) -> anyhow::Result<Value> {
    let gpu = Gpu::open().await?;
    let mut source = open(model)?;
    let header = weights::gguf::read_header(&mut source).await?;
    let loaded = llama::load(&gpu, &mut source, &header, |_| true).await?;
    let mut session = Session::new(gpu, loaded, tokens.len()).await?;
    session.prefill(tokens, |_| true).await?;
    let logits = session.logits().await?;
    if all {
        return Ok(json!({ "logits": logits }));
    }
    let mut order: Vec<(usize, f32)> = logits.into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    order.truncate(top);
    Ok(json!({ "top": order }))
}

fn open(path: &Path) -> anyhow::Result<FileSource> {
    FileSource::open(path).with_context(|| "the model file cannot be opened")
}

fn failed(failure: Failure) -> anyhow::Error {
    anyhow!("{}\n{}", failure.message, failure.advice)
}
