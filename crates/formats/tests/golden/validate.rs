//! Golden cases: the validator.

use crate::common::{cases, decode, field, file, text};
use formats::json::{Object, Value, dumps};
use formats::validate::validate;
use formats::{Frame, FrameKind, Trajectory};

fn answer(frames: &[Frame], allow: bool) -> Value {
    match validate(frames, allow) {
        Ok(found) => {
            let found = found.into_iter().map(|v| {
                Value::Array(vec![
                    v.rule.name().into(),
                    (v.frame as i64).into(),
                    v.message.into(),
                ])
            });
            Value::Array(found.collect())
        }
        Err(error) => Object::from_iter([
            ("error".to_owned(), error.python_class().into()),
            ("message".to_owned(), error.to_string().into()),
        ])
        .into(),
    }
}

#[test]
fn validate_cases() {
    for case in cases("validate.json") {
        let name = text(&case, "name");
        let input = decode(field(&case, "input")).expect("decodes");
        let expected = field(&case, "expected");
        let trajectory = Trajectory::from_json(&input).expect("frames");
        let strict = dumps(&answer(&trajectory.frames, false));
        let allow = dumps(&answer(&trajectory.frames, true));
        assert_eq!(strict, dumps(field(expected, "strict")), "{name}");
        match field(expected, "allow") {
            Value::String(same) => {
                assert_eq!(same, "same as strict");
                assert_eq!(allow, strict, "{name}");
            }
            wanted => assert_eq!(allow, dumps(wanted), "{name}"),
        }
    }
}

/// `action tool=f` and the like.
fn frame(word: &str) -> Frame {
    let (kind, tool) = word.split_once(" tool=").unwrap_or((word, ""));
    let kind = FrameKind::from_name(kind).expect("a kind");
    let tool = Object::from_iter([("tool".to_owned(), tool.into())]);
    match kind {
        FrameKind::Action => Frame::new(kind, tool),
        _ => Frame::new(kind, "x"),
    }
}

#[test]
fn all_short_sequences() {
    let file = file("validate_enum.json");
    let letters = field(&file, "letters");
    let mut seen = 0;
    for part in ["prefix_goal_mission", "raw_no_prefix"] {
        let part = field(&file, part);
        let words = field(part, "prefix").as_array().expect("words");
        let prefix: Vec<Frame> = words
            .iter()
            .map(|word| frame(word.as_str().expect("a word")))
            .collect();
        let violations = field(part, "violations").as_array().expect("violations");
        for (sequence, expected) in field(part, "sequences").as_object().expect("sequences") {
            let mut frames = prefix.clone();
            frames.extend(
                sequence
                    .chars()
                    .map(|c| frame(text(letters, &c.to_string()))),
            );
            let expected = expected.as_array().expect("lists");
            for (allow, ids) in [(false, &expected[0]), (true, &expected[expected.len() - 1])] {
                let wanted: Vec<&str> = ids
                    .as_array()
                    .expect("ids")
                    .iter()
                    .map(|id| match id {
                        Value::Int(id) => {
                            let id = id.as_i64().expect("small") as usize;
                            violations[id].as_str().expect("text")
                        }
                        other => panic!("{other:?}"),
                    })
                    .collect();
                let got: Vec<String> = validate(&frames, allow)
                    .expect("objects")
                    .into_iter()
                    .map(|v| format!("{}|{}|{}", v.rule.name(), v.frame, v.message))
                    .collect();
                assert_eq!(got, wanted, "{sequence} allow={allow}");
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 1235);
}
