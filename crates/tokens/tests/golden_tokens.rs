//! The golden token cases: ids, labels, decoded text.

mod common;

use common::tokenizer;
use formats::Trajectory;
use formats::agenticml::{self, View};
use formats::json::{Value, loads};
use tokens::{Arm, Policy, labels, view};

fn cases(file: &str) -> Vec<Value> {
    let file = loads(&common::golden(file)).expect("golden files are JSON");
    file.get("cases")
        .and_then(Value::as_array)
        .expect("cases")
        .to_vec()
}

fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

fn numbers(value: &Value) -> Vec<i64> {
    value
        .as_array()
        .expect("a list of numbers")
        .iter()
        .map(|n| match n {
            Value::Int(n) => n.as_i64().expect("small"),
            other => panic!("{other:?} is no integer"),
        })
        .collect()
}

fn ids(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|id| id as u32).collect()
}

fn with_label(ids: &[u32], trained: &[bool]) -> Vec<i64> {
    ids.iter()
        .zip(trained)
        .map(|(id, trained)| if *trained { i64::from(*id) } else { -100 })
        .collect()
}

#[test]
fn tokens() {
    let tokenizer = tokenizer();
    let mut seen = 0;
    for case in cases("tokens.json") {
        let name = field(&case, "name").as_str().expect("name");
        let input = field(&case, "input");
        let expected = field(&case, "expected");
        match field(&case, "kind").as_str().expect("kind") {
            "encode" | "encode_random" | "encode_special" => {
                let text = input.as_str().expect("text");
                let got = tokenizer.encode_trusted(text);
                assert_eq!(got, ids(field(expected, "ids")), "{name}: {text:?}");
                assert_eq!(tokenizer.decode(&got), text, "{name}");
            }
            "decode" => {
                let got = tokenizer.decode(&ids(input));
                assert_eq!(
                    Some(got.as_str()),
                    field(expected, "text").as_str(),
                    "{name}"
                );
            }
            "trajectory" => {
                let trajectory = Trajectory::from_json(input).expect("frames");
                let rendering = agenticml::render(&trajectory, View::Reserved).expect("renders");
                let view = view(tokenizer, &rendering, Arm::AgenticMl, Policy::Reference);
                assert_eq!(view.ids(), ids(field(expected, "ids")), "{name}");
                assert_eq!(view.labels(), numbers(field(expected, "labels")), "{name}");
            }
            "mask_only" => {
                let ids = ids(input);
                let trained = labels(Arm::AgenticMl, ids.iter().copied());
                let got = with_label(&ids, &trained);
                assert_eq!(got, numbers(field(expected, "labels")), "{name}");
            }
            "train_row" => continue,
            other => panic!("{name}: no runner for kind {other}"),
        }
        seen += 1;
    }
    assert!(seen > 300, "{seen}");
}
