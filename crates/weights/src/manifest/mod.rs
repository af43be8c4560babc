//! `model.json`: what a package of our shards holds.
//!
//! The tensors of a package lie in one address space, which is cut into shards of some MiB at any byte.
//! Each shard has its SHA-256 here, so a reader takes one shard at a time and believes none unchecked.
//! `docs/shards.md` describes the format, `public/schemas/model.schema.json` is its JSON Schema.
//!
//! Nothing in the file is believed: counts, sizes, places and names are checked against each other and
//! against the limits below.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::block::BlockType;
use crate::json;
use crate::pieces::MAX_PIECE_BYTES;
use crate::source::folder::is_plain_name;

mod parse;

/// What `format` says.
pub const FORMAT: &str = "agenticml-shards";
/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;
/// The name of the file in its package.
pub const FILE: &str = "model.json";

/// Longest text that is read, in bytes. That of an 8B model takes 50 KiB.
pub const MAX_BYTES: u64 = 8 << 20;
/// Most tensors.
pub const MAX_TENSORS: usize = 1 << 14;
/// Most shards.
pub const MAX_SHARDS: usize = 1 << 14;
/// Largest shard, in bytes: a reader holds one at a time.
pub const MAX_SHARD_BYTES: u64 = MAX_PIECE_BYTES;
/// Largest tokenizer, in bytes.
pub const MAX_TOKENIZER_BYTES: u64 = 64 << 20;
/// Longest tensor name, recipe or kind, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Longest chat template, in bytes.
pub const MAX_TEMPLATE_BYTES: usize = 1 << 20;
/// Longest other text, such as a licence's name, in bytes.
pub const MAX_TEXT_BYTES: usize = 4 << 10;
/// Most values of `config`, those in lists counted.
pub const MAX_CONFIG_VALUES: u32 = 4 << 10;
/// Most tokens that end a text.
pub const MAX_EOS: usize = 64;

/// A package of shards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// The model's name.
    pub name: String,
    /// The model's licence, where the source told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<Licence>,
    /// How the weights were quantized, such as `q4`.
    pub recipe: String,
    /// Shape and constants: `model::Config` as JSON.
    pub config: Map<String, Value>,
    /// The tensors in the order of their bytes.
    pub tensors: Vec<Entry>,
    /// The shards in order.
    pub shards: Vec<Shard>,
    /// The tokenizer.
    pub tokenizer: Shard,
    /// The chat template (Jinja).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Tokens with a task.
    pub special: Special,
}

/// What may be done with a model, as its publisher says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Licence {
    /// Its name.
    pub name: String,
    /// Where its text is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// What must be shown with the model, such as "Built with Llama".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<String>,
}

/// Tokens with a task, where the files beside the weights tell them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Special {
    /// Beginning of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos: Option<u32>,
    /// What ends a text or a turn.
    #[serde(default)]
    pub eos: Vec<u32>,
    /// Whether a text is to begin with `bos`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_bos: Option<bool>,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its name in a GGUF file, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// How its weights are stored; written as ggml's name.
    #[serde(serialize_with = "parse::write_kind")]
    pub kind: BlockType,
    /// Rows and weights per row, or the length of a vector.
    pub shape: Vec<u64>,
    /// Where it begins in the address space of all shards, in bytes.
    pub offset: u64,
}

impl Entry {
    /// Number of rows; 1 for a vector.
    pub fn rows(&self) -> u64 {
        match self.shape[..] {
            [rows, _] => rows,
            _ => 1,
        }
    }

    /// Weights per row.
    pub fn row_len(&self) -> u64 {
        self.shape.last().copied().unwrap_or(0)
    }

    /// Number of bytes; `None` for a shape that is none.
    pub fn bytes(&self) -> Option<u64> {
        if !matches!(self.shape.len(), 1 | 2) || self.shape.contains(&0) {
            return None;
        }
        self.kind
            .bytes_for(self.row_len())?
            .checked_mul(self.rows())
    }
}

/// A file of the package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Its name.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256; written in hexadecimal digits.
    #[serde(serialize_with = "parse::write_hash")]
    pub sha256: [u8; 32],
}

/// Why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Another file.
    #[error("this is no package of {FORMAT}: {0}")]
    Other(String),
    /// A version that is not known here.
    #[error(
        "this package is of version {version}, but this program reads versions up to {VERSION}; \
         update it (reload the page), or convert the model with this version"
    )]
    Version {
        /// What the file says.
        version: u64,
    },
    /// Something is larger than it may be.
    #[error("model.json: {what} is {value}, more than the limit of {limit}")]
    Limit {
        /// What is too large.
        what: String,
        /// Its size.
        value: u64,
        /// The most that is read.
        limit: u64,
    },
    /// The text is not what the format asks for.
    #[error("model.json cannot be read ({0}); it is damaged: fetch it again")]
    Json(String),
    /// Two parts contradict each other.
    #[error("model.json: {0}; it is damaged: fetch it again, or convert the model again")]
    Inconsistent(String),
}

fn inconsistent<T>(what: String) -> Result<T, ManifestError> {
    Err(ManifestError::Inconsistent(what))
}

