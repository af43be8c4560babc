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
use web_sys::{
    ServiceWorker, ServiceWorkerContainer, ServiceWorkerRegistration, ServiceWorkerState,
};

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
    if container.controller().is_none() {
        return;
    }
    if found.waiting().is_some() {
        share.newer.set(true);
    }
    // One may be on its way already.
    if let Some(worker) = found.installing() {
        await_arrival(share, worker);
    }
    let registration = found.clone();
    let arrives = Closure::<dyn FnMut()>::new(move || {
        if let Some(worker) = registration.installing() {
            await_arrival(share, worker);
        }
    });
    found.set_onupdatefound(Some(arrives.as_ref().unchecked_ref()));
    // It lasts as long as the page.
    arrives.forget();
    // Browsers look for a newer version in their own time; here the page is idle.
    spawn_local(async move {
        if let Ok(looked) = found.update() {
            // Refused without a network: the next load looks again.
            let _ = JsFuture::from(looked).await;
        }
    });
}

/// Says so once this version is there as a whole.
fn await_arrival(share: Share, worker: ServiceWorker) {
    let arriving = worker.clone();
    let changes = Closure::<dyn FnMut()>::new(move || {
        if arriving.state() == ServiceWorkerState::Installed {
            share.newer.set(true);
        }
    });
    worker.set_onstatechange(Some(changes.as_ref().unchecked_ref()));
    changes.forget();
}

/// Loads the page again in its newer version. The work is kept before and restored after.
pub fn use_newer(page: Page) {
    save(page);
    let _ = window().location().reload();
}
