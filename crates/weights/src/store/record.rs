//! What is remembered of a stored model, in two copies that are written in turn: one of them is always
//! whole.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::disk::{Disk, DiskError};
use crate::digest;
use crate::pieces::{MAX_PIECE_BYTES, MAX_PIECES, Piece};
use crate::source::http::Version;

/// The first word of a copy.
const MAGIC: &str = "agenticml-store";
/// The version that this program writes. The first line of a copy stays as it is in all versions.
const VERSION: u32 = 1;
/// Largest copy that is read, in bytes.
const MAX_BYTES: u64 = 32 << 20;
/// Longest first line, in bytes.
const MAX_LINE: usize = 200;
/// Most files that may belong to a model.
const MAX_FILES: usize = 10_000;

/// A SHA-256 checksum, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum(pub(super) [u8; 32]);

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digest::hex(&self.0))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Sum {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(digest::sha256(bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        digest::parse_hex(text).map(Self)
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("this is no SHA-256 checksum"))
    }
}

/// What is remembered of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) origin: String,
    pub(super) label: String,
    pub(super) facts: BTreeMap<String, String>,
    /// Milliseconds since 1970.
    pub(super) created: u64,
    pub(super) used: u64,
    /// Bytes of incomplete pieces count only for this.
    pub(super) salt: u64,
    pub(super) files: Vec<RecordFile>,
    pub(super) pieces: Vec<RecordPiece>,
    pub(super) small: Option<RecordSmall>,
}

/// A file at the origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordFile {
    pub(super) name: String,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    pub(super) size: Option<u64>,
}

impl RecordFile {
    pub(super) fn new(name: &str, version: &Version) -> Self {
        Self {
            name: name.to_owned(),
            etag: version.etag.clone(),
            last_modified: version.last_modified.clone(),
            size: version.size,
        }
    }

    pub(super) fn version(&self) -> Version {
        Version {
            etag: self.etag.clone(),
            last_modified: self.last_modified.clone(),
            size: self.size,
        }
    }
}

/// A piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordPiece {
    pub(super) file: String,
    pub(super) bytes: u64,
    /// What its checksum has to be, where that was known.
    pub(super) expected: Option<Sum>,
    /// Its checksum, when it is complete here.
    pub(super) kept: Option<Sum>,
}

impl RecordPiece {
    pub(super) fn new(piece: &Piece) -> Self {
        Self {
            file: piece.file.clone(),
            bytes: piece.bytes,
            expected: piece.sha256.map(Sum),
            kept: None,
        }
    }

    pub(super) fn piece(&self) -> Piece {
        Piece {
            file: self.file.clone(),
            bytes: self.bytes,
            sha256: self.expected.map(|sum| sum.0),
        }
    }
}

/// The small files: one file on the disk, in which their parts follow each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordSmall {
    /// Name of the file on the disk.
    pub(super) place: String,
    pub(super) bytes: u64,
    pub(super) sum: Sum,
    pub(super) files: Vec<RecordSmallFile>,
    /// The names in the folder that they are from, if it could tell them.
    pub(super) names: Option<Vec<String>>,
}

/// A small file, or the parts of a large one that were read to open the package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordSmallFile {
    pub(super) name: String,
    /// Size of the whole file in bytes.
    pub(super) size: Option<u64>,
    /// Offset and length of each part.
    pub(super) parts: Vec<(u64, u64)>,
}

