//! The rows of the facing pages, each side of a row in the view its side shows.

use crate::document::{Side, class};
use crate::sides::strips::{Strips, gutter};
use crate::sides::window::{Seen, at_first, cell_height};
use crate::sides::{units, wire};
use crate::state::{Link, View, page};
use leptos::html::Div;
use leptos::prelude::*;

/// Both sides, row by row.
#[component]
pub fn Both() -> impl IntoView {
    let page = page();
    let turns = NodeRef::<Div>::new();
    let root = NodeRef::<Div>::new();
    page.sides.windows.root(root);
    view! {
        <div class="rows" class:windowed=move || page.sides.windows.active.get() node_ref=root tabindex="0" role="region" aria-label="Both wires, turn by turn">
            {crate::wires::wires(turns)}
            <div node_ref=turns><Turns sides=&Side::BOTH/></div>
        </div>
    }
}

/// One side alone, beside a live one.
#[component]
pub fn Single(side: Side) -> impl IntoView {
    let page = page();
    let root = NodeRef::<Div>::new();
    page.sides.windows.root(root);
    let sides: &'static [Side] = match side {
        Side::A => &[Side::A],
        Side::B => &[Side::B],
    };
    view! {
        <div class="rows solo" class:windowed=move || page.sides.windows.active.get() node_ref=root tabindex="0" role="region" aria-label=format!("{} wire, turn by turn", side.title())>
            <Turns sides/>
        </div>
    }
}

/// The rows by place: what changes within one is its own affair.
#[component]
fn Turns(sides: &'static [Side]) -> impl IntoView {
    let page = page();
    let count = Memo::new(move |_| page.document.read().rows.len());
    view! { <For each=move || 0..count.get() key=|at| *at children=move |at| view! { <Turn at sides/> }/> }
}

#[component]
fn Turn(at: usize, sides: &'static [Side]) -> impl IntoView {
    let page = page();
    let row = Memo::new(move |_| page.document.read().rows.get(at).map(|row| row.hash));
    let alone = sides.len() == 1;
    let place = NodeRef::<Div>::new();
    let seen = StoredValue::new([None::<Seen>; 2]);
    let now = move |side: Side, height| Seen {
        view: page.view(side).get_untracked(),
        width: untrack(|| page.sides.windows.strip_width(alone)),
        hash: row.get_untracked(),
        height,
    };
    let near = page.sides.windows.watch(
        place,
        at_first(at),
        move |spot| spot.row == at,
        move |turn| {
            for cell in crate::dom::all_in(turn, ".cell") {
                let side = cell.get_attribute("data-side");
                if let Some(side) = side.and_then(|side| Side::from_key(&side)) {
                    let height = cell.get_bounding_client_rect().height();
                    seen.update_value(|seen| seen[side.index()] = Some(now(side, height)));
                }
            }
        },
    );
    let height = move |side: Side| {
        if near.get() {
            return None;
        }
        row.track();
        let view = page.view(side).get();
        let width = page.sides.windows.strip_width(alone);
        let known = seen.get_value()[side.index()].filter(|seen| *seen == now(side, seen.height));
        let height = match known {
            Some(seen) => seen.height,
            None => cell_height(&page.document.get_untracked(), side, at, view, width),
        };
        Some(format!("{height:.1}px"))
    };
    let summary = move || {
        row.track();
        let document = page.document.read_untracked();
        let Some(row) = document.rows.get(at) else {
            return (String::new(), String::new());
        };
        let [a, b] = &row.tokens;
        let kinds = row
            .frames
            .clone()
            .map(|frame| document.trajectory.frames[frame].kind.name())
            .collect::<Vec<_>>()
            .join(" + ");
        let role = row
            .message
            .and_then(|message| document.conversation.messages.get(message))
            .map_or("", |message| message.role());
        let counts = format!("{} · {}", a.len(), b.len());
        if role.is_empty() {
            (kinds, counts)
        } else {
            (format!("{kinds} ⇄ {role}"), counts)
        }
    };
    let spine = view! {
        <div class="mul"><b>{at + 1}</b><span class="only-narrow">{move || summary().0}</span>
            <span class="only-narrow right mono">{move || summary().1}</span></div>
    };
    let mut cells = sides.iter().map(|&side| {
        view! { <Cell at side alone row near height=Signal::derive(move || height(side))/> }
            .into_any()
    });
    let first = cells.next();
    let second = cells.next();
    let facing = second.is_some();
    view! { <div class="turn" class:facing=facing node_ref=place data-turn=at>{first}{spine}{second}</div> }
}

