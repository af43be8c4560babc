//! A scripted model and the tools of the golden runs.

use super::case::{field, integer, list, object, texts};
use crate::{Generator, Registry, Request, Signature, Tool, ToolFailure};
use formats::json::{Object, Value};
use formats::python;
use tokens::Llama3Tokenizer;

/// Says what it is told to, and keeps what it was asked.
pub struct Script<'a> {
    tokenizer: &'a Llama3Tokenizer,
    outputs: std::slice::Iter<'a, Value>,
    /// Number of ids of each prompt.
    pub prompts: Vec<usize>,
    /// What it said.
    pub said: Vec<Vec<u32>>,
    /// The stop ids of each call.
    pub stops: Vec<Vec<u32>>,
}

/// There is nothing left to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("script exhausted")]
pub struct Exhausted;

impl<'a> Script<'a> {
    /// Says these outputs: each a text, or a text and one more id.
    pub fn new(tokenizer: &'a Llama3Tokenizer, outputs: &'a [Value]) -> Self {
        Self {
            tokenizer,
            outputs: outputs.iter(),
            prompts: Vec::new(),
            said: Vec::new(),
            stops: Vec::new(),
        }
    }
}

impl Generator for Script<'_> {
    type Error = Exhausted;

    async fn generate(&mut self, request: Request<'_>) -> Result<Vec<u32>, Exhausted> {
        self.prompts.push(request.prompt.len());
        self.stops.push(request.stops.to_vec());
        let output = self.outputs.next().ok_or(Exhausted)?;
        let (text, extra) = match output {
            Value::Array(parts) => (parts.first().and_then(Value::as_str), parts.get(1)),
            other => (other.as_str(), None),
        };
        let mut ids = self.tokenizer.encode_trusted(text.unwrap_or(""));
        let extra = extra
            .and_then(integer)
            .and_then(|id| u32::try_from(id).ok());
        ids.extend(extra);
        ids.truncate(request.max_new_tokens);
        self.said.push(ids.clone());
        Ok(ids)
    }
}

/// The named tools of the golden runs, with the schemas of the file's header.
pub fn tools(file: &Value, names: &[Value]) -> Result<Registry, String> {
    let mut registry = Registry::default();
    for name in texts(names) {
        let schema = match field(file, "tool_schemas").get(&name) {
            Some(schema) => schema.clone(),
            None => object([("name", name.as_str().into())]),
        };
        let tool = tool(&name, schema).ok_or_else(|| format!("no tool \"{name}\""))?;
        registry.register(tool).map_err(|error| error.to_string())?;
    }
    Ok(registry)
}

/// All tools that the file's header names.
pub fn all_tools(file: &Value) -> Result<Registry, String> {
    let names = field(file, "tools").as_object();
    let names: Vec<Value> = names
        .into_iter()
        .flat_map(Object::keys)
        .map(|name| name.as_str().into())
        .collect();
    tools(file, &names)
}

/// The schemas of a case, given in full.
pub fn schemas(input: &Value) -> &[Value] {
    list(input, "tools")
}

type Outcome = Result<Value, ToolFailure>;

fn tool(name: &str, schema: Value) -> Option<Tool> {
    let (signature, function): (Signature, fn(&Object) -> Outcome) = match name {
        "add" => (Signature::of(&["a", "b?"]), |arguments| {
            let zero = 0.into();
            add(member(arguments, "a"), arguments.get("b").unwrap_or(&zero))
        }),
        "echo" => (Signature::of(&["text"]), |arguments| {
            Ok(member(arguments, "text").clone())
        }),
        "boom" => (Signature::of(&["x?"]), |_| {
            Err(ToolFailure::Other("ValueError", "kaboom".to_owned()))
        }),
        "keyerr" => (Signature::default(), |_| {
            Err(ToolFailure::Other("KeyError", "'missing'".to_owned()))
        }),
        "toolerr" => (Signature::default(), |_| {
            Err(ToolFailure::Own("custom tool error".to_owned()))
        }),
        "typeerr" => (Signature::of(&["n"]), |arguments| {
            length(member(arguments, "n"))
        }),
        "none" => (Signature::default(), |_| Ok(Value::Null)),
        "obj" => (Signature::default(), |_| {
            let list = vec![1.into(), 2.5.into(), Value::Null, true.into()];
            Ok(object([("k", Value::Array(list)), ("s", "é <b>".into())]))
        }),
        "floaty" => (Signature::default(), |_| Ok(1e22.into())),
        "nan" => (Signature::default(), |_| Ok(f64::NAN.into())),
        "aset" => (Signature::default(), |_| Err(ToolFailure::NotJson("set"))),
        "kwonly" => {
            let signature = Signature {
                keyword_only: Signature::of(&["q", "limit?"]).parameters,
                ..Signature::default()
            };
            (signature, |arguments| {
                let five = 5.into();
                let limit = arguments.get("limit").unwrap_or(&five);
                let (q, limit) = (python::str(member(arguments, "q")), python::str(limit));
                Ok(format!("{q}:{limit}").into())
            })
        }
        "anykw" => {
            let signature = Signature {
                open: true,
                ..Signature::default()
            };
            (signature, |arguments| {
                let mut sorted = arguments.clone();
                sorted.sort_keys();
                Ok(sorted.into())
            })
        }
        _ => return None,
    };
    Some(Tool::new(name, schema, signature, function))
}

fn member<'a>(arguments: &'a Object, key: &str) -> &'a Value {
    arguments.get(key).unwrap_or(&Value::Null)
}

/// Python's `a + b`.
fn add(a: &Value, b: &Value) -> Outcome {
    let wide = |value: &Value| match value {
        Value::Bool(value) => Some(i128::from(*value)),
        Value::Int(value) => value.to_string().parse::<i128>().ok(),
        _ => None,
    };
    let float = |value: &Value| match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Int(value) => Some(value.to_f64()),
        Value::Float(value) => Some(*value),
        _ => None,
    };
    if let (Some(a), Some(b)) = (wide(a), wide(b))
        && let Some(sum) = a.checked_add(b)
        && let Some(sum) = formats::json::Integer::from_decimal(&sum.to_string())
    {
        return Ok(Value::Int(sum));
    }
    if let (Some(a), Some(b)) = (float(a), float(b)) {
        return Ok((a + b).into());
    }
    let (left, right) = (python::type_name(a), python::type_name(b));
    match (a, b) {
        (Value::String(a), Value::String(b)) => Ok(format!("{a}{b}").into()),
        (Value::Array(a), Value::Array(b)) => Ok([a.as_slice(), b].concat().into()),
        (Value::String(_) | Value::Array(_), _) => Err(ToolFailure::Type(format!(
            "can only concatenate {left} (not \"{right}\") to {left}"
        ))),
        _ => Err(ToolFailure::Type(format!(
            "unsupported operand type(s) for +: '{left}' and '{right}'"
        ))),
    }
}

/// Python's `len(value)`.
fn length(value: &Value) -> Outcome {
    let length = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        other => {
            let name = python::type_name(other);
            return Err(ToolFailure::Type(format!(
                "object of type '{name}' has no len()"
            )));
        }
    };
    Ok((length as i64).into())
}
