//! Which rows are built: all of a short trajectory, of a long one those in view and near it. The others
//! keep their place by a height, estimated until they have been seen.

use crate::document::{Document, Side};
use crate::dom;
use crate::pieces;
use crate::sides::chip::bare;
use crate::state::{Shared, Spot, View};
use leptos::html::Div;
use leptos::prelude::*;
use std::collections::HashMap;
use std::rc::Rc;
use tokens::Token;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use web_sys::{Element, IntersectionObserver, IntersectionObserverEntry, IntersectionObserverInit};

/// A trajectory with at most so many tokens on either side is built as a whole.
const WHOLE: usize = 1_500;
/// Rows that are built before the browser tells what is in view.
const FIRST: usize = 4;
/// How far beyond the view rows are built.
const MARGIN: &str = "900px 0px";
/// Height of a line of chips.
const LINE: f64 = 31.0;
/// Height and width of a character of text.
const TEXT: (f64, f64) = (19.2, 7.3);

/// A part of the rows that is built only near the view.
#[derive(Clone)]
struct Watched {
    near: RwSignal<bool>,
    /// As the browser last told.
    inside: bool,
    element: Option<Element>,
    /// Whether it has the chip of this token.
    holds: Rc<dyn Fn(Spot) -> bool>,
    /// Called before it is taken down, to note its height.
    leave: Rc<dyn Fn(&Element)>,
}

struct Observer {
    observer: IntersectionObserver,
    root: Element,
    /// Kept as long as the observer calls it.
    _call: Closure<dyn Fn(js_sys::Array)>,
}

/// What is built of the rows.
#[derive(Clone, Copy)]
pub struct Windows {
    /// Whether the trajectory is long.
    pub active: Memo<bool>,
    /// Width of the rows.
    width: RwSignal<f64>,
    watched: StoredValue<HashMap<usize, Watched>, LocalStorage>,
    next: StoredValue<usize>,
    observer: StoredValue<Option<Observer>, LocalStorage>,
    /// The token last asked for: what holds it stays.
    wanted: StoredValue<Option<Spot>>,
}

impl Windows {
    /// For the rows of a document.
    pub fn new(document: Memo<Shared<Document>>) -> Self {
        // Paper has no view to be near.
        let printing = RwSignal::new(false);
        for (event, on) in [("beforeprint", true), ("afterprint", false)] {
            let told = window_event_listener_untyped(event, move |_| printing.set(on));
            on_cleanup(move || told.remove());
        }
        Self {
            active: Memo::new(move |_| {
                let document = document.read();
                let long = document.sides.iter().any(|side| side.tally.tokens > WHOLE);
                long && !printing.get()
            }),
            width: RwSignal::new(0.0),
            watched: StoredValue::new_local(HashMap::new()),
            next: StoredValue::new(0),
            observer: StoredValue::new_local(None),
            wanted: StoredValue::new(None),
        }
    }

    /// Watches over what scrolls in this element, until the caller's owner ends.
    pub fn root(self, place: NodeRef<Div>) {
        place.on_load(move |root| {
            let call = Closure::<dyn Fn(js_sys::Array)>::new(move |entries: js_sys::Array| {
                self.told(&entries);
            });
            let options = IntersectionObserverInit::new();
            options.set_root(Some(&root));
            options.set_root_margin(MARGIN);
            let made =
                IntersectionObserver::new_with_options(call.as_ref().unchecked_ref(), &options);
            let Ok(observer) = made else { return };
            self.width.set(f64::from(root.client_width()));
            self.watched.with_value(|watched| {
                for element in watched.values().filter_map(|one| one.element.as_ref()) {
                    observer.observe(element);
                }
            });
            let observer = Observer {
                observer,
                root: (*root).clone().into(),
                _call: call,
            };
            self.observer.set_value(Some(observer));
        });
        on_cleanup(move || {
            self.observer.try_update_value(|observer| {
                if let Some(old) = observer.take() {
                    old.observer.disconnect();
                }
            });
        });
    }

    /// Whether a part is to be built. `first` is the answer until the browser tells.
    pub fn watch(
        self,
        place: NodeRef<Div>,
        first: bool,
        holds: impl Fn(Spot) -> bool + 'static,
        leave: impl Fn(&Element) + 'static,
    ) -> Memo<bool> {
        let id = self.next.get_value();
        self.next.set_value(id + 1);
        let near = RwSignal::new(first || self.wanted.get_value().is_some_and(&holds));
        let part = Watched {
            near,
            inside: false,
            element: None,
            holds: Rc::new(holds),
            leave: Rc::new(leave),
        };
        self.watched
            .update_value(|watched| drop(watched.insert(id, part)));
        place.on_load(move |element| {
            let element: Element = (*element).clone().into();
            // Setting an attribute of this name cannot fail.
            let _ = element.set_attribute("data-window", &id.to_string());
            self.observer.with_value(|observer| {
                if let Some(observer) = observer {
                    observer.observer.observe(&element);
                }
            });
            self.watched.update_value(|watched| {
                if let Some(part) = watched.get_mut(&id) {
                    part.element = Some(element);
                }
            });
        });
        on_cleanup(move || {
            let old = self
                .watched
                .try_update_value(|watched| watched.remove(&id))
                .flatten();
            if let Some(element) = old.and_then(|part| part.element) {
                self.observer.try_with_value(|observer| {
                    if let Some(observer) = observer {
                        observer.observer.unobserve(&element);
                    }
                });
            }
        });
        let active = self.active;
        Memo::new(move |_| !active.get() || near.get())
    }

