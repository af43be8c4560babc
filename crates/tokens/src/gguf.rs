//! Names that the tokenizer of [`crate::model`] had when GGUF files were all there was.

pub use crate::model::{
    ModelTokenizer as GgufTokenizer, Parts, TokenizerError as GgufTokenizerError,
};
