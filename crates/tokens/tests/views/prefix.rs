//! What a cache keeps from turn to turn.

use crate::common::{samples, tokenizer};
use formats::{Frame, FrameKind, Trajectory, json};
use tokens::prefix::{Turns, common, turns};
use tokens::{Arm, Policy, prompt, view};

fn of(frames: &[(FrameKind, &str)], arm: Arm) -> Turns {
    let frames = frames
        .iter()
        .map(|(kind, text)| match kind {
            FrameKind::Action | FrameKind::Result => {
                Frame::new(*kind, json::loads(text).expect("JSON"))
            }
            _ => Frame::new(*kind, *text),
        })
        .collect();
    turns(tokenizer(), &Trajectory { frames }, arm).expect("can be written")
}

const CALL: (FrameKind, &str) = (FrameKind::Action, r#"{"tool": "look", "at": "sky"}"#);
const RESULT: (FrameKind, &str) = (FrameKind::Result, r#"{"tool": "look", "value": "blue"}"#);
const ANSWER: (FrameKind, &str) = (FrameKind::Action, r#"{"tool": "answer", "text": "Blue."}"#);
const END: (FrameKind, &str) = (FrameKind::End, "");
const OPENING: [(FrameKind, &str); 3] = [
    (FrameKind::Goal, "You look at things."),
    (FrameKind::Obs, "It is noon."),
    (FrameKind::Mission, "Which colour is the sky?"),
];

#[test]
fn what_is_appended_keeps_the_cache() {
    let frames = [&OPENING[..], &[CALL, END, RESULT, ANSWER, END]].concat();
    for arm in [Arm::AgenticMl, Arm::ChatMl] {
        let Turns(turns) = of(&frames, arm);
        assert_eq!(turns.len(), 2, "{arm:?}");
        assert_eq!((turns[0].kept, turns[0].held), (0, 0));
        assert_eq!(turns[1].held, turns[0].prompt + turns[0].written);
        assert_eq!(turns[1].dropped(), 0, "{arm:?}");
        assert_eq!(turns[1].anew(), turns[1].prompt - turns[1].held);
        assert!(turns[1].anew() > 0);
    }
}

#[test]
fn a_batch_is_one_turn_of_frames_and_several_messages() {
    let frames = [
        &OPENING[..],
        &[CALL, CALL, END, RESULT, RESULT, ANSWER, END],
    ]
    .concat();
    let Turns(a) = of(&frames, Arm::AgenticMl);
    let ranges: Vec<_> = a.into_iter().map(|turn| turn.frames).collect();
    assert_eq!(ranges, [3..6, 8..10]);
    let Turns(b) = of(&frames, Arm::ChatMl);
    let ranges: Vec<_> = b.into_iter().map(|turn| turn.frames).collect();
    assert_eq!(ranges, [3..4, 4..6, 8..10]);
}

/// The bridge puts an observation that no mission follows in front of everything.
#[test]
fn a_late_observation_costs_chatml_its_cache() {
    let late = (FrameKind::Obs, "It is night now.");
    let frames = [&OPENING[..], &[CALL, END, RESULT, late, ANSWER, END]].concat();
    let Turns(a) = of(&frames, Arm::AgenticMl);
    assert_eq!(a[1].dropped(), 0);
    let Turns(b) = of(&frames, Arm::ChatMl);
    assert!(b[1].dropped() > 0);
    // The template's preamble is the same and stays.
    assert!(b[1].kept > 20 && b[1].kept < b[0].prompt);
}

#[test]
fn prompts_are_those_that_would_be_sent() {
    let mut compared = 0;
    for (name, trajectory) in samples() {
        for arm in [Arm::AgenticMl, Arm::ChatMl] {
            let Ok(Turns(turns)) = turns(tokenizer(), &trajectory, arm) else {
                continue;
            };
            for turn in &turns {
                let before = Trajectory {
                    frames: trajectory.frames[..turn.frames.start].to_vec(),
                };
                let Ok(rendering) = prompt(&before, arm) else {
                    assert_eq!(turn.prompt, 0, "{name}");
                    continue;
                };
                let ids = view(tokenizer(), &rendering, arm, Policy::Safe).ids();
                assert_eq!(turn.prompt, ids.len(), "{name}");
                assert!(turn.kept <= turn.held && turn.kept <= turn.prompt);
                compared += 1;
            }
        }
    }
    assert!(compared > 80);
}

#[test]
fn a_trajectory_that_begins_with_the_model_has_an_empty_prompt() {
    for arm in [Arm::AgenticMl, Arm::ChatMl] {
        let turns = of(&[CALL, END, RESULT, ANSWER, END], arm);
        assert_eq!((turns.0[0].prompt, turns.0[0].kept), (0, 0));
        assert_eq!(turns.prompt(), turns.kept() + turns.anew());
    }
    assert_eq!(of(&OPENING, Arm::AgenticMl), Turns::default());
}

#[test]
fn a_common_beginning() {
    assert_eq!(common(&[1, 2, 3], &[1, 2, 4, 5]), 2);
    assert_eq!(common(&[], &[1]), 0);
    assert_eq!(common(&[1], &[1]), 1);
}
