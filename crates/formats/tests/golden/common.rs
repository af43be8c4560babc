//! Reading golden files.

use formats::json::{Object, Value, loads};
use std::path::PathBuf;

/// A golden file.
pub fn file(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    loads(&text).expect("golden files are JSON")
}

/// The cases of a golden file.
pub fn cases(name: &str) -> Vec<Value> {
    let file = file(name);
    let cases = field(&file, "cases").as_array().expect("cases");
    cases.to_vec()
}

/// A member, null when missing.
pub fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// The text of a member.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    field(value, key)
        .as_str()
        .unwrap_or_else(|| panic!("no text {key} in {value:?}"))
}

/// Replaces every `{"$py": "..."}` by the Python-JSON value that it spells; `None` when the value
/// holds half a surrogate pair or is nested too deep, which this crate refuses.
pub fn decode(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Object(object) => {
            if let (1, Some(Value::String(python))) = (object.len(), object.get("$py")) {
                return loads(python).ok();
            }
            let mut decoded = Object::new();
            for (key, item) in object {
                decoded.insert(key.clone(), decode(item)?);
            }
            Value::Object(decoded)
        }
        Value::Array(items) => Value::Array(items.iter().map(decode).collect::<Option<_>>()?),
        other => other.clone(),
    })
}

/// The template options of a golden case.
pub fn options(input: &Value) -> formats::chatml::Options {
    let mut options = formats::chatml::Options::default();
    for (key, value) in input.as_object().expect("an object") {
        match (key.as_str(), value) {
            ("messages", _) => {}
            ("date_string", Value::String(date)) => options.date_string = date.clone(),
            ("add_generation_prompt", Value::Bool(on)) => options.add_generation_prompt = *on,
            ("tools" | "custom_tools", Value::Array(tools)) => options.tools = Some(tools.clone()),
            ("tools_in_user_message", Value::Bool(on)) => options.tools_in_user_message = *on,
            ("builtin_tools", Value::Array(names)) => {
                let names = names.iter().map(|n| n.as_str().expect("a name").to_owned());
                options.builtin_tools = Some(names.collect());
            }
            other => panic!("unknown option {other:?}"),
        }
    }
    options
}

/// A golden answer.
pub fn ok(value: Value) -> Value {
    Object::from_iter([("ok".to_owned(), value)]).into()
}

/// A golden failure.
pub fn failed(class: &str, message: &str) -> Value {
    Object::from_iter([
        ("error".to_owned(), class.into()),
        ("message".to_owned(), message.into()),
    ])
    .into()
}
