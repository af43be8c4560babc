//! Which tensor of a file is which part of the network.

use std::collections::{HashMap, HashSet};

use weights::gguf::{self, Gguf, GgufError};
use weights::manifest::{Entry, Manifest, ManifestError};
use weights::{BlockType, SourceError, safetensors};

use crate::config::{Config, Pairing, Rope};
use crate::hf::HfConfig;
use crate::network::BackendError;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The header of a GGUF file lacks something or says something impossible.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The header of a GGUF file could not be read.
    #[error(transparent)]
    Header(#[from] gguf::HeaderError),
    /// The header of a safetensors file could not be read.
    #[error(transparent)]
    Safetensors(#[from] safetensors::HeaderError),
    /// The manifest of a package of shards cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The file is well formed but of a kind that this engine does not run.
    #[error("{0}")]
    Unsupported(String),
    /// The file contradicts itself.
    #[error("{0}")]
    Inconsistent(String),
    /// The processor failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Loading was stopped on request.
    #[error("loading was stopped")]
    Stopped,
}

/// What a tensor is to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Token embeddings, and the output matrix too where there is no [`Role::Head`]. `vocab × dim`.
    Embedding,
    /// Output matrix. `vocab × dim`.
    Head,
    /// Gains of the last norm. `dim`.
    OutputNorm,
    /// Divisors of the rotary frequencies. `head_dim / 2`.
    RopeDivisors,
    /// A part of the transformer block of this index.
    Block(usize, BlockPart),
}

/// The tensors of one transformer block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockPart {
    /// Gains of the norm before attention. `dim`.
    AttentionNorm,
    /// Query projection. `heads head_dim × dim`.
    Query,
    /// Key projection. `kv_heads head_dim × dim`.
    Key,
    /// Value projection. `kv_heads head_dim × dim`.
    Value,
    /// Output projection of attention. `dim × heads head_dim`.
    Output,
    /// Gains of the norm before the feed-forward layer. `dim`.
    FfnNorm,
    /// Gate projection. `ffn × dim`.
    Gate,
    /// Up projection. `ffn × dim`.
    Up,
    /// Down projection. `dim × ffn`.
    Down,
}

impl BlockPart {
    /// All parts.
    pub const ALL: [Self; 9] = [
        Self::AttentionNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::Output,
        Self::FfnNorm,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];

    /// Its name in a GGUF file, between `blk.N.` and `.weight`.
    fn gguf_name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attn_norm",
            Self::Query => "attn_q",
            Self::Key => "attn_k",
            Self::Value => "attn_v",
            Self::Output => "attn_output",
            Self::FfnNorm => "ffn_norm",
            Self::Gate => "ffn_gate",
            Self::Up => "ffn_up",
            Self::Down => "ffn_down",
        }
    }

    /// Its name in a file of Hugging Face, between `model.layers.N.` and `.weight`.
    fn hf_name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "input_layernorm",
            Self::Query => "self_attn.q_proj",
            Self::Key => "self_attn.k_proj",
            Self::Value => "self_attn.v_proj",
            Self::Output => "self_attn.o_proj",
            Self::FfnNorm => "post_attention_layernorm",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
        }
    }
}

impl Role {
    /// Its name in a GGUF file, and in a package of our shards.
    pub fn gguf_name(self) -> String {
        match self {
            Self::Embedding => "token_embd.weight".to_owned(),
            Self::Head => "output.weight".to_owned(),
            Self::OutputNorm => "output_norm.weight".to_owned(),
            Self::RopeDivisors => "rope_freqs.weight".to_owned(),
            Self::Block(index, part) => format!("blk.{index}.{}.weight", part.gguf_name()),
        }
    }

    /// The role of a tensor in a GGUF file, by its name.
    pub fn from_gguf_name(name: &str) -> Option<Self> {
        match name {
            "token_embd.weight" => return Some(Self::Embedding),
            "output.weight" => return Some(Self::Head),
            "output_norm.weight" => return Some(Self::OutputNorm),
            "rope_freqs.weight" => return Some(Self::RopeDivisors),
            _ => {}
        }
        let (index, part) = name.strip_prefix("blk.")?.split_once('.')?;
        let part = part.strip_suffix(".weight")?;
        let part = BlockPart::ALL
            .into_iter()
            .find(|known| known.gguf_name() == part)?;
        Some(Self::Block(index.parse().ok()?, part))
    }

