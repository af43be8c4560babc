//! From the Llama 3.1 Instruct layout back to messages.

use super::read::{Place, Problem};
use crate::chatml::{BEGIN_OF_TEXT, END_HEADER, EOM, EOT, PYTHON_TAG, START_HEADER};
use crate::json::{self, Object, Value};
use crate::message::Message;
use crate::python;

/// The messages of a wire, and what is worth knowing about how they were read.
///
/// # Errors
/// When a header or the text between turns is not what the layout has there.
pub(super) fn messages(wire: &str) -> Result<(Vec<Message>, Vec<String>), Problem> {
    let mut messages = Vec::new();
    let mut notes = Vec::new();
    let mut at = 0;
    loop {
        let rest = &wire[at..];
        let gap = rest.len() - python::strip_start(rest).len();
        at += gap;
        let rest = &wire[at..];
        if rest.is_empty() {
            break;
        }
        if let Some(after) = rest.strip_prefix(BEGIN_OF_TEXT) {
            at = wire.len() - after.len();
            continue;
        }
        let Some(header) = rest.strip_prefix(START_HEADER) else {
            return Err(Problem::at(
                "text between two turns",
                wire,
                at,
                "Each turn begins with <|start_header_id|> and ends with <|eot_id|>. Remove what stands between, or paste messages JSON.",
            ));
        };
        let Some(end) = header.find(END_HEADER) else {
            return Err(Problem::at(
                "a header that does not end",
                wire,
                at,
                "Add <|end_header_id|> behind the role.",
            ));
        };
        let role = &header[..end];
        let body = wire.len() - header.len() + end + END_HEADER.len();
        let stop = [EOT, EOM]
            .iter()
            .filter_map(|token| Some((body + wire[body..].find(token)?, token.len())))
            .min();
        let (until, next) = stop.map_or((wire.len(), wire.len()), |(at, len)| (at, at + len));
        let text = &wire[body..until];
        if stop.is_none() && python::strip(text).is_empty() {
            // An open assistant header at the end is where a model would go on.
            break;
        }
        if stop.is_none() {
            notes.push(format!(
                "The last turn ({}) has no end; it was taken up to the end of the text.",
                shown(role)
            ));
        }
        let first = messages.is_empty() && role == "system";
        if let Some(message) = turn(role, text, first) {
            messages.push(message);
        }
        at = next;
    }
    Ok((messages, notes))
}

/// A role in a sentence, short.
fn shown(role: &str) -> String {
    role.chars().take(24).collect()
}

fn turn(role: &str, text: &str, first: bool) -> Option<Message> {
    let text = python::strip(text);
    match role {
        "system" if first => {
            let said = python::strip(without_preamble(text));
            (!said.is_empty()).then(|| Message::new("system", said))
        }
        "assistant" => Some(match call(text) {
            Some(call) => {
                let mut message = Message::new("assistant", "");
                let calls = Value::Array(vec![Value::Object(call)]);
                message.fields.insert("tool_calls".to_owned(), calls);
                message
            }
            None => Message::new("assistant", text),
        }),
        "ipython" | "tool" => Some(Message::new("tool", result(text))),
        other => Some(Message::new(other, text)),
    }
}

/// What the system turn says behind the lines that the template puts first.
fn without_preamble(text: &str) -> &str {
    let line = |text: &'_ str, starts: &str| -> Option<usize> {
        let rest = text.strip_prefix(starts)?;
        Some(starts.len() + rest.find('\n').map_or(rest.len(), |at| at + 1))
    };
    let mut rest = text;
    if let Some(end) = line(rest, "Environment: ipython") {
        rest = &rest[end..];
        if let Some(end) = line(rest, "Tools: ") {
            rest = rest[end..].trim_start_matches('\n');
        }
    }
    let Some(end) = line(rest, "Cutting Knowledge Date: ") else {
        return text;
    };
    match line(&rest[end..], "Today Date: ") {
        Some(date) => &rest[end + date..],
        None => &rest[end..],
    }
}

/// The call that an assistant turn consists of, as messages have it.
fn call(text: &str) -> Option<Object> {
    let text = python::strip(text.strip_prefix(PYTHON_TAG).unwrap_or(text));
    if !text.starts_with('{') {
        return None;
    }
    let Ok(Value::Object(call)) = json::loads(text) else {
        return None;
    };
    let name = call.get("name")?.clone();
    let arguments = call.get("parameters").or_else(|| call.get("arguments"))?;
    let function = Object::from_iter([
        ("name".to_owned(), name),
        ("arguments".to_owned(), arguments.clone()),
    ]);
    Some(Object::from_iter([
        ("type".to_owned(), "function".into()),
        ("function".to_owned(), function.into()),
    ]))
}

/// A result's content: the template writes it as JSON, so text stands there quoted.
fn result(text: &str) -> Value {
    match json::loads(text) {
        Ok(Value::String(inner)) => Value::String(inner),
        _ => text.into(),
    }
}

/// Where the first turn begins, if the text is in this layout.
pub(super) fn is_wire(text: &str) -> bool {
    text.starts_with(BEGIN_OF_TEXT) || text.starts_with(START_HEADER)
}

/// The place of a marker in a text that does not begin with it.
pub(super) fn late_start(text: &str) -> Option<Place> {
    let at = text.find(START_HEADER)?;
    Some(Place::of(text, at))
}
