//! Turns of the sides: one step, a run to an answer, both sides in turn, branches, and what is kept.

use super::engine::now;
use super::loading::Answer;
use super::prompt::{Sent, given};
use super::{Base, Branch, Errand, Live, LiveSide, Mode, Run, Seen, Told, Written, wire};
use crate::document::Side;
use crate::dom;
use crate::state::{Dock, Page, Pane, Room, Shared, View, page};
use crate::words;
use agent::reading::{End, Guess, Outcome, Part, Reader, Turn, What};
use agent::{recorded, result_frame};
use engine::protocol::{Failure, FailureKind, Outlook, Prompt, Request, Stats, StopReason};
use formats::json::{self, Value};
use formats::{Frame, Trajectory, python};
use leptos::prelude::*;
use web_sys::Element;

/// Alternatives to ask for with each token.
pub const ALTERNATIVES: u32 = 8;
/// Branches that a side remembers.
const BRANCHES: usize = 32;

/// How the next turn stands to those that are there.
enum Next {
    /// It begins anew.
    Fresh,
    /// It comes instead of the last one.
    Again,
    /// It comes behind the last one.
    Behind,
}

/// Most turns of a run.
pub fn most_turns() -> usize {
    agent::Settings::default().max_iterations
}

/// A value in words: text as it is, anything else as JSON.
fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => json::dumps(other),
    }
}

impl LiveSide {
    /// The turn that is shown last, as it stands.
    fn told(self) -> Told {
        Told {
            seen: self.seen.get_untracked(),
            written: self.written.get_untracked(),
            carried: self.carried.get_untracked(),
            parts: self.parts.get_untracked(),
            first: self.first.get_untracked(),
            turn: self.turn.get_untracked(),
            results: self.results.get_untracked(),
            verdict: self.verdict.get_untracked(),
            stats: self.stats.get_untracked(),
            run: self.run.get_untracked(),
        }
    }

    fn show(self, told: Told) {
        self.seen.set(told.seen);
        self.carried.set(told.carried);
        self.first.set(told.first);
        self.round.update(|round| *round += 1);
        self.written.set(told.written);
        self.parts.set(told.parts);
        self.turn.set(told.turn);
        self.results.set(told.results);
        self.verdict.set(told.verdict);
        self.stats.set(told.stats);
        self.run.set(told.run);
        self.failure.set(None);
    }

    /// Puts the branch that is shown among the branches.
    fn save(self) {
        if self.branches.with_untracked(Vec::is_empty) {
            return;
        }
        let mut last = self.told();
        if matches!(last.run, Run::Waits) {
            last.run = self.before.get_value();
        }
        let saved = Branch {
            base: self.base.get_untracked(),
            past: self.past.get_untracked(),
            last,
        };
        let at = self.branch.get_untracked();
        self.branches.update(|branches| {
            if let Some(branch) = branches.get_mut(at) {
                *branch = saved;
            }
        });
    }

    /// Begins a branch beside those that are there.
    fn begin_branch(self) {
        self.save();
        let blank = Branch {
            base: self.base.get_untracked(),
            past: self.past.get_untracked(),
            last: self.told(),
        };
        self.branches.update(|branches| {
            branches.push(blank);
            if branches.len() > BRANCHES {
                branches.remove(0);
            }
        });
        let last = self.branches.with_untracked(Vec::len) - 1;
        self.branch.set(last);
    }

    /// The turns that are shown, each with the place of its first token.
    fn places(self) -> Vec<(usize, usize)> {
        let mut start = 0;
        let mut places = Vec::new();
        for turn in self.past.get_untracked() {
            places.push((start, turn.written.len()));
            start += turn.written.len();
        }
        places.push((start, self.written.with_untracked(Vec::len)));
        places
    }

    /// The token at a place of the branch.
    pub fn token(self, at: usize) -> Option<Written> {
        let mut at = at;
        for turn in self.past.get() {
            match turn.written.get(at) {
                Some(token) => return Some(token.clone()),
                None => at -= turn.written.len(),
            }
        }
        self.written.read().get(at).cloned()
    }

