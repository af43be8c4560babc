//! What the runners share.

use formats::json::{JsonError, Object, Value, loads};
use tokens::Llama3Tokenizer;

/// A case, decoded.
pub struct Case<'a> {
    /// The whole file, for its header.
    pub file: &'a Value,
    /// What the case is about.
    pub kind: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// What is expected.
    pub expected: &'a Value,
    /// The Llama 3.1 tokenizer.
    pub tokenizer: &'a Llama3Tokenizer,
}

impl Case<'_> {
    /// There is no runner for this kind.
    pub fn unknown(&self) -> Result<Value, String> {
        Err(format!("no runner for the kind \"{}\"", self.kind))
    }
}

/// A member, null when missing.
pub fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// The text of a member.
pub fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    as_text(field(value, key)).map_err(|_| format!("no text \"{key}\""))
}

/// A text.
pub fn as_text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "no text".to_owned())
}

/// The list under a key; empty when missing or null.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    field(value, key).as_array().unwrap_or(&[])
}

/// The texts in a list.
pub fn texts(value: &[Value]) -> Vec<String> {
    let texts = value.iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Whether a member is true.
pub fn flag(value: &Value, key: &str) -> bool {
    field(value, key) == &Value::Bool(true)
}

/// A small integer.
pub fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(value) => value.as_i64(),
        _ => None,
    }
}

/// A number that counts something.
pub fn count(value: &Value, key: &str) -> Result<usize, String> {
    integer(field(value, key))
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| format!("no count \"{key}\""))
}

/// A list of ids.
pub fn ids(value: &Value) -> Result<Vec<u32>, String> {
    let id = |value: &Value| integer(value).and_then(|id| u32::try_from(id).ok());
    let list = value.as_array().unwrap_or(&[]).iter();
    let ids: Option<Vec<u32>> = list.map(id).collect();
    ids.ok_or_else(|| "not a list of ids".to_owned())
}

/// A number.
pub fn number(n: usize) -> Value {
    Value::from(n as i64)
}

/// Ids as a list.
pub fn id_list(ids: &[u32]) -> Value {
    Value::Array(ids.iter().map(|id| i64::from(*id).into()).collect())
}

/// Labels as a list.
pub fn label_list(labels: &[i64]) -> Value {
    Value::Array(labels.iter().map(|label| (*label).into()).collect())
}

/// Texts as a list.
pub fn text_list(texts: impl IntoIterator<Item = String>) -> Value {
    Value::Array(texts.into_iter().map(Value::from).collect())
}

/// An object of these members.
pub fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members = members.map(|(key, value)| (key.to_owned(), value));
    Value::Object(Object::from_iter(members))
}

/// An answer.
pub fn ok(value: impl Into<Value>) -> Value {
    object([("ok", value.into())])
}

/// A failure.
pub fn failed(class: &str, message: &str) -> Value {
    object([("error", class.into()), ("message", message.into())])
}

/// Replaces every `{"$py": "..."}` by the Python-JSON value that it spells.
///
/// # Errors
/// When such a value cannot be held: half a surrogate pair.
pub fn decode(value: &Value) -> Result<Value, JsonError> {
    Ok(match value {
        Value::Object(object) => {
            if let (1, Some(Value::String(python))) = (object.len(), object.get("$py")) {
                return loads(python);
            }
            let members = object.iter();
            let members = members.map(|(key, item)| Ok((key.clone(), decode(item)?)));
            Value::Object(members.collect::<Result<_, JsonError>>()?)
        }
        Value::Array(items) => Value::Array(items.iter().map(decode).collect::<Result<_, _>>()?),
        other => other.clone(),
    })
}

/// Of an answer's members those that the case expects, in its order; the rest was not recorded.
pub fn as_expected(expected: &Value, answer: &Value) -> Value {
    match (expected, answer) {
        (Value::Object(expected), Value::Object(answer)) => {
            let members = expected.keys().filter_map(|key| {
                let value = answer.get(key)?.clone();
                Some((key.clone(), value))
            });
            let mut kept: Object = members.collect();
            // An answer of the other sort is a difference.
            for key in ["ok", "error"] {
                if let Some(value) = answer.get(key) {
                    kept.entry(key.to_owned()).or_insert_with(|| value.clone());
                }
            }
            Value::Object(kept)
        }
        _ => answer.clone(),
    }
}
