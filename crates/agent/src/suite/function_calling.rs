//! The encodings of the function-calling suite (BFCL).

use formats::bridge::{BridgeError, TERMINAL_TOOLS, name_and_arguments};
use formats::chatml::strip_tokens;
use formats::json::{self, Object, Value, loads};
use formats::python;

const NONE: &str = "[]";

/// What actions count for: the calls of tools that are not terminal, one object or a list.
pub fn encode_actions(actions: &[Value]) -> String {
    let calls: Vec<Value> = actions.iter().filter_map(encode_action).collect();
    match calls.as_slice() {
        [] => NONE.to_owned(),
        [call] => json::dumps_ascii(call),
        _ => json::dumps_ascii(&Value::Array(calls)),
    }
}

fn encode_action(action: &Value) -> Option<Value> {
    let action = action.as_object()?;
    let tool = action.get("tool").filter(|tool| python::truthy(tool))?;
    let name = python::str(tool);
    if TERMINAL_TOOLS.contains(&name.as_str()) {
        return None;
    }
    let parameters = action.iter().filter(|(key, _)| *key != "tool");
    let parameters: Object = parameters.map(|(k, v)| (k.clone(), v.clone())).collect();
    Some(Value::Object(Object::from_iter([
        ("name".to_owned(), name.into()),
        ("parameters".to_owned(), parameters.into()),
    ])))
}

/// What a ChatML call counts for. An argument called `tool` overrides the name.
///
/// # Errors
/// When the call has no name, or its arguments are no object.
pub fn encode_call(call: &Object) -> Result<String, BridgeError> {
    if call.is_empty() {
        return Ok(NONE.to_owned());
    }
    let (name, arguments) = name_and_arguments(call)?;
    let Value::Object(arguments) = arguments else {
        return Err(BridgeError::NotAMapping(python::type_name(&arguments)));
    };
    let mut action = Object::from_iter([("tool".to_owned(), name.into())]);
    action.extend(arguments);
    Ok(encode_actions(&[action.into()]))
}

/// What a reply without a call counts for: itself, or nothing where no call is the right answer.
pub fn encode_text(id: &str, text: &str) -> String {
    let text = strip_tokens(text);
    if text.is_empty() || id.contains("irrelevance") {
        return NONE.to_owned();
    }
    text
}

/// The calls in an encoded answer, each `{name: arguments}`. Answers are split at every `;`, even within
/// a string.
///
/// # Errors
/// When a part is not JSON, or a call's arguments cannot be read.
pub fn decode(answer: &str) -> Result<Vec<Value>, BridgeError> {
    let answer = strip_tokens(answer);
    let mut calls = Vec::new();
    for part in answer.split(';').map(python::strip) {
        if part.is_empty() {
            continue;
        }
        let items = match loads(part)? {
            Value::Array(items) => items,
            other => vec![other],
        };
        for item in &items {
            let Some(call) = item.as_object() else {
                continue;
            };
            match name_and_arguments(call) {
                Ok((name, arguments)) => {
                    calls.push(Object::from_iter([(name, arguments)]).into());
                }
                Err(BridgeError::NoName) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(calls)
}

/// The function that a call in Python syntax calls.
pub fn called_function(call: &str) -> &str {
    let name = call.split_once('(').map_or(call, |(name, _)| name);
    match python::strip(name) {
        "" => "unknown",
        name => name,
    }
}

/// A result's payload: what was printed, trimmed, or null for nothing.
pub fn execution_result(tool: &str, printed: &str) -> Value {
    let value = match python::strip(printed) {
        "" => Value::Null,
        printed => printed.into(),
    };
    Value::Object(Object::from_iter([
        ("tool".to_owned(), tool.into()),
        ("value".to_owned(), value),
    ]))
}

/// The suite's function descriptions as tool schemas: parameters without properties become empty ones,
/// and their type is always `object`.
pub fn tool_schemas(functions: &[Value]) -> Vec<Value> {
    let functions = functions.iter().filter_map(Value::as_object);
    functions
        .map(|function| tool_schema(function).into())
        .collect()
}

fn tool_schema(function: &Object) -> Object {
    let text = |key| match function.get(key) {
        Some(text) if python::truthy(text) => python::str(text),
        _ => String::new(),
    };
    let given = function.get("parameters").and_then(Value::as_object);
    let parameters = match given {
        Some(given) if given.contains_key("properties") => {
            let mut parameters = given.clone();
            parameters.insert("type".to_owned(), "object".into());
            parameters
        }
        _ => Object::from_iter([
            ("type".to_owned(), "object".into()),
            ("properties".to_owned(), Object::new().into()),
            ("required".to_owned(), Value::Array(Vec::new())),
        ]),
    };
    Object::from_iter([
        ("name".to_owned(), text("name").into()),
        ("description".to_owned(), text("description").into()),
        ("parameters".to_owned(), parameters.into()),
    ])
}
