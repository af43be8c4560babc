//! The Llama 3.1 tokenizer.

/// Why a vocabulary cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VocabularyError {
    /// Not a compact vocabulary, or damaged.
    #[error("not a compact Llama 3.1 vocabulary: {0}")]
    Compact(&'static str),
    /// A tokenizer.json that is not Llama 3.1's.
    #[error("not the Llama 3.1 tokenizer: {0}")]
    Source(String),
}

/// The Llama 3.1 tokenizer: 128,000 byte-level ranks and 256 special tokens.
#[derive(Debug)]
pub struct Llama3Tokenizer {
    _private: (),
}

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its bytes; a special token's are its name. Empty for ids outside the vocabulary.
    pub bytes: &'a [u8],
    /// The name, e.g. `<|eot_id|>`, when it is a special token.
    pub special: Option<&'a str>,
}

impl Llama3Tokenizer {
    /// Loads the asset that [`Llama3Tokenizer::compact_from_json`] makes.
    ///
    /// # Errors
    /// When the bytes are not such an asset.
    pub fn from_compact(_bytes: &[u8]) -> Result<Self, VocabularyError> {
        Err(VocabularyError::Compact("loading is not built yet"))
    }

    /// Turns a Hugging Face `tokenizer.json` of Llama 3.1 into the compact asset. The same input
    /// always gives the same bytes.
    ///
    /// # Errors
    /// When the file is not Llama 3.1's tokenizer, or names the special tokens otherwise.
    pub fn compact_from_json(_tokenizer_json: &[u8]) -> Result<Vec<u8>, VocabularyError> {
        Err(VocabularyError::Source("reading is not built yet".into()))
    }

    /// Ids of a text in which special tokens are recognised wherever they are spelt, as the reference
    /// encodes. No `<|begin_of_text|>` is added.
    pub fn encode_trusted(&self, _text: &str) -> Vec<u32> {
        Vec::new()
    }

    /// Ids of a text in which nothing is special.
    pub fn encode_plain(&self, _text: &str) -> Vec<u32> {
        Vec::new()
    }

    /// The text of these ids, special tokens by name. Incomplete UTF-8 becomes U+FFFD.
    pub fn decode(&self, _ids: &[u32]) -> String {
        String::new()
    }

    /// What an id stands for.
    pub fn piece(&self, _id: u32) -> Piece<'_> {
        Piece {
            bytes: &[],
            special: None,
        }
    }

    /// The id of a special token by its full name, e.g. `<|eot_id|>`.
    pub fn special_id(&self, _name: &str) -> Option<u32> {
        None
    }
}
