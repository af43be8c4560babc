//! The mini agent's protocol: three fixed system prompts in the Llama 3 turn layout, and replies that
//! are a JSON list of calls, a Bash command, or a block of Python. The template is never given `tools`.

use crate::bridge::TERMINAL_TOOLS;
use crate::frame::{Frame, FrameKind, Trajectory};
use crate::json::{self, Object, Value};
use crate::message::{ContentSpan, Conversation, Message, Origin};
use crate::python;

mod reply;

pub use reply::{Failure, Reply, read_bash, read_calls, read_python};

/// What the model is asked to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// It calls functions; carries their schemas.
    Tools(Vec<Value>),
    /// It writes one Bash command.
    Bash,
    /// It writes Python.
    Python,
}

impl Mode {
    /// The system prompt. Tool schemas stand in it as Python's `json.dumps` writes them.
    pub fn system_prompt(&self) -> String {
        match self {
            Self::Tools(tools) => format!(
                "You are a function-calling assistant. Available tools:\n{}\nRespond with a JSON list \
                 of calls.",
                json::dumps_ascii(&Value::Array(tools.clone()))
            ),
            Self::Bash => {
                "You are a Bash assistant. Translate the request into a single Bash command."
                    .to_owned()
            }
            Self::Python => "You are a Python coding assistant. Solve the problem with correct, \
                             working code."
                .to_owned(),
        }
    }

    /// Reads a reply in this mode.
    pub fn read(&self, text: &str) -> Reply {
        match self {
            Self::Tools(tools) => read_calls(text, tools),
            Self::Bash => read_bash(text),
            Self::Python => read_python(text),
        }
    }
}

/// Tool name under which a Bash reply becomes an action; its argument is `command`.
pub const BASH_TOOL: &str = "bash";
/// Tool name under which a Python reply becomes an action; its argument is `code`.
pub const PYTHON_TOOL: &str = "python";

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function.
    pub name: String,
    /// Its arguments.
    pub arguments: Object,
}

impl Call {
    /// `{"name": ..., "arguments": {...}}`.
    pub fn to_json(&self) -> Value {
        Value::Object(Object::from_iter([
            ("name".to_owned(), self.name.as_str().into()),
            ("arguments".to_owned(), self.arguments.clone().into()),
        ]))
    }

    /// The call as an action frame. An argument called `tool` would hide the name there and is left
    /// out.
    pub fn to_frame(&self) -> Frame {
        let mut action = Object::from_iter([("tool".to_owned(), self.name.as_str().into())]);
        let arguments = self.arguments.iter().filter(|(key, _)| *key != "tool");
        action.extend(arguments.map(|(key, value)| (key.clone(), value.clone())));
        Frame::new(FrameKind::Action, action)
    }

    /// The call that an action frame stands for: its content must be an object with a named tool.
    pub fn from_frame(frame: &Frame) -> Option<Self> {
        if frame.kind != FrameKind::Action {
            return None;
        }
        let action = frame.content.as_object()?;
        let name = action.get("tool")?.as_str()?.to_owned();
        let arguments = action.iter().filter(|(key, _)| *key != "tool");
        let arguments = arguments.map(|(key, value)| (key.clone(), value.clone()));
        Some(Self {
            name,
            arguments: arguments.collect(),
        })
    }
}

