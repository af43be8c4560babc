//! Frames and trajectories.

use crate::json::{Object, Value};
use crate::python;

/// Who writes a piece of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The program around the model: the task, tool results, feedback, boilerplate.
    Runtime,
    /// The model.
    Model,
}

impl Owner {
    /// `runtime` or `model`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Model => "model",
        }
    }
}

/// How a frame's content is written behind its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Free text.
    Prose,
    /// A JSON document.
    Json,
    /// A number.
    Number,
    /// Nothing: the marker stands alone.
    None,
}

/// The eleven kinds of frame, in the order of their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// Standing instruction; opens a trajectory.
    Goal,
    /// The task at hand.
    Mission,
    /// What the model is shown: tools, environment.
    Obs,
    /// What the model holds to be true.
    Belief,
    /// What the model means to do.
    Plan,
    /// Free reasoning.
    Think,
    /// A tool call.
    Action,
    /// End of the model's turn.
    End,
    /// What a tool returned.
    Result,
    /// A later word from the user.
    Feedback,
    /// A score.
    Reward,
}

impl FrameKind {
    /// All kinds, by slot.
    pub const ALL: [Self; 11] = [
        Self::Goal,
        Self::Mission,
        Self::Obs,
        Self::Belief,
        Self::Plan,
        Self::Think,
        Self::Action,
        Self::End,
        Self::Result,
        Self::Feedback,
        Self::Reward,
    ];

    /// The short name, e.g. `goal`.
    pub fn name(self) -> &'static str {
        let alias = self.alias();
        &alias[2..alias.len() - 2]
    }

    /// The kind with this short name; case and spaces count.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind with this marker alias, e.g. `<|goal|>`.
    pub fn from_alias(alias: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.alias() == alias)
    }

    /// The kind that claims this reserved slot.
    pub fn from_slot(slot: u8) -> Option<Self> {
        Self::ALL.get(usize::from(slot)).copied()
    }

    /// The marker as people read it, e.g. `<|goal|>`. It is no special token of the model.
    pub fn alias(self) -> &'static str {
        match self {
            Self::Goal => "<|goal|>",
            Self::Mission => "<|mission|>",
            Self::Obs => "<|obs|>",
            Self::Belief => "<|belief|>",
            Self::Plan => "<|plan|>",
            Self::Think => "<|think|>",
            Self::Action => "<|action|>",
            Self::End => "<|end|>",
            Self::Result => "<|result|>",
            Self::Feedback => "<|feedback|>",
            Self::Reward => "<|reward|>",
        }
    }

    /// The marker as the model sees it: the reserved special token of this kind's slot.
    pub fn reserved(self) -> &'static str {
        match self {
            Self::Goal => "<|reserved_special_token_0|>",
            Self::Mission => "<|reserved_special_token_1|>",
            Self::Obs => "<|reserved_special_token_2|>",
            Self::Belief => "<|reserved_special_token_3|>",
            Self::Plan => "<|reserved_special_token_4|>",
            Self::Think => "<|reserved_special_token_5|>",
            Self::Action => "<|reserved_special_token_6|>",
            Self::End => "<|reserved_special_token_7|>",
            Self::Result => "<|reserved_special_token_8|>",
            Self::Feedback => "<|reserved_special_token_9|>",
            Self::Reward => "<|reserved_special_token_10|>",
        }
    }

    /// Number of the reserved special token that this kind claims (0..=10).
    pub fn slot(self) -> u8 {
        self as u8
    }

    /// Who writes frames of this kind.
    pub fn owner(self) -> Owner {
        match self {
            Self::Belief | Self::Plan | Self::Think | Self::Action | Self::End => Owner::Model,
            _ => Owner::Runtime,
        }
    }

    /// How the content is written.
    pub fn payload(self) -> Payload {
        match self {
            Self::Action | Self::Result => Payload::Json,
            Self::Reward => Payload::Number,
            Self::End => Payload::None,
            _ => Payload::Prose,
        }
    }

    /// What a frame of this kind is for, in a few words.
    pub fn gist(self) -> &'static str {
        match self {
            Self::Goal => "standing instruction; opens the trajectory",
            Self::Mission => "the task at hand",
            Self::Obs => "what the model is shown: tools, surroundings",
            Self::Belief => "what the model holds to be true",
            Self::Plan => "what it means to do",
            Self::Think => "free reasoning",
            Self::Action => "a call of a tool; answer and fail end the run",
            Self::End => "the model's turn is over",
            Self::Result => "what a tool returned",
            Self::Feedback => "a later word from the person",
            Self::Reward => "a score",
        }
    }

    /// Whether a frame of this kind can open a model turn (all of the model's kinds but `end`).
    pub fn opens_model_turn(self) -> bool {
        matches!(self, Self::Belief | Self::Plan | Self::Think | Self::Action)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its kind.
    pub kind: FrameKind,
    /// Its content; [`Value::Null`] when it has none.
    pub content: Value,
}

