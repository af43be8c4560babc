//! The page as a whole: layout, and what pointer and keys do anywhere on it.

use crate::about::About;
use crate::costs::{Bars, Key, Sentence, Table};
use crate::document::Tone;
use crate::document::{Document, Side};
use crate::dom;
use crate::editor::Editor;
use crate::help::Help;
use crate::inspector::Inspector;
use crate::live::{LivePanel, ModelPanel};
use crate::models::ModelsRoom;
use crate::sides::{Both, Heads, Single, parts};
use crate::state::{Dock, Link, Page, Pane, Room, Spot, View};
use crate::top::Top;
use leptos::ev::{FocusEvent, KeyboardEvent, MouseEvent, PointerEvent};
use leptos::prelude::*;
use web_sys::Element;

/// The page.
#[component]
pub fn App() -> impl IntoView {
    let (trajectory, first) = crate::samples::first();
    let page = Page::new(trajectory.clone(), first);
    provide_context(page);
    page.open(trajectory);
    crate::samples::load_list(page);
    crate::samples::load_tokenizer(page);
    keep_marks(page);
    follow_address(page);
    let keys = window_event_listener(leptos::ev::keydown, move |event| key(page, &event));
    on_cleanup(move || keys.remove());
    let live = move |side: Side| page.view(side).get() == View::Live;
    let any_live = move || live(Side::A) || live(Side::B);
    let split = Memo::new(move |_| (live(Side::A), live(Side::B)));
    let sides = move || match split.get() {
        (false, false) => view! { <Both/> }.into_any(),
        (a, b) => {
            let column = |side, live| {
                if live {
                    view! { <LivePanel side/> }.into_any()
                } else {
                    view! { <Single side/> }.into_any()
                }
            };
            view! { <div class="facing split">{column(Side::A, a)}<div class="mul"></div>{column(Side::B, b)}</div> }.into_any()
        }
    };
    let away = move || page.room.get() != Room::Compare;
    let pane = move || match page.pane.get() {
        Pane::Edit => "edit",
        Pane::Sides => "sides",
        Pane::Dock => "dock",
    };
    view! {
        <div class="app">
            <Top/>
            <main class="work" hidden=away class:drawer=move || page.drawer.get() class:live-on=any_live data-pane=pane
                on:pointerover=move |event| pointed(page, &event) on:pointerleave=move |_| page.leave()
                on:focusin=move |event| focused(page, &event) on:focusout=move |_| page.focus.set(None)
                on:click=move |event| clicked(page, &event) on:dblclick=move |event| clicked_twice(page, &event)>
                <Editor/>
                <section class="mid" aria-label="Both wires"><div><Heads/></div>{sides}<DockBox/></section>
                <Inspector/>
                <Sheet/>
            </main>
            <Show when=move || page.room.get() == Room::Models><ModelsRoom/></Show>
            <p class="vh" aria-live="polite">{move || page.spoken.get()}</p>
            <p class="vh" aria-live="polite">{move || page.live.spoken.get()}</p>
            <Help/>
            <About/>
        </div>
    }
}

/// Keeps the room and the address's hash the same.
fn follow_address(page: Page) {
    let room = || crate::models::room_of(&window().location().hash().unwrap_or_default());
    page.room.set(room());
    let changes = window_event_listener(leptos::ev::hashchange, move |_| {
        page.room.set(room());
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
        });
    });
}

/// Costs and model below the sides.
#[component]
fn DockBox() -> impl IntoView {
    let page = page_of();
    let tab = move |dock: Dock, title: &'static str, id: &'static str| {
        view! {
            <button role="tab" data-testid=id aria-selected=move || (page.dock.get() == dock).to_string()
                tabindex=move || if page.dock.get() == dock { "0" } else { "-1" }
                on:click=move |_| { page.dock.set(dock); if dock == Dock::Model { page.live.wake(); } }>{title}</button>
        }
    };
    view! {
        <section class="dock" aria-label="Costs and model">
            <div class="bar"><div class="tabs" role="tablist" aria-label="Dock" on:keydown=crate::controls::tab_keys>{tab(Dock::Costs, "Costs", "dock-costs")}{tab(Dock::Model, "Model", "dock-model")}</div>
                {move || match page.dock.get() {
                    Dock::Costs => view! { <Sentence/><Key/> }.into_any(),
                    Dock::Model => view! { <span class="say muted">"Load reads a model for both sides. It is read by this browser and stays in it."</span> }.into_any(),
                }}
                <button class="btn quiet inspect" on:click=move |_| page.drawer.update(|open| *open = !*open)>"Inspector"</button>
            </div>
            {move || match page.dock.get() {
                Dock::Costs => view! { <Bars/><Table/> }.into_any(),
                Dock::Model => view! { <ModelPanel/> }.into_any(),
            }}
        </section>
    }
}

fn page_of() -> Page {
    crate::state::page()
}

