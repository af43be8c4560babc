//! What a model's reply means.

use super::{END_HEADER, EOM, EOT, PYTHON_TAG, START_HEADER};
use crate::json::{self, JsonErrorKind, Object, Value};
use crate::python;

/// What a model's reply means.
#[derive(Clone, Debug, PartialEq)]
pub enum Generation {
    /// A tool call, as the model wrote it.
    Call(Object),
    /// Plain text.
    Text(String),
    /// Neither.
    Failed(GenerationError),
}

/// Why a reply means nothing. The texts are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerationError {
    /// There is no text.
    #[error("empty")]
    Empty,
    /// The JSON behind a python tag is no object.
    #[error("not object")]
    NotAnObject,
    /// What stands behind a python tag is not JSON.
    #[error("{0}")]
    Json(JsonErrorKind),
}

impl Generation {
    /// The reference's stop reason: `tool_call`, `assistant_text` or `parse_error: ...`.
    pub fn stop_reason(&self) -> String {
        match self {
            Self::Call(_) => "tool_call".to_owned(),
            Self::Text(_) => "assistant_text".to_owned(),
            Self::Failed(error) => format!("parse_error: {error}"),
        }
    }
}

/// Reads a reply by the reference's rules: JSON behind a python tag; else a text that is nothing but a
/// JSON object with a `name` or `tool`; else the text up to the first end of turn.
pub fn read_generation(text: &str) -> Generation {
    if let Some(call) = tagged(text) {
        return match json::loads(python::strip(call)) {
            Ok(Value::Object(call)) => Generation::Call(call),
            Ok(_) => Generation::Failed(GenerationError::NotAnObject),
            Err(error) => Generation::Failed(GenerationError::Json(error.kind)),
        };
    }
    if let Some(call) = bare_call(text) {
        return Generation::Call(call);
    }
    let said = match first_stop(text, 0) {
        Some(end) => {
            let header = format!("{START_HEADER}assistant{END_HEADER}\n\n");
            let said = &text[..end];
            said.strip_prefix(&header).unwrap_or(said)
        }
        None => text,
    };
    match python::strip(said) {
        "" => Generation::Failed(GenerationError::Empty),
        said => Generation::Text(said.to_owned()),
    }
}

/// The call that a reply consists of: once control tokens and white space are taken off, nothing but a
/// JSON object with a `name` or `tool` that Python holds for true.
pub fn bare_call(text: &str) -> Option<Object> {
    let stripped = strip_tokens(text);
    if !stripped.starts_with('{') {
        return None;
    }
    let Ok(Value::Object(call)) = json::loads(&stripped) else {
        return None;
    };
    let named = ["name", "tool"]
        .iter()
        .any(|key| call.get(*key).is_some_and(python::truthy));
    named.then_some(call)
}

/// The text without python tags and ends of turn, wherever they stand, trimmed.
pub fn strip_tokens(text: &str) -> String {
    let mut text = python::strip(text).to_owned();
    for token in [PYTHON_TAG, EOT, EOM] {
        text = text.replace(token, "");
    }
    python::strip(&text).to_owned()
}

/// What stands between the first python tag and the next end of turn, if it is anything at all. (A
/// later tag cannot do better: what ends it would end the first one too.)
fn tagged(text: &str) -> Option<&str> {
    let start = text.find(PYTHON_TAG)? + PYTHON_TAG.len();
    let first = text[start..].chars().next()?;
    let end = first_stop(text, start + first.len_utf8())?;
    Some(&text[start..end])
}

fn first_stop(text: &str, from: usize) -> Option<usize> {
    let find = |token| text[from..].find(token).map(|at| from + at);
    match (find(EOT), find(EOM)) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
