//! Safetensors: the header of one file, and the index of several.
//!
//! A safetensors file is the length of a JSON header in eight bytes, the header (each tensor's type,
//! shape and place) and the tensors' bytes. The format asks that these bytes are covered by tensors
//! without holes or overlaps.
//!
//! Nothing in the file is believed: the header's length, counts, shapes and places are checked against
//! the file's size, against each other and against the limits below before memory is taken for what
//! they announce.
//!
//! Source: the format's description in the `safetensors` repository.

use std::fmt;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;

use crate::block::BlockType;
use crate::looks::Looks;
use crate::source::ByteSource;

mod error;
mod index;
mod json;

pub use error::{HeaderError, SafetensorsError};
pub use index::{INDEX_FILE, Index, MAX_FILES, MAX_INDEX_BYTES};
use json::{Entry, Table};

/// Longest header that is read, in bytes. Real ones take some hundred KiB at most.
pub const MAX_HEADER_BYTES: u64 = 16 << 20;
/// Most tensors.
pub const MAX_TENSORS: usize = 1 << 16;
/// Longest tensor name, in bytes.
pub const MAX_NAME_BYTES: usize = 1 << 10;
/// Most dimensions of a tensor.
pub const MAX_DIMS: usize = 8;

/// Bytes in front of the JSON header.
const LENGTH_BYTES: u64 = 8;

/// The header of a safetensors file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tensors in the order of their bytes.
    pub tensors: Vec<TensorInfo>,
    /// Where tensor data begins, in bytes from the start of the file.
    pub data_start: u64,
}