    /// Tokens of the branch in all.
    pub fn count(self) -> usize {
        let past: usize = self.past.read().iter().map(|turn| turn.written.len()).sum();
        past + self.written.read().len()
    }

    /// Results that are still to be given.
    pub fn waiting_calls(self) -> usize {
        self.results
            .read()
            .iter()
            .filter(|result| result.is_none())
            .count()
    }

    /// Frames that the branch adds to what was given, as far as they may be taken over.
    pub fn frames(self) -> Vec<Frame> {
        let mut frames = Vec::new();
        for turn in self.past.get() {
            frames.extend(frames_of(turn.turn.as_deref(), &turn.results));
        }
        frames.extend(frames_of(self.turn.get().as_deref(), &self.results.read()));
        frames
    }

    /// Whether the shown turns go on from something else than what would be sent now.
    pub fn is_of_the_past(self, given: &Trajectory) -> bool {
        let typed = self.mode.get() == Mode::Free;
        self.base.get().is_some_and(|base| match &base.given {
            Some(base) => typed || base != given,
            None => !typed,
        })
    }

    /// The result that the sample records for a call.
    pub fn recorded(self, action: &Value) -> Option<Value> {
        recorded(&self.base.get()?.recorded, action)
    }
}

fn frames_of(turn: Option<&Turn>, results: &[Option<Frame>]) -> Vec<Frame> {
    let mut frames = turn.map_or(Vec::new(), |turn| turn.frames.clone());
    frames.extend(results.iter().flatten().cloned());
    frames
}

impl Live {
    /// Lets a side write a turn, or turns until the model answers.
    pub fn write(self, side: Side, to_answer: bool) {
        let state = self.side(side);
        if untrack(|| state.is_active()) || untrack(|| self.ready(side)).is_none() {
            return;
        }
        state.auto.set(to_answer);
        state.asked.set_value(Errand::Turn);
        self.enqueue(side);
    }

    fn enqueue(self, side: Side) {
        let state = self.side(side);
        state.before.set_value(state.run.get_untracked());
        state.run.set(Run::Waits);
        self.queue.update_value(|queue| queue.push_back(side));
        self.pump();
    }

    /// Starts the next side that waits, if nothing runs. The engine does one thing at a time.
    pub(super) fn pump(self) {
        while untrack(|| self.going()).is_none() {
            let next = self.queue.try_update_value(|queue| queue.pop_front());
            let Some(side) = next.flatten() else { return };
            untrack(|| self.begin(side));
        }
    }

    /// Stops what a side does. Others go on.
    pub fn halt_side(self, side: Side) {
        let state = self.side(side);
        state.auto.set(false);
        match state.run.get_untracked() {
            Run::Going(_) => self.stop(),
            Run::Waits => {
                self.queue
                    .update_value(|queue| queue.retain(|waits| *waits != side));
                state.run.set(state.before.get_value());
                state.asked.set_value(Errand::Turn);
            }
            Run::Idle | Run::Done(_) => {}
        }
    }

    /// Stops whatever runs or waits.
    pub fn halt(self) {
        for side in Side::BOTH {
            self.halt_side(side);
        }
    }

    /// Whether a side runs, or waits.
    pub fn is_active(self) -> bool {
        Side::BOTH
            .into_iter()
            .any(|side| self.side(side).is_active())
    }

    /// A side's turn has come.
    fn begin(self, side: Side) {
        let state = self.side(side);
        match state.asked.get_value() {
            Errand::Turn => self.begin_turn(side),
            Errand::Branch { at, alternative } => {
                state.asked.set_value(Errand::Turn);
                self.begin_at(side, at, alternative);
            }
        }
    }

    fn cannot(self, side: Side, message: String, advice: &str) {
        let state = self.side(side);
        state.auto.set(false);
        state.run.set(state.before.get_value());
        self.refuse(side, message, advice);
    }

