//! The units a side is made of: frames on side A, messages on side B.

use crate::document::{Document, class, content_text};
use crate::highlight::{self, Class};
use crate::icons;
use crate::pieces;
use crate::state::{Link, page};
use crate::words;
use formats::{Payload, json};
use leptos::prelude::*;
use std::ops::Range;

/// JSON text with keys and strings told apart.
pub fn json_text(text: &str) -> AnyView {
    highlight::classes(text)
        .into_iter()
        .map(|(class, part)| {
            let part = part.to_owned();
            match class {
                Class::Key => view! { <span class="key">{part}</span> }.into_any(),
                Class::Text => view! { <span class="str">{part}</span> }.into_any(),
                Class::Rest => part.into_any(),
            }
        })
        .collect_view()
        .into_any()
}

/// A text that may be long: its beginning, and a control for the rest.
pub fn parted(text: String, show: fn(&str) -> AnyView) -> (AnyView, Option<AnyView>) {
    let Some(fold) = pieces::fold(&text) else {
        return (show(&text), None);
    };
    let open = RwSignal::new(false);
    let hidden = if fold.lines > 1 {
        words::count(fold.lines, "line")
    } else {
        words::count(text.chars().count(), "character")
    };
    let body = move || show(if open.get() { &text } else { &text[..fold.end] });
    let title = move || {
        if open.get() {
            "Show the beginning only".to_owned()
        } else {
            format!("Show all {hidden}")
        }
    };
    let control = view! {
        <button class="btn more" data-testid="show-all" aria-expanded=move || open.get().to_string()
            on:click=move |_| open.update(|open| *open = !*open)>{title}</button>
    };
    (body.into_any(), Some(control.into_any()))
}

/// Both in one.
pub fn folded(text: String, show: fn(&str) -> AnyView) -> AnyView {
    let (body, control) = parted(text, show);
    view! { {body}{control} }.into_any()
}

/// Text as it is.
pub fn plain(text: &str) -> AnyView {
    text.to_owned().into_any()
}

/// Frames as a reader sees them.
pub fn frames(document: &Document, frames: Range<usize>) -> AnyView {
    let page = page();
    frames
        .map(|at| {
            let frame = &document.trajectory.frames[at];
            let text = content_text(frame);
            let body = if frame.kind.payload() == Payload::Json {
                view! { <p class="bd js">{folded(text, json_text)}</p> }.into_any()
            } else {
                view! { <p class="bd">{folded(text, plain)}</p> }.into_any()
            };
            view! {
                <div class=format!("unit {}", class(frame.kind)) class:m=frame.kind.owner() == formats::Owner::Model
                    class:lk=move || page.is_linked(Some(at)) data-frame=at>
                    <span class="hd">{icons::kind_name(frame.kind)}<span class="muted">{frame.kind.owner().name()}</span></span>
                    {body}
                </div>
            }
        })
        .collect_view()
        .into_any()
}

/// A message as the bridge wrote it, its parts linked to the frames they come from.
pub fn message(document: &Document, at: usize) -> AnyView {
    let page = page();
    let (Some(message), Some(origin)) = (
        document.conversation.messages.get(at),
        document.conversation.origins.get(at),
    ) else {
        return ().into_any();
    };
    let text = message.text();
    let mut shown = Vec::new();
    let mut done = 0;
    for span in &origin.content {
        let (Some(before), Some(inside)) = (
            text.get(done..span.range.start),
            text.get(span.range.clone()),
        ) else {
            break;
        };
        shown.push(folded(before.to_owned(), plain));
        shown.push(part(
            page,
            span.frame,
            span.kind,
            folded(inside.to_owned(), plain),
        ));
        done = span.range.end;
    }
    let rest = text.get(done..).unwrap_or_default();
    shown.push(folded(rest.to_owned(), plain));
    let other = match message.content() {
        Some(json::Value::String(_)) | None => ().into_any(),
        Some(value) => {
            view! { <p class="bd js">{folded(json::dumps(value), json_text)}</p> }.into_any()
        }
    };
    let calls = message
        .tool_calls()
        .into_iter()
        .map(|call| {
            let id = call.id.map(|id| format!("call {id}"));
            let name = call.name.map(formats::python::str);
            let arguments = call.arguments.map(formats::python::str).unwrap_or_default();
            let body = view! { <b>{name}</b>"("{folded(arguments, json_text)}")" }.into_any();
            let body = match origin.call {
                Some(frame) => part(page, frame, formats::FrameKind::Action, body),
                None => body,
            };
            view! { <p class="bd js">{body}<span class="muted">" "{id}</span></p> }
        })
        .collect_view();
    let answers = message
        .tool_call_id()
        .map(|id| view! { <span class="muted">"answers "{id.to_owned()}</span> });
    view! {
        <div class="unit k-turn" class:ms=move || page.linked_message.get() == Some(at) data-message=at>
            <span class="hd"><b>{message.role().to_owned()}</b>{answers}</span>
            {(!text.is_empty()).then(|| view! { <p class="bd">{shown}</p> })}
            {other}{calls}
        </div>
    }
    .into_any()
}

fn part(
    page: crate::state::Page,
    frame: usize,
    kind: formats::FrameKind,
    body: AnyView,
) -> AnyView {
    view! {
        <span class=format!("upart {}", class(kind)) class:lk=move || page.link.get() == Some(Link::Frame(frame))
            data-frame=frame>{body}</span>
    }
    .into_any()
}
