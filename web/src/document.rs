//! Everything the page shows about one trajectory, computed in one go: both renderings, their
//! tokens, the rows, the counts. No format logic: it asks `formats` and `tokens`.

use crate::rows;
use formats::{
    Conversation, Frame, FrameKind, Policy, Rendering, Role, Segment, SegmentKind, Trajectory,
    agenticml, bridge, chatml,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use tokens::{Arm, Llama3Tokenizer, Memory, Token, TokenView};

/// One of the two facing pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// AgenticML.
    A,
    /// ChatML.
    B,
}

impl Side {
    /// Both, left to right.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// 0 or 1.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The letter on its plate.
    pub fn plate(self) -> &'static str {
        ["A", "B"][self.index()]
    }

    /// Value of `data-side`.
    pub fn key(self) -> &'static str {
        ["agenticml", "chatml"][self.index()]
    }

    /// The format's name.
    pub fn title(self) -> &'static str {
        ["AgenticML", "ChatML"][self.index()]
    }

    /// The side with this `data-side`.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::BOTH.into_iter().find(|side| side.key() == key)
    }

    /// The opposite one.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// What colours a part of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tone {
    /// A frame of this kind.
    Kind(FrameKind),
    /// Structure that no frame owns: begin of text, headers, turn ends.
    Turn,
    /// Template text that no frame owns.
    Template,
}

impl Tone {
    fn new(frame_kind: Option<FrameKind>, role: Role) -> Self {
        match (frame_kind, role) {
            (Some(kind), _) => Self::Kind(kind),
            (None, Role::Template) => Self::Template,
            (None, _) => Self::Turn,
        }
    }

    /// Of a segment.
    pub fn of_segment(segment: &Segment) -> Self {
        Self::new(segment.frame_kind, segment.role)
    }

    /// Of a token.
    pub fn of_token(token: &Token) -> Self {
        Self::new(token.frame_kind, token.role)
    }

    /// Its CSS class.
    pub fn class(self) -> &'static str {
        match self {
            Self::Kind(kind) => class(kind),
            Self::Turn => "k-turn",
            Self::Template => "k-tmpl",
        }
    }
}

/// A kind's CSS class.
pub fn class(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Goal => "k-goal",
        FrameKind::Mission => "k-mission",
        FrameKind::Obs => "k-obs",
        FrameKind::Belief => "k-belief",
        FrameKind::Plan => "k-plan",
        FrameKind::Think => "k-think",
        FrameKind::Action => "k-action",
        FrameKind::End => "k-end",
        FrameKind::Result => "k-result",
        FrameKind::Feedback => "k-feedback",
        FrameKind::Reward => "k-reward",
    }
}

/// Token counts of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All tokens.
    pub tokens: usize,
    /// Tokens with a label.
    pub trained: usize,
    /// Tokens of structure and template.
    pub structure: usize,
    /// Per frame.
    pub frames: Vec<usize>,
    /// Per kind, by slot.
    pub kinds: [usize; FrameKind::ALL.len()],
    /// Begin of text and headers that no frame owns.
    pub headers: usize,
    /// Turn ends that no frame owns.
    pub ends: usize,
    /// Template text.
    pub template: usize,
}

impl Tally {
    fn of(view: &TokenView, frames: usize) -> Self {
        let mut tally = Self {
            tokens: view.tokens.len(),
            frames: vec![0; frames],
            ..Self::default()
        };
        for token in &view.tokens {
            tally.trained += usize::from(token.label.is_some());
            tally.structure += usize::from(token.role != Role::Content);
            if let Some(count) = token.frame.and_then(|frame| tally.frames.get_mut(frame)) {
                *count += 1;
            }
            match Tone::of_token(token) {
                Tone::Kind(kind) => tally.kinds[usize::from(kind.slot())] += 1,
                Tone::Template => tally.template += 1,
                Tone::Turn if ends_turn(token) => tally.ends += 1,
                Tone::Turn => tally.headers += 1,
            }
        }
        tally
    }

    /// Tokens of a kind.
    pub fn kind(&self, kind: FrameKind) -> usize {
        self.kinds[usize::from(kind.slot())]
    }

    /// Turns as one figure: headers and turn ends.
    pub fn turns(&self) -> usize {
        self.headers + self.ends
    }
}

fn ends_turn(token: &Token) -> bool {
    token
        .special
        .as_deref()
        .is_some_and(|name| name.contains("eot_id") || name.contains("eom_id"))
}

/// One side of a [`Document`].
pub struct SideDoc {
    /// The wire in segments. AgenticML: with the reserved tokens that the model sees.
    pub rendering: Rendering,
    /// AgenticML: the same segments with readable markers.
    pub markers: Option<Rendering>,
    /// The tokens, once the tokenizer is there.
    pub view: Option<TokenView>,
    /// Their counts.
    pub tally: Tally,
    /// Why there is no rendering.
    pub error: Option<String>,
}

