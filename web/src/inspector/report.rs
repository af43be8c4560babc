//! The injection report: where content spells a marker, what that would do to the reference, and what it
//! does here.

use crate::document::{Document, Side, SideDoc, class};
use crate::icons;
use crate::pieces;
use crate::state::{Page, page};
use crate::words;
use formats::injection::{Forged, Threat, find};
use formats::{FrameKind, Owner, Policy};
use leptos::prelude::*;
use tokens::{Arm, Llama3Tokenizer, kind_of_marker};

/// Entries shown per side. What spells more is a flood, and its number says enough.
const LIMIT: usize = 60;

/// Forged markers of the side that has most: content stands on both, unless one drops it.
pub fn forged(document: &Document) -> usize {
    let found = document
        .sides
        .iter()
        .map(|side| find(&side.rendering).len());
    found.max().unwrap_or(0)
}

/// Opens the report.
pub fn open(page: Page) {
    page.explain.report.set(true);
    page.drawer.set(true);
}

/// The state of a trajectory whose content spells markers: says so, and opens the report.
#[component]
pub fn ForgedState() -> impl IntoView {
    let page = page();
    let count = Memo::new(move |_| forged(&page.document.read()));
    view! {
        <button class="forged-state" data-testid="forged" on:click=move |_| open(page)><span class="state er">{icons::alert()}<b>{move || words::count(count.get(), "forged marker")}</b>
            " in content; encoded as text. Report"</span></button>
    }
}

/// The line at the foot of the inspector.
#[component]
pub fn ReportLine() -> impl IntoView {
    let page = page();
    let count = Memo::new(move |_| forged(&page.document.read()));
    view! {
        <button class="btn quiet report-line" data-testid="open-report" on:click=move |_| open(page)>
            {move || match count.get() { 0 => "Injection report: nothing forged".to_owned(), n => format!("Injection report: {}", words::count(n, "forged marker")) }}</button>
    }
}

/// The report.
#[component]
pub fn Report() -> impl IntoView {
    let page = page();
    let body = move || {
        let document = page.document.get();
        let tokenizer = page.tokenizer.get();
        let found = document.sides.each_ref().map(|side| find(&side.rendering));
        if found.iter().all(Vec::is_empty) {
            return view! { <section><p data-testid="report-none">"No content spells a marker or a special token. Whatever is typed, pasted or loaded is searched on both sides, as you type."</p></section> }.into_any();
        }
        let effects = tokenizer.as_deref().map(|tokenizer| {
            Side::BOTH
                .map(|side| effect(&document, side, tokenizer))
                .into_iter()
                .collect_view()
        });
        let lists = Side::BOTH
            .into_iter()
            .zip(&found)
            .map(|(side, found)| list(&document, side, found, tokenizer.as_deref()))
            .collect_view();
        view! {
            <section><p>"Content spells markers. Here text stays text: none of them acts. The reference encodes the whole wire at once, so that what content spells becomes real:"</p>
                <table class="kt effects" data-testid="effects"><thead><tr><th scope="col">"side"</th><th scope="col">"special"</th><th scope="col">"tokens"</th><th scope="col">"trained"</th></tr></thead><tbody>{effects}</tbody></table>
            </section>
            {lists}
        }
        .into_any()
    };
    view! {
        <section class="report-head"><h3>"Injection report"</h3><button class="btn" data-testid="close-report" on:click=move |_| page.explain.report.set(false)>"Back"</button></section>
        {body}
    }
}

/// What the reference makes of a side, against what is shown.
fn effect(document: &Document, side: Side, tokenizer: &Llama3Tokenizer) -> AnyView {
    let doc = document.side(side);
    let Some(here) = &doc.view else {
        return ().into_any();
    };
    let arm = match side {
        Side::A => Arm::AgenticMl,
        Side::B => Arm::ChatMl,
    };
    let reference = tokens::view(tokenizer, &doc.rendering, arm, Policy::Reference);
    let special = |view: &tokens::TokenView, forged: bool| {
        let mut tokens = view.tokens.iter().filter(|token| token.special.is_some());
        tokens
            .by_ref()
            .filter(|token| token.forged == forged)
            .count()
    };
    let (of_here, of_reference) = (here.counts(), reference.counts());
    let change = |here: usize, there: usize| format!("{here} → {there}");
    view! {
        <tr><th scope="row">{side.plate()}</th><td>{change(special(here, false), special(&reference, false) + special(&reference, true))}</td>
            <td>{change(of_here.tokens, of_reference.tokens)}</td><td>{change(of_here.trained, of_reference.trained)}</td></tr>
    }
    .into_any()
}

