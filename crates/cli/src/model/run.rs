//! Subcommands that run a model.

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use cpu::Arithmetic;
use engine::protocol::{
    Event, Failure, LoadOptions, ModelInfo, Processor, Prompt, Sampling, Side, Sides,
};
use engine::runtime::backend::{Backend, Cpu, Gpu};
use engine::runtime::{Engine, Order, StopFlag};
use model::{Network, Session};
use serde_json::{Value, json};

use super::open::open;

/// A model and what it runs on.
#[derive(Args)]
struct Run {
    /// A model of the Llama architecture: a GGUF file, a folder with config.json and safetensors, or a
    /// folder of our shards.
    model: PathBuf,
    /// What to run it on.
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,
    /// How the CPU calculates: `exact` with activations in single precision, `fast` with 8-bit ones.
    #[arg(long, value_enum)]
    arithmetic: Option<Precision>,
    /// Keep keys and values in half precision on the GPU.
    #[arg(long)]
    half_cache: bool,
    /// Longest context in tokens.
    #[arg(long, default_value_t = 2048)]
    context: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    Cpu,
    Gpu,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Precision {
    Exact,
    Fast,
}

impl Run {
    fn cpu(&self, otherwise: Precision) -> Cpu {
        Cpu::new(match self.arithmetic.unwrap_or(otherwise) {
            Precision::Exact => Arithmetic::Exact,
            Precision::Fast => Arithmetic::Fast,
        })
    }
}

#[derive(Args)]
pub struct Generate {
    #[command(flatten)]
    run: Run,
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
    /// Print with each token its probability, the entropy and this many alternatives.
    #[arg(long, default_value_t = 0)]
    alternatives: u32,
}

#[derive(Args)]
pub struct Logits {
    #[command(flatten)]
    run: Run,
    /// Token ids, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    tokens: Vec<u32>,
    /// Print the k highest, as pairs of id and logit.
    #[arg(long, default_value_t = 32)]
    top: usize,
    /// Print all of them, in the order of ids.
    #[arg(long)]
    all: bool,
}

#[derive(Args)]
pub struct Bench {
    #[command(flatten)]
    run: Run,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 128)]
    prompt_tokens: u32,
    /// Tokens to decode after it.
    #[arg(long, default_value_t = 64)]
    decode_tokens: u32,
}

/// Continues a prompt.
pub async fn generate(it: &Generate) -> anyhow::Result<String> {
    let answer = match it.run.device {
        Device::Cpu => generate_on(it, it.run.cpu(Precision::Fast)).await?,
        Device::Gpu => generate_on(it, gpu().await?).await?,
    };
    Ok(answer.to_string())
}

/// The logits after some tokens.
pub async fn logits(it: &Logits) -> anyhow::Result<String> {
    let answer = match it.run.device {
        Device::Cpu => logits_on(it, it.run.cpu(Precision::Exact)).await?,
        Device::Gpu => logits_on(it, gpu().await?).await?,
    };
    Ok(answer.to_string())
}

/// Measures a model.
pub async fn bench(it: &Bench) -> anyhow::Result<String> {
    let answer = match it.run.device {
        Device::Cpu => bench_on(it, it.run.cpu(Precision::Fast)).await?,
        Device::Gpu => bench_on(it, gpu().await?).await?,
    };
    Ok(answer.to_string())
}

async fn gpu() -> anyhow::Result<Gpu> {
    Ok(Gpu::open(None).await?)
}

/// Loads a model, telling on standard error what it takes.
async fn load<B: Backend>(run: &Run, backend: B) -> anyhow::Result<Engine<B>> {
    let (package, mut source) = open(&run.model).await?;
    let options = LoadOptions {
        recipe: None,
        context: run.context,
        half_cache: run.half_cache,
        keep: false,
        memory_limit: None,
    };
    let mut engine = Engine::on(backend, StopFlag::default());
    let info = engine
        .load(package, &mut source, Sides::Both, &options, &|_| {})
        .await
        .map_err(failed)?;
    eprintln!("{}", describe(&info));
    Ok(engine)
}

