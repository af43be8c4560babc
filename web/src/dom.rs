//! The few browser calls that Leptos has no name for.

use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, EventTarget, HtmlElement};

/// The element an event came from.
pub fn element(target: Option<EventTarget>) -> Option<Element> {
    target?.dyn_into().ok()
}

/// The nearest element around one, itself included, that has this selector.
pub fn closest(element: &Element, selector: &str) -> Option<Element> {
    element.closest(selector).ok().flatten()
}

/// A number in an attribute.
pub fn number(element: &Element, attribute: &str) -> Option<usize> {
    element.get_attribute(attribute)?.parse().ok()
}

/// The first element of the page with this selector.
pub fn find(selector: &str) -> Option<Element> {
    document().query_selector(selector).ok().flatten()
}

/// All elements of the page with this selector.
pub fn find_all(selector: &str) -> Vec<Element> {
    elements(document().query_selector_all(selector))
}

/// All elements within one with this selector.
pub fn all_in(element: &Element, selector: &str) -> Vec<Element> {
    elements(element.query_selector_all(selector))
}

fn elements(found: Result<web_sys::NodeList, wasm_bindgen::JsValue>) -> Vec<Element> {
    let Ok(list) = found else {
        return Vec::new();
    };
    (0..list.length())
        .filter_map(|at| list.item(at)?.dyn_into().ok())
        .collect()
}

/// Gives an element the focus.
pub fn focus(element: &Element) {
    if let Some(element) = element.dyn_ref::<HtmlElement>() {
        // An element that cannot take the focus leaves it where it is.
        let _ = element.focus();
    }
}

/// Scrolls as little as needed for an element to be seen.
pub fn reveal(element: &Element) {
    let options = web_sys::ScrollIntoViewOptions::new();
    options.set_block(web_sys::ScrollLogicalPosition::Nearest);
    options.set_inline(web_sys::ScrollLogicalPosition::Nearest);
    element.scroll_into_view_with_scroll_into_view_options(&options);
}

/// Whether keys typed into this element are text.
pub fn takes_text(element: &Element) -> bool {
    matches!(element.tag_name().as_str(), "INPUT" | "TEXTAREA" | "SELECT")
}

/// A data attribute of the page's body.
pub fn setting(name: &str) -> Option<String> {
    document().body()?.get_attribute(name)
}

/// Whether the narrow layout is in force.
pub fn is_narrow() -> bool {
    window()
        .match_media("(max-width:56.25em)")
        .ok()
        .flatten()
        .is_some_and(|query| query.matches())
}

/// What the page kept under a name at an earlier visit.
pub fn kept(name: &str) -> Option<String> {
    let storage = window().local_storage().ok().flatten()?;
    storage.get_item(name).ok().flatten()
}

/// Keeps a value for later visits, or forgets it. Where storage is refused it lasts as long as the page.
pub fn keep(name: &str, value: Option<&str>) {
    if let Some(storage) = window().local_storage().ok().flatten() {
        let _ = match value {
            Some(value) => storage.set_item(name, value),
            None => storage.remove_item(name),
        };
    }
}
