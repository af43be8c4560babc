//! Reading replies, with everything that can be wrong with them.

use super::{BASH_TOOL, Call, PYTHON_TOOL};
use crate::chatml::strip_tokens;
use crate::json::{self, JsonErrorKind, Object, Value};
use crate::python;

/// A reply: the calls that could be made out, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The calls, as far as they could be made out even where the form was broken.
    pub calls: Vec<Call>,
    /// What was wrong, in the order found. None at all: the reply keeps the protocol.
    pub failures: Vec<Failure>,
}

/// A way to break the protocol. Calls are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is nothing.
    #[error("the reply is empty")]
    Empty,
    /// The JSON stands among other text.
    #[error("there is text around the JSON")]
    ProseAround,
    /// The JSON or command stands in a code fence.
    #[error("the reply stands in a code fence")]
    Fenced,
    /// A single object instead of a list.
    #[error("a single object instead of a list of calls")]
    SingleObject,
    /// A call in Python's notation; carries the name.
    #[error("a call in Python's notation: {0}(...)")]
    PythonCall(String),
    /// No JSON at all; carries why.
    #[error("not JSON: {0}")]
    NotJson(JsonErrorKind),
    /// Nested too deep to be read.
    #[error("nested deeper than {} levels", json::MAX_DEPTH)]
    TooDeep,
    /// JSON, but neither list nor object; carries Python's name of the type.
    #[error("neither a list nor an object of calls, but {0}")]
    NotAList(&'static str),
    /// An entry that is no object or has no name.
    #[error("entry {0} is no call")]
    NotACall(usize),
    /// `parameters` where `arguments` is due.
    #[error("call {0} has \"parameters\" instead of \"arguments\"")]
    Parameters(usize),
    /// Arguments that are no object.
    #[error("the arguments of call {0} are no object")]
    ArgumentsNotAnObject(usize),
    /// A function that is not among the tools.
    #[error("call {call}: there is no function {name:?}")]
    UnknownFunction {
        /// Which call.
        call: usize,
        /// The function.
        name: String,
    },
    /// A required argument is missing.
    #[error("call {call}: the argument {name:?} is missing")]
    MissingArgument {
        /// Which call.
        call: usize,
        /// The argument.
        name: String,
    },
    /// An argument that the function does not have.
    #[error("call {call}: the function has no argument {name:?}")]
    ExtraArgument {
        /// Which call.
        call: usize,
        /// The argument.
        name: String,
    },
    /// More than one command.
    #[error("more than one line")]
    SeveralLines,
    /// No block of code.
    #[error("there is no fenced block of Python")]
    NoFence,
    /// A block of code that does not end.
    #[error("the block of code does not end")]
    OpenFence,
}

/// Reads a reply that should be a JSON list of calls, and checks it against the tools' schemas.
pub fn read_calls(text: &str, tools: &[Value]) -> Reply {
    let mut reply = Reply::default();
    let text = strip_tokens(text);
    if text.is_empty() {
        reply.failures.push(Failure::Empty);
        return reply;
    }
    let value = match json::loads(&text) {
        Ok(value) => value,
        Err(error) => match embedded(&text) {
            Some((value, failure)) => {
                reply.failures.push(failure);
                value
            }
            None => {
                reply.failures.push(match (error.kind, python_call(&text)) {
                    (JsonErrorKind::TooDeep, _) => Failure::TooDeep,
                    (_, Some(name)) => Failure::PythonCall(name),
                    (kind, None) => Failure::NotJson(kind),
                });
                return reply;
            }
        },
    };
    let entries = match value {
        Value::Array(entries) => entries,
        Value::Object(_) => {
            reply.failures.push(Failure::SingleObject);
            vec![value]
        }
        other => {
            let name = python::type_name(&other);
            reply.failures.push(Failure::NotAList(name));
            return reply;
        }
    };
    for (index, entry) in entries.iter().enumerate() {
        if let Some(call) = read_call(index, entry, &mut reply.failures) {
            check(index, &call, tools, &mut reply.failures);
            reply.calls.push(call);
        }
    }
    reply
}

fn read_call(index: usize, entry: &Value, failures: &mut Vec<Failure>) -> Option<Call> {
    let Some(name) = entry.get("name").and_then(Value::as_str) else {
        failures.push(Failure::NotACall(index));
        return None;
    };
    let arguments = match (entry.get("arguments"), entry.get("parameters")) {
        (Some(arguments), _) => Some(arguments),
        (None, Some(parameters)) => {
            failures.push(Failure::Parameters(index));
            Some(parameters)
        }
        (None, None) => None,
    };
    let arguments = match arguments {
        Some(Value::Object(arguments)) => arguments.clone(),
        _ => {
            failures.push(Failure::ArgumentsNotAnObject(index));
            Object::new()
        }
    };
    Some(Call {
        name: name.to_owned(),
        arguments,
    })
}