fn describe(info: &ModelInfo) -> String {
    let processor = match &info.processor {
        Processor::Gpu { adapter } => adapter.name.clone(),
        Processor::Cpu { vectors } => format!("the CPU ({vectors})"),
    };
    format!(
        "{} on {processor}, loaded in {:.1} s; weights {} bytes for {} in the file ({:.3}), cache {} \
         bytes per token",
        info.name,
        info.seconds,
        info.weight_bytes,
        info.tensor_bytes,
        info.weight_bytes as f64 / info.tensor_bytes as f64,
        info.cache_bytes_per_token,
    )
}

async fn generate_on<B: Backend>(arguments: &Generate, backend: B) -> anyhow::Result<Value> {
    let prompt = match (
        &arguments.prompt,
        &arguments.prompt_tokens,
        &arguments.messages,
    ) {
        (Some(text), _, _) => Prompt::Text { text: text.clone() },
        (_, Some(ids), _) => Prompt::Ids { ids: ids.clone() },
        (_, _, Some(json)) => Prompt::Messages { json: json.clone() },
        _ => bail!("give --prompt, --prompt-tokens or --messages"),
    };
    let sampling = Sampling {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        min_p: arguments.min_p,
        seed: arguments.seed,
    };
    let mut engine = load(&arguments.run, backend).await?;
    let order = Order {
        job: 0,
        side: Side::A,
        prompt: &prompt,
        sampling: &sampling,
        max_tokens: arguments.max_tokens,
        stops: &[],
        alternatives: arguments.alternatives,
    };
    let told = RefCell::new(Vec::new());
    engine
        .generate(&order, &|event| told.borrow_mut().push(event))
        .await
        .map_err(failed)?;
    let mut answer = json!({ "prompt_ids": [], "ids": [], "text": "" });
    let (mut ids, mut text, mut outlooks) = (Vec::new(), String::new(), Vec::new());
    for event in told.into_inner() {
        match event {
            Event::Prompt { ids, .. } => answer["prompt_ids"] = json!(ids),
            Event::Token {
                id,
                text: piece,
                special,
                outlook,
                ..
            } => {
                ids.push(id);
                if !special {
                    text.push_str(&piece);
                }
                outlooks.extend(outlook);
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
    if arguments.alternatives > 0 {
        answer["outlooks"] = json!(outlooks);
    }
    Ok(answer)
}

async fn logits_on<B: Backend>(arguments: &Logits, backend: B) -> anyhow::Result<Value> {
    let run = &arguments.run;
    let (package, mut source) = open(&run.model).await?;
    let plan = &package.plan;
    let network = backend
        .load(&mut source, plan, run.half_cache, |_| true)
        .await?;
    let memory = network.memory();
    eprintln!(
        "weights {} bytes for {} in the file",
        memory.weights,
        plan.tensor_bytes()
    );
    let mut session = Session::new(network, arguments.tokens.len());
    session.prefill(&arguments.tokens, |_| true).await?;
    let logits = session.logits().await?;
    if arguments.all {
        return Ok(json!({ "logits": logits }));
    }
    let mut order: Vec<(usize, f32)> = logits.into_iter().enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    order.truncate(arguments.top);
    Ok(json!({ "top": order }))
}

async fn bench_on<B: Backend>(arguments: &Bench, backend: B) -> anyhow::Result<Value> {
    let mut engine = load(&arguments.run, backend).await?;
    let measures = engine
        .measure(Side::A, arguments.prompt_tokens, arguments.decode_tokens)
        .await
        .map_err(failed)?;
    Ok(json!(measures))
}

/// A failure of the engine with what to do about it.
pub fn failed(failure: Failure) -> anyhow::Error {
    anyhow!("{}\n{}", failure.message, failure.advice)
}
