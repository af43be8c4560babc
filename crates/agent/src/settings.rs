//! What both loops are told, and why they end.

use formats::Policy;
use std::fmt;
use tokens::StopFacts;

/// How to step and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the reference loses data or fails, do as it does or better.
    pub policy: Policy,
    /// Refuse markers that the model may not write (AgenticML only).
    pub strict: bool,
    /// Most model turns of a run.
    pub max_iterations: usize,
    /// Most ids of a turn.
    pub max_new_tokens: usize,
    /// What the tokenizer says about stopping.
    pub stops: StopFacts,
}

impl Default for Settings {
    /// The reference's defaults, safely, for a model of the Llama 3.1 base tokenizer.
    fn default() -> Self {
        Self {
            policy: Policy::Safe,
            strict: true,
            max_iterations: 10,
            max_new_tokens: 512,
            stops: StopFacts::LLAMA31_BASE,
        }
    }
}

/// Why a run ended. `S` says why a turn could not be used.
#[derive(Clone, Debug, PartialEq)]
pub enum RunStop<S> {
    /// The model answered or gave up.
    Terminal,
    /// A turn without any action.
    NoAction,
    /// A turn was cut off.
    MaxTokens,
    /// All turns are used up.
    MaxIterations,
    /// A turn that cannot be read; it changed nothing.
    Unusable(S),
}

impl<S: fmt::Display> fmt::Display for RunStop<S> {
    /// As the reference names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal_action"),
            Self::NoAction => f.write_str("no_action"),
            Self::MaxTokens => f.write_str("max_tokens"),
            Self::MaxIterations => f.write_str("max_iterations"),
            Self::Unusable(stop) => stop.fmt(f),
        }
    }
}
