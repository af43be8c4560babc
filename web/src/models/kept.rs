//! What is kept in this browser.

use crate::dom;
use crate::live::{Asked, Chosen};
use crate::state::{Page, page};
use crate::words;
use engine::protocol::{KeptModel, Sides, Source, Storage};
use leptos::html::Dialog;
use leptos::prelude::*;

/// The list and the storage.
#[component]
pub fn KeptModels() -> impl IntoView {
    let page = page();
    let live = page.live;
    let models = move || {
        live.kept
            .read()
            .as_ref()
            .map(|kept| kept.models.clone())
            .unwrap_or_default()
    };
    let any = Memo::new(move |_| !models().is_empty());
    let storage = move || live.kept.read().as_ref().map(|kept| storage(&kept.storage));
    view! {
        <section class="kept" aria-labelledby="kept-title"><h2 id="kept-title" tabindex="-1">"Kept in this browser"</h2>
            <Show when=move || any.get() fallback=move || view! { <p class="muted" data-testid="kept-none">{move || if live.kept.read().is_some() { "Nothing yet." } else { "Asking …" }}</p> }>
                <div class="scroll"><table class="tbl"><thead><tr><th>"model"</th><th class="t">"package"</th><th>"size"</th><th>"pieces"</th><th class="t">"checked"</th><th class="t">"last used"</th><th><span class="vh">"what to do"</span></th></tr></thead>
                    <tbody><For each=models key=|model| format!("{model:?}") children=move |model| view! { <Row model/> }/></tbody>
                </table></div>
            </Show>
            <p class="muted" data-testid="storage">{storage}</p>
        </section>
    }
}

/// The storage in a sentence.
fn storage(storage: &Result<Storage, String>) -> String {
    match storage {
        Ok(Storage {
            used,
            quota,
            persistent,
        }) => format!(
            "{} used of {} that this browser offers this site. {}",
            words::bytes(*used),
            words::bytes(*quota),
            if *persistent {
                "It promises not to clear them on its own."
            } else {
                "It may clear them when the disk is short of space."
            }
        ),
        Err(why) => {
            format!("This browser keeps nothing here: {why}. Models are fetched at each visit.")
        }
    }
}

#[component]
fn Row(model: KeptModel) -> impl IntoView {
    let page = page();
    let live = page.live;
    let whole = model.pieces >= model.total_pieces;
    let size = if whole {
        words::bytes(model.bytes)
    } else {
        format!(
            "{} of {}",
            words::bytes(model.bytes),
            words::bytes(model.total_bytes)
        )
    };
    let (checked, class) = match (&model.trouble, whole) {
        (Some(trouble), _) => (trouble.clone(), "t er"),
        (None, true) => ("all pieces".to_owned(), "t ok"),
        (None, false) => ("not all here".to_owned(), "t wn"),
    };
    let usable = model.trouble.is_none();
    let name = model.name.clone();
    let load = {
        let model = model.clone();
        move |sides: Sides, title: &'static str| {
            let asked = model.clone();
            view! {
                <button class="btn quiet" data-testid=format!("kept-{}", title.to_lowercase()) aria-label=format!("Load {} to {}", model.name, super::sides_name(sides)) disabled=move || live.is_busy()
                    on:click=move |_| check(page, &asked, sides)>{title}</button>
            }
        }
    };
    let delete = if whole { "Delete" } else { "Discard" };
    let doomed = model.clone();
    view! {
        <tr data-testid="kept">
            <td><bdi class="name" title=model.origin.clone()>{name}</bdi></td><td class="t"><bdi>{model.label.clone()}</bdi></td><td>{size}</td>
            <td>{format!("{} of {}", model.pieces, model.total_pieces)}</td><td class=class>{checked}</td><td class="t">{words::day(model.last_used)}</td>
            <td class="do">{usable.then(|| view! { <span class="to">{if whole { "Load to" } else { "Go on, to" }}</span>{load(Sides::A, "A")}{load(Sides::B, "B")}{load(Sides::Both, "both")} })}
                <button class="btn quiet er" data-testid="kept-delete" aria-label=format!("{delete} {}", model.name) disabled=move || live.is_busy() on:click=move |_| page.models.confirm.set(Some(doomed.clone()))>{delete}</button></td>
        </tr>
    }
}

/// Checks a kept model, and loads it when nothing speaks against that.
fn check(page: Page, model: &KeptModel, sides: Sides) {
    let mut chosen = Chosen::new(Source::Kept {
        key: model.key.clone(),
    });
    chosen.name = model.name.clone();
    let mut options = page.live.options(&chosen);
    options.keep = true;
    let asked = Asked {
        chosen,
        sides,
        options,
        preset: None,
    };
    super::check(page, asked, None);
}

/// Asks before a model is deleted.
#[component]
pub fn Confirm() -> impl IntoView {
    let page = page();
    let confirm = page.models.confirm;
    let dialog = NodeRef::<Dialog>::new();
    Effect::new(move |_| {
        let Some(dialog) = dialog.get() else { return };
        match (confirm.read().is_some(), dialog.open()) {
            // Fails only for a dialog that is not in the page.
            (true, false) => drop(dialog.show_modal()),
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    let text = move || {
        confirm.get().map(|model| {
            let freed = words::bytes(model.bytes);
            view! {
                <p><bdi>{model.name}</bdi>", "<bdi>{model.label}</bdi>": "{freed}" are freed. To use it again it has to be fetched again, from "<bdi class="mono">{model.origin}</bdi>"."</p>
            }
        })
    };
    let delete = move |_| {
        if let Some(model) = confirm.get_untracked() {
            page.live.delete(model.key);
            confirm.set(None);
            if let Some(title) = dom::find("#kept-title") {
                dom::focus(&title);
            }
        }
    };
    view! {
        <dialog class="help ask-first" node_ref=dialog aria-labelledby="confirm-title" on:close=move |_| confirm.set(None)>
            <div class="bar"><h2 id="confirm-title">"Delete this model?"</h2></div>
            <div class="ask-body">{text}<div class="acts"><button class="btn stop" data-testid="confirm-delete" on:click=delete>"Delete"</button><button class="btn" autofocus on:click=move |_| confirm.set(None)>"Keep it"</button></div></div>
        </dialog>
    }
}