/// A trajectory as this protocol's conversation, to be written by [`crate::chatml::render`].
///
/// * The system message is the mode's prompt; goal and obs have no place in it and are left out.
/// * mission and feedback are user messages.
/// * The actions of a turn become one assistant message, a JSON list of calls (in [`Mode::Bash`] and
///   [`Mode::Python`] what a single call of [`BASH_TOOL`] or [`PYTHON_TOOL`] holds); `answer` and
///   `fail` become plain text. Reasoning has no place and is left out.
/// * A result is a tool message that holds the payload itself. (The protocol does not say how results
///   look; this is the layout's own way.)
/// * An action that is no call is left out, as the bridge does.
pub fn conversation(trajectory: &Trajectory, mode: &Mode) -> Conversation {
    let mut conversation = Conversation::default();
    let prompt = Message::new("system", mode.system_prompt());
    conversation.push(prompt, Origin::default());
    let mut turn = Turn::default();
    for (index, frame) in trajectory.frames.iter().enumerate() {
        match frame.kind {
            FrameKind::Action => {
                if let Some(call) = Call::from_frame(frame) {
                    if TERMINAL_TOOLS.contains(&call.name.as_str()) {
                        turn.flush(&mut conversation, mode);
                        say(&mut conversation, index, &call);
                        turn.last = Some(conversation.messages.len() - 1);
                    } else {
                        turn.calls.push((index, call));
                    }
                }
            }
            FrameKind::End => {
                turn.flush(&mut conversation, mode);
                if let Some(message) = turn.last.take() {
                    conversation.origins[message].end = Some(index);
                }
            }
            FrameKind::Mission | FrameKind::Feedback => {
                turn.close(&mut conversation, mode);
                let text = python::str(&frame.content);
                let origin = whole(index, frame.kind, text.len());
                conversation.push(Message::new("user", text), origin);
            }
            FrameKind::Result => {
                turn.close(&mut conversation, mode);
                let message = Message::new("tool", frame.content.clone());
                conversation.push(message, whole(index, frame.kind, 0));
            }
            _ => {}
        }
    }
    turn.flush(&mut conversation, mode);
    conversation
}

fn whole(frame: usize, kind: FrameKind, len: usize) -> Origin {
    Origin {
        content: vec![ContentSpan {
            range: 0..len,
            frame,
            kind,
        }],
        ..Origin::default()
    }
}

/// Plain text for a terminal call.
fn say(conversation: &mut Conversation, frame: usize, call: &Call) {
    let text = ["text", "reason"]
        .iter()
        .filter_map(|key| call.arguments.get(*key))
        .find(|text| python::truthy(text))
        .map_or(String::new(), python::str);
    let origin = whole(frame, FrameKind::Action, text.len());
    conversation.push(Message::new("assistant", text), origin);
}

/// The model turn that is going on.
#[derive(Default)]
struct Turn {
    calls: Vec<(usize, Call)>,
    /// The assistant message that an `end` would close.
    last: Option<usize>,
}

impl Turn {
    fn close(&mut self, conversation: &mut Conversation, mode: &Mode) {
        self.flush(conversation, mode);
        self.last = None;
    }

    fn flush(&mut self, conversation: &mut Conversation, mode: &Mode) {
        if self.calls.is_empty() {
            return;
        }
        let calls = std::mem::take(&mut self.calls);
        let mut text = String::new();
        let mut origin = Origin::default();
        let mut write = |text: &mut String, frame: usize, part: &str| {
            let start = text.len();
            text.push_str(part);
            origin.content.push(ContentSpan {
                range: start..text.len(),
                frame,
                kind: FrameKind::Action,
            });
        };
        match (mode, calls.as_slice()) {
            (Mode::Bash, [(frame, call)]) if argument(call, BASH_TOOL, "command").is_some() => {
                let command = argument(call, BASH_TOOL, "command").unwrap_or("");
                write(&mut text, *frame, command);
            }
            (Mode::Python, [(frame, call)]) if argument(call, PYTHON_TOOL, "code").is_some() => {
                let code = argument(call, PYTHON_TOOL, "code").unwrap_or("");
                text.push_str("```python\n");
                write(&mut text, *frame, code);
                text.push_str("\n```");
            }
            _ => {
                text.push('[');
                for (index, (frame, call)) in calls.iter().enumerate() {
                    if index > 0 {
                        text.push_str(", ");
                    }
                    write(&mut text, *frame, &json::dumps_ascii(&call.to_json()));
                }
                text.push(']');
            }
        }
        self.last = Some(conversation.messages.len());
        conversation.push(Message::new("assistant", text), origin);
    }
}

/// The one argument of a call, when it is text and the only one.
fn argument<'a>(call: &'a Call, tool: &str, key: &str) -> Option<&'a str> {
    if call.name != tool || call.arguments.len() != 1 {
        return None;
    }
    call.arguments.get(key)?.as_str()
}

/// What a reply does as frames: its actions and the end of the turn.
pub fn frames(reply: &Reply) -> Vec<Frame> {
    let mut frames: Vec<Frame> = reply.calls.iter().map(Call::to_frame).collect();
    if !frames.is_empty() {
        frames.push(Frame::new(FrameKind::End, Value::Null));
    }
    frames
}
