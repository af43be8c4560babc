//! The dialog for sharing, and what its buttons do.

use crate::document::Side;
use crate::share::picture::{Font, Measure, Options, Picture};
use crate::share::snapshot::Shown;
use crate::share::{
    Notice, address, files, forget, go_back, palette, picture, table, title, too_long,
};
use crate::state::{Page, page};
use crate::words;
use leptos::html::Dialog;
use leptos::prelude::*;
use leptos::task::spawn_local;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

/// Pixels per unit of a PNG: sharp on a projector.
const SCALE: f64 = 2.0;
/// How long a button says that it is done.
const DONE: Duration = Duration::from_secs(3);

/// How the last thing asked for went.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Done(String),
    Failed(String),
    /// The clipboard is refused: to be copied by hand.
    ByHand(String),
}

/// Copies the link to the present state; says how it went through `said`.
fn copy_link(page: Page, said: impl Fn(Outcome) + 'static) {
    let address = match address(page) {
        Ok(address) => address,
        Err(length) => return said(Outcome::Failed(too_long(length))),
    };
    spawn_local(async move {
        match files::copy(&address).await {
            Ok(()) => said(Outcome::Done(format!(
                "Link copied, {} characters. It holds the trajectory and what is shown of it; no model, no address of one.",
                words::thousands(address.len() as u64)
            ))),
            Err(_) => said(Outcome::ByHand(address)),
        }
    });
}

/// The button in the masthead, with the one that opens the dialog.
#[component]
pub fn ShareButtons() -> impl IntoView {
    let page = page();
    let done = RwSignal::new(false);
    let copy = move |_| {
        copy_link(page, move |outcome| match outcome {
            Outcome::Done(text) => {
                page.spoken.set(text);
                done.set(true);
                set_timeout(move || done.set(false), DONE);
            }
            Outcome::Failed(text) => page
                .share
                .notice
                .set(Some(Notice::Trouble("There is no link.", text))),
            // The dialog has a place to copy it from.
            Outcome::ByHand(_) => page.share.open.set(true),
        });
    };
    view! {
        <span class="split-btn wide">
            <button class="btn copy-link" data-testid="copy-link" title="Copy a link that holds the trajectory and what is shown" on:click=copy>
                <span class:gone=move || done.get()>"Copy link"</span><span class:gone=move || !done.get()>"Copied"</span></button>
            <button class="btn" data-testid="share" aria-haspopup="dialog" aria-label="Share: pictures, table, print" title="Share: pictures, table, print"
                on:click=move |_| page.share.open.set(true)><svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path d="M1 3l4 4 4-4" fill="none" stroke="currentColor" stroke-width="1.5"/></svg></button>
        </span>
    }
}