impl Frame {
    /// A frame of this kind and content.
    pub fn new(kind: FrameKind, content: impl Into<Value>) -> Self {
        Self {
            kind,
            content: content.into(),
        }
    }

    /// Reads `{"type": ..., "content": ...}`. The type is a short name or a marker alias; other keys
    /// are ignored.
    ///
    /// # Errors
    /// When the type is missing, not a string or unknown.
    pub fn from_json(value: &Value) -> Result<Self, FrameError> {
        // The reference asks Python's `in`, which on text means "contains".
        let found = match value {
            Value::Object(object) => object.get("type"),
            _ => None,
        };
        let Some(kind) = found else {
            return Err(FrameError::MissingType(python::str(value)));
        };
        let Value::String(name) = kind else {
            return Err(FrameError::TypeNotText(python::type_name(kind)));
        };
        let alias = if name.starts_with("<|") {
            name.clone()
        } else {
            format!("<|{name}|>")
        };
        let Some(kind) = FrameKind::from_alias(&alias) else {
            return Err(FrameError::UnknownType(alias));
        };
        let content = match value {
            Value::Object(object) => object.get("content").cloned().unwrap_or(Value::Null),
            _ => Value::Null,
        };
        Ok(Self { kind, content })
    }

    /// `{"type": short name, "content": ...}`.
    pub fn to_json(&self) -> Value {
        let mut object = Object::new();
        object.insert("type".into(), self.kind.name().into());
        object.insert("content".into(), self.content.clone());
        Value::Object(object)
    }
}

/// The one source of truth: what happened, frame by frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trajectory {
    /// The frames, first to last.
    pub frames: Vec<Frame>,
}

impl Trajectory {
    /// Reads a list of frames, or an object with such a list under `frames` (other keys, as
    /// `title`, are ignored).
    ///
    /// # Errors
    /// When there is no list of frames, or a frame is not well formed.
    pub fn from_json(value: &Value) -> Result<Self, FrameError> {
        let list = match value {
            Value::Object(object) => object.get("frames"),
            other => Some(other),
        };
        let Some(Value::Array(list)) = list else {
            return Err(FrameError::NoFrames);
        };
        let frames = list
            .iter()
            .map(Frame::from_json)
            .collect::<Result<_, _>>()?;
        Ok(Self { frames })
    }

