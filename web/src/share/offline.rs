//! The service worker, which keeps the page for use without a network. It is asked for once the page is
//! there and has nothing else to do.

use crate::share::{Share, save};
use crate::state::Page;
use js_sys::Reflect;
use leptos::prelude::*;
use leptos::task::spawn_local;
use std::time::Duration;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen_futures::JsFuture;
use web_sys::{ServiceWorkerContainer, ServiceWorkerRegistration, ServiceWorkerState};

const SCRIPT: &str = "sw.js";
/// After the page is loaded: time for the tokenizer, the samples and the first look.
const PAUSE: Duration = Duration::from_millis(1500);

/// Browsers offer it on https and on this machine only.
fn container() -> Option<ServiceWorkerContainer> {
    let navigator = window().navigator();
    Reflect::get(&navigator, &"serviceWorker".into())
        .ok()?
        .dyn_into()
        .ok()
}

/// Has the browser keep the page for later, and tells when a newer version of it is there.
pub fn register(share: Share) {
    let Some(container) = container() else { return };
    let ask = move || {
        let container = container.clone();
        spawn_local(async move {
            // Refused, as in private windows of some browsers: the page then needs the network.
            let Ok(found) = JsFuture::from(container.register(SCRIPT)).await else {
                return;
            };
            if let Ok(registration) = found.dyn_into::<ServiceWorkerRegistration>() {
                follow(share, &container, registration);
            }
        });
    };
    set_timeout(ask, PAUSE);
}

fn follow(share: Share, container: &ServiceWorkerContainer, found: ServiceWorkerRegistration) {
    // Without a controller this is the first visit, and what arrives is the version that is shown.
    let controlled = {
        let container = container.clone();
        move || container.controller().is_some()
    };
    if found.waiting().is_some() && controlled() {
        share.newer.set(true);
    }
    let registration = found.clone();
    let arrives = Closure::<dyn FnMut()>::new(move || {
        let Some(worker) = registration.installing() else {
            return;
        };
        let controlled = controlled.clone();
        let changing = worker.clone();
        let changes = Closure::<dyn FnMut()>::new(move || {
            if changing.state() == ServiceWorkerState::Installed && controlled() {
                share.newer.set(true);
            }
        });
        worker.set_onstatechange(Some(changes.as_ref().unchecked_ref()));
        // It lasts as long as the page.
        changes.forget();
    });
    found.set_onupdatefound(Some(arrives.as_ref().unchecked_ref()));
    arrives.forget();
}

/// Loads the page again in its newer version. The work is kept before and restored after.
pub fn use_newer(page: Page) {
    save(page);
    let _ = window().location().reload();
}