/// Name and parameter schema of a tool, wrapped in OpenAI's way or not.
fn signature(tool: &Value) -> Option<(&str, &Value)> {
    let tool = tool.get("function").unwrap_or(tool);
    let parameters = tool.get("parameters").unwrap_or(&Value::Null);
    Some((tool.get("name")?.as_str()?, parameters))
}

fn check(index: usize, call: &Call, tools: &[Value], failures: &mut Vec<Failure>) {
    let Some((_, parameters)) = tools
        .iter()
        .filter_map(signature)
        .find(|(name, _)| *name == call.name)
    else {
        failures.push(Failure::UnknownFunction {
            call: index,
            name: call.name.clone(),
        });
        return;
    };
    let required = parameters.get("required").and_then(Value::as_array);
    for name in required.unwrap_or(&[]).iter().filter_map(Value::as_str) {
        if !call.arguments.contains_key(name) {
            failures.push(Failure::MissingArgument {
                call: index,
                name: name.to_owned(),
            });
        }
    }
    let properties = parameters.get("properties").and_then(Value::as_object);
    let none = Object::new();
    let properties = properties.unwrap_or(&none);
    for name in call.arguments.keys() {
        if !properties.contains_key(name) {
            failures.push(Failure::ExtraArgument {
                call: index,
                name: name.clone(),
            });
        }
    }
}

/// How many places are tried as the beginning of JSON among other text. Each try may read the whole
/// text, so there must be a bound.
const TRIES: usize = 16;

/// Calls among other text, or in a fence.
fn embedded(text: &str) -> Option<(Value, Failure)> {
    let is_call = |value: &Value| {
        value
            .get("name")
            .is_some_and(|name| name.as_str().is_some())
    };
    let starts = text.match_indices(['[', '{']).map(|(at, _)| at);
    for start in starts.take(TRIES) {
        let Ok((value, len)) = json::loads_prefix(&text[start..]) else {
            continue;
        };
        let calls = match &value {
            Value::Array(entries) => !entries.is_empty() && entries.iter().all(is_call),
            other => is_call(other),
        };
        if calls {
            let before = python::strip(&text[..start]);
            let after = python::strip(&text[start + len..]);
            let fence = matches!(before, "```" | "```json") && (after == "```" || after.is_empty());
            let failure = if fence {
                Failure::Fenced
            } else {
                Failure::ProseAround
            };
            return Some((value, failure));
        }
    }
    None
}

/// The name in `name(...)` or `[name(...), ...]`, dots included.
fn python_call(text: &str) -> Option<String> {
    let inner = text.strip_prefix('[').unwrap_or(text);
    let inner = python::strip_start(inner);
    let (name, _) = inner.split_once('(')?;
    let named = name
        .chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_')
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let closed = text.ends_with([')', ']']);
    (named && closed).then(|| name.to_owned())
}

/// Reads a reply that should be one Bash command.
pub fn read_bash(text: &str) -> Reply {
    let mut reply = Reply::default();
    let text = strip_tokens(text);
    let command = match fenced(&text) {
        Some(block) => {
            reply.failures.push(Failure::Fenced);
            python::strip(block.code).to_owned()
        }
        None => text,
    };
    if command.is_empty() {
        reply.failures.push(Failure::Empty);
        return reply;
    }
    // A line that ends in a backslash goes on.
    if command.replace("\\\n", "").contains('\n') {
        reply.failures.push(Failure::SeveralLines);
    }
    reply.calls.push(single(BASH_TOOL, "command", command));
    reply
}

/// Reads a reply that should be a fenced block of Python. Explanations around the block are part of
/// the protocol's data and no failure.
pub fn read_python(text: &str) -> Reply {
    let mut reply = Reply::default();
    let text = strip_tokens(text);
    if text.is_empty() {
        reply.failures.push(Failure::Empty);
        return reply;
    }
    let code = match fenced(&text) {
        Some(block) => {
            if !block.closed {
                reply.failures.push(Failure::OpenFence);
            }
            block.code.to_owned()
        }
        None => {
            reply.failures.push(Failure::NoFence);
            text
        }
    };
    reply.calls.push(single(PYTHON_TOOL, "code", code));
    reply
}

fn single(tool: &str, key: &str, value: String) -> Call {
    Call {
        name: tool.to_owned(),
        arguments: Object::from_iter([(key.to_owned(), value.into())]),
    }
}

struct Block<'a> {
    code: &'a str,
    closed: bool,
}