impl SideDoc {
    /// The segments as people read them.
    pub fn readable(&self) -> &Rendering {
        self.markers.as_ref().unwrap_or(&self.rendering)
    }

    /// The tokens; empty until the tokenizer is there.
    pub fn tokens(&self) -> &[Token] {
        self.view.as_ref().map_or(&[], |view| &view.tokens)
    }

    /// Ranges of consecutive tokens that come from this frame.
    pub fn frame_tokens(&self, frame: usize) -> Vec<Range<usize>> {
        rows::runs(
            self.tokens().iter().map(|token| token.frame == Some(frame)),
            0,
        )
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .map(|(_, range)| range)
        .collect()
    }
}

/// One row of the facing pages: a message and the frames opposite it.
pub struct Row {
    /// Its frames.
    pub frames: Range<usize>,
    /// Its message, unless the bridge refused the trajectory.
    pub message: Option<usize>,
    /// Its tokens on either side.
    pub tokens: [Range<usize>; 2],
    /// Its segments on either side.
    pub segments: [Range<usize>; 2],
    /// Changes when anything shown in the row changes.
    pub hash: u64,
}

/// A trajectory and all that is shown of it.
pub struct Document {
    /// The trajectory.
    pub trajectory: Trajectory,
    /// The messages the bridge makes of it.
    pub conversation: Conversation,
    /// Both sides.
    pub sides: [SideDoc; 2],
    /// The rows.
    pub rows: Vec<Row>,
    /// Whether each frame's content spells a special token.
    forged_frames: Vec<bool>,
}

impl Document {
    /// Renders, and tokenizes when there is a tokenizer. The memories, one for each side, are those of
    /// the document before, so that an edit tokenizes only what it changed.
    pub fn new(
        trajectory: Trajectory,
        tokenizer: Option<&Llama3Tokenizer>,
        memories: &mut [Memory; 2],
    ) -> Self {
        let frames = trajectory.frames.len();
        let (conversation, a, b) = render(&trajectory);
        let [memory_a, memory_b] = memories;
        let sides = [(a, Arm::AgenticMl, memory_a), (b, Arm::ChatMl, memory_b)].map(
            |(side, arm, memory)| {
                let (rendering, markers, error) = side;
                let view = tokenizer.filter(|_| error.is_none()).map(|tokenizer| {
                    tokens::view_again(memory, tokenizer, &rendering, arm, Policy::Safe)
                });
                let tally = view
                    .as_ref()
                    .map(|view| Tally::of(view, frames))
                    .unwrap_or_default();
                SideDoc {
                    rendering,
                    markers,
                    view,
                    tally,
                    error,
                }
            },
        );
        let rows = lay_out(&trajectory, &conversation, &sides);
        let mut forged_frames = vec![false; frames];
        for token in sides.iter().flat_map(SideDoc::tokens) {
            if let Some(frame) = token.frame.filter(|_| token.forged)
                && let Some(forged) = forged_frames.get_mut(frame)
            {
                *forged = true;
            }
        }
        Self {
            trajectory,
            conversation,
            sides,
            rows,
            forged_frames,
        }
    }

    /// Whether a frame's content spells a special token.
    pub fn is_forged(&self, frame: usize) -> bool {
        self.forged_frames.get(frame).copied().unwrap_or(false)
    }

    /// One side.
    pub fn side(&self, side: Side) -> &SideDoc {
        &self.sides[side.index()]
    }

    /// The message in which a frame stands.
    pub fn message_of_frame(&self, frame: usize) -> Option<usize> {
        self.conversation.messages_of_frame(frame).first().copied()
    }
}

type Rendered = (Rendering, Option<Rendering>, Option<String>);

fn render(trajectory: &Trajectory) -> (Conversation, Rendered, Rendered) {
    let a = match agenticml::render(trajectory, agenticml::View::Reserved) {
        Ok(rendering) => (
            rendering,
            agenticml::render(trajectory, agenticml::View::Markers).ok(),
            None,
        ),
        Err(error) => (Rendering::default(), None, Some(error.to_string())),
    };
    let (conversation, refused) = match bridge::messages(trajectory) {
        Ok(conversation) => (conversation, None),
        Err(error) => (Conversation::default(), Some(error.to_string())),
    };
    let b = match refused {
        Some(error) => (Rendering::default(), None, Some(error)),
        None => match chatml::render(&conversation, &chatml::Options::default()) {
            Ok(rendering) => (rendering, None, None),
            Err(error) => (Rendering::default(), None, Some(error.to_string())),
        },
    };
    (conversation, a, b)
}

