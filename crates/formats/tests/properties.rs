//! What holds for every trajectory and every JSON value.

use formats::agenticml::{self, Reading, View};
use formats::calls::{read_bash, read_calls, read_python};
use formats::chatml::read_generation;
use formats::json::{Integer, Object, Value, dumps, dumps_ascii, loads};
use formats::{
    Conversation, Frame, FrameKind, Payload, Policy, Trajectory, bridge, chatml, injection, python,
};
use proptest::prelude::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        "-?[1-9][0-9]{20,40}".prop_map(|n| Value::Int(Integer::from_decimal(&n).expect("digits"))),
        any::<f64>().prop_map(Value::Float),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|members| Value::Object(Object::from_iter(members))),
        ]
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    (0..11usize, value()).prop_map(|(kind, content)| Frame {
        kind: FrameKind::ALL[kind],
        content,
    })
}

fn trajectory() -> impl Strategy<Value = Trajectory> {
    prop::collection::vec(frame(), 1..8).prop_map(|frames| Trajectory { frames })
}

proptest! {
    #[test]
    fn json_round_trips(value in value()) {
        let text = dumps(&value);
        let back = loads(&text).expect("own JSON reads back");
        // Compared as text, since NaN differs from itself and objects compare without order.
        prop_assert_eq!(dumps(&back), text);
        let ascii = dumps_ascii(&value);
        prop_assert!(ascii.is_ascii());
        prop_assert_eq!(dumps(&loads(&ascii).expect("own JSON reads back")), dumps(&value));
    }

    #[test]
    fn reading_json_never_panics(text in any::<String>(), mess in "[\\[\\]{}\",:\\\\u0-9a-fntr.eE+-]{0,40}") {
        for text in [text, mess] {
            if let Err(error) = loads(&text) {
                prop_assert!(error.byte <= text.len() && error.position <= error.byte);
                prop_assert!(text.is_char_boundary(error.byte));
            }
        }
    }

    #[test]
    fn the_wire_is_markers_and_payloads(trajectory in trajectory()) {
        let Ok(rendering) = agenticml::render(&trajectory, View::Reserved) else {
            let null = |frame: &Frame| {
                frame.kind.payload() == Payload::Json && frame.content == Value::Null
            };
            prop_assert!(trajectory.frames.iter().any(null));
            return Ok(());
        };
        let wire = rendering.text();
        let mut expected = String::new();
        for (index, frame) in trajectory.frames.iter().enumerate() {
            let start = expected.len();
            expected.push_str(frame.kind.reserved());
            match frame.kind.payload() {
                Payload::Json => expected.push_str(&dumps(&frame.content)),
                Payload::None => {}
                _ if python::truthy(&frame.content) => {
                    expected.push_str(&python::str(&frame.content));
                }
                _ => {}
            }
            let whole = start..expected.len();
            prop_assert_eq!(rendering.frame_ranges(index), [whole]);
        }
        prop_assert_eq!(wire, expected);
        prop_assert!(rendering.segments.iter().all(|segment| !segment.text.is_empty()));
    }

    #[test]
    fn provenance_changes_no_text(trajectory in trajectory()) {
        let Ok(conversation) = bridge::messages(&trajectory) else {
            return Ok(());
        };
        let bare = Conversation::new(conversation.messages.clone());
        for options in [
            chatml::Options::default(),
            chatml::Options { tools: Some(vec![]), ..chatml::Options::default() },
            chatml::Options { builtin_tools: Some(vec![]), ..chatml::Options::default() },
        ] {
            let with = chatml::render(&conversation, &options);
            let without = chatml::render(&bare, &options);
            prop_assert_eq!(with.as_ref().map(|r| r.text()), without.as_ref().map(|r| r.text()));
            if let Ok(rendering) = with {
                prop_assert!(rendering.segments.iter().all(|segment| !segment.text.is_empty()));
            }
        }
    }

    #[test]
    fn spans_hold_what_the_frames_say(trajectory in trajectory()) {
        let Ok(conversation) = bridge::messages(&trajectory) else {
            return Ok(());
        };
        for (message, origin) in conversation.messages.iter().zip(&conversation.origins) {
            let mut behind = 0;
            for span in &origin.content {
                prop_assert!(span.range.start >= behind);
                behind = span.range.end;
                let frame = &trajectory.frames[span.frame];
                prop_assert_eq!(frame.kind, span.kind);
                let said = &message.text()[span.range.clone()];
                match span.kind {
                    FrameKind::Action => {}
                    FrameKind::Result => prop_assert_eq!(said, dumps_ascii(&frame.content)),
                    // Reasoning before an answer may have been trimmed.
                    _ => prop_assert!(python::str(&frame.content).contains(said)),
                }
            }
        }
    }

    #[test]
    fn what_is_written_can_be_read(trajectory in trajectory()) {
        let Ok(rendering) = agenticml::render(&trajectory, View::Reserved) else {
            return Ok(());
        };
        if !injection::find(&rendering).is_empty() {
            return Ok(());
        }
        let reading = Reading { strict: false, ..Reading::default() };
        let parsed = agenticml::parse(&rendering.text(), &reading).expect("own wire reads back");
        prop_assert_eq!(parsed.len(), trajectory.frames.len());
        for (parsed, frame) in parsed.iter().zip(&trajectory.frames) {
            prop_assert_eq!(parsed.frame.kind, frame.kind);
            match frame.kind.payload() {
                Payload::Json => {
                    prop_assert_eq!(&parsed.error, &None);
                    prop_assert_eq!(dumps(&parsed.frame.content), dumps(&frame.content));
                }
                Payload::Prose if python::truthy(&frame.content) => {
                    let said = python::str(&frame.content);
                    prop_assert_eq!(
                        parsed.frame.content.as_str(),
                        Some(python::strip_end(&said))
                    );
                }
                _ => {}
            }
        }
    }

    #[test]
    fn any_wire_is_read_or_refused(pieces in prop::collection::vec(piece(), 0..20)) {
        let text = pieces.concat();
        for view in [View::Markers, View::Reserved] {
            for policy in [Policy::Safe, Policy::Reference] {
                let lenient = Reading { view, strict: false, policy };
                let strict = Reading { strict: true, ..lenient };
                match (agenticml::parse(&text, &lenient), agenticml::parse(&text, &strict)) {
                    (Ok(frames), strict) => {
                        let mut at = text.len() - python::strip_start(&text).len();
                        for frame in &frames {
                            prop_assert_eq!(frame.marker.start, at);
                            prop_assert_eq!(frame.marker.end, frame.body.start);
                            prop_assert_eq!(&text[frame.body.clone()], &frame.raw);
                            at = frame.body.end;
                        }
                        prop_assert_eq!(at, text.len());
                        if let Ok(strict) = strict {
                            prop_assert_eq!(strict.len(), frames.len());
                        }
                    }
                    (Err(_), strict) => prop_assert!(strict.is_err()),
                }
            }
        }
    }

    #[test]
    fn any_reply_is_read(pieces in prop::collection::vec(piece(), 0..20)) {
        let text = pieces.concat();
        let read = read_generation(&text);
        prop_assert!(!read.stop_reason().is_empty());
        for reply in [read_calls(&text, &[]), read_bash(&text), read_python(&text)] {
            prop_assert!(!reply.calls.is_empty() || !reply.failures.is_empty() || text.contains('['));
        }
    }
}

