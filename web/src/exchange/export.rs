//! The forms of a trajectory, each to copy and to download.

use crate::state::page;
use crate::words;
use formats::exchange::Export;
use js_sys::Array;
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, BlobPropertyBag, HtmlAnchorElement, Url};

/// How long the browser is given to begin a download before its address goes, in milliseconds.
const LINGER: u64 = 10_000;

/// Hands a text to the browser as a file.
fn download(name: &str, media_type: &str, text: &str) -> Result<(), JsValue> {
    let parts = Array::of1(&text.into());
    let options = BlobPropertyBag::new();
    options.set_type(&format!("{media_type};charset=utf-8"));
    let blob = Blob::new_with_str_sequence_and_options(&parts, &options)?;
    let address = Url::create_object_url_with_blob(&blob)?;
    let link: HtmlAnchorElement = document().create_element("a")?.unchecked_into();
    link.set_href(&address);
    link.set_download(name);
    link.click();
    set_timeout(
        move || drop(Url::revoke_object_url(&address)),
        std::time::Duration::from_millis(LINGER),
    );
    Ok(())
}

/// Puts a text on the clipboard, if there is one: pages that did not come over a safe connection have none.
async fn copy(text: String) -> Result<(), ()> {
    let navigator = window().navigator();
    let there = js_sys::Reflect::get(&navigator, &"clipboard".into());
    if there.map_or(true, |clipboard| clipboard.is_undefined()) {
        return Err(());
    }
    let written = JsFuture::from(navigator.clipboard().write_text(&text)).await;
    written.map(drop).map_err(drop)
}

/// The list of forms.
#[component]
pub fn ExportList() -> impl IntoView {
    let page = page();
    let done = RwSignal::new(None::<(Export, &'static str)>);
    let row = move |form: Export| {
        let trajectory = page.trajectory.get_untracked();
        let written = form.write(&trajectory);
        let says = match &written {
            Ok(text) => words::bytes(text.len() as u64),
            Err(error) => error.to_string(),
        };
        let failed = written.is_err();
        let text = StoredValue::new(written.unwrap_or_default());
        let to_clipboard = move |_| {
            spawn_local(async move {
                let said = match copy(text.get_value()).await {
                    Ok(()) => "copied",
                    Err(()) => "the browser refused the clipboard; download it instead",
                };
                done.set(Some((form, said)));
                page.spoken.set(format!("{}: {said}", form.title()));
            });
        };
        let to_file = move |_| {
            let name = format!("trajectory.{}", form.ending());
            let said = match text.with_value(|text| download(&name, form.media_type(), text)) {
                Ok(()) => "downloaded",
                Err(_) => "the browser refused the download",
            };
            done.set(Some((form, said)));
            page.spoken.set(format!("{}: {said}", form.title()));
        };
        let state = move || match done.get() {
            Some((last, said)) if last == form => said.to_owned(),
            _ => says.clone(),
        };
        view! {
            <li class:failed=failed data-form=form.key()>
                <span class="form"><b>{form.title()}</b><span class="muted">{state}</span></span>
                <button class="btn" aria-label=format!("Copy {}", form.title()) disabled=failed on:click=to_clipboard>"Copy"</button>
                <button class="btn" aria-label=format!("Download {}", form.title()) disabled=failed on:click=to_file>"Download"</button>
            </li>
        }
    };
    view! {
        <ul class="forms">{Export::ALL.map(row).collect_view()}</ul>
        <p class="muted small">"Frames and rows come back as they are. Raw wire does not say which markers content only spells; messages hold no ends of turns, beliefs, plans or rewards."</p>
    }
}
