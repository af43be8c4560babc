//! Golden cases: stop and padding ids, the table of frame kinds, and prompt ids.

use crate::common::{cases, field, ids, tokenizer};
use formats::json::{Object, Value, dumps};
use formats::validity::{prompt_frames, prompt_messages};
use formats::{FrameKind, Trajectory, agenticml, chatml};
use tokens::{Arm, Policy, StopFacts, marker_id, view};

fn ok(value: Value) -> Value {
    Object::from_iter([("ok".to_owned(), value)]).into()
}

fn failed(message: &str) -> Value {
    Object::from_iter([
        ("error".to_owned(), "ValueError".into()),
        ("message".to_owned(), message.into()),
    ])
    .into()
}

fn number(id: u32) -> Value {
    i64::from(id).into()
}

fn list(ids: Vec<u32>) -> Value {
    Value::Array(ids.into_iter().map(number).collect())
}

fn facts(input: &Value) -> StopFacts {
    match field(input, "tokenizer").as_str() {
        Some(name) if name.contains("instruct") => return StopFacts::LLAMA31_INSTRUCT,
        Some(_) => return StopFacts::LLAMA31_BASE,
        None => {}
    }
    // Ids that are not integers are ignored.
    let id = |value: &Value| match value {
        Value::Int(id) => id.as_i64().map(|id| id as u32),
        _ => None,
    };
    let vocabulary = field(input, "vocab");
    StopFacts {
        eos: id(field(input, "eos_token_id")),
        pad: id(field(input, "pad_token_id")),
        unk: id(field(input, "unk_token_id")),
        eot: id(field(vocabulary, "<|eot_id|>")),
        eom: id(field(vocabulary, "<|eom_id|>")),
    }
}

#[test]
fn stops_and_padding() {
    let mut seen = 0;
    for case in cases("helpers.json") {
        if field(&case, "kind").as_str() != Some("stops_pad") {
            continue;
        }
        seen += 1;
        let name = field(&case, "name").as_str().expect("name");
        let facts = facts(field(&case, "input"));
        let expected = field(&case, "expected");
        let pad = facts
            .pad()
            .map_or_else(|e| failed(&e.to_string()), |id| ok(number(id)));
        let stops = list(facts.agenticml_stops());
        let both = Value::Array(vec![number(facts.agenticml_pad()), stops.clone()]);
        let chatml = match facts.chatml_stops() {
            Ok(stops) => ok(list(stops)),
            Err(error) => failed(&error.to_string()),
        };
        for (key, got) in [
            ("pad_token_id", pad),
            ("agenticml_stops", ok(stops)),
            ("agenticml_pad_and_stops", ok(both)),
            ("chatml_stops", chatml),
        ] {
            assert_eq!(dumps(&got), dumps(field(expected, key)), "{name} {key}");
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn frame_kinds() {
    let constants = cases("helpers.json");
    let constants = constants
        .iter()
        .find(|case| field(case, "kind").as_str() == Some("constants"))
        .expect("the table");
    let rows = field(field(constants, "expected"), "frames")
        .as_array()
        .expect("rows");
    assert_eq!(rows.len(), FrameKind::ALL.len());
    for (row, kind) in rows.iter().zip(FrameKind::ALL) {
        let got = Object::from_iter([
            ("type".to_owned(), kind.name().into()),
            ("marker".to_owned(), kind.alias().into()),
            ("slot".to_owned(), i64::from(kind.slot()).into()),
            ("reserved".to_owned(), kind.reserved().into()),
            ("token_id".to_owned(), number(marker_id(kind))),
            ("owner".to_owned(), kind.owner().name().into()),
            (
                "opens_model_turn".to_owned(),
                kind.opens_model_turn().into(),
            ),
        ]);
        assert_eq!(dumps(&got.into()), dumps(row));
        assert_eq!(
            tokenizer().special_id(kind.reserved()),
            Some(marker_id(kind))
        );
    }
}

#[test]
fn prompt_ids() {
    let mut seen = 0;
    for case in cases("format_validity.json") {
        if field(&case, "kind").as_str() != Some("prompt_ids") {
            continue;
        }
        seen += 1;
        let name = field(&case, "name").as_str().expect("name");
        let input = field(&case, "input");
        let row = field(input, "row");
        let rendering = if field(input, "format").as_str() == Some("chatml") {
            let options = chatml::Options {
                add_generation_prompt: true,
                ..chatml::Options::default()
            };
            let prompt = prompt_messages(row).expect("messages");
            prompt.map(|prompt| {
                (
                    chatml::render(&prompt, &options).expect("renders"),
                    Arm::ChatMl,
                )
            })
        } else {
            let prompt = prompt_frames(row).expect("frames");
            prompt.map(|frames| {
                let view = agenticml::View::Reserved;
                let rendering = agenticml::render(&Trajectory { frames }, view);
                (rendering.expect("renders"), Arm::AgenticMl)
            })
        };
        let got = rendering.map_or(Vec::new(), |(rendering, arm)| {
            view(tokenizer(), &rendering, arm, Policy::Reference).ids()
        });
        assert_eq!(got, ids(field(field(&case, "expected"), "ok")), "{name}");
    }
    assert_eq!(seen, 12);
}
