//! Moving a frame with the pointer: its rail is the grip, a line shows where it would go.

use super::desk::{Desk, Drag, move_to};
use crate::dom;
use crate::state::{Page, Pane};
use leptos::ev::PointerEvent;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement};

/// So far a pressed pointer may stray before it drags, in pixels.
const SLACK: f64 = 5.0;
/// So near to an end of the list it scrolls, in pixels.
const EDGE: f64 = 40.0;

/// A pointer that is down on a rail.
#[derive(Clone, Copy)]
struct Pressed {
    frame: usize,
    pointer: i32,
    from: f64,
    now: f64,
}

/// The pointer's part of dragging.
#[derive(Clone, Copy)]
pub struct Dragging {
    page: Page,
    desk: Desk,
    pressed: StoredValue<Option<Pressed>>,
    /// Whether the click that ends a drag is still to come.
    ended: StoredValue<bool>,
}

impl Dragging {
    /// Nothing is dragged.
    pub fn new(page: Page, desk: Desk) -> Self {
        Self {
            page,
            desk,
            pressed: StoredValue::new(None),
            ended: StoredValue::new(false),
        }
    }

    /// The pointer went down.
    pub fn down(self, event: &PointerEvent) {
        let strip = dom::is_narrow() && self.page.pane.get_untracked() != Pane::Edit;
        if event.button() != 0 || strip {
            return;
        }
        let Some(rail) = dom::element(event.target()).and_then(|at| dom::closest(&at, ".fc>.rail"))
        else {
            return;
        };
        let Some(frame) = rail
            .parent_element()
            .and_then(|card| dom::number(&card, "data-frame"))
        else {
            return;
        };
        // Without the capture the drag ends where the pointer leaves the list.
        let _ = rail.set_pointer_capture(event.pointer_id());
        let at = f64::from(event.client_y());
        self.pressed.set_value(Some(Pressed {
            frame,
            pointer: event.pointer_id(),
            from: at,
            now: at,
        }));
    }

    /// The pointer moved.
    pub fn moved(self, event: &PointerEvent) {
        let Some(pressed) = self.pressed.get_value() else {
            return;
        };
        if pressed.pointer != event.pointer_id() {
            return;
        }
        let now = f64::from(event.client_y());
        self.pressed.set_value(Some(Pressed { now, ..pressed }));
        if self.desk.drag.get_untracked().is_some() {
            self.place();
        } else if (now - pressed.from).abs() > SLACK {
            self.place();
            self.scroll_on();
        }
    }

    /// The pointer went up: the frame goes where the line is.
    pub fn up(self) {
        self.pressed.set_value(None);
        let Some(drag) = self.desk.drag.get_untracked() else {
            return;
        };
        self.desk.drag.set(None);
        self.ended.set_value(true);
        set_timeout(
            move || self.ended.set_value(false),
            std::time::Duration::ZERO,
        );
        let to = drag.gap - usize::from(drag.gap > drag.frame);
        move_to(self.page, drag.frame, to);
    }

    /// The drag ends and nothing moves.
    pub fn cancel(self) {
        self.pressed.set_value(None);
        self.desk.drag.set(None);
    }

    /// Whether a click only ends a drag.
    pub fn swallows_click(self) -> bool {
        self.ended.get_value()
    }

    /// Draws the line where the pointer is.
    fn place(self) {
        let Some(pressed) = self.pressed.get_value() else {
            return;
        };
        let cards: Vec<HtmlElement> = dom::find_all(".editor-list .fc")
            .into_iter()
            .filter_map(|card| card.dyn_into().ok())
            .collect();
        let middle = |card: &HtmlElement| {
            let place = card.get_bounding_client_rect();
            place.top() + place.height() / 2.0
        };
        let gap = cards.partition_point(|card| middle(card) < pressed.now);
        let line = match (cards.get(gap), cards.last()) {
            (Some(card), _) => f64::from(card.offset_top()) - 3.0,
            (None, Some(last)) => f64::from(last.offset_top() + last.offset_height()) + 1.0,
            _ => return,
        };
        self.desk.drag.set(Some(Drag {
            frame: pressed.frame,
            gap,
            line,
        }));
    }

    /// Scrolls while the pointer rests near an end of the list.
    fn scroll_on(self) {
        let (Some(pressed), Some(list)) = (self.pressed.get_value(), dom::find(".editor-list"))
        else {
            return;
        };
        if self.desk.drag.get_untracked().is_none() {
            return;
        }
        let place = list.get_bounding_client_rect();
        let by = if pressed.now < place.top() + EDGE {
            -8
        } else if pressed.now > place.bottom() - EDGE {
            8
        } else {
            0
        };
        if by != 0 {
            scroll(&list, by);
            self.place();
        }
        request_animation_frame(move || self.scroll_on());
    }
}

fn scroll(list: &Element, by: i32) {
    list.set_scroll_top(list.scroll_top() + by);
}
