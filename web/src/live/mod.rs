//! The models in the tab: what is loaded for which side, what they write, and how they are asked.

mod chosen;
mod engine;
mod loading;
mod model;
mod panel;
mod processor;

pub use chosen::{Chosen, address, dropped};
pub use loading::{Asked, Check, Halted, How, Kept, Load, Progress};
pub use model::{ModelPanel, failure, licence, on_cpu, whereabouts};
pub use panel::LivePanel;

use crate::document::Side;
use crate::dom;
use crate::state::Shared;
use ::engine::protocol::{
    self, Failure, FailureKind, ModelInfo, Processor, Prompt, Request, Residence, Sampling, Stats,
    StopReason,
};
use leptos::prelude::*;
use loading::Answer;
use processor::{Choice, Gpu};
use std::collections::VecDeque;

/// Where the choice of half precision is kept.
const KEPT_HALF: &str = "half-cache";
/// Where it is kept that models are not to be kept.
const KEPT_FORGET: &str = "forget-models";
/// Where the limit on memory is kept, in bytes.
const KEPT_LIMIT: &str = "memory-limit";

/// A side as the engine names it.
pub fn wire(side: Side) -> protocol::Side {
    match side {
        Side::A => protocol::Side::A,
        Side::B => protocol::Side::B,
    }
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Its id.
    pub id: u32,
    /// Text that became complete with it.
    pub text: String,
    /// Whether it is a special token.
    pub special: bool,
}

/// The prompt as the model saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Ids and texts.
    pub tokens: Vec<(u32, String)>,
    /// How many were still in the cache.
    pub reused: u32,
}

/// What a side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The trajectory up to a frame.
    Trajectory,
    /// Text typed here.
    Free,
}

/// What a side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Nothing yet.
    Idle,
    /// Generating; the job's number.
    Going(u32),
    /// Ended.
    Done(StopReason),
}

/// One side's generation.
#[derive(Clone, Copy)]
pub struct LiveSide {
    /// What it sends.
    pub mode: RwSignal<Mode>,
    /// The typed text.
    pub free: RwSignal<String>,
    /// The prompt as seen.
    pub seen: RwSignal<Seen>,
    /// What was written.
    pub written: RwSignal<Vec<Written>>,
    /// Whether it runs.
    pub run: RwSignal<Run>,
    /// Its figures, final once it has ended.
    pub stats: RwSignal<Stats>,
    /// What went wrong.
    pub failure: RwSignal<Option<Failure>>,
    /// Number of the run that was last started.
    pub round: RwSignal<u32>,
    started: RwSignal<f64>,
}

impl LiveSide {
    fn new() -> Self {
        Self {
            mode: RwSignal::new(Mode::Trajectory),
            free: RwSignal::new(String::new()),
            seen: RwSignal::new(Seen::default()),
            written: RwSignal::new(Vec::new()),
            run: RwSignal::new(Run::Idle),
            stats: RwSignal::new(Stats::default()),
            failure: RwSignal::new(None),
            round: RwSignal::new(0),
            started: RwSignal::new(0.0),
        }
    }

    /// Whether it generates now.
    pub fn is_going(self) -> bool {
        matches!(self.run.get(), Run::Going(_))
    }
}

/// How weights are stored that come in 16 or 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quant {
    /// In about 4.5 bits a weight.
    Q4,
    /// In about 8.5 bits a weight.
    Q8,
    /// As they are.
    AsIs,
}

impl Quant {
    /// All, in the order of the control.
    pub const ALL: [Self; 3] = [Self::Q4, Self::Q8, Self::AsIs];

    /// Its words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Q4 => "4-bit",
            Self::Q8 => "8-bit",
            Self::AsIs => "as they are",
        }
    }

    /// The recipe that the engine knows it by.
    pub fn recipe(self) -> Option<String> {
        match self {
            Self::Q4 => Some("q4k".to_owned()),
            Self::Q8 => Some("q8".to_owned()),
            Self::AsIs => None,
        }
    }
}

