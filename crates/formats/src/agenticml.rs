//! The AgenticML wire: every frame is a marker and its payload, nothing in between.

use crate::frame::{Frame, FrameKind, Owner, Payload, Trajectory};
use crate::json::{self, Value};
use crate::python;
use crate::render::{Rendering, Role, Segment, SegmentKind};

mod parse;

pub use parse::{
    ContentError, ParseError, ParsedFrame, PayloadError, Reading, parse, read_content, read_payload,
};

/// How markers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// As the model sees them: `<|reserved_special_token_6|>`. This is the wire.
    #[default]
    Reserved,
    /// As people read them: `<|action|>`. Reserved tokens that content spells are shown so too, as the
    /// reference does.
    Markers,
}

/// Why a trajectory cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// There are no frames.
    #[error("Cannot apply chat template to an empty conversation. Provide at least one message.")]
    Empty,
    /// An action or result has no content; nothing valid could be written for it.
    #[error("frame {frame} ({}) has no content to write as JSON", kind.name())]
    NullPayload {
        /// Index of the frame.
        frame: usize,
        /// Its kind.
        kind: FrameKind,
    },
}

impl RenderError {
    /// The exception that the reference raises (with transformers 5).
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::Empty => "ValueError",
            Self::NullPayload { .. } => "TypeError",
        }
    }
}

/// Writes a trajectory.
///
/// As in the reference, prose that Python holds for false (`""`, `0`, `null`, `[]`...) is written as
/// nothing, other prose as Python prints it, and JSON with `", "` and `": "`. Nothing is escaped.
///
/// # Errors
/// When there are no frames, or an action or result is null.
pub fn render(trajectory: &Trajectory, view: View) -> Result<Rendering, RenderError> {
    if trajectory.frames.is_empty() {
        return Err(RenderError::Empty);
    }
    let mut segments = Vec::with_capacity(trajectory.frames.len() * 2);
    for (index, frame) in trajectory.frames.iter().enumerate() {
        let kind = frame.kind;
        let payload = payload_text(frame).ok_or(RenderError::NullPayload { frame: index, kind })?;
        let segment = |text: String, segment_kind, role| Segment {
            text,
            kind: segment_kind,
            role,
            owner: kind.owner(),
            frame: Some(index),
            frame_kind: Some(kind),
            message: None,
            trained: kind.owner() == Owner::Model,
            given: false,
        };
        let marker = match view {
            View::Reserved => kind.reserved(),
            View::Markers => kind.alias(),
        };
        segments.push(segment(
            marker.to_owned(),
            SegmentKind::Special,
            Role::Structure,
        ));
        let payload = match view {
            View::Reserved => payload,
            View::Markers => reserved_to_markers(&payload),
        };
        if !payload.is_empty() {
            segments.push(segment(payload, SegmentKind::Text, Role::Content));
        }
    }
    Ok(Rendering { segments })
}

/// What stands behind the marker; `None` where JSON is due and there is none.
fn payload_text(frame: &Frame) -> Option<String> {
    match frame.kind.payload() {
        Payload::None => Some(String::new()),
        Payload::Json if frame.content == Value::Null => None,
        Payload::Json => Some(json::dumps(&frame.content)),
        Payload::Prose | Payload::Number => Some(if python::truthy(&frame.content) {
            python::str(&frame.content)
        } else {
            String::new()
        }),
    }
}

/// Replaces every reserved token that a frame kind claims by the kind's alias, wherever it stands.
pub fn reserved_to_markers(text: &str) -> String {
    const OPENING: &str = "<|reserved_special_token_";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OPENING) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match FrameKind::ALL
            .into_iter()
            .find(|kind| from.starts_with(kind.reserved()))
        {
            Some(kind) => {
                out.push_str(kind.alias());
                rest = &from[kind.reserved().len()..];
            }
            None => {
                out.push_str(OPENING);
                rest = &from[OPENING.len()..];
            }
        }
    }
    out.push_str(rest);
    out
}
