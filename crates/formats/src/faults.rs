//! Frames at which a wire cannot be written, and content that is lost on the way there.

use crate::agenticml::{self, View};
use crate::bridge;
use crate::chatml;
use crate::frame::{FrameKind, Trajectory};
use crate::python;
use crate::validate::{Rule, validate};

/// Something about a frame that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rule is broken.
    Rule {
        /// The rule.
        rule: Rule,
        /// What is wrong, in the reference's words.
        message: String,
    },
    /// The rules cannot be applied to an action.
    NoRule(String),
    /// The AgenticML wire cannot be written.
    AgenticMl(String),
    /// The messages, or their wire, cannot be written.
    ChatMl(String),
    /// The content is a number, and 0: the wire says nothing for it.
    ZeroVanishes,
}

/// All faults of a trajectory, each at its frame; those that lie at no single frame are at none.
pub fn faults(trajectory: &Trajectory) -> Vec<(Option<usize>, Fault)> {
    let mut found = Vec::new();
    if trajectory.frames.is_empty() {
        return found;
    }
    match validate(&trajectory.frames, false) {
        Ok(violations) => {
            for violation in violations {
                let rule = violation.rule;
                let message = violation.message;
                found.push((Some(violation.frame), Fault::Rule { rule, message }));
            }
        }
        Err(error) => found.push((Some(error.frame()), Fault::NoRule(error.to_string()))),
    }
    if let Err(error) = agenticml::render(trajectory, View::Reserved) {
        let frame = match error {
            agenticml::RenderError::NullPayload { frame, .. } => Some(frame),
            agenticml::RenderError::Empty => None,
        };
        found.push((frame, Fault::AgenticMl(error.to_string())));
    }
    match bridge::messages(trajectory) {
        Ok(conversation) => {
            if let Err(error) = chatml::render(&conversation, &chatml::Options::default()) {
                let origin = error.message.and_then(|at| conversation.origins.get(at));
                let frame = origin.and_then(|origin| origin.frames().last().copied());
                found.push((frame, Fault::ChatMl(error.to_string())));
            }
        }
        Err(error) => {
            let frame = refused(trajectory);
            found.push((Some(frame), Fault::ChatMl(error.to_string())));
        }
    }
    for (at, frame) in trajectory.frames.iter().enumerate() {
        if frame.kind == FrameKind::Reward
            && !python::truthy(&frame.content)
            && frame.content != crate::Value::Null
        {
            found.push((Some(at), Fault::ZeroVanishes));
        }
    }
    found
}

/// The first frame at which the bridge fails. What fails the beginning of a trajectory fails all of it.
fn refused(trajectory: &Trajectory) -> usize {
    let frames = &trajectory.frames;
    let (mut good, mut bad) = (0, frames.len());
    while good + 1 < bad {
        let middle = (good + bad) / 2;
        let part = Trajectory {
            frames: frames[..middle].to_vec(),
        };
        if bridge::messages(&part).is_ok() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::json::loads;

    fn at(frames: &[(FrameKind, &str)]) -> Vec<(Option<usize>, Fault)> {
        let frames = frames
            .iter()
            .map(|(kind, content)| Frame::new(*kind, loads(content).expect("JSON")))
            .collect();
        faults(&Trajectory { frames })
    }

    #[test]
    fn faults_are_at_their_frames() {
        use FrameKind::{Action, End, Goal, Mission, Result, Reward};
        assert_eq!(at(&[(Goal, "\"g\""), (Mission, "\"m\"")]), []);
        let found = at(&[(Goal, "\"g\""), (Result, "null"), (Mission, "\"m\"")]);
        assert!(found.contains(&(
            Some(1),
            Fault::AgenticMl("frame 1 (result) has no content to write as JSON".to_owned())
        )));
        let found = at(&[
            (Goal, "\"g\""),
            (Action, "{\"tool\": \"a\"}"),
            (End, "null"),
            (Action, "{\"tool\": [1]}"),
        ]);
        let chat: Vec<_> = found
            .iter()
            .filter(|(_, fault)| matches!(fault, Fault::ChatMl(_)))
            .map(|(frame, _)| *frame)
            .collect();
        assert_eq!(chat, [Some(3)]);
        let found = at(&[
            (Goal, "\"g\""),
            (Action, "{\"tool\": \"answer\"}"),
            (Reward, "0"),
        ]);
        assert_eq!(found, [(Some(2), Fault::ZeroVanishes)]);
    }
}
