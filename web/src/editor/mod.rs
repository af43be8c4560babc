//! The trajectory as cards, one per frame: content is edited in place, frames are added, moved, copied
//! and deleted, and what is wrong is said at the frame where it is.

mod card;
mod desk;
mod draft;
mod drag;
mod faults;
mod menu;

pub use desk::desk;
pub use faults::says;

use crate::dom;
use crate::exchange::{DropAnywhere, Import, Intake};
use crate::icons;
use crate::pointing::focus_card;
use crate::state::{Page, Room, page};
use crate::words;
use card::Card;
use desk::{Desk, Menu};
use drag::Dragging;
use faults::Foot;
use leptos::ev::{KeyboardEvent, MouseEvent};
use leptos::prelude::*;
use menu::Menus;

/// The left pane.
#[component]
pub fn Editor() -> impl IntoView {
    let page = page();
    let desk = Desk::new();
    provide_context(desk);
    provide_context(Intake::new());
    let dragging = Dragging::new(page, desk);
    let frames = Memo::new(move |_| page.trajectory.read().frames.len());
    let count = move || words::count(frames.get(), "frame");
    let keys = move || {
        let trajectory = page.trajectory.read();
        let kinds = trajectory.frames.iter().map(|frame| frame.kind);
        kinds.enumerate().collect::<Vec<_>>()
    };
    let listener = window_event_listener(leptos::ev::keydown, move |event| {
        if event.key() == "Escape" {
            dragging.cancel();
        }
        back_and_forth(page, &event);
    });
    on_cleanup(move || listener.remove());
    let add = move |event: MouseEvent| {
        if let Some(button) =
            dom::element(event.target()).and_then(|at| dom::closest(&at, "button"))
        {
            let at = match page.pin.get_untracked() {
                Some(pin) => pin + 1,
                None => frames.get_untracked(),
            };
            desk.open(Menu::Add(at.min(frames.get_untracked())), &button);
        }
    };
    let at_end = move |event: MouseEvent| {
        if let Some(button) =
            dom::element(event.target()).and_then(|at| dom::closest(&at, "button"))
        {
            desk.open(Menu::Add(frames.get_untracked()), &button);
        }
    };
    let swallow = move |event: MouseEvent| {
        if dragging.swallows_click() {
            event.stop_propagation();
        }
    };
    let line = move || {
        let drag = (*desk.drag.read())?;
        let top = format!("{}px", drag.line);
        Some(view! { <div class="drop-line" style:top=top></div> })
    };
    view! {
        <section class="pane l" aria-label="Trajectory">
            <div class="bar head"><h2>"Trajectory"</h2><span class="muted">{count}</span>
                <span class="only-narrow"><UndoRedo/></span>
                <button class="btn quiet right" data-testid="import" on:click=move |_| desk.importing.set(true)>"Import"</button>
                <button class="btn" data-testid="add-frame" aria-haspopup="menu" title="Add a frame behind the pinned one, else at the end" on:click=add>"Add frame"</button>
            </div>
            <div class="editor-list" class:dragging=move || desk.drag.read().is_some() on:click=swallow on:keydown=move |event| card_keys(page, desk, &event)
                on:pointerdown=move |event| dragging.down(&event) on:pointermove=move |event| dragging.moved(&event)
                on:pointerup=move |_| dragging.up() on:pointercancel=move |_| dragging.cancel()>
                <For each=keys key=|key| *key children=|(at, kind)| view! { <Card at kind/> }/>
                <button class="add-end" data-testid="add-end" aria-haspopup="menu" on:click=at_end>"+ Add frame"</button>
                {line}
            </div>
            <Foot/>
        </section>
        <Menus/>
        <Import/>
        <DropAnywhere/>
    }
}

/// The two buttons that go back and forth.
#[component]
pub fn UndoRedo() -> impl IntoView {
    let page = page();
    let named = |word: &str, what: Option<String>| match what {
        Some(what) => format!("{word}: {what}"),
        None => word.to_owned(),
    };
    let undo = move || named("Undo", page.history.undoable());
    let redo = move || named("Redo", page.history.redoable());
    view! {
        <button class="btn quiet undo" data-testid="undo" aria-label=undo title=move || format!("{} (Ctrl Z)", undo()) disabled=move || page.history.undoable().is_none() on:click=move |_| page.undo()>{icons::undo()}</button>
        <button class="btn quiet undo" data-testid="redo" aria-label=redo title=move || format!("{} (Ctrl Shift Z)", redo()) disabled=move || page.history.redoable().is_none() on:click=move |_| page.redo()>{icons::redo()}</button>
    }
}

/// Ctrl Z and its like. A text field keeps its own undo.
fn back_and_forth(page: Page, event: &KeyboardEvent) {
    let with = (event.ctrl_key() || event.meta_key()) && !event.alt_key();
    let in_text = dom::element(event.target()).is_some_and(|at| dom::takes_text(&at));
    if !with
        || in_text
        || event.default_prevented()
        || page.room.get_untracked() != Room::Compare
        || dom::find("dialog[open]").is_some()
    {
        return;
    }
    match (event.key().to_lowercase().as_str(), event.shift_key()) {
        ("z", false) => page.undo(),
        ("z", true) | ("y", false) => page.redo(),
        _ => return,
    }
    event.prevent_default();
}

/// Keys on a card that change the trajectory.
fn card_keys(page: Page, desk: Desk, event: &KeyboardEvent) {
    let Some(target) = dom::element(event.target()).filter(|at| !dom::takes_text(at)) else {
        return;
    };
    let Some(card) = dom::closest(&target, ".fc") else {
        return;
    };
    let Some(at) = dom::number(&card, "data-frame") else {
        return;
    };
    let plain = !event.ctrl_key() && !event.meta_key() && !event.alt_key();
    let on_card = target.is_same_node(Some(&card));
    match event.key().as_str() {
        "ArrowUp" if event.alt_key() => {
            if at > 0 {
                desk::move_to(page, at, at - 1);
            } else {
                focus_card(at);
            }
        }
        "ArrowDown" if event.alt_key() => desk::move_to(page, at, at + 1),
        "Delete" | "Backspace" if plain && on_card => desk::delete(page, at),
        "a" | "A" if plain && on_card => desk.open(Menu::Add(at + 1), &card),
        "d" | "D" if plain && on_card => desk::duplicate(page, at),
        "k" | "K" if plain && on_card => desk.open(Menu::Kind(at), &card),
        _ => return,
    }
    event.prevent_default();
    event.stop_propagation();
}