fn check_limit(what: &str, value: u64, limit: u64) -> Result<(), ManifestError> {
    if value <= limit {
        return Ok(());
    }
    Err(ManifestError::Limit {
        what: what.to_owned(),
        value,
        limit,
    })
}

impl Manifest {
    /// Reads the text of a `model.json` and checks it.
    ///
    /// # Errors
    /// [`ManifestError`], as soon as something is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        check_limit("its length", text.len() as u64, MAX_BYTES)?;
        let manifest = parse::manifest(text)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The text of the file. The same manifest always gives the same text.
    ///
    /// # Errors
    /// What [`Manifest::check`] finds: a manifest that could not be read is not written.
    pub fn to_json(&self) -> Result<String, ManifestError> {
        self.check()?;
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| ManifestError::Json(json::message(&error)))?;
        text.push('\n');
        check_limit("its length", text.len() as u64, MAX_BYTES)?;
        Ok(text)
    }

    /// Bytes of all shards.
    pub fn total(&self) -> u64 {
        // Checked against the limits, so there is no overflow.
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// Checks what the types do not say.
    ///
    /// # Errors
    /// [`ManifestError`] for the first thing that is wrong.
    pub fn check(&self) -> Result<(), ManifestError> {
        if self.format != FORMAT || self.version != VERSION {
            return inconsistent("format or version are others".to_owned());
        }
        self.check_texts()?;
        let total = self.check_files()?;
        self.check_tensors(total)
    }

    fn check_texts(&self) -> Result<(), ManifestError> {
        let text =
            |what, text: &str, limit: usize| check_limit(what, text.len() as u64, limit as u64);
        text("the length of name", &self.name, MAX_TEXT_BYTES)?;
        text("the length of recipe", &self.recipe, MAX_NAME_BYTES)?;
        if let Some(template) = &self.template {
            text("the length of template", template, MAX_TEMPLATE_BYTES)?;
        }
        if let Some(licence) = &self.licence {
            let parts = [&licence.link, &licence.attribution];
            for part in parts.into_iter().flatten().chain([&licence.name]) {
                text("the length of a text of licence", part, MAX_TEXT_BYTES)?;
            }
        }
        let eos = self.special.eos.len() as u64;
        check_limit("the number of tokens in special.eos", eos, MAX_EOS as u64)
    }

    /// Checks the shards and the tokenizer; returns the size of all shards.
    fn check_files(&self) -> Result<u64, ManifestError> {
        let shards = self.shards.len() as u64;
        check_limit("the number of shards", shards, MAX_SHARDS as u64)?;
        let mut names = HashSet::from([FILE]);
        for shard in self.shards.iter().chain([&self.tokenizer]) {
            let file = shard.file.as_str();
            if !is_plain_name(file) {
                let file: String = file.chars().take(80).collect();
                return inconsistent(format!("{file:?} is not the name of a file beside it"));
            }
            if !names.insert(file) {
                return inconsistent(format!("the file {file} is listed twice"));
            }
            if shard.bytes == 0 {
                return inconsistent(format!("the file {file} has no bytes"));
            }
        }
        for shard in &self.shards {
            check_limit("the size of a shard", shard.bytes, MAX_SHARD_BYTES)?;
        }
        let tokenizer = &self.tokenizer;
        check_limit(
            "the size of the tokenizer",
            tokenizer.bytes,
            MAX_TOKENIZER_BYTES,
        )?;
        if !tokenizer.file.ends_with(".json") && !tokenizer.file.ends_with(".gguf") {
            return inconsistent(format!(
                "the tokenizer {} is neither a .json nor a .gguf file",
                tokenizer.file
            ));
        }
        Ok(self.total())
    }

    fn check_tensors(&self, total: u64) -> Result<(), ManifestError> {
        let count = self.tensors.len() as u64;
        check_limit("the number of tensors", count, MAX_TENSORS as u64)?;
        let mut names = HashSet::new();
        let mut places = Vec::with_capacity(self.tensors.len());
        for tensor in &self.tensors {
            let name = tensor.name.as_str();
            check_limit(
                "the length of a tensor's name",
                name.len() as u64,
                MAX_NAME_BYTES as u64,
            )?;
            if !tensor.kind.is_supported() {
                return inconsistent(format!("tensor {name} is of type {}", tensor.kind));
            }
            let Some(bytes) = tensor.bytes() else {
                return inconsistent(format!(
                    "tensor {name} cannot have the shape {:?} in blocks of {}",
                    tensor.shape, tensor.kind
                ));
            };
            let end = tensor.offset.checked_add(bytes).filter(|end| *end <= total);
            let Some(end) = end else {
                return inconsistent(format!(
                    "tensor {name} takes {bytes} bytes from {} on, but the shards have {total}",
                    tensor.offset
                ));
            };
            if !names.insert(name) {
                return inconsistent(format!("tensor {name} is there twice"));
            }
            places.push((tensor.offset, end, name));
        }
        places.sort_unstable();
        match places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            Some(pair) => inconsistent(format!("tensors {} and {} overlap", pair[0].2, pair[1].2)),
            None => Ok(()),
        }
    }
}
