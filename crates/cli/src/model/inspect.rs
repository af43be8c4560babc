//! `playground inspect`: what a model is, without loading it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use model::package::{Kind, Package, TokenizerFile};
use model::plan::{BlockPart, Role};
use model::{Config, LoadError, Plan};
use serde_json::{Value, json};
use weights::layout::Packer;

use super::open::open;
use crate::progress::bytes;

/// Longest text of a licence that is shown, in bytes.
const MAX_LICENCE_BYTES: u64 = 256 << 10;
/// Names that the text of a licence has in a folder.
const LICENCE_FILES: [&str; 6] = [
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "LICENCE",
    "LICENCE.txt",
    "LICENCE.md",
];

#[derive(Args)]
pub struct Arguments {
    /// A GGUF file, a folder with config.json and safetensors, or a folder of our shards.
    source: PathBuf,
    /// Context in tokens for the estimate of GPU memory; by default the model's own, at most 8192.
    #[arg(long)]
    context: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What the model is, as text or as JSON.
pub async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (package, mut source) = open(&arguments.source).await?;
    let plan = model::convert::resolve(&mut source, &package.plan).await?;
    let own = plan.config.context as u64;
    let context = arguments.context.unwrap_or(own.min(8192));
    let memory = Memory::of(&plan, context)?;
    let licence = licence_text(&arguments.source);
    if arguments.json {
        return Ok(as_json(&package, context, &memory, licence).to_string());
    }
    Ok(as_text(&package, context, &memory, licence.as_ref())?)
}

/// Bytes that a model takes on a GPU.
struct Memory {
    /// Weights in the layouts that the kernels read.
    weights: u64,
    /// Keys and values of the whole context in single precision.
    cache: u64,
    /// Buffers to work in, about.
    workspace: u64,
}

impl Memory {
    fn of(plan: &Plan, context: u64) -> Result<Self, LoadError> {
        let mut weights = 0;
        for tensor in &plan.tensors {
            weights += match tensor.role {
                Role::RopeDivisors => 0,
                Role::OutputNorm
                | Role::Block(_, BlockPart::AttentionNorm | BlockPart::FfnNorm) => {
                    4 * tensor.cols as u64
                }
                _ => {
                    let packer = Packer::new(tensor.kind, tensor.cols).map_err(|error| {
                        LoadError::Unsupported(format!("{}: {error}", tensor.name))
                    })?;
                    let row = packer.words_bytes(1) + packer.scale_bytes(1);
                    row as u64 * tensor.rows as u64
                }
            };
        }
        Ok(Self {
            weights,
            cache: 4 * plan.config.cache_values_per_token() as u64 * context,
            workspace: workspace(&plan.config),
        })
    }

    fn total(&self, half_cache: bool) -> u64 {
        let cache = if half_cache {
            self.cache / 2
        } else {
            self.cache
        };
        self.weights + cache + self.workspace
    }
}

/// The larger buffers of a forward pass over 128 tokens: the stream and the queries twice, the hidden
/// layer, logits with what choosing among them needs, and parts of attention.
fn workspace(config: &Config) -> u64 {
    const TOKENS: usize = 128;
    /// Parts that attention over a long context is split into.
    const SPLITS: usize = 16;
    let queries = config.heads * config.head_dim;
    let pass = TOKENS * (2 * config.dim + 2 * queries + config.ffn + 2 * config.head_dim);
    4 * (pass + 3 * config.vocab + SPLITS * config.heads * (config.head_dim + 4)) as u64
}

/// The text of a licence in the model's folder, and the name of its file.
fn licence_text(source: &Path) -> Option<(String, String)> {
    let folder = if source.is_dir() {
        source
    } else {
        source.parent()?
    };
    LICENCE_FILES.into_iter().find_map(|name| {
        let path = folder.join(name);
        let size = std::fs::metadata(&path).ok()?.len();
        if size > MAX_LICENCE_BYTES {
            return None;
        }
        let text = std::fs::read(path).ok()?;
        Some((name.to_owned(), String::from_utf8_lossy(&text).into_owned()))
    })
}

/// A number of weights as people say it.
fn count(weights: u64) -> String {
    let weights = weights as f64;
    if weights >= 9.995e8 {
        format!("{:.2} billion", weights / 1e9)
    } else {
        format!("{:.2} million", weights / 1e6)
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Gguf => "GGUF file",
        Kind::Safetensors => "folder of safetensors",
        Kind::Shards => "package of shards",
    }
}

/// What the tokenizer is, and how many entries it has, where that is told without building it.
fn tokenizer(file: &TokenizerFile) -> (String, Option<usize>) {
    match file {
        TokenizerFile::Json(json) => (
            format!("tokenizer.json, {}", bytes(json.len() as u64)),
            None,
        ),
        TokenizerFile::Gguf(parts) => {
            let pre = parts.pre.as_deref().unwrap_or("none");
            let what = format!("{} of GGUF metadata, pre-tokenizer {pre}", parts.model);
            (what, Some(parts.tokens.len()))
        }
    }
}

/// Special tokens by name, from wherever the package has them.
fn special(package: &Package) -> Vec<(&'static str, Vec<u32>)> {
    let (mut bos, mut eos) = (package.special.bos, package.special.eos.clone());
    let mut other = Vec::new();
    if let TokenizerFile::Gguf(parts) = &package.tokenizer {
        bos = bos.or(parts.bos);
        if eos.is_empty() {
            eos.extend(parts.eos);
        }
        for (name, id) in [
            ("end of turn", parts.eot),
            ("end of message", parts.eom),
            ("unknown", parts.unknown),
            ("padding", parts.padding),
        ] {
            other.extend(id.map(|id| (name, vec![id])));
        }
    }
    let mut all = Vec::new();
    all.extend(bos.map(|id| ("beginning", vec![id])));
    if !eos.is_empty() {
        all.push(("end", eos));
    }
    all.extend(other);
    all
}

