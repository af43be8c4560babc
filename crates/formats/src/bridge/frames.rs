//! From chat messages back to frames.

use super::BridgeError;
use crate::frame::{Frame, FrameKind, Trajectory};
use crate::json::{self, JsonErrorKind, Object, Value};
use crate::message::Message;
use crate::python;
use std::collections::VecDeque;

/// Turns messages into frames by the reference's rules. Much is lost on the way there and back: `end`
/// frames vanish, belief and plan become think, `fail` becomes `answer`.
///
/// * A system message is goal and, from where it begins to speak of tools, obs.
/// * The first user message is the mission, later ones are feedback.
/// * Assistant text is an `answer` action; with calls it is a think frame before their actions.
/// * A tool message is a result, wrapped as `{"tool", "value"}` unless it has a `tool` of its own.
///
/// # Errors
/// When arguments are not JSON or no object, or a result is a bare number, boolean or null.
pub fn frames(messages: &[Message]) -> Result<Trajectory, BridgeError> {
    let mut frames = Vec::new();
    let mut pending: VecDeque<Value> = VecDeque::new();
    let mut had_mission = false;
    for message in messages {
        match message.role() {
            "system" => {
                let (goal, obs) = split_system(&text_or_empty(message));
                frames.extend(goal.map(|text| Frame::new(FrameKind::Goal, text)));
                frames.extend(obs.map(|text| Frame::new(FrameKind::Obs, text)));
            }
            "user" => {
                let kind = if had_mission {
                    FrameKind::Feedback
                } else {
                    FrameKind::Mission
                };
                had_mission = true;
                frames.push(Frame::new(kind, text_or_empty(message)));
            }
            "assistant" => {
                pending.clear();
                assistant(message, &mut frames, &mut pending)?;
            }
            "tool" => {
                let name = pending.pop_front().unwrap_or("unknown".into());
                let content = result(message, name)?;
                frames.push(Frame::new(FrameKind::Result, content));
            }
            _ => {}
        }
    }
    Ok(Trajectory { frames })
}

/// Python's `str(content or "")`.
fn text_or_empty(message: &Message) -> String {
    match message.fields.get("content") {
        Some(content) if python::truthy(content) => python::str(content),
        _ => String::new(),
    }
}

/// What of a system text is goal and what is obs.
fn split_system(text: &str) -> (Option<String>, Option<String>) {
    let marks = ["namespace tools {", "tools:", "available tools:"];
    if let Some(at) = marks.iter().find_map(|mark| text.find(mark)) {
        let (goal, obs) = (python::strip(&text[..at]), python::strip(&text[at..]));
        let goal = Some(goal.to_owned()).filter(|goal| !goal.is_empty());
        return (goal, Some(obs.to_owned()));
    }
    if let Some((first, rest)) = text.split_once("\n\n")
        && rest.to_lowercase().contains("tools")
    {
        let (goal, obs) = (python::strip(first), python::strip(rest));
        return (Some(goal.to_owned()), Some(obs.to_owned()));
    }
    (Some(text.to_owned()), None)
}

fn assistant(
    message: &Message,
    frames: &mut Vec<Frame>,
    pending: &mut VecDeque<Value>,
) -> Result<(), BridgeError> {
    let text = text_or_empty(message);
    let text = python::strip(&text);
    let calls = match message.fields.get("tool_calls") {
        Some(Value::Array(calls)) => calls.as_slice(),
        _ => &[],
    };
    if calls.is_empty() {
        if !text.is_empty() {
            let answer = Object::from_iter([
                ("tool".to_owned(), "answer".into()),
                ("text".to_owned(), text.into()),
            ]);
            frames.push(Frame::new(FrameKind::Action, answer));
        }
        return Ok(());
    }
    if !text.is_empty() {
        frames.push(Frame::new(FrameKind::Think, text));
    }
    for call in calls {
        let function = call.get("function");
        let member = |key| function.and_then(|f| f.get(key)).unwrap_or(&Value::Null);
        let name = member("name").clone();
        let arguments = match member("arguments") {
            Value::String(text) => match json::loads(text)? {
                Value::Object(arguments) => arguments,
                other => return Err(BridgeError::NotAMapping(python::type_name(&other))),
            },
            other => to_dict(other)?,
        };
        let mut action = Object::from_iter([("tool".to_owned(), name.clone())]);
        action.extend(arguments);
        frames.push(Frame::new(FrameKind::Action, action));
        pending.push_back(name);
    }
    Ok(())
}

