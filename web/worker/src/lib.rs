//! The Web Worker shell around `crates/engine`: takes requests from the page, one after the other,
//! and posts events back.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;
use std::rc::Rc;

use engine::protocol::{Event, Failure, FailureKind, ModelInfo, Processor, Request, Source};
use engine::runtime::{Backend, Engine, Order, StopFlag, backend};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use js_sys::{Array, Reflect};
use serde::Serialize;
use wasm_bindgen::prelude::*;
use web_sys::{Blob, DedicatedWorkerGlobalScope, MessageEvent};
use weights::source::{AbortHandle, BlobSource, HttpSource};

#[cfg(feature = "check")]
mod check;

/// What this build's models run on.
#[cfg(feature = "gpu")]
type Backing = backend::Gpu;
/// What this build's models run on.
#[cfg(not(feature = "gpu"))]
type Backing = backend::Cpu;

/// A request and, for a local file, its handle.
type Posted = (Request, Option<Blob>);

#[expect(
    unsafe_code,
    reason = "the linker's own symbol can only be declared as foreign"
)]
#[cfg(feature = "gpu")]
mod constructors {
    unsafe extern "C" {
        fn __wasm_call_ctors();
    }

    /// Runs the static constructors that cubecl's compiler registers its parts with.
    ///
    /// A module that never calls them itself is linked as a command: every exported function is then
    /// wrapped to run all of them before and after, thousands of times per generated token.
    pub fn run() {
        // SAFETY: called once, before anything that they set up is used.
        unsafe { __wasm_call_ctors() }
    }
}

/// Starts answering. `early` holds the messages that arrived while this module was loading.
#[wasm_bindgen]
pub fn start(early: Array) {
    #[cfg(feature = "gpu")]
    constructors::run();
    std::panic::set_hook(Box::new(|panic| {
        post(&Event::Failed {
            job: None,
            failure: Failure {
                kind: FailureKind::Internal,
                message: format!("the engine broke down: {panic}"),
                advice: "The engine is started anew with the next load; please report this."
                    .to_owned(),
            },
        });
    }));
    let (sender, receiver) = unbounded::<Posted>();
    let stop = StopFlag::default();
    let download: Rc<RefCell<Option<AbortHandle>>> = Rc::default();

    let receive = {
        let (stop, download) = (stop.clone(), download.clone());
        move |data: JsValue| match serde_wasm_bindgen::from_value::<Request>(data.clone()) {
            // A stop must not wait behind the work that it is meant to end.
            Ok(Request::Stop) => {
                stop.raise();
                if let Some(handle) = download.borrow_mut().take() {
                    handle.abort();
                }
            }
            Ok(request) => {
                let file = Reflect::get(&data, &"file".into())
                    .ok()
                    .and_then(|it| it.dyn_into().ok());
                // The receiver lives as long as the worker.
                let _ = sender.unbounded_send((request, file));
            }
            Err(error) => fail(
                None,
                FailureKind::BadRequest,
                format!("the engine did not understand a request: {error}"),
                "Reload the page: its parts may be of different versions.",
            ),
        }
    };
    early.for_each(&mut |data, _, _| receive(data));
    let on_message =
        Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| receive(event.data()));
    scope().set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();

    wasm_bindgen_futures::spawn_local(answer(receiver, stop, download));
    post(&Event::Ready);
}

/// Answers requests one after the other.
async fn answer(
    mut requests: UnboundedReceiver<Posted>,
    stop: StopFlag,
    download: Rc<RefCell<Option<AbortHandle>>>,
) {
    let mut engine = Engine::<Backing>::new(stop.clone());
    // Where the model came from, to load it again should the processor be lost.
    let mut origin = None;
    while let Some((request, file)) = requests.next().await {
        stop.lower();
        match request {
            Request::Probe => match ready(&mut engine).await {
                Ok(processor) => post(&Event::Processor { processor }),
                Err(failure) => post(&Event::Failed { job: None, failure }),
            },
            Request::Load {
                source,
                context,
                half_cache,
            } => {
                let place = Origin {
                    source,
                    file,
                    context,
                    half_cache,
                };
                match load(&mut engine, &place, &download).await {
                    Ok(model) => post(&Event::Loaded { model }),
                    Err(failure) => post(&Event::Failed { job: None, failure }),
                }
                origin = Some(place);
            }
            Request::Generate {
                job,
                prompt,
                sampling,
                max_tokens,
                alternatives,
            } => {
                let order = Order {
                    job,
                    prompt: &prompt,
                    sampling: &sampling,
                    max_tokens,
                    alternatives,
                };
                if let Err(failure) = generate(&mut engine, &order, &origin, &download).await {
                    post(&Event::Failed {
                        job: Some(job),
                        failure,
                    });
                }
            }
            Request::Measure {
                prompt_tokens,
                decode_tokens,
            } => match engine.measure(prompt_tokens, decode_tokens).await {
                Ok(measures) => post(&Event::Measured { measures }),
                Err(failure) => post(&Event::Failed { job: None, failure }),
            },
            Request::Unload => {
                engine.unload();
                origin = None;
                post(&Event::Unloaded);
            }
            Request::Stop => {}
        }
    }
}