fn list(
    document: &Document,
    side: Side,
    found: &[Forged],
    tokenizer: Option<&Llama3Tokenizer>,
) -> AnyView {
    let doc = document.side(side);
    let more = found.len().saturating_sub(LIMIT);
    let entries = found
        .iter()
        .take(LIMIT)
        .map(|forged| entry(document, side, forged, tokenizer))
        .collect_view();
    let none = found.is_empty().then(|| match &doc.error {
        Some(_) => view! { <p class="muted">"This side cannot be written."</p> },
        None => view! { <p class="muted">"Nothing: this side does not carry that text."</p> },
    });
    view! {
        <section data-testid=format!("forged-{}", side.key())><h3><span class="plate">{side.plate()}</span>{side.title()}</h3>{none}<ul class="forge-list">{entries}</ul>
            {(more > 0).then(|| view! { <p class="muted">"and "{more}" more"</p> })}</section>
    }
    .into_any()
}

fn entry(
    document: &Document,
    side: Side,
    forged: &Forged,
    tokenizer: Option<&Llama3Tokenizer>,
) -> AnyView {
    let page = page();
    let doc = document.side(side);
    let wire = doc.rendering.text();
    let from = pieces::chars_before(&wire, forged.range.start);
    let to = pieces::chars_before(&wire, forged.range.end);
    let id = tokenizer.and_then(|tokenizer| tokenizer.special_id(&forged.name));
    let kind = forged
        .frame
        .and_then(|at| Some((at, document.trajectory.frames.get(at)?.kind)));
    let tone = kind.map_or("k-turn", |(_, kind)| class(kind));
    let place = kind.map(|(at, kind)| view! { {icons::kind_name(kind)}" frame "{at}", " });
    let frame = forged.frame;
    view! {
        <li class=format!("cf {tone}") class:lk=move || page.is_linked(frame) data-frame=frame tabindex="0">
            <code>{forged.name.clone()}</code><p>{place}"chars "{from}"–"{to}</p>
            <dl><dt>"Reference"</dt><dd>{reference(side, forged, id)}</dd><dt>"Here"</dt><dd>{here(doc, forged)}</dd></dl>
        </li>
    }
    .into_any()
}

/// What becomes of it where the reference encodes or parses the wire.
fn reference(side: Side, forged: &Forged, id: Option<u32>) -> String {
    let owner = |kind: FrameKind| match kind.owner() {
        Owner::Model => "model",
        Owner::Runtime => "runtime",
    };
    if forged.threat == Threat::FrameBoundary {
        return match (side, FrameKind::from_alias(&forged.name)) {
            (Side::A, Some(kind)) => format!(
                "The model sees plain text, but a wire that is parsed as text is cut here: the {}'s frame {} begins.",
                owner(kind),
                kind.name()
            ),
            _ => "Nothing: in ChatML this name has no meaning.".to_owned(),
        };
    }
    let Some(id) = id else {
        return "A real special token.".to_owned();
    };
    let what = match (side, kind_of_marker(id), forged.name.as_str()) {
        (Side::A, Some(kind), _) => {
            let switch = match kind.owner() {
                Owner::Model => "on",
                Owner::Runtime => "off",
            };
            return format!(
                "Token {id}, the marker of {}: a frame of the {} begins and training is switched {switch}.",
                kind.name(),
                owner(kind)
            );
        }
        (Side::B, _, "<|eot_id|>") => "the turn ends here, and so does what is trained of it",
        (Side::B, _, "<|start_header_id|>" | "<|end_header_id|>") => {
            "part of a header, which can open a turn of any role; the mask believes it"
        }
        (Side::B, _, "<|eom_id|>") => {
            "the message ends where a model runs; the mask does not know it"
        }
        (Side::B, _, "<|python_tag|>") => "in a model's reply a tool call would begin here",
        _ => "a control token amid content; the mask goes on as before",
    };
    format!("Token {id}: {what}.")
}

fn here(doc: &SideDoc, forged: &Forged) -> String {
    let tokens = doc.tokens();
    if tokens.is_empty() {
        return "Text.".to_owned();
    }
    let overlapping = tokens
        .iter()
        .filter(|token| token.start < forged.range.end && token.end > forged.range.start)
        .count();
    format!(
        "Text: {}, none special.",
        words::count(overlapping, "token")
    )
}