fn lay_out(trajectory: &Trajectory, conversation: &Conversation, sides: &[SideDoc; 2]) -> Vec<Row> {
    let of_messages: Vec<Vec<usize>> = conversation.origins.iter().map(|o| o.frames()).collect();
    let count = of_messages.len().max(1);
    let row_of_frame = rows::of_frames(trajectory.frames.len(), &of_messages);
    let frames = rows::ranges(&row_of_frame, count);
    let wanted = |side: usize, frame: Option<usize>, message: Option<usize>| {
        if side == 0 {
            frame.and_then(|frame| row_of_frame.get(frame).copied())
        } else {
            message
        }
    };
    let parts = [0, 1].map(|side| {
        let segments = rows::assign(
            sides[side]
                .rendering
                .segments
                .iter()
                .map(|s| wanted(side, s.frame, s.message)),
            count,
        );
        let tokens = rows::assign(
            sides[side]
                .tokens()
                .iter()
                .map(|t| wanted(side, t.frame, t.message)),
            count,
        );
        (rows::ranges(&segments, count), rows::ranges(&tokens, count))
    });
    (0..count)
        .map(|at| {
            let segments = [parts[0].0[at].clone(), parts[1].0[at].clone()];
            let tokens = [parts[0].1[at].clone(), parts[1].1[at].clone()];
            let mut row = Row {
                frames: frames[at].clone(),
                message: (at < of_messages.len()).then_some(at),
                tokens,
                segments,
                hash: 0,
            };
            row.hash = hash(&row, trajectory, conversation, sides);
            row
        })
        .collect()
}

fn hash(
    row: &Row,
    trajectory: &Trajectory,
    conversation: &Conversation,
    sides: &[SideDoc; 2],
) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.frames.hash(&mut hasher);
    for frame in &trajectory.frames[row.frames.clone()] {
        frame.kind.hash(&mut hasher);
    }
    // How the message looks in the Messages view; a dropped text shows there and on no wire.
    if let Some(message) = row.message {
        formats::json::dumps(&conversation.messages[message].to_json()).hash(&mut hasher);
    }
    for (side, doc) in sides.iter().enumerate() {
        doc.error.hash(&mut hasher);
        for segment in &doc.rendering.segments[row.segments[side].clone()] {
            segment.text.hash(&mut hasher);
            segment.frame.hash(&mut hasher);
            (segment.trained, segment.given, segment.role).hash(&mut hasher);
        }
        for token in &doc.tokens()[row.tokens[side].clone()] {
            (token.id, token.label.is_some(), token.seam, token.forged).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// A frame's content as text to show or edit: prose as it is, anything else as JSON.
pub fn content_text(frame: &Frame) -> String {
    match &frame.content {
        formats::json::Value::String(text) if frame.kind.payload() != formats::Payload::Json => {
            text.clone()
        }
        formats::json::Value::Null => String::new(),
        other => formats::json::dumps(other),
    }
}

/// Whether a segment is a special token of the wire.
pub fn is_special(segment: &Segment) -> bool {
    segment.kind == SegmentKind::Special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Document {
        let text = include_str!("../../public/samples/lines-in-main-py.json");
        Document::new(
            Trajectory::parse(text).expect("a trajectory"),
            None,
            &mut Default::default(),
        )
    }

    #[test]
    fn rows_put_frames_opposite_their_message() {
        let document = sample();
        let rows: Vec<_> = document
            .rows
            .iter()
            .map(|row| (row.frames.clone(), row.message))
            .collect();
        assert_eq!(
            rows,
            [
                (0..2, Some(0)),
                (2..3, Some(1)),
                (3..5, Some(2)),
                (5..6, Some(3)),
                (6..9, Some(4))
            ]
        );
    }

    #[test]
    fn rows_hold_the_whole_wire_once() {
        let document = sample();
        for side in Side::BOTH {
            let segments = &document.side(side).rendering.segments;
            let in_rows: String = document
                .rows
                .iter()
                .flat_map(|row| segments[row.segments[side.index()].clone()].iter())
                .map(|segment| segment.text.as_str())
                .collect();
            assert_eq!(in_rows, document.side(side).rendering.text());
        }
    }

    #[test]
    fn an_edit_changes_its_row_alone() {
        let before = sample();
        let mut trajectory = before.trajectory.clone();
        trajectory.frames[2].content = "How many words?".into();
        let after = Document::new(trajectory, None, &mut Default::default());
        let changed: Vec<_> = before
            .rows
            .iter()
            .zip(&after.rows)
            .map(|(before, after)| before.hash != after.hash)
            .collect();
        assert_eq!(changed, [false, true, false, false, false]);
    }

    #[test]
    fn what_a_side_cannot_write_is_said() {
        let none = Document::new(Trajectory::default(), None, &mut Default::default());
        assert!(none.side(Side::A).error.is_some());
        assert_eq!(none.rows.len(), 1);
    }
}