/// The models and both sides' generations.
#[derive(Clone, Copy)]
pub struct Live {
    connection: StoredValue<Option<engine::Connection>, LocalStorage>,
    /// What the user wants models to run on.
    pub choice: RwSignal<Choice>,
    /// What the browser offers, once it was asked.
    pub gpu: RwSignal<Option<Gpu>>,
    /// What the running engine works on, once it has said so.
    pub processor: RwSignal<Option<Processor>>,
    /// What each side has; sides that share a model have the same.
    models: [RwSignal<Option<Shared<ModelInfo>>>; 2],
    /// What each side's model was asked for with.
    had: StoredValue<[Option<Asked>; 2], LocalStorage>,
    /// Where each side's model is.
    pub residence: [RwSignal<Residence>; 2],
    /// Whether the GPU was lost under a side's model; it is loaded anew when it is next needed.
    pub gpu_lost: [RwSignal<bool>; 2],
    /// How far that load is, or that of a model that had made room.
    pub reloading: RwSignal<Option<Progress>>,
    /// The load that goes on.
    pub load: RwSignal<Option<Load>, LocalStorage>,
    /// Loads that come after it.
    next: StoredValue<VecDeque<Asked>, LocalStorage>,
    /// The load that was paused or failed, until another begins.
    pub halted: RwSignal<Option<Halted>, LocalStorage>,
    /// The model that is being checked, or was.
    pub check: RwSignal<Option<Check>, LocalStorage>,
    /// When the load began that was cancelled last, while what it left behind is still there.
    cancelled: StoredValue<Option<f64>>,
    /// What is kept in this browser, once the engine was asked.
    pub kept: RwSignal<Option<Kept>>,
    /// What to load when the user wants to try again.
    pub again: RwSignal<Vec<Asked>, LocalStorage>,
    /// Why there is no model, or why something else could not be done.
    pub failure: RwSignal<Option<Failure>>,
    /// The sides.
    pub sides: [LiveSide; 2],
    /// The address field.
    pub url: RwSignal<String>,
    /// Longest context to ask for.
    pub context: RwSignal<u32>,
    /// Ask for keys and values in half precision on the GPU.
    pub half_cache: RwSignal<bool>,
    /// How to store weights that come in 16 or 32 bits.
    pub quant: RwSignal<Quant>,
    /// Keep models that come from elsewhere in this browser.
    pub keep: RwSignal<bool>,
    /// Bytes that models may take together, where the user has set a limit.
    pub memory_limit: RwSignal<Option<u64>>,
    /// Take the most probable token, always.
    pub greedy: RwSignal<bool>,
    /// Otherwise: how to draw.
    pub sampling: RwSignal<Sampling>,
    /// At most so many new tokens.
    pub max_tokens: RwSignal<u32>,
    /// Prompts end before this frame; `None`: before the first the model owns.
    pub cut: RwSignal<Option<usize>>,
    /// What was last said to screen readers about a run.
    pub spoken: RwSignal<String>,
    jobs: StoredValue<u32>,
    /// What the engine has still to answer, in the order in which it will.
    answers: StoredValue<VecDeque<Answer>>,
}

impl Live {
    /// Nothing loaded, nothing started.
    pub fn new() -> Self {
        Self {
            connection: StoredValue::new_local(None),
            choice: RwSignal::new(Choice::kept()),
            gpu: RwSignal::new(None),
            processor: RwSignal::new(None),
            models: [(); 2].map(|()| RwSignal::new(None)),
            had: StoredValue::new_local([None, None]),
            residence: [Residence::Empty; 2].map(RwSignal::new),
            gpu_lost: [false; 2].map(RwSignal::new),
            reloading: RwSignal::new(None),
            load: RwSignal::new_local(None),
            next: StoredValue::new_local(VecDeque::new()),
            halted: RwSignal::new_local(None),
            check: RwSignal::new_local(None),
            cancelled: StoredValue::new(None),
            kept: RwSignal::new(None),
            again: RwSignal::new_local(Vec::new()),
            failure: RwSignal::new(None),
            sides: [LiveSide::new(), LiveSide::new()],
            url: RwSignal::new(String::new()),
            context: RwSignal::new(2048),
            half_cache: RwSignal::new(dom::kept(KEPT_HALF).is_some()),
            quant: RwSignal::new(Quant::Q4),
            keep: RwSignal::new(dom::kept(KEPT_FORGET).is_none()),
            memory_limit: RwSignal::new(dom::kept(KEPT_LIMIT).and_then(|limit| limit.parse().ok())),
            greedy: RwSignal::new(true),
            sampling: RwSignal::new(Sampling {
                temperature: 0.7,
                top_k: 40,
                top_p: 0.95,
                min_p: 0.05,
                seed: 42,
            }),
            max_tokens: RwSignal::new(128),
            cut: RwSignal::new(None),
            spoken: RwSignal::new(String::new()),
            jobs: StoredValue::new(0),
            answers: StoredValue::new(VecDeque::new()),
        }
    }

