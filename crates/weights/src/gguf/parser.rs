//! The resumable header parser.

use indexmap::IndexMap;
use indexmap::map::Entry;

use super::error::GgufError;
use super::{
    Gguf, MAX_ALIGNMENT, MAX_DEPTH, MAX_DIMS, MAX_HEADER_BYTES, MAX_METADATA, MAX_NAME_BYTES,
    MAX_NESTED_BYTES, MAX_TENSORS, MetaArray, MetaValue, StringList, TensorInfo,
};
use crate::block::BlockType;
use crate::looks::Looks;

/// Bytes of the shortest metadata entry: an empty key, a type and one byte.
const MIN_METADATA_BYTES: u64 = 8 + 4 + 1;
/// Bytes of the shortest tensor entry: an empty name and one dimension.
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;
/// Alignment of tensor data where the file does not state one.
const DEFAULT_ALIGNMENT: u64 = 32;

/// How far a [`Parser`] got.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The header goes on: at least so many bytes from [`Parser::position`] are needed.
    Need(u64),
    /// The header is complete.
    Done(Gguf),
}

/// Parses a GGUF header that arrives in pieces.
///
/// Bytes before [`Parser::position`] are done with and may be dropped. The parser never asks for
/// bytes past the header's end.
#[derive(Debug)]
pub struct Parser {
    file_size: Option<u64>,
    position: u64,
    state: State,
    version: u32,
    tensors_left: u64,
    metadata_left: u64,
    metadata: IndexMap<String, MetaValue>,
    tensors: IndexMap<String, RawTensor>,
}

#[derive(Debug)]
enum State {
    Start,
    Metadata,
    Strings {
        key: String,
        left: u64,
        list: StringList,
    },
    Tensors,
}

/// A tensor entry as the file has it: the offset counts from the start of tensor data.
#[derive(Debug)]
struct RawTensor {
    dims: Vec<u64>,
    kind: BlockType,
    offset: u64,
    bytes: u64,
    /// Position of the entry itself, for messages.
    entry: u64,
}

/// Why parsing paused.
enum Halt {
    /// The item needs the window up to `end` (counted from the window's start).
    Short {
        end: u64,
        what: String,
    },
    Wrong(GgufError),
}

impl From<GgufError> for Halt {
    fn from(error: GgufError) -> Self {
        Self::Wrong(error)
    }
}

type Parsed<T> = Result<T, Halt>;

/// A place in the bytes at hand.
struct Cursor<'a> {
    window: &'a [u8],
    at: usize,
    /// Position of the window's first byte in the file.
    base: u64,
}

impl<'a> Cursor<'a> {
    fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    fn take(&mut self, len: u64, what: &str) -> Parsed<&'a [u8]> {
        let end = (self.at as u64).saturating_add(len);
        if end > self.window.len() as u64 {
            return Err(Halt::Short {
                end,
                what: what.to_owned(),
            });
        }
        let bytes = &self.window[self.at..end as usize];
        self.at = end as usize;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Parsed<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    fn u32(&mut self, what: &str) -> Parsed<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Parsed<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A length in front of bytes.
    fn sized(&mut self, limit: u64, what: &str) -> Parsed<&'a [u8]> {
        let offset = self.position();
        let len = self.u64(what)?;
        check_limit(&format!("the length of {what}"), len, limit, offset)?;
        self.take(len, what)
    }

    fn name(&mut self, what: &str) -> Parsed<&'a str> {
        let offset = self.position();
        let bytes = self.sized(MAX_NAME_BYTES, what)?;
        match std::str::from_utf8(bytes) {
            Ok(name) if !name.is_empty() => Ok(name),
            _ => Err(invalid(offset, format!("{what} is empty or not text")).into()),
        }
    }
}

fn invalid(offset: u64, what: String) -> GgufError {
    GgufError::Invalid { what, offset }
}

