//! The models in the tab: what is loaded for which side, what they write, and how they are asked.

mod chosen;
mod engine;
mod explain;
mod figures;
mod loading;
mod model;
mod output;
mod panel;
mod processor;
mod prompt;
mod sampling;
mod turns;

pub use chosen::{Chosen, address, dropped};
pub use explain::{Written as WrittenToken, inspected, newest};
pub use loading::{Asked, Check, Halted, How, Kept, Load, Progress};
pub use model::{ModelPanel, failure, licence, on_cpu, whereabouts};
pub use panel::LivePanel;
pub use turns::{RunBoth, key};

use crate::document::{Document, Side};
use crate::dom;
use crate::state::Shared;
use ::engine::protocol::{
    self, Failure, ModelInfo, Outlook, Processor, Request, Residence, Sampling, Stats, StopReason,
};
use agent::reading::{Part, Reader, Turn};
use formats::{Policy, Trajectory};
use leptos::prelude::*;
use loading::Answer;
use processor::{Choice, Gpu};
use std::collections::VecDeque;
use tokens::Llama3Tokenizer;

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
    /// What the model thought of it, where it was asked.
    pub outlook: Option<Outlook>,
    /// Whether a person chose it instead of the model.
    pub chosen: bool,
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
    /// The trajectory's messages, laid out by the template in the model's own file.
    Template,
    /// Text typed here.
    Free,
}

/// What a side does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Nothing yet.
    Idle,
    /// It has its turn after the other side's.
    Waits,
    /// Generating; the job's number.
    Going(u32),
    /// Ended.
    Done(StopReason),
}

/// What a line of turns goes on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// The frames that were sent; none where text was typed.
    pub given: Option<Trajectory>,
    /// The whole trajectory at that time: it may record results of calls that the model makes.
    pub recorded: Trajectory,
}

/// A turn as it was written.
#[derive(Clone)]
pub struct Told {
    /// The prompt as seen.
    pub seen: Seen,
    /// The tokens.
    pub written: Vec<Written>,
    /// How many of them came from another branch.
    pub carried: usize,
    /// What they are.
    pub parts: Vec<Shared<Part>>,
    /// Number of its first frame (A) or of its message (B).
    pub first: usize,
    /// What it amounts to, once it ended.
    pub turn: Option<Shared<Turn>>,
    /// Results of its calls, as far as they were given.
    pub results: Vec<Option<formats::Frame>>,
    /// How it ended, in words.
    pub verdict: Option<String>,
    /// Its figures.
    pub stats: Stats,
    /// Where it stands.
    pub run: Run,
}

/// A line of turns that a side can go back to.
#[derive(Clone)]
pub struct Branch {
    /// What it goes on from.
    pub base: Option<Shared<Base>>,
    /// Its turns but for the last.
    pub past: Vec<Shared<Told>>,
    /// The last one.
    pub last: Told,
}

/// What a side is to do when its turn comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Errand {
    /// Write a turn.
    #[default]
    Turn,
    /// Go on from a written token with another in its place.
    Branch {
        /// Its place among all tokens of the branch.
        at: usize,
        /// Which of its alternatives.
        alternative: usize,
    },
}

/// One side's generation.
#[derive(Clone, Copy)]
pub struct LiveSide {
    /// What it sends.
    pub mode: RwSignal<Mode>,
    /// The typed text.
    pub free: RwSignal<String>,
    /// Whether chips show probabilities.
    pub heat: RwSignal<bool>,
    /// How prompts are encoded and turns are read.
    pub policy: RwSignal<Policy>,
    /// The prompt as seen.
    pub seen: RwSignal<Seen>,
    /// What was written in this turn.
    pub written: RwSignal<Vec<Written>>,
    /// How many of these tokens came from another branch.
    pub carried: RwSignal<usize>,
    /// What they are.
    pub parts: RwSignal<Vec<Shared<Part>>>,
    /// Number of the turn's first frame (A) or of its message (B).
    pub first: RwSignal<usize>,
    /// What the turn amounts to, once it ended.
    pub turn: RwSignal<Option<Shared<Turn>>>,
    /// Results of its calls.
    pub results: RwSignal<Vec<Option<formats::Frame>>>,
    /// How the turn or the run ended, in words.
    pub verdict: RwSignal<Option<String>>,
    /// Whether it runs.
    pub run: RwSignal<Run>,
    /// Its figures, final once it has ended.
    pub stats: RwSignal<Stats>,
    /// What went wrong.
    pub failure: RwSignal<Option<Failure>>,
    /// Number of the run that was last started.
    pub round: RwSignal<u32>,
    /// Whether it goes on by itself until the model answers.
    pub auto: RwSignal<bool>,
    /// What the turns go on from.
    pub base: RwSignal<Option<Shared<Base>>>,
    /// The turns before this one.
    pub past: RwSignal<Vec<Shared<Told>>>,
    /// All lines of turns; the one that is shown is out of date here.
    pub branches: RwSignal<Vec<Branch>>,
    /// Which of them is shown.
    pub branch: RwSignal<usize>,
    reader: StoredValue<Option<Reader>>,
    asked: StoredValue<Errand>,
    /// Where it stood before it had to wait.
    before: StoredValue<Run>,
    started: RwSignal<f64>,
}

