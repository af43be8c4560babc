//! A rendering as tokens: ids, places, origins and labels.

use crate::Llama3Tokenizer;
use crate::llama3::Found;
use ahash::AHashMap;
use formats::{FrameKind, Owner, Policy, Rendering, Role, SegmentKind};
use std::ops::Range;
use std::sync::Arc;

/// Which format's mask rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// Frames on reserved slots.
    AgenticMl,
    /// The Llama 3.1 Instruct layout.
    ChatMl,
}

/// One token of a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// First byte in the wire.
    pub start: usize,
    /// Byte behind its last one in the wire.
    pub end: usize,
    /// Its text. Where the token holds only part of a character, U+FFFD stands for that part; then see
    /// [`Token::bytes`].
    pub text: String,
    /// Its bytes; all tokens' bytes put together are the wire.
    pub bytes: Vec<u8>,
    /// The name of the special token, e.g. `<|eot_id|>`.
    pub special: Option<String>,
    /// Index of the segment in which it starts.
    pub segment: usize,
    /// It ends in a later segment: one token closes a segment and opens the next.
    pub seam: bool,
    /// The text spells a special token here. Under [`Policy::Reference`] the token is that special
    /// token, under [`Policy::Safe`] one of the plain tokens that spell it.
    pub forged: bool,
    /// Who writes it.
    pub owner: Owner,
    /// Format, boilerplate or content.
    pub role: Role,
    /// Index of the frame it comes from.
    pub frame: Option<usize>,
    /// Kind of that frame.
    pub frame_kind: Option<FrameKind>,
    /// Index of the message it is part of (ChatML only).
    pub message: Option<usize>,
    /// The id when trained on, `None` when masked (-100).
    pub label: Option<u32>,
    /// Trained although the prompt supplies it.
    pub given: bool,
}

/// The tokens of a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenView {
    /// The wire.
    pub wire: String,
    /// Its tokens.
    pub tokens: Vec<Token>,
}

/// Numbers of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub tokens: usize,
    /// With a label.
    pub trained: usize,
    /// Of role structure.
    pub structure: usize,
    /// Of role template.
    pub template: usize,
    /// Of role content.
    pub content: usize,
    /// Forged ones.
    pub forged: usize,
    /// Per frame of the trajectory, as long as the highest frame index asks for.
    pub per_frame: Vec<usize>,
    /// Per kind of frame, in the order of [`FrameKind::ALL`].
    pub per_kind: [usize; 11],
}

impl TokenView {
    /// The ids.
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    /// The labels: the id, or -100 where masked.
    pub fn labels(&self) -> Vec<i64> {
        self.tokens
            .iter()
            .map(|token| token.label.map_or(-100, i64::from))
            .collect()
    }

    /// Whether any text spells a special token.
    pub fn has_forged(&self) -> bool {
        self.tokens.iter().any(|token| token.forged)
    }

    /// Indices of the tokens of this frame.
    pub fn tokens_of_frame(&self, frame: usize) -> Vec<usize> {
        (0..self.tokens.len())
            .filter(|&index| self.tokens[index].frame == Some(frame))
            .collect()
    }

    /// Counts its tokens. A seam counts for the segment in which it starts.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            tokens: self.tokens.len(),
            ..Counts::default()
        };
        for token in &self.tokens {
            counts.trained += usize::from(token.label.is_some());
            counts.forged += usize::from(token.forged);
            match token.role {
                Role::Structure => counts.structure += 1,
                Role::Template => counts.template += 1,
                Role::Content => counts.content += 1,
            }
            if let Some(frame) = token.frame {
                if counts.per_frame.len() <= frame {
                    counts.per_frame.resize(frame + 1, 0);
                }
                counts.per_frame[frame] += 1;
            }
            if let Some(kind) = token.frame_kind {
                counts.per_kind[usize::from(kind.slot())] += 1;
            }
        }
        counts
    }
}

