//! What a side sends.

use super::{Live, Mode};
use crate::document::{Document, Side};
use agent::reading::{Manner, Markers};
use engine::protocol::Prompt;
use formats::{FrameKind, Policy, Trajectory, agenticml, bridge, json};
use leptos::prelude::*;
use tokens::{Arm, RANKS, SPECIALS, TokenView, marker_id, view};

/// What is asked of the engine.
pub struct Sent {
    /// The prompt.
    pub prompt: Prompt,
    /// Ids that end the turn besides the model's own.
    pub stops: Vec<u32>,
    /// Number of the first frame or of the message that the model is to write.
    pub first: usize,
}

/// The first frame that is not sent.
pub fn cut(document: &Document, live: Live) -> usize {
    let frames = &document.trajectory.frames;
    live.cut
        .get()
        .filter(|cut| *cut <= frames.len())
        .unwrap_or_else(|| {
            frames
                .iter()
                .position(|frame| frame.kind.owner() == formats::Owner::Model)
                .unwrap_or(frames.len())
        })
}

/// Places where a model's turn begins, and the end.
pub fn cuts(document: &Document) -> Vec<usize> {
    let frames = &document.trajectory.frames;
    let is_model = |at: usize| frames[at].kind.owner() == formats::Owner::Model;
    let mut cuts: Vec<usize> = (1..frames.len())
        .filter(|&at| is_model(at) && !is_model(at - 1))
        .collect();
    if !frames.is_empty() {
        cuts.push(frames.len());
    }
    cuts
}

/// The frames that are sent.
pub fn given(document: &Document, live: Live) -> Trajectory {
    Trajectory {
        frames: document.trajectory.frames[..cut(document, live)].to_vec(),
    }
}

impl Live {
    /// Whether a side's model has the vocabulary of Llama 3.1, and with it our ids.
    pub fn knows_ids(self, side: Side) -> bool {
        self.ready(side)
            .is_some_and(|model| model.vocabulary == RANKS + SPECIALS)
    }

    /// How markers are written for a side's model.
    pub fn markers(self, side: Side) -> Markers {
        if self.knows_ids(side) || self.speaks_frames(side) {
            Markers::Tokens
        } else {
            Markers::Spelled
        }
    }

    /// How a side's turns are read.
    pub fn manner(self, side: Side) -> Manner {
        Manner {
            arm: arm(side),
            markers: self.markers(side),
            strict: self.strict.get(),
            policy: self.policy(side),
        }
    }

    /// The policy that is in force on a side: another vocabulary leaves no choice.
    pub fn policy(self, side: Side) -> Policy {
        if self.has_policy(side) {
            self.side(side).policy.get()
        } else {
            Policy::Safe
        }
    }

    /// Whether the policy changes anything on a side.
    pub fn has_policy(self, side: Side) -> bool {
        self.knows_ids(side) && self.side(side).mode.get() == Mode::Trajectory
    }

    /// The tokens of a prompt by a policy, where they are ours.
    pub fn prompt_tokens(
        self,
        side: Side,
        trajectory: &Trajectory,
        policy: Policy,
    ) -> Option<TokenView> {
        let tokenizer = self.tokenizer.get()?;
        let rendering = tokens::prompt(trajectory, arm(side)).ok()?;
        Some(view(&tokenizer, &rendering, arm(side), policy))
    }

    /// What continues a trajectory on a side.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(super) fn sent(self, side: Side, trajectory: &Trajectory) -> Result<Sent, String> {
        let first = match side {
            Side::A => trajectory.frames.len(),
            Side::B => bridge::messages(trajectory)
                .map_err(|error| error.to_string())?
                .messages
                .len(),
        };
        let stops = match side {
            Side::A if self.knows_ids(side) => vec![marker_id(FrameKind::End)],
            _ => Vec::new(),
        };
        let by_ids = self.knows_ids(side) && self.side(side).mode.get() == Mode::Trajectory;
        let prompt = if by_ids {
            let rendering =
                tokens::prompt(trajectory, arm(side)).map_err(|error| error.to_string())?;
            let tokenizer = self
                .tokenizer
                .get()
                .ok_or("The page's tokenizer is not there yet.")?;
            let ids = view(&tokenizer, &rendering, arm(side), self.policy(side)).ids();
            Prompt::Ids { ids }
        } else if side == Side::A {
            let markers = match self.markers(side) {
                Markers::Tokens => agenticml::View::Reserved,
                Markers::Spelled => agenticml::View::Markers,
            };
            let rendering =
                agenticml::render(trajectory, markers).map_err(|error| error.to_string())?;
            Prompt::Text {
                text: rendering.text(),
            }
        } else {
            let conversation = bridge::messages(trajectory).map_err(|error| error.to_string())?;
            Prompt::Messages {
                json: json::dumps(&conversation.to_json()),
            }
        };
        Ok(Sent {
            prompt,
            stops,
            first,
        })
    }
}

/// A side's arm.
pub fn arm(side: Side) -> Arm {
    match side {
        Side::A => Arm::AgenticMl,
        Side::B => Arm::ChatMl,
    }
}