    fn begin_turn(self, side: Side) {
        let state = self.side(side);
        let document = self.document.get();
        let now = given(&document, self);
        let typed = state.mode.get() == Mode::Free;
        let next = if typed || state.base.get().is_none() || state.is_of_the_past(&now) {
            Next::Fresh
        } else {
            let turn = state.turn.get();
            let calls = turn.is_some_and(|turn| turn.outcome == Outcome::Calls);
            match calls && state.waiting_calls() == 0 {
                true => Next::Behind,
                false => Next::Again,
            }
        };
        let sent = if typed {
            let text = state.free.get();
            if text.is_empty() {
                return self.cannot(
                    side,
                    "The prompt is empty.".to_owned(),
                    "Type some text for the model to continue.",
                );
            }
            Ok(Sent {
                prompt: Prompt::Text { text },
                stops: Vec::new(),
                first: 0,
            })
        } else {
            let mut whole = now.clone();
            if !matches!(next, Next::Fresh) {
                for turn in state.past.get() {
                    whole
                        .frames
                        .extend(frames_of(turn.turn.as_deref(), &turn.results));
                }
            }
            if let Next::Behind = next {
                let frames = frames_of(state.turn.get().as_deref(), &state.results.get());
                whole.frames.extend(frames);
            }
            self.sent(side, &whole)
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => {
                return self.cannot(
                    side,
                    error,
                    "Change the frame that is named, or send fewer frames.",
                );
            }
        };
        let anything = !state.written.read().is_empty() || !state.past.read().is_empty();
        match next {
            Next::Behind => {
                let told = Shared::new(Told {
                    run: state.before.get_value(),
                    ..state.told()
                });
                state.past.update(|past| past.push(told));
            }
            Next::Again | Next::Fresh => {
                let first = state.branches.with(Vec::is_empty);
                if anything || first {
                    state.begin_branch();
                }
                if let Next::Fresh = next {
                    state.past.set(Vec::new());
                    state.base.set(Some(Shared::new(Base {
                        given: (!typed).then_some(now),
                        recorded: document.trajectory.clone(),
                    })));
                }
            }
        }
        let reader = (!typed).then(|| Reader::new(self.manner(side)));
        state.seen.set(Seen::default());
        self.start_turn(side, sent, reader, Vec::new());
    }

    /// Goes on with another token in the place of a written one.
    fn begin_at(self, side: Side, at: usize, alternative: usize) {
        let state = self.side(side);
        let places = state.places();
        let turn = places.iter().rposition(|(start, _)| *start <= at);
        let (Some(turn), Some(old)) = (turn, state.token(at)) else {
            return state.run.set(state.before.get_value());
        };
        let instead = old
            .outlook
            .as_ref()
            .and_then(|outlook| Some((outlook, outlook.alternatives.get(alternative)?)));
        let Some((outlook, instead)) = instead else {
            return state.run.set(state.before.get_value());
        };
        let within = at - places[turn].0;
        let past = state.past.get();
        let told = past
            .get(turn)
            .map_or_else(|| state.told(), |turn| Told::clone(turn));
        let mut written = told.written[..within].to_vec();
        written.push(Written {
            id: instead.id,
            text: instead.piece.clone(),
            special: instead.special,
            outlook: Some(Outlook {
                probability: instead.probability,
                ..outlook.clone()
            }),
            chosen: true,
        });
        state.begin_branch();
        state.past.set(past[..turn.min(past.len())].to_vec());
        let typed = state.base.get().is_none_or(|base| base.given.is_none());
        let mut reader = (!typed).then(|| Reader::new(self.manner(side)));
        if let Some(reader) = &mut reader {
            for token in &written {
                reader.push(&token.text, token.special);
            }
        }
        let ids = told.seen.tokens.iter().map(|(id, _)| *id);
        let ids = ids.chain(written.iter().map(|token| token.id)).collect();
        state.seen.set(told.seen);
        let sent = Sent {
            prompt: Prompt::Ids { ids },
            stops: self.ends(side),
            first: told.first,
        };
        self.start_turn(side, sent, reader, written);
        self.chosen.set(Some((side, at)));
    }