/// One tensor's place and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Dimensions: the last is the length of a row (contiguous).
    pub shape: Vec<u64>,
    /// How the elements are stored.
    pub dtype: Dtype,
    /// Position of the first byte, from the start of the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Elements per row.
    pub fn row_len(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all dimensions but the last.
    pub fn rows(&self) -> u64 {
        self.shape.iter().rev().skip(1).product()
    }

    /// Position just after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// The element types of the format that take whole bytes.
#[expect(
    non_camel_case_types,
    missing_docs,
    reason = "the variants carry the format's own names"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Dtype {
    BOOL,
    U8,
    I8,
    F8_E5M2,
    F8_E4M3,
    F8_E8M0,
    I16,
    U16,
    F16,
    BF16,
    I32,
    U32,
    F32,
    I64,
    U64,
    F64,
    C64,
}

impl Dtype {
    fn from_name(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// Bytes per element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::BOOL | Self::U8 | Self::I8 => 1,
            Self::F8_E5M2 | Self::F8_E4M3 | Self::F8_E8M0 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 => 8,
        }
    }

    /// The type of weights that are stored so; `None` for what [`crate::codec`] does not read.
    pub fn block_type(self) -> Option<BlockType> {
        match self {
            Self::F16 => Some(BlockType::F16),
            Self::BF16 => Some(BlockType::BF16),
            Self::F32 => Some(BlockType::F32),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Header {
    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Where the last tensor ends, in bytes from the start of the file: the size of the file.
    pub fn end(&self) -> u64 {
        let ends = self.tensors.iter().map(TensorInfo::end);
        ends.max().unwrap_or(self.data_start)
    }
}

fn inconsistent<T>(what: String) -> Result<T, SafetensorsError> {
    Err(SafetensorsError::Inconsistent { what })
}

fn check_limit(what: &str, value: u64, limit: u64) -> Result<(), SafetensorsError> {
    if value <= limit {
        return Ok(());
    }
    Err(SafetensorsError::Limit {
        what: what.to_owned(),
        value,
        limit,
    })
}

/// The length of the JSON header, from the first bytes of a file of `file_size` bytes.
///
/// # Errors
/// [`SafetensorsError`] when this cannot be such a file, is cut short, or has a header beyond
/// [`MAX_HEADER_BYTES`].
pub fn header_bytes(prefix: &[u8], file_size: Option<u64>) -> Result<u64, SafetensorsError> {
    let (Some(length), Some(b'{')) = (prefix.first_chunk(), prefix.get(8)) else {
        let looks = Looks::of(&prefix[..prefix.len().min(64)]);
        return Err(SafetensorsError::NotSafetensors { looks });
    };
    let length = u64::from_le_bytes(*length);
    check_limit("the size of the header", length, MAX_HEADER_BYTES)?;
    let needs = LENGTH_BYTES + length;
    match file_size {
        Some(has) if has < needs => Err(SafetensorsError::HeaderCutShort { needs, has }),
        _ => Ok(length),
    }
}

/// Parses a JSON header of a file of `file_size` bytes, where that is known.
///
/// # Errors
/// [`SafetensorsError`], as soon as something is wrong.
pub fn parse(json: &[u8], file_size: Option<u64>) -> Result<Header, SafetensorsError> {
    let Table(entries) = serde_json::from_slice(json).map_err(json_error)?;
    let data_start = LENGTH_BYTES + json.len() as u64;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        tensors.push(tensor(name, entry, data_start)?);
    }
    check_names(&tensors)?;
    tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    check_places(&tensors, data_start, file_size)?;
    Ok(Header {
        tensors,
        data_start,
    })
}

fn json_error(error: serde_json::Error) -> SafetensorsError {
    // The message may repeat a part of the file, of any length.
    let detail = error.to_string().chars().take(200).collect();
    SafetensorsError::Json { detail }
}

/// One entry, with its size checked.
fn tensor(name: String, entry: Entry, data_start: u64) -> Result<TensorInfo, SafetensorsError> {
    let limit = MAX_NAME_BYTES as u64;
    check_limit("the length of a tensor's name", name.len() as u64, limit)?;
    let Some(dtype) = Dtype::from_name(&entry.dtype) else {
        let dtype = entry.dtype.chars().take(40).collect();
        return Err(SafetensorsError::UnknownType {
            tensor: name,
            dtype,
        });
    };
    let shape = entry.shape.0;
    let [begin, end] = entry.data_offsets;
    let needs = shape
        .iter()
        .try_fold(dtype.bytes(), |bytes, dim| bytes.checked_mul(*dim));
    let place = end.checked_sub(begin).zip(begin.checked_add(data_start));
    let (Some(needs), Some((bytes, offset)), Some(_)) = (needs, place, end.checked_add(data_start))
    else {
        return inconsistent(format!(
            "tensor {name} cannot have the shape {shape:?} at {begin} to {end}"
        ));
    };
    if needs != bytes {
        return inconsistent(format!(
            "tensor {name} of {dtype} and shape {shape:?} takes {needs} bytes, but has {bytes}"
        ));
    }
    Ok(TensorInfo {
        name,
        shape,
        dtype,
        offset,
        bytes,
    })
}

fn check_names(tensors: &[TensorInfo]) -> Result<(), SafetensorsError> {
    let mut names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => inconsistent(format!("tensor {} is there twice", pair[0])),
        None => Ok(()),
    }
}

/// Tensors follow one another from `data_start` to the end of the file.
fn check_places(
    tensors: &[TensorInfo],
    data_start: u64,
    file_size: Option<u64>,
) -> Result<(), SafetensorsError> {
    let mut reached = data_start;
    for tensor in tensors {
        let name = &tensor.name;
        if tensor.offset < reached {
            return inconsistent(format!("tensor {name} overlaps the one before it"));
        }
        if tensor.offset > reached {
            return inconsistent(format!("there is a hole in front of tensor {name}"));
        }
        reached = tensor.end();
        if let Some(has) = file_size
            && reached > has
        {
            return Err(SafetensorsError::TensorCutShort {
                tensor: name.clone(),
                needs: reached,
                has,
            });
        }
    }
    match file_size {
        Some(has) if has > reached => inconsistent(format!(
            "the tensors end at byte {reached}, but the file has {has}"
        )),
        _ => Ok(()),
    }
}

/// Reads the header of the safetensors file in `source`, and not a byte more unless the file is tiny.
///
/// # Errors
/// [`HeaderError`]: of the source or of the header.
pub async fn read_header(source: &mut impl ByteSource) -> Result<Header, HeaderError> {
    /// Enough to tell what the file is, and less than the shortest header of a model.
    const FIRST: u64 = 64;

    let mut bytes = Vec::new();
    // The first read lets an HTTP source learn the size.
    let first = source.size().map_or(FIRST, |size| size.min(FIRST));
    source.read(0, &mut bytes, first as usize).await?;
    let name = source.name();
    let wrong = |error| HeaderError::Safetensors {
        name: name.clone(),
        error,
    };
    let length = header_bytes(&bytes, source.size()).map_err(wrong)?;
    let end = LENGTH_BYTES + length;
    // The end has passed its limits.
    if end > first {
        source
            .read(first, &mut bytes, (end - first) as usize)
            .await?;
    }
    parse(&bytes[LENGTH_BYTES as usize..end as usize], source.size()).map_err(wrong)
}
