//! The samples that the page opens with, token by token.

use crate::common::{root, tokenizer};
use formats::agenticml::{self, View};
use formats::{FrameKind, Rendering, Role, Trajectory, bridge, chatml};
use tokens::{Arm, Policy, TokenView, view};

fn sample(name: &str) -> Trajectory {
    let path = root().join("public/samples").join(name);
    let text = std::fs::read_to_string(&path).expect("the sample is there");
    Trajectory::parse(&text).expect("the sample is well formed")
}

fn agenticml(trajectory: &Trajectory) -> Rendering {
    agenticml::render(trajectory, View::Reserved).expect("renders")
}

fn chatml(trajectory: &Trajectory) -> Rendering {
    let conversation = bridge::messages(trajectory).expect("bridges");
    chatml::render(&conversation, &chatml::Options::default()).expect("renders")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    Context,
    Trained,
    Given,
}
use Mark::{Context, Given, Trained};

/// Runs of tokens of one frame and mark.
type Runs = &'static [(Option<usize>, Mark, &'static [u32])];

fn check(view: &TokenView, runs: Runs) {
    let mut tokens = view.tokens.iter();
    for (frame, mark, ids) in runs {
        for id in *ids {
            let token = tokens.next().expect("as many tokens as expected");
            let got = match (token.label, token.given) {
                (Some(_), true) => Given,
                (Some(_), false) => Trained,
                (None, _) => Context,
            };
            assert_eq!(
                (token.id, token.frame, got),
                (*id, *frame, *mark),
                "{token:?}"
            );
            assert!(token.label.is_none_or(|label| label == *id));
        }
    }
    assert_eq!(tokens.next(), None);
}

#[test]
fn lines_in_main_py_on_both_sides() {
    let trajectory = sample("lines-in-main-py.json");
    let a = view(
        tokenizer(),
        &agenticml(&trajectory),
        Arm::AgenticMl,
        Policy::Safe,
    );
    let b = view(tokenizer(), &chatml(&trajectory), Arm::ChatMl, Policy::Safe);
    check(&a, AGENTICML);
    check(&b, CHATML);
    let (a_counts, b_counts) = (a.counts(), b.counts());
    assert_eq!((a_counts.tokens, a_counts.trained), (121, 44));
    assert_eq!((b_counts.tokens, b_counts.trained), (156, 37));
    assert_eq!(a_counts.per_frame, [7, 36, 9, 15, 1, 25, 8, 19, 1]);
    assert_eq!(b_counts.per_frame, [6, 35, 8, 19, 1, 26, 7, 7, 1]);
    let seams = |view: &TokenView| -> Vec<(u32, String)> {
        let seams = view.tokens.iter().filter(|token| token.seam);
        seams.map(|token| (token.id, token.text.clone())).collect()
    };
    assert_eq!(seams(&a), []);
    assert_eq!(
        seams(&b),
        [(382, ".\n\n".to_owned()), (382, ".\n\n".to_owned())]
    );
    assert_eq!(b_counts.template, 20);
    let messages: Vec<Option<usize>> = (0..9)
        .map(|frame| b.tokens[b.tokens_of_frame(frame)[0]].message)
        .collect();
    assert_eq!(messages, [0, 0, 1, 2, 2, 3, 4, 4, 4].map(Some));
    let end = &b.tokens[b.tokens_of_frame(4)[0]];
    assert_eq!(
        (end.frame_kind, end.role),
        (Some(FrameKind::End), Role::Structure)
    );
    assert_eq!(end.special.as_deref(), Some("<|eot_id|>"));
}

#[test]
fn forged_markers_are_flagged_and_defused() {
    let trajectory = sample("injection.json");
    let rendering = agenticml(&trajectory);
    let reference = view(tokenizer(), &rendering, Arm::AgenticMl, Policy::Reference);
    let safe = view(tokenizer(), &rendering, Arm::AgenticMl, Policy::Safe);
    let forged: Vec<&str> = reference
        .tokens
        .iter()
        .filter(|token| token.forged)
        .filter_map(|token| token.special.as_deref())
        .collect();
    assert_eq!(
        forged,
        [
            "<|reserved_special_token_7|>",
            "<|reserved_special_token_6|>",
            "<|eot_id|>"
        ]
    );
    // The forged action switches training on inside a tool result.
    let trained = |view: &TokenView| {
        view.tokens
            .iter()
            .filter(|t| t.frame == Some(5))
            .any(|t| t.label.is_some())
    };
    assert!(trained(&reference));
    assert!(!trained(&safe));
    let plain = safe.tokens.iter().filter(|token| token.forged);
    assert!(
        plain
            .clone()
            .all(|token| token.special.is_none() && token.frame == Some(5))
    );
    let spelt: String = plain.map(|token| token.text.as_str()).collect();
    assert!(spelt.contains("<|reserved_special_token_7|><|reserved_special_token_6|>"));
    assert!(spelt.contains("<|eot_id|>"));
    assert_eq!(safe.wire, reference.wire);
    // On the other side the same text stands in a tool message.
    let rendering = chatml(&trajectory);
    let safe = view(tokenizer(), &rendering, Arm::ChatMl, Policy::Safe);
    assert!(safe.has_forged());
    assert!(
        safe.tokens
            .iter()
            .filter(|t| t.forged)
            .all(|t| t.frame == Some(5))
    );
}