fn check_limit(what: &str, value: u64, limit: u64, offset: u64) -> Result<(), GgufError> {
    if value <= limit {
        return Ok(());
    }
    Err(GgufError::Limit {
        what: what.to_owned(),
        value,
        limit,
        offset,
    })
}

/// The format's value type numbers.
pub(super) mod value_type {
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STR: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// Bytes of one element, or of the shortest one for types of varying size.
fn min_bytes(kind: u32) -> Option<u64> {
    use value_type::*;
    Some(match kind {
        U8 | I8 | BOOL => 1,
        U16 | I16 => 2,
        U32 | I32 | F32 => 4,
        U64 | I64 | F64 | STR => 8,
        ARRAY => 4 + 8,
        _ => return None,
    })
}

/// Little-endian scalars of `N` bytes each.
fn scalars<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().map(|chunk| read(*chunk)).collect()
}

fn truth(byte: u8) -> bool {
    byte != 0
}

impl Parser {
    /// A parser for a file of `file_size` bytes, where that is known.
    pub fn new(file_size: Option<u64>) -> Self {
        Self {
            file_size,
            position: 0,
            state: State::Start,
            version: 0,
            tensors_left: 0,
            metadata_left: 0,
            metadata: IndexMap::new(),
            tensors: IndexMap::new(),
        }
    }

    /// Where the next window must begin, in bytes from the start of the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on with `window`, the bytes of the file from [`Parser::position`] on.
    ///
    /// Call it until it returns [`Progress::Done`]; a parser that has finished or failed cannot be
    /// used again.
    pub fn advance(&mut self, window: &[u8]) -> Result<Progress, GgufError> {
        let mut cursor = Cursor {
            window,
            at: 0,
            base: self.position,
        };
        loop {
            match self.step(&mut cursor) {
                Ok(finished) => {
                    self.position = cursor.position();
                    if finished {
                        return self.finish().map(Progress::Done);
                    }
                }
                Err(Halt::Wrong(error)) => return Err(error),
                Err(Halt::Short { end, what }) => {
                    let needs = cursor
                        .base
                        .saturating_add(end)
                        .saturating_add(self.rest_bytes());
                    self.check_room(needs, what)?;
                    return Ok(Progress::Need(needs - self.position));
                }
            }
        }
    }

    /// The bytes that the items after the current one take at least.
    fn rest_bytes(&self) -> u64 {
        let (strings, metadata, tensors) = match &self.state {
            State::Start => (0, 0, 0),
            State::Metadata => (0, self.metadata_left.saturating_sub(1), self.tensors_left),
            State::Strings { left, .. } => (
                left.saturating_sub(1),
                self.metadata_left,
                self.tensors_left,
            ),
            State::Tensors => (0, 0, self.tensors_left.saturating_sub(1)),
        };
        // The string count has passed `check_room`, the other two their limits: no overflow.
        strings * 8 + metadata * MIN_METADATA_BYTES + tensors * MIN_TENSOR_BYTES
    }

    /// Refuses a need that the file or the limit cannot satisfy, before anyone takes memory for it.
    fn check_room(&self, needs: u64, what: String) -> Result<(), GgufError> {
        if let Some(has) = self.file_size
            && needs > has
        {
            return Err(match self.state {
                State::Start if has < 4 => GgufError::NotGguf {
                    looks: Looks::Short,
                },
                _ => GgufError::HeaderCutShort { what, needs, has },
            });
        }
        check_limit(
            "the size of the header",
            needs,
            MAX_HEADER_BYTES,
            self.position,
        )
    }

