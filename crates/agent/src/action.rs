//! Carrying out a turn's actions.

use crate::{CallError, Registry};
use formats::bridge::TERMINAL_TOOLS;
use formats::json::{Object, Value};
use formats::{Frame, FrameKind, Owner, Policy, Trajectory, python};

/// An action that cannot be carried out. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// Its content is no object; carries Python's name of what it is.
    #[error("'{0}' object has no attribute 'get'")]
    NotAnObject(&'static str),
    /// Its `tool` is a list or object; carries Python's name of the type.
    #[error("unhashable type: '{0}'")]
    ToolNotHashable(&'static str),
    /// The tool returned something that is not JSON ([`Policy::Reference`] only); carries Python's name
    /// of its type.
    #[error("Object of type {0} is not JSON serializable")]
    NotJson(&'static str),
}

impl ActionError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::NotAnObject(_) => "AttributeError",
            Self::ToolNotHashable(_) | Self::NotJson(_) => "TypeError",
        }
    }
}

/// What came of a turn's actions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acted {
    /// One result frame per action, up to the first terminal one.
    pub results: Vec<Frame>,
    /// Whether an action was terminal.
    pub terminal: bool,
    /// The text of an `answer`, whatever its type; null otherwise.
    pub answer: Value,
}

/// The tool that an action names, if it can be carried out. Under [`Policy::Reference`] contents that
/// Python holds for false are calls of nothing, which no tool answers.
pub(crate) fn tool_of(content: &Value, policy: Policy) -> Result<Value, ActionError> {
    let action = match content {
        Value::Object(action) => action,
        empty if policy == Policy::Reference && !python::truthy(empty) => return Ok(Value::Null),
        other => return Err(ActionError::NotAnObject(python::type_name(other))),
    };
    match action.get("tool") {
        Some(tool @ (Value::Array(_) | Value::Object(_))) => {
            Err(ActionError::ToolNotHashable(python::type_name(tool)))
        }
        Some(tool) => Ok(tool.clone()),
        None => Ok(Value::Null),
    }
}

/// Carries out the actions among a turn's frames, in order: `answer` and `fail` end it, other tools are
/// called, and what they return or say is wrong becomes a result.
///
/// # Errors
/// When an action's content is no object or its tool no name, or, under [`Policy::Reference`], when a
/// tool returns something that is not JSON (the reference fails as soon as it writes that).
pub fn act<'a>(
    frames: impl IntoIterator<Item = &'a Frame>,
    tools: &mut Registry,
    policy: Policy,
) -> Result<Acted, ActionError> {
    let mut acted = Acted::default();
    let actions = frames.into_iter().filter(|f| f.kind == FrameKind::Action);
    for action in actions {
        let tool = tool_of(&action.content, policy)?;
        let terminal = tool.as_str().is_some_and(|t| TERMINAL_TOOLS.contains(&t));
        let value = if terminal {
            Value::Null
        } else {
            call(&tool, &arguments(&action.content), tools, policy)?
        };
        acted.results.push(result_frame(tool.clone(), value));
        if terminal {
            acted.terminal = true;
            if tool.as_str() == Some("answer") {
                acted.answer = action.content.get("text").cloned().unwrap_or_default();
            }
            break;
        }
    }
    Ok(acted)
}

fn arguments(content: &Value) -> Object {
    let members = content.as_object().into_iter().flatten();
    members
        .filter(|(key, _)| *key != "tool")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Calls a tool; what goes wrong is the value.
pub(crate) fn call(
    tool: &Value,
    arguments: &Object,
    tools: &mut Registry,
    policy: Policy,
) -> Result<Value, ActionError> {
    match tools.call(tool, arguments) {
        Ok(value) => Ok(value),
        Err(CallError::NotJson { type_name, .. }) if policy == Policy::Reference => {
            Err(ActionError::NotJson(type_name))
        }
        Err(error) => Ok(error.to_string().into()),
    }
}

/// The result frame of a call, as a tool's value makes it.
pub fn result_frame(tool: Value, value: Value) -> Frame {
    Frame::new(FrameKind::Result, result(tool, value))
}

/// What a trajectory records as the result of this very action, the first time it is called: the first
/// results behind a turn of the model belong to its actions in their order.
pub fn recorded(trajectory: &Trajectory, action: &Value) -> Option<Value> {
    let frames = &trajectory.frames;
    let mut at = 0;
    while at < frames.len() {
        let turn = (at..frames.len())
            .take_while(|&i| frames[i].kind.owner() == Owner::Model)
            .collect::<Vec<_>>();
        let Some(&last) = turn.last() else {
            at += 1;
            continue;
        };
        let actions = turn
            .iter()
            .filter(|&&i| frames[i].kind == FrameKind::Action);
        let place = actions
            .map(|&i| &frames[i].content)
            .position(|content| content == action);
        if let Some(place) = place
            && let Some(result) = frames.get(last + 1 + place)
            && frames[last + 1..=last + 1 + place]
                .iter()
                .all(|frame| frame.kind == FrameKind::Result)
        {
            return result.content.get("value").cloned();
        }
        at = last + 1;
    }
    None
}

/// `{"tool", "value"}`.
pub(crate) fn result(tool: Value, value: Value) -> Value {
    Object::from_iter([("tool".to_owned(), tool), ("value".to_owned(), value)]).into()
}