impl Record {
    /// Bytes of all pieces.
    pub(super) fn total(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Whether the numbers are such as we write.
    fn is_sound(&self) -> bool {
        let small = |small: &RecordSmall| {
            let lens = small.files.iter().flat_map(|file| &file.parts);
            let sum = lens.map(|part| part.1).try_fold(0u64, u64::checked_add);
            let ends = small.files.iter().flat_map(|file| &file.parts);
            small.files.len() <= MAX_FILES
                && sum == Some(small.bytes)
                && super::disk::is_name(&small.place)
                && ends
                    .into_iter()
                    .all(|part| part.0.checked_add(part.1).is_some())
        };
        self.pieces.len() <= MAX_PIECES
            && self.files.len() <= MAX_FILES
            && self
                .pieces
                .iter()
                .all(|piece| (1..=MAX_PIECE_BYTES).contains(&piece.bytes))
            && self.small.as_ref().is_none_or(small)
    }

    /// A copy as it is written.
    pub(super) fn encode(&self, sequence: u64) -> Vec<u8> {
        // Strings and numbers only: nothing here can fail.
        let body = serde_json::to_vec(self).unwrap_or_default();
        encode(VERSION, sequence, &body)
    }
}

/// # Errors
/// [`DiskError::Io`] for a copy that would not be read again.
pub(super) fn check_size(path: &str, bytes: usize) -> Result<(), DiskError> {
    super::disk::check_limit(path, bytes as u64, MAX_BYTES)
}

fn encode(version: u32, sequence: u64, body: &[u8]) -> Vec<u8> {
    let head = format!("{MAGIC} {version} {sequence} {}", body.len());
    let sum = sum(&head, body);
    let mut bytes = format!("{head} {sum}\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn sum(head: &str, body: &[u8]) -> Sum {
    let mut sha = Sha256::new();
    sha.update(head.as_bytes());
    sha.update(body);
    Sum(sha.finalize().into())
}

/// What is in a copy.
#[derive(Debug, PartialEq)]
enum Copy {
    /// Nothing that can be made out.
    Broken,
    /// Sequence number and record; none where a later version of this program wrote it.
    Whole(u64, u32, Option<Box<Record>>),
}

fn decode(bytes: &[u8]) -> Copy {
    decode_whole(bytes).unwrap_or(Copy::Broken)
}

fn decode_whole(bytes: &[u8]) -> Option<Copy> {
    let first = &bytes[..bytes.len().min(MAX_LINE)];
    let end = first.iter().position(|&byte| byte == b'\n')?;
    let line = std::str::from_utf8(&bytes[..end]).ok()?;
    let body = &bytes[end + 1..];
    let (head, written_sum) = line.rsplit_once(' ')?;
    let words: Vec<_> = head.split(' ').collect();
    let [MAGIC, version, sequence, len] = words[..] else {
        return None;
    };
    let (version, sequence) = (version.parse().ok()?, sequence.parse().ok()?);
    if len.parse() != Ok(body.len()) || Sum::parse(written_sum)? != sum(head, body) {
        return None;
    }
    if version != VERSION {
        return Some(Copy::Whole(sequence, version, None));
    }
    let record: Record = serde_json::from_slice(body).ok()?;
    let record = record.is_sound().then(|| Box::new(record))?;
    Some(Copy::Whole(sequence, version, Some(record)))
}

/// What there is of an entry.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// A record and its sequence number.
    Record(Box<Record>, u64),
    /// A record of a later version of this program.
    Later(u32),
    /// No record that can be made out.
    Damaged,
}

/// The path of the copy that is written with this sequence number.
pub(super) fn copy_path(folder: &str, sequence: u64) -> String {
    format!("{folder}/entry.{}", sequence % 2)
}

/// Reads both copies.
///
/// # Errors
/// [`DiskError`] when a copy is there and cannot be read, so that nothing is taken for damaged that is
/// only in use.
pub(super) async fn read<D: Disk>(disk: &D, folder: &str) -> Result<Found, DiskError> {
    let mut newest: Option<(u64, u32, Option<Box<Record>>)> = None;
    let (mut missing, mut trouble) = (0, None);
    for slot in 0..2 {
        let bytes = match disk.read_small(&copy_path(folder, slot), MAX_BYTES).await {
            Ok(bytes) => bytes,
            Err(DiskError::Missing { .. }) => {
                missing += 1;
                continue;
            }
            Err(error @ DiskError::Unavailable { .. }) => return Err(error),
            Err(error) => {
                trouble = Some(error);
                continue;
            }
        };
        let Copy::Whole(sequence, version, record) = decode(&bytes) else {
            continue;
        };
        if newest.as_ref().is_none_or(|(old, ..)| sequence > *old) {
            newest = Some((sequence, version, record));
        }
    }
    Ok(match (newest, trouble) {
        (Some((sequence, _, Some(record))), _) => Found::Record(record, sequence),
        (Some((_, version, None)), _) => Found::Later(version),
        (None, Some(DiskError::Locked { path })) => return Err(DiskError::Locked { path }),
        (None, _) if missing == 2 => Found::Nothing,
        (None, _) => Found::Damaged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            name: "m \u{1f984}".to_owned(),
            kind: "gguf".to_owned(),
            origin: "https://example.org/m.gguf".to_owned(),
            label: "GGUF, Q4_K_M".to_owned(),
            facts: BTreeMap::from([("licence".to_owned(), "MIT".to_owned())]),
            created: 1,
            used: 2,
            salt: u64::MAX,
            files: vec![RecordFile::new("m.gguf", &Version::default())],
            pieces: vec![RecordPiece {
                file: "m.gguf".to_owned(),
                bytes: 7,
                expected: None,
                kept: Some(Sum([0xa5; 32])),
            }],
            small: None,
        }
    }

    #[test]
    fn a_copy_is_read_back_whole_or_not_at_all() {
        let bytes = record().encode(5);
        let whole = Copy::Whole(5, VERSION, Some(Box::new(record())));
        assert_eq!(decode(&bytes), whole);
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), Copy::Broken, "cut at {len}");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(decode(&flipped), Copy::Broken, "flipped at {at}");
        }
        let later = encode(VERSION + 1, 9, b"whatever comes");
        assert_eq!(decode(&later), Copy::Whole(9, VERSION + 1, None));
    }

    #[test]
    fn numbers_that_we_do_not_write_are_refused() {
        let mut large = record();
        large.pieces[0].bytes = MAX_PIECE_BYTES + 1;
        assert_eq!(decode(&large.encode(1)), Copy::Broken);
        let mut none = record();
        none.pieces[0].bytes = 0;
        assert_eq!(decode(&none.encode(1)), Copy::Broken);
        let mut small = record();
        small.small = Some(RecordSmall {
            place: "small.0".to_owned(),
            bytes: u64::MAX,
            sum: Sum([0; 32]),
            files: vec![RecordSmallFile {
                name: "x".to_owned(),
                size: None,
                parts: vec![(0, u64::MAX), (0, 2)],
            }],
            names: None,
        });
        assert_eq!(decode(&small.encode(1)), Copy::Broken);
    }
}