/// The first fenced block: the lines between one that begins with three backticks and the next.
fn fenced(text: &str) -> Option<Block<'_>> {
    let mut code_start = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        if line.trim_start().starts_with("```") {
            match code_start {
                None => code_start = Some(next),
                Some(start) => {
                    let code = &text[start..at];
                    let code = code.strip_suffix('\n').unwrap_or(code);
                    return Some(Block { code, closed: true });
                }
            }
        }
        at = next;
    }
    code_start.map(|start| Block {
        code: &text[start..],
        closed: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::loads;

    fn tools() -> Vec<Value> {
        let tools = r#"[{"name": "add", "parameters": {"properties": {"a": {}, "b": {}}, "required": ["a"]}},
            {"type": "function", "function": {"name": "now", "parameters": {}}}]"#;
        loads(tools)
            .expect("JSON")
            .as_array()
            .expect("a list")
            .to_vec()
    }

    fn read(text: &str) -> (Vec<String>, Vec<Failure>) {
        let reply = read_calls(text, &tools());
        let calls = reply.calls.iter().map(|c| json::dumps(&c.to_json()));
        (calls.collect(), reply.failures)
    }

    #[test]
    fn well_formed_lists() {
        let one = r#"{"name": "add", "arguments": {"a": 1, "b": 2}}"#;
        let two = r#"{"name": "now", "arguments": {}}"#;
        let text = format!("[{one}, {two}]<|eot_id|>");
        assert_eq!(read(&text), (vec![one.to_owned(), two.to_owned()], vec![]));
        assert_eq!(read("[]"), (vec![], vec![]));
    }

    #[test]
    fn every_failure_is_named() {
        let good = r#"{"name": "now", "arguments": {}}"#;
        let kept = vec![good.to_owned()];
        let name = |name: &str| name.to_owned();
        for (text, calls, failures) in [
            ("  ".to_owned(), vec![], vec![Failure::Empty]),
            (
                format!("Sure! [{good}]"),
                kept.clone(),
                vec![Failure::ProseAround],
            ),
            (
                format!("```json\n[{good}]\n```"),
                kept.clone(),
                vec![Failure::Fenced],
            ),
            (good.to_owned(), kept.clone(), vec![Failure::SingleObject]),
            (
                r#"[{"name": "now", "parameters": {}}]"#.to_owned(),
                kept.clone(),
                vec![Failure::Parameters(0)],
            ),
            (
                "[add(a=1)]".to_owned(),
                vec![],
                vec![Failure::PythonCall(name("add"))],
            ),
            (
                "math.add(1, 2)".to_owned(),
                vec![],
                vec![Failure::PythonCall(name("math.add"))],
            ),
            (
                "hello".to_owned(),
                vec![],
                vec![Failure::NotJson(JsonErrorKind::ExpectedValue)],
            ),
            ("[".repeat(100_000), vec![], vec![Failure::TooDeep]),
            ("5".to_owned(), vec![], vec![Failure::NotAList("int")]),
            ("[5]".to_owned(), vec![], vec![Failure::NotACall(0)]),
            (
                r#"[{"name": "now", "arguments": "{}"}]"#.to_owned(),
                kept.clone(),
                vec![Failure::ArgumentsNotAnObject(0)],
            ),
            (
                r#"[{"name": "sub", "arguments": {}}]"#.to_owned(),
                vec![name(r#"{"name": "sub", "arguments": {}}"#)],
                vec![Failure::UnknownFunction {
                    call: 0,
                    name: name("sub"),
                }],
            ),
            (
                r#"[{"name": "add", "arguments": {"c": 1}}]"#.to_owned(),
                vec![name(r#"{"name": "add", "arguments": {"c": 1}}"#)],
                vec![
                    Failure::MissingArgument {
                        call: 0,
                        name: name("a"),
                    },
                    Failure::ExtraArgument {
                        call: 0,
                        name: name("c"),
                    },
                ],
            ),
        ] {
            let shown: String = text.chars().take(60).collect();
            assert_eq!(read(&text), (calls, failures), "{shown}");
        }
    }

    #[test]
    fn commands_and_code() {
        let command = |reply: &Reply, key: &str| {
            let value = reply.calls.first().and_then(|c| c.arguments.get(key));
            value.and_then(Value::as_str).map(str::to_owned)
        };
        let reply = read_bash("ls -l | wc -l<|eot_id|>");
        assert_eq!(command(&reply, "command").as_deref(), Some("ls -l | wc -l"));
        assert_eq!(reply.failures, []);
        let reply = read_bash("```bash\nls\n```");
        assert_eq!(command(&reply, "command").as_deref(), Some("ls"));
        assert_eq!(reply.failures, [Failure::Fenced]);
        assert_eq!(read_bash("a\nb").failures, [Failure::SeveralLines]);
        assert_eq!(read_bash("a \\\n b").failures, []);
        let reply = read_python("Here:\n```python\nx = 1\nprint(x)\n```\nDone.");
        assert_eq!(command(&reply, "code").as_deref(), Some("x = 1\nprint(x)"));
        assert_eq!(reply.failures, []);
        assert_eq!(read_python("x = 1").failures, [Failure::NoFence]);
        assert_eq!(
            read_python("```python\nx = 1").failures,
            [Failure::OpenFence]
        );
    }
}
