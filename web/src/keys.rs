//! What keys do anywhere on the page.

use crate::document::{Document, Side};
use crate::dom;
use crate::pointing::{chip_of, pin, spot_of};
use crate::state::{Link, Page, Room, Spot, View};
use leptos::ev::KeyboardEvent;
use leptos::prelude::*;
use web_sys::Element;

/// Selects the token `by` places away on the same side.
pub fn step(page: Page, by: isize) {
    let document = page.document.get_untracked();
    let spot = page.spot.get_untracked();
    let side = spot.map_or(Side::A, |spot| spot.side);
    let next = match spot.and_then(|spot| spot.index(&document)) {
        Some(index) => index.checked_add_signed(by),
        None => Some(0),
    };
    if let Some(spot) = next.and_then(|next| Spot::of_token(&document, side, next)) {
        go(page, spot);
    }
}

/// Selects a token and gives its chip the focus, wherever in the rows it is.
fn go(page: Page, spot: Spot) {
    page.leave();
    page.spot.set(Some(spot));
    page.sides.windows.open(spot);
    request_animation_frame(move || {
        if let Some(chip) = chip_of(spot) {
            dom::reveal(&chip);
            dom::focus(&chip);
        }
    });
}

/// The first token of the frame after (or before) the one at `index`.
fn next_frame(document: &Document, side: Side, index: usize, forward: bool) -> Option<usize> {
    let tokens = document.side(side).tokens();
    let here = tokens.get(index)?.frame;
    if forward {
        return (index..tokens.len())
            .find(|&at| tokens[at].frame != here && tokens[at].frame.is_some());
    }
    let before = (0..index)
        .rev()
        .find(|&at| tokens[at].frame != here && tokens[at].frame.is_some())?;
    let frame = tokens[before].frame;
    (0..=before)
        .rev()
        .take_while(|&at| tokens[at].frame == frame)
        .last()
}

/// First or last token of the frame at `index`.
fn frame_end(document: &Document, side: Side, index: usize, last: bool) -> Option<usize> {
    let tokens = document.side(side).tokens();
    let here = tokens.get(index)?.frame;
    let same = |at: &usize| tokens[*at].frame == here;
    if last {
        (index..tokens.len()).take_while(same).last()
    } else {
        (0..=index).rev().take_while(same).last()
    }
}

pub fn key(page: Page, event: &KeyboardEvent) {
    let element = dom::element(event.target());
    if event.default_prevented() || event.ctrl_key() || event.meta_key() || event.alt_key() {
        return;
    }
    let in_text = element.as_ref().is_some_and(dom::takes_text);
    if event.key() == "Escape" {
        return escape(page);
    }
    if in_text || page.help.get_untracked() || page.about.get_untracked() {
        return;
    }
    // People who speak to their computer, or hit keys by chance, can switch these off.
    let character = event.key().chars().count() == 1 && event.key() != " ";
    if character && !page.sides.keys.get_untracked() {
        return;
    }
    if page.room.get_untracked() == Room::Lessons && page.lessons.key(event) {
        return event.prevent_default();
    }
    if page.room.get_untracked() != Room::Compare && event.key() != "?" {
        return;
    }
    let handled = match event.key().as_str() {
        "?" => {
            page.help.set(true);
            true
        }
        "m" | "M" => toggle(page, element.as_ref(), page.mask),
        "i" | "I" => toggle(page, element.as_ref(), page.ids),
        "p" | "P" => {
            let frame = match page.link.get_untracked() {
                Some(Link::Frame(frame)) => Some(frame),
                _ => None,
            };
            let again = page.pin.get_untracked() == frame;
            page.pin.set(frame.filter(|_| !again));
            true
        }
        "x" | "X" => other_side(page),
        "r" | "R" | "g" | "G" | "h" | "H" | "b" | "B" => {
            crate::live::key(page, element.as_ref(), &event.key())
        }
        digit @ ("1" | "2" | "3" | "4") => {
            let view = View::ALL[usize::from(digit.as_bytes()[0] - b'1')];
            for side in sides_of(element.as_ref()) {
                page.show(side, view);
                keep_focus(side);
            }
            true
        }
        key => match element.as_ref() {
            Some(element) => move_focus(page, element, key),
            None => false,
        },
    };
    if handled {
        event.prevent_default();
    }
}

