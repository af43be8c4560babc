//! Where the tokens of a wire go, and why two wires of one trajectory need different numbers of them.

use crate::{Token, TokenView};
use formats::{Conversation, FrameKind, Role};
use std::ops::AddAssign;

/// Numbers of tokens of some part of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cost {
    /// All.
    pub tokens: usize,
    /// Of structure and template: what no frame says.
    pub structure: usize,
    /// With a label.
    pub trained: usize,
}

impl AddAssign<&Token> for Cost {
    fn add_assign(&mut self, token: &Token) {
        self.tokens += 1;
        self.structure += usize::from(token.role != Role::Content);
        self.trained += usize::from(token.label.is_some());
    }
}

/// What each frame of a wire costs, and what belongs to no frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Per frame.
    pub frames: Vec<Cost>,
    /// Headers, turn ends and template text that no frame owns.
    pub outside: Cost,
    /// All.
    pub total: Cost,
}

/// Counts a wire of a trajectory with so many frames.
pub fn costs(view: &TokenView, frames: usize) -> Costs {
    let mut costs = Costs {
        frames: vec![Cost::default(); frames],
        ..Costs::default()
    };
    for token in &view.tokens {
        let of_frame = token.frame.and_then(|at| costs.frames.get_mut(at));
        *of_frame.unwrap_or(&mut costs.outside) += token;
        costs.total += token;
    }
    costs
}

/// A part of the wires that is written differently on the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Markers here; headers, role words, blank lines and turn ends there.
    Structure,
    /// Text that a template adds.
    Template,
    /// Goals, observations, missions, feedback: prose on both sides.
    Prompts,
    /// Beliefs, plans, thoughts: dropped in ChatML beside a call.
    Reasoning,
    /// Actions that are tool calls: JSON here, JSON within JSON there.
    Calls,
    /// Actions that are answers: JSON here, plain text there.
    Answers,
    /// Results: JSON here, JSON within a JSON string there.
    Results,
    /// Rewards: not in ChatML.
    Rewards,
}

impl Part {
    /// All, in the order of a table.
    pub const ALL: [Self; 8] = [
        Self::Structure,
        Self::Template,
        Self::Prompts,
        Self::Reasoning,
        Self::Calls,
        Self::Answers,
        Self::Results,
        Self::Rewards,
    ];

    fn of(token: &Token, conversation: &Conversation) -> Self {
        use FrameKind::{
            Action, Belief, End, Feedback, Goal, Mission, Obs, Plan, Result, Reward, Think,
        };
        match (token.role, token.frame_kind) {
            (Role::Template, _) => Self::Template,
            (Role::Structure, _) | (Role::Content, None | Some(End)) => Self::Structure,
            (Role::Content, Some(Goal | Obs | Mission | Feedback)) => Self::Prompts,
            (Role::Content, Some(Belief | Plan | Think)) => Self::Reasoning,
            (Role::Content, Some(Action)) if is_call(token, conversation) => Self::Calls,
            (Role::Content, Some(Action)) => Self::Answers,
            (Role::Content, Some(Result)) => Self::Results,
            (Role::Content, Some(Reward)) => Self::Rewards,
        }
    }
}

fn is_call(token: &Token, conversation: &Conversation) -> bool {
    let mut origins = conversation.origins.iter();
    token.frame.is_some() && origins.any(|origin| origin.call == token.frame)
}

/// The tokens of one part on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which part.
    pub part: Part,
    /// Tokens, AgenticML first.
    pub tokens: [usize; 2],
}

impl Difference {
    /// ChatML less AgenticML.
    pub fn change(&self) -> i64 {
        self.tokens[1] as i64 - self.tokens[0] as i64
    }
}

/// Why the wires need different numbers of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The parts that occur. Their tokens add up to the wires'.
    pub parts: Vec<Difference>,
    /// Tokens of calls and results that hold a backslash: what JSON escapes.
    pub escapes: [usize; 2],
}

/// Compares the wires of one trajectory, AgenticML first. The messages say which actions are calls.
pub fn compare(conversation: &Conversation, views: [&TokenView; 2]) -> Comparison {
    let mut tokens = [[0; 2]; Part::ALL.len()];
    let mut escapes = [0; 2];
    for (side, view) in views.into_iter().enumerate() {
        for token in &view.tokens {
            let part = Part::of(token, conversation);
            tokens[part as usize][side] += 1;
            let json = matches!(part, Part::Calls | Part::Results);
            escapes[side] += usize::from(json && token.bytes.contains(&b'\\'));
        }
    }
    let parts = Part::ALL.into_iter().zip(tokens);
    Comparison {
        parts: parts
            .map(|(part, tokens)| Difference { part, tokens })
            .filter(|difference| difference.tokens != [0; 2])
            .collect(),
        escapes,
    }
}
