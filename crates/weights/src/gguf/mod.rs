//! GGUF, versions 2 and 3: the header of a model file.
//!
//! A GGUF file is a header (metadata and a table of tensors) followed by the tensors' bytes. The
//! header is parsed while it arrives: [`Parser`] says how many more bytes it needs and never asks
//! for a byte past the header's end, so that a streaming source can go straight on to the weights.
//!
//! Nothing in the file is believed: counts, lengths, dimensions and offsets are checked against
//! the file's size, against each other and against the limits below before memory is taken for
//! what they announce.

use indexmap::IndexMap;

use crate::block::{BlockType, Unsupported};
use crate::source::{ByteSource, SourceError};

mod error;
mod parser;
mod tokenizer;
mod vocabulary;

pub use crate::looks::Looks;
pub use error::GgufError;
pub use parser::{Parser, Progress};
pub use tokenizer::TokenizerParts;
pub use vocabulary::write_vocabulary;

/// Longest header that is read, in bytes. Real ones take a few MiB, nearly all of it vocabulary.
pub const MAX_HEADER_BYTES: u64 = 32 << 20;
/// Most metadata entries.
pub const MAX_METADATA: u64 = 1 << 16;
/// Most tensors.
pub const MAX_TENSORS: u64 = 1 << 16;
/// Longest metadata key and longest tensor name, in bytes.
pub const MAX_NAME_BYTES: u64 = 1 << 10;
/// Most dimensions of a tensor.
pub const MAX_DIMS: u32 = 4;
/// Deepest nesting of arrays.
pub const MAX_DEPTH: usize = 8;
/// Most bytes that one array of arrays may take.
pub const MAX_NESTED_BYTES: u64 = 1 << 16;
/// Largest alignment of tensor data.
pub const MAX_ALIGNMENT: u64 = 1 << 20;

/// The header of a GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Gguf {
    /// Format version, 2 or 3.
    pub version: u32,
    /// Metadata in file order.
    pub metadata: IndexMap<String, MetaValue>,
    /// Tensors in file order.
    pub tensors: Vec<TensorInfo>,
    /// Alignment of tensor data in bytes, a power of two.
    pub alignment: u64,
    /// Where tensor data begins, in bytes from the start of the file.
    pub data_start: u64,
}

/// One tensor's place and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Dimensions in GGUF order: the first is the length of a row (contiguous).
    pub dims: Vec<u64>,
    /// How the elements are stored.
    pub kind: BlockType,
    /// Position of the first byte, from the start of the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Weights per row.
    pub fn row_len(&self) -> u64 {
        self.dims.first().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all dimensions but the first.
    pub fn rows(&self) -> u64 {
        self.dims.iter().skip(1).product()
    }

    /// Number of weights.
    pub fn weights(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> u64 {
        self.row_len() / self.kind.block_len() as u64 * self.kind.block_bytes() as u64
    }

    /// Position just after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// A metadata value.
#[expect(missing_docs, reason = "the variants are the format's value types")]
#[derive(Clone, Debug, PartialEq)]
pub enum MetaValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// Text. Bytes that are not UTF-8 were replaced.
    Str(String),
    Array(MetaArray),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A metadata array; all elements have one type.
#[expect(missing_docs, reason = "the variants are the format's value types")]
#[derive(Clone, Debug, PartialEq)]
pub enum MetaArray {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Str(StringList),
    Nested(Vec<MetaArray>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl MetaArray {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Str(v) => v.len(),
            Self::Nested(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MetaValue {
    /// An unsigned integer, if this is an integer of any width that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::U64(v) => Some(v),
            Self::I8(v) => v.try_into().ok(),
            Self::I16(v) => v.try_into().ok(),
            Self::I32(v) => v.try_into().ok(),
            Self::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// A number, if this is a float of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(v) => Some(v.into()),
            Self::F64(v) => Some(v),
            _ => None,
        }
    }

    /// Text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(v) => Some(v),
            _ => None,
        }
    }

    /// A truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(v) => Some(v),
            _ => None,
        }
    }

    /// An array, if this is one.
    pub fn as_array(&self) -> Option<&MetaArray> {
        match self {
            Self::Array(v) => Some(v),
            _ => None,
        }
    }

    /// What kind of value this is, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) | Self::U16(_) | Self::U32(_) | Self::U64(_) => "an unsigned integer",
            Self::I8(_) | Self::I16(_) | Self::I32(_) | Self::I64(_) => "an integer",
            Self::F32(_) | Self::F64(_) => "a float",
            Self::Bool(_) => "a truth value",
            Self::Str(_) => "text",
            Self::Array(_) => "an array",
        }
    }
}

