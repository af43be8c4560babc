//! What can be wrong with a GGUF header.

use crate::block::Unsupported;
use crate::looks::Looks;

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
