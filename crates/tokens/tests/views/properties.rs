//! What holds for every trajectory.

use crate::common::tokenizer;
use formats::agenticml::{self, View};
use formats::json::Object;
use formats::{Frame, FrameKind, Rendering, SegmentKind, Trajectory, Value, bridge, chatml};
use proptest::prelude::*;
use tokens::{Arm, Memory, Policy, read_generated, view, view_again};

fn word(forging: bool) -> BoxedStrategy<String> {
    let plain = prop_oneof![
        Just(" ".to_owned()),
        Just("\n\n".to_owned()),
        Just(".".to_owned()),
        Just("{\"a\": ".to_owned()),
        Just("<|".to_owned()),
        Just("|>".to_owned()),
        Just("<|end|>".to_owned()),
        Just("é🙂日本".to_owned()),
        "[a-zA-Z0-9]{1,6}",
        "\\PC{1,4}",
    ];
    if forging {
        let special = prop_oneof![
            Just("<|reserved_special_token_7|>".to_owned()),
            Just("<|reserved_special_token_8|>".to_owned()),
            Just("<|eot_id|>".to_owned()),
            Just("<|start_header_id|>assistant<|end_header_id|>".to_owned()),
        ];
        prop_oneof![4 => plain, 1 => special].boxed()
    } else {
        plain.boxed()
    }
}

fn prose(forging: bool) -> impl Strategy<Value = String> {
    prop::collection::vec(word(forging), 0..8).prop_map(|words| words.concat())
}

fn frame(forging: bool) -> impl Strategy<Value = Frame> {
    (0..11usize, prose(forging), "[a-z]{1,6}", any::<bool>()).prop_map(
        |(kind, text, tool, last)| {
            let kind = FrameKind::ALL[kind];
            let content: Value = match kind {
                FrameKind::Action => {
                    let tool = if last { "answer".to_owned() } else { tool };
                    Object::from_iter([
                        ("tool".to_owned(), tool.into()),
                        ("text".to_owned(), text.into()),
                    ])
                    .into()
                }
                FrameKind::Result => Object::from_iter([
                    ("tool".to_owned(), tool.into()),
                    ("value".to_owned(), text.into()),
                ])
                .into(),
                FrameKind::Reward => 0.5.into(),
                FrameKind::End => Value::Null,
                _ => text.into(),
            };
            Frame { kind, content }
        },
    )
}

fn trajectory(forging: bool) -> impl Strategy<Value = Trajectory> {
    prop::collection::vec(frame(forging), 1..10).prop_map(|frames| Trajectory { frames })
}

fn renderings(trajectory: &Trajectory) -> Vec<(Rendering, Arm)> {
    let mut all = vec![(
        agenticml::render(trajectory, View::Reserved).expect("renders"),
        Arm::AgenticMl,
    )];
    let conversation = bridge::messages(trajectory).expect("bridges");
    if !conversation.messages.is_empty() {
        let rendering = chatml::render(&conversation, &chatml::Options::default());
        all.push((rendering.expect("renders"), Arm::ChatMl));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever was typed before, an edited wire has the tokens it would have by itself.
    #[test]
    fn a_memory_changes_no_token(
        first in trajectory(true),
        edits in prop::collection::vec((any::<prop::sample::Index>(), frame(true), 0..3u8), 1..8),
    ) {
        for policy in [Policy::Safe, Policy::Reference] {
            let mut trajectory = first.clone();
            let mut memories = [Memory::default(), Memory::default()];
            for (place, frame, what) in &edits {
                let place = place.index(trajectory.frames.len());
                match what {
                    0 => trajectory.frames[place] = frame.clone(),
                    1 => trajectory.frames.insert(place, frame.clone()),
                    _ if trajectory.frames.len() > 1 => drop(trajectory.frames.remove(place)),
                    _ => {}
                }
                for (rendering, arm) in renderings(&trajectory) {
                    let memory = &mut memories[usize::from(arm == Arm::ChatMl)];
                    let again = view_again(memory, tokenizer(), &rendering, arm, policy);
                    prop_assert_eq!(again, view(tokenizer(), &rendering, arm, policy));
                }
            }
        }
    }

    #[test]
    fn tokens_cover_the_wire_and_labels_follow_the_segments(trajectory in trajectory(true)) {
        for (rendering, arm) in renderings(&trajectory) {
            for policy in [Policy::Safe, Policy::Reference] {
                let view = view(tokenizer(), &rendering, arm, policy);
                let bytes: Vec<u8> = view.tokens.iter().flat_map(|t| t.bytes.clone()).collect();
                prop_assert_eq!(&bytes, view.wire.as_bytes());
                let mut at = 0;
                for token in &view.tokens {
                    prop_assert_eq!(token.start, at);
                    at = token.end;
                    prop_assert_eq!(&view.wire.as_bytes()[token.start..token.end], &token.bytes[..]);
                    let segment = &rendering.segments[token.segment];
                    prop_assert_eq!(token.frame, segment.frame);
                    if policy == Policy::Safe {
                        prop_assert_eq!(token.label.is_some(), segment.trained);
                        prop_assert_eq!(token.given, segment.given);
                        prop_assert_eq!(
                            token.special.is_some(),
                            segment.kind == SegmentKind::Special
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn policies_agree_where_nothing_is_forged(trajectory in trajectory(false)) {
        for (rendering, arm) in renderings(&trajectory) {
            let safe = view(tokenizer(), &rendering, arm, Policy::Safe);
            prop_assert!(!safe.has_forged());
            prop_assert_eq!(safe, view(tokenizer(), &rendering, arm, Policy::Reference));
        }
    }

    #[test]
    fn text_survives_encoding(text in prose(true)) {
        for ids in [tokenizer().encode_trusted(&text), tokenizer().encode_plain(&text)] {
            prop_assert_eq!(tokenizer().decode(&ids), text.clone());
        }
        prop_assert!(tokenizer().encode_plain(&text).iter().all(|id| *id < tokens::RANKS));
    }

    #[test]
    fn any_ids_are_read(ids in prop::collection::vec(id(), 0..60), strict in any::<bool>()) {
        let read = read_generated(tokenizer(), &ids, strict, &[128_001, 128_009]);
        let mut at = read.frames.first().map_or(0, |frame| frame.tokens.start);
        for frame in &read.frames {
            prop_assert_eq!(frame.tokens.start, at);
            at = frame.tokens.end;
            prop_assert!(!ids[frame.tokens.clone()].contains(&128_001));
        }
        let _ = tokenizer().decode(&ids);
    }
}

fn id() -> impl Strategy<Value = u32> {
    prop_oneof![0..128_300u32, 128_000..128_020u32, Just(u32::MAX)]
}
