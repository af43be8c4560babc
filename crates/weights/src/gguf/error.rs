//! What can be wrong with a GGUF header.

use std::fmt;

use crate::block::Unsupported;

/// Why a file is not a GGUF model that can be used. Positions are bytes from the file's start.
#[expect(missing_docs, reason = "the fields are named in the messages")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The file does not begin with `GGUF`.
    #[error("this is not a GGUF file: {looks}")]
    NotGguf { looks: Looks },
    /// A version other than 2 and 3.
    #[error(
        "GGUF version {version} is not supported (2 and 3 are); convert the model again with a \
         current converter"
    )]
    Version { version: u32 },
    /// The file was written for big-endian machines.
    #[error("this is a big-endian GGUF file; get the usual little-endian one")]
    BigEndian,
    /// The file ends inside the header.
    #[error(
        "the file is cut short: {what} needs bytes up to {needs}, but the file has {has}; fetch it \
         again"
    )]
    HeaderCutShort { what: String, needs: u64, has: u64 },
    /// The file ends before a tensor does.
    #[error(
        "the file is cut short: tensor {tensor} needs bytes up to {needs}, but the file has {has}; \
         fetch it again"
    )]
    TensorCutShort {
        tensor: String,
        needs: u64,
        has: u64,
    },
    /// Something is larger than any real model has it.
    #[error(
        "{what} at byte {offset} is {value}, more than the limit of {limit}; the file is damaged"
    )]
    Limit {
        what: String,
        value: u64,
        limit: u64,
        offset: u64,
    },
    /// Something is contradictory or out of range.
    #[error("at byte {offset}: {what}; the file is damaged")]
    Invalid { what: String, offset: u64 },
    /// A tensor has a type number without a meaning.
    #[error(
        "tensor {tensor} (entry at byte {offset}) has the unknown type {id}; the file is damaged or \
         newer than this program"
    )]
    UnknownType {
        tensor: String,
        id: u32,
        offset: u64,
    },
    /// A tensor has a known type that cannot be read here.
    #[error("tensor {tensor}: {source}")]
    UnsupportedTensor { tensor: String, source: Unsupported },
    /// A key that a model must have is missing.
    #[error("the file does not say {key}; convert the model again with a current converter")]
    MissingKey { key: String },
    /// A key has a value of the wrong type.
    #[error("{key} should be {expected}, but it is {found}")]
    WrongType {
        key: String,
        expected: &'static str,
        found: &'static str,
    },
    /// Two parts of the metadata contradict each other.
    #[error("{what}; the file is damaged")]
    Inconsistent { what: String },
    /// An entry of a list of text is not UTF-8.
    #[error("entry {index} of {key} is not valid text (UTF-8); the file is damaged")]
    NotText { key: String, index: usize },
}

/// What a file that is not GGUF looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// No bytes, or too few to tell.
    Short,
    /// A web page.
    Html,
    /// JSON.
    Json,
    /// The pointer file that Git LFS leaves in place of the content.
    LfsPointer,
    /// Other text.
    Text,
    /// A zip archive; PyTorch's `.bin` and `.pt` files are such.
    Zip,
    /// A safetensors file.
    Safetensors,
    /// A llama.cpp file from before GGUF.
    OldGgml,
    /// None of these.
    Unknown,
}

impl Looks {
    /// Judges a file by its first bytes.
    pub(crate) fn of(prefix: &[u8]) -> Self {
        let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
        let text = text.trim_ascii_start();
        if prefix.len() < 4 {
            return Self::Short;
        }
        if prefix.starts_with(b"PK\x03\x04") {
            return Self::Zip;
        }
        if [b"lmgg", b"tjgg", b"fmgg", b"algg"]
            .iter()
            .any(|magic| prefix.starts_with(*magic))
        {
            return Self::OldGgml;
        }
        // A safetensors file begins with the length of its JSON header in eight bytes.
        if prefix.get(8) == Some(&b'{') && prefix[4..8] == [0; 4] {
            return Self::Safetensors;
        }
        if text.starts_with(b"version https://git-lfs") {
            return Self::LfsPointer;
        }
        if text.starts_with(b"<") {
            return Self::Html;
        }
        if text.starts_with(b"{") || text.starts_with(b"[") {
            return Self::Json;
        }
        let printable = |byte: &u8| !byte.is_ascii_control() || b"\t\n\r\x0c".contains(byte);
        if prefix.iter().all(printable) {
            return Self::Text;
        }
        Self::Unknown
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it is empty or nearly so; fetch it again",
            Self::Html => {
                "it is a web page (HTML); use the address of the file itself (on Hugging Face: \
                 /resolve/, not /blob/)"
            }
            Self::Json => "it is JSON text, perhaps a server's error message; check the address",
            Self::LfsPointer => {
                "it is the small pointer that Git LFS leaves in place of the file; fetch the file \
                 itself (git lfs pull)"
            }
            Self::Text => "it is a text file; choose a .gguf model file",
            Self::Zip => "it is a zip archive or a PyTorch file; choose a .gguf model file",
            Self::Safetensors => "it is a safetensors file; choose a .gguf model file",
            Self::OldGgml => {
                "it is a llama.cpp file from before GGUF; get a newer conversion of the model"
            }
            Self::Unknown => "its first four bytes should be \"GGUF\"; choose a .gguf model file",
        })
    }
}