    /// Parses one item; true when the header is complete.
    fn step(&mut self, cursor: &mut Cursor<'_>) -> Parsed<bool> {
        match &mut self.state {
            State::Start => {
                self.start(cursor)?;
                self.state = State::Metadata;
            }
            State::Metadata if self.metadata_left == 0 => self.state = State::Tensors,
            State::Metadata => self.metadata_entry(cursor)?,
            State::Strings { key, left, list } => {
                if *left == 0 {
                    let value = MetaValue::Array(MetaArray::Str(std::mem::take(list)));
                    self.metadata.insert(std::mem::take(key), value);
                    self.state = State::Metadata;
                } else {
                    // The name is made only when the message is.
                    let string = match cursor.sized(MAX_HEADER_BYTES, "") {
                        Ok(string) => string,
                        Err(Halt::Short { end, .. }) => {
                            let what = format!("the list {key}");
                            return Err(Halt::Short { end, what });
                        }
                        Err(wrong) => return Err(wrong),
                    };
                    list.push(string);
                    *left -= 1;
                }
            }
            State::Tensors if self.tensors_left == 0 => return Ok(true),
            State::Tensors => self.tensor_entry(cursor)?,
        }
        Ok(false)
    }

    fn start(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let magic: [u8; 4] = cursor.array("the magic number")?;
        if &magic != b"GGUF" {
            let first = &cursor.window[..cursor.window.len().min(64)];
            let looks = Looks::of(first);
            return Err(GgufError::NotGguf { looks }.into());
        }
        let version = cursor.u32("the version")?;
        match version {
            2 | 3 => self.version = version,
            // A big-endian file's small version number lands in the high bytes.
            _ if version.swap_bytes() <= 0xffff => return Err(GgufError::BigEndian.into()),
            _ => return Err(GgufError::Version { version }.into()),
        }
        let offset = cursor.position();
        self.tensors_left = cursor.u64("the number of tensors")?;
        check_limit(
            "the number of tensors",
            self.tensors_left,
            MAX_TENSORS,
            offset,
        )?;
        let offset = cursor.position();
        self.metadata_left = cursor.u64("the number of metadata entries")?;
        check_limit(
            "the number of metadata entries",
            self.metadata_left,
            MAX_METADATA,
            offset,
        )?;
        let needs = cursor.position()
            + self.metadata_left * MIN_METADATA_BYTES
            + self.tensors_left * MIN_TENSOR_BYTES;
        self.check_room(needs, "the list of metadata and tensors".to_owned())?;
        Ok(())
    }

    fn metadata_entry(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let offset = cursor.position();
        let key = cursor.name("a metadata key")?;
        if self.metadata.contains_key(key) {
            return Err(invalid(offset, format!("the metadata key {key} occurs twice")).into());
        }
        let kind = cursor.u32(key)?;
        if kind == value_type::ARRAY {
            let (element, count) = array_head(cursor, key)?;
            if element == value_type::STR {
                let room = cursor.position().saturating_add(count.saturating_mul(8));
                self.check_room(room, format!("the list {key}"))?;
                self.metadata_left -= 1;
                self.state = State::Strings {
                    key: key.to_owned(),
                    left: count,
                    list: StringList::default(),
                };
                return Ok(());
            }
            let array = array_body(cursor, key, element, count, offset, 0)?;
            self.metadata
                .insert(key.to_owned(), MetaValue::Array(array));
        } else {
            let value = scalar_value(cursor, key, kind)?;
            self.metadata.insert(key.to_owned(), value);
        }
        self.metadata_left -= 1;
        Ok(())
    }

