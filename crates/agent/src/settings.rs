//! What both loops are told, and why they end.

use formats::Policy;
use std::fmt;
use tokens::{Llama3Tokenizer, StopFacts};

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

/// Ids that end a model's turn whatever the arm: end of text, turn and message, and the tokenizer's end
/// of sequence. Under [`Policy::Safe`] none of them gets into what is read.
pub(crate) fn turn_ends(tokenizer: &Llama3Tokenizer, stops: &StopFacts) -> Vec<u32> {
    let names = ["<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"];
    let mut ends: Vec<u32> = names
        .into_iter()
        .filter_map(|name| tokenizer.special_id(name))
        .collect();
    ends.extend(stops.eos.filter(|eos| !ends.contains(eos)));
    ends
}

/// The arm's stop ids, and under [`Policy::Safe`] all ends of turns.
pub(crate) fn stop_ids(
    tokenizer: &Llama3Tokenizer,
    mut stops: Vec<u32>,
    settings: &Settings,
) -> Vec<u32> {
    if settings.policy == Policy::Safe {
        for end in turn_ends(tokenizer, &settings.stops) {
            if !stops.contains(&end) {
                stops.push(end);
            }
        }
    }
    stops
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
