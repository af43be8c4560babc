//! Chat messages and where their text comes from.

use crate::json::{Object, Value};
use std::ops::Range;

/// A chat message: an object with `role`, `content`, maybe `tool_calls` and `tool_call_id`.
///
/// The object is kept as it is, because what a template does depends on which keys are present.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// All keys, in order.
    pub fields: Object,
}

impl Message {
    /// A message of this role and content.
    pub fn new(role: &str, content: impl Into<Value>) -> Self {
        let mut fields = Object::new();
        fields.insert("role".into(), role.into());
        fields.insert("content".into(), content.into());
        Self { fields }
    }

    /// The role; empty when missing or not text.
    pub fn role(&self) -> &str {
        match self.fields.get("role") {
            Some(Value::String(role)) => role,
            _ => "",
        }
    }

    /// The content, whatever its type; `None` when missing or null.
    pub fn content(&self) -> Option<&Value> {
        self.fields.get("content").filter(|c| **c != Value::Null)
    }

    /// The content when it is text; otherwise empty.
    pub fn text(&self) -> &str {
        match self.fields.get("content") {
            Some(Value::String(text)) => text,
            _ => "",
        }
    }

    /// Whether the message has a `tool_calls` key that is not null.
    pub fn has_tool_calls(&self) -> bool {
        self.fields
            .get("tool_calls")
            .is_some_and(|calls| *calls != Value::Null)
    }

    /// Its tool calls as far as they are well formed.
    pub fn tool_calls(&self) -> Vec<ToolCall<'_>> {
        let Some(Value::Array(calls)) = self.fields.get("tool_calls") else {
            return Vec::new();
        };
        calls
            .iter()
            .filter_map(|call| {
                let call = call.as_object()?;
                let function = call.get("function")?.as_object()?;
                Some(ToolCall {
                    id: call.get("id").and_then(Value::as_str),
                    name: function.get("name"),
                    arguments: function.get("arguments"),
                })
            })
            .collect()
    }

    /// Which call a tool message answers.
    pub fn tool_call_id(&self) -> Option<&str> {
        self.fields.get("tool_call_id").and_then(Value::as_str)
    }

    /// The message as a JSON object.
    pub fn to_json(&self) -> Value {
        Value::Object(self.fields.clone())
    }
}

/// A tool call within a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolCall<'a> {
    /// Its id, when it has one.
    pub id: Option<&'a str>,
    /// The tool's name, when there; text unless the frame said otherwise.
    pub name: Option<&'a Value>,
    /// The arguments, when there: JSON within a string as the bridge writes them, or an object.
    pub arguments: Option<&'a Value>,
}

/// A byte range of a message's text content and the frame that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentSpan {
    /// Bytes of the content string. Empty where the content is not text; the whole of it is then this
    /// frame's.
    pub range: Range<usize>,
    /// Index of the frame.
    pub frame: usize,
    /// Kind of the frame.
    pub kind: crate::FrameKind,
}

/// Where the parts of one message come from. What no span covers was written by the bridge itself
/// (the blank lines and newlines that join frames). Empty for messages that come from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Spans of the content, in order, not overlapping.
    pub content: Vec<ContentSpan>,
    /// The action frame that became the tool call.
    pub call: Option<usize>,
    /// The `end` frame for which the message's turn end stands.
    pub end: Option<usize>,
}

impl Origin {
    /// All frames in this message, ascending, each once. (Reasoning that a template drops beside a
    /// tool call is included: it is in the message although not on the wire.)
    pub fn frames(&self) -> Vec<usize> {
        let mut frames: Vec<usize> = self.content.iter().map(|span| span.frame).collect();
        frames.extend(self.call);
        frames.extend(self.end);
        frames.sort_unstable();
        frames.dedup();
        frames
    }
}

/// Messages with their origins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Message>,
    /// One origin per message.
    pub origins: Vec<Origin>,
}

impl Conversation {
    /// Messages that come from no frames.
    pub fn new(messages: Vec<Message>) -> Self {
        let origins = vec![Origin::default(); messages.len()];
        Self { messages, origins }
    }

    /// Appends a message with its origin.
    pub fn push(&mut self, message: Message, origin: Origin) {
        self.messages.push(message);
        self.origins.push(origin);
    }

    /// Reads a list of message objects.
    ///
    /// # Errors
    /// When the value is not a list of objects.
    pub fn from_json(value: &Value) -> Result<Self, MessageError> {
        let Value::Array(list) = value else {
            return Err(MessageError::NotAList);
        };
        let messages = list
            .iter()
            .enumerate()
            .map(|(index, message)| match message {
                Value::Object(fields) => Ok(Message {
                    fields: fields.clone(),
                }),
                _ => Err(MessageError::NotAnObject(index)),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self::new(messages))
    }

    /// The messages as a JSON list.
    pub fn to_json(&self) -> Value {
        Value::Array(self.messages.iter().map(Message::to_json).collect())
    }

    /// Messages in which this frame has a part, ascending.
    pub fn messages_of_frame(&self, frame: usize) -> Vec<usize> {
        (0..self.origins.len())
            .filter(|&index| self.origins[index].frames().contains(&frame))
            .collect()
    }
}

/// Why a value is no conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not a list.
    #[error("expected a list of messages")]
    NotAList,
    /// An entry is not an object; carries its index.
    #[error("message {0} is not an object")]
    NotAnObject(usize),
}