#[test]
fn other_samples_render_on_both_sides() {
    for name in ["calculator.json", "weather.json"] {
        let trajectory = sample(name);
        for (rendering, arm) in [
            (agenticml(&trajectory), Arm::AgenticMl),
            (chatml(&trajectory), Arm::ChatMl),
        ] {
            let safe = view(tokenizer(), &rendering, arm, Policy::Safe);
            assert_eq!(
                safe,
                view(tokenizer(), &rendering, arm, Policy::Reference),
                "{name}"
            );
            assert!(safe.counts().trained > 0);
        }
    }
}

#[rustfmt::skip]
const AGENTICML: Runs = &[
        (Some(0), Context, &[128002, 2675, 527, 264, 11058, 18328, 13]),
        (Some(1), Context, &[128005, 16297, 512, 2280, 7526, 341, 220, 955, 1373, 2517, 284, 5570, 25, 314, 1853, 25, 925, 6547, 591, 904, 280, 220, 955, 4320, 284, 5570, 25, 314, 1495, 25, 925, 6547, 591, 904, 280, 92]),
        (Some(2), Context, &[128003, 4438, 1690, 5238, 527, 304, 1925, 7345, 30]),
        (Some(3), Trained, &[128014, 5018, 14506, 794, 330, 888, 2517, 498, 330, 2398, 794, 330, 3902, 7345, 9388]),
        (Some(4), Trained, &[128015]),
        (Some(5), Context, &[128016, 5018, 14506, 794, 330, 888, 2517, 498, 330, 970, 794, 330, 755, 1925, 4658, 59, 77, 262, 1194, 493, 6151, 873, 59, 77, 9388]),
        (Some(6), Trained, &[128011, 3902, 7345, 706, 220, 17, 5238, 13]),
        (Some(7), Trained, &[128014, 5018, 14506, 794, 330, 9399, 498, 330, 1342, 794, 330, 3902, 7345, 706, 220, 17, 5238, 1210, 92]),
        (Some(8), Trained, &[128015]),
];

#[rustfmt::skip]
const CHATML: Runs = &[
        (None, Context, &[128000, 128000]),
        (None, Context, &[128006, 9125, 128007, 271]),
        (None, Context, &[38766, 1303, 33025, 2696, 25, 6790, 220, 2366, 18, 198, 15724, 2696, 25, 220, 1627, 10263, 220, 2366, 19, 271]),
        (Some(0), Context, &[2675, 527, 264, 11058, 18328, 382]),
        (Some(1), Context, &[16297, 512, 2280, 7526, 341, 220, 955, 1373, 2517, 284, 5570, 25, 314, 1853, 25, 925, 6547, 591, 904, 280, 220, 955, 4320, 284, 5570, 25, 314, 1495, 25, 925, 6547, 591, 904, 280, 92]),
        (None, Context, &[128009]),
        (None, Context, &[128006, 882, 128007, 271]),
        (Some(2), Context, &[4438, 1690, 5238, 527, 304, 1925, 7345, 30]),
        (None, Context, &[128009]),
        (None, Context, &[128006, 78191, 128007]),
        (None, Given, &[271]),
        (Some(3), Trained, &[5018, 609, 794, 330, 888, 2517, 498, 330, 14105, 794, 55834, 2398, 11955, 7393, 3902, 7345, 2153, 92, 9388]),
        (Some(4), Trained, &[128009]),
        (None, Context, &[128006, 23799, 4690, 128007, 271]),
        (Some(5), Context, &[14461, 2153, 14506, 11955, 7393, 888, 2517, 16613, 7393, 970, 11955, 7393, 755, 1925, 4658, 3505, 77, 262, 1194, 493, 6151, 873, 3505, 77, 2153, 10064]),
        (None, Context, &[128009]),
        (None, Context, &[128006, 78191, 128007]),
        (None, Given, &[271]),
        (Some(6), Trained, &[3902, 7345, 706, 220, 17, 5238, 382]),
        (Some(7), Trained, &[3902, 7345, 706, 220, 17, 5238, 13]),
        (Some(8), Trained, &[128009]),
];
