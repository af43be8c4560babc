//! The golden token cases: ids, labels, decoded text.

use crate::common::{cases, field, ids, numbers, tokenizer, with_label};
use formats::agenticml::{self, View};
use formats::{Trajectory, Value};
use tokens::{Arm, Policy, labels, training_row, view};

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
            "train_row" => {
                let arm = match field(input, "format").as_str() {
                    Some("chatml") => Arm::ChatMl,
                    _ => Arm::AgenticMl,
                };
                let max_length = numbers(&Value::Array(vec![field(input, "max_length").clone()]));
                let length = max_length[0] as usize;
                let row = field(input, "row");
                match training_row(tokenizer, arm, row, length, Policy::Reference) {
                    Ok(row) => {
                        let expected = field(expected, "ok");
                        assert_eq!(row.input_ids, ids(field(expected, "input_ids")), "{name}");
                        assert_eq!(row.labels, numbers(field(expected, "labels")), "{name}");
                        let ones = numbers(field(expected, "attention_mask"));
                        assert_eq!(vec![1; row.input_ids.len()], ones, "{name}");
                    }
                    Err(error) => {
                        let class = field(expected, "error").as_str();
                        assert_eq!(Some(error.python_class()), class, "{name}");
                    }
                }
            }
            other => panic!("{name}: no runner for kind {other}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 337);
}
