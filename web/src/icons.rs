//! Glyphs: one per frame kind (outlined when the runtime owns it, filled when the model does), and
//! the few that controls need.

use formats::{FrameKind, Owner};
use leptos::prelude::*;

/// The path of a kind's glyph, in a field of 12 units: outlined when the runtime owns it, else filled.
pub fn path(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Goal => {
            "M6 1.4a4.6 4.6 0 1 0 0 9.2a4.6 4.6 0 1 0 0-9.2M6 5.4a.6.6 0 1 0 0 1.2a.6.6 0 1 0 0-1.2"
        }
        FrameKind::Mission => "M2.7 11.5V1.2h6.8L7.6 3.9l1.9 2.6H2.7",
        FrameKind::Obs => "M4.6 1.3H2v9.4h2.6M7.4 1.3H10v9.4H7.4",
        FrameKind::Belief => "M6 .4 11.6 6 6 11.6.4 6z",
        FrameKind::Plan => "M.8 1.2h10.4v2.4H.8zM.8 4.8h7.2v2.4H.8zM.8 8.4h4.2v2.4H.8z",
        FrameKind::Think => {
            "M1.9 4.3a1.7 1.7 0 1 0 0 3.4a1.7 1.7 0 1 0 0-3.4M6 4.3a1.7 1.7 0 1 0 0 3.4a1.7 1.7 0 1 0 0-3.4M10.1 4.3a1.7 1.7 0 1 0 0 3.4a1.7 1.7 0 1 0 0-3.4"
        }
        FrameKind::Action => "M2 .8 11.2 6 2 11.2z",
        FrameKind::End => "M1.6 1.6h8.8v8.8H1.6z",
        FrameKind::Result => "M10.5 1.5v5.3h-8M5.4 3.8l-3 3 3 3",
        FrameKind::Feedback => "M1.2 1.7h9.6v6.2H6.2L3.6 10.6V7.9H1.2z",
        FrameKind::Reward => "M6 .9l1.3 3.8L11.1 6 7.3 7.3 6 11.1 4.7 7.3.9 6l3.8-1.3z",
    }
}

/// The glyph of a frame kind.
pub fn glyph(kind: FrameKind) -> AnyView {
    let class = match kind.owner() {
        Owner::Runtime => "g o",
        Owner::Model => "g",
    };
    icon(class, path(kind))
}

/// A kind's glyph and word in its hue.
pub fn kind_name(kind: FrameKind) -> AnyView {
    view! { <span class=format!("kn {}", crate::document::class(kind))>{glyph(kind)}{kind.name()}</span> }
        .into_any()
}

/// The pin.
pub fn pin() -> AnyView {
    icon("g", "M4 1h4v4l2 2v1H6.6v3.4h-1.2V8H2V7l2-2z")
}

/// A pencil.
pub fn pencil() -> AnyView {
    icon("g o", "M1.6 10.4l.6-2.6L8.4 1.6l2 2L4.2 9.8z")
}

/// Three dots: more.
pub fn dots() -> AnyView {
    icon(
        "g",
        "M2 4.9a1.1 1.1 0 1 0 0 2.2a1.1 1.1 0 1 0 0-2.2M6 4.9a1.1 1.1 0 1 0 0 2.2a1.1 1.1 0 1 0 0-2.2M10 4.9a1.1 1.1 0 1 0 0 2.2a1.1 1.1 0 1 0 0-2.2",
    )
}

/// An arrow back.
pub fn undo() -> AnyView {
    icon(
        "g o",
        "M4.2 1.6 1.4 4.4l2.8 2.8M1.6 4.4h5.6a3.2 3.2 0 0 1 0 6.4H4.6",
    )
}

/// An arrow forth.
pub fn redo() -> AnyView {
    icon(
        "g o",
        "M7.8 1.6l2.8 2.8-2.8 2.8M10.4 4.4H4.8a3.2 3.2 0 0 0 0 6.4h2.6",
    )
}

/// A tick.
pub fn tick() -> AnyView {
    icon("g o ok heavy", "M1.5 6.5 4.6 9.6 10.5 2.5")
}

/// A cross.
pub fn cross() -> AnyView {
    icon("g o heavy", "M2 2l8 8M10 2l-8 8")
}

/// An exclamation mark.
pub fn alert() -> AnyView {
    icon("g o heavy", "M6 1.5v5.5M6 9.8v.4")
}

fn icon(class: &'static str, path: &'static str) -> AnyView {
    view! { <svg class=class viewBox="0 0 12 12" aria-hidden="true"><path d=path/></svg> }
        .into_any()
}