    /// Whether its rows are rotated as pairs: query and key projections.
    pub fn is_rotated(self) -> bool {
        matches!(self, Self::Block(_, BlockPart::Query | BlockPart::Key))
    }

    /// Rows and columns in a model of this shape; a vector is one row.
    pub fn shape(self, config: &Config) -> (usize, usize) {
        let (q, kv) = (
            config.heads * config.head_dim,
            config.kv_heads * config.head_dim,
        );
        match self {
            Self::Embedding | Self::Head => (config.vocab, config.dim),
            Self::OutputNorm => (1, config.dim),
            Self::RopeDivisors => (1, config.head_dim / 2),
            Self::Block(_, part) => match part {
                BlockPart::AttentionNorm | BlockPart::FfnNorm => (1, config.dim),
                BlockPart::Query => (q, config.dim),
                BlockPart::Key | BlockPart::Value => (kv, config.dim),
                BlockPart::Output => (config.dim, q),
                BlockPart::Gate | BlockPart::Up => (config.ffn, config.dim),
                BlockPart::Down => (config.dim, config.ffn),
            },
        }
    }
}

/// One tensor that the network needs, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name in the file, for messages.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// How its weights are stored.
    pub kind: BlockType,
    /// Rows; 1 for a vector.
    pub rows: usize,
    /// Weights per row.
    pub cols: usize,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
}

impl Tensor {
    /// Bytes of one row in the file.
    pub fn row_bytes(&self) -> usize {
        self.cols / self.kind.block_len() * self.kind.block_bytes()
    }

    /// Bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.rows as u64 * self.row_bytes() as u64
    }

    /// The weights in `bytes`, which are whole rows of this tensor.
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] when they are of a type that cannot be read.
    pub fn floats(&self, bytes: &[u8]) -> Result<Vec<f32>, LoadError> {
        let blocks = bytes.len() / self.kind.block_bytes();
        let mut values = vec![0.0; blocks * self.kind.block_len()];
        weights::codec::dequantize(self.kind, bytes, &mut values)
            .map_err(|error| LoadError::Inconsistent(format!("{}: {error}", self.name)))?;
        Ok(values)
    }
}

/// A model's shape and where its tensors are.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Shape and constants; rotary divisors that are a tensor are not in it yet.
    pub config: Config,
    /// The tensors in the order of the file, each role once.
    pub tensors: Vec<Tensor>,
}

