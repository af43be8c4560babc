//! Checking, loading, pausing and forgetting models.

use super::chosen::Chosen;
use super::{KEPT_FORGET, KEPT_HALF, Live};
use crate::dom;
use engine::protocol::{
    Failure, KeptModel, LoadOptions, ModelChoice, Pieces, Preflight, Request, Sides, Source, Stage,
    Storage,
};
use leptos::prelude::*;
use std::collections::VecDeque;

/// Seconds over which a rate is taken.
const WINDOW: f64 = 6.0;

/// How far a load is.
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

impl Progress {
    /// Before anything was heard.
    pub const NONE: Self = Self {
        stage: Stage::Device,
        done: 0,
        total: 0,
        seconds: 0.0,
    };

    /// Per cent, where the whole is known.
    pub fn share(self) -> Option<f64> {
        (self.total > 0).then(|| (self.done as f64 * 100.0 / self.total as f64).min(100.0))
    }
}

/// A load as it was asked for.
#[derive(Clone)]
pub struct Asked {
    /// What.
    pub chosen: Chosen,
    /// For whom.
    pub sides: Sides,
    /// How.
    pub options: LoadOptions,
    /// Which preset it is, and which of its variants.
    pub preset: Option<(usize, usize)>,
}

/// What is to become of a load that is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was not asked to stop.
    Runs,
    /// What is here stays, to go on with.
    Pause,
    /// What is here goes.
    Cancel,
}

/// A load that goes on.
#[derive(Clone)]
pub struct Load {
    /// What was asked for.
    pub asked: Asked,
    /// How far it is.
    pub progress: Progress,
    /// How its pieces are doing, once the engine has said.
    pub pieces: Option<Pieces>,
    /// Whether it is being stopped.
    pub how: How,
    /// Bytes that are here, be they in the model's memory or still in a piece that is not whole.
    pub here: u64,
    /// Bytes of a piece, as far as one was seen.
    piece_bytes: u64,
    /// Where it was of late: seconds and bytes, the oldest first.
    trail: VecDeque<(f64, u64)>,
    /// Milliseconds since 1970 of its start.
    pub started: f64,
    /// The share that was last said to screen readers, in quarters.
    pub(super) said: u32,
}

impl Load {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            progress: Progress::NONE,
            pieces: None,
            how: How::Runs,
            here: 0,
            piece_bytes: 0,
            trail: VecDeque::new(),
            started: 0.0,
            said: 0,
        }
    }

    /// Bytes per second of late, once there is something to tell it from.
    pub fn rate(&self) -> Option<f64> {
        let ((from, old), (to, new)) = (self.trail.front()?, self.trail.back()?);
        (to - from > 0.2 && new > old).then(|| (new - old) as f64 / (to - from))
    }

    /// Per cent, where the whole is known.
    pub fn share(&self) -> Option<f64> {
        let total = self.progress.total;
        (total > 0).then(|| (self.here as f64 * 100.0 / total as f64).min(100.0))
    }

    pub(super) fn moved(&mut self, progress: Progress) {
        if progress.stage != self.progress.stage {
            self.trail.clear();
        }
        self.moved_at(super::engine::now(), |load| load.progress = progress);
    }

    pub(super) fn told(&mut self, pieces: Pieces) {
        self.moved_at(super::engine::now(), |load| load.pieces = Some(pieces));
    }

    /// Takes a change, counts what is here, and remembers when that was.
    fn moved_at(&mut self, now: f64, change: impl FnOnce(&mut Self)) {
        change(self);
        let arriving = self.pieces.as_ref().and_then(|pieces| pieces.arriving);
        let seen = arriving.map_or(0, |arriving| arriving.bytes);
        self.piece_bytes = self.piece_bytes.max(seen);
        let total = self.progress.total;
        let pieces = self.pieces.as_ref().map_or(0, |pieces| {
            if pieces.verified >= pieces.total {
                return total;
            }
            let each = match self.piece_bytes {
                0 => total / u64::from(pieces.total).max(1),
                each => each,
            };
            let whole = u64::from(pieces.verified) + u64::from(pieces.hashing.is_some());
            let part = pieces.arriving.map_or(0, |arriving| arriving.done);
            whole.saturating_mul(each).saturating_add(part).min(total)
        });
        self.here = self.here.max(self.progress.done).max(pieces);
        let seconds = (now - self.started) / 1e3;
        self.trail.push_back((seconds, self.here));
        while self.trail.len() > 2 && seconds - self.trail[0].0 > WINDOW {
            self.trail.pop_front();
        }
    }
}

