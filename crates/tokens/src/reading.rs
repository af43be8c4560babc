//! Reading generated ids as frames: a marker is a marker only if its id says so.

use crate::{Llama3Tokenizer, kind_of_marker};
use formats::agenticml::{ParseError, PayloadError, read_payload};
use formats::{Frame, FrameKind, Owner, Value, python};
use std::ops::Range;

/// A frame as it was generated.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedFrame {
    /// The frame. Its content is null when there is an error.
    pub frame: Frame,
    /// The text behind its marker.
    pub raw: String,
    /// Why the content could not be read. A frame that is still being written usually has one.
    pub error: Option<PayloadError>,
    /// Its ids, marker included.
    pub tokens: Range<usize>,
    /// Whether something ended it: another marker or a stop id.
    pub closed: bool,
}

/// What was generated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The frames, up to the first error.
    pub frames: Vec<GeneratedFrame>,
    /// The stop id that ended the output. It is part of no frame.
    pub stopped_by: Option<u32>,
    /// Why reading ended before the output did.
    pub error: Option<ParseError>,
}

/// Reads generated ids.
///
/// Unlike parsing the decoded text, text that spells a marker stays text, and a stop id (end of
/// sequence or of turn; `stops` names them) never gets into a payload: the output ends there. The `end`
/// marker is a frame as any other, so what follows it is still read. With `strict`, a marker that only
/// the runtime may write ends the reading with an error; the frames before it are kept.
pub fn read_generated(
    tokenizer: &Llama3Tokenizer,
    ids: &[u32],
    strict: bool,
    stops: &[u32],
) -> Generated {
    let mut generated = Generated::default();
    let is_stop = |id: &u32| stops.contains(id) && kind_of_marker(*id).is_none();
    let end = ids.iter().position(is_stop).unwrap_or(ids.len());
    generated.stopped_by = ids.get(end).copied();
    let ids = &ids[..end];

    let markers: Vec<(usize, FrameKind)> = ids
        .iter()
        .enumerate()
        .filter_map(|(at, id)| Some((at, kind_of_marker(*id)?)))
        .collect();
    let before = markers.first().map_or(ids.len(), |(at, _)| *at);
    let text = tokenizer.decode(&ids[..before]);
    let rest = python::strip_start(&text);
    if !rest.is_empty() {
        let preview: String = rest.chars().take(40).collect();
        generated.error = Some(ParseError::NoMarker {
            offset: text[..text.len() - rest.len()].chars().count(),
            preview: python::repr_str(&preview),
        });
        return generated;
    }
    for (index, &(at, kind)) in markers.iter().enumerate() {
        if strict && kind.owner() == Owner::Runtime {
            generated.error = Some(ParseError::NotTheModels(kind));
            return generated;
        }
        let next = markers.get(index + 1).map(|(next, _)| *next);
        let body = at + 1..next.unwrap_or(ids.len());
        let raw = tokenizer.decode(&ids[body.clone()]);
        let (content, error) = match read_payload(kind, &raw) {
            Ok(content) => (content, None),
            Err(error) => (Value::Null, Some(error)),
        };
        generated.frames.push(GeneratedFrame {
            frame: Frame { kind, content },
            raw,
            error,
            tokens: at..body.end,
            closed: next.is_some() || generated.stopped_by.is_some() || kind == FrameKind::End,
        });
    }
    generated
}
