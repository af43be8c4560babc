//! Reading token by token ends where reading the whole turn does.

use crate::any_ids::Numbers;
use crate::common::tokenizer;
use agent::reading::{End, Manner, Markers, Outcome, Part, Reader, What};
use agent::{Settings, agenticml, chatml, recorded};
use formats::json::loads;
use formats::{Conversation, FrameKind, Owner, Policy, Trajectory};
use tokens::{Arm, kind_of_marker};

/// What an engine tells of these ids: text that is complete, and whether it is a special token.
fn told(ids: &[u32]) -> Vec<(String, bool)> {
    let mut pending = Vec::new();
    let mut told = Vec::new();
    for &id in ids {
        let piece = tokenizer().piece(id);
        if piece.special.is_some() {
            let held = String::from_utf8_lossy(&std::mem::take(&mut pending)).into_owned();
            told.push((held + &String::from_utf8_lossy(piece.bytes), true));
            continue;
        }
        pending.extend(piece.bytes);
        let mut text = String::new();
        let mut used = 0;
        for chunk in pending.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let rest = chunk.invalid();
            let unfinished = used + rest.len() == pending.len()
                && std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
            if !rest.is_empty() && !unfinished {
                text.push(char::REPLACEMENT_CHARACTER);
                used += rest.len();
            }
        }
        pending.drain(..used);
        told.push((text, false));
    }
    if !pending.is_empty()
        && let Some((text, _)) = told.last_mut()
    {
        // A text that ends within a character: an engine keeps that back, and decoding does not.
        text.push_str(&String::from_utf8_lossy(&pending));
    }
    told
}

fn read(manner: Manner, told: &[(String, bool)]) -> Reader {
    let mut reader = Reader::new(manner);
    for (text, special) in told {
        reader.push(text, *special);
        covers(
            reader.parts(),
            reader.parts().last().map_or(0, |p| p.tokens.end),
        );
    }
    covers(reader.parts(), told.len());
    reader
}

/// The parts are all tokens, each once, in order.
fn covers(parts: &[Part], count: usize) {
    let mut next = 0;
    for part in parts {
        assert_eq!(part.tokens.start, next, "{parts:?}");
        next = part.tokens.end;
    }
    assert_eq!(next, count, "{parts:?}");
}

/// Whether the last token is a special one that ends no turn of Llama 3.1's. An engine that says that it
/// ended one means a token of the model's own, which the loops know nothing of.
fn ends_unnamed(ids: &[u32]) -> bool {
    ids.last().is_some_and(|id| {
        tokenizer().piece(*id).special.is_some()
            && kind_of_marker(*id).is_none()
            && ![128_001, 128_008, 128_009].contains(id)
    })
}

const SAFE_A: Manner = Manner {
    arm: Arm::AgenticMl,
    markers: Markers::Tokens,
    strict: true,
    policy: Policy::Safe,
};
const SAFE_B: Manner = Manner {
    arm: Arm::ChatMl,
    ..SAFE_A
};

#[test]
fn frames_are_those_of_the_whole_turn() {
    let mut numbers = Numbers::new(5);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..20_000 {
        let ids = numbers.output();
        let cut = round % 3 == 0;
        if !cut && ends_unnamed(&ids) {
            continue;
        }
        let manner = Manner {
            strict: round % 2 == 0,
            ..SAFE_A
        };
        let settings = Settings {
            strict: manner.strict,
            max_new_tokens: if cut { ids.len() } else { ids.len() + 1 },
            ..Settings::default()
        };
        let step = agenticml::read_step(
            tokenizer(),
            &Trajectory::default(),
            vec![],
            ids.clone(),
            &settings,
        );
        let mut reader = read(manner, &told(&ids));
        let turn = reader.finish(if cut { End::Cut } else { End::Stop });
        let shown = tokenizer().decode(&ids);
        let frames: Vec<_> = step.trajectory.frames;
        assert_eq!(turn.frames, frames, "{shown:?}");
        if step.taken {
            taken += 1;
        } else {
            refused += 1;
            assert!(
                matches!(turn.outcome, Outcome::Cut | Outcome::Unusable(_)),
                "{shown:?}: {turn:?}"
            );
        }
        let kinds = |part: &Part| match part.what {
            What::Frame(kind) => Some((kind, part.raw.clone())),
            _ => None,
        };
        let seen: Vec<_> = reader.parts().iter().filter_map(kinds).collect();
        let kept: Vec<_> = step
            .frames
            .into_iter()
            .map(|frame| (frame.frame.kind, frame.raw))
            .collect();
        assert_eq!(seen, kept, "{shown:?}");
    }
    assert!(taken > 2_000 && refused > 2_000, "{taken} {refused}");
}

