//! The Web Worker shell around `crates/engine`: takes requests from the page, one after the other,
//! and posts events back.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;
use std::rc::Rc;

use engine::protocol::{Event, Failure, FailureKind, Processor, Request};
use engine::runtime::{Backend, Engine, Order, StopFlag, backend};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use js_sys::{Array, Reflect};
use serde::Serialize;
use wasm_bindgen::prelude::*;
use web_sys::{Blob, DedicatedWorkerGlobalScope, MessageEvent};
use weights::source::AbortHandle;

use self::models::{Models, Place};

#[cfg(feature = "check")]
mod check;
mod delegate;
mod files;
mod models;

/// What this build's models run on.
#[cfg(feature = "gpu")]
type Backing = backend::Gpu;
/// What this build's models run on.
#[cfg(not(feature = "gpu"))]
type Backing = backend::Cpu;

/// A request and the handles of its local files.
type Posted = (Request, Vec<Blob>);

/// Figures that make a small model go the ways of a large one, for tests and demonstrations.
#[wasm_bindgen]
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    piece: Option<f64>,
    binding: Option<f64>,
}

#[wasm_bindgen]
impl Limits {
    /// Bytes of a piece of a model, and most bytes that the GPU binds at once; unset is as usual.
    #[wasm_bindgen(constructor)]
    pub fn new(piece: Option<f64>, binding: Option<f64>) -> Self {
        Self { piece, binding }
    }
}

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
pub fn start(early: Array, limits: Limits) {
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
                let files = Reflect::get(&data, &"files".into()).ok();
                let files = files.and_then(|files| files.dyn_into::<Array>().ok());
                let files = files.iter().flat_map(Array::iter);
                let files = files.filter_map(|file| file.dyn_into().ok()).collect();
                // The receiver lives as long as the worker.
                let _ = sender.unbounded_send((request, files));
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

    wasm_bindgen_futures::spawn_local(answer(receiver, stop, download, limits));
    post(&Event::Ready);
}

/// Answers requests one after the other.
async fn answer(
    mut requests: UnboundedReceiver<Posted>,
    stop: StopFlag,
    download: Rc<RefCell<Option<AbortHandle>>>,
    limits: Limits,
) {
    let mut engine = Engine::<Backing>::new(stop.clone());
    if let Some(bytes) = limits.binding {
        engine.limit_binding(bytes as u64);
    }
    let piece = limits.piece.map(|bytes| bytes as u64);
    let mut models = Models::new(stop.clone(), download, piece).await;
    while let Some((request, files)) = requests.next().await {
        stop.lower();
        let job = match request {
            Request::Generate { job, .. } => Some(job),
            _ => None,
        };
        if let Err(failure) = carry_out(&mut engine, &mut models, request, files).await {
            post(&Event::Failed { job, failure });
        }
    }
}

async fn carry_out<B: Backend>(
    engine: &mut Engine<B>,
    models: &mut Models,
    request: Request,
    files: Vec<Blob>,
) -> Result<(), Failure> {
    match request {
        Request::Probe => {
            let processor = ready(engine).await?;
            post(&Event::Processor { processor });
        }
        Request::Check {
            source,
            sides,
            options,
        } => {
            ready(engine).await?;
            let place = Place {
                source,
                files,
                sides,
                options,
            };
            post(&models.check(engine, &place).await?);
        }
        Request::Load {
            source,
            sides,
            options,
        } => {
            ready(engine).await?;
            let place = Place {
                source,
                files,
                sides,
                options,
            };
            post(&models.load(engine, place).await?);
        }
        Request::Generate {
            job,
            side,
            prompt,
            sampling,
            max_tokens,
            stops,
            alternatives,
        } => {
            models.fetch_back(engine, side).await?;
            let order = Order {
                job,
                side,
                prompt: &prompt,
                sampling: &sampling,
                max_tokens,
                stops: &stops,
                alternatives,
            };
            engine.generate(&order, &|event| post(&event)).await?;
        }
        Request::Measure {
            side,
            prompt_tokens,
            decode_tokens,
        } => {
            let measures = engine.measure(side, prompt_tokens, decode_tokens).await?;
            post(&Event::Measured { measures });
        }
        Request::Unload { sides } => {
            models.unload(engine, sides);
            post(&Event::Unloaded { sides });
        }
        Request::List => post(&models.list().await),
        Request::Delete { key } => post(&models.delete(&key).await?),
        Request::Stop => {}
    }
    Ok(())
}

async fn ready<B: Backend>(engine: &mut Engine<B>) -> Result<Processor, Failure> {
    #[cfg(feature = "gpu")]
    webgpu_present()?;
    engine.probe().await
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
