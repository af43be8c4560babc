//! Tokenizers, encoding with provenance, and label masks.

mod llama3;
mod view;

pub use llama3::{Llama3Tokenizer, Piece, VocabularyError};
pub use view::{Arm, Counts, Policy, Token, TokenView, view};
