//! A model of one's own: by address, by name, by file.

use crate::live::{Asked, Chosen, address};
use crate::state::{Page, page};
use engine::protocol::{Sides, Token};
use leptos::ev::SubmitEvent;
use leptos::html::Input;
use leptos::prelude::*;

/// Checks a model that was named or picked. It is for both sides until the user says otherwise.
pub fn check(page: Page, chosen: Chosen) {
    let state = page.models;
    if untrack(|| page.live.is_busy()) {
        let why = "The engine is at work: wait for it or stop it, and then choose the model again.";
        return state.wrong.set(Some(why.to_owned()));
    }
    state.wrong.set(None);
    let options = page.live.options(&chosen);
    let asked = Asked {
        chosen,
        sides: Sides::Both,
        options,
        preset: None,
    };
    super::check(page, asked, None);
}

/// The field, the pickers, the token.
#[component]
pub fn Own() -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = page.models;
    let busy = move || live.is_busy();
    let submit = move |event: SubmitEvent| {
        event.prevent_default();
        let token = state.token.get_untracked();
        let token = (!token.trim().is_empty()).then(|| Token(token.trim().to_owned()));
        match address(&live.url.get_untracked(), token) {
            Ok(source) => check(page, Chosen::new(source)),
            Err(message) => state.wrong.set(Some(message)),
        }
    };
    let pick = move |input: NodeRef<Input>| {
        if let Some(input) = input.get_untracked() {
            if let Some(chosen) = Chosen::from_list(input.files()) {
                check(page, chosen);
            }
            // The same files may be chosen again after a failure.
            input.set_value("");
        }
    };
    let (file, folder) = (NodeRef::<Input>::new(), NodeRef::<Input>::new());
    Effect::new(move |_| {
        if let Some(folder) = folder.get() {
            // An attribute of this name is always possible.
            let _ = folder.set_attribute("webkitdirectory", "");
        }
    });
    view! {
        <section class="drop" aria-label="Your own model">
            <form class="get" on:submit=submit>
                <input class="field" type="text" inputmode="url" autocomplete="off" spellcheck="false" data-testid="own-address" aria-label="Address of a model, or its name on Hugging Face"
                    placeholder="https://…/model.gguf, model.json, or owner/name on Hugging Face" prop:value=move || live.url.get() on:input=move |event| live.url.set(event_target_value(&event))/>
                <button class="btn" type="submit" data-testid="own-check" disabled=move || busy() || live.url.read().trim().is_empty()>"Check"</button>
            </form>
            <label class="btn" class:off=busy>"Choose file"<input class="vh" type="file" multiple accept=".gguf,.json,.safetensors" data-testid="own-file" node_ref=file disabled=busy on:change=move |_| pick(file)/></label>
            <label class="btn" class:off=busy>"Choose folder"<input class="vh" type="file" data-testid="own-folder" node_ref=folder disabled=busy on:change=move |_| pick(folder)/></label>
            {move || state.wrong.get().map(|text| view! { <p class="note bad" role="alert">{text}</p> })}
            <p class="muted">"Or drop a GGUF file, a safetensors folder or our shards anywhere in this room. Files never leave this device."</p>
            <details class="token"><summary>"Access token, for repositories that ask for one"</summary>
                <input class="field" type="password" autocomplete="off" spellcheck="false" data-testid="token" aria-label="Access token" prop:value=move || state.token.get() on:input=move |event| state.token.set(event_target_value(&event))/>
                <p class="muted">"It is sent to the model’s own address and to no other, kept in memory only, and gone when this page is closed."</p>
            </details>
        </section>
    }
}