/// Where a model came from.
struct Origin {
    source: Source,
    file: Option<Blob>,
    context: u32,
    half_cache: bool,
}

async fn ready<B: Backend>(engine: &mut Engine<B>) -> Result<Processor, Failure> {
    #[cfg(feature = "gpu")]
    webgpu_present()?;
    engine.probe().await
}

async fn load<B: Backend>(
    engine: &mut Engine<B>,
    place: &Origin,
    download: &RefCell<Option<AbortHandle>>,
) -> Result<ModelInfo, Failure> {
    #[cfg(feature = "gpu")]
    webgpu_present()?;
    let (context, half) = (place.context, place.half_cache);
    let loaded = match (&place.source, &place.file) {
        (Source::Url { url }, _) => {
            let http = HttpSource::new(url.clone());
            *download.borrow_mut() = Some(http.abort_handle());
            engine
                .load(http, context, half, &|event| post(&event))
                .await
        }
        (Source::File { name }, Some(blob)) => {
            let blob = BlobSource::new(name.clone(), blob.clone());
            engine
                .load(blob, context, half, &|event| post(&event))
                .await
        }
        (Source::File { name }, None) => Err(Failure {
            kind: FailureKind::BadRequest,
            message: format!("the file {name} did not reach the engine"),
            advice: "Choose the file again.".to_owned(),
        }),
    };
    download.borrow_mut().take();
    loaded
}

/// Generates; where the model was lost with its processor, loads it again first.
async fn generate<B: Backend>(
    engine: &mut Engine<B>,
    order: &Order<'_>,
    origin: &Option<Origin>,
    download: &RefCell<Option<AbortHandle>>,
) -> Result<(), Failure> {
    if let (true, Some(place)) = (engine.lost_model(), origin) {
        let model = load(engine, place, download).await?;
        post(&Event::Loaded { model });
    }
    engine.generate(order, &|event| post(&event)).await
}

/// Says early, and with its cause, that there is no WebGPU: wgpu's own message names no remedy.
#[cfg(feature = "gpu")]
fn webgpu_present() -> Result<(), Failure> {
    let get = |target: &JsValue, key: &str| {
        Reflect::get(target, &key.into()).unwrap_or(JsValue::UNDEFINED)
    };
    let global: JsValue = scope().into();
    if !get(&get(&global, "navigator"), "gpu").is_undefined() {
        return Ok(());
    }
    let secure = get(&global, "isSecureContext").as_bool().unwrap_or(false);
    let (message, advice) = if secure {
        (
            "this browser offers no WebGPU to web workers",
            "Use Chrome or Edge 113 or newer, Safari 26, or Firefox 141 or newer on Windows, and \
             check that hardware acceleration is on. Everything but generation works without it.",
        )
    } else {
        (
            "WebGPU is only offered to pages from https or from this machine",
            "Open the page by https or from 127.0.0.1. Everything but generation works as it is.",
        )
    };
    Err(Failure {
        kind: FailureKind::NoGpu,
        message: message.to_owned(),
        advice: advice.to_owned(),
    })
}

fn scope() -> DedicatedWorkerGlobalScope {
    js_sys::global().unchecked_into()
}

fn fail(job: Option<u32>, kind: FailureKind, message: String, advice: &str) {
    post(&Event::Failed {
        job,
        failure: Failure {
            kind,
            message,
            advice: advice.to_owned(),
        },
    });
}

fn post(event: &Event) {
    // Events are plain data of this crate's own making; posting them cannot fail.
    if let Ok(value) = event.serialize(&serde_wasm_bindgen::Serializer::new()) {
        let _ = scope().post_message(&value);
    }
}