/// What a cell has in it.
#[derive(Clone, PartialEq)]
enum Body {
    /// Nothing: it is out of view.
    Away,
    /// Why its side has no wire.
    Refused(String),
    /// Frames or messages.
    Units,
    /// Text.
    Wire,
    /// Chips.
    Tokens,
}

#[component]
fn Cell(
    at: usize,
    side: Side,
    alone: bool,
    row: Memo<Option<u64>>,
    near: Memo<bool>,
    height: Signal<Option<String>>,
) -> impl IntoView {
    let page = page();
    let mask = page.mask[side.index()];
    let ids = page.ids[side.index()];
    let body = Memo::new(move |_| {
        row.track();
        let document = page.document.read_untracked();
        let doc = document.side(side);
        match (&doc.error, page.view(side).get()) {
            (Some(error), _) => Body::Refused(error.clone()),
            _ if !near.get() => Body::Away,
            (None, View::Units) => Body::Units,
            (None, View::Tokens) if doc.view.is_some() => Body::Tokens,
            // Until the tokenizer is there, tokens are shown as the text they will come from.
            (None, View::Wire | View::Tokens | View::Live) => Body::Wire,
        }
    });
    let units = move || {
        row.track();
        let document = page.document.get_untracked();
        let row = document.rows.get(at)?;
        Some(match side {
            Side::A => units::frames(&document, row.frames.clone()),
            Side::B => units::message(&document, row.message?),
        })
    };
    let wire = move || {
        row.track();
        let document = page.document.get_untracked();
        let row = document.rows.get(at)?;
        let left = match side {
            Side::A => row
                .frames
                .clone()
                .next()
                .map(|frame| gutter(document.trajectory.frames[frame].kind, frame))
                .into_any(),
            Side::B => role(at),
        };
        let segments = row.segments[side.index()].clone();
        Some(
            view! { {left}<div class="wire" dir="ltr">{wire::wire(&document, side, segments)}</div> },
        )
    };
    let body = move || {
        match body.get() {
        Body::Away => ().into_any(),
        // Said once, in the first row.
        Body::Refused(error) => (at == 0)
            .then(|| view! { <div class="cell-note"><p class="note bad" role="alert"><b>{side.title()}" cannot write this trajectory."</b>" "{error}</p></div> })
            .into_any(),
        Body::Units => view! { <span></span><div class="units">{units}</div> }.into_any(),
        Body::Wire => wire.into_any(),
        Body::Tokens => view! { <Strips at side alone row/> }.into_any(),
    }
    };
    view! {
        <div class="cell" class:mask=move || mask.get() class:noids=move || !ids.get() style:height=height data-side=side.key() data-plate=side.plate()>{body}</div>
    }
}

/// The role of a row's message, upright beside its strip.
pub fn role(row: usize) -> AnyView {
    let page = page();
    let document = page.document.read_untracked();
    let message = document.rows.get(row).and_then(|row| row.message);
    let name = message
        .and_then(|message| document.conversation.messages.get(message))
        .map_or("", |message| message.role())
        .to_owned();
    let tone = move || match page.link.get() {
        Some(Link::Frame(frame)) => page
            .document
            .read_untracked()
            .trajectory
            .frames
            .get(frame)
            .map_or("k-turn", |frame| class(frame.kind)),
        _ => "k-turn",
    };
    let linked = move || message.is_some() && page.linked_message.get() == message;
    view! { <span class=move || format!("role {}", tone()) class:lk=linked data-message=message data-plate="B">{name}</span> }.into_any()
}