/// Pieces that wires and replies are made of, whole and broken.
fn piece() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "<|goal|>",
        "<|obs|>",
        "<|think|>",
        "<|action|>",
        "<|end|>",
        "<|result|>",
        "<|reward|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_6|>",
        "<|reserved_special_token_7|>",
        "<|reserved_special_token_11|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|python_tag|>",
        "<|",
        "|>",
        "<|reserved_special_token_",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ]);
    let text = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "{\"name\": \"f\", \"arguments\": {}}",
        "\\ud83d",
        "\\",
        " ",
        "\n",
        "1e5",
        "nan",
        "1_0",
        "```",
        "```python\n",
        "f(",
        ")",
        "\u{1c}",
        "\u{feff}",
        "é🙂",
    ]);
    prop_oneof![
        token.prop_map(str::to_owned),
        text.prop_map(str::to_owned),
        any::<String>(),
    ]
}

#[test]
fn time_grows_with_the_text_alone() {
    let started = std::time::Instant::now();
    for unit in [
        "<|",
        "<|python_tag|>",
        "<|end|>",
        "[",
        "{\"a\":",
        "[f(",
        "```\n",
        "\\u",
        "<|action|>[",
    ] {
        let text = unit.repeat(400_000 / unit.len());
        let _ = agenticml::parse(
            &text,
            &Reading {
                strict: false,
                ..Reading::default()
            },
        );
        let _ = agenticml::reserved_to_markers(&text);
        let _ = read_generation(&text);
        let _ = (read_calls(&text, &[]), read_bash(&text), read_python(&text));
        let _ = loads(&text);
    }
    // Quadratic time would take minutes.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