#[test]
fn messages_are_those_of_the_whole_turn() {
    let mut numbers = Numbers::new(6);
    let mut calls = 0;
    for round in 0..20_000 {
        let ids = numbers.output();
        let cut = round % 3 == 0;
        if !cut && ends_unnamed(&ids) {
            continue;
        }
        let settings = Settings {
            max_new_tokens: if cut { ids.len() } else { ids.len() + 1 },
            ..Settings::default()
        };
        let start = Conversation::default();
        let step = chatml::read_step(tokenizer(), start, vec![], ids.clone(), &settings)
            .expect("safe reading never fails");
        let mut reader = read(SAFE_B, &told(&ids));
        let turn = reader.finish(if cut { End::Cut } else { End::Stop });
        let shown = tokenizer().decode(&ids);
        let content = turn.frames.first().map(|frame| &frame.content);
        match step.stop {
            chatml::StepStop::Call => {
                calls += 1;
                let call = step.call.expect("a call");
                let tool = content.and_then(|c| c.get("tool"));
                assert_eq!(tool.and_then(|t| t.as_str()), Some(call.name.as_str()));
            }
            chatml::StepStop::Text => {
                let said = step.message.expect("a message");
                let text = content.and_then(|c| c.get("text"));
                assert_eq!(
                    text.and_then(|t| t.as_str()),
                    Some(said.text()),
                    "{shown:?}"
                );
                assert!(matches!(turn.outcome, Outcome::Answer(_)), "{shown:?}");
            }
            chatml::StepStop::MaxTokens => assert_eq!(turn.outcome, Outcome::Cut, "{shown:?}"),
            other => {
                let why = match other {
                    chatml::StepStop::ParseError(error) => error.to_string(),
                    chatml::StepStop::BadCall(error) => error.to_string(),
                    _ => unreachable!("told above"),
                };
                assert_eq!(turn.outcome, Outcome::Unusable(why), "{shown:?}");
            }
        }
    }
    assert!(calls > 80, "{calls}");
}

#[test]
fn a_beginning_is_read_as_the_beginning() {
    let text = "<|reserved_special_token_5|>Two files.<|reserved_special_token_6|>{\"tool\": \"read_file\", \
                \"path\": \"main.py\"}<|reserved_special_token_7|>";
    let told = told(&tokenizer().encode_trusted(text));
    let mut reader = Reader::new(SAFE_A);
    let mut opened = Vec::new();
    for (text, special) in &told {
        reader.push(text, *special);
        let open: Vec<_> = reader.parts().iter().filter(|part| !part.closed).collect();
        assert!(open.len() <= 1);
        if let Some(What::Frame(kind)) = open.first().map(|part| part.what)
            && opened.last() != Some(&kind)
        {
            opened.push(kind);
        }
    }
    assert_eq!(opened, [FrameKind::Think, FrameKind::Action]);
    let turn = reader.finish(End::Stop);
    assert_eq!(turn.outcome, Outcome::Calls);
    assert_eq!(turn.calls.len(), 1);
    assert_eq!(turn.frames.len(), 3);
}

#[test]
fn spelled_markers_are_read_as_spelled() {
    let manner = Manner {
        markers: Markers::Spelled,
        ..SAFE_A
    };
    // The marker falls apart into several tokens, and shares one with what is before it.
    let pieces = [
        "<|think",
        "|>so",
        " <|",
        "action|>",
        "{\"tool\": \"f\"}",
        "<|im_end|>",
    ];
    let mut told: Vec<(String, bool)> = pieces.map(|text| (text.to_owned(), false)).into();
    told[5].1 = true;
    let mut reader = read(manner, &told);
    let turn = reader.finish(End::Stop);
    let kinds: Vec<_> = turn.frames.iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [FrameKind::Think, FrameKind::Action]);
    assert_eq!(turn.outcome, Outcome::Calls);
    assert_eq!(
        reader.parts().last().map(|part| part.what),
        Some(What::Stop)
    );
    // A special token of that name means nothing there, and spelled text means nothing elsewhere.
    let spelled = vec![("<|action|>".to_owned(), false), ("{}".to_owned(), false)];
    let turn = read(SAFE_A, &spelled).finish(End::Cut);
    assert!(matches!(turn.outcome, Outcome::Unusable(_)), "{turn:?}");
}

#[test]
fn what_was_stopped_keeps_what_is_whole() {
    let text = "<|reserved_special_token_5|>So.<|reserved_special_token_6|>{\"tool\": \"f\"";
    let told = told(&tokenizer().encode_trusted(text));
    let turn = read(SAFE_A, &told).finish(End::Stopped);
    assert_eq!(turn.outcome, Outcome::Stopped);
    assert_eq!(turn.frames.len(), 1);
    assert_eq!(turn.frames[0].kind, FrameKind::Think);
    assert_eq!(turn.frames[0].kind.owner(), Owner::Model);
}

#[test]
fn recorded_results_are_those_of_the_same_call() {
    let frames = r#"[
        {"type": "mission", "content": "m"},
        {"type": "action", "content": {"tool": "f", "x": 1}},
        {"type": "action", "content": {"tool": "f", "x": 2}},
        {"type": "end", "content": null},
        {"type": "result", "content": {"tool": "f", "value": "one"}},
        {"type": "result", "content": {"tool": "f", "value": "two"}},
        {"type": "action", "content": {"tool": "g"}},
        {"type": "end", "content": null}]"#;
    let trajectory = Trajectory::parse(frames).expect("frames");
    let of = |call: &str| recorded(&trajectory, &loads(call).expect("JSON"));
    assert_eq!(of(r#"{"x": 2, "tool": "f"}"#), Some("two".into()));
    assert_eq!(of(r#"{"tool": "f", "x": 1}"#), Some("one".into()));
    assert_eq!(of(r#"{"tool": "f", "x": 3}"#), None);
    assert_eq!(of(r#"{"tool": "g"}"#), None);
}