/// Narrow layout: the selected token, the costs, and the panes.
#[component]
fn Sheet() -> impl IntoView {
    let page = page_of();
    let token = move || {
        let document = page.document.get();
        let found = page
            .spot
            .get()
            .and_then(|spot| Some((spot, spot.index(&document)?)))
            .and_then(|(spot, index)| {
                Some((
                    spot.side,
                    index,
                    document.side(spot.side).tokens().get(index)?,
                ))
            });
        let Some((side, index, token)) = found else {
            return view! { <div class="tokline"><span class="muted">"Tap a token to see what it is."</span></div> }.into_any();
        };
        let what = match token.frame_kind {
            Some(kind) => format!(
                "{} of {}",
                if token.special.is_some() {
                    "marker"
                } else {
                    "content"
                },
                kind.name()
            ),
            None => {
                if Tone::of_token(token) == Tone::Template {
                    "template".to_owned()
                } else {
                    "structure".to_owned()
                }
            }
        };
        let trained = match (token.label.is_some(), token.given) {
            (true, true) => "trained, yet given",
            (true, false) => "trained",
            _ => "context",
        };
        view! {
            <div class=format!("tokline {}", Tone::of_token(token).class())><span class="piece" class:m=token.owner == formats::Owner::Model class:t=token.label.is_some()>{parts(&token.text)}</span>
                <span class="what"><span><b class="mono">{token.id}</b>" "{side.plate()}", token "{index}</span><span class="muted">{what}", "{token.owner.name()}", "{trained}</span></span>
                <button class="btn right" on:click=move |_| page.drawer.set(true)>"Inspect"</button></div>
        }
        .into_any()
    };
    let at = move |pane: Pane, view: Option<View>, dock: Option<Dock>| {
        page.pane.get() == pane
            && view.is_none_or(|view| page.view(Side::A).get() == view)
            && dock.is_none_or(|dock| page.dock.get() == dock)
    };
    let tab = move |title: &'static str, pane: Pane, view: Option<View>, dock: Option<Dock>| {
        view! {
            <button aria-current=move || at(pane, view, dock).then_some("true") data-testid=format!("pane-{}", title.to_lowercase())
                on:click=move |_| {
                    page.pane.set(pane);
                    page.editing.set(None);
                    if let Some(view) = view {
                        for side in Side::BOTH { page.show(side, view); }
                    }
                    if let Some(dock) = dock {
                        page.dock.set(dock);
                        if dock == Dock::Model { page.live.wake(); }
                    }
                }>{title}</button>
        }
    };
    view! {
        <section class="sheet" aria-label="Selected token and panes">
            <Show when=move || page.pane.get() == Pane::Sides && page.view(Side::A).get() != View::Live>{token}<Bars/></Show>
            <nav class="tabbar" aria-label="Panes">
                {tab("Edit", Pane::Edit, None, None)}{tab("Wire", Pane::Sides, Some(View::Wire), None)}{tab("Tokens", Pane::Sides, Some(View::Tokens), None)}
                {tab("Live", Pane::Sides, Some(View::Live), None)}{tab("Costs", Pane::Dock, None, Some(Dock::Costs))}{tab("Model", Pane::Dock, None, Some(Dock::Model))}
            </nav>
        </section>
    }
}

/// The token a chip stands for.
fn spot_of(element: &Element) -> Option<Spot> {
    let chip = dom::closest(element, ".tk[data-i]")?;
    let turn = dom::closest(&chip, "[data-turn]")?;
    let side = dom::closest(&chip, "[data-side]")?;
    Some(Spot {
        side: Side::from_key(&side.get_attribute("data-side")?)?,
        row: dom::number(&turn, "data-turn")?,
        at: dom::number(&chip, "data-i")?,
    })
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

fn pointed(page: Page, event: &PointerEvent) {
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

fn focused(page: Page, event: &FocusEvent) {
    let Some(element) = dom::element(event.target()) else {
        return;
    };
    let Some(spot) = spot_of(&element) else {
        if dom::closest(&element, ".fc").is_some() {
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
    if let Some(strip) = dom::closest(&element, ".cell") {
        if let Ok(Some(old)) = strip.query_selector(".tk[tabindex=\"0\"]") {
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

fn clicked(page: Page, event: &MouseEvent) {
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

fn clicked_twice(page: Page, event: &MouseEvent) {
    let body =
        dom::element(event.target()).and_then(|element| dom::closest(&element, "[data-edit]"));
    if let Some(body) = body {
        edit_frame(page, &body);
    }
}

/// Pins a frame and brings it into view where it is not the origin.
fn pin(page: Page, frame: usize, from: &str) {
    page.pin.set(Some(frame));
    let in_card = from == "card";
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

/// Selects a token and gives its chip the focus.
fn go(page: Page, spot: Spot) {
    page.leave();
    page.spot.set(Some(spot));
    let chip = format!(
        "[data-turn=\"{}\"] .cell[data-side={}] .tk[data-i=\"{}\"]",
        spot.row,
        spot.side.key(),
        spot.at
    );
    request_animation_frame(move || {
        if let Some(chip) = dom::find(&chip) {
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

fn key(page: Page, event: &KeyboardEvent) {
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
    } else if page.models.asks() {
        // The browser closes the dialog.
    } else if page.live.load.with_untracked(Option::is_some) {
        page.live.pause();
    } else if untrack(|| page.live.going()).is_some() {
        page.live.stop();
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

/// Marks the selected chip, and makes one chip of each strip reachable by Tab.
fn keep_marks(page: Page) {
    Effect::new(move |_| {
        page.document.track();
        for side in Side::BOTH {
            page.view(side).track();
        }
        let spot = page.spot.get();
        request_animation_frame(move || {
            for old in dom::find_all(".tk[aria-selected=true]") {
                let _ = old.remove_attribute("aria-selected");
            }
            for cell in dom::find_all(".cell") {
                let reachable = cell.query_selector(".tk[tabindex=\"0\"]").ok().flatten();
                if reachable.is_none()
                    && let Ok(Some(first)) = cell.query_selector(".tk")
                {
                    let _ = first.set_attribute("tabindex", "0");
                }
            }
            let Some(spot) = spot else { return };
            let chip = format!(
                "[data-turn=\"{}\"] .cell[data-side={}] .tk[data-i=\"{}\"]",
                spot.row,
                spot.side.key(),
                spot.at
            );
            if let Some(chip) = dom::find(&chip) {
                let _ = chip.set_attribute("aria-selected", "true");
            }
        });
    });
}
