//! The wire as text.

use crate::document::{Document, Side, Tone, is_special};
use crate::sides::chip::parts;
use crate::sides::units::parted;
use crate::state::{Link, page};
use formats::Segment;
use leptos::prelude::*;
use std::ops::Range;

/// Part of a side's wire.
pub fn wire(document: &Document, side: Side, segments: Range<usize>) -> AnyView {
    let page = page();
    let doc = document.side(side);
    let readable = page.readable.get();
    let shown = if readable {
        doc.readable()
    } else {
        &doc.rendering
    };
    shown
        .segments
        .get(segments)
        .unwrap_or_default()
        .iter()
        .map(span)
        .collect_view()
        .into_any()
}

fn span(segment: &Segment) -> AnyView {
    let page = page();
    let frame = segment.frame;
    let message = segment.message;
    let mut classes = format!("ws-sp {}", Tone::of_segment(segment).class());
    for (wanted, class) in [
        (is_special(segment), " sx"),
        (segment.trained, " t"),
        (segment.given, " gv"),
        (Tone::of_segment(segment) == Tone::Template, " b"),
    ] {
        if wanted {
            classes.push_str(class);
        }
    }
    let linked = move || page.is_linked(frame);
    let beside = move || {
        message.is_some()
            && page.linked_message.get() == message
            && page.link.get() != frame.map(Link::Frame)
    };
    let (text, rest) = parted(segment.text.clone(), lines);
    view! {
        <span class=classes class:lk=linked class:ms=beside data-frame=frame data-message=message>{text}</span>{rest}
    }
    .into_any()
}

/// A line break is shown and also breaks the line.
fn lines(text: &str) -> AnyView {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => view! { {wire_parts(line)}<span class="ws">"↵"</span>"\n" }.into_any(),
            None => wire_parts(line).into_any(),
        })
        .collect_view()
        .into_any()
}

/// Spaces inside a line stay spaces, so that the text can be copied; only what would not be seen at
/// all is marked.
fn wire_parts(line: &str) -> Vec<AnyView> {
    let mut views = Vec::new();
    for (at, word) in line.split(' ').enumerate() {
        if at > 0 {
            views.push(" ".into_any());
        }
        if !word.is_empty() {
            views.extend(parts(word));
        }
    }
    views
}
