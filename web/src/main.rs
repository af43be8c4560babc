//! The page: shows and asks. What it shows comes from `formats` and `tokens`; what it asks goes to
//! the engine's worker.

mod about;
mod address;
mod app;
mod controls;
mod costs;
mod document;
mod dom;
mod editor;
mod exchange;
mod help;
mod highlight;
mod history;
mod icons;
mod inspector;
mod keys;
mod lessons;
mod live;
mod models;
mod pieces;
mod pointing;
mod rows;
mod samples;
mod share;
mod sides;
mod state;
mod top;
mod wires;
mod words;

use leptos::prelude::*;
use wasm_bindgen::JsCast;

fn main() {
    console_error_panic_hook::set_once();
    let Some(place) = document()
        .get_element_by_id("app")
        .and_then(|place| place.dyn_into::<web_sys::HtmlElement>().ok())
    else {
        return;
    };
    // The first paint has done its work.
    place.set_text_content(None);
    leptos::mount::mount_to(place, app::App).forget();
}
