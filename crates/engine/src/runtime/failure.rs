//! What went wrong, as a person needs it.

use model::{BackendError, LoadError, SessionError};
use weights::SourceError;
use weights::gguf::HeaderError;

use crate::protocol::{Failure, FailureKind};

pub(super) fn internal(message: &str) -> Failure {
    Failure {
        kind: FailureKind::Internal,
        message: message.to_owned(),
        advice: "This is a fault of the engine; reload the page and report it.".to_owned(),
    }
}

pub(super) fn backend_failure(error: &BackendError) -> Failure {
    let (kind, advice) = match error {
        BackendError::Unavailable(_) => (
            FailureKind::NoGpu,
            "Use a browser with WebGPU (Chrome or Edge 113+, Safari 26+, Firefox 141+ on Windows) \
             and check that hardware acceleration is on. Everything but generation works without it.",
        ),
        BackendError::Memory(_) => (
            FailureKind::Memory,
            "Close other tabs that use the GPU, choose a shorter context, or load a smaller file.",
        ),
        BackendError::Fault(_) => (
            FailureKind::Device,
            "Load the model again. If it happens again, reload the page.",
        ),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

/// A load that failed.
pub fn load_failure(error: &LoadError) -> Failure {
    let (kind, advice) = match error {
        LoadError::Backend(error) => return backend_failure(error),
        LoadError::Source(source) | LoadError::Header(HeaderError::Source(source)) => {
            return source_failure(source);
        }
        LoadError::Gguf(_)
        | LoadError::Safetensors(_)
        | LoadError::Manifest(_)
        | LoadError::Header(HeaderError::Gguf { .. })
        | LoadError::Inconsistent(_) => (
            FailureKind::BadFile,
            "Check that the whole file was downloaded and that it is a GGUF model.",
        ),
        LoadError::Unsupported(_) => (
            FailureKind::Unsupported,
            "Load a GGUF of a Llama-architecture model, quantized as Q4_0 to Q8_0 or Q2_K to Q6_K, or in F16, BF16 or F32.",
        ),
        LoadError::Stopped => (FailureKind::BadRequest, "Press Load to start again."),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

/// Bytes that could not be read.
pub fn source_failure(error: &SourceError) -> Failure {
    let (kind, advice) = match error {
        SourceError::PastEnd { .. } => (
            FailureKind::BadFile,
            "The file is cut short; download it again.",
        ),
        SourceError::WebPage { .. } => (
            FailureKind::BadFile,
            "Use the address of the file itself, not of a page about it.",
        ),
        _ => (
            FailureKind::Network,
            "Check the address and the connection, then press Load again.",
        ),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

pub(super) fn session_failure(error: &SessionError) -> Failure {
    let advice = match error {
        SessionError::Backend(error) => return backend_failure(error),
        SessionError::ContextFull { .. } => "Shorten the prompt, or load with a longer context.",
        SessionError::UnknownId { .. } => "Use ids of this model's own tokenizer.",
        SessionError::Empty => "Write a prompt.",
    };
    Failure {
        kind: FailureKind::BadRequest,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}
