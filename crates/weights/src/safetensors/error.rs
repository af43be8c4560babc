//! What can be wrong with a safetensors header.

use crate::looks::Looks;
use crate::source::SourceError;

/// Why a file is not a safetensors file that can be used. Positions are bytes from the file's start.
#[expect(missing_docs, reason = "the fields are named in the messages")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SafetensorsError {
    /// The file does not begin with the length of a JSON object.
    #[error("this is not a safetensors file: {looks}")]
    NotSafetensors { looks: Looks },
    /// The file ends inside the header.
    #[error(
        "the file is cut short: the header needs bytes up to {needs}, but the file has {has}; fetch \
         it again"
    )]
    HeaderCutShort { needs: u64, has: u64 },
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
    #[error("{what} is {value}, more than the limit of {limit}; the file is damaged")]
    Limit {
        what: String,
        value: u64,
        limit: u64,
    },
    /// The header is not the JSON that the format asks for.
    #[error("the header cannot be read ({detail}); the file is damaged")]
    Json { detail: String },
    /// A tensor has a type without a meaning.
    #[error(
        "tensor {tensor} has the unknown type {dtype:?}; the file is damaged or newer than this \
         program"
    )]
    UnknownType { tensor: String, dtype: String },
    /// Something is contradictory or out of range.
    #[error("{what}; the file is damaged")]
    Inconsistent { what: String },
}

/// Why a header could not be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HeaderError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The bytes are no safetensors header, or not one that can be used.
    #[error("{name}: {error}")]
    Safetensors {
        /// The source.
        name: String,
        /// What is wrong.
        #[source]
        error: SafetensorsError,
    },
}
