//! What the page's address says after its hash sign.

use crate::dom;
use crate::lessons::Place;
use crate::state::{Page, Room};
use leptos::prelude::*;

/// Which room an address names.
fn room_of(hash: &str) -> Room {
    match hash.trim_start_matches('#') {
        "models" => Room::Models,
        hash if Place::read(hash).is_some() => Room::Lessons,
        _ => Room::Compare,
    }
}

/// Keeps the room and the address's hash the same.
pub fn follow(page: Page) {
    let hash = || window().location().hash().unwrap_or_default();
    let go = move || {
        page.lessons.go(&hash());
        page.room.set(room_of(&hash()));
    };
    go();
    let changes = window_event_listener(leptos::ev::hashchange, move |_| {
        go();
        // What was in focus is gone with its room.
        request_animation_frame(|| {
            if let Some(here) = dom::find("nav [aria-current=page]") {
                dom::focus(&here);
            }
        });
    });
    on_cleanup(move || changes.remove());
    Effect::new(move |_| {
        document().set_title(match page.room.get() {
            Room::Compare => "AgenticML Playground",
            Room::Models => "Models · AgenticML Playground",
            Room::Lessons => "Lessons · AgenticML Playground",
        });
    });
}