    /// One side.
    pub fn side(self, side: Side) -> LiveSide {
        self.sides[side.index()]
    }

    /// What a side has, be it in memory or away.
    pub fn model(self, side: Side) -> Option<Shared<ModelInfo>> {
        self.models[side.index()].get()
    }

    /// What a side has that can be asked now: nothing while another is on its way to it.
    pub fn ready(self, side: Side) -> Option<Shared<ModelInfo>> {
        self.model(side).filter(|_| !self.is_loading(side))
    }

    /// Whether a side's model was trained on AgenticML frames. Models do not say so; the published ones
    /// have it in their names.
    pub fn speaks_frames(self, side: Side) -> bool {
        self.ready(side)
            .is_some_and(|model| model.name.to_lowercase().contains("agenticml"))
    }

    /// Which preset a side's model is, and which of its variants.
    pub fn preset(self, side: Side) -> Option<(usize, usize)> {
        self.models[side.index()].track();
        self.had
            .with_value(|had| had[side.index()].as_ref()?.preset)
    }

    /// Whether a model is on its way to a side.
    pub fn is_loading(self, side: Side) -> bool {
        self.load
            .read()
            .as_ref()
            .is_some_and(|load| load.asked.sides.has(wire(side)))
    }

    /// The models, each with the sides that have it.
    pub fn loaded(self) -> Vec<(Vec<Side>, Shared<ModelInfo>)> {
        let mut list: Vec<(Vec<Side>, Shared<ModelInfo>)> = Vec::new();
        for side in Side::BOTH {
            let Some(model) = self.model(side) else {
                continue;
            };
            match list.iter_mut().find(|(_, other)| *other == model) {
                Some((sides, _)) => sides.push(side),
                None => list.push((vec![side], model)),
            }
        }
        list
    }

    /// Whether nothing new can be asked of the engine now.
    pub fn is_busy(self) -> bool {
        self.load.read().is_some() || self.going().is_some()
    }

    /// Forgets where the prompt was to end.
    pub fn cut_reset(self) {
        self.cut.set(None);
    }

    /// The side that generates now.
    pub fn going(self) -> Option<Side> {
        Side::BOTH
            .into_iter()
            .find(|&side| self.side(side).is_going())
    }

    /// Starts the worker if it is not there, and has it get ready.
    pub fn wake(self) {
        if self.connection.with_value(Option::is_none) {
            self.expect(Answer::Probe);
            self.post(&Request::Probe, &[]);
        }
    }

    /// Stops whatever runs.
    pub fn stop(self) {
        self.post(&Request::Stop, &[]);
    }

    /// Sets the limit on memory, for this visit and later ones.
    pub fn limit_memory(self, limit: Option<u64>) {
        dom::keep(KEPT_LIMIT, limit.map(|limit| limit.to_string()).as_deref());
        self.memory_limit.set(limit);
    }

    /// Continues a prompt on a side.
    pub fn generate(self, side: Side, prompt: Prompt) {
        let state = self.side(side);
        let job = self.jobs.get_value() + 1;
        self.jobs.set_value(job);
        state.failure.set(None);
        state.round.set(job);
        state.written.set(Vec::new());
        state.seen.set(Seen::default());
        state.stats.set(Stats::default());
        state.started.set(engine::now());
        state.run.set(Run::Going(job));
        let mut sampling = self.sampling.get_untracked();
        if self.greedy.get_untracked() {
            sampling.temperature = 0.0;
        }
        let request = Request::Generate {
            job,
            side: wire(side),
            prompt,
            sampling,
            max_tokens: self.max_tokens.get_untracked(),
            alternatives: 0,
        };
        self.expect(Answer::Job(job));
        self.post(&request, &[]);
    }

    /// Shows a failure of a side that never reached the engine.
    pub fn refuse(self, side: Side, message: String, advice: &str) {
        self.side(side).failure.set(Some(Failure {
            kind: FailureKind::BadRequest,
            message,
            advice: advice.to_owned(),
        }));
    }
}
