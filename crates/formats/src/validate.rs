//! The rules that a trajectory must keep.

use crate::bridge::TERMINAL_TOOLS;
use crate::frame::{Frame, FrameKind};
use crate::json::Value;
use crate::python;
use std::fmt;

/// A rule of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The first frame is a goal.
    MissingGoal,
    /// Only goal, mission and obs stand before the first model frame.
    OpeningPrelude,
    /// `end` follows a model frame.
    MisplacedEnd,
    /// No new turn acts while results are missing.
    OrphanAction,
    /// Every action that is not terminal gets its result in time.
    UnresolvedAction,
    /// Every result answers an action.
    OrphanResult,
    /// Feedback and reward come after an action.
    PrematureRuntimeFrame,
}

impl Rule {
    /// Its name, e.g. `missing_goal`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingGoal => "missing_goal",
            Self::OpeningPrelude => "opening_prelude",
            Self::MisplacedEnd => "misplaced_end",
            Self::OrphanAction => "orphan_action",
            Self::UnresolvedAction => "unresolved_action",
            Self::OrphanResult => "orphan_result",
            Self::PrematureRuntimeFrame => "premature_runtime_frame",
        }
    }
}

/// A rule in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What it demands.
    pub demands: &'static str,
    /// Why.
    pub why: &'static str,
    /// What to do when it is broken.
    pub mend: &'static str,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 7] = [
        Self::MissingGoal,
        Self::OpeningPrelude,
        Self::MisplacedEnd,
        Self::OrphanAction,
        Self::UnresolvedAction,
        Self::OrphanResult,
        Self::PrematureRuntimeFrame,
    ];

    /// The rule in words.
    pub fn explain(self) -> Explanation {
        let (demands, why, mend) = match self {
            Self::MissingGoal => (
                "The first frame is a goal. Later goals are allowed, a mission is never required.",
                "The goal is the standing instruction that everything else is read under. On the other side it becomes the system message.",
                "Move the goal to the front, or add one there.",
            ),
            Self::OpeningPrelude => (
                "Before the model first speaks (belief, plan, think or action), only goal, mission and obs may stand.",
                "This opening is the prompt: what the runtime knows before there is anything to answer. Results, feedback and rewards answer something, and an end closes a turn that has not begun.",
                "Move this frame behind the model's first frame, or make it an obs.",
            ),
            Self::MisplacedEnd => (
                "An end stands directly behind a belief, plan, think or action.",
                "end is the one marker at which the model stops, so it closes the model's own turn. Behind a runtime frame, or behind another end, there is no open turn to close.",
                "Move the end directly behind the last frame of the model's turn, or delete it.",
            ),
            Self::OrphanAction => (
                "Once the model's turn is over, no action comes before all results of the earlier ones are there.",
                "Results carry no ids: they answer the actions of a turn by their order. An action of a new turn in between leaves open which result is whose.",
                "Add the missing results in front of this action, or move the action into the turn before its end.",
            ),
            Self::UnresolvedAction => (
                "Each action but answer and fail gets a result before the model goes on to a belief, plan or think, and before the trajectory ends. Reasoning behind an action counts as going on, even within one turn.",
                "A model that is trained to reason past a call whose result it has not seen learns to invent the result.",
                "Add the missing result behind the turn, move the reasoning in front of the action, or make the action an answer.",
            ),
            Self::OrphanResult => (
                "Each result answers an action that has none yet. One more is allowed directly behind answer or fail.",
                "Results answer actions by their order, so a result too many answers nothing, or shifts all that follow.",
                "Delete this result, or add the action that it answers.",
            ),
            Self::PrematureRuntimeFrame => (
                "Feedback and rewards come after an action.",
                "They are words and scores about something that the model did. Before its first action there is nothing to speak of.",
                "Move this frame behind an action. What the person asks for first is a mission.",
            ),
        };
        Explanation { demands, why, mend }
    }
}

/// A rule that a trajectory breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Index of the frame at which it shows. (For missing results the first action that lacks one; the
    /// reference takes index 0 for "none" and then reports a later frame.)
    pub frame: usize,
    /// What is wrong, in the reference's words.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, frame) = (self.rule.name(), self.frame);
        write!(f, "[{rule}] frame {frame}: {}", self.message)
    }
}

/// An action whose content the rules cannot be applied to. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidateError {
    /// Its content is neither an object nor empty; carries the frame and Python's name of the type.
    #[error("'{1}' object has no attribute 'get'")]
    NotAnObject(usize, &'static str),
    /// Its `tool` is a list or object; carries the frame and Python's name of the type.
    #[error("unhashable type: '{1}'")]
    ToolNotHashable(usize, &'static str),
}

impl ValidateError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::NotAnObject(..) => "AttributeError",
            Self::ToolNotHashable(..) => "TypeError",
        }
    }

    /// Index of the action.
    pub fn frame(&self) -> usize {
        match self {
            Self::NotAnObject(frame, _) | Self::ToolNotHashable(frame, _) => *frame,
        }
    }
}

/// Checks frames against the rules. None at all is fine.
///
/// `allow_unresolved` lets actions stand without results at the very end, as they do while a model's
/// turn has just been written.
///
/// # Errors
/// When an action's content is not an object (null and other empty contents pass as unnamed calls).
pub fn validate(frames: &[Frame], allow_unresolved: bool) -> Result<Vec<Violation>, ValidateError> {
    let mut found = Vec::new();
    opening(frames, &mut found);
    ends(frames, &mut found);
    walk(frames, allow_unresolved, &mut found)?;
    Ok(found)
}

