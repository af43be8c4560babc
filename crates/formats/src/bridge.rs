//! The bridge between frames and chat messages.

use crate::frame::{FrameKind, Trajectory};
use crate::json::{self, JsonError, JsonErrorKind, Object, Value};
use crate::message::{ContentSpan, Conversation, Message, Origin};
use crate::python;

mod frames;

pub use frames::{frames, name_and_arguments};

/// Tools whose call ends a run and becomes plain assistant text.
pub const TERMINAL_TOOLS: [&str; 2] = ["answer", "fail"];

/// Why frames cannot be turned into messages, or messages into frames. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// The input is not a list of objects.
    #[error("expected a list of frames")]
    NotFrames,
    /// A frame lacks this key (only for [`messages_from_json`]).
    #[error("'{0}'")]
    MissingKey(&'static str),
    /// An action's `tool`, or a key, is a list or object; carries Python's name of the type.
    #[error("unhashable type: '{0}'")]
    ToolNotHashable(&'static str),
    /// An answer's text is not text, and there is reasoning to put before it; carries Python's name
    /// of the type.
    #[error("can only concatenate str (not \"{0}\") to str")]
    TextNotText(&'static str),
    /// Arguments within a string are not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Arguments within a string are JSON, but no object; carries Python's name of the type.
    #[error("'{0}' object is not a mapping")]
    NotAMapping(&'static str),
    /// Arguments are a bare scalar; carries Python's name of the type.
    #[error("'{0}' object is not iterable")]
    NotIterable(&'static str),
    /// Arguments are a list with a scalar in it; carries its index.
    #[error("cannot convert dictionary update sequence element #{0} to a sequence")]
    NotASequence(usize),
    /// Arguments are a list whose entries are not pairs.
    #[error("dictionary update sequence element #{index} has length {length}; 2 is required")]
    NotAPair {
        /// Index of the entry.
        index: usize,
        /// Its length.
        length: usize,
    },
    /// A tool's result is a bare scalar; carries Python's name of the type.
    #[error("argument of type '{0}' is not iterable")]
    NotAContainer(&'static str),
    /// A call has no name.
    #[error("tool call missing name")]
    NoName,
}

impl BridgeError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::MissingKey(_) => "KeyError",
            Self::Json(error) => match error.kind {
                JsonErrorKind::TooDeep => "RecursionError",
                JsonErrorKind::TooManyDigits(_) => "ValueError",
                _ => "JSONDecodeError",
            },
            Self::NotAPair { .. } | Self::NoName => "ValueError",
            _ => "TypeError",
        }
    }
}

/// Turns frames into messages by the reference's rules.
///
/// * goal and obs gather into one system message before the next mission; what is left at the end
///   becomes a system message in front of everything.
/// * mission and feedback become user messages; end and reward become none.
/// * belief, plan and think wait for the next action whose content is an object, and become its
///   message's content.
/// * `answer` and `fail` become assistant text; any other action an assistant message with one call;
///   a result a tool message. Arguments and results are JSON within a string.
///
/// An `end` frame is recorded as [`Origin::end`] of the assistant message before it.
///
/// # Errors
/// When a frame cannot be put into a message.
pub fn messages(trajectory: &Trajectory) -> Result<Conversation, BridgeError> {
    let mut builder = Builder::default();
    for (index, frame) in trajectory.frames.iter().enumerate() {
        builder.frame(index, frame.kind, &frame.content)?;
    }
    Ok(builder.finish())
}

/// As [`messages`], from frames in JSON, and as particular as the reference: `type` and `content` must
/// be there, and frames whose type is not exactly a short name are skipped.
///
/// # Errors
/// When a key is missing, or a frame cannot be put into a message.
pub fn messages_from_json(frames: &Value) -> Result<Conversation, BridgeError> {
    let frames = frames.as_array().ok_or(BridgeError::NotFrames)?;
    let mut builder = Builder::default();
    for (index, frame) in frames.iter().enumerate() {
        let frame = frame.as_object().ok_or(BridgeError::NotFrames)?;
        let kind = frame.get("type").ok_or(BridgeError::MissingKey("type"))?;
        let content = frame
            .get("content")
            .ok_or(BridgeError::MissingKey("content"))?;
        if let Some(kind) = kind.as_str().and_then(FrameKind::from_name) {
            builder.frame(index, kind, content)?;
        }
    }
    Ok(builder.finish())
}

/// Text that several frames contribute to.
#[derive(Default)]
struct Joined {
    text: String,
    spans: Vec<ContentSpan>,
    parts: usize,
}

impl Joined {
    fn add(&mut self, separator: &str, frame: usize, kind: FrameKind, text: &str) {
        if self.parts > 0 {
            self.text.push_str(separator);
        }
        self.parts += 1;
        let start = self.text.len();
        self.text.push_str(text);
        self.spans.push(ContentSpan {
            range: start..self.text.len(),
            frame,
            kind,
        });
    }

    /// Python's `str.strip`, spans included.
    fn strip(&mut self) {
        let kept = python::strip(&self.text).len();
        let lead = self.text.len() - python::strip_start(&self.text).len();
        for span in &mut self.spans {
            let clip = |at: usize| at.saturating_sub(lead).min(kept);
            span.range = clip(span.range.start)..clip(span.range.end);
        }
        self.text = python::strip(&self.text).to_owned();
    }
}

#[derive(Default)]
struct Builder {
    conversation: Conversation,
    system: Joined,
    reasoning: Joined,
    /// The assistant message of the turn that is going on.
    turn: Option<usize>,
}

impl Builder {
    fn frame(&mut self, index: usize, kind: FrameKind, content: &Value) -> Result<(), BridgeError> {
        match kind {
            FrameKind::Goal | FrameKind::Obs => {
                self.system.add("\n\n", index, kind, &python::str(content));
            }
            FrameKind::Mission => {
                if self.system.parts > 0 {
                    let (message, origin) = system_message(std::mem::take(&mut self.system));
                    self.conversation.push(message, origin);
                }
                self.user(index, kind, content);
            }
            FrameKind::Feedback => self.user(index, kind, content),
            FrameKind::Belief | FrameKind::Plan | FrameKind::Think => {
                self.reasoning.add("\n", index, kind, &python::str(content));
            }
            FrameKind::Action => {
                if let Value::Object(action) = content {
                    self.action(index, action)?;
                }
            }
            FrameKind::Result => self.result(index, content),
            FrameKind::End => {
                if let Some(message) = self.turn.take() {
                    self.conversation.origins[message].end = Some(index);
                }
            }
            FrameKind::Reward => {}
        }
        Ok(())
    }

    fn user(&mut self, index: usize, kind: FrameKind, content: &Value) {
        self.turn = None;
        let text = python::str(content);
        let origin = Origin {
            content: vec![ContentSpan {
                range: 0..text.len(),
                frame: index,
                kind,
            }],
            ..Origin::default()
        };
        self.conversation.push(Message::new("user", text), origin);
    }

    fn action(&mut self, index: usize, action: &Object) -> Result<(), BridgeError> {
        let tool = action.get("tool").unwrap_or(&Value::Null);
        if let Value::Array(_) | Value::Object(_) = tool {
            return Err(BridgeError::ToolNotHashable(python::type_name(tool)));
        }
        let mut content = std::mem::take(&mut self.reasoning);
        let mut origin = Origin::default();
        let mut message;
        if tool
            .as_str()
            .is_some_and(|name| TERMINAL_TOOLS.contains(&name))
        {
            let empty = Value::from("");
            let text = ["text", "reason"]
                .iter()
                .filter_map(|key| action.get(*key))
                .find(|text| python::truthy(text))
                .unwrap_or(&empty);
            let kind = FrameKind::Action;
            match text.as_str() {
                Some(text) if content.text.is_empty() => {
                    content = Joined::default();
                    content.add("", index, kind, text);
                }
                Some(text) => {
                    content.add("\n\n", index, kind, text);
                    content.strip();
                }
                None if content.text.is_empty() => content.spans.push(ContentSpan {
                    range: 0..0,
                    frame: index,
                    kind,
                }),
                None => return Err(BridgeError::TextNotText(python::type_name(text))),
            }
            message = Message::new("assistant", content.text);
            if text.as_str().is_none() {
                message.fields.insert("content".into(), text.clone());
            }
        } else {
            let arguments: Object = action
                .iter()
                .filter(|(key, _)| *key != "tool")
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let function = Object::from_iter([
                ("name".to_owned(), tool.clone()),
                (
                    "arguments".to_owned(),
                    json::dumps_ascii(&Value::Object(arguments)).into(),
                ),
            ]);
            let call = Object::from_iter([
                ("id".to_owned(), call_id(self.count()).into()),
                ("type".to_owned(), "function".into()),
                ("function".to_owned(), function.into()),
            ]);
            message = Message::new("assistant", content.text);
            let calls = Value::Array(vec![call.into()]);
            message.fields.insert("tool_calls".into(), calls);
            origin.call = Some(index);
        }
        origin.content = content.spans;
        self.turn = Some(self.conversation.messages.len());
        self.conversation.push(message, origin);
        Ok(())
    }

    fn result(&mut self, index: usize, content: &Value) {
        self.turn = None;
        let text = json::dumps_ascii(content);
        let origin = Origin {
            content: vec![ContentSpan {
                range: 0..text.len(),
                frame: index,
                kind: FrameKind::Result,
            }],
            ..Origin::default()
        };
        let fields = Object::from_iter([
            ("role".to_owned(), "tool".into()),
            ("tool_call_id".to_owned(), call_id(self.count() - 1).into()),
            ("content".to_owned(), text.into()),
        ]);
        self.conversation.push(Message { fields }, origin);
    }

    fn count(&self) -> i64 {
        self.conversation.messages.len() as i64
    }

    fn finish(self) -> Conversation {
        let mut conversation = self.conversation;
        if self.system.parts > 0 {
            let (message, origin) = system_message(self.system);
            conversation.messages.insert(0, message);
            conversation.origins.insert(0, origin);
        }
        conversation
    }
}

fn system_message(content: Joined) -> (Message, Origin) {
    let origin = Origin {
        content: content.spans,
        ..Origin::default()
    };
    (Message::new("system", content.text), origin)
}

fn call_id(number: i64) -> String {
    format!("call_{number}")
}
