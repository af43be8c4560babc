//! Tokenizers, encoding with provenance, and label masks.

mod classes;
pub mod gguf;
mod llama3;
mod view;

pub use formats::Policy;
pub use llama3::{Llama3Tokenizer, Piece, RANKS, SPECIALS, VocabularyError};
pub use view::{Arm, Counts, Token, TokenView, kind_of_marker, labels, marker_id, view};
