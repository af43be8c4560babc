//! Text that imitates control tokens.

use crate::frame::FrameKind;
use crate::render::{Rendering, SegmentKind};
use std::ops::Range;

/// What imitated text would become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threat {
    /// A real special token, when the wire is encoded as the reference does.
    SpecialToken,
    /// A frame boundary, when the AgenticML wire is parsed as text (the model sees plain text).
    FrameBoundary,
}

/// A control token that content spells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forged {
    /// What is spelt, e.g. `<|eot_id|>`.
    pub name: String,
    /// What it would become.
    pub threat: Threat,
    /// Byte range in the wire.
    pub range: Range<usize>,
    /// Index of the segment in which it begins.
    pub segment: usize,
    /// Index of the frame in which it begins.
    pub frame: Option<usize>,
    /// Index of the message in which it begins.
    pub message: Option<usize>,
}

/// All control tokens that a rendering's text spells, in order. Reserved tokens and the template's own
/// are special tokens; aliases such as `<|end|>` are not, but parse as frame boundaries.
pub fn find(rendering: &Rendering) -> Vec<Forged> {
    let ranges = rendering.ranges();
    let mut found = Vec::new();
    let mut at = 0;
    while at < ranges.len() {
        if rendering.segments[at].kind == SegmentKind::Special {
            at += 1;
            continue;
        }
        // Neighbouring text segments are one text: a name may span them.
        let first = at;
        let mut text = String::new();
        while let Some(segment) = rendering.segments.get(at)
            && segment.kind == SegmentKind::Text
        {
            text.push_str(&segment.text);
            at += 1;
        }
        let start = ranges[first].start;
        for (name, threat) in names(&text) {
            let range = start + name.start..start + name.end;
            let segment = first + ranges[first..at].partition_point(|r| r.end <= range.start);
            found.push(Forged {
                name: text[name].to_owned(),
                threat,
                range,
                segment,
                frame: rendering.segments[segment].frame,
                message: rendering.segments[segment].message,
            });
        }
    }
    found
}

/// Longest name of a special token.
const LONGEST: usize = "<|reserved_special_token_247|>".len();

fn names(text: &str) -> Vec<(Range<usize>, Threat)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find("<|") {
        at += next;
        let window = &text.as_bytes()[at..text.len().min(at + LONGEST)];
        let len = window.windows(2).position(|pair| pair == b"|>");
        let name = len.map_or("", |len| &text[at..at + len + 2]);
        let threat = if is_special_token(name) {
            Some(Threat::SpecialToken)
        } else if FrameKind::from_alias(name).is_some() {
            Some(Threat::FrameBoundary)
        } else {
            None
        };
        match threat {
            Some(threat) => {
                found.push((at..at + name.len(), threat));
                at += name.len();
            }
            None => at += 2,
        }
    }
    found
}

/// Whether this is the full name of one of Llama 3.1's 256 special tokens.
pub fn is_special_token(name: &str) -> bool {
    const TEMPLATE: [&str; 8] = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|finetune_right_pad_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
    ];
    let slot = name
        .strip_prefix("<|reserved_special_token_")
        .and_then(|rest| rest.strip_suffix("|>"));
    match slot {
        Some(slot) => {
            let canonical = slot == "0" || !slot.starts_with(['0', '+']);
            canonical && slot.parse::<u8>().is_ok_and(|slot| slot <= 247)
        }
        None => TEMPLATE.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenticml::{View, render};
    use crate::frame::{Frame, Trajectory};

    #[test]
    fn forged_tokens_are_found_where_they_stand() {
        let text = "é<|end|> <|eot_id|><|reserved_special_token_6|><|reserved_special_token_06|>\
                    <|reserved_special_token_248|><|<|goal|>";
        let trajectory = Trajectory {
            frames: vec![
                Frame::new(FrameKind::Goal, "g"),
                Frame::new(FrameKind::Obs, text),
            ],
        };
        let rendering = render(&trajectory, View::Reserved).expect("renders");
        let wire = rendering.text();
        let found = find(&rendering);
        let names: Vec<&str> = found.iter().map(|forged| forged.name.as_str()).collect();
        let expected = [
            "<|end|>",
            "<|eot_id|>",
            "<|reserved_special_token_6|>",
            "<|goal|>",
        ];
        assert_eq!(names, expected);
        for forged in &found {
            assert_eq!(wire[forged.range.clone()], forged.name);
            assert_eq!(forged.frame, Some(1));
        }
        assert_eq!(found[0].threat, Threat::FrameBoundary);
        assert_eq!(found[1].threat, Threat::SpecialToken);
    }
}
