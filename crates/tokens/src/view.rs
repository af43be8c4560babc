//! A rendering as tokens: ids, places, origins and labels.

use crate::Llama3Tokenizer;
use formats::{FrameKind, Owner, Rendering, Role};

/// Which format's mask rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// Frames on reserved slots.
    AgenticMl,
    /// The Llama 3.1 Instruct layout.
    ChatMl,
}

/// What to do with text that spells a special token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Text stays text: only special segments become special tokens. Equal to [`Policy::Reference`]
    /// whenever no text spells a special token.
    #[default]
    Safe,
    /// The whole wire is encoded at once, so that spelt special tokens become real ones and may move
    /// the mask. These are the ids the published models were trained on.
    Reference,
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
pub fn view(
    _tokenizer: &Llama3Tokenizer,
    rendering: &Rendering,
    _arm: Arm,
    _policy: Policy,
) -> TokenView {
    TokenView {
        wire: rendering.text(),
        tokens: Vec::new(),
    }
}
