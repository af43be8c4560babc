//! What the pointer and the focus do on the page: lighting up, pinning, selecting.

use crate::document::Side;
use crate::dom;
use crate::state::{Link, Page, Spot};
use leptos::ev::{FocusEvent, MouseEvent, PointerEvent};
use leptos::prelude::*;
use web_sys::Element;

/// The token a chip stands for.
pub fn spot_of(element: &Element) -> Option<Spot> {
    let chip = dom::closest(element, ".tk[data-i]")?;
    let turn = dom::closest(&chip, "[data-turn]")?;
    let side = dom::closest(&chip, "[data-side]")?;
    let strip = dom::closest(&chip, ".strip")?;
    Some(Spot {
        side: Side::from_key(&side.get_attribute("data-side")?)?,
        row: dom::number(&turn, "data-turn")?,
        at: dom::number(&strip, "data-from")? + dom::number(&chip, "data-i")?,
    })
}

/// The chip of a token, if it is built.
pub fn chip_of(spot: Spot) -> Option<Element> {
    let strips = format!(
        "[data-turn=\"{}\"] .cell[data-side={}] .strip[data-from]",
        spot.row,
        spot.side.key()
    );
    let (from, strip) = dom::find_all(&strips)
        .into_iter()
        .filter_map(|strip| Some((dom::number(&strip, "data-from")?, strip)))
        .take_while(|(from, _)| *from <= spot.at)
        .last()?;
    let chip = format!(".tk[data-i=\"{}\"]", spot.at - from);
    strip.query_selector(&chip).ok().flatten()
}

/// The written token a chip of the live view stands for.
fn written_of(element: &Element) -> Option<(Side, usize)> {
    let chip = dom::closest(element, ".gf .tk[data-i]")?;
    let side = dom::closest(&chip, "[data-side]")?;
    Some((
        Side::from_key(&side.get_attribute("data-side")?)?,
        dom::number(&chip, "data-i")?,
    ))
}

fn link_of(element: &Element) -> Option<Link> {
    let part = dom::closest(element, "[data-frame],[data-message]")?;
    dom::number(&part, "data-frame")
        .map(Link::Frame)
        .or_else(|| dom::number(&part, "data-message").map(Link::Message))
}

pub fn pointed(page: Page, event: &PointerEvent) {
    // A finger points where it taps, and lighting up follows from the click. A pointer at rest points
    // at nothing new when rows move under it.
    let place = (event.client_x(), event.client_y());
    if event.pointer_type() == "touch" || page.pointer.get_value() == place {
        return;
    }
    page.pointer.set_value(place);
    let Some(element) = dom::element(event.target()) else {
        return;
    };
    set_if_new(page.hover, link_of(&element));
    set_if_new(page.hover_spot, spot_of(&element));
    set_if_new(page.written, written_of(&element));
}

fn set_if_new<T: PartialEq + Send + Sync + 'static>(signal: RwSignal<T>, value: T) {
    if signal.with_untracked(|now| *now != value) {
        signal.set(value);
    }
}

pub fn focused(page: Page, event: &FocusEvent) {
    let Some(element) = dom::element(event.target()) else {
        return;
    };
    let Some(spot) = spot_of(&element) else {
        if dom::closest(&element, ".fc,.cf").is_some() {
            set_if_new(page.focus, link_of(&element));
        }
        if let Some(written) = written_of(&element) {
            set_if_new(page.written, Some(written));
        }
        return;
    };
    let document = page.document.get_untracked();
    let Some(token) = spot.token(&document) else {
        return;
    };
    let place = spot.index(&document).unwrap_or_default();
    // A chip is named when it is met, so that a page of thousands carries no thousand names.
    let name = format!(
        "{}, id {}, {}, {}, {}, token {place}",
        token.text,
        token.id,
        match token.frame_kind {
            Some(kind) => kind.name(),
            None => "structure",
        },
        token.owner.name(),
        if token.label.is_some() {
            "trained"
        } else {
            "not trained"
        },
    );
    // Setting an attribute of this name cannot fail.
    let _ = element.set_attribute("aria-label", &name);
    // One chip of a cell is reachable by Tab; of one that is built in parts, one of each part.
    if let Some(strip) = dom::closest(&element, ".strip.part,.cell") {
        for old in dom::all_in(&strip, ".tk[tabindex=\"0\"]") {
            let _ = old.set_attribute("tabindex", "-1");
        }
        let _ = element.set_attribute("tabindex", "0");
    }
    let link = link_of(&element);
    if page.focus.get_untracked() != link {
        if let Some(Link::Frame(frame)) = link
            && let Some(frame_kind) = document.trajectory.frames.get(frame).map(|f| f.kind)
        {
            page.spoken
                .set(format!("Frame {frame}, {}", frame_kind.name()));
        }
        page.focus.set(link);
    }
    set_if_new(page.spot, Some(spot));
}