impl Plan {
    /// Checks tensors against the shape and puts them in order.
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] when one is missing, twice there, or of another shape.
    pub fn new(config: Config, mut tensors: Vec<Tensor>) -> Result<Self, LoadError> {
        let inconsistent = |message: String| Err(LoadError::Inconsistent(message));
        for tensor in &tensors {
            let (rows, cols) = tensor.role.shape(&config);
            if (tensor.rows, tensor.cols) != (rows, cols) {
                return inconsistent(format!(
                    "{} is {} × {}, but the model's figures ask for {rows} × {cols}",
                    tensor.name, tensor.rows, tensor.cols
                ));
            }
            if !cols.is_multiple_of(tensor.kind.block_len()) {
                return inconsistent(format!(
                    "{} has rows of {cols} weights, which are no whole blocks of {}",
                    tensor.name, tensor.kind
                ));
            }
        }
        let mut roles = HashSet::with_capacity(tensors.len());
        for Tensor { name, role, .. } in &tensors {
            if !roles.insert(*role) {
                return inconsistent(format!("the file has two tensors for {role:?}"));
            }
            if matches!(role, Role::Block(index, _) if *index >= config.layers) {
                return inconsistent(format!(
                    "{name} is of a block beyond the model's {}",
                    config.layers
                ));
            }
        }
        let blocks = (0..config.layers)
            .flat_map(|index| BlockPart::ALL.map(|part| Role::Block(index, part)));
        let mut needed = [Role::Embedding, Role::OutputNorm]
            .into_iter()
            .chain(blocks);
        if let Some(role) = needed.find(|role| !roles.contains(role)) {
            return inconsistent(format!("the file has no tensor for {role:?}"));
        }
        tensors.sort_by_key(|tensor| tensor.offset);
        Ok(Self { config, tensors })
    }

    /// The plan of a GGUF file.
    ///
    /// # Errors
    /// [`LoadError::Unsupported`] when the architecture is not `llama` or uses something this engine
    /// lacks, [`LoadError::Inconsistent`] when the figures do not fit together.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, LoadError> {
        let config = gguf_config(gguf)?;
        gguf.check_supported()?;
        refuse_biases(gguf.tensors.iter().map(|info| info.name.as_str()))?;
        let named = gguf.tensors.iter().map(|info| (info.name.as_str(), info));
        let named: HashMap<_, _> = named.collect();
        let mut tensors = Vec::new();
        let mut take = |name: &str, role: Role| {
            let info = named.get(name).ok_or_else(|| missing(name))?;
            tensors.push(Tensor {
                name: info.name.clone(),
                role,
                kind: info.kind,
                rows: fitting(info.rows()),
                cols: fitting(info.row_len()),
                offset: info.offset,
            });
            Ok::<(), LoadError>(())
        };
        take("token_embd.weight", Role::Embedding)?;
        take("output_norm.weight", Role::OutputNorm)?;
        for (name, role) in [
            ("output.weight", Role::Head),
            ("rope_freqs.weight", Role::RopeDivisors),
        ] {
            if named.contains_key(name) {
                take(name, role)?;
            }
        }
        for index in 0..config.layers {
            for part in BlockPart::ALL {
                let name = format!("blk.{index}.{}.weight", part.gguf_name());
                take(&name, Role::Block(index, part))?;
            }
        }
        Self::new(config, tensors)
    }

    /// The plan of a safetensors file, or of several [joined](safetensors::Index::join), and the
    /// `config.json` beside it. Where the embeddings are the
    /// output matrix too, an output matrix in the file is left out.
    ///
    /// # Errors
    /// [`LoadError::Unsupported`] when a tensor is of a type that this engine does not read,
    /// [`LoadError::Inconsistent`] when one is missing or does not fit the configuration.
    pub fn from_safetensors(
        header: &safetensors::Header,
        hf: &HfConfig,
    ) -> Result<Self, LoadError> {
        refuse_biases(header.tensors.iter().map(|info| info.name.as_str()))?;
        let named = header.tensors.iter();
        let named: HashMap<_, _> = named.map(|info| (info.name.as_str(), info)).collect();
        let mut tensors = Vec::new();
        let mut take = |name: &str, role: Role| {
            let info = named.get(name).ok_or_else(|| missing(name))?;
            let kind = info.dtype.block_type().ok_or_else(|| {
                LoadError::Unsupported(format!(
                    "{name} is of type {}; this engine reads safetensors files of BF16, F16 or F32",
                    info.dtype
                ))
            })?;
            tensors.push(Tensor {
                name: info.name.clone(),
                role,
                kind,
                rows: fitting(info.rows()),
                cols: fitting(info.row_len()),
                offset: info.offset,
            });
            Ok::<(), LoadError>(())
        };
        take("model.embed_tokens.weight", Role::Embedding)?;
        take("model.norm.weight", Role::OutputNorm)?;
        if !hf.tied {
            take("lm_head.weight", Role::Head)?;
        }
        for index in 0..hf.config.layers {
            for part in BlockPart::ALL {
                let name = format!("model.layers.{index}.{}.weight", part.hf_name());
                take(&name, Role::Block(index, part))?;
            }
        }
        Self::new(hf.config.clone(), tensors)
    }

    /// The plan of a package of our shards, in the address space of all shards.
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] when the figures or tensors do not fit together.
    pub fn from_manifest(manifest: &Manifest) -> Result<Self, LoadError> {
        let wrong = |what: String| LoadError::Inconsistent(format!("model.json: {what}"));
        let config = Config::from_json(&manifest.config).map_err(wrong)?;
        if config.rope.pairing != Pairing::Adjacent {
            return Err(wrong("rotary pairs are not adjacent".to_owned()));
        }
        let mut tensors = Vec::with_capacity(manifest.tensors.len());
        for entry in &manifest.tensors {
            let role = Role::from_gguf_name(&entry.name)
                .ok_or_else(|| wrong(format!("tensor {} has no role in a model", entry.name)))?;
            tensors.push(Tensor {
                name: entry.name.clone(),
                role,
                kind: entry.kind,
                rows: fitting(entry.rows()),
                cols: fitting(entry.row_len()),
                offset: entry.offset,
            });
        }
        Self::new(config, tensors)
    }

    /// The tensors as the manifest of a package of shards lists them.
    pub fn entries(&self) -> Vec<Entry> {
        self.tensors
            .iter()
            .map(|tensor| Entry {
                name: tensor.role.gguf_name(),
                kind: tensor.kind,
                shape: match tensor.rows {
                    1 => vec![tensor.cols as u64],
                    rows => vec![rows as u64, tensor.cols as u64],
                },
                offset: tensor.offset,
            })
            .collect()
    }

    /// Number of weights, shared ones counted once.
    pub fn parameters(&self) -> u64 {
        let weights = |tensor: &Tensor| tensor.rows as u64 * tensor.cols as u64;
        self.tensors.iter().map(weights).sum()
    }

    /// How many tensors are of each type, the most frequent first.
    pub fn types(&self) -> Vec<(String, u32)> {
        let mut types: Vec<(String, u32)> = Vec::new();
        for tensor in &self.tensors {
            let name = tensor.kind.name();
            match types.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => types.push((name.to_owned(), 1)),
            }
        }
        types.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        types
    }

    /// Bytes of all tensors in the file.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(Tensor::bytes).sum()
    }

    /// Where the last tensor ends in the file.
    pub fn end(&self) -> u64 {
        self.tensors
            .iter()
            .map(|tensor| tensor.offset + tensor.bytes())
            .max()
            .unwrap_or(0)
    }
}

