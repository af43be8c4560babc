//! The excerpt: the wire of what is lit up, on one line, with its place.

use crate::document::{Document, Side, class, is_special};
use crate::pieces;
use crate::state::{Link, page};
use leptos::prelude::*;

/// Characters shown of a long frame.
const LIMIT: usize = 240;

/// A side's excerpt. It keeps its place when there is nothing to show.
#[component]
pub fn Excerpt(side: Side) -> impl IntoView {
    let page = page();
    move || {
        let document = page.document.get();
        match page.link.get() {
            Some(Link::Frame(frame)) => of_frame(&document, side, frame),
            Some(Link::Message(message)) => of_message(&document, side, message),
            None => nothing("Point at a frame, a token or a message to see it on both sides."),
        }
    }
}

fn nothing(text: &'static str) -> AnyView {
    view! { <div class="excerpt"><span class="lab">{text}</span></div> }.into_any()
}

/// `chars a–b, tokens c–d, n of m`.
fn place(document: &Document, side: Side, frame: usize) -> String {
    let doc = document.side(side);
    let mut place = String::new();
    let ranges = doc.rendering.frame_ranges(frame);
    if let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
        let wire = doc.rendering.text();
        place = format!(
            "chars {}–{}",
            pieces::chars_before(&wire, first.start),
            pieces::chars_before(&wire, last.end)
        );
    }
    let tokens = doc.frame_tokens(frame);
    if let (Some(first), Some(last)) = (tokens.first(), tokens.last()) {
        let count: usize = tokens.iter().map(|range| range.len()).sum();
        place.push_str(&format!(
            ", tokens {}–{}, {count} of {}",
            first.start,
            last.end - 1,
            doc.tokens().len()
        ));
    }
    place
}

fn of_frame(document: &Document, side: Side, frame: usize) -> AnyView {
    let Some(kind) = document.trajectory.frames.get(frame).map(|f| f.kind) else {
        return nothing("");
    };
    let doc = document.side(side);
    let lead = match (side, document.message_of_frame(frame)) {
        (Side::A, _) => ", its wire: ".to_owned(),
        (Side::B, Some(message)) => format!(" in message {message}: "),
        (Side::B, None) => String::new(),
    };
    let mut left = LIMIT;
    let mut shown = Vec::new();
    let segments = &doc.readable().segments;
    for (at, segment) in segments.iter().enumerate() {
        if segment.frame == Some(frame) && left > 0 {
            let text = pieces::one_line(&segment.text, left);
            left = left.saturating_sub(text.chars().count());
            let special = is_special(segment);
            shown.push(view! { <mark class:sx=special>{text}</mark> }.into_any());
            let next = segments.get(at + 1);
            if let Some(next) = next.filter(|next| next.frame != Some(frame)) {
                let text = pieces::one_line(&next.text, 24);
                shown.push(view! { <span class="muted">{text}</span> }.into_any());
            }
        }
    }
    let where_to = if shown.is_empty() {
        " is not on this wire".to_owned()
    } else {
        format!("{lead}{}", place(document, side, frame))
    };
    view! {
        <div class=format!("excerpt {}", class(kind))>
            <span class="lab"><b>"Frame "{frame}</b>{where_to}</span>
            <span dir="ltr">{shown}</span>
        </div>
    }
    .into_any()
}

fn of_message(document: &Document, side: Side, message: usize) -> AnyView {
    let role = document
        .conversation
        .messages
        .get(message)
        .map_or(String::new(), |m| m.role().to_owned());
    if side == Side::A {
        let frames = document
            .conversation
            .origins
            .get(message)
            .map(|origin| origin.frames())
            .unwrap_or_default();
        let list = frames
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        return view! {
            <div class="excerpt k-turn"><span class="lab">"Message "{message}" is written by "<b>{if frames.len() == 1 { "frame " } else { "frames " }}{list}</b></span></div>
        }
        .into_any();
    }
    let doc = document.side(side);
    let count = doc
        .tokens()
        .iter()
        .filter(|token| token.message == Some(message))
        .count();
    let text: String = doc
        .rendering
        .segments
        .iter()
        .filter(|segment| segment.message == Some(message))
        .map(|segment| segment.text.as_str())
        .collect();
    view! {
        <div class="excerpt k-turn">
            <span class="lab"><b>"Message "{message}</b>", "{role}": "{count}" of "{doc.tokens().len()}" tokens"</span>
            <span dir="ltr">{pieces::one_line(&text, LIMIT)}</span>
        </div>
    }
    .into_any()
}