fn result(message: &Message, name: Value) -> Result<Value, BridgeError> {
    let wrap = |value: Value| {
        Value::Object(Object::from_iter([
            ("tool".to_owned(), name.clone()),
            ("value".to_owned(), value),
        ]))
    };
    let content = message.fields.get("content").unwrap_or(&Value::Null);
    let payload = match content {
        Value::String(text) if !text.is_empty() => match json::loads(text) {
            Ok(payload) => payload,
            Err(error) if error.kind == JsonErrorKind::TooDeep => return Err(error.into()),
            Err(_) => return Ok(wrap(content.clone())),
        },
        Value::String(_) => Value::Object(Object::new()),
        other => match to_dict(other) {
            Ok(object) => Value::Object(object),
            Err(_) => return Ok(wrap(python::str(content).into())),
        },
    };
    let has_tool = match &payload {
        Value::Object(object) => object.contains_key("tool"),
        Value::String(text) => text.contains("tool"),
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some("tool")),
        scalar => return Err(BridgeError::NotAContainer(python::type_name(scalar))),
    };
    Ok(if has_tool { payload } else { wrap(payload) })
}

/// Name and arguments of a generated call: `name` or `tool`, and `arguments` (even when null) or
/// `parameters`. Arguments within a string are read as JSON and may then be anything.
///
/// # Errors
/// When there is no name, or the arguments are not JSON or not what Python makes a dict of.
pub fn name_and_arguments(call: &Object) -> Result<(String, Value), BridgeError> {
    let name = ["name", "tool"]
        .iter()
        .filter_map(|key| call.get(*key))
        .find(|name| python::truthy(name))
        .ok_or(BridgeError::NoName)?;
    let arguments = call
        .get("arguments")
        .or_else(|| call.get("parameters"))
        .unwrap_or(&Value::Null);
    let arguments = match arguments {
        Value::String(text) => json::loads(text)?,
        other => Value::Object(to_dict(other)?),
    };
    Ok((python::str(name), arguments))
}

/// Python's `dict(value or {})`. Keys that are not text become it as JSON would write them.
fn to_dict(value: &Value) -> Result<Object, BridgeError> {
    let items = match value {
        empty if !python::truthy(empty) => return Ok(Object::new()),
        Value::Object(object) => return Ok(object.clone()),
        Value::Array(items) => items,
        other => return Err(BridgeError::NotIterable(python::type_name(other))),
    };
    let mut object = Object::new();
    for (index, item) in items.iter().enumerate() {
        let parts: Vec<Value> = match item {
            Value::Array(parts) => parts.clone(),
            Value::String(text) => text.chars().map(|c| c.to_string().into()).collect(),
            Value::Object(members) => members.keys().map(|key| key.as_str().into()).collect(),
            _ => return Err(BridgeError::NotASequence(index)),
        };
        let length = parts.len();
        let Ok([key, value]) = <[Value; 2]>::try_from(parts) else {
            return Err(BridgeError::NotAPair { index, length });
        };
        let key = match key {
            Value::String(key) => key,
            Value::Array(_) | Value::Object(_) => {
                return Err(BridgeError::ToolNotHashable(python::type_name(&key)));
            }
            scalar => json::dumps(&scalar),
        };
        object.insert(key, value);
    }
    Ok(object)
}
