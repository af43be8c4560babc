//! Tokenizers, encoding with provenance, and label masks.

mod classes;
mod costs;
mod llama3;
pub mod model;
pub mod prefix;
mod reading;
mod row;
pub mod seeds;
mod view;
mod why;

pub use costs::{Comparison, Cost, Costs, Difference, Part, compare, costs};
pub use formats::Policy;
pub use llama3::{Llama3Tokenizer, Piece, RANKS, SPECIALS, VocabularyError};
pub use reading::{Generated, GeneratedFrame, read_generated};
pub use row::{PromptError, StopError, StopFacts, TrainingRow, prompt, training_row};
pub use view::{
    Arm, Counts, Memory, Token, TokenView, kind_of_marker, labels, marker_id, view, view_again,
};
pub use why::{Why, why};