fn escape(page: Page) {
    if page.help.get_untracked() {
        page.help.set(false);
    } else if page.about.get_untracked() {
        page.about.set(false);
    } else if page.room.get_untracked() == Room::Lessons {
        page.lessons.escape(page);
    } else if page.models.asks() {
        // The browser closes the dialog.
    } else if page.live.load.with_untracked(Option::is_some) {
        page.live.pause();
    } else if untrack(|| page.live.is_active()) {
        page.live.halt();
    } else if page.room.get_untracked() != Room::Compare {
        page.live.dismiss();
    } else if page.drawer.get_untracked() {
        page.drawer.set(false);
    } else {
        page.pin.set(None);
        page.spot.set(None);
        page.hover.set(None);
        page.focus.set(None);
    }
}

/// A view that is left may take the focus with it; then it goes to the tab of the new one.
fn keep_focus(side: Side) {
    request_animation_frame(move || {
        let lost = document()
            .active_element()
            .is_none_or(|focus| focus.tag_name() == "BODY");
        let tab = format!(
            ".side-hd[data-side={}] [role=tab][aria-selected=true]",
            side.key()
        );
        if lost && let Some(tab) = dom::find(&tab) {
            dom::focus(&tab);
        }
    });
}

/// The side the focus is on, else both.
fn sides_of(element: Option<&Element>) -> Vec<Side> {
    element
        .and_then(|element| dom::closest(element, "[data-side]"))
        .and_then(|side| Side::from_key(&side.get_attribute("data-side")?))
        .map_or(Side::BOTH.to_vec(), |side| vec![side])
}

fn toggle(page: Page, element: Option<&Element>, switches: [RwSignal<bool>; 2]) -> bool {
    let _ = page;
    let sides = sides_of(element);
    let on = sides
        .iter()
        .any(|side| switches[side.index()].get_untracked());
    for side in sides {
        switches[side.index()].set(!on);
    }
    true
}

/// From a token to the first token of the same frame on the other side.
fn other_side(page: Page) -> bool {
    let document = page.document.get_untracked();
    let Some(spot) = page.spot.get_untracked() else {
        return false;
    };
    let Some(token) = spot.token(&document) else {
        return false;
    };
    let side = spot.side.other();
    let there = match token.frame {
        Some(frame) => document
            .side(side)
            .frame_tokens(frame)
            .first()
            .map(|range| range.start),
        None => document
            .rows
            .get(spot.row)
            .map(|row| row.tokens[side.index()].start),
    };
    if let Some(spot) = there.and_then(|at| Spot::of_token(&document, side, at)) {
        go(page, spot);
    }
    true
}

fn move_focus(page: Page, element: &Element, key: &str) -> bool {
    if let Some(spot) = spot_of(element) {
        let document = page.document.get_untracked();
        let Some(index) = spot.index(&document) else {
            return false;
        };
        let side = spot.side;
        let next = match key {
            "ArrowRight" => index.checked_add(1),
            "ArrowLeft" => index.checked_sub(1),
            "ArrowDown" => next_frame(&document, side, index, true),
            "ArrowUp" => next_frame(&document, side, index, false),
            "Home" => frame_end(&document, side, index, false),
            "End" => frame_end(&document, side, index, true),
            "Enter" => {
                if let Some(frame) = document.side(side).tokens()[index].frame {
                    pin(page, frame, "chip");
                }
                return true;
            }
            _ => return false,
        };
        if let Some(spot) = next.and_then(|next| Spot::of_token(&document, side, next)) {
            go(page, spot);
        }
        return true;
    }
    if dom::closest(element, ".livecol .tk").is_some() {
        let next = match key {
            "ArrowRight" => element.next_element_sibling(),
            "ArrowLeft" => element.previous_element_sibling(),
            _ => return false,
        };
        if let Some(next) = next {
            page.leave();
            dom::reveal(&next);
            dom::focus(&next);
        }
        return true;
    }
    if !element.class_list().contains("fc") {
        return false;
    }
    let next = match key {
        "ArrowDown" => element.next_element_sibling(),
        "ArrowUp" => element.previous_element_sibling(),
        "Home" => dom::find(".editor-list .fc"),
        "End" => dom::find_all(".editor-list .fc").pop(),
        "Enter" | "e" | "E" => {
            if let Some(frame) = dom::number(element, "data-frame") {
                page.editing.set(Some(frame));
            }
            return true;
        }
        " " => {
            if let Some(frame) = dom::number(element, "data-frame") {
                pin(page, frame, "card");
            }
            return true;
        }
        _ => return false,
    };
    if let Some(next) = next {
        page.leave();
        dom::reveal(&next);
        dom::focus(&next);
    }
    true
}
