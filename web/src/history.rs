//! Undo and redo. Whatever changes the trajectory goes through [`Page::change`] (one step),
//! [`Page::edit`] (typing: one step until a pause) or [`Page::open`] (another trajectory: one step),
//! so nothing that someone had is lost.

use crate::document::Side;
use crate::state::{Page, Spot};
use formats::{Frame, FrameKind, Trajectory, Value};
use leptos::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Text of frames that cannot be read yet, by frame. The frame keeps its last good content meanwhile.
pub type Drafts = BTreeMap<usize, String>;

/// Most steps that are kept.
const STEPS: usize = 200;
/// Most bytes that all kept steps may take, roughly. Older ones go first.
const BYTES: usize = 48 << 20;
/// A pause in typing after which a new step begins, in milliseconds.
const PAUSE: f64 = 1_200.0;

/// How things stood before a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The trajectory.
    pub trajectory: Trajectory,
    /// The pinned frame.
    pub pin: Option<usize>,
    /// Index of the sample it came from.
    pub sample: usize,
    /// Texts that could not be read.
    pub drafts: Drafts,
    /// What the change is called, as `deleted frame 3`.
    pub what: String,
}

/// The steps back and forth.
#[derive(Default)]
pub struct Stack {
    past: VecDeque<Step>,
    future: Vec<Step>,
    /// The frame that is being typed into, and when it last was.
    typing: Option<(usize, f64)>,
}

impl Stack {
    /// Whether typing at this moment goes on with the step that typing began.
    fn goes_on(&mut self, frame: usize, now: f64) -> bool {
        let same = self
            .typing
            .is_some_and(|(last, at)| last == frame && now - at < PAUSE);
        self.typing = Some((frame, now));
        same
    }

    /// Keeps how things stood before a change.
    fn record(&mut self, step: Step) {
        self.future.clear();
        self.past.push_back(step);
        let mut bytes: usize = self.past.iter().map(|step| weight(&step.trajectory)).sum();
        while self.past.len() > STEPS || (bytes > BYTES && self.past.len() > 1) {
            if let Some(gone) = self.past.pop_front() {
                bytes -= weight(&gone.trajectory);
            }
        }
    }

    /// The step before, given how things stand now.
    fn back(&mut self, now: impl FnOnce(String) -> Step) -> Option<Step> {
        let step = self.past.pop_back()?;
        self.typing = None;
        self.future.push(now(step.what.clone()));
        Some(step)
    }

    /// The step that was taken back.
    fn forth(&mut self, now: impl FnOnce(String) -> Step) -> Option<Step> {
        let step = self.future.pop()?;
        self.typing = None;
        self.past.push_back(now(step.what.clone()));
        Some(step)
    }
}

/// Roughly the bytes that a trajectory takes.
fn weight(trajectory: &Trajectory) -> usize {
    let frames = &trajectory.frames;
    frames.iter().map(|frame| held_by(&frame.content)).sum()
}

fn held_by(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(held_by).sum(),
        Value::Object(object) => object
            .iter()
            .map(|(key, item)| key.len() + held_by(item))
            .sum(),
        _ => 0,
    };
    size_of::<Value>() + inside
}

/// Where frames went: for each place before a change the place after it.
fn followed(before: &[Frame], after: &[Frame]) -> Vec<Option<usize>> {
    let same = |(a, b): &(&Frame, &Frame)| a == b;
    let ahead = before.iter().zip(after).take_while(same).count();
    let behind = before[ahead..]
        .iter()
        .rev()
        .zip(after[ahead..].iter().rev())
        .take_while(same)
        .count();
    (0..before.len())
        .map(|at| {
            if at < ahead {
                Some(at)
            } else if at >= before.len() - behind {
                Some(at + after.len() - before.len())
            } else {
                (before.len() == after.len()).then_some(at)
            }
        })
        .collect()
}

/// What the page remembers of the trajectory's past.
#[derive(Clone, Copy)]
pub struct History {
    stack: RwSignal<Stack>,
    /// Index of the sample that is shown: the page's own says already which one is on its way.
    shown: StoredValue<usize>,
    /// Texts that cannot be read yet.
    pub drafts: RwSignal<Drafts>,
}

impl History {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            stack: RwSignal::new(Stack::default()),
            shown: StoredValue::new(0),
            drafts: RwSignal::new(Drafts::new()),
        }
    }

    /// What would be undone.
    pub fn undoable(self) -> Option<String> {
        let stack = self.stack.read();
        stack.past.back().map(|step| step.what.clone())
    }

    /// What would be done again.
    pub fn redoable(self) -> Option<String> {
        let stack = self.stack.read();
        stack.future.last().map(|step| step.what.clone())
    }
}

