//! The connector: from the card of what is lit up to its span on side A, and across the spine to
//! side B.

use crate::document::{Side, class};
use crate::dom;
use crate::state::{Link, page};
use leptos::html::Div;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use web_sys::{DomRect, Element, ResizeObserver};

#[derive(Clone, Default, PartialEq)]
struct Drawing {
    class: &'static str,
    height: i32,
    paths: Vec<String>,
    dots: Vec<(f64, f64)>,
}

/// The drawing over the rows. `turns` holds them: when it changes its size, they have moved.
pub fn wires(turns: NodeRef<Div>) -> AnyView {
    let page = page();
    let drawing = RwSignal::new(Drawing::default());
    let pending = StoredValue::new(false);
    let redraw = move || {
        if pending.get_value() {
            return;
        }
        pending.set_value(true);
        request_animation_frame(move || {
            pending.try_set_value(false);
            let next = draw(page.link.get_untracked(), page);
            if drawing.try_with_untracked(|now| *now != next) == Some(true) {
                drawing.set(next);
            }
        });
    };
    Effect::new(move |_| {
        page.link.track();
        page.document.track();
        for side in Side::BOTH {
            page.view(side).track();
        }
        page.editing.track();
        redraw();
    });
    // Scrolling does not bubble, so it is caught on its way down.
    let on_scroll = Closure::<dyn Fn()>::new(redraw);
    let target = document();
    let listener: js_sys::Function = on_scroll
        .as_ref()
        .unchecked_ref::<js_sys::Function>()
        .clone();
    let added = target.add_event_listener_with_callback_and_bool("scroll", &listener, true);
    let resized = window_event_listener(leptos::ev::resize, move |_| redraw());
    let kept = StoredValue::new_local((on_scroll, listener));
    let on_size = Closure::<dyn Fn()>::new(redraw);
    let sizes = ResizeObserver::new(on_size.as_ref().unchecked_ref()).ok();
    let observed = StoredValue::new_local((on_size, sizes));
    turns.on_load(move |turns| {
        observed.with_value(|(_, sizes)| {
            if let Some(sizes) = sizes {
                sizes.observe(&turns);
            }
        });
    });
    on_cleanup(move || {
        resized.remove();
        observed.with_value(|(_, sizes)| {
            if let Some(sizes) = sizes {
                sizes.disconnect();
            }
        });
        if added.is_ok() {
            kept.with_value(|(_, listener)| {
                // Removing a listener that is gone is no failure.
                let _ =
                    target.remove_event_listener_with_callback_and_bool("scroll", listener, true);
            });
        }
    });
    view! {
        <svg class=move || format!("wires {}", drawing.read().class) aria-hidden="true" height=move || drawing.read().height.to_string()>
            {move || drawing.get().paths.into_iter().map(|d| view! { <path d=d/> }).collect_view()}
            {move || drawing.get().dots.into_iter().map(|(x, y)| view! { <circle class="end" cx=x cy=y r="3"/> }).collect_view()}
        </svg>
    }
    .into_any()
}

fn rects(element: &Element) -> Vec<DomRect> {
    let list = element.get_client_rects();
    (0..list.length())
        .filter_map(|at| list.item(at))
        .filter(|rect| rect.width() > 0.0)
        .collect()
}

fn draw(link: Option<Link>, page: crate::state::Page) -> Drawing {
    let Some(Link::Frame(frame)) = link else {
        return Drawing::default();
    };
    if dom::is_narrow() {
        return Drawing::default();
    }
    lines(frame, page).unwrap_or_default()
}

fn lines(frame: usize, page: crate::state::Page) -> Option<Drawing> {
    let kind = page
        .document
        .read_untracked()
        .trajectory
        .frames
        .get(frame)?
        .kind;
    let rows = dom::find(".rows:not(.solo)")?;
    // A frame may be several spans; together they are one target.
    let rects = |side: Side| {
        dom::find_all(&format!(
            ".rows .cell[data-side={}] :is(.sp,.ws-sp,.unit,.upart)[data-frame=\"{frame}\"]",
            side.key()
        ))
        .iter()
        .flat_map(rects)
        .collect::<Vec<_>>()
    };
    let base = rows.get_bounding_client_rect();
    let (left, top) = (-base.left(), f64::from(rows.scroll_top()) - base.top());
    let from = rects(Side::A);
    let first = from.first()?;
    let mut drawing = Drawing {
        class: class(kind),
        height: rows.scroll_height(),
        ..Drawing::default()
    };
    let to = rects(Side::B);
    if let Some(target) = to.iter().min_by(|a, b| a.left().total_cmp(&b.left())) {
        let right = from.iter().max_by(|a, b| a.right().total_cmp(&b.right()))?;
        let spine = dom::find(".turn .mul")?.get_bounding_client_rect();
        let spine = spine.left() + spine.width() * 0.76 + left;
        let start = (
            right.right() + left + 1.5,
            right.top() + right.height() / 2.0 + top,
        );
        let end = (
            target.left() + left - 1.5,
            target.top() + target.height() / 2.0 + top,
        );
        drawing.paths.push(route(start, end, spine));
        drawing.dots.extend([start, end]);
    }
    let card = dom::find(&format!(".editor-list .fc[data-frame=\"{frame}\"]"));
    let list = dom::find(".editor-list").map(|list| list.get_bounding_client_rect());
    if let (Some(card), Some(list)) = (card, list) {
        let card = card.get_bounding_client_rect();
        let anchor = card.top() + 14.0;
        // A card scrolled out of its list has nothing to hang a line on.
        if anchor > list.top() && anchor < list.bottom() {
            let start = (-9.0, anchor + top);
            // It ends at the glyph beside the strip.
            let end = (9.0, first.top() + first.height() / 2.0 + top);
            drawing.paths.push(route(start, end, 4.0));
        }
    }
    Some(drawing)
}

/// Across, along the spine, across, with rounded corners.
fn route((x1, y1): (f64, f64), (x2, y2): (f64, f64), spine: f64) -> String {
    let down = y2 - y1;
    if down.abs() < 1.0 {
        return format!("M{x1:.1} {y1:.1} H{x2:.1}");
    }
    let bend = 6.0_f64.min(down.abs() / 2.0) * down.signum();
    let side = bend.abs();
    format!(
        "M{x1:.1} {y1:.1} H{:.1} Q{spine:.1} {y1:.1} {spine:.1} {:.1} V{:.1} Q{spine:.1} {y2:.1} {:.1} {y2:.1} H{x2:.1}",
        spine - side,
        y1 + bend,
        y2 - bend,
        spine + side
    )
}
