//! From the AgenticML wire back to frames.

use super::View;
use crate::Policy;
use crate::frame::{Frame, FrameKind, Owner, Payload};
use crate::json::{self, JsonError, JsonErrorKind, Value};
use crate::python;
use std::ops::Range;

/// How to read a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which markers to recognise: [`View::Markers`] the aliases alone, [`View::Reserved`] the reserved
    /// tokens and the aliases, as the reference does.
    pub view: View,
    /// Refuse markers that the model may not write.
    pub strict: bool,
    /// [`Policy::Reference`] gives up the whole wire at JSON that Python cannot hold (nested too deep,
    /// integers too long); [`Policy::Safe`] keeps that as the error of its frame.
    pub policy: Policy,
}

impl Default for Reading {
    /// The reserved wire, as written by the model, safely.
    fn default() -> Self {
        Self {
            view: View::Reserved,
            strict: true,
            policy: Policy::Safe,
        }
    }
}

/// A frame as it stood on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedFrame {
    /// The frame. Its content is null when there is an error.
    pub frame: Frame,
    /// Everything between its marker and the next.
    pub raw: String,
    /// Why the content could not be read.
    pub error: Option<PayloadError>,
    /// Byte range of its marker in the text.
    pub marker: Range<usize>,
    /// Byte range of [`ParsedFrame::raw`] in the text.
    pub body: Range<usize>,
}

/// Why a frame's content cannot be read. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Nothing where JSON is due.
    #[error("empty json payload")]
    EmptyJson,
    /// Bad JSON; places count from the first character that is not white space.
    #[error("invalid json: {} at pos {}", .0.kind, .0.position)]
    Json(JsonError),
    /// Nothing where a number is due.
    #[error("empty reward payload")]
    EmptyNumber,
    /// Not a number; carries the text.
    #[error("invalid number: could not convert string to float: {}", python::repr_str(.0))]
    Number(String),
}

/// Why a text is no wire. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It does not begin with a marker.
    #[error("expected frame marker at offset {offset}, got: {preview}")]
    NoMarker {
        /// Where a marker should be, in characters.
        offset: usize,
        /// What is there instead, as Python prints it.
        preview: String,
    },
    /// A marker that only the runtime may write; carries its kind.
    #[error("runtime-owned marker '{}' found in model output", .0.alias())]
    NotTheModels(FrameKind),
    /// JSON that Python cannot hold ([`Policy::Reference`] only).
    #[error("{}", .0.kind)]
    Unreadable(JsonError),
}

impl ParseError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::NoMarker { .. } => "AgenticMLParseError",
            Self::NotTheModels(_) => "AgenticMLOwnershipError",
            Self::Unreadable(error) if error.kind == JsonErrorKind::TooDeep => "RecursionError",
            Self::Unreadable(_) => "ValueError",
        }
    }
}

/// Reads a wire. A text of nothing but white space has no frames.
///
/// Errors in payloads are kept with their frames and fail nothing.
///
/// # Errors
/// When the text does not begin with a marker, or holds one that the model may not write.
pub fn parse(text: &str, reading: &Reading) -> Result<Vec<ParsedFrame>, ParseError> {
    let start = text.len() - python::strip_start(text).len();
    if start == text.len() {
        return Ok(Vec::new());
    }
    let Some(first) = marker_at(&text[start..], reading.view) else {
        return Err(no_marker(text, start, reading.view));
    };
    let mut frames = Vec::new();
    let mut next = Some((start, first));
    while let Some((at, (kind, len))) = next {
        if reading.strict && kind.owner() == Owner::Runtime {
            return Err(ParseError::NotTheModels(kind));
        }
        let marker = at..at + len;
        next = find_marker(text, marker.end, reading.view);
        let body = marker.end..next.map_or(text.len(), |(at, _)| at);
        let raw = &text[body.clone()];
        let (content, error) = match read_payload(kind, raw) {
            Ok(content) => (content, None),
            Err(PayloadError::Json(error))
                if reading.policy == Policy::Reference && raises(&error) =>
            {
                return Err(ParseError::Unreadable(error));
            }
            Err(error) => (Value::Null, Some(error)),
        };
        frames.push(ParsedFrame {
            frame: Frame { kind, content },
            raw: raw.to_owned(),
            error,
            marker,
            body,
        });
    }
    Ok(frames)
}