/// The token that is selected, by its frame: rows move when frames do.
#[derive(Clone, Copy)]
struct Held {
    side: Side,
    frame: usize,
    nth: usize,
}

impl Page {
    /// How things stand.
    fn now(self, what: String) -> Step {
        Step {
            trajectory: self.trajectory.get_untracked(),
            pin: self.pin.get_untracked(),
            sample: self.history.shown.get_value(),
            drafts: self.history.drafts.get_untracked(),
            what,
        }
    }

    /// Changes the trajectory as one step that can be undone. `what` names it, as `deleted frame 3`. Pin,
    /// selection and open fields follow their frames. A change that changes nothing is no step.
    pub fn change(self, what: impl Into<String>, edit: impl FnOnce(&mut Trajectory)) {
        let before = self.trajectory.get_untracked();
        let mut after = before.clone();
        edit(&mut after);
        let places = followed(&before.frames, &after.frames);
        self.step(what.into(), after, &places);
    }

    /// Moves a frame to where another stands, as one step.
    pub fn move_frame(self, from: usize, to: usize) {
        let mut after = self.trajectory.get_untracked();
        let count = after.frames.len();
        if from == to || from >= count || to >= count {
            return;
        }
        let frame = after.frames.remove(from);
        let what = format!("moved {} from {from} to {to}", frame.kind.name());
        after.frames.insert(to, frame);
        let places: Vec<_> = (0..count)
            .map(|at| {
                Some(match at {
                    at if at == from => to,
                    at if from < at && at <= to => at - 1,
                    at if to <= at && at < from => at + 1,
                    at => at,
                })
            })
            .collect();
        self.step(what, after, &places);
    }

    fn step(self, what: String, after: Trajectory, places: &[Option<usize>]) {
        if self.trajectory.with_untracked(|before| *before == after) {
            return;
        }
        let step = self.now(what);
        self.history.stack.update(|stack| {
            stack.typing = None;
            stack.record(step);
        });
        self.settle(after, places);
    }

    /// Shows a trajectory whose frames come from the places of the one before.
    fn settle(self, after: Trajectory, places: &[Option<usize>]) {
        let place = |at: usize| places.get(at).copied().flatten();
        let held = self.held();
        let kinds = |trajectory: &Trajectory| -> Vec<FrameKind> {
            trajectory.frames.iter().map(|frame| frame.kind).collect()
        };
        let rearranged = self.trajectory.with_untracked(kinds) != kinds(&after);
        let editing = self.editing.get_untracked();
        if rearranged {
            // What the pointer or the focus was on may be another frame now.
            self.leave();
            self.focus.set(None);
            self.editing.set(None);
            self.live.cut_reset();
        }
        self.history.drafts.update(|drafts| {
            *drafts = std::mem::take(drafts)
                .into_iter()
                .filter_map(|(at, text)| Some((place(at)?, text)))
                .collect();
        });
        self.trajectory.set(after);
        if let Some(pin) = self.pin.get_untracked() {
            self.pin.set(place(pin));
        }
        if rearranged {
            self.editing.set(editing.and_then(place));
            self.spot.set(None);
            if let Some((held, frame)) = held.and_then(|held| Some((held, place(held.frame)?))) {
                self.hold(Held { frame, ..held });
            }
        }
    }

    fn held(self) -> Option<Held> {
        let spot = self.spot.get_untracked()?;
        let document = self.document.get_untracked();
        let index = spot.index(&document)?;
        let frame = spot.token(&document)?.frame?;
        let nth = document
            .side(spot.side)
            .frame_tokens(frame)
            .into_iter()
            .flatten()
            .position(|at| at == index)?;
        Some(Held {
            side: spot.side,
            frame,
            nth,
        })
    }

    fn hold(self, held: Held) {
        let document = self.document.get_untracked();
        let token = document
            .side(held.side)
            .frame_tokens(held.frame)
            .into_iter()
            .flatten()
            .nth(held.nth);
        let spot = token.and_then(|index| Spot::of_token(&document, held.side, index));
        self.spot.set(spot);
    }

    /// Changes one frame's content, as typing does: one step until there is a pause.
    pub fn edit(self, frame: usize, content: Value) {
        let same = self.trajectory.with_untracked(|trajectory| {
            trajectory
                .frames
                .get(frame)
                .is_none_or(|frame| frame.content == content)
        });
        if same {
            return;
        }
        let now = js_sys::Date::now();
        let goes_on = self
            .history
            .stack
            .try_update_untracked(|stack| stack.goes_on(frame, now));
        if goes_on != Some(true) {
            let step = self.now(format!("typing in frame {frame}"));
            self.history.stack.update(|stack| stack.record(step));
        }
        self.trajectory.update(|trajectory| {
            if let Some(frame) = trajectory.frames.get_mut(frame) {
                frame.content = content;
            }
        });
    }

