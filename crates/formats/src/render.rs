//! What rendering yields: segments, whose texts put together are the wire.

use crate::frame::{FrameKind, Owner};
use std::ops::Range;

/// What a segment is for the tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Exactly one special token, meant as such. (In the marker view: its alias.)
    Special,
    /// Text. If it happens to spell a special token, that token is forged.
    Text,
}

/// What a segment is for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What the format itself writes: markers, headers, turn ends, blank lines.
    Structure,
    /// Boilerplate of a template that no frame or message wrote: dates, tool preambles.
    Template,
    /// What a frame or message says.
    Content,
}

/// A run of the wire with one origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Its text, never empty.
    pub text: String,
    /// One special token, or text.
    pub kind: SegmentKind,
    /// Format, boilerplate or content.
    pub role: Role,
    /// Who writes it when the model runs.
    pub owner: Owner,
    /// Index of the frame it comes from. A turn end that stands for an `end` frame has that frame.
    pub frame: Option<usize>,
    /// Kind of that frame.
    pub frame_kind: Option<FrameKind>,
    /// Index of the message it is part of (ChatML only).
    pub message: Option<usize>,
    /// Whether the format's own rule trains on it.
    pub trained: bool,
    /// Trained although the prompt supplies it at inference: the blank line after an assistant
    /// header.
    pub given: bool,
}

/// A trajectory or conversation in a wire format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendering {
    /// The segments in order; their texts concatenated are the wire.
    pub segments: Vec<Segment>,
}

impl Rendering {
    /// The wire.
    pub fn text(&self) -> String {
        self.segments.iter().map(|s| s.text.as_str()).collect()
    }

    /// Byte range of every segment in [`Rendering::text`].
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        self.segments
            .iter()
            .map(|segment| {
                let range = start..start + segment.text.len();
                start = range.end;
                range
            })
            .collect()
    }

    /// Byte ranges of the wire that come from this frame, in order, adjacent ones joined.
    pub fn frame_ranges(&self, frame: usize) -> Vec<Range<usize>> {
        self.joined(|segment| segment.frame == Some(frame))
    }

    /// Byte ranges of the wire that belong to this message, in order, adjacent ones joined.
    pub fn message_ranges(&self, message: usize) -> Vec<Range<usize>> {
        self.joined(|segment| segment.message == Some(message))
    }

    fn joined(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut start = 0;
        for segment in &self.segments {
            let end = start + segment.text.len();
            if wanted(segment) {
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => ranges.push(start..end),
                }
            }
            start = end;
        }
        ranges
    }
}