pub fn clicked(page: Page, event: &MouseEvent) {
    let Some(element) = dom::element(event.target()) else {
        return;
    };
    if let Some(edit) = dom::closest(&element, "button[data-edit]") {
        edit_frame(page, &edit);
        return;
    }
    if dom::closest(&element, "button,select,input,textarea,summary,label,a").is_some() {
        return;
    }
    if let Some(spot) = spot_of(&element) {
        page.spot.set(Some(spot));
        if let Some(chip) = dom::closest(&element, ".tk") {
            dom::focus(&chip);
        }
        if let Some(Link::Frame(frame)) = link_of(&element) {
            pin(page, frame, "chip");
        }
        return;
    }
    // A click in the editor places the cursor.
    if dom::closest(&element, ".draft").is_none()
        && let Some(Link::Frame(frame)) = link_of(&element)
    {
        let card = dom::closest(&element, ".fc").is_some();
        page.spot.set(None);
        pin(page, frame, if card { "card" } else { "side" });
    }
}

/// Opens the frame that an element stands for in the editor.
fn edit_frame(page: Page, element: &Element) {
    if let Some(frame) = dom::number(element, "data-edit") {
        page.pin.set(Some(frame));
        page.editing.set(Some(frame));
    }
}

pub fn clicked_twice(page: Page, event: &MouseEvent) {
    let body =
        dom::element(event.target()).and_then(|element| dom::closest(&element, "[data-edit]"));
    if let Some(body) = body {
        edit_frame(page, &body);
    }
}

/// Pins a frame and brings it into view where it is not the origin.
pub fn pin(page: Page, frame: usize, from: &str) {
    page.pin.set(Some(frame));
    let in_card = from == "card";
    if in_card {
        open_frame(page, frame);
    }
    request_animation_frame(move || {
        if in_card {
            if let Some(span) = dom::find(&format!(".cell [data-frame=\"{frame}\"]")) {
                dom::reveal(&span);
            }
        } else if let Some(card) = dom::find(&format!(".editor-list .fc[data-frame=\"{frame}\"]")) {
            dom::reveal(&card);
        }
    });
}

/// Builds the row of a frame where it is out of view.
fn open_frame(page: Page, frame: usize) {
    let document = page.document.get_untracked();
    let first = Side::BOTH.into_iter().find_map(|side| {
        let tokens = document.side(side).frame_tokens(frame);
        Spot::of_token(&document, side, tokens.first()?.start)
    });
    let row = || {
        document
            .rows
            .iter()
            .position(|row| row.frames.contains(&frame))
    };
    let spot = first.or_else(|| {
        Some(Spot {
            side: Side::A,
            row: row()?,
            at: 0,
        })
    });
    if let Some(spot) = spot {
        page.sides.windows.open(spot);
    }
}

/// Gives a card the focus.
pub fn focus_card(frame: usize) {
    request_animation_frame(move || {
        if let Some(card) = dom::find(&format!(".editor-list .fc[data-frame=\"{frame}\"]")) {
            dom::focus(&card);
        }
    });
}

/// Gives the model's address field the focus.
pub fn focus_model() {
    request_animation_frame(|| {
        if let Some(field) = dom::find("[data-testid=model-url]") {
            dom::focus(&field);
        }
    });
}

/// Marks the selected chip. Chips that are built later know by themselves.
pub fn keep_marks(page: Page) {
    Effect::new(move |_| {
        let spot = page.spot.get();
        request_animation_frame(move || {
            for old in dom::find_all(".rows .tk[aria-selected=true]") {
                let _ = old.remove_attribute("aria-selected");
            }
            if let Some(chip) = spot.and_then(chip_of) {
                let _ = chip.set_attribute("aria-selected", "true");
            }
        });
    });
}