    /// Ids that end a turn on a side besides the model's own.
    fn ends(self, side: Side) -> Vec<u32> {
        match side {
            Side::A if self.knows_ids(side) => {
                vec![tokens::marker_id(formats::FrameKind::End)]
            }
            _ => Vec::new(),
        }
    }

    /// Asks the engine for a turn that begins with these tokens.
    fn start_turn(self, side: Side, sent: Sent, reader: Option<Reader>, written: Vec<Written>) {
        let state = self.side(side);
        let job = self.jobs.get_value() + 1;
        self.jobs.set_value(job);
        let carried = written.len();
        let parts = reader.as_ref().map_or_else(
            || loose(written.len()),
            |reader| reader.parts().iter().cloned().map(Shared::new).collect(),
        );
        // Whether the token that was chosen ends the turn at once.
        let ends = parts.last().is_some_and(|part| {
            part.what == What::Stop
                || part.closed && part.what == What::Frame(formats::FrameKind::End)
        });
        state.failure.set(None);
        state.verdict.set(None);
        state.turn.set(None);
        state.results.set(Vec::new());
        state.first.set(sent.first);
        state.carried.set(carried);
        state.round.update(|round| *round += 1);
        state.written.set(written);
        state.parts.set(parts);
        state.reader.set_value(reader);
        state.stats.set(Stats {
            prompt_tokens: state.seen.with(|seen| seen.tokens.len() as u32),
            new_tokens: carried as u32,
            ..Stats::default()
        });
        state.started.set(now());
        if ends {
            state.run.set(Run::Done(StopReason::StopToken));
            self.ended(side, StopReason::StopToken);
            return;
        }
        state.run.set(Run::Going(job));
        let mut sampling = self.sampling.get();
        if self.greedy.get() {
            sampling.temperature = 0.0;
        }
        let asks = state.heat.get() || self.alternatives.get();
        let most = self.max_tokens.get();
        let request = Request::Generate {
            job,
            side: wire(side),
            prompt: sent.prompt,
            sampling,
            max_tokens: most.saturating_sub(carried as u32).max(1),
            stops: sent.stops,
            alternatives: if asks { ALTERNATIVES } else { 0 },
        };
        self.expect(Answer::Job(job));
        self.post(&request, &[]);
    }

    /// A token was written.
    pub(super) fn wrote(self, side: Side, token: Written) {
        let state = self.side(side);
        let (text, special) = (token.text.clone(), token.special);
        state.written.update(|written| written.push(token));
        state.reader.update_value(|reader| {
            if let Some(reader) = reader {
                reader.push(&text, special);
            }
        });
        self.sync(side);
    }

    /// Takes over what the reader makes of the tokens, and says which frames opened and closed.
    fn sync(self, side: Side) {
        let state = self.side(side);
        let old = state.parts.get_untracked();
        let count = state.written.with_untracked(Vec::len);
        let same = |old: &Part, new: &Part| {
            old.what == new.what
                && old.tokens == new.tokens
                && old.closed == new.closed
                && old.raw.len() == new.raw.len()
                && old.fault == new.fault
        };
        let parts = state.reader.with_value(|reader| {
            let Some(reader) = reader else {
                return loose(count);
            };
            let parts = reader.parts().iter().enumerate();
            parts
                .map(|(at, part)| match old.get(at) {
                    Some(old) if same(old, part) => old.clone(),
                    _ => Shared::new(part.clone()),
                })
                .collect()
        });
        if let Some(news) = news(&old, &parts) {
            self.spoken.set(format!("Side {}: {news}.", side.plate()));
        }
        state.parts.set(parts);
    }

