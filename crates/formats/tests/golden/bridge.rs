//! Golden cases: the bridge both ways, and reading replies.

use crate::common::{cases, decode, failed, field, ok, text};
use formats::agenticml::{Reading, View, parse};
use formats::bridge::{BridgeError, frames, messages, messages_from_json, name_and_arguments};
use formats::chatml::{Generation, bare_call, inject_tool_schemas, read_generation, strip_tokens};
use formats::json::{Object, Value, dumps};
use formats::{Conversation, Policy, Trajectory};

fn answer(result: Result<Value, BridgeError>) -> Value {
    match result {
        Ok(value) => ok(value),
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

fn list(trajectory: &Trajectory) -> Value {
    field(&trajectory.to_json(), "frames").clone()
}

fn conversation(value: &Value) -> Conversation {
    Conversation::from_json(value).expect("messages")
}

fn object(value: Option<Object>) -> Value {
    value.map_or(Value::Null, Value::Object)
}

fn from_wire(input: &Value, to_messages: bool) -> Value {
    let reading = Reading {
        view: View::Reserved,
        strict: field(input, "strict") == &Value::Bool(true),
        policy: Policy::Reference,
    };
    match parse(text(input, "wire"), &reading) {
        Ok(parsed) => {
            let frames = parsed.into_iter().map(|p| p.frame).collect();
            let trajectory = Trajectory { frames };
            if to_messages {
                answer(messages(&trajectory).map(|c| c.to_json()))
            } else {
                ok(list(&trajectory))
            }
        }
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

fn generation(text: &str) -> Value {
    let read = read_generation(text);
    let reason = read.stop_reason();
    let (call, said) = match read {
        Generation::Call(call) => (Value::Object(call), String::new()),
        Generation::Text(said) => (Value::Null, said),
        Generation::Failed(_) => (Value::Null, String::new()),
    };
    Object::from_iter([
        ("tool_call".to_owned(), call),
        ("text".to_owned(), said.into()),
        ("stop_reason".to_owned(), reason.into()),
    ])
    .into()
}

#[test]
fn bridge_cases() {
    for case in cases("bridge.json") {
        let name = text(&case, "name");
        let input = decode(field(&case, "input")).expect("decodes");
        let expected = decode(field(&case, "expected")).expect("decodes");
        let answer = match text(&case, "kind") {
            "f2m" => answer(messages_from_json(&input).map(|c| c.to_json())),
            "m2f" => answer(frames(&conversation(&input).messages).map(|t| list(&t))),
            "roundtrip" => answer(
                messages_from_json(&input)
                    .and_then(|c| frames(&c.messages))
                    .map(|t| list(&t)),
            ),
            "w2m" => from_wire(&input, true),
            "w2f" => from_wire(&input, false),
            "gen" => ok(generation(input.as_str().expect("text"))),
            "fc" => ok(object(bare_call(input.as_str().expect("text")))),
            "strip" => ok(strip_tokens(input.as_str().expect("text")).into()),
            "inject" => {
                let tools = field(&input, "tools").as_array().unwrap_or(&[]);
                let messages = conversation(field(&input, "messages"));
                ok(inject_tool_schemas(&messages, tools).to_json())
            }
            "tna" => {
                let call = input.as_object().expect("a call");
                answer(name_and_arguments(call).map(|(n, a)| Value::Array(vec![n.into(), a])))
            }
            "coerce" => coerce(text(&input, "fn"), field(&input, "data")),
            other => panic!("{name}: no runner for kind {other}"),
        };
        assert_eq!(dumps(&answer), dumps(&expected), "{name}");
    }
}

fn coerce(function: &str, data: &Value) -> Value {
    match function {
        "coerce_frames" => match formats::read_any(data) {
            Ok(either) => answer(either.into_trajectory().map(|t| list(&t))),
            Err(error) => failed(error.python_class(), &error.to_string()),
        },
        "coerce_messages" => match formats::read_any(data) {
            Ok(either) => answer(either.into_conversation().map(|c| c.to_json())),
            Err(error) => failed(error.python_class(), &error.to_string()),
        },
        _ => {
            let (messages, frames) = formats::looks_like(data);
            ok(Value::Array(vec![messages.into(), frames.into()]))
        }
    }
}
