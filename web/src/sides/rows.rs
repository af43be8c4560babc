//! The rows of the facing pages, each side of a row in the view its side shows.

use crate::document::{Document, Side, SideDoc, Tone, class};
use crate::icons;
use crate::rows;
use crate::sides::chip::chip;
use crate::sides::{units, wire};
use crate::state::{Link, Shared, View, page};
use formats::FrameKind;
use leptos::html::Div;
use leptos::prelude::*;
use std::ops::Range;

/// A longer row is folded, and shows so many tokens at first.
const FOLD: usize = 400;

/// Both sides, row by row.
#[component]
pub fn Both() -> impl IntoView {
    let page = page();
    let turns = NodeRef::<Div>::new();
    view! {
        <div class="rows" tabindex="0" role="region" aria-label="Both wires, turn by turn">
            {crate::wires::wires(turns)}
            <div node_ref=turns><For each=move || keys(page) key=|key| *key children=|(at, _)| view! { <Turn at sides=&Side::BOTH/> }/></div>
        </div>
    }
}

/// One side alone, beside a live one.
#[component]
pub fn Single(side: Side) -> impl IntoView {
    let page = page();
    view! {
        <div class="rows solo" tabindex="0" role="region" aria-label=format!("{} wire, turn by turn", side.title())>
            <For each=move || keys(page) key=|key| *key
                children=move |(at, _)| view! { <Turn at sides=match side { Side::A => &[Side::A], Side::B => &[Side::B] }/> }/>
        </div>
    }
}

/// Rows by place and content: what did not change is not built again.
fn keys(page: crate::state::Page) -> Vec<(usize, u64)> {
    page.document
        .read()
        .rows
        .iter()
        .enumerate()
        .map(|(at, row)| (at, row.hash))
        .collect()
}

#[component]
fn Turn(at: usize, sides: &'static [Side]) -> impl IntoView {
    let page = page();
    let document = page.document.get_untracked();
    let row = &document.rows[at];
    let [a, b] = &row.tokens;
    let (a, b) = (a.len(), b.len());
    let kinds = row
        .frames
        .clone()
        .map(|frame| document.trajectory.frames[frame].kind.name())
        .collect::<Vec<_>>()
        .join(" + ");
    let role = row
        .message
        .and_then(|message| document.conversation.messages.get(message))
        .map_or("", |message| message.role())
        .to_owned();
    let summary = if role.is_empty() {
        kinds
    } else {
        format!("{kinds} ⇄ {role}")
    };
    let spine = view! {
        <div class="mul"><b>{at + 1}</b><span class="only-narrow">{summary}</span>
            <span class="only-narrow right mono">{format!("{a} · {b}")}</span></div>
    };
    let mut cells = sides
        .iter()
        .map(|&side| view! { <Cell at side document=document.clone()/> }.into_any());
    let first = cells.next();
    let second = cells.next();
    let facing = second.is_some();
    view! { <div class="turn" class:facing=facing data-turn=at>{first}{spine}{second}</div> }
}

#[component]
fn Cell(at: usize, side: Side, document: Shared<Document>) -> impl IntoView {
    let page = page();
    let view = page.view(side);
    let mask = page.mask[side.index()];
    let ids = page.ids[side.index()];
    let open = RwSignal::new(false);
    let body = move || {
        let row = &document.rows[at];
        let doc = document.side(side);
        if let Some(error) = &doc.error {
            // Said once, in the first row.
            return (at == 0)
                .then(|| view! { <div class="cell-note"><p class="note bad" role="alert"><b>{side.title()}" cannot write this trajectory."</b>" "{error.clone()}</p></div> })
                .into_any();
        }
        let segments = row.segments[side.index()].clone();
        match view.get() {
            View::Units if side == Side::A => {
                view! { <span></span><div class="units">{units::frames(&document, row.frames.clone())}</div> }.into_any()
            }
            View::Units => {
                let message = row.message.map(|message| units::message(&document, message));
                view! { <span></span><div class="units">{message}</div> }.into_any()
            }
            View::Tokens if doc.view.is_some() => {
                let tokens = row.tokens[side.index()].clone();
                let folded = tokens.len() > FOLD && !open.get();
                let shown = if folded { tokens.start..tokens.start + FOLD / 2 } else { tokens.clone() };
                let strips = match side {
                    Side::A => strips_by_frame(doc, shown, tokens.start),
                    Side::B => strip_of_message(&document, doc, row.message, shown, tokens.start),
                };
                let more = folded.then(|| view! {
                    <span></span><p><button class="btn" on:click=move |_| open.set(true)>"Show all "{tokens.len()}" tokens of this turn"</button></p>
                });
                view! { {strips}{more} }.into_any()
            }
            // Until the tokenizer is there, tokens are shown as the text they will come from.
            View::Wire | View::Tokens | View::Live => {
                let gutter = match side {
                    Side::A => row.frames.clone().next().map(|frame| gutter(document.trajectory.frames[frame].kind, frame)).into_any(),
                    Side::B => role(&document, row.message),
                };
                view! { {gutter}<div class="wire" dir="ltr">{wire::wire(&document, side, segments)}</div> }.into_any()
            }
        }
    };
    view! {
        <div class="cell" class:mask=move || mask.get() class:noids=move || !ids.get() data-side=side.key() data-plate=side.plate()>{body}</div>
    }
}

