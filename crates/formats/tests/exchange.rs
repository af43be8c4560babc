//! What is written is read again, and nothing that is pasted can do harm.

use formats::exchange::{Export, Found, Shape, read};
use formats::json::{Object, Value, dumps};
use formats::{Frame, FrameKind, Payload, Trajectory, bridge};
use proptest::prelude::*;

/// Content without a marker in it, and without what the template trims.
fn prose() -> impl Strategy<Value = String> {
    "[a-zA-Zéß☕0-9][a-zA-Zéß☕0-9 .,:{}\"\\\\\n-]{0,30}[a-z0-9]"
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        prose().prop_map(Value::String),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec(("[a-z]{1,6}", inner), 0..3)
                .prop_map(|members| Value::Object(Object::from_iter(members))),
        ]
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let members = prop::collection::vec(("[a-z]{1,6}", json()), 0..3);
    (0..11usize, prose(), members, 1..100i64).prop_map(|(kind, text, members, number)| {
        let kind = FrameKind::ALL[kind];
        let content = match kind.payload() {
            Payload::Prose => text.into(),
            Payload::Json => {
                let mut object = Object::from_iter([("tool".to_owned(), "look_up".into())]);
                object.extend(members.into_iter().filter(|(key, _)| key != "tool"));
                Value::Object(object)
            }
            Payload::Number => Value::Float(number as f64 / 4.0),
            Payload::None => Value::Null,
        };
        Frame { kind, content }
    })
}

fn trajectory() -> impl Strategy<Value = Trajectory> {
    prop::collection::vec(frame(), 1..10).prop_map(|frames| Trajectory { frames })
}

fn only(text: &str) -> Found {
    let read = read(text).expect("it can be read");
    assert_eq!(read.candidates.len(), 1);
    read.candidates[0].found.clone().expect("frames")
}

/// Messages of which some are left to be compared: the bridge gives none for rewards alone.
fn messages(trajectory: &Trajectory) -> Option<Trajectory> {
    let messages = bridge::messages(trajectory).ok()?.messages;
    let back = bridge::frames(&messages).ok()?;
    (!back.frames.is_empty()).then_some(back)
}

proptest! {
    #[test]
    fn frames_come_back(trajectory in trajectory()) {
        let text = Export::Frames.write(&trajectory).expect("frames");
        prop_assert_eq!(&only(&text).trajectory, &trajectory);
        let text = Export::Row.write(&trajectory).expect("a row");
        prop_assert_eq!(text.lines().count(), 1);
        prop_assert_eq!(&only(&text).trajectory, &trajectory);
        for (form, shape) in [(Export::Markers, Shape::Markers), (Export::Reserved, Shape::Reserved)] {
            let found = only(&form.write(&trajectory).expect("a wire"));
            prop_assert_eq!(found.shape, shape);
            prop_assert_eq!(&found.trajectory, &trajectory);
        }
    }

    #[test]
    fn messages_come_back_as_far_as_the_bridge_carries(trajectory in trajectory()) {
        let Some(expected) = messages(&trajectory) else { return Ok(()) };
        let found = only(&Export::Messages.write(&trajectory).expect("messages"));
        prop_assert_eq!(found.shape, Shape::Messages);
        prop_assert_eq!(found.trajectory, expected);
    }

    #[test]
    fn the_chat_wire_comes_back_without_what_the_template_drops(trajectory in trajectory()) {
        let Some(expected) = messages(&trajectory) else { return Ok(()) };
        let text = Export::Chat.write(&trajectory).expect("a wire");
        let found = only(&text);
        prop_assert_eq!(found.shape, Shape::Chat);
        // The template drops text beside a call.
        let kept = |trajectory: &Trajectory| -> Vec<String> {
            let frames = trajectory.frames.iter().filter(|frame| frame.kind != FrameKind::Think);
            frames.map(|frame| dumps(&frame.to_json())).collect()
        };
        prop_assert_eq!(kept(&found.trajectory), kept(&expected));
    }

    #[test]
    fn no_text_does_harm(text in any::<String>(), mess in "(<\\|(goal|end|action|begin_of_text|start_header_id|end_header_id|eot_id|reserved_special_token_6)\\|>|[\\[\\]{}\",:\\\\\nfmtra0-9 ]){0,40}") {
        for text in [text, mess] {
            match read(&text) {
                Ok(read) => prop_assert!(!read.candidates.is_empty()),
                Err(problem) => {
                    prop_assert!(!problem.what.is_empty() && !problem.next.is_empty());
                    if let Some(place) = problem.place {
                        prop_assert!(place.line >= 1 && place.line <= text.matches('\n').count() + 1);
                    }
                }
            }
        }
    }
}

#[test]
fn every_sample_comes_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../public/samples");
    for entry in std::fs::read_dir(folder).expect("samples") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let Ok(trajectory) = Trajectory::parse(&text) else {
            continue;
        };
        let expected = Export::Messages.write(&trajectory);
        // A wire whose content spells markers is read with those as markers, or refused.
        let forged = Export::Frames
            .write(&trajectory)
            .expect("frames")
            .contains("<|");
        for form in Export::ALL {
            let wire = matches!(form, Export::Markers | Export::Reserved | Export::Chat);
            if wire && forged {
                continue;
            }
            let Ok(text) = form.write(&trajectory) else {
                continue;
            };
            let Ok(back) = read(&text) else {
                panic!("{} as {}", path.display(), form.title());
            };
            let found = back.candidates[0].found.clone();
            assert!(found.is_ok(), "{} as {}", path.display(), form.title());
            if matches!(form, Export::Frames | Export::Row) {
                let again = Export::Messages.write(&found.expect("frames").trajectory);
                assert_eq!(again, expected, "{}", path.display());
            }
        }
    }
}
