//! Tokenizers, encoding with provenance, and label masks.

mod classes;
mod llama3;
pub mod model;
mod reading;
mod row;
pub mod seeds;
mod view;

pub use formats::Policy;
pub use llama3::{Llama3Tokenizer, Piece, RANKS, SPECIALS, VocabularyError};
pub use reading::{Generated, GeneratedFrame, read_generated};
pub use row::{PromptError, StopError, StopFacts, TrainingRow, prompt, training_row};
pub use view::{
    Arm, Counts, Memory, Token, TokenView, kind_of_marker, labels, marker_id, view, view_again,
};
