//! The worker that runs the engine, and what its events change.

use super::processor::{self, Choice, Gpu, Kind};
use super::{Live, Model, Progress, Run, Seen, Written};
use crate::document::Side;
use crate::dom;
use crate::words;
use engine::protocol::{Event, Failure, FailureKind, Request};
use leptos::prelude::*;
use serde::Serialize;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_sys::{ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};

/// The worker. Requests made before it is ready wait here.
#[derive(Default)]
pub struct Connection {
    /// None while the browser is asked for its GPU.
    program: Option<Program>,
    ready: bool,
    waiting: Vec<JsValue>,
}

struct Program {
    worker: Worker,
    kind: Kind,
    _on_message: Closure<dyn Fn(MessageEvent)>,
    _on_error: Closure<dyn Fn(ErrorEvent)>,
}

/// Milliseconds since the page began.
pub fn now() -> f64 {
    js_sys::Date::now()
}

impl Live {
    /// Sends a request; starts the worker if it is not there.
    pub(super) fn post(self, request: &Request, file: Option<web_sys::File>) {
        let message = match message(request, file) {
            Ok(message) => message,
            Err(error) => return self.broken(format!("a request could not be written: {error}")),
        };
        if self.connection.with_value(Option::is_none) {
            self.connection.set_value(Some(Connection::default()));
            spawn_local(self.start());
        }
        self.connection.update_value(|connection| {
            let Some(connection) = connection else { return };
            match &connection.program {
                // Fails only for values that cannot be cloned; ours are plain data and a file.
                Some(program) if connection.ready => drop(program.worker.post_message(&message)),
                _ => connection.waiting.push(message),
            }
        });
    }

    /// Finds out what to run on and starts the worker for it.
    async fn start(self) {
        let choice = self.choice.get_untracked();
        let program = match self.wanted().await {
            Ok(kind) => self.program(kind),
            // What was chosen meanwhile starts anew, and is not to blame.
            Err(_) if self.choice.get_untracked() != choice => return,
            Err(failure) => return self.lost(failure),
        };
        match program {
            Ok(program) => self.connection.update_value(|connection| {
                // The choice may have changed meanwhile, and another start been first.
                if let Some(connection) = connection
                    && connection.program.is_none()
                {
                    connection.program = Some(program);
                } else {
                    program.worker.terminate();
                }
            }),
            Err(error) => self.broken(error),
        }
    }

    /// Which engine the choice leads to.
    async fn wanted(self) -> Result<Kind, Failure> {
        let choice = self.choice.get_untracked();
        if choice == Choice::Cpu {
            return Ok(Kind::Cpu);
        }
        // What is missing stays so for this visit; a GPU may go.
        let gpu = match self.gpu.get_untracked() {
            Some(missing @ Gpu::Missing(_)) => missing,
            _ => processor::probe().await,
        };
        self.gpu.set(Some(gpu.clone()));
        processor::kind(self.choice.get_untracked(), &gpu)
    }

    /// Changes what models are to run on; a loaded one is loaded again where that is another engine.
    pub fn choose(self, choice: Choice) {
        choice.keep();
        self.choice.set(choice);
        spawn_local(async move {
            let wanted = self.wanted().await;
            let running = self.connection.with_value(|connection| {
                let program = connection.as_ref()?.program.as_ref()?;
                Some(program.kind)
            });
            if self.choice.get_untracked() == choice && (wanted.is_err() || wanted.ok() != running)
            {
                self.restart();
            }
        });
    }

    /// Starts the engine anew, with the model that was there or that only lacked a processor.
    fn restart(self) {
        let lacked = self.failure.with_untracked(|failure| {
            failure
                .as_ref()
                .is_some_and(|f| f.kind == FailureKind::NoGpu)
        });
        let model = *self.model.read_untracked() != Model::None
            || lacked && self.chosen.with_untracked(Option::is_some);
        self.end();
        self.failure.set(None);
        if model {
            self.load_again();
        } else {
            self.wake();
        }
    }