impl LiveSide {
    fn new() -> Self {
        Self {
            mode: RwSignal::new(Mode::Trajectory),
            free: RwSignal::new(String::new()),
            heat: RwSignal::new(false),
            policy: RwSignal::new(Policy::Safe),
            seen: RwSignal::new(Seen::default()),
            written: RwSignal::new(Vec::new()),
            carried: RwSignal::new(0),
            parts: RwSignal::new(Vec::new()),
            first: RwSignal::new(0),
            turn: RwSignal::new(None),
            results: RwSignal::new(Vec::new()),
            verdict: RwSignal::new(None),
            run: RwSignal::new(Run::Idle),
            stats: RwSignal::new(Stats::default()),
            failure: RwSignal::new(None),
            round: RwSignal::new(0),
            auto: RwSignal::new(false),
            base: RwSignal::new(None),
            past: RwSignal::new(Vec::new()),
            branches: RwSignal::new(Vec::new()),
            branch: RwSignal::new(0),
            reader: StoredValue::new(None),
            asked: StoredValue::new(Errand::Turn),
            before: StoredValue::new(Run::Idle),
            started: RwSignal::new(0.0),
        }
    }

    /// Whether it generates now.
    pub fn is_going(self) -> bool {
        matches!(self.run.get(), Run::Going(_))
    }

    /// Whether it generates or is about to.
    pub fn is_active(self) -> bool {
        matches!(self.run.get(), Run::Going(_) | Run::Waits)
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
    /// Refuse markers that the model may not write.
    pub strict: RwSignal<bool>,
    /// Ask for alternatives although no side shows probabilities.
    pub alternatives: RwSignal<bool>,
    /// Explain the newest token.
    pub follow: RwSignal<bool>,
    /// The written token that was chosen to be explained: side, and place in its branch.
    pub chosen: RwSignal<Option<(Side, usize)>>,
    /// Frames that were kept: where, what, and whose.
    pub taken: RwSignal<Vec<(usize, formats::Frame, Side)>>,
    document: Memo<Shared<Document>>,
    tokenizer: RwSignal<Option<Shared<Llama3Tokenizer>>>,
    /// Sides that wait, first come first.
    queue: StoredValue<VecDeque<Side>>,
    jobs: StoredValue<u32>,
    /// What the engine has still to answer, in the order in which it will.
    answers: StoredValue<VecDeque<Answer>>,
}

impl Live {
    /// Nothing loaded, nothing started. Prompts are made of the document, with the page's tokenizer.
    pub fn new(
        document: Memo<Shared<Document>>,
        tokenizer: RwSignal<Option<Shared<Llama3Tokenizer>>>,
    ) -> Self {
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
            strict: RwSignal::new(true),
            alternatives: RwSignal::new(false),
            follow: RwSignal::new(true),
            chosen: RwSignal::new(None),
            taken: RwSignal::new(Vec::new()),
            document,
            tokenizer,
            queue: StoredValue::new(VecDeque::new()),
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

    /// Stops whatever the engine does.
    fn stop(self) {
        self.post(&Request::Stop, &[]);
    }

    /// Sets the limit on memory, for this visit and later ones.
    pub fn limit_memory(self, limit: Option<u64>) {
        dom::keep(KEPT_LIMIT, limit.map(|limit| limit.to_string()).as_deref());
        self.memory_limit.set(limit);
    }
}