    /// Reads JSON text; see [`Trajectory::from_json`].
    ///
    /// # Errors
    /// When the text is not JSON, or holds no well-formed frames.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        Self::from_json(&crate::json::loads(text)?)
    }

    /// What a new frame of this kind begins with at a place: nothing, or what its payload needs to be one. A
    /// result takes the tool of the action it would answer.
    pub fn blank(&self, at: usize, kind: FrameKind) -> Value {
        self.holding(at, kind, "")
    }

    /// The content of the frame at a place, made into one of another kind. JSON that becomes prose is written
    /// out; prose that is no JSON becomes the text of an answer or the value of a result.
    pub fn recast(&self, at: usize, kind: FrameKind) -> Value {
        let Some(frame) = self.frames.get(at) else {
            return self.blank(at, kind);
        };
        if frame.kind.payload() == kind.payload() {
            return frame.content.clone();
        }
        let text = match &frame.content {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => crate::json::dumps(other),
        };
        match kind.payload() {
            Payload::None => Value::Null,
            Payload::Prose => text.into(),
            Payload::Json | Payload::Number => crate::agenticml::read_content(kind, &text)
                .unwrap_or_else(|_| self.holding(at, kind, &text)),
        }
    }

    fn holding(&self, at: usize, kind: FrameKind, text: &str) -> Value {
        let object = |members: Vec<(&str, Value)>| {
            let members = members
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value));
            Value::Object(Object::from_iter(members))
        };
        match kind {
            FrameKind::Action if text.is_empty() => object(vec![("tool", "".into())]),
            FrameKind::Action => object(vec![("tool", "answer".into()), ("text", text.into())]),
            FrameKind::Result => {
                let tool = self.unanswered(at);
                object(vec![("tool", tool), ("value", text.into())])
            }
            FrameKind::Reward => Value::Float(1.0),
            FrameKind::End => Value::Null,
            _ => text.into(),
        }
    }

    /// The tool of the first action before a place that has no result there.
    fn unanswered(&self, at: usize) -> Value {
        let mut waiting = std::collections::VecDeque::new();
        for frame in self.frames.iter().take(at) {
            match frame.kind {
                FrameKind::Action => waiting.push_back(frame.content.get("tool")),
                FrameKind::Result => drop(waiting.pop_front()),
                _ => {}
            }
        }
        waiting
            .front()
            .copied()
            .flatten()
            .cloned()
            .unwrap_or("".into())
    }

    /// `{"frames": [{"type", "content"}, ...]}`.
    pub fn to_json(&self) -> Value {
        let frames = self.frames.iter().map(Frame::to_json).collect();
        let mut object = Object::new();
        object.insert("frames".into(), Value::Array(frames));
        Value::Object(object)
    }
}

/// Why a value is no frame or trajectory. The texts of the first three are the reference's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// A frame has no `type`; carries the frame as Python prints it.
    #[error("frame dict missing 'type' key: {0}")]
    MissingType(String),
    /// A frame's `type` is not text; carries Python's name of what it is.
    #[error("'{0}' object has no attribute 'startswith'")]
    TypeNotText(&'static str),
    /// A frame's `type` is none of the eleven; carries it as a marker.
    #[error("unknown frame type: {0}")]
    UnknownType(String),
    /// Neither a list nor an object with a list under `frames`.
    #[error("expected a list of frames, or an object with such a list under \"frames\"")]
    NoFrames,
    /// The text is not JSON.
    #[error(transparent)]
    Json(#[from] crate::json::JsonError),
}

impl FrameError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::TypeNotText(_) => "AttributeError",
            Self::NoFrames => "TypeError",
            Self::MissingType(_) | Self::UnknownType(_) | Self::Json(_) => "ValueError",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{dumps, loads};

    fn trajectory() -> Trajectory {
        let action = loads(r#"{"tool": "look"}"#).expect("JSON");
        Trajectory {
            frames: vec![
                Frame::new(FrameKind::Goal, "g"),
                Frame::new(FrameKind::Action, action),
            ],
        }
    }

    #[test]
    fn a_new_result_answers_the_action_before_it() {
        let blank = |at, kind| dumps(&trajectory().blank(at, kind));
        assert_eq!(
            blank(2, FrameKind::Result),
            r#"{"tool": "look", "value": ""}"#
        );
        assert_eq!(blank(1, FrameKind::Result), r#"{"tool": "", "value": ""}"#);
        assert_eq!(blank(0, FrameKind::Plan), r#""""#);
        assert_eq!(blank(0, FrameKind::End), "null");
    }

    #[test]
    fn another_kind_keeps_what_it_can() {
        let recast = |at, kind| dumps(&trajectory().recast(at, kind));
        assert_eq!(
            recast(0, FrameKind::Action),
            r#"{"tool": "answer", "text": "g"}"#
        );
        assert_eq!(recast(1, FrameKind::Result), r#"{"tool": "look"}"#);
        assert_eq!(recast(1, FrameKind::Think), r#""{\"tool\": \"look\"}""#);
        assert_eq!(recast(0, FrameKind::Reward), "1.0");
    }
}