/// A load that ended before its end.
#[derive(Clone)]
pub struct Halted {
    /// The load.
    pub load: Load,
    /// Why; `None` when it was paused.
    pub failure: Option<Failure>,
}

/// A model that is checked.
#[derive(Clone)]
pub struct Check {
    /// What was asked for.
    pub asked: Asked,
    /// Whether the answer is still to come.
    pub going: bool,
    /// The last answer; it stays while another is on its way.
    pub preflight: Option<Box<Preflight>>,
    /// Where it holds several models: which.
    pub choices: Vec<ModelChoice>,
    /// Why it could not be checked.
    pub failure: Option<Failure>,
    /// Which of several models is meant, by a word in its file's name.
    pub quant: Option<String>,
    /// Whether the user has said how weights are to be stored.
    pub quant_said: bool,
    /// Load it at once if nothing speaks against it and nothing has to be fetched.
    pub load_kept: bool,
}

/// What is kept in this browser.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Models.
    pub models: Vec<KeptModel>,
    /// The storage; `Err` says why there is none.
    pub storage: Result<Storage, String>,
}

/// What the engine has still to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Whether it is ready.
    Probe,
    /// A check. One that was dismissed is answered too.
    Check {
        /// Whether the answer is of no interest any more.
        dismissed: bool,
    },
    /// A load.
    Load,
    /// A generation.
    Job(u32),
    /// What is kept.
    Kept,
}

/// The word of a file's name that says how its weights are stored, as in `x.Q4_K_M.gguf`.
fn says(file: &str, word: &str) -> bool {
    let (file, word) = (file.to_ascii_lowercase(), word.to_ascii_lowercase());
    file.match_indices(&word).any(|(at, _)| {
        let before = file[..at].chars().next_back();
        let after = file[at + word.len()..].chars().next();
        before.is_none_or(|c| !c.is_ascii_alphanumeric())
            && after.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
    })
}

impl Live {
    /// How a model is to be loaded, as the controls stand.
    pub fn options(self, chosen: &Chosen) -> LoadOptions {
        LoadOptions {
            recipe: chosen
                .may_be_dense()
                .then(|| self.quant.get_untracked().recipe())
                .flatten(),
            context: self.context.get_untracked(),
            half_cache: self.half_cache.get_untracked(),
            // A file of this machine is here already.
            keep: self.keep.get_untracked() && chosen.is_remote(),
            memory_limit: self.memory_limit.get_untracked(),
        }
    }

    /// Loads a model for both sides, without a check.
    pub fn load_for_both(self, chosen: Chosen) {
        let options = self.options(&chosen);
        self.load(Asked {
            chosen,
            sides: Sides::Both,
            options,
            preset: None,
        });
    }

    /// Loads a model.
    pub fn load(self, asked: Asked) {
        self.failure.set(None);
        self.halted.set(None);
        self.again.set(Vec::new());
        dom::keep(KEPT_HALF, asked.options.half_cache.then_some("on"));
        let request = Request::Load {
            source: asked.chosen.source.clone(),
            sides: asked.sides,
            options: asked.options.clone(),
        };
        let files = asked.chosen.files.clone();
        let mut load = Load::new(asked);
        load.started = super::engine::now();
        self.load.set(Some(load));
        self.expect(Answer::Load);
        self.post(&request, &files);
    }

    /// Loads what was there before a failure, one after the other.
    pub fn load_again(self) {
        let again = self.again.get_untracked();
        let mut again = again.into_iter();
        if let Some(first) = again.next() {
            self.next.set_value(again.collect());
            self.load(first);
        }
    }

    /// Stops the load; what is here stays.
    pub fn pause(self) {
        self.end_load(How::Pause);
    }

    /// Stops the load; what is here goes.
    pub fn cancel(self) {
        self.end_load(How::Cancel);
    }

    fn end_load(self, how: How) {
        self.load.update(|load| {
            if let Some(load) = load {
                load.how = how;
            }
        });
        self.stop();
    }

