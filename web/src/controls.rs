//! Small controls.

use crate::dom;
use leptos::ev::KeyboardEvent;
use leptos::prelude::*;

/// A switch.
#[component]
pub fn Switch(
    label: &'static str,
    title: &'static str,
    value: RwSignal<bool>,
    #[prop(optional, into)] disabled: Signal<bool>,
) -> impl IntoView {
    view! {
        <button class="sw" role="switch" title=title disabled=move || disabled.get() aria-checked=move || value.get().to_string()
            on:click=move |_| value.update(|value| *value = !*value)><i></i>{label}</button>
    }
}

/// A switch whose value is kept elsewhere.
#[component]
pub fn Toggle<G, S>(
    label: &'static str,
    title: &'static str,
    value: G,
    set: S,
    #[prop(optional, into)] disabled: Signal<bool>,
) -> impl IntoView
where
    G: Fn() -> bool + Copy + Send + Sync + 'static,
    S: Fn(bool) + 'static,
{
    view! {
        <button class="sw" type="button" role="switch" title=title disabled=move || disabled.get() aria-checked=move || value().to_string()
            on:click=move |_| set(!untrack(value))><i></i>{label}</button>
    }
}

/// Arrow keys within a list of tabs.
pub fn tab_keys(event: KeyboardEvent) {
    let forward = match event.key().as_str() {
        "ArrowRight" | "ArrowDown" => true,
        "ArrowLeft" | "ArrowUp" => false,
        _ => return,
    };
    let Some(tab) = dom::element(event.target()) else {
        return;
    };
    let next = if forward {
        tab.next_element_sibling()
    } else {
        tab.previous_element_sibling()
    };
    if let Some(next) = next {
        event.prevent_default();
        event.stop_propagation();
        dom::focus(&next);
        if let Some(next) = wasm_bindgen::JsCast::dyn_ref::<web_sys::HtmlElement>(&next) {
            next.click();
        }
    }
}