    fn tensor_entry(&mut self, cursor: &mut Cursor<'_>) -> Parsed<()> {
        let entry = cursor.position();
        let name = cursor.name("a tensor's name")?;
        let what = || format!("tensor {name}");
        let count = cursor.u32(name)?;
        if count == 0 || count > MAX_DIMS {
            let what = format!("{} has {count} dimensions, not 1 to {MAX_DIMS}", what());
            return Err(invalid(entry, what).into());
        }
        let mut dims = Vec::with_capacity(count as usize);
        for _ in 0..count {
            dims.push(cursor.u64(name)?);
        }
        let id = cursor.u32(name)?;
        let offset = cursor.u64(name)?;
        let kind = BlockType::from_ggml_id(id).ok_or_else(|| GgufError::UnknownType {
            tensor: name.to_owned(),
            id,
            offset: entry,
        })?;
        let weights = dims
            .iter()
            .try_fold(1u64, |product, dim| product.checked_mul(*dim))
            .filter(|weights| *weights != 0);
        let bytes = weights
            .filter(|_| dims[0].is_multiple_of(kind.block_len() as u64))
            .and_then(|weights| kind.bytes_for(weights));
        let Some(bytes) = bytes else {
            let what = format!(
                "{} has impossible dimensions {dims:?} for type {kind}",
                what()
            );
            return Err(invalid(entry, what).into());
        };
        let tensor = RawTensor {
            dims,
            kind,
            offset,
            bytes,
            entry,
        };
        match self.tensors.entry(name.to_owned()) {
            Entry::Vacant(vacant) => vacant.insert(tensor),
            Entry::Occupied(_) => {
                return Err(invalid(entry, format!("{} occurs twice", what())).into());
            }
        };
        self.tensors_left -= 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<Gguf, GgufError> {
        let alignment = self.alignment()?;
        let data_start = self.position.next_multiple_of(alignment);
        let mut tensors = Vec::with_capacity(self.tensors.len());
        for (name, raw) in std::mem::take(&mut self.tensors) {
            let start = data_start.checked_add(raw.offset);
            let end = start.and_then(|start| start.checked_add(raw.bytes));
            let (Some(offset), Some(_)) = (start, end) else {
                let what = format!("tensor {name} has the impossible offset {}", raw.offset);
                return Err(invalid(raw.entry, what));
            };
            if !raw.offset.is_multiple_of(alignment) {
                let what = format!(
                    "tensor {name} has the offset {}, not a multiple of {alignment}",
                    raw.offset
                );
                return Err(invalid(raw.entry, what));
            }
            tensors.push(TensorInfo {
                name,
                dims: raw.dims,
                kind: raw.kind,
                offset,
                bytes: raw.bytes,
            });
        }
        check_places(&tensors, self.file_size)?;
        Ok(Gguf {
            version: self.version,
            metadata: std::mem::take(&mut self.metadata),
            tensors,
            alignment,
            data_start,
        })
    }

    fn alignment(&self) -> Result<u64, GgufError> {
        let key = "general.alignment";
        let Some(value) = self.metadata.get(key) else {
            return Ok(DEFAULT_ALIGNMENT);
        };
        match value.as_u64() {
            Some(bytes) if bytes.is_power_of_two() && bytes <= MAX_ALIGNMENT => Ok(bytes),
            _ => Err(GgufError::WrongType {
                key: key.to_owned(),
                expected: "a power of two up to 1 MiB",
                found: "something else",
            }),
        }
    }
}

/// Tensors must not overlap and must end within the file.
fn check_places(tensors: &[TensorInfo], file_size: Option<u64>) -> Result<(), GgufError> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        if pair[0].end() > pair[1].offset {
            let what = format!("tensors {} and {} overlap", pair[0].name, pair[1].name);
            return Err(invalid(pair[1].offset, what));
        }
    }
    let cut = file_size.and_then(|has| Some((order.iter().find(|t| t.end() > has)?, has)));
    match cut {
        None => Ok(()),
        Some((tensor, has)) => Err(GgufError::TensorCutShort {
            tensor: tensor.name.clone(),
            needs: tensor.end(),
            has,
        }),
    }
}

fn array_head(cursor: &mut Cursor<'_>, key: &str) -> Parsed<(u32, u64)> {
    Ok((cursor.u32(key)?, cursor.u64(key)?))
}