    /// Reads a model's headers and says what it would take.
    pub fn check(self, asked: Asked, quant: Option<String>) {
        let load_kept = matches!(asked.chosen.source, Source::Kept { .. });
        self.dismiss();
        self.check.set(Some(Check {
            asked,
            going: true,
            preflight: None,
            choices: Vec::new(),
            failure: None,
            quant,
            quant_said: false,
            load_kept,
        }));
        self.post_check();
    }

    /// Checks the same model under other conditions.
    pub fn check_anew(self, change: impl FnOnce(&mut Asked)) {
        self.dismiss_answer();
        self.check.update(|check| {
            if let Some(check) = check {
                change(&mut check.asked);
                check.going = true;
                check.choices.clear();
                check.failure = None;
                check.load_kept = false;
            }
        });
        self.post_check();
    }

    /// Checks the same model with its weights stored in another way.
    pub fn check_quantized(self, recipe: Option<String>) {
        self.check.update(|check| {
            if let Some(check) = check {
                check.quant_said = true;
            }
        });
        self.check_anew(|asked| asked.options.recipe = recipe);
    }

    fn post_check(self) {
        let Some(asked) = self
            .check
            .with_untracked(|check| check.as_ref().map(|check| check.asked.clone()))
        else {
            return;
        };
        let request = Request::Check {
            source: asked.chosen.source.clone(),
            sides: asked.sides,
            options: asked.options.clone(),
        };
        self.expect(Answer::Check { dismissed: false });
        self.post(&request, &asked.chosen.files);
    }

    /// Forgets the check.
    pub fn dismiss(self) {
        self.dismiss_answer();
        self.check.set(None);
    }

    /// Lets an answer that is on its way be one of no interest, and ends what it waits for.
    fn dismiss_answer(self) {
        let mut stop = false;
        self.answers.update_value(|answers| {
            for (at, answer) in answers.iter_mut().enumerate() {
                if let Answer::Check { dismissed } = answer {
                    // Only what the engine is at can be stopped; a stop ends nothing that waits.
                    stop |= at == 0 && !*dismissed;
                    *dismissed = true;
                }
            }
        });
        if stop {
            self.stop();
        }
    }

    /// Loads what was checked.
    pub fn load_checked(self) {
        if let Some(check) = self.check.get_untracked() {
            self.check.set(None);
            self.load(check.asked);
        }
    }

    /// The answer to a check: what it takes.
    pub(super) fn checked(self, preflight: Box<Preflight>) {
        if !self.answered_check() {
            return;
        }
        let Some(mut check) = self.check.get_untracked() else {
            return;
        };
        // What comes in a form of its own is taken as it is, unless the user wants another.
        let formed = ["GGUF", "shards"]
            .iter()
            .any(|kind| preflight.label.starts_with(kind));
        if check.asked.options.recipe.is_some() && formed && !check.quant_said {
            return self.check_anew(|asked| asked.options.recipe = None);
        }
        check.going = false;
        let load =
            check.load_kept && preflight.findings.is_empty() && preflight.download_bytes == 0;
        check.preflight = Some(preflight);
        self.check.set(Some(check));
        if load && !untrack(|| self.is_busy()) {
            self.load_checked();
        }
    }

    /// The answer to a check: that there are several.
    pub(super) fn choose_one(self, choices: Vec<ModelChoice>) {
        if !self.answered_check() {
            return;
        }
        let Some(mut check) = self.check.get_untracked() else {
            return;
        };
        // A preset names the one it means.
        if let Some(word) = check.quant.take() {
            let mut meant = choices.iter().filter(|choice| says(&choice.file, &word));
            if let (Some(only), None) = (meant.next(), meant.next()) {
                let only = only.clone();
                self.check.set(Some(check));
                return self.check_choice(&only);
            }
        }
        check.going = false;
        check.choices = choices;
        self.check.set(Some(check));
    }

    /// Goes on with one of several models.
    pub fn check_choice(self, choice: &ModelChoice) {
        self.check_anew(|asked| {
            asked.chosen = asked.chosen.with(choice);
            if !asked.chosen.may_be_dense() {
                asked.options.recipe = None;
            }
        });
    }

    fn answered_check(self) -> bool {
        match self.next_answer() {
            Some(Answer::Check { dismissed }) => {
                self.answer_came();
                !dismissed
            }
            _ => false,
        }
    }