/// What stands left of a strip: the frame's glyph and number.
fn gutter(kind: FrameKind, frame: usize) -> AnyView {
    view! {
        <div class=format!("gut {}", class(kind)) data-frame=frame><span class="ab" data-plate="A">{icons::glyph(kind)}</span><span class="n">{frame}</span></div>
    }
    .into_any()
}

/// The role of a message, upright beside its strip.
fn role(document: &Document, message: Option<usize>) -> AnyView {
    let page = page();
    let name = message
        .and_then(|message| document.conversation.messages.get(message))
        .map_or("", |message| message.role())
        .to_owned();
    let tone = move || match page.link.get() {
        Some(Link::Frame(frame)) => page
            .document
            .read()
            .trajectory
            .frames
            .get(frame)
            .map_or("k-turn", |frame| class(frame.kind)),
        _ => "k-turn",
    };
    let linked = move || message.is_some() && page.linked_message.get() == message;
    view! { <span class=move || format!("role {}", tone()) class:lk=linked data-message=message data-plate="B">{name}</span> }.into_any()
}

/// Side A: one strip per frame; an `end` stays with the frame it ends.
fn strips_by_frame(doc: &SideDoc, shown: Range<usize>, first: usize) -> AnyView {
    let mut strips: Vec<(Option<usize>, FrameKind, Range<usize>)> = Vec::new();
    for at in shown {
        let token = &doc.tokens()[at];
        let kind = token.frame_kind.unwrap_or(FrameKind::Obs);
        match strips.last_mut() {
            Some((frame, _, range)) if *frame == token.frame || kind == FrameKind::End => {
                range.end = at + 1;
            }
            _ => strips.push((token.frame, kind, at..at + 1)),
        }
    }
    strips
        .into_iter()
        .map(|(frame, kind, range)| {
            let label = format!("Tokens of frame {}, {}", frame.unwrap_or(0), kind.name());
            view! {
                {frame.map(|frame| gutter(kind, frame))}
                {strip(doc, range, first, label)}
            }
        })
        .collect_view()
        .into_any()
}

/// Side B: one strip for the message.
fn strip_of_message(
    document: &Document,
    doc: &SideDoc,
    message: Option<usize>,
    shown: Range<usize>,
    first: usize,
) -> AnyView {
    let label = message.map_or("Tokens".to_owned(), |message| {
        let role = document
            .conversation
            .messages
            .get(message)
            .map_or("", |m| m.role());
        format!("Tokens of message {message}, {role}")
    });
    view! { {role(document, message)}{strip(doc, shown, first, label)} }.into_any()
}

/// Chips in spans that light up together.
fn strip(doc: &SideDoc, shown: Range<usize>, first: usize, label: String) -> AnyView {
    let page = page();
    let tokens = doc.tokens();
    let spans = rows::runs(
        tokens[shown.clone()]
            .iter()
            .map(|token| (token.frame, token.message, Tone::of_token(token), token.forged)),
        shown.start,
    )
    .into_iter()
    .map(|((frame, message, tone, forged), range)| {
        let linked = move || page.is_linked(frame);
        let beside = move || {
            message.is_some()
                && page.linked_message.get() == message
                && page.link.get() != frame.map(Link::Frame)
        };
        let chips = range
            .map(|at| chip(&tokens[at], at - first, frame.is_some() && message.is_none()))
            .collect_view();
        let title = forged.then_some("Content that spells a special token. It is encoded as plain text.");
        view! {
            <span class=format!("sp {}", tone.class()) class:forged=forged class:lk=linked class:ms=beside role="group"
                title=title data-frame=frame data-message=message>{chips}</span>
        }
    })
    .collect_view();
    view! { <div class="strip" role="listbox" aria-label=label aria-orientation="horizontal" dir="ltr">{spans}</div> }
        .into_any()
}