/// Whether Python raises something other than a JSON error.
fn raises(error: &JsonError) -> bool {
    matches!(
        error.kind,
        JsonErrorKind::TooDeep | JsonErrorKind::TooManyDigits(_)
    )
}

/// The content that a frame's body stands for. Prose loses trailing white space only.
///
/// # Errors
/// When a body that must be JSON or a number is not.
pub fn read_payload(kind: FrameKind, body: &str) -> Result<Value, PayloadError> {
    let stripped = python::strip(body);
    match kind.payload() {
        Payload::None => Ok(Value::Null),
        Payload::Prose => Ok(python::strip_end(body).into()),
        Payload::Json if stripped.is_empty() => Err(PayloadError::EmptyJson),
        Payload::Json => json::loads(stripped).map_err(PayloadError::Json),
        Payload::Number if stripped.is_empty() => Err(PayloadError::EmptyNumber),
        Payload::Number => python::parse_float(stripped)
            .map(Value::Float)
            .ok_or_else(|| PayloadError::Number(stripped.to_owned())),
    }
}

/// The marker that the text begins with, and its length.
fn marker_at(text: &str, view: View) -> Option<(FrameKind, usize)> {
    if !text.starts_with("<|") {
        return None;
    }
    FrameKind::ALL.into_iter().find_map(|kind| {
        if text.starts_with(kind.alias()) {
            Some((kind, kind.alias().len()))
        } else if view == View::Reserved && text.starts_with(kind.reserved()) {
            Some((kind, kind.reserved().len()))
        } else {
            None
        }
    })
}

fn find_marker(text: &str, from: usize, view: View) -> Option<(usize, (FrameKind, usize))> {
    let mut at = from;
    while let Some(next) = text[at..].find("<|") {
        at += next;
        if let Some(found) = marker_at(&text[at..], view) {
            return Some((at, found));
        }
        at += 1;
    }
    None
}

fn no_marker(text: &str, at: usize, view: View) -> ParseError {
    let shown = match view {
        View::Markers => text[at..].to_owned(),
        View::Reserved => super::reserved_to_markers(&text[at..]),
    };
    let preview: String = shown.chars().take(40).collect();
    ParseError::NoMarker {
        offset: text[..at].chars().count(),
        preview: python::repr_str(&preview.replace('\n', "\\n")),
    }
}

/// Why typed content is not what its frame holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentError {
    /// Bad JSON.
    Json(JsonError),
    /// Not a number.
    Number,
}

/// The content that someone types for a frame. Prose is kept to the last space; numbers keep whether they
/// have a fraction.
///
/// # Errors
/// When JSON or a number is due and the text is none.
pub fn read_content(kind: FrameKind, text: &str) -> Result<Value, ContentError> {
    match kind.payload() {
        Payload::None => Ok(Value::Null),
        Payload::Prose => Ok(text.into()),
        Payload::Json => json::loads(text).map_err(ContentError::Json),
        Payload::Number => {
            let stripped = python::strip(text);
            match json::loads(stripped) {
                Ok(number @ (Value::Int(_) | Value::Float(_))) => Ok(number),
                _ => python::parse_float(stripped)
                    .map(Value::Float)
                    .ok_or(ContentError::Number),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_numbers_are_numbers() {
        let read = |text| read_content(FrameKind::Reward, text);
        assert_eq!(read("1"), Ok(1.into()));
        assert_eq!(read(" 0.5\n"), Ok(0.5.into()));
        assert_eq!(read("1_000"), Ok(1000.0.into()));
        for text in ["", "one", "\"1\"", "[1]", "true", "1,5"] {
            assert_eq!(read(text), Err(ContentError::Number), "{text}");
        }
    }

    #[test]
    fn typed_json_says_where_it_is_wrong() {
        let error = read_content(FrameKind::Action, "{\"a\": 1,\n}").expect_err("bad");
        let ContentError::Json(error) = error else {
            panic!("JSON");
        };
        assert_eq!((error.line, error.column), (2, 1));
        assert_eq!(read_content(FrameKind::Plan, " x "), Ok(" x ".into()));
    }
}
