//! The editor's menus: the kinds of frame, what can be done with one, the forms to export. One dialog
//! beside the button that opens it; a sheet at the bottom in the narrow layout.

use super::desk::{self, Menu, desk};
use crate::document::class;
use crate::exchange::ExportList;
use crate::icons;
use crate::state::{Page, page};
use crate::{dom, words};
use formats::FrameKind;
use leptos::ev::{KeyboardEvent, MouseEvent};
use leptos::html::Dialog;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlDialogElement, HtmlElement};

/// The dialog of all menus.
#[component]
pub fn Menus() -> impl IntoView {
    let page = page();
    let desk = desk();
    let dialog = NodeRef::<Dialog>::new();
    Effect::new(move |_| {
        let Some(dialog) = dialog.get() else { return };
        match (desk.menu.get(), dialog.open()) {
            (Some((_, anchor)), open) => {
                if !open {
                    // Fails only for a dialog that is not in the page.
                    let _ = dialog.show_modal();
                }
                request_animation_frame(move || {
                    place(&dialog, anchor);
                    // A menu that takes another's place has no focus yet.
                    let focused = dom::find(".menu[open] button:focus").is_some();
                    if let Some(first) = dom::find(".menu[open] button:not(:disabled)")
                        && !focused
                    {
                        dom::focus(&first);
                    }
                });
            }
            (None, true) => dialog.close(),
            (None, false) => {}
        }
    });
    let close = move || desk.menu.set(None);
    let keys = move |event: KeyboardEvent| {
        // The page's own keys are not meant.
        event.stop_propagation();
        if let Some(target) = dom::element(event.target()) {
            step(&event, &target);
        }
    };
    let beside = move |event: MouseEvent| {
        let on_dialog = dom::element(event.target()).is_some_and(|at| at.tag_name() == "DIALOG");
        if on_dialog {
            close();
        }
    };
    let menu = Memo::new(move |_| desk.menu.get().map(|(menu, _)| menu));
    let label = move || {
        let of = |at: usize| {
            let kind = desk::kind_of(page, at).map_or("", FrameKind::name);
            format!("frame {at}, {kind}")
        };
        match menu.get() {
            Some(Menu::Add(at)) if at == page.trajectory.with_untracked(|t| t.frames.len()) => {
                "Add a frame at the end".to_owned()
            }
            Some(Menu::Add(at)) => format!("Add a frame before {}", of(at)),
            Some(Menu::Kind(at)) => format!("Another kind for {}", of(at)),
            Some(Menu::Frame(at)) => {
                let of = of(at);
                let mut letters = of.chars();
                let first = letters.next().map(|c| c.to_ascii_uppercase());
                first.into_iter().chain(letters).collect()
            }
            Some(Menu::Export) => "Export".to_owned(),
            None => String::new(),
        }
    };
    let body = move || match menu.get() {
        Some(Menu::Add(at)) => kinds(None, move |kind| {
            close();
            desk::add(page, at, kind);
        }),
        Some(Menu::Kind(at)) => kinds(desk::kind_of(page, at), move |kind| {
            close();
            desk::change_kind(page, at, kind);
        }),
        Some(Menu::Frame(at)) => frame_menu(page, at),
        Some(Menu::Export) => view! { <ExportList/> }.into_any(),
        None => ().into_any(),
    };
    view! {
        <dialog class="menu" class:wide-menu=move || menu.get() == Some(Menu::Export) node_ref=dialog aria-label=label data-testid="menu"
            on:close=move |_| close() on:keydown=keys on:click=beside>
            <p class="cap">{label}</p>
            {body}
        </dialog>
    }
}

/// Puts the dialog below its button, or above where there is no room.
fn place(dialog: &HtmlDialogElement, [left, top, right, bottom]: [f64; 4]) {
    let root = document().document_element();
    let (width, height) = root.map_or((0.0, 0.0), |root| {
        (
            f64::from(root.client_width()),
            f64::from(root.client_height()),
        )
    });
    let (own_width, own_height) = (
        f64::from(dialog.offset_width()),
        f64::from(dialog.offset_height()),
    );
    let x = if left + own_width + 8.0 <= width {
        left
    } else {
        right - own_width
    };
    let y = if bottom + 4.0 + own_height + 8.0 <= height {
        bottom + 4.0
    } else {
        top - 4.0 - own_height
    };
    let x = x.clamp(8.0, (width - own_width - 8.0).max(8.0));
    let y = y.clamp(8.0, (height - own_height - 8.0).max(8.0));
    let style = HtmlElement::style(dialog);
    // These properties are always possible.
    let _ = style.set_property("left", &format!("{x}px"));
    let _ = style.set_property("top", &format!("{y}px"));
}

