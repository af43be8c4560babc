//! The model in the tab: what is loaded, what it writes, and how it is asked.

mod engine;
mod model;
mod panel;
mod processor;

pub use model::ModelPanel;
pub use panel::LivePanel;

use crate::document::Side;
use crate::dom;
use ::engine::protocol::{
    Failure, FailureKind, ModelInfo, Processor, Prompt, Request, Sampling, Source, Stage, Stats,
    StopReason,
};
use leptos::prelude::*;
use processor::{Choice, Gpu};

/// Where the choice of half precision is kept.
const KEPT_HALF: &str = "half-cache";

/// A load that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes read.
    pub done: u64,
    /// Bytes in all; 0 when unknown.
    pub total: u64,
    /// Seconds since the start.
    pub seconds: f64,
}

/// A model that was asked for; enough to ask again.
#[derive(Clone)]
pub struct Chosen {
    source: Source,
    /// A handle, for a file of this machine.
    file: Option<web_sys::File>,
}

impl Chosen {
    /// Its address or its file's name.
    pub fn name(&self) -> &str {
        match &self.source {
            Source::Url { url } => url,
            Source::File { name } => name,
        }
    }
}

/// The model.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// None is loaded.
    None,
    /// One is being loaded.
    Loading(String, Progress),
    /// One is ready.
    Ready(Box<ModelInfo>),
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

/// The model and both sides' generations.
#[derive(Clone, Copy)]
pub struct Live {
    connection: StoredValue<Option<engine::Connection>, LocalStorage>,
    /// What the user wants models to run on.
    pub choice: RwSignal<Choice>,
    /// What the browser offers, once it was asked.
    pub gpu: RwSignal<Option<Gpu>>,
    /// What the running engine works on, once it has said so.
    pub processor: RwSignal<Option<Processor>>,
    /// The model.
    pub model: RwSignal<Model>,
    /// The model that was last asked for.
    pub chosen: RwSignal<Option<Chosen>, LocalStorage>,
    /// Whether the GPU was lost under the model; it is loaded anew when it is next needed.
    pub gpu_lost: RwSignal<bool>,
    /// How far that load is.
    pub reloading: RwSignal<Option<Progress>>,
    /// Why there is none.
    pub failure: RwSignal<Option<Failure>>,
    /// The sides.
    pub sides: [LiveSide; 2],
    /// The address field.
    pub url: RwSignal<String>,
    /// Longest context to ask for.
    pub context: RwSignal<u32>,
    /// Ask for keys and values in half precision on the GPU.
    pub half_cache: RwSignal<bool>,
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
}

impl Live {
    /// Nothing loaded, nothing started.
    pub fn new() -> Self {
        Self {
            connection: StoredValue::new_local(None),
            choice: RwSignal::new(Choice::kept()),
            gpu: RwSignal::new(None),
            processor: RwSignal::new(None),
            model: RwSignal::new(Model::None),
            chosen: RwSignal::new_local(None),
            gpu_lost: RwSignal::new(false),
            reloading: RwSignal::new(None),
            failure: RwSignal::new(None),
            sides: [LiveSide::new(), LiveSide::new()],
            url: RwSignal::new(String::new()),
            context: RwSignal::new(2048),
            half_cache: RwSignal::new(dom::kept(KEPT_HALF).is_some()),
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
        }
    }

    /// One side.
    pub fn side(self, side: Side) -> LiveSide {
        self.sides[side.index()]
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
            self.post(&Request::Probe, None);
        }
    }

    /// Loads a model.
    pub fn load(self, source: Source, file: Option<web_sys::File>) {
        self.chosen.set(Some(Chosen { source, file }));
        self.load_again();
    }

    /// Loads the model that was last asked for.
    pub fn load_again(self) {
        let Some(chosen) = self.chosen.get_untracked() else {
            return;
        };
        self.failure.set(None);
        self.gpu_lost.set(false);
        self.model.set(Model::Loading(
            chosen.name().to_owned(),
            Progress {
                stage: Stage::Device,
                done: 0,
                total: 0,
                seconds: 0.0,
            },
        ));
        let half_cache = self.half_cache.get_untracked();
        dom::keep(KEPT_HALF, half_cache.then_some("on"));
        let request = Request::Load {
            source: chosen.source,
            context: self.context.get_untracked(),
            half_cache,
        };
        self.post(&request, chosen.file);
    }

    /// Drops the model.
    pub fn unload(self) {
        self.post(&Request::Unload, None);
    }

    /// Stops whatever runs.
    pub fn stop(self) {
        self.post(&Request::Stop, None);
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
            prompt,
            sampling,
            max_tokens: self.max_tokens.get_untracked(),
            alternatives: 0,
        };
        self.post(&request, None);
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
