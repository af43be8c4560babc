//! The worker that runs the engine, and what its events change.

use super::{Live, Model, Progress, Run, Seen, Written};
use crate::document::Side;
use crate::dom;
use crate::words;
use engine::protocol::{Event, Failure, FailureKind, Request};
use leptos::prelude::*;
use serde::Serialize;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};

/// The running worker. Requests made before it is ready wait here.
pub struct Connection {
    worker: Worker,
    ready: bool,
    waiting: Vec<JsValue>,
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
        if self.connection.with_value(Option::is_none)
            && let Err(error) = self.start()
        {
            return self.broken(error);
        }
        self.connection.update_value(|connection| {
            let Some(connection) = connection else { return };
            if connection.ready {
                // Fails only for values that cannot be cloned; ours are plain data and a file.
                let _ = connection.worker.post_message(&message);
            } else {
                connection.waiting.push(message);
            }
        });
    }

    fn start(self) -> Result<(), String> {
        let url = dom::setting("data-worker-js").unwrap_or_default();
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
        self.connection.set_value(Some(Connection {
            worker,
            ready: false,
            waiting: Vec::new(),
            _on_message: on_message,
            _on_error: on_error,
        }));
        Ok(())
    }

    /// The engine's worker is of no more use.
    fn broken(self, message: String) {
        self.lost(Failure {
            kind: FailureKind::Internal,
            message,
            advice: "Load the model again. If it happens again, load the page again.".to_owned(),
        });
    }

    /// Ends the worker: what ran has failed, and the next request starts a new one.
    fn lost(self, failure: Failure) {
        // The closures of the old worker may be what calls this, so they are dropped later.
        if let Some(old) = self.connection.try_update_value(Option::take).flatten() {
            old.worker.terminate();
            set_timeout(move || drop(old), std::time::Duration::ZERO);
        }
        self.adapter.set(None);
        self.model.set(Model::None);
        for side in self.sides {
            if matches!(side.run.get_untracked(), Run::Going(_)) {
                side.run.set(Run::Idle);
                side.failure.set(Some(failure.clone()));
            }
        }
        self.failure.set(Some(failure));
    }

    fn heard(self, event: Event) {
        match event {
            Event::Ready => self.connection.update_value(|connection| {
                let Some(connection) = connection else { return };
                connection.ready = true;
                for message in connection.waiting.drain(..) {
                    let _ = connection.worker.post_message(&message);
                }
            }),
            Event::Adapter { adapter } => {
                self.failure.update(|failure| {
                    if failure
                        .as_ref()
                        .is_some_and(|f| f.kind == FailureKind::NoGpu)
                    {
                        *failure = None;
                    }
                });
                self.adapter.set(Some(adapter));
            }
            Event::Progress {
                stage,
                done,
                total,
                seconds,
            } => self.model.update(|model| {
                if let Model::Loading(_, progress) = model {
                    *progress = Progress {
                        stage,
                        done,
                        total,
                        seconds,
                    };
                }
            }),
            Event::Loaded { model } => {
                self.failure.set(None);
                self.adapter.set(Some(model.adapter.clone()));
                self.spoken.set(format!("{} is ready.", model.name));
                self.model.set(Model::Ready(Box::new(model)));
            }
            Event::Prompt {
                job,
                ids,
                pieces,
                reused,
            } => {
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
            Event::Unloaded => self.model.set(Model::None),
            // A worker that never got ready, or whose program broke down, answers nothing any more.
            Event::Failed { job: None, failure }
                if failure.kind == FailureKind::Internal || !self.is_ready() =>
            {
                self.lost(failure);
            }
            Event::Failed { job, failure } => match job.and_then(|job| self.of_job(job)) {
                Some(side) => {
                    let side = self.side(side);
                    side.run.set(Run::Idle);
                    side.failure.set(Some(failure));
                }
                None => {
                    if matches!(*self.model.read_untracked(), Model::Loading(..)) {
                        self.model.set(Model::None);
                    }
                    self.failure.set(Some(failure));
                }
            },
        }
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