fn missing(name: &str) -> LoadError {
    LoadError::Inconsistent(format!("the file has no tensor {name}"))
}

/// A dimension as a size; one beyond this machine's sizes becomes one that no shape has.
fn fitting(dimension: u64) -> usize {
    usize::try_from(dimension).unwrap_or(usize::MAX)
}

/// The network adds no biases; a file that has them would be run wrongly.
fn refuse_biases<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), LoadError> {
    match names.find(|name| name.ends_with(".bias")) {
        Some(name) => Err(LoadError::Unsupported(format!(
            "this model cannot run here: it has biases ({name})"
        ))),
        None => Ok(()),
    }
}

/// Reads shape and constants from a GGUF header, apart from the rotary divisors, which are a tensor.
fn gguf_config(gguf: &Gguf) -> Result<Config, LoadError> {
    let architecture = gguf.architecture()?;
    if architecture != "llama" {
        return Err(LoadError::Unsupported(format!(
            "this file holds a model of architecture \"{architecture}\"; this engine runs \"llama\""
        )));
    }
    let size = |key: &str| -> Result<usize, LoadError> {
        let value = gguf.require_u64(key)?;
        match usize::try_from(value) {
            Ok(value) if (1..=1 << 24).contains(&value) => Ok(value),
            _ => Err(LoadError::Inconsistent(format!(
                "{key} is {value}, which cannot be"
            ))),
        }
    };
    let or = |key: &str, otherwise: usize| match gguf.optional_u64(key)? {
        Some(_) => size(key),
        None => Ok(otherwise),
    };
    let dim = size("llama.embedding_length")?;
    let heads = size("llama.attention.head_count")?;
    let head_dim = or("llama.attention.key_length", dim / heads)?;
    let experts = gguf.optional_u64("llama.expert_count")?.unwrap_or(0);
    if experts > 0 {
        return Err(LoadError::Unsupported(format!(
            "this model is a mixture of {experts} experts; this engine runs dense models"
        )));
    }
    let linear = match gguf.optional_str("llama.rope.scaling.type")? {
        None | Some("none") => 1.0,
        Some("linear") => gguf.require_f64("llama.rope.scaling.factor")?,
        Some(other) => {
            return Err(LoadError::Unsupported(format!(
                "this model scales positions by \"{other}\"; this engine knows \"linear\" and the \
                 Llama 3 frequencies"
            )));
        }
    };
    let table = "token_embd.weight";
    let table = gguf.tensor(table).ok_or_else(|| missing(table))?;
    let config = Config {
        layers: size("llama.block_count")?,
        dim,
        heads,
        kv_heads: or("llama.attention.head_count_kv", heads)?,
        head_dim,
        ffn: size("llama.feed_forward_length")?,
        vocab: fitting(table.rows()),
        norm_eps: gguf.require_f64("llama.attention.layer_norm_rms_epsilon")? as f32,
        context: size("llama.context_length")?,
        rope: Rope {
            theta: gguf
                .optional_f64("llama.rope.freq_base")?
                .unwrap_or(10_000.0),
            linear,
            divisors: None,
            pairing: Pairing::Adjacent,
        },
    };
    if or("llama.rope.dimension_count", head_dim)? != head_dim {
        return Err(LoadError::Unsupported(
            "this model cannot run here: only a part of each head is rotated".to_owned(),
        ));
    }
    config.check().map_err(LoadError::Unsupported)?;
    Ok(config)
}