/// Arrow keys, and the first letter of a word, within a menu.
fn step(event: &KeyboardEvent, target: &Element) {
    let Some(menu) = dom::closest(target, "[role=menu]") else {
        return;
    };
    let Ok(list) = menu.query_selector_all("[role^=menuitem]:not(:disabled)") else {
        return;
    };
    let items: Vec<HtmlElement> = (0..list.length())
        .filter_map(|at| list.item(at)?.dyn_into().ok())
        .collect();
    let now = items
        .iter()
        .position(|item| item.is_same_node(Some(target)));
    let count = items.len();
    let next = match event.key().as_str() {
        "ArrowDown" => now.map(|now| (now + 1) % count),
        "ArrowUp" => now.map(|now| (now + count - 1) % count),
        "Home" => Some(0),
        "End" => count.checked_sub(1),
        letter if letter.chars().count() == 1 && letter != " " => {
            let letter = letter.to_lowercase();
            let from = now.map_or(0, |now| now + 1);
            (0..count).map(|by| (from + by) % count).find(|at| {
                let text = items[*at].text_content().unwrap_or_default();
                text.trim_start().to_lowercase().starts_with(&letter)
            })
        }
        _ => None,
    };
    if let Some(item) = next.and_then(|next| items.get(next)) {
        event.prevent_default();
        dom::focus(item);
    }
}

/// The eleven kinds.
fn kinds(
    now: Option<FrameKind>,
    choose: impl Fn(FrameKind) + Copy + Send + Sync + 'static,
) -> AnyView {
    let items = FrameKind::ALL
        .map(|kind| {
            let model = kind.owner() == formats::Owner::Model;
            let checked = (now == Some(kind)).then_some("true");
            let role = if now.is_some() { "menuitemradio" } else { "menuitem" };
            view! {
                <button role=role class=format!("item {}", class(kind)) class:m=model data-kind=kind.name() tabindex="-1"
                    aria-checked=checked.or(now.map(|_| "false")) on:click=move |_| choose(kind)>
                    <span class="kn">{icons::glyph(kind)}{kind.name()}</span><span class="own">{kind.owner().name()}</span><span class="gist">{kind.gist()}</span>
                </button>
            }
        })
        .collect_view();
    view! { <div role="menu" aria-label="Kinds of frame">{items}</div> }.into_any()
}

/// What can be done with a frame.
fn frame_menu(page: Page, at: usize) -> AnyView {
    let desk = desk();
    let count = page.trajectory.with_untracked(|t| t.frames.len());
    let editable =
        desk::kind_of(page, at).is_some_and(|kind| kind.payload() != formats::Payload::None);
    let another = move |menu: Menu| {
        desk.menu.update(|open| {
            if let Some((now, _)) = open {
                *now = menu;
            }
        });
    };
    let item = |title: &'static str,
                key: &'static str,
                test: &'static str,
                on: bool,
                act: Box<dyn Fn() + Send + Sync>| {
        let chosen = move |_| act();
        view! { <button role="menuitem" class="item plain" tabindex="-1" data-testid=test disabled=!on on:click=chosen><span>{title}</span><kbd class="k" class:gone={key.is_empty()}>{key}</kbd></button> }
    };
    let close = move || desk.menu.set(None);
    view! {
        <div role="menu" aria-label=format!("Frame {at} of {}", words::count(count, "frame"))>
            {item("Edit", "Enter", "do-edit", editable, Box::new(move || { close(); page.pin.set(Some(at)); page.editing.set(Some(at)); }))}
            {item("Move up", "Alt ↑", "do-up", at > 0, Box::new(move || { close(); if at > 0 { desk::move_to(page, at, at - 1); } }))}
            {item("Move down", "Alt ↓", "do-down", at + 1 < count, Box::new(move || { close(); desk::move_to(page, at, at + 1); }))}
            {item("Add before …", "", "do-before", true, Box::new(move || another(Menu::Add(at))))}
            {item("Add after …", "A", "do-after", true, Box::new(move || another(Menu::Add(at + 1))))}
            {item("Change kind …", "K", "do-kind", true, Box::new(move || another(Menu::Kind(at))))}
            {item("Duplicate", "D", "do-duplicate", true, Box::new(move || { close(); desk::duplicate(page, at); }))}
            {item("Delete", "Del", "do-delete", true, Box::new(move || { close(); desk::delete(page, at); }))}
        </div>
    }
    .into_any()
}