/// Draws the picture that the dialog's choices ask for.
fn drawing(page: Page, light: bool, turn: bool) -> Option<Picture> {
    let document = page.document.get_untracked();
    let only = page.pin.get_untracked().filter(|_| turn).and_then(|pin| {
        document
            .rows
            .iter()
            .position(|row| row.frames.contains(&pin))
    });
    let options = untrack(|| Options {
        title: title(page),
        only,
        sides: Side::BOTH.map(|side| Shown {
            view: page.view(side).get(),
            mask: page.mask[side.index()].get(),
            ids: page.ids[side.index()].get(),
        }),
        readable: page.readable.get(),
    });
    let palette = palette::read(light)?;
    let canvas: HtmlCanvasElement = leptos::prelude::document()
        .create_element("canvas")
        .ok()?
        .unchecked_into();
    let canvas: CanvasRenderingContext2d = canvas.get_context("2d").ok()??.unchecked_into();
    // The same pieces come again and again.
    let known = RefCell::new(HashMap::<(String, &'static str, u8), f64>::new());
    let measure = |text: &str, font: Font| {
        let (family, size, weight) = font.css();
        let key = (text.to_owned(), family, size);
        if let Some(&width) = known.borrow().get(&key) {
            return width;
        }
        canvas.set_font(&format!("{weight} {size}px {family}"));
        let width = canvas
            .measure_text(text)
            .map_or(0.0, |metrics| metrics.width());
        known.borrow_mut().insert(key, width);
        width
    };
    Some(picture::draw(
        &document,
        &options,
        &palette,
        &measure as Measure<'_>,
    ))
}

fn drawn(picture: &Picture, what: &str) -> Outcome {
    let left_out = match picture.left_out {
        0 => String::new(),
        n => format!(" {} had no place; it says so.", words::count(n, "turn")),
    };
    Outcome::Done(format!("{what} is in your downloads.{left_out}"))
}

async fn save_picture(page: Page, light: bool, turn: bool, as_png: bool) -> Outcome {
    let Some(picture) = drawing(page, light, turn) else {
        return Outcome::Failed("This browser could not draw the picture.".into());
    };
    let title = title(page);
    let (file, what) = if as_png {
        match files::png(&picture.svg, picture.width, picture.height, SCALE).await {
            Ok(blob) => (Some((blob, files::name(&title, "png"))), "The PNG"),
            Err(why) => return Outcome::Failed(format!("There is no PNG: {why}. The SVG may do.")),
        }
    } else {
        let blob = files::blob(&picture.svg, "image/svg+xml");
        (
            blob.map(|blob| (blob, files::name(&title, "svg"))),
            "The SVG",
        )
    };
    match file.and_then(|(blob, name)| files::download(&blob, &name)) {
        Some(()) => drawn(&picture, what),
        None => Outcome::Failed("This browser refused the download.".into()),
    }
}

/// The dialog.
#[component]
pub fn ShareDialog() -> impl IntoView {
    let page = page();
    let share = page.share;
    let dialog = NodeRef::<Dialog>::new();
    let said = RwSignal::new(None::<Outcome>);
    let light = RwSignal::new(true);
    let turn = RwSignal::new(false);
    Effect::new(move |_| {
        let Some(dialog) = dialog.get() else { return };
        match (share.open.get(), dialog.open()) {
            (true, false) => {
                said.set(None);
                // Fails only for a dialog that is not in the page.
                drop(dialog.show_modal());
            }
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    let copy = move |_| copy_link(page, move |outcome| said.set(Some(outcome)));
    let save = move |as_png: bool| {
        spawn_local(async move {
            said.set(Some(
                save_picture(page, light.get_untracked(), turn.get_untracked(), as_png).await,
            ));
        });
    };
    let copy_table = move |_| {
        let document = page.document.get_untracked();
        if document.sides.iter().any(|side| side.view.is_none()) {
            said.set(Some(Outcome::Failed(
                "Counting needs both wires and the tokenizer.".into(),
            )));
            return;
        }
        let text = table::markdown(&document, &title(page));
        spawn_local(async move {
            said.set(Some(match files::copy(&text).await {
                Ok(()) => Outcome::Done("The table is on the clipboard.".into()),
                Err(_) => Outcome::ByHand(text),
            }));
        });
    };
    let print = move |_| {
        share.open.set(false);
        // The dialog must be gone from the paper.
        request_animation_frame(|| drop(window().print()));
    };
    let outcome = move || {
        said.get().map(|outcome| match outcome {
            Outcome::Done(text) => view! { <p class="note plain" data-testid="share-done">{text}</p> }.into_any(),
            Outcome::Failed(text) => view! { <p class="note bad" data-testid="share-failed">{text}</p> }.into_any(),
            Outcome::ByHand(text) => view! {
                <p class="note">"This browser gives the page no clipboard. Copy it from here:"</p>
                <textarea class="by-hand" readonly=true aria-label="To copy" data-testid="by-hand" prop:value=text></textarea>
            }.into_any(),
        })
    };
    let kept = move || {
        let list = share
            .kept
            .get()
            .into_iter()
            .map(|entry| {
                let when = words::day(entry.saved);
                let name = if entry.title.is_empty() { "Your own".to_owned() } else { entry.title.clone() };
                view! {
                    <li><span><b><bdi>{name}</bdi></b>" "<span class="muted">{when}</span></span>
                        <button class="btn" on:click=move |_| { go_back(page, entry.clone()); share.open.set(false); }>"Open"</button></li>
                }
            })
            .collect_view();
        view! { <ul class="kept-work" data-testid="kept-work">{list}</ul> }
    };
    let pinned = Signal::derive(move || page.pin.get().is_none());
    view! {
        <dialog class="help share-page" node_ref=dialog aria-labelledby="share-title" data-testid="share-dialog" on:close=move |_| share.open.set(false)>
            <div class="bar"><h2 id="share-title">"Share and keep"</h2><button class="btn right" on:click=move |_| share.open.set(false)>"Close "<kbd>"Esc"</kbd></button></div>
            <div class="share-body">
                <section aria-labelledby="share-link"><h3 id="share-link">"Link"</h3>
                    <p>"The trajectory and what is shown of it lie in the link itself, behind the hash sign, which browsers send to no one."</p>
                    <p class="acts"><button class="btn pri" data-testid="share-link" autofocus=true on:click=copy>"Copy link"</button></p></section>
                <section aria-labelledby="share-picture"><h3 id="share-picture">"Picture for slides"</h3>
                    <p>"What both sides show now, as it would stand on a page without end."</p>
                    <p class="acts"><label class="check"><input type="checkbox" data-testid="light-background" prop:checked=move || light.get() on:change=move |event| light.set(event_target_checked(&event))/>"light background"</label>
                        <label class="check"><input type="checkbox" data-testid="only-turn" disabled=move || pinned.get() prop:checked=move || turn.get() on:change=move |event| turn.set(event_target_checked(&event))/>"only the turn of the pinned frame"</label></p>
                    <p class="acts"><button class="btn" data-testid="save-svg" on:click=move |_| save(false)>"Download SVG"</button>
                        <button class="btn" data-testid="save-png" on:click=move |_| save(true)>"Download PNG"</button></p></section>
                <section aria-labelledby="share-table"><h3 id="share-table">"Table and paper"</h3>
                    <p class="acts"><button class="btn" data-testid="copy-table" on:click=copy_table>"Copy Markdown table"</button>
                        <button class="btn" data-testid="print" on:click=print>"Print both sides"</button></p></section>
                <div role="status" class="outcome">{outcome}</div>
                <section aria-labelledby="share-kept"><h3 id="share-kept">"Kept in this browser"</h3>
                    <p class="muted">"Each tab's trajectory and view, until you forget them; the four newest. They are sent nowhere."</p>
                    {kept}
                    <p class="acts"><button class="btn" data-testid="forget-work" on:click=move |_| { forget(page); said.set(Some(Outcome::Done("Kept work is removed from this browser. What you see is kept again when you change it.".into()))); }>"Forget all kept work"</button></p></section>
            </div>
        </dialog>
    }
}