    /// Builds what holds a token, so that its chip can be found in the next frame.
    pub fn open(self, spot: Spot) {
        self.wanted.set_value(Some(spot));
        for part in self.parts() {
            if (part.holds)(spot) && !part.near.get_untracked() {
                part.near.set(true);
            }
        }
    }

    fn parts(self) -> Vec<Watched> {
        self.watched
            .with_value(|watched| watched.values().cloned().collect())
    }

    /// The browser tells what came near the view, and what left.
    fn told(self, entries: &js_sys::Array) {
        self.watched.update_value(|watched| {
            for entry in entries.iter() {
                let entry: IntersectionObserverEntry = entry.unchecked_into();
                let id = dom::number(&entry.target(), "data-window");
                if let Some(part) = id.and_then(|id| watched.get_mut(&id)) {
                    part.inside = entry.is_intersecting();
                }
            }
        });
        let width = self.observer.with_value(|observer| {
            let root = observer.as_ref().map(|observer| observer.root.clone());
            root.map_or(0.0, |root| f64::from(root.client_width()))
        });
        if width > 0.0 && self.width.get_untracked() != width {
            self.width.set(width);
        }
        if !self.active.get_untracked() {
            return;
        }
        let focus = document().active_element();
        let wanted = self.wanted.get_value();
        for part in self.parts() {
            let near = part.near.get_untracked();
            if part.inside && !near {
                part.near.set(true);
            }
            let Some(element) = part.element.as_ref().filter(|_| near && !part.inside) else {
                continue;
            };
            // What has the focus must not lose it by scrolling.
            let kept = wanted.is_some_and(|spot| (part.holds)(spot))
                || focus.as_ref().is_some_and(|f| element.contains(Some(f)));
            if !kept {
                (part.leave)(element);
                part.near.set(false);
            }
        }
    }

    /// Width for the chips of a side, and what changes when heights do.
    pub fn strip_width(self, alone: bool) -> f64 {
        let all = self.width.get();
        let cell = if alone || dom::is_narrow() {
            all
        } else {
            (all - 34.0) / 2.0
        };
        (cell - 36.0).max(120.0)
    }
}

/// Whether a row is built at the start.
pub fn at_first(row: usize) -> bool {
    row < FIRST
}

/// A height that was seen, and under which circumstances it holds.
#[derive(Clone, Copy, PartialEq)]
pub struct Seen {
    /// The side's view.
    pub view: View,
    /// The strip's width.
    pub width: f64,
    /// The row's hash.
    pub hash: Option<u64>,
    /// In pixels.
    pub height: f64,
}

/// Height of the chips of these tokens in a strip of this width.
pub fn strip_height(tokens: &[Token], width: f64) -> f64 {
    let chip = |token: &Token| {
        let name = token.special.as_deref().map(bare);
        let piece = name.unwrap_or(&token.text).chars().count() as f64 * TEXT.1;
        let id = f64::from(token.id.max(1).ilog10() + 1) * 5.6;
        piece.max(id) + 13.0
    };
    let all: f64 = tokens.iter().map(chip).sum();
    (all / width).ceil().max(1.0) * LINE
}

/// Height of a text in a column of this width, as much of it as is shown.
fn text_height(text: &str, width: f64) -> f64 {
    let shown = pieces::fold(text).map_or(text, |fold| &text[..fold.end]);
    let lines = shown.split('\n').map(|line| {
        let width_of_line = line.chars().count() as f64 * TEXT.1;
        (width_of_line / width).ceil().max(1.0)
    });
    lines.sum::<f64>() * TEXT.0
}

/// Height of a cell that was not seen yet.
pub fn cell_height(document: &Document, side: Side, row: usize, view: View, width: f64) -> f64 {
    let Some(row) = document.rows.get(row) else {
        return 0.0;
    };
    let doc = document.side(side);
    let at = side.index();
    10.0 + match view {
        View::Tokens if doc.view.is_some() => {
            strip_height(&doc.tokens()[row.tokens[at].clone()], width)
        }
        View::Units if side == Side::A => row
            .frames
            .clone()
            .map(|frame| {
                let text = crate::document::content_text(&document.trajectory.frames[frame]);
                34.0 + text_height(&text, width)
            })
            .sum(),
        _ => doc.rendering.segments[row.segments[at].clone()]
            .iter()
            .map(|segment| text_height(&segment.text, width))
            .sum(),
    }
}