    /// A turn has ended.
    pub(super) fn ended(self, side: Side, reason: StopReason) {
        let state = self.side(side);
        let end = match reason {
            StopReason::StopToken => End::Stop,
            StopReason::MaxTokens | StopReason::ContextFull => End::Cut,
            StopReason::Stopped => End::Stopped,
        };
        let turn = state
            .reader
            .try_update_value(|reader| reader.as_mut().map(|reader| reader.finish(end)))
            .flatten();
        self.sync(side);
        let written = words::count(state.written.with_untracked(Vec::len), "token");
        let Some(turn) = turn else {
            state.auto.set(false);
            state.verdict.set(None);
            self.say(
                side,
                &format!("{written} written, {}", words::stop_reason(reason)),
            );
            return self.next_in_line(side);
        };
        let calls = turn.calls.len();
        let verdict = match &turn.outcome {
            Outcome::Calls if calls == 1 => "The call waits for its result.".to_owned(),
            Outcome::Calls => format!("{calls} calls wait for their results."),
            Outcome::Answer(text) => format!("The model answered: {}", said(text)),
            Outcome::GivesUp(text) => format!("The model gave up: {}", said(text)),
            Outcome::NoCall => {
                "The turn ended without a call, so nothing is left to do.".to_owned()
            }
            Outcome::Cut if reason == StopReason::ContextFull => {
                "Cut off: the context is full. Load the model with a longer one, or send less."
                    .to_owned()
            }
            Outcome::Cut => format!(
                "Cut off after {written}: the limit of new tokens. Raise “max new” and generate again."
            ),
            Outcome::Stopped if turn.frames.is_empty() => "Stopped.".to_owned(),
            Outcome::Stopped => "Stopped. What was closed before can be kept.".to_owned(),
            Outcome::Unusable(why) => format!("The turn cannot be used: {why}."),
        };
        if turn.outcome != Outcome::Calls {
            state.auto.set(false);
        }
        state.results.set(vec![None; calls]);
        state.verdict.set(Some(verdict.clone()));
        state.turn.set(Some(Shared::new(turn)));
        self.say(side, &format!("{written} written. {verdict}"));
        self.next_in_line(side);
    }

    fn say(self, side: Side, text: &str) {
        let end = if text.ends_with('.') { "" } else { "." };
        self.spoken
            .set(format!("Side {}: {text}{end}", side.plate()));
    }

    /// What a side was asked meanwhile comes first, then whoever waits.
    pub(super) fn next_in_line(self, side: Side) {
        let state = self.side(side);
        if matches!(state.asked.get_value(), Errand::Branch { .. }) {
            state.before.set_value(state.run.get_untracked());
            state.run.set(Run::Waits);
            self.queue.update_value(|queue| queue.push_front(side));
        }
        self.pump();
    }

    /// Nobody is served any more: the engine is gone.
    pub(super) fn abandon(self, failure: &Failure) {
        self.queue.update_value(|queue| queue.clear());
        for state in self.sides {
            match state.run.get_untracked() {
                Run::Going(_) => state.run.set(Run::Idle),
                Run::Waits => state.run.set(state.before.get_value()),
                Run::Idle | Run::Done(_) => continue,
            }
            state.auto.set(false);
            state.asked.set_value(Errand::Turn);
            state.failure.set(Some(failure.clone()));
        }
    }

    /// Gives a call its result. With the last one, a run goes on.
    pub fn send_result(self, side: Side, call: usize, text: &str) {
        let state = self.side(side);
        let Some(turn) = state.turn.get_untracked() else {
            return;
        };
        let Some(tool) = turn.calls.get(call).map(|call| call.tool.clone()) else {
            return;
        };
        let frame = result_frame(tool, value_of(text));
        state.results.update(|results| {
            if let Some(place) = results.get_mut(call) {
                *place = Some(frame);
            }
        });
        let left = untrack(|| state.waiting_calls());
        if left > 0 {
            return self.say(side, &format!("result taken, {}", still(left)));
        }
        if turn.outcome != Outcome::Calls {
            return self.say(side, "result taken");
        }
        let turns = state.past.with_untracked(Vec::len) + 1;
        if !state.auto.get_untracked() {
            let verdict = "All results are there. Generate one step goes on from them.";
            state.verdict.set(Some(verdict.to_owned()));
            return self.say(side, "all results taken");
        }
        if turns >= most_turns() {
            state.auto.set(false);
            let verdict = format!(
                "The run ended after {}, the most that it may take. Generate one step goes on.",
                words::count(turns, "turn")
            );
            self.say(side, &verdict);
            return state.verdict.set(Some(verdict));
        }
        if untrack(|| self.ready(side)).is_some() {
            self.enqueue(side);
        }
    }