    /// Puts another trajectory in the place of this one, as one step.
    pub(crate) fn replace(self, what: impl Into<String>, after: Trajectory) {
        if self.trajectory.with_untracked(|before| *before != after) {
            let step = self.now(what.into());
            self.history.stack.update(|stack| {
                stack.typing = None;
                stack.record(step);
            });
        }
        self.history.shown.set_value(self.sample.get_untracked());
        self.history.drafts.set(Drafts::new());
        self.trajectory.set(after);
    }

    /// Takes the last step back.
    pub fn undo(self) {
        let step = self
            .history
            .stack
            .try_update(|stack| stack.back(|what| self.now(what)));
        self.take(step.flatten(), "Undone");
    }

    /// Takes a step again that was taken back.
    pub fn redo(self) {
        let step = self
            .history
            .stack
            .try_update(|stack| stack.forth(|what| self.now(what)));
        self.take(step.flatten(), "Done again");
    }

    fn take(self, step: Option<Step>, word: &str) {
        let Some(step) = step else {
            return;
        };
        let places = self
            .trajectory
            .with_untracked(|before| followed(&before.frames, &step.trajectory.frames));
        let count = step.trajectory.frames.len();
        self.sample.set(step.sample);
        self.history.shown.set_value(step.sample);
        self.settle(step.trajectory, &places);
        // Texts that are unfinished now stay, and those that were come back.
        self.history.drafts.update(|drafts| {
            for (at, text) in step.drafts {
                drafts.entry(at).or_insert(text);
            }
            drafts.retain(|at, _| *at < count);
        });
        self.pin.set(step.pin.filter(|pin| *pin < count));
        self.spoken.set(format!("{word}: {}", step.what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        Step {
            trajectory: trajectory(&[text]),
            pin: None,
            sample: 0,
            drafts: Drafts::new(),
            what: text.to_owned(),
        }
    }

    fn trajectory(texts: &[&str]) -> Trajectory {
        Trajectory {
            frames: texts
                .iter()
                .map(|text| Frame::new(FrameKind::Goal, *text))
                .collect(),
        }
    }

    #[test]
    fn back_and_forth_end_where_they_began() {
        let mut stack = Stack::default();
        stack.record(step("a"));
        stack.record(step("b"));
        let mut now = step("c");
        for expected in ["b", "a"] {
            let old = now.clone();
            now = stack.back(|_| old).expect("a step");
            assert_eq!(now.what, expected);
        }
        assert!(stack.back(|_| step("d")).is_none());
        for expected in ["b", "c"] {
            let old = now.clone();
            now = stack.forth(|_| old).expect("a step");
            assert_eq!(now.what, expected);
        }
        assert!(stack.forth(|_| step("d")).is_none());
    }

    #[test]
    fn a_new_change_ends_what_could_be_done_again() {
        let mut stack = Stack::default();
        stack.record(step("a"));
        stack.back(|_| step("b"));
        stack.record(step("c"));
        assert!(stack.forth(|_| step("d")).is_none());
    }

    #[test]
    fn typing_is_one_step_until_a_pause_or_another_frame() {
        let mut stack = Stack::default();
        assert!(!stack.goes_on(1, 0.0));
        assert!(stack.goes_on(1, 500.0));
        assert!(stack.goes_on(1, 1_500.0));
        assert!(!stack.goes_on(2, 1_600.0));
        assert!(!stack.goes_on(2, 1_600.0 + PAUSE));
    }

    #[test]
    fn the_past_is_bounded() {
        let mut stack = Stack::default();
        for at in 0..STEPS + 10 {
            stack.record(step(&at.to_string()));
        }
        assert_eq!(stack.past.len(), STEPS);
        assert_eq!(stack.past[0].what, "10");
        let long = "x".repeat(BYTES / 2);
        for _ in 0..5 {
            stack.record(step(&long));
        }
        assert!(stack.past.len() < 3);
    }

    #[test]
    fn frames_are_followed() {
        let places = |before: &[&str], after: &[&str]| {
            followed(&trajectory(before).frames, &trajectory(after).frames)
        };
        let (a, b, c) = (Some(0), Some(1), Some(2));
        // inserted, removed, changed in place, appended
        assert_eq!(places(&["x", "y"], &["x", "n", "y"]), [a, c]);
        assert_eq!(places(&["x", "y", "z"], &["x", "z"]), [a, None, b]);
        assert_eq!(places(&["x", "y", "z"], &["x", "n", "z"]), [a, b, c]);
        assert_eq!(places(&["x"], &["x", "y"]), [a]);
    }
}