    /// Keeps models in this browser or not, from now on.
    pub fn keep_models(self, keep: bool) {
        dom::keep(KEPT_FORGET, (!keep).then_some("on"));
        self.keep.set(keep);
    }

    /// Asks what is kept in this browser.
    pub fn list_kept(self) {
        self.expect(Answer::Kept);
        self.post(&Request::List, &[]);
    }

    /// Deletes a kept model.
    pub fn delete(self, key: String) {
        self.failure.set(None);
        self.expect(Answer::Kept);
        self.post(&Request::Delete { key }, &[]);
    }

    /// Forgets a load that was paused or failed; what it has kept so far goes.
    pub fn forget_halted(self) {
        if let Some(halted) = self.halted.get_untracked() {
            self.discard_later(&halted.load);
            self.list_if_shown();
        }
        self.halted.set(None);
        self.again.set(Vec::new());
        self.failure.set(None);
    }

    /// Has what a cancelled load left behind deleted, once it is known what that is.
    pub(super) fn discard_later(self, load: &Load) {
        match &load.asked.chosen.source {
            // A model that was kept before this load stays.
            Source::Kept { .. } => {}
            _ => {
                if load.asked.options.keep {
                    self.cancelled.set_value(Some(load.started));
                }
            }
        }
    }

    /// Deletes what a cancelled load left behind: the one model that is not whole and was used since.
    pub(super) fn discard(self, models: &[KeptModel]) {
        let Some(started) = self.cancelled.get_value() else {
            return;
        };
        self.cancelled.set_value(None);
        let mut left = models
            .iter()
            .filter(|model| model.last_used >= started && model.pieces < model.total_pieces);
        if let (Some(only), None) = (left.next(), left.next()) {
            self.delete(only.key.clone());
        }
    }

    /// Drops the model that these sides have.
    pub fn unload(self, sides: Sides) {
        self.post(&Request::Unload { sides }, &[]);
    }

    /// Notes that the engine is going to answer something.
    pub(super) fn expect(self, answer: Answer) {
        self.answers
            .update_value(|answers| answers.push_back(answer));
    }

    /// What the engine answers next.
    pub(super) fn next_answer(self) -> Option<Answer> {
        self.answers.with_value(|answers| answers.front().copied())
    }

    /// The next answer has come.
    pub(super) fn answer_came(self) {
        self.answers.update_value(|answers| {
            answers.pop_front();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::protocol::{Arriving, Sides};

    #[test]
    fn what_is_here_counts_before_it_is_handed_out() {
        let mut load = Load::new(Asked {
            chosen: Chosen::new(Source::Kept {
                key: "k".to_owned(),
            }),
            sides: Sides::A,
            options: LoadOptions {
                recipe: None,
                context: 1,
                half_cache: false,
                keep: true,
                memory_limit: None,
            },
            preset: None,
        });
        let pieces = |verified, hashing, arriving| Pieces {
            total: 3,
            verified,
            hashing,
            arriving,
            kept: 0,
            damaged: 0,
            discarded: None,
            not_kept: None,
            fetched: 0,
        };
        let arriving = |piece, done| {
            Some(Arriving {
                piece,
                done,
                bytes: 100,
            })
        };
        let mut here = |progress: u64, told: Pieces| {
            load.moved_at(0.0, |load| {
                load.progress.total = 250;
                load.progress.done = progress;
                load.pieces = Some(told);
            });
            load.here
        };
        assert_eq!(here(0, pieces(0, None, arriving(0, 60))), 60);
        assert_eq!(here(0, pieces(0, Some(0), None)), 100);
        assert_eq!(here(30, pieces(1, None, arriving(1, 20))), 120);
        assert_eq!(here(100, pieces(1, None, None)), 120, "it never goes back");
        assert_eq!(here(100, pieces(3, None, None)), 250);
    }

    #[test]
    fn a_file_says_its_quantization() {
        assert!(says("llama-3.2-1b-mini-agent.Q4_K_M.gguf", "Q4_K_M"));
        assert!(says("x-f16.gguf", "F16"));
        assert!(says("x_q6_k.gguf", "Q6_K"));
        assert!(!says("x-Q6_K_L.gguf", "Q6_K"));
        assert!(!says("x-bf16.gguf", "F16"));
        assert!(!says("x.gguf", "Q8_0"));
    }
}
