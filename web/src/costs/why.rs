//! Why the two sides need different numbers of tokens, part by part.

use crate::state::page;
use crate::words;
use leptos::prelude::*;
use tokens::{Difference, Part, compare};

/// A part's name, and what makes it differ.
fn about(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Structure => (
            "structure",
            "A: one marker a frame. B: four tokens of header, one end, a turn.",
        ),
        Part::Template => (
            "template",
            "B's template writes two dates before everything.",
        ),
        Part::Prompts => (
            "prompts",
            "Prose on both sides. Trimmed on B, and cut elsewhere where parts meet.",
        ),
        Part::Reasoning => (
            "reasoning",
            "Beliefs, plans, thoughts. B's template drops them beside a call.",
        ),
        Part::Calls => (
            "calls",
            "On B the arguments are JSON inside a JSON string: every quote is escaped.",
        ),
        Part::Answers => ("answers", "JSON on A, plain text on B."),
        Part::Results => (
            "results",
            "On B JSON inside a JSON string, quoted once more.",
        ),
        Part::Rewards => ("rewards", "B has no place for them."),
    }
}

/// The sentence and the parts.
#[component]
pub fn Why() -> impl IntoView {
    let page = page();
    let body = move || {
        let document = page.document.get();
        let [a, b] = &document.sides;
        let (Some(of_a), Some(of_b)) = (&a.view, &b.view) else {
            return super::unknown().into_any();
        };
        let comparison = compare(&document.conversation, [of_a, of_b]);
        let sentence = words::difference(&comparison);
        let most = comparison
            .parts
            .iter()
            .map(|part| part.change().unsigned_abs())
            .max();
        let rows = comparison
            .parts
            .iter()
            .map(|part| row(part, most.unwrap_or(1).max(1)))
            .collect_view();
        view! {
            <p class="cost-say" data-testid="difference">{sentence}</p>
            <table class="kt ft why" data-testid="parts" aria-label="What makes the sides differ">
                <thead><tr><th scope="col">"part"</th><th scope="col">"A"</th><th scope="col">"B"</th><th scope="col">"B − A"</th><th scope="col" class="tx">"because"</th></tr></thead>
                <tbody>{rows}</tbody>
                <tfoot><tr class="d"><th scope="row">"all"</th><td>{a.tally.tokens}</td><td>{b.tally.tokens}</td><td>{words::signed(b.tally.tokens as i64 - a.tally.tokens as i64)}</td><td></td></tr></tfoot>
            </table>
        }
        .into_any()
    };
    view! { <div class="ft-box" tabindex="0" role="region" aria-label="Why the sides differ">{body}</div> }
}

fn row(part: &Difference, most: u64) -> AnyView {
    let (name, because) = about(part.part);
    let [a, b] = part.tokens;
    let change = part.change();
    let width = format!("{:.1}%", change.unsigned_abs() as f64 * 50.0 / most as f64);
    view! {
        <tr><th scope="row">{name}</th><td class:z={a == 0}>{a}</td><td class:z={b == 0}>{b}</td>
            <td class="delta"><span class="swing" aria-hidden="true"><i class:more={change > 0} style:width=width></i></span>{words::signed(change)}</td><td class="tx">{because}</td></tr>
    }
    .into_any()
}
