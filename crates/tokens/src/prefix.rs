//! What a key-value cache keeps from one turn of the model to the next.
//!
//! A cache holds the ids of the last prompt and those that the model wrote after it. Of the next prompt
//! it serves the longest beginning that has the same ids; the rest is run anew. Nothing is assumed about
//! the formats here: every prompt is written and encoded as it would be sent, and the ids are compared.

use crate::{Arm, Llama3Tokenizer, PromptError, prompt};
use ahash::AHashMap;
use formats::agenticml::{RenderError, View};
use formats::chatml::{self, TemplateError, TemplateErrorKind};
use formats::{FrameKind, Owner, Rendering, SegmentKind, Trajectory, agenticml, bridge};
use std::ops::Range;

/// One turn of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The frames that the model writes in it.
    pub frames: Range<usize>,
    /// Ids of its prompt.
    pub prompt: usize,
    /// How many of those, from the first on, the cache has already.
    pub kept: usize,
    /// Ids in the cache when the turn begins: the prompt before and what was written after it. (The last
    /// of these was chosen, but not run; a cache that wants it runs it with the next prompt.)
    pub held: usize,
    /// Ids that the model writes.
    pub written: usize,
}

impl Turn {
    /// Ids of the prompt that have to be run.
    pub fn anew(&self) -> usize {
        self.prompt - self.kept
    }

    /// Ids in the cache that no longer serve.
    pub fn dropped(&self) -> usize {
        self.held - self.kept
    }
}

/// The turns of a trajectory, and what they amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns(pub Vec<Turn>);

impl Turns {
    /// Ids of all prompts.
    pub fn prompt(&self) -> usize {
        self.0.iter().map(|turn| turn.prompt).sum()
    }

    /// Ids of prompts that the cache served.
    pub fn kept(&self) -> usize {
        self.0.iter().map(|turn| turn.kept).sum()
    }

    /// Ids of prompts that had to be run.
    pub fn anew(&self) -> usize {
        self.prompt() - self.kept()
    }

    /// Ids in the cache that did not serve a later turn.
    pub fn dropped(&self) -> usize {
        self.0.iter().map(Turn::dropped).sum()
    }
}

/// How many ids two lists have in common from the first on.
pub fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// What a cache keeps over the turns of a trajectory. The prompt of a turn is what the frames before it
/// are for the arm; what the model writes is what the wire has behind that prompt once the turn is done.
///
/// On the AgenticML side a turn is a run of the model's frames up to its `end`. On the ChatML side it is
/// one assistant message, so a batch of calls is as many turns.
///
/// # Errors
/// When a beginning of the trajectory cannot be written for the arm.
pub fn turns(
    tokenizer: &Llama3Tokenizer,
    trajectory: &Trajectory,
    arm: Arm,
) -> Result<Turns, PromptError> {
    let ranges = match arm {
        Arm::AgenticMl => agenticml_turns(trajectory),
        Arm::ChatMl => chatml_turns(trajectory)?,
    };
    let mut encoder = Encoder {
        tokenizer,
        known: AHashMap::new(),
    };
    let mut held: Vec<u32> = Vec::new();
    let mut turns = Vec::with_capacity(ranges.len());
    for frames in ranges {
        let prompt = encoder.ids(prompt(&beginning(trajectory, frames.start), arm))?;
        let done = encoder.ids(wire(&beginning(trajectory, frames.end), arm))?;
        let written = done.get(common(&prompt, &done)..).unwrap_or_default();
        turns.push(Turn {
            prompt: prompt.len(),
            kept: common(&held, &prompt),
            held: held.len(),
            written: written.len(),
            frames,
        });
        held = prompt;
        held.extend(written);
    }
    Ok(Turns(turns))
}

fn beginning(trajectory: &Trajectory, frames: usize) -> Trajectory {
    Trajectory {
        frames: trajectory.frames[..frames].to_vec(),
    }
}

/// What is written of these frames, with no turn opened.
fn wire(trajectory: &Trajectory, arm: Arm) -> Result<Rendering, PromptError> {
    Ok(match arm {
        Arm::AgenticMl => agenticml::render(trajectory, View::Reserved)?,
        Arm::ChatMl => chatml::render(&bridge::messages(trajectory)?, &chatml::Options::default())?,
    })
}

fn agenticml_turns(trajectory: &Trajectory) -> Vec<Range<usize>> {
    let mut turns: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for (at, frame) in trajectory.frames.iter().enumerate() {
        if frame.kind.owner() == Owner::Runtime {
            open = false;
            continue;
        }
        match turns.last_mut() {
            Some(turn) if open => turn.end = at + 1,
            _ => turns.push(at..at + 1),
        }
        open = frame.kind != FrameKind::End;
    }
    turns
}

fn chatml_turns(trajectory: &Trajectory) -> Result<Vec<Range<usize>>, PromptError> {
    let kind = |at: usize| trajectory.frames.get(at).map(|frame| frame.kind);
    let conversation = bridge::messages(trajectory)?;
    let assistant = conversation
        .messages
        .iter()
        .zip(&conversation.origins)
        .filter(|(message, _)| message.role() == "assistant");
    Ok(assistant
        .filter_map(|(_, origin)| {
            let frames = origin.frames();
            let is_action = |at: &usize| kind(*at) == Some(FrameKind::Action);
            let action = frames.iter().copied().rev().find(is_action)?;
            // The reasoning right before the call is written in the same turn.
            let reasons = |at: usize| {
                matches!(
                    kind(at),
                    Some(FrameKind::Belief | FrameKind::Plan | FrameKind::Think)
                )
            };
            let start = (0..action)
                .rev()
                .take_while(|&at| reasons(at))
                .last()
                .unwrap_or(action);
            let end = origin.end.unwrap_or(action);
            Some(start..end.max(action) + 1)
        })
        .collect())
}

/// Encodes wires that have long stretches in common: what stands between two special tokens is encoded
/// once.
struct Encoder<'a> {
    tokenizer: &'a Llama3Tokenizer,
    known: AHashMap<String, Vec<u32>>,
}

impl Encoder<'_> {
    /// The ids of a wire, with text encoded as text. Where there is nothing to write there are none.
    fn ids(&mut self, rendering: Result<Rendering, PromptError>) -> Result<Vec<u32>, PromptError> {
        let rendering = match rendering {
            Err(
                PromptError::Render(RenderError::Empty)
                | PromptError::Template(TemplateError {
                    kind: TemplateErrorKind::Empty,
                    ..
                }),
            ) => return Ok(Vec::new()),
            other => other?,
        };
        let mut ids = Vec::new();
        let mut text = String::new();
        for segment in &rendering.segments {
            let special = match segment.kind {
                SegmentKind::Special => self.tokenizer.special_id(&segment.text),
                SegmentKind::Text => None,
            };
            match special {
                Some(id) => {
                    self.flush(&mut text, &mut ids);
                    ids.push(id);
                }
                None => text.push_str(&segment.text),
            }
        }
        self.flush(&mut text, &mut ids);
        Ok(ids)
    }

    fn flush(&mut self, text: &mut String, ids: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let text = std::mem::take(text);
        if let Some(known) = self.known.get(&text) {
            ids.extend(known);
            return;
        }
        let new = self.tokenizer.encode_plain(&text);
        ids.extend(&new);
        self.known.insert(text, new);
    }
}