/// Encodes a rendering and labels its tokens by the arm's mask rule.
///
/// [`Policy::Safe`] makes special tokens of special segments alone; text is encoded as text, and the
/// tokens that spell a special token are marked as forged. [`Policy::Reference`] encodes the whole wire
/// at once, so that a spelt special token becomes a real one, marked as forged too. Where nothing is
/// forged, both give the same tokens.
///
/// The tokens' bytes put together are the wire, whatever the policy.
pub fn view(
    tokenizer: &Llama3Tokenizer,
    rendering: &Rendering,
    arm: Arm,
    policy: Policy,
) -> TokenView {
    view_again(&mut Memory::default(), tokenizer, rendering, arm, policy)
}

/// What was encoded last, so that an edited wire is encoded anew only where it changed.
///
/// Under [`Policy::Safe`] no token spans a special segment, so what stands between two of them is
/// encoded by itself and can be kept by its text. It belongs to one tokenizer.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    texts: AHashMap<String, Arc<Encoded>>,
}

/// The tokens of a text, and where it spells special tokens.
#[derive(Debug)]
struct Encoded {
    found: Vec<Found>,
    spelt: Vec<Range<usize>>,
}

impl Encoded {
    fn new(tokenizer: &Llama3Tokenizer, text: &str, policy: Policy) -> Self {
        let mut found = Vec::new();
        if policy == Policy::Safe {
            tokenizer.encode(text, false, &mut found);
        }
        let spelt = tokenizer
            .find_specials(text)
            .into_iter()
            .map(|(at, id)| at..at + tokenizer.piece(id).bytes.len())
            .collect();
        Self { found, spelt }
    }
}

/// Does as [`view`] does, and encodes only texts that were not in the wire that `memory` saw last.
/// A memory is used with one tokenizer and one policy.
pub fn view_again(
    memory: &mut Memory,
    tokenizer: &Llama3Tokenizer,
    rendering: &Rendering,
    arm: Arm,
    policy: Policy,
) -> TokenView {
    let wire = rendering.text();
    let ranges = rendering.ranges();
    let runs = runs(tokenizer, rendering, &ranges);

    let mut found = Vec::with_capacity(wire.len() / 3);
    let mut forged: Vec<Range<usize>> = Vec::new();
    let mut texts = AHashMap::with_capacity(memory.texts.len());
    for run in &runs {
        if let Some(id) = run.special {
            found.push(Found {
                id,
                len: run.range.len(),
            });
            continue;
        }
        let text = &wire[run.range.clone()];
        let encoded = match texts.get(text) {
            Some(encoded) => Arc::clone(encoded),
            None => {
                let (key, encoded) = memory.texts.remove_entry(text).unwrap_or_else(|| {
                    let encoded = Encoded::new(tokenizer, text, policy);
                    (text.to_owned(), Arc::new(encoded))
                });
                texts.insert(key, Arc::clone(&encoded));
                encoded
            }
        };
        found.extend_from_slice(&encoded.found);
        let start = run.range.start;
        let spelt = encoded.spelt.iter();
        forged.extend(spelt.map(|spelt| start + spelt.start..start + spelt.end));
    }
    memory.texts = texts;
    if policy == Policy::Reference {
        found.clear();
        tokenizer.encode(&wire, true, &mut found);
    }
    let labels = labels(arm, found.iter().map(|token| token.id));

    let mut tokens = Vec::with_capacity(found.len());
    let mut start = 0;
    let mut segment = 0;
    let mut next_forged = 0;
    for (token, label) in found.into_iter().zip(labels) {
        let end = start + token.len;
        while ranges[segment].end <= start {
            segment += 1;
        }
        while forged.get(next_forged).is_some_and(|f| f.end <= start) {
            next_forged += 1;
        }
        let origin = &rendering.segments[segment];
        let piece = tokenizer.piece(token.id);
        tokens.push(Token {
            id: token.id,
            start,
            end,
            text: String::from_utf8_lossy(piece.bytes).into_owned(),
            bytes: piece.bytes.to_vec(),
            special: piece.special.map(str::to_owned),
            segment,
            seam: end > ranges[segment].end,
            forged: forged.get(next_forged).is_some_and(|f| f.start < end),
            owner: origin.owner,
            role: origin.role,
            frame: origin.frame,
            frame_kind: origin.frame_kind,
            message: origin.message,
            label: label.then_some(token.id),
            given: label && origin.given,
        });
        start = end;
    }
    TokenView { wire, tokens }
}