    fn program(self, kind: Kind) -> Result<Program, String> {
        let url = dom::setting("data-worker-js").unwrap_or_default() + kind.query();
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        let worker = Worker::new_with_options(&url, &options)
            .map_err(|error| format!("the engine's worker could not be started: {error:?}"))?;
        let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| {
            match serde_wasm_bindgen::from_value::<Event>(event.data()) {
                Ok(event) => self.heard(event),
                Err(error) => self.broken(format!("the engine said something unknown: {error}")),
            }
        });
        let on_error = Closure::<dyn Fn(ErrorEvent)>::new(move |event: ErrorEvent| {
            event.prevent_default();
            // A worker whose script could not be fetched reports no message.
            let message = js_sys::Reflect::get(&event, &"message".into())
                .ok()
                .and_then(|message| message.as_string())
                .unwrap_or_else(|| "its program could not be loaded".to_owned());
            self.broken(format!("the engine's worker failed: {message}"));
        });
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        Ok(Program {
            worker,
            kind,
            _on_message: on_message,
            _on_error: on_error,
        })
    }

    /// The engine's worker is of no more use.
    fn broken(self, message: String) {
        self.lost(Failure {
            kind: FailureKind::Internal,
            message,
            advice: "Load the model again. If that does not help, load the page again.".to_owned(),
        });
    }

    /// Ends the worker: what ran has failed, and the next request starts a new one.
    fn lost(self, failure: Failure) {
        self.end();
        for side in self.sides {
            if matches!(side.run.get_untracked(), Run::Going(_)) {
                side.run.set(Run::Idle);
                side.failure.set(Some(failure.clone()));
            }
        }
        self.failure.set(Some(failure));
    }

    /// Ends the worker, and with it the model.
    fn end(self) {
        // The closures of the old worker may be what calls this, so they are dropped later.
        if let Some(old) = self.connection.try_update_value(Option::take).flatten() {
            if let Some(program) = &old.program {
                program.worker.terminate();
            }
            set_timeout(move || drop(old), std::time::Duration::ZERO);
        }
        self.processor.set(None);
        self.model.set(Model::None);
        self.gpu_lost.set(false);
        self.reloading.set(None);
    }

    fn heard(self, event: Event) {
        match event {
            Event::Ready => self.connection.update_value(|connection| {
                let Some(connection) = connection else { return };
                let Some(program) = &connection.program else {
                    return;
                };
                connection.ready = true;
                for message in connection.waiting.drain(..) {
                    let _ = program.worker.post_message(&message);
                }
            }),
            Event::Processor { processor } => self.processor.set(Some(processor)),
            Event::Progress {
                stage,
                done,
                total,
                seconds,
            } => {
                let now = Progress {
                    stage,
                    done,
                    total,
                    seconds,
                };
                if *self.model.read_untracked() == Model::None {
                    return;
                }
                if self.is_loading() {
                    self.model.update(|model| {
                        if let Model::Loading(_, progress) = model {
                            *progress = now;
                        }
                    });
                } else {
                    self.reloading.set(Some(now));
                }
            }
            Event::Loaded { model } => {
                self.failure.set(None);
                self.found();
                self.processor.set(Some(model.processor.clone()));
                self.spoken.set(format!("{} is ready.", model.name));
                self.model.set(Model::Ready(Box::new(model)));
            }
            Event::Prompt {
                job,
                ids,
                pieces,
                reused,
            } => {
                self.found();
                if let Some(side) = self.of_job(job) {
                    let side = self.side(side);
                    side.stats
                        .update(|stats| stats.prompt_tokens = ids.len() as u32);
                    side.seen.set(Seen {
                        tokens: ids.into_iter().zip(pieces).collect(),
                        reused,
                    });
                }
            }
            Event::Token {
                job,
                id,
                text,
                special,
                rate,
                outlook: _,
            } => {
                if let Some(side) = self.of_job(job) {
                    let side = self.side(side);
                    side.stats.update(|stats| {
                        if stats.new_tokens == 0 {
                            stats.first_token_seconds =
                                (now() - side.started.get_untracked()) / 1e3;
                        }
                        stats.new_tokens += 1;
                        stats.tokens_per_second = rate;
                    });
                    side.written
                        .update(|written| written.push(Written { id, text, special }));
                }
            }
            Event::Finished { job, reason, stats } => {
                if let Some(side) = self.of_job(job) {
                    self.spoken.set(format!(
                        "Side {}: {} written, {}.",
                        side.plate(),
                        words::count(stats.new_tokens as usize, "token"),
                        words::stop_reason(reason)
                    ));
                    let side = self.side(side);
                    side.stats.set(stats);
                    side.run.set(Run::Done(reason));
                }
            }
            Event::Unloaded => {
                self.model.set(Model::None);
                self.chosen.set(None);
            }
            // Nothing here asks for it.
            Event::Measured { .. } => {}
            Event::Failed { job, failure } => self.failed(job, failure),
        }
    }

    fn failed(self, job: Option<u32>, failure: Failure) {
        if job.is_none() && failure.kind == FailureKind::NoGpu && self.may_do_without_gpu() {
            self.gpu.set(Some(Gpu::Missing(failure)));
            return self.restart();
        }
        // A worker that never got ready, or whose program broke down, answers nothing any more.
        if failure.kind == FailureKind::Internal && job.is_none() || !self.is_ready() {
            return self.lost(failure);
        }
        if self.reloading.with_untracked(Option::is_some) {
            // The load that a lost GPU made necessary.
            self.reloading.set(None);
            self.gpu_lost.set(false);
            self.model.set(Model::None);
            self.failure.set(Some(failure.clone()));
        } else if failure.kind == FailureKind::Device
            && matches!(*self.model.read_untracked(), Model::Ready(_))
        {
            // The engine keeps what it needs to load the model again.
            self.gpu_lost.set(true);
        }
        match job.and_then(|job| self.of_job(job)) {
            Some(side) => {
                let side = self.side(side);
                side.run.set(Run::Idle);
                side.failure.set(Some(failure));
            }
            None => {
                if self.is_loading() {
                    self.model.set(Model::None);
                }
                self.failure.set(Some(failure));
            }
        }
    }

    /// The model is there, again.
    fn found(self) {
        if self.gpu_lost.get_untracked() {
            self.gpu_lost.set(false);
        }
        if self.reloading.with_untracked(Option::is_some) {
            self.reloading.set(None);
        }
    }

    /// Whether the engine for the GPU runs although nobody insists on it.
    fn may_do_without_gpu(self) -> bool {
        let on_gpu = self.connection.with_value(|connection| {
            let program = connection.as_ref().and_then(|c| c.program.as_ref());
            program.is_some_and(|program| program.kind == Kind::Gpu)
        });
        on_gpu && self.choice.get_untracked() == Choice::Automatic
    }

    fn is_loading(self) -> bool {
        matches!(*self.model.read_untracked(), Model::Loading(..))
    }

    fn is_ready(self) -> bool {
        self.connection
            .with_value(|connection| connection.as_ref().is_some_and(|c| c.ready))
    }

    /// The side that runs this job. Answers to jobs of the past are of no interest.
    fn of_job(self, job: u32) -> Option<Side> {
        Side::BOTH
            .into_iter()
            .find(|&side| self.side(side).run.get_untracked() == Run::Going(job))
    }
}

fn message(
    request: &Request,
    file: Option<web_sys::File>,
) -> Result<JsValue, serde_wasm_bindgen::Error> {
    let message = request.serialize(&serde_wasm_bindgen::Serializer::json_compatible())?;
    if let Some(file) = file {
        js_sys::Reflect::set(&message, &"file".into(), &file)?;
    }
    Ok(message)
}