    /// Puts another token in the place of a written one, and goes on from there.
    pub fn branch_at(self, side: Side, at: usize, alternative: usize) {
        let state = self.side(side);
        if untrack(|| self.ready(side)).is_none() {
            return self.refuse(
                side,
                "There is no model to go on with.".to_owned(),
                "Load one, and choose the token again.",
            );
        }
        state.auto.set(false);
        state.asked.set_value(Errand::Branch { at, alternative });
        match state.run.get_untracked() {
            Run::Going(_) => self.stop(),
            Run::Waits => {}
            Run::Idle | Run::Done(_) => self.enqueue(side),
        }
    }

    /// Shows another line of turns of a side.
    pub fn go_to_branch(self, side: Side, at: usize) {
        let state = self.side(side);
        if untrack(|| state.is_active()) {
            return;
        }
        state.save();
        let Some(branch) = state.branches.with_untracked(|all| all.get(at).cloned()) else {
            return;
        };
        state.branch.set(at);
        state.base.set(branch.base);
        state.past.set(branch.past);
        state.auto.set(false);
        state.show(branch.last);
        self.chosen.set(None);
        let count = state.branches.with_untracked(Vec::len);
        self.say(side, &format!("branch {} of {count}", at + 1));
    }
}

fn still(left: usize) -> String {
    format!("{} still to come", words::count(left, "result"))
}

/// Tokens that nothing reads.
fn loose(count: usize) -> Vec<Shared<Part>> {
    if count == 0 {
        return Vec::new();
    }
    vec![Shared::new(Part {
        what: What::Loose,
        tokens: 0..count,
        raw: String::new(),
        closed: false,
        json: None,
        fault: None,
    })]
}

/// What a typed result is: JSON where it reads as such, else text.
pub fn value_of(text: &str) -> Value {
    json::loads(python::strip(text)).unwrap_or_else(|_| text.into())
}