fn as_json(
    package: &Package,
    context: u64,
    memory: &Memory,
    licence_text: Option<(String, String)>,
) -> Value {
    let plan = &package.plan;
    let tensors: Vec<Value> = plan
        .tensors
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name,
                "type": tensor.kind.name(),
                "rows": tensor.rows,
                "cols": tensor.cols,
                "bytes": tensor.bytes(),
                "offset": tensor.offset,
            })
        })
        .collect();
    let (tokenizer, entries) = tokenizer(&package.tokenizer);
    let special = special(package)
        .into_iter()
        .map(|(name, ids)| (name.to_owned(), json!(ids)));
    let (file, text) = licence_text.unzip();
    json!({
        "name": package.name,
        "kind": kind_name(package.kind),
        "quantization": package.quantization,
        "parameters": package.parameters,
        "config": plan.config.to_json(),
        "tensor_bytes": plan.tensor_bytes(),
        "types": package.types,
        "tensors": tensors,
        "tokenizer": { "what": tokenizer, "entries": entries },
        "template": package.template,
        "special": special.collect::<serde_json::Map<_, _>>(),
        "add_bos": add_bos(package),
        "licence": package.licence,
        "licence_file": file,
        "licence_text": text,
        "gpu_memory": {
            "context": context,
            "weights": memory.weights,
            "cache": memory.cache,
            "half_cache": memory.cache / 2,
            "workspace": memory.workspace,
            "total": memory.total(false),
            "total_with_half_cache": memory.total(true),
        },
    })
}

fn add_bos(package: &Package) -> Option<bool> {
    package.special.add_bos.or(match &package.tokenizer {
        TokenizerFile::Gguf(parts) => parts.add_bos,
        TokenizerFile::Json(_) => None,
    })
}

fn as_text(
    package: &Package,
    context: u64,
    memory: &Memory,
    licence_text: Option<&(String, String)>,
) -> Result<String, std::fmt::Error> {
    let Package { plan, .. } = package;
    let config = &plan.config;
    let mut out = String::new();
    let o = &mut out;
    writeln!(o, "{}", package.name)?;
    writeln!(
        o,
        "  {}, {}, {} weights in {}",
        kind_name(package.kind),
        package.quantization,
        count(package.parameters),
        bytes(plan.tensor_bytes())
    )?;
    writeln!(
        o,
        "  {} blocks of width {}, {} query and {} key heads of {}, hidden layer {}, vocabulary {}, \
         context {}",
        config.layers,
        config.dim,
        config.heads,
        config.kv_heads,
        config.head_dim,
        config.ffn,
        config.vocab,
        config.context
    )?;
    let (tokenizer, entries) = tokenizer(&package.tokenizer);
    write!(o, "  tokenizer: {tokenizer}")?;
    if let Some(entries) = entries {
        write!(o, ", {entries} entries")?;
    }
    writeln!(o)?;
    for (name, ids) in special(package) {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        writeln!(o, "  {name}: {}", ids.join(", "))?;
    }
    if let Some(add) = add_bos(package) {
        writeln!(
            o,
            "  texts begin with a token of their own: {}",
            if add { "yes" } else { "no" }
        )?;
    }
    match &package.template {
        Some(template) => writeln!(
            o,
            "  chat template: {} characters",
            template.chars().count()
        )?,
        None => writeln!(o, "  chat template: none")?,
    }
    match &package.licence {
        Some(licence) => {
            write!(o, "  licence: {}", licence.name)?;
            for part in [&licence.link, &licence.attribution].into_iter().flatten() {
                write!(o, ", {part}")?;
            }
            writeln!(o)?;
        }
        None => writeln!(o, "  licence: the files do not tell")?,
    }
    writeln!(
        o,
        "  GPU memory for {context} tokens: {} weights + {} cache ({} in half precision) + {} to work \
         in = {} ({})",
        bytes(memory.weights),
        bytes(memory.cache),
        bytes(memory.cache / 2),
        bytes(memory.workspace),
        bytes(memory.total(false)),
        bytes(memory.total(true))
    )?;
    let types: Vec<String> = package
        .types
        .iter()
        .map(|(name, count)| format!("{name} × {count}"))
        .collect();
    writeln!(o, "  types: {}", types.join(", "))?;
    writeln!(o)?;
    let width = plan
        .tensors
        .iter()
        .map(|tensor| tensor.name.len())
        .max()
        .unwrap_or(0);
    writeln!(
        o,
        "{:width$}  {:5}  {:>16}  {:>10}  {:>12}",
        "tensor", "type", "shape", "size", "offset"
    )?;
    for tensor in &plan.tensors {
        let shape = match tensor.rows {
            1 => tensor.cols.to_string(),
            rows => format!("{rows} × {}", tensor.cols),
        };
        writeln!(
            o,
            "{:width$}  {:5}  {shape:>16}  {:>10}  {:>12}",
            tensor.name,
            tensor.kind.name(),
            bytes(tensor.bytes()),
            tensor.offset
        )?;
    }
    if let Some((name, text)) = licence_text {
        writeln!(o, "\n{name}:\n{}", text.trim_end())?;
    }
    Ok(out.trim_end().to_owned())
}
