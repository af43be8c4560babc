//! Training rows, and the ids at which generation stops.

use crate::{Arm, Llama3Tokenizer, marker_id, view};
use formats::agenticml::{self, View};
use formats::json::{Value, loads};
use formats::{Conversation, FrameError, FrameKind, Policy, Rendering, Trajectory, bridge, chatml};

/// A training row. Its attention mask is all ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingRow {
    /// The ids.
    pub input_ids: Vec<u32>,
    /// The id, or -100 where masked.
    pub labels: Vec<i64>,
}

/// Makes a training row as the reference does, from a data set row with a column `frames` or
/// `messages` that holds a list or the text of a JSON list.
///
/// The row is empty when there is nothing to train on: no list, nothing renderable, or no label within
/// the first `max_length` tokens.
///
/// # Errors
/// When a frame is not well formed.
pub fn training_row(
    tokenizer: &Llama3Tokenizer,
    arm: Arm,
    row: &Value,
    max_length: usize,
    policy: Policy,
) -> Result<TrainingRow, FrameError> {
    let Some(list) = list(row, arm) else {
        return Ok(TrainingRow::default());
    };
    let rendering = match arm {
        Arm::AgenticMl => agenticml::render(&Trajectory::from_json(&list)?, View::Reserved).ok(),
        Arm::ChatMl => render_messages(&list),
    };
    let Some(rendering) = rendering else {
        return Ok(TrainingRow::default());
    };
    let view = view(tokenizer, &rendering, arm, policy);
    let mut row = TrainingRow {
        input_ids: view.ids(),
        labels: view.labels(),
    };
    row.input_ids.truncate(max_length);
    row.labels.truncate(max_length);
    if row.labels.iter().all(|label| *label == -100) {
        return Ok(TrainingRow::default());
    }
    Ok(row)
}

fn list(row: &Value, arm: Arm) -> Option<Value> {
    let column = match arm {
        Arm::AgenticMl => "frames",
        Arm::ChatMl => "messages",
    };
    let list = match row.get(column)? {
        Value::String(text) => loads(text).ok()?,
        other => other.clone(),
    };
    list.as_array()
        .is_some_and(|items| !items.is_empty())
        .then_some(list)
}

fn render_messages(list: &Value) -> Option<Rendering> {
    let conversation = Conversation::from_json(list).ok()?;
    chatml::render(&conversation, &chatml::Options::default()).ok()
}

/// The prompt that a trajectory is for each arm, to be continued by the model: the frames as they are,
/// or the messages with an assistant turn opened.
///
/// # Errors
/// When the trajectory cannot be rendered; carries why.
pub fn prompt(trajectory: &Trajectory, arm: Arm) -> Result<Rendering, PromptError> {
    Ok(match arm {
        Arm::AgenticMl => agenticml::render(trajectory, View::Reserved)?,
        Arm::ChatMl => {
            let options = chatml::Options {
                add_generation_prompt: true,
                ..chatml::Options::default()
            };
            chatml::render(&bridge::messages(trajectory)?, &options)?
        }
    })
}

/// Why a trajectory is no prompt.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PromptError {
    /// It cannot be written as frames.
    #[error(transparent)]
    Render(#[from] agenticml::RenderError),
    /// It cannot be turned into messages.
    #[error(transparent)]
    Bridge(#[from] bridge::BridgeError),
    /// Its messages cannot be written.
    #[error(transparent)]
    Template(#[from] chatml::TemplateError),
}

/// What a tokenizer's configuration says about ids, as far as stopping and padding go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopFacts {
    /// End of sequence.
    pub eos: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Unknown token.
    pub unk: Option<u32>,
    /// `<|eot_id|>`, when it is in the vocabulary.
    pub eot: Option<u32>,
    /// `<|eom_id|>`, when it is in the vocabulary.
    pub eom: Option<u32>,
}

/// Why there is no such id. The texts are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// Neither padding nor end of sequence.
    #[error("tokenizer has no pad_token_id or eos_token_id")]
    NoPad,
    /// Nothing to stop at.
    #[error("tokenizer has no stop token ids")]
    NoStops,
}

impl StopFacts {
    /// Llama 3.1 base, as AgenticML models are trained from it.
    pub const LLAMA31_BASE: Self = Self {
        eos: Some(128_001),
        pad: None,
        unk: None,
        eot: Some(128_009),
        eom: Some(128_008),
    };

    /// Llama 3.1 Instruct.
    pub const LLAMA31_INSTRUCT: Self = Self {
        eos: Some(128_009),
        ..Self::LLAMA31_BASE
    };

    /// The padding id: the configured one, else the end of sequence.
    ///
    /// # Errors
    /// When there is neither.
    pub fn pad(&self) -> Result<u32, StopError> {
        self.pad.or(self.eos).ok_or(StopError::NoPad)
    }

    /// Where AgenticML stops: at the `end` marker, then at the end of sequence if that is another.
    pub fn agenticml_stops(&self) -> Vec<u32> {
        let end = marker_id(FrameKind::End);
        let mut stops = vec![end];
        stops.extend(self.eos.filter(|eos| *eos != end));
        stops
    }

    /// The padding id for AgenticML, which falls back to the `end` marker.
    pub fn agenticml_pad(&self) -> u32 {
        self.pad().unwrap_or(marker_id(FrameKind::End))
    }

    /// Where ChatML stops: at eot, eom, and the end of sequence if that is another.
    ///
    /// # Errors
    /// When there is none of them.
    pub fn chatml_stops(&self) -> Result<Vec<u32>, StopError> {
        let known = |id: &u32| Some(*id) != self.unk;
        let mut stops: Vec<u32> = [self.eot, self.eom]
            .into_iter()
            .flatten()
            .filter(known)
            .collect();
        if let Some(eos) = self.eos
            && !stops.contains(&eos)
        {
            stops.push(eos);
        }
        if stops.is_empty() {
            return Err(StopError::NoStops);
        }
        Ok(stops)
    }
}
