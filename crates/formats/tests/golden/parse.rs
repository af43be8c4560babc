//! Golden cases: wire to frames.

use crate::common::{cases, decode, field, text};
use formats::Policy;
use formats::agenticml::{Reading, View, parse, reserved_to_markers};
use formats::json::{Object, Value, dumps};

/// The reference's form of an answer.
fn answer(wire: &str, reading: &Reading) -> Value {
    let answer = match parse(wire, reading) {
        Ok(frames) => {
            let frames = frames.into_iter().map(|parsed| {
                let Value::Object(mut object) = parsed.frame.to_json() else {
                    panic!("a frame is an object");
                };
                object.insert("raw".into(), parsed.raw.into());
                if let Some(error) = parsed.error {
                    object.insert("error".into(), error.to_string().into());
                }
                Value::Object(object)
            });
            ("ok", Value::Array(frames.collect()))
        }
        Err(error) => {
            return Object::from_iter([
                ("error".to_owned(), error.python_class().into()),
                ("message".to_owned(), error.to_string().into()),
            ])
            .into();
        }
    };
    Object::from_iter([(answer.0.to_owned(), answer.1)]).into()
}

#[test]
fn parse_cases() {
    let mut refused = Vec::new();
    for case in cases("parse.json") {
        let name = text(&case, "name");
        let input = field(&case, "input");
        let Some(expected) = decode(field(&case, "expected")) else {
            refused.push(name.to_owned());
            continue;
        };
        if text(&case, "kind") == "reserved_to_markers" {
            let got = reserved_to_markers(input.as_str().expect("text"));
            assert_eq!(got, text(&expected, "text"), "{name}");
            continue;
        }
        let wire = text(input, "wire");
        let lenient = Reading {
            view: match text(input, "api") {
                "markers" => View::Markers,
                _ => View::Reserved,
            },
            strict: false,
            policy: Policy::Reference,
        };
        let strict = Reading {
            strict: true,
            ..lenient
        };
        let wanted = field(&expected, "lenient");
        let got = answer(wire, &lenient);
        if text_of(wanted, "error") == "RecursionError" {
            // The text names the innermost container; the class is what counts.
            assert_eq!(text_of(&got, "error"), "RecursionError", "{name}");
        } else {
            assert_eq!(dumps(&got), dumps(wanted), "{name}");
        }
        match field(&expected, "strict") {
            Value::String(same) => {
                assert_eq!(same, "same as lenient");
                assert_eq!(dumps(&answer(wire, &strict)), dumps(&got), "{name} strict");
            }
            wanted => assert_eq!(
                dumps(&answer(wire, &strict)),
                dumps(wanted),
                "{name} strict"
            ),
        }
        // The safe reading differs only where the reference gives up.
        let safe = Reading {
            policy: Policy::Safe,
            ..lenient
        };
        let class = text_of(&got, "error").to_owned();
        if class != "RecursionError" && class != "ValueError" {
            assert_eq!(dumps(&answer(wire, &safe)), dumps(&got), "{name} safe");
        } else {
            assert!(parse(wire, &safe).is_ok(), "{name} safe");
        }
    }
    // Half a surrogate pair cannot be held in Unicode text; these frames get an error instead.
    assert_eq!(
        refused,
        [
            "action json 41",
            "action json 42",
            "result json 42",
            "action json 43",
            "action json 44",
            "action json 101",
            "action json 102",
            "result json 102",
        ]
    );
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    field(value, key).as_str().unwrap_or("")
}