/// Which frames closed and opened.
fn news(old: &[Shared<Part>], new: &[Shared<Part>]) -> Option<String> {
    let name = |part: &Part| match part.what {
        What::Frame(kind) => Some(format!("{} frame", kind.name())),
        What::Message(_) => Some("assistant turn".to_owned()),
        What::Loose | What::Stop => None,
    };
    let mut said = Vec::new();
    for (at, part) in new.iter().enumerate() {
        let Some(name) = name(part) else { continue };
        let before = old
            .get(at)
            .filter(|old| std::mem::discriminant(&old.what) == std::mem::discriminant(&part.what));
        match (before.map(|old| old.closed), part.closed) {
            (None, false) => said.push(format!("{name} opened")),
            (None | Some(false), true) => said.push(format!("{name} closed")),
            (Some(_), _) => {}
        }
        let guess = |part: &Part| matches!(part.what, What::Message(Guess::Call | Guess::Tagged));
        if guess(part) && !before.is_some_and(|old| guess(old)) {
            said.push("it becomes an action".to_owned());
        }
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// Takes a side's turns over into the trajectory, as one step.
pub fn keep(page: Page, side: Side) {
    let live = page.live;
    let state = live.side(side);
    let frames = untrack(|| state.frames());
    let base = state
        .base
        .get_untracked()
        .and_then(|base| base.given.clone());
    let Some(base) = base.filter(|_| !frames.is_empty()) else {
        return;
    };
    let (from, count) = (base.frames.len(), frames.len());
    let old = page.trajectory.with_untracked(|t| t.frames.len());
    let replaced = old.saturating_sub(from);
    let what = format!(
        "kept {} from side {}",
        words::count(count, "frame"),
        side.plate()
    );
    page.change(what, |trajectory| {
        *trajectory = base;
        trajectory.frames.extend(frames.iter().cloned());
    });
    live.taken.set(
        frames
            .into_iter()
            .enumerate()
            .map(|(at, frame)| (from + at, frame, side))
            .collect(),
    );
    live.cut.set(Some(from + count));
    let instead = if replaced > 0 {
        format!(
            " They stand in the place of {}.",
            words::count(replaced, "frame")
        )
    } else {
        String::new()
    };
    let verdict = format!(
        "{} from side {} kept in the trajectory.{instead}",
        words::count(count, "frame"),
        side.plate()
    );
    page.spoken.set(verdict.clone());
    state.verdict.set(Some(verdict));
}

/// Runs both sides to their answers, in turn; where no model is there, shows where to load one.
pub fn run_both(page: Page) {
    let live = page.live;
    let ready: Vec<Side> = untrack(|| {
        Side::BOTH
            .into_iter()
            .filter(|side| live.ready(*side).is_some())
            .collect()
    });
    for side in Side::BOTH {
        page.show(side, View::Live);
    }
    if ready.is_empty() {
        page.dock.set(Dock::Model);
        page.pane.set(Pane::Dock);
        crate::pointing::focus_model();
    } else {
        page.pane.set(Pane::Sides);
    }
    for side in ready {
        live.write(side, true);
    }
}

/// The masthead's button.
#[component]
pub fn RunBoth() -> impl IntoView {
    let page = page();
    let live = page.live;
    let many = move || {
        Side::BOTH
            .into_iter()
            .filter(|side| live.side(*side).is_active())
            .count()
    };
    let shown = move || page.room.get() == Room::Compare;
    let busy = move || live.load.read().is_some();
    view! {
        <Show when=shown>
            <Show when=move || { many() > 0 } fallback=move || view! {
                <button class="btn wide" data-testid="run-both" disabled=busy
                    title="Lets the model continue both sides until it answers, turn by turn: A, then B (R)" on:click=move |_| run_both(page)>"Run both "<kbd>"R"</kbd></button> }>
                <button class="btn stop wide" data-testid="stop-all" on:click=move |_| live.halt()>{move || if many() > 1 { "Stop both " } else { "Stop " }}<kbd>"Esc"</kbd></button>
            </Show>
        </Show>
    }
}

/// What keys do for generation: whether this one did something.
pub fn key(page: Page, element: Option<&Element>, key: &str) -> bool {
    let live = page.live;
    let of_focus = element
        .and_then(|element| dom::closest(element, "[data-side]"))
        .and_then(|side| Side::from_key(&side.get_attribute("data-side")?));
    let sides = of_focus.map_or(Side::BOTH.to_vec(), |side| vec![side]);
    match key {
        "r" | "R" => run_both(page),
        "g" | "G" => {
            for side in sides {
                page.show(side, View::Live);
                live.write(side, false);
            }
        }
        "h" | "H" => {
            let sides: Vec<Side> = sides
                .into_iter()
                .filter(|side| page.view(*side).get_untracked() == View::Live)
                .collect();
            let on = sides
                .iter()
                .any(|side| live.side(*side).heat.get_untracked());
            for side in &sides {
                live.side(*side).heat.set(!on);
            }
            return !sides.is_empty();
        }
        "b" | "B" => {
            let Some((side, at)) = untrack(|| super::inspected(page)) else {
                return false;
            };
            let Some(alternative) = untrack(|| super::explain::best_other(live, side, at)) else {
                return false;
            };
            live.branch_at(side, at, alternative);
        }
        _ => return false,
    }
    true
}

impl Live {
    /// Shows a failure of a side that never reached the engine.
    pub fn refuse(self, side: Side, message: String, advice: &str) {
        self.side(side).failure.set(Some(Failure {
            kind: FailureKind::BadRequest,
            message,
            advice: advice.to_owned(),
        }));
    }
}
