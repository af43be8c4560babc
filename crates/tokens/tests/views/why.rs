//! The explanation of a label agrees with the label, on the samples and on the reference's own rows.

use crate::common::{root, samples, tokenizer};
use formats::agenticml::{self, View};
use formats::{Conversation, Rendering, Trajectory, bridge, chatml, json};
use std::collections::BTreeSet;
use tokens::{Arm, Policy, Why, view, why};

/// Checks every token; returns the cases that were met.
fn check(
    name: &str,
    arm: Arm,
    rendering: &Rendering,
    conversation: &Conversation,
) -> BTreeSet<String> {
    let view = view(tokenizer(), rendering, arm, Policy::Safe);
    view.tokens
        .iter()
        .map(|token| {
            let message = token.message.and_then(|at| conversation.messages.get(at));
            let why = why(arm, token, message.map(|message| message.role()));
            assert_eq!(
                why.trained(),
                token.label.is_some(),
                "{name}: {why:?} {token:?}"
            );
            assert_eq!(why == Why::Given, token.given, "{name}: {token:?}");
            format!("{why:?}")
        })
        .collect()
}

fn both(name: &str, trajectory: &Trajectory) -> BTreeSet<String> {
    let mut met = BTreeSet::new();
    let none = Conversation::default();
    if let Ok(rendering) = agenticml::render(trajectory, View::Reserved) {
        met.extend(check(name, Arm::AgenticMl, &rendering, &none));
    }
    if let Ok(conversation) = bridge::messages(trajectory)
        && let Ok(rendering) = chatml::render(&conversation, &chatml::Options::default())
    {
        met.extend(check(name, Arm::ChatMl, &rendering, &conversation));
    }
    met
}

#[test]
fn labels_of_the_samples_have_a_reason() {
    let mut met = BTreeSet::new();
    for (name, trajectory) in samples() {
        met.extend(both(&name, &trajectory));
    }
    let all = [
        Why::ModelMarker,
        Why::ModelContent,
        Why::RuntimeMarker,
        Why::RuntimeContent,
        Why::Begin,
        Why::AssistantHeader,
        Why::OtherStructure,
        Why::Given,
        Why::Template,
        Why::AssistantContent,
        Why::AssistantEnd,
        Why::OtherContent,
        Why::OtherEnd,
    ];
    assert_eq!(met, all.map(|why| format!("{why:?}")).into());
}

/// The golden rows hold what the reference made of them; where content forges no marker, both policies
/// give the same ids, so the reasons explain the reference's own masks.
#[test]
fn labels_of_the_golden_rows_have_a_reason() {
    let text = std::fs::read_to_string(root().join("tests/golden/tokens.json")).expect("there");
    let golden = json::loads(&text).expect("JSON");
    let cases = golden.get("cases").and_then(|cases| cases.as_array());
    let mut checked = 0;
    for case in cases.expect("cases") {
        if case.get("kind") != Some(&"trajectory".into()) {
            continue;
        }
        let Some(Ok(trajectory)) = case.get("input").map(Trajectory::from_json) else {
            continue;
        };
        both("golden", &trajectory);
        let Ok(rendering) = agenticml::render(&trajectory, View::Reserved) else {
            continue;
        };
        let view = view(tokenizer(), &rendering, Arm::AgenticMl, Policy::Safe);
        if view.has_forged() {
            continue;
        }
        let labels = view.tokens.iter().map(|token| {
            why(Arm::AgenticMl, token, None)
                .trained()
                .then_some(token.id)
                .map_or(-100, i64::from)
        });
        let expected = case
            .get("expected")
            .and_then(|expected| expected.get("labels"))
            .and_then(|labels| labels.as_array())
            .expect("labels");
        let labels: Vec<String> = labels.map(|label| label.to_string()).collect();
        let expected: Vec<String> = expected.iter().map(json::dumps).collect();
        assert_eq!(labels, expected);
        checked += 1;
    }
    assert!(checked > 20);
}