fn violation(rule: Rule, frame: usize, message: String) -> Violation {
    Violation {
        rule,
        frame,
        message,
    }
}

fn opening(frames: &[Frame], found: &mut Vec<Violation>) {
    if let Some(first) = frames.first()
        && first.kind != FrameKind::Goal
    {
        let got = first.kind.alias();
        let message = format!("trajectory must begin with <|goal|>, got {got}");
        found.push(violation(Rule::MissingGoal, 0, message));
    }
    let prelude = frames.iter().take_while(|f| !f.kind.opens_model_turn());
    for (index, frame) in prelude.enumerate() {
        let message = match frame.kind {
            FrameKind::Goal | FrameKind::Mission | FrameKind::Obs => continue,
            FrameKind::End => "end frame before any model frame".to_owned(),
            kind => format!(
                "unexpected {} before any model frame (expected goal/mission/obs)",
                kind.alias()
            ),
        };
        found.push(violation(Rule::OpeningPrelude, index, message));
    }
}

fn ends(frames: &[Frame], found: &mut Vec<Violation>) {
    for (index, frame) in frames.iter().enumerate() {
        if frame.kind != FrameKind::End {
            continue;
        }
        let message = match index.checked_sub(1).map(|before| frames[before].kind) {
            None => "trajectory cannot begin with end".to_owned(),
            Some(before) if before.opens_model_turn() => continue,
            Some(before) => format!("end must follow a model turn frame, got {}", before.alias()),
        };
        found.push(violation(Rule::MisplacedEnd, index, message));
    }
}

fn walk(
    frames: &[Frame],
    allow_unresolved: bool,
    found: &mut Vec<Violation>,
) -> Result<(), ValidateError> {
    let mut pending = 0usize;
    let mut first_pending = 0usize;
    let mut acted = false;
    let mut in_turn = false;
    // The reference cannot tell a first pending index of 0 from none.
    let place = |first: usize, otherwise: usize| if first == 0 { otherwise } else { first };
    for (index, frame) in frames.iter().enumerate() {
        match frame.kind {
            FrameKind::Action => {
                if pending > 0 && !in_turn {
                    let message = "non-terminal action emitted while previous batch unresolved";
                    let at = place(first_pending, index);
                    found.push(violation(Rule::OrphanAction, at, message.to_owned()));
                }
                acted = true;
                in_turn = true;
                if !is_terminal(index, frame)? {
                    if pending == 0 {
                        first_pending = index;
                    }
                    pending += 1;
                }
            }
            FrameKind::Belief | FrameKind::Plan | FrameKind::Think => {
                in_turn = true;
                if pending > 0 {
                    let message = format!(
                        "non-terminal action(s) not followed by <|result|> before next {}",
                        frame.kind.alias()
                    );
                    let at = place(first_pending, index);
                    found.push(violation(Rule::UnresolvedAction, at, message));
                }
            }
            FrameKind::Result => {
                in_turn = false;
                if pending > 0 {
                    pending -= 1;
                    if pending == 0 {
                        first_pending = 0;
                    }
                } else if !answers_terminal(&frames[..index])? {
                    let message = "result with no preceding unresolved non-terminal action";
                    found.push(violation(Rule::OrphanResult, index, message.to_owned()));
                }
            }
            FrameKind::Feedback | FrameKind::Reward => {
                in_turn = false;
                if !acted {
                    let message = format!("{} appears before any action", frame.kind.alias());
                    found.push(violation(Rule::PrematureRuntimeFrame, index, message));
                }
            }
            FrameKind::End => in_turn = false,
            FrameKind::Goal | FrameKind::Mission | FrameKind::Obs => {}
        }
    }
    if pending > 0 && !allow_unresolved {
        let message = format!(
            "{pending} non-terminal action(s) without matching result(s) by end of trajectory"
        );
        let at = place(first_pending, frames.len() - 1);
        found.push(violation(Rule::UnresolvedAction, at, message));
    }
    Ok(())
}

/// Whether the nearest frame that is no `end` is a terminal action.
fn answers_terminal(before: &[Frame]) -> Result<bool, ValidateError> {
    let nearest = before.iter().rposition(|f| f.kind != FrameKind::End);
    match nearest {
        Some(index) if before[index].kind == FrameKind::Action => {
            is_terminal(index, &before[index])
        }
        _ => Ok(false),
    }
}

fn is_terminal(index: usize, action: &Frame) -> Result<bool, ValidateError> {
    let object = match &action.content {
        Value::Object(object) => object,
        empty if !python::truthy(empty) => return Ok(false),
        other => {
            let name = python::type_name(other);
            return Err(ValidateError::NotAnObject(index, name));
        }
    };
    match object.get("tool") {
        Some(Value::String(name)) => Ok(TERMINAL_TOOLS.contains(&name.as_str())),
        Some(tool @ (Value::Array(_) | Value::Object(_))) => {
            let name = python::type_name(tool);
            Err(ValidateError::ToolNotHashable(index, name))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_explained() {
        for rule in Rule::ALL {
            let Explanation { demands, why, mend } = rule.explain();
            for text in [demands, why, mend] {
                assert!(text.ends_with('.') && text.len() > 30, "{}", rule.name());
            }
        }
    }
}