/// Many strings in one piece of memory: a vocabulary takes two allocations and not 128,000.
///
/// The strings are bytes as the file has them; they are usually but not necessarily UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringList {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl StringList {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1] as usize,
        };
        self.bytes.get(start..end)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// All strings as text, or the index of the first that is not UTF-8.
    pub fn to_strings(&self) -> Result<Vec<String>, usize> {
        self.iter()
            .enumerate()
            .map(|(index, bytes)| match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_owned()),
                Err(_) => Err(index),
            })
            .collect()
    }

    /// Callers keep the total below [`MAX_HEADER_BYTES`], which fits 32 bits.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for StringList {
    fn from_iter<I: IntoIterator<Item = T>>(strings: I) -> Self {
        let mut list = Self::default();
        for string in strings {
            list.push(string.as_ref());
        }
        list
    }
}

impl Gguf {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&MetaValue> {
        self.metadata.get(key)
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// `general.architecture`, such as `llama`.
    pub fn architecture(&self) -> Result<&str, GgufError> {
        self.require_str("general.architecture")
    }

    /// The text under `key`, or `None` if the file does not say. Another type is an error.
    pub fn optional_str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.optional(key, "text", MetaValue::as_str)
    }

    /// The text under `key`.
    pub fn require_str(&self, key: &str) -> Result<&str, GgufError> {
        require(key, self.optional_str(key)?)
    }

    /// The integer under `key`, or `None` if the file does not say. Another type is an error.
    pub fn optional_u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.optional(key, "an integer of at least 0", MetaValue::as_u64)
    }

    /// The integer under `key`.
    pub fn require_u64(&self, key: &str) -> Result<u64, GgufError> {
        require(key, self.optional_u64(key)?)
    }

    /// The float under `key`, or `None` if the file does not say. Another type is an error.
    pub fn optional_f64(&self, key: &str) -> Result<Option<f64>, GgufError> {
        self.optional(key, "a float", MetaValue::as_f64)
    }

    /// The float under `key`.
    pub fn require_f64(&self, key: &str) -> Result<f64, GgufError> {
        require(key, self.optional_f64(key)?)
    }

    /// The truth value under `key`, or `None` if the file does not say. Another type is an error.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.optional(key, "a truth value", MetaValue::as_bool)
    }

    fn optional<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&'a MetaValue) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(GgufError::WrongType {
                key: key.to_owned(),
                expected,
                found: value.type_name(),
            }),
        }
    }

    /// The first tensor whose type this crate cannot read, as an error that names both.
    pub fn check_supported(&self) -> Result<(), GgufError> {
        match self
            .tensors
            .iter()
            .find(|tensor| !tensor.kind.is_supported())
        {
            None => Ok(()),
            Some(tensor) => Err(GgufError::UnsupportedTensor {
                tensor: tensor.name.clone(),
                source: Unsupported { kind: tensor.kind },
            }),
        }
    }
}

fn require<T>(key: &str, value: Option<T>) -> Result<T, GgufError> {
    value.ok_or_else(|| GgufError::MissingKey {
        key: key.to_owned(),
    })
}

/// What [`parse`] found.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The header goes on: at least so many bytes from the start of the file are needed.
    Need(u64),
    /// The header is complete.
    Done(Gguf),
}

/// Parses a header from the first bytes of a file of `file_size` bytes.
///
/// For a header that arrives in pieces [`Parser`] avoids starting over.
pub fn parse(prefix: &[u8], file_size: Option<u64>) -> Result<Step, GgufError> {
    let mut parser = Parser::new(file_size);
    match parser.advance(prefix)? {
        Progress::Need(bytes) => Ok(Step::Need(parser.position() + bytes)),
        Progress::Done(gguf) => Ok(Step::Done(gguf)),
    }
}

/// Why a header could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HeaderError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes are no GGUF header, or not one that can be used.
    #[error("{name}: {error}")]
    Gguf {
        /// The source.
        name: String,
        /// What is wrong.
        #[source]
        error: GgufError,
    },
}

/// Reads the header of the GGUF file in `source`, and not a byte more.
pub async fn read_header(source: &mut impl ByteSource) -> Result<Gguf, HeaderError> {
    /// Reading less than this at a time is not worth an answer from the parser.
    const FIRST: u64 = 64;

    let mut window = Vec::new();
    // The first read lets an HTTP source learn the size.
    let first = source.size().map_or(FIRST, |size| size.min(FIRST));
    source.read(0, &mut window, first as usize).await?;
    let name = source.name();
    let mut parser = Parser::new(source.size());
    loop {
        let before = parser.position();
        let progress = parser.advance(&window).map_err(|error| HeaderError::Gguf {
            name: name.clone(),
            error,
        })?;
        match progress {
            Progress::Done(gguf) => return Ok(gguf),
            Progress::Need(bytes) => {
                window.drain(..(parser.position() - before) as usize);
                let have = window.len() as u64;
                // The parser has checked `bytes` against the limits.
                let more = bytes.saturating_sub(have) as usize;
                let at = parser.position() + have;
                source.read(at, &mut window, more).await?;
            }
        }
    }
}
