//! The worker that runs the engine, and what its events change.

use super::loading::Answer;
use super::processor::{self, Choice, Gpu, Kind};
use super::{Asked, Halted, How, Kept, Live, Progress, Run, Seen, Written, wire};
use crate::document::Side;
use crate::dom;
use crate::state::Shared;
use engine::protocol::{
    Event, Failure, FailureKind, ModelInfo, Request, Residence, Sides, Stage, Stats,
};
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
    pub(super) fn post(self, request: &Request, files: &[web_sys::File]) {
        let message = match message(request, files) {
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
                // Fails only for values that cannot be cloned; ours are plain data and files.
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

    /// Starts the engine anew, with the models that were there or that only lacked a processor.
    fn restart(self) {
        let lacked = self.failure.with_untracked(|failure| {
            failure
                .as_ref()
                .is_some_and(|f| f.kind == FailureKind::NoGpu)
        });
        if !lacked {
            // What could not be loaded for a reason of its own is not tried again.
            self.again.set(Vec::new());
        }
        self.end();
        self.failure.set(None);
        self.halted.set(None);
        if self.again.with_untracked(Vec::is_empty) {
            self.wake();
        } else {
            self.load_again();
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
        let load = self.load.get_untracked();
        self.end();
        self.abandon(&failure);
        self.check.update(|check| {
            if let Some(check) = check
                && check.going
            {
                check.going = false;
                check.failure = Some(failure.clone());
            }
        });
        self.halted.set(load.map(|load| Halted {
            load,
            failure: Some(failure.clone()),
        }));
        self.failure.set(Some(failure));
    }

    /// Ends the worker, and with it the models. What there was can be loaded again.
    fn end(self) {
        // The closures of the old worker may be what calls this, so they are dropped later.
        if let Some(old) = self.connection.try_update_value(Option::take).flatten() {
            if let Some(program) = &old.program {
                program.worker.terminate();
            }
            set_timeout(move || drop(old), std::time::Duration::ZERO);
        }
        let mut again = self.had();
        if let Some(load) = self.load.get_untracked() {
            // What was on its way to a side comes instead of what the side had.
            again.retain_mut(|asked| match asked.sides.without(load.asked.sides) {
                Some(left) => {
                    asked.sides = left;
                    true
                }
                None => false,
            });
            again.push(load.asked);
        }
        again.extend(
            self.next
                .with_value(|next| next.iter().cloned().collect::<Vec<_>>()),
        );
        if !again.is_empty() {
            self.again.set(again);
        }
        self.next.set_value(Default::default());
        self.answers.set_value(Default::default());
        self.processor.set(None);
        self.load.set(None);
        self.reloading.set(None);
        for side in Side::BOTH {
            self.empty(side);
        }
    }

    /// What the sides' models were asked for with, each once.
    fn had(self) -> Vec<Asked> {
        let models = Side::BOTH.map(|side| self.models[side.index()].get_untracked());
        let had = self.had.get_value();
        let shared = models[0].is_some() && models[0] == models[1];
        let mut list: Vec<Asked> = Vec::new();
        for (side, asked) in Side::BOTH.into_iter().zip(had) {
            let Some(mut asked) = asked else { continue };
            if shared && side == Side::B {
                continue;
            }
            asked.sides = match (shared, side) {
                (true, _) => Sides::Both,
                (false, Side::A) => Sides::A,
                (false, Side::B) => Sides::B,
            };
            list.push(asked);
        }
        list
    }

    fn empty(self, side: Side) {
        let at = side.index();
        self.models[at].set(None);
        self.had.update_value(|had| had[at] = None);
        self.residence[at].set(Residence::Empty);
        self.gpu_lost[at].set(false);
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
            Event::Processor { processor } => {
                self.processor.set(Some(processor));
                if self.next_answer() == Some(Answer::Probe) {
                    self.answer_came();
                }
            }
            Event::Checked { preflight } => self.checked(preflight),
            Event::Choices { choices } => {
                if self.next_answer() == Some(Answer::Load) {
                    self.several();
                } else {
                    self.choose_one(choices);
                }
            }
            Event::Progress {
                stage,
                done,
                total,
                seconds,
            } => self.moved(Progress {
                stage,
                done,
                total,
                seconds,
            }),
            Event::Pieces { pieces } => self.load.update(|load| {
                if let Some(load) = load {
                    load.told(pieces);
                }
            }),
            Event::Loaded { sides, model } => self.loaded_for(sides, *model),
            Event::Residence { a, b } => {
                for (side, residence) in Side::BOTH.into_iter().zip([a, b]) {
                    let at = side.index();
                    match residence {
                        Residence::Empty => self.empty(side),
                        Residence::Resident => self.gpu_lost[at].set(false),
                        Residence::Away => {}
                    }
                    self.residence[at].set(residence);
                }
            }
            Event::Kept { models, storage } => {
                if self.next_answer() == Some(Answer::Kept) {
                    self.answer_came();
                }
                self.discard(&models);
                self.kept.set(Some(Kept { models, storage }));
            }
            Event::Prompt {
                job,
                ids,
                pieces,
                reused,
            } => {
                if let Some(side) = self.of_job(job) {
                    self.found(side);
                    let side = self.side(side);
                    // Tokens that another branch wrote are no part of the prompt for the reader.
                    let own = ids.len().saturating_sub(side.carried.get_untracked());
                    side.stats.update(|stats| stats.prompt_tokens = own as u32);
                    side.seen.set(Seen {
                        tokens: ids.into_iter().zip(pieces).take(own).collect(),
                        reused: reused.min(own as u32),
                    });
                }
            }
            Event::Token {
                job,
                id,
                text,
                special,
                rate,
                outlook,
            } => {
                if let Some(side) = self.of_job(job) {
                    let state = self.side(side);
                    state.stats.update(|stats| {
                        if stats.first_token_seconds == 0.0 {
                            stats.first_token_seconds =
                                (now() - state.started.get_untracked()) / 1e3;
                        }
                        stats.new_tokens += 1;
                        stats.tokens_per_second = rate;
                    });
                    self.wrote(
                        side,
                        Written {
                            id,
                            text,
                            special,
                            outlook,
                            chosen: false,
                        },
                    );
                }
            }
            Event::Finished { job, reason, stats } => {
                self.job_ended(job);
                if let Some(side) = self.of_job(job) {
                    let state = self.side(side);
                    let carried = state.carried.get_untracked() as u32;
                    state.stats.set(Stats {
                        prompt_tokens: stats.prompt_tokens.saturating_sub(carried),
                        new_tokens: stats.new_tokens + carried,
                        ..stats
                    });
                    state.run.set(Run::Done(reason));
                    self.ended(side, reason);
                }
            }
            Event::Unloaded { sides } => {
                for side in Side::BOTH {
                    if sides.has(wire(side)) {
                        self.empty(side);
                    }
                }
            }
            // Nothing here asks for it.
            Event::Measured { .. } => {}
            Event::Failed { job, failure } => self.failed(job, failure),
        }
    }

    /// A load has come further, or that which a generation has to wait for.
    fn moved(self, now: Progress) {
        if self.next_answer() != Some(Answer::Load) {
            if untrack(|| self.going()).is_some() {
                self.reloading.set(Some(now));
            }
            return;
        }
        let mut said = None;
        self.load.update(|load| {
            let Some(load) = load else { return };
            load.moved(now);
            let quarters = load.share().map_or(0, |share| (share / 25.0) as u32);
            if now.stage == Stage::Weights && quarters > load.said && quarters < 4 {
                load.said = quarters;
                said = Some(format!("{} per cent loaded.", quarters * 25));
            }
        });
        if let Some(said) = said {
            self.spoken.set(said);
        }
    }

    fn loaded_for(self, sides: Sides, model: ModelInfo) {
        self.processor.set(Some(model.processor.clone()));
        let asked = if self.next_answer() == Some(Answer::Load) {
            self.answer_came();
            let load = self.load.get_untracked();
            self.failure.set(None);
            self.halted.set(None);
            self.load.set(None);
            self.spoken.set(format!("{} is ready.", model.name));
            load.map(|load| load.asked)
        } else {
            self.reloading.set(None);
            None
        };
        let model = Shared::new(model);
        for side in Side::BOTH {
            if sides.has(wire(side)) {
                let at = side.index();
                if let Some(asked) = &asked {
                    self.had.update_value(|had| had[at] = Some(asked.clone()));
                }
                self.models[at].set(Some(model.clone()));
                self.residence[at].set(Residence::Resident);
                self.gpu_lost[at].set(false);
            }
        }
        self.load_next();
        self.list_if_shown();
    }

    /// Begins the next load of several.
    fn load_next(self) {
        let next = self
            .next
            .try_update_value(std::collections::VecDeque::pop_front)
            .flatten();
        if let Some(asked) = next {
            self.load(asked);
        }
    }

    /// What is kept has changed: whoever looks at it sees it, and what is to be deleted is found.
    pub(super) fn list_if_shown(self) {
        let cancelled = self.cancelled.with_value(Option::is_some);
        if cancelled || self.kept.with_untracked(Option::is_some) {
            self.list_kept();
        }
    }

    /// A load without a check found several models: the check lets one be chosen.
    fn several(self) {
        self.answer_came();
        if let Some(load) = self.load.get_untracked() {
            self.load.set(None);
            self.check(load.asked, None);
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
        if failure.kind == FailureKind::Device {
            // The engine keeps what it needs to load the models again.
            for side in Side::BOTH {
                if self.models[side.index()].with_untracked(Option::is_some) {
                    self.gpu_lost[side.index()].set(true);
                }
            }
        }
        self.reloading.set(None);
        if let Some(job) = job {
            self.job_ended(job);
            if let Some(side) = self.of_job(job) {
                let state = self.side(side);
                state.run.set(Run::Idle);
                state.auto.set(false);
                state.failure.set(Some(failure));
                // The other side may have waited.
                self.next_in_line(side);
            }
            return;
        }
        let answer = self.next_answer();
        if !matches!(answer, Some(Answer::Job(_))) {
            self.answer_came();
        }
        match answer {
            Some(Answer::Load) => self.load_failed(failure),
            Some(Answer::Check { dismissed: true }) => {}
            Some(Answer::Check { dismissed: false }) => self.check.update(|check| {
                if let Some(check) = check {
                    check.going = false;
                    check.failure = Some(failure);
                }
            }),
            _ => self.failure.set(Some(failure)),
        }
    }

    fn load_failed(self, failure: Failure) {
        let Some(load) = self.load.get_untracked() else {
            return;
        };
        self.load.set(None);
        match load.how {
            How::Runs => {
                self.again.set(vec![load.asked.clone()]);
                self.halted.set(Some(Halted {
                    load,
                    failure: Some(failure.clone()),
                }));
                self.failure.set(Some(failure));
            }
            How::Pause => {
                self.spoken.set("The load is paused.".to_owned());
                self.again.set(vec![load.asked.clone()]);
                self.halted.set(Some(Halted {
                    load,
                    failure: None,
                }));
            }
            How::Cancel => self.discard_later(&load),
        }
        self.load_next();
        self.list_if_shown();
    }

    /// The job is at its end.
    fn job_ended(self, job: u32) {
        if self.next_answer() == Some(Answer::Job(job)) {
            self.answer_came();
        }
    }

    /// A side's model is there, again.
    fn found(self, side: Side) {
        self.gpu_lost[side.index()].set(false);
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
    files: &[web_sys::File],
) -> Result<JsValue, serde_wasm_bindgen::Error> {
    let message = request.serialize(&serde_wasm_bindgen::Serializer::json_compatible())?;
    if !files.is_empty() {
        let files: js_sys::Array = files.iter().collect();
        js_sys::Reflect::set(&message, &"files".into(), &files)?;
    }
    Ok(message)
}
