//! Counts per frame, and what makes the two wires of one trajectory differ.

use crate::common::{samples, tokenizer};
use formats::agenticml::{self, View};
use formats::{Conversation, Trajectory, bridge, chatml};
use tokens::{Arm, Cost, Part, Policy, TokenView, compare, costs, view};

fn both(trajectory: &Trajectory) -> Option<(Conversation, TokenView, TokenView)> {
    let a = agenticml::render(trajectory, View::Reserved).ok()?;
    let conversation = bridge::messages(trajectory).ok()?;
    let b = chatml::render(&conversation, &chatml::Options::default()).ok()?;
    Some((
        conversation,
        view(tokenizer(), &a, Arm::AgenticMl, Policy::Safe),
        view(tokenizer(), &b, Arm::ChatMl, Policy::Safe),
    ))
}

#[test]
fn parts_and_frames_add_up_to_the_wires_of_every_sample() {
    let mut compared = 0;
    for (name, trajectory) in samples() {
        let Some((conversation, a, b)) = both(&trajectory) else {
            continue;
        };
        compared += 1;
        let comparison = compare(&conversation, [&a, &b]);
        for (side, view) in [&a, &b].into_iter().enumerate() {
            let parts: usize = comparison.parts.iter().map(|part| part.tokens[side]).sum();
            assert_eq!(parts, view.tokens.len(), "{name}");
            let costs = costs(view, trajectory.frames.len());
            let mut sum = costs.outside;
            for frame in &costs.frames {
                sum.tokens += frame.tokens;
                sum.structure += frame.structure;
                sum.trained += frame.trained;
            }
            assert_eq!(sum, costs.total, "{name}");
            let counts = view.counts();
            let expected = Cost {
                tokens: counts.tokens,
                structure: counts.structure + counts.template,
                trained: counts.trained,
            };
            assert_eq!(costs.total, expected, "{name}");
        }
    }
    assert!(compared > 20);
}

#[test]
fn calls_are_dearer_and_answers_cheaper_in_chatml() {
    let (_, trajectory) = samples()
        .into_iter()
        .find(|(name, _)| name == "lines-in-main-py.json")
        .expect("the first sample");
    let (conversation, a, b) = both(&trajectory).expect("renders");
    let comparison = compare(&conversation, [&a, &b]);
    let tokens = |wanted: Part| {
        let mut parts = comparison.parts.iter();
        parts
            .find(|part| part.part == wanted)
            .map(|part| part.tokens)
    };
    let [here, there] = tokens(Part::Calls).expect("a call");
    assert!(here < there);
    let [here, there] = tokens(Part::Answers).expect("an answer");
    assert!(here > there);
    assert_eq!(tokens(Part::Template).map(|[here, _]| here), Some(0));
    assert_eq!(tokens(Part::Rewards), None);
    assert!(comparison.escapes[0] < comparison.escapes[1]);
}
