//! Letting the event loop run between pieces of work, so that a request to stop is heard even where
//! the work itself never waits.

use web_time::{Duration, Instant};

/// How long the event loop may wait.
const PATIENCE: Duration = Duration::from_millis(15);

/// When the event loop last ran.
#[derive(Debug)]
pub(super) struct Pauses {
    last: Instant,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Lets the event loop run, if it has waited for long.
    pub(super) async fn breathe(&mut self) {
        if self.last.elapsed() >= PATIENCE {
            turn().await;
            self.last = Instant::now();
        }
    }
}

/// One turn of the event loop. A message to oneself takes its place behind those that wait; a timer
/// would be held back by the browser for some milliseconds.
#[cfg(target_arch = "wasm32")]
async fn turn() {
    let channel = browser::MessageChannel::new();
    let message = js_sys::Promise::new(&mut |resolve, _| {
        channel.port1().set_onmessage(Some(&resolve));
    });
    channel
        .port2()
        .post_message(&wasm_bindgen::JsValue::UNDEFINED);
    // The promise is only ever kept.
    let _ = wasm_bindgen_futures::JsFuture::from(message).await;
    channel.port1().close();
}

#[cfg(not(target_arch = "wasm32"))]
async fn turn() {}

/// The few functions of the browser that are needed here. One more feature of `web-sys`, on which
/// `wgpu` is built too, would mean another build of burn.
#[cfg(target_arch = "wasm32")]
mod browser {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        pub type MessageChannel;
        #[wasm_bindgen(constructor)]
        pub fn new() -> MessageChannel;
        #[wasm_bindgen(method, getter)]
        pub fn port1(this: &MessageChannel) -> MessagePort;
        #[wasm_bindgen(method, getter)]
        pub fn port2(this: &MessageChannel) -> MessagePort;

        pub type MessagePort;
        #[wasm_bindgen(method, setter)]
        pub fn set_onmessage(this: &MessagePort, heard: Option<&js_sys::Function>);
        #[wasm_bindgen(method, js_name = postMessage)]
        pub fn post_message(this: &MessagePort, message: &JsValue);
        #[wasm_bindgen(method)]
        pub fn close(this: &MessagePort);
    }
}