/// A special segment, or a stretch of text segments that are encoded together (words may span them).
struct Run {
    range: Range<usize>,
    special: Option<u32>,
}

fn runs(tokenizer: &Llama3Tokenizer, rendering: &Rendering, ranges: &[Range<usize>]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (segment, range) in rendering.segments.iter().zip(ranges) {
        // In the marker view a special segment is spelt by its alias, which is plain text.
        let special = match segment.kind {
            SegmentKind::Special => tokenizer.special_id(&segment.text),
            SegmentKind::Text => None,
        };
        match runs.last_mut() {
            Some(last) if special.is_none() && last.special.is_none() => {
                last.range.end = range.end;
            }
            _ => runs.push(Run {
                range: range.clone(),
                special,
            }),
        }
    }
    runs
}

/// Which of these ids the arm trains on, by the reference's rules over ids.
pub fn labels(arm: Arm, ids: impl Iterator<Item = u32>) -> Vec<bool> {
    match arm {
        Arm::AgenticMl => agenticml_labels(ids),
        Arm::ChatMl => chatml_labels(&ids.collect::<Vec<_>>()),
    }
}

/// A model marker switches training on, with itself; a runtime marker switches it off.
fn agenticml_labels(ids: impl Iterator<Item = u32>) -> Vec<bool> {
    let mut trained = false;
    ids.map(|id| {
        if let Some(kind) = kind_of_marker(id) {
            trained = kind.owner() == Owner::Model;
        }
        trained
    })
    .collect()
}

/// The kind of frame whose marker has this id.
pub fn kind_of_marker(id: u32) -> Option<FrameKind> {
    FrameKind::ALL
        .into_iter()
        .find(|kind| marker_id(*kind) == id)
}

/// The id of a frame kind's marker: the reserved slots are numbered 128002, 128003, 128005 and from
/// 128011 on.
pub fn marker_id(kind: FrameKind) -> u32 {
    match u32::from(kind.slot()) {
        slot @ (0 | 1) => 128_002 + slot,
        2 => 128_005,
        slot => 128_008 + slot,
    }
}

/// Everything behind an assistant header up to the turn's end, inclusive; a header counts only if the
/// one token `assistant` stands in it.
fn chatml_labels(ids: &[u32]) -> Vec<bool> {
    let mut labels = vec![false; ids.len()];
    let find = |id: u32, from: usize| {
        ids[from..]
            .iter()
            .position(|&other| other == id)
            .map(|at| from + at)
    };
    let mut at = 0;
    while let Some(header) = find(START_HEADER, at) {
        let Some(header_end) = find(END_HEADER, header + 1) else {
            break;
        };
        let turn_end = find(EOT, header_end + 1).map_or(ids.len(), |eot| eot + 1);
        if ids[header + 1..header_end] == [ASSISTANT] {
            labels[header_end + 1..turn_end].fill(true);
        }
        at = turn_end;
    }
    labels
}

/// Id of `<|start_header_id|>`.
const START_HEADER: u32 = 128_006;
/// Id of `<|end_header_id|>`.
const END_HEADER: u32 = 128_007;
/// Id of `<|eot_id|>`.
const EOT: u32 = 128_009;
/// Id of the word `assistant`.
const ASSISTANT: u32 = 78_191;
