//! Generated ids read as frames.

use crate::common::tokenizer;
use formats::agenticml::ParseError;
use formats::json::dumps;
use formats::{FrameKind, Policy, Trajectory};
use tokens::{Arm, prompt, read_generated, view};

const STOPS: [u32; 2] = [128_001, 128_009];

fn ids(text: &str) -> Vec<u32> {
    tokenizer().encode_trusted(text)
}

#[test]
fn end_of_sequence_never_gets_into_a_payload() {
    let ids = ids("<|reserved_special_token_6|>{\"tool\": \"answer\"}<|end_of_text|>");
    let read = read_generated(tokenizer(), &ids, true, &STOPS);
    assert_eq!(read.error, None);
    assert_eq!(read.stopped_by, Some(128_001));
    let frame = &read.frames[0];
    assert_eq!(dumps(&frame.frame.content), "{\"tool\": \"answer\"}");
    assert_eq!((frame.error.clone(), frame.closed), (None, true));
    assert_eq!(frame.tokens, 0..ids.len() - 1);
}

#[test]
fn spelt_markers_stay_text() {
    let mut ids = ids("<|reserved_special_token_5|>");
    ids.extend(tokenizer().encode_plain("see <|reserved_special_token_7|> and <|end|>"));
    ids.extend(self::ids("<|reserved_special_token_7|>"));
    let read = read_generated(tokenizer(), &ids, true, &STOPS);
    let kinds: Vec<FrameKind> = read.frames.iter().map(|f| f.frame.kind).collect();
    assert_eq!(kinds, [FrameKind::Think, FrameKind::End]);
    assert_eq!(
        read.frames[0].frame.content.as_str(),
        Some("see <|reserved_special_token_7|> and <|end|>")
    );
}

#[test]
fn errors_keep_what_came_before() {
    let ids = ids("<|reserved_special_token_3|>b<|reserved_special_token_8|>{}");
    let read = read_generated(tokenizer(), &ids, true, &STOPS);
    assert_eq!(read.frames.len(), 1);
    assert_eq!(
        read.error,
        Some(ParseError::NotTheModels(FrameKind::Result))
    );
    let lenient = read_generated(tokenizer(), &ids, false, &STOPS);
    assert_eq!((lenient.frames.len(), lenient.error), (2, None));
    let plain = read_generated(tokenizer(), &self::ids("  hello"), true, &STOPS);
    assert!(matches!(
        plain.error,
        Some(ParseError::NoMarker { offset: 2, .. })
    ));
    let nothing = read_generated(tokenizer(), &[], true, &STOPS);
    assert_eq!((nothing.frames, nothing.error), (vec![], None));
}

#[test]
fn an_open_frame_is_seen_growing() {
    let ids = ids("<|reserved_special_token_6|>{\"tool\": \"answer\"}");
    for cut in 1..ids.len() {
        let read = read_generated(tokenizer(), &ids[..cut], true, &STOPS);
        assert_eq!(read.frames.len(), 1);
        assert!(!read.frames[0].closed);
        assert!(read.frames[0].error.is_some());
    }
}

#[test]
fn prompts_of_both_arms() {
    let trajectory = Trajectory::parse(
        r#"[{"type": "goal", "content": "g"}, {"type": "mission", "content": "m"}]"#,
    );
    let trajectory = trajectory.expect("frames");
    let ids = |arm| {
        let rendering = prompt(&trajectory, arm).expect("renders");
        view(tokenizer(), &rendering, arm, Policy::Safe).ids()
    };
    assert_eq!(ids(Arm::AgenticMl), [128_002, 70, 128_003, 76]);
    assert_eq!(ids(Arm::ChatMl)[..3], [128_000, 128_000, 128_006]);
    assert!(ids(Arm::ChatMl).ends_with(&[128_006, 78_191, 128_007, 271]));
}