/// The elements of an array that is parsed in one go. `start` is where the whole entry begins.
fn array_body(
    cursor: &mut Cursor<'_>,
    key: &str,
    element: u32,
    count: u64,
    start: u64,
    depth: usize,
) -> Parsed<MetaArray> {
    use value_type::*;
    let offset = cursor.position();
    let Some(each) = min_bytes(element) else {
        return Err(invalid(
            offset,
            format!("{key} has the unknown element type {element}"),
        )
        .into());
    };
    let len = count.saturating_mul(each);
    let nested = depth > 0 || element == ARRAY;
    if nested {
        if depth >= MAX_DEPTH {
            return Err(invalid(offset, format!("{key} nests deeper than {MAX_DEPTH}")).into());
        }
        let used = (offset - start).saturating_add(len);
        check_limit(
            &format!("the size of the nested list {key}"),
            used,
            MAX_NESTED_BYTES,
            offset,
        )?;
    }
    match element {
        ARRAY => {
            // The bytes that the elements take at least must be there before memory is taken.
            let mut room = Cursor { ..*cursor };
            room.take(len, key)?;
            let mut arrays = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let (element, count) = array_head(cursor, key)?;
                arrays.push(array_body(cursor, key, element, count, start, depth + 1)?);
            }
            return Ok(MetaArray::Nested(arrays));
        }
        STR => {
            let mut list = StringList::default();
            for _ in 0..count {
                list.push(cursor.sized(MAX_NESTED_BYTES, key)?);
            }
            return Ok(MetaArray::Str(list));
        }
        _ => {}
    }
    let bytes = cursor.take(len, key)?;
    Ok(match element {
        U8 => MetaArray::U8(bytes.to_vec()),
        I8 => MetaArray::I8(scalars(bytes, i8::from_le_bytes)),
        U16 => MetaArray::U16(scalars(bytes, u16::from_le_bytes)),
        I16 => MetaArray::I16(scalars(bytes, i16::from_le_bytes)),
        U32 => MetaArray::U32(scalars(bytes, u32::from_le_bytes)),
        I32 => MetaArray::I32(scalars(bytes, i32::from_le_bytes)),
        F32 => MetaArray::F32(scalars(bytes, f32::from_le_bytes)),
        U64 => MetaArray::U64(scalars(bytes, u64::from_le_bytes)),
        I64 => MetaArray::I64(scalars(bytes, i64::from_le_bytes)),
        F64 => MetaArray::F64(scalars(bytes, f64::from_le_bytes)),
        // `min_bytes` let only BOOL through besides these.
        _ => MetaArray::Bool(bytes.iter().map(|byte| truth(*byte)).collect()),
    })
}

fn scalar_value(cursor: &mut Cursor<'_>, key: &str, kind: u32) -> Parsed<MetaValue> {
    use value_type::*;
    let offset = cursor.position();
    Ok(match kind {
        U8 => MetaValue::U8(u8::from_le_bytes(cursor.array(key)?)),
        I8 => MetaValue::I8(i8::from_le_bytes(cursor.array(key)?)),
        U16 => MetaValue::U16(u16::from_le_bytes(cursor.array(key)?)),
        I16 => MetaValue::I16(i16::from_le_bytes(cursor.array(key)?)),
        U32 => MetaValue::U32(u32::from_le_bytes(cursor.array(key)?)),
        I32 => MetaValue::I32(i32::from_le_bytes(cursor.array(key)?)),
        F32 => MetaValue::F32(f32::from_le_bytes(cursor.array(key)?)),
        U64 => MetaValue::U64(u64::from_le_bytes(cursor.array(key)?)),
        I64 => MetaValue::I64(i64::from_le_bytes(cursor.array(key)?)),
        F64 => MetaValue::F64(f64::from_le_bytes(cursor.array(key)?)),
        BOOL => MetaValue::Bool(truth(u8::from_le_bytes(cursor.array(key)?))),
        STR => {
            let bytes = cursor.sized(MAX_HEADER_BYTES, key)?;
            MetaValue::Str(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => {
            let what = format!("{key} has the unknown value type {kind}");
            return Err(invalid(offset, what).into());
        }
    })
}
