//! What the editor holds beside the trajectory, and what it does to it.

use crate::dom;
use crate::pointing::focus_card;
use crate::state::{Page, Pane};
use formats::{Frame, FrameKind, Payload};
use leptos::prelude::*;
use web_sys::Element;

/// A menu of the editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    /// The kinds, for a new frame at a place.
    Add(usize),
    /// The kinds, for a frame that is to be of another.
    Kind(usize),
    /// What can be done with a frame.
    Frame(usize),
    /// The forms to export.
    Export,
}

/// A frame that is being dragged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drag {
    /// The frame.
    pub frame: usize,
    /// It would come to stand before the frame that is here now.
    pub gap: usize,
    /// Where the line is drawn, from the top of the list.
    pub line: f64,
}

/// The editor's own state.
#[derive(Clone, Copy)]
pub struct Desk {
    /// The open menu, and the box it belongs to: left, top, right, bottom.
    pub menu: RwSignal<Option<(Menu, [f64; 4])>>,
    /// The frame that is being dragged.
    pub drag: RwSignal<Option<Drag>>,
    /// Whether the dialog that imports is open.
    pub importing: RwSignal<bool>,
}

impl Desk {
    /// Nothing is open.
    pub fn new() -> Self {
        Self {
            menu: RwSignal::new(None),
            drag: RwSignal::new(None),
            importing: RwSignal::new(false),
        }
    }

    /// Opens a menu at an element.
    pub fn open(self, menu: Menu, at: &Element) {
        let place = at.get_bounding_client_rect();
        let place = [place.left(), place.top(), place.right(), place.bottom()];
        self.menu.set(Some((menu, place)));
    }
}

/// The editor's state from anywhere within it.
pub fn desk() -> Desk {
    expect_context()
}

/// The kind of a frame.
pub fn kind_of(page: Page, at: usize) -> Option<FrameKind> {
    page.trajectory
        .with_untracked(|trajectory| trajectory.frames.get(at).map(|frame| frame.kind))
}

/// Adds a frame and opens it.
pub fn add(page: Page, at: usize, kind: FrameKind) {
    let at = at.min(page.trajectory.with_untracked(|t| t.frames.len()));
    page.change(
        format!("added {} as frame {at}", kind.name()),
        |trajectory| {
            let content = trajectory.blank(at, kind);
            trajectory.frames.insert(at, Frame { kind, content });
        },
    );
    page.spoken
        .set(format!("Added {} as frame {at}", kind.name()));
    page.pin.set(Some(at));
    if page.pane.get_untracked() != Pane::Edit && dom::is_narrow() {
        page.pane.set(Pane::Edit);
    }
    if kind.payload() == Payload::None {
        reveal_card(at);
        focus_card(at);
    } else {
        page.editing.set(Some(at));
        reveal_card(at);
    }
}

/// Deletes a frame; the one that follows takes the focus.
pub fn delete(page: Page, at: usize) {
    let Some(kind) = kind_of(page, at) else {
        return;
    };
    let what = format!("deleted frame {at}, {}", kind.name());
    page.change(what.clone(), |trajectory| {
        trajectory.frames.remove(at);
    });
    page.spoken.set(format!("{what}. Ctrl Z brings it back."));
    let left = page.trajectory.with_untracked(|t| t.frames.len());
    if left > 0 {
        focus_card(at.min(left - 1));
    } else {
        request_animation_frame(|| {
            if let Some(button) = dom::find("[data-testid=add-frame]") {
                dom::focus(&button);
            }
        });
    }
}

/// Puts a copy of a frame behind it.
pub fn duplicate(page: Page, at: usize) {
    let Some(kind) = kind_of(page, at) else {
        return;
    };
    let what = format!("duplicated frame {at}, {}", kind.name());
    page.change(what.clone(), |trajectory| {
        let frame = trajectory.frames[at].clone();
        trajectory.frames.insert(at + 1, frame);
    });
    page.spoken.set(what);
    page.pin.set(Some(at + 1));
    focus_card(at + 1);
}

/// Makes a frame one of another kind.
pub fn change_kind(page: Page, at: usize, kind: FrameKind) {
    let Some(before) = kind_of(page, at) else {
        return;
    };
    if before != kind {
        let what = format!("made frame {at} {}", kind.name());
        // Its text was meant for the other kind; undo brings it back.
        page.change(what.clone(), |trajectory| {
            let content = trajectory.recast(at, kind);
            trajectory.frames[at] = Frame { kind, content };
        });
        page.spoken.set(what);
    }
    focus_card(at);
}

/// Moves a frame, and the focus with it.
pub fn move_to(page: Page, from: usize, to: usize) {
    let count = page.trajectory.with_untracked(|t| t.frames.len());
    let Some(kind) = kind_of(page, from).filter(|_| to < count) else {
        return;
    };
    if from == to {
        return;
    }
    page.move_frame(from, to);
    page.spoken.set(format!(
        "Moved {} to place {} of {count}",
        kind.name(),
        to + 1
    ));
    reveal_card(to);
    focus_card(to);
}

/// Brings a card into view.
pub fn reveal_card(at: usize) {
    request_animation_frame(move || {
        if let Some(card) = dom::find(&format!(".editor-list .fc[data-frame=\"{at}\"]")) {
            dom::reveal(&card);
        }
    });
}
