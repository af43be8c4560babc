//! The tokenizer that a model brings along: byte-level BPE, through the `tokenizers` crate, from the
//! metadata of a GGUF file or from a `tokenizer.json`.
//!
//! The words that a text is cut into before merging depend on the model's pre-tokenizer. A GGUF file
//! only names it (`tokenizer.ggml.pre`); there, text is taken as it is: where the original tokenizer
//! would first compose Unicode characters (Qwen 2), this one, like llama.cpp, does not.

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::tokenizer::{
    AddedToken, Model, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, Tokenizer,
};

mod alphabet;
mod gguf;
mod json;
mod stream;

pub use gguf::Parts;
pub use json::MAX_JSON_BYTES;
pub use stream::StreamDecoder;

/// Most tokens: the largest id that a tokenizer may have, and one.
pub const MAX_TOKENS: usize = 1 << 21;

/// Tokens with a task, where files beside a `tokenizer.json` tell them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// What ends a text or a turn, the most usual first.
    pub eos: Vec<u32>,
    /// Whether a text is to begin with `bos`.
    pub add_bos: Option<bool>,
}

/// Why a tokenizer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// Another kind of tokenizer.
    #[error(
        "its kind is \"{0}\", but only byte-level BPE is supported (Llama 3, Qwen 2, GPT-2, SmolLM2)"
    )]
    Model(String),
    /// A pre-tokenizer whose rules are not known.
    #[error(
        "its pre-tokenizer is \"{0}\"; supported are llama-bpe, smollm, qwen2, gpt-2 and default"
    )]
    PreTokenizer(String),
    /// A part of a `tokenizer.json` that is not known here.
    #[error("tokenizer.json: {0}")]
    Unsupported(String),
    /// The JSON is not what the format asks for.
    #[error("tokenizer.json cannot be read ({0}); fetch it again")]
    Json(String),
    /// Lists contradict each other.
    #[error("{0}")]
    Inconsistent(String),
    /// A merge that is not one.
    #[error("merge {index} (\"{merge}\") does not name two tokens")]
    Merge {
        /// Its place in the list.
        index: usize,
        /// The merge as the file has it.
        merge: String,
    },
    /// A text that the library refused.
    #[error("the text cannot be tokenized: {0}")]
    Encode(String),
}

/// A byte-level BPE tokenizer with special tokens.
#[derive(Debug)]
pub struct ModelTokenizer {
    tokenizer: Tokenizer,
    kinds: Vec<Kind>,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    stops: Vec<u32>,
    add_bos: bool,
}

/// How a token is spelled and found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Text in the byte-level alphabet.
    Text,
    /// A token of its own that stands for the text it is spelled with.
    Added,
    /// A control token: no text, whatever its name.
    Control,
}

/// Control tokens that end a turn or a text, by the names models give them.
const STOP_NAMES: [&str; 8] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
];

/// What a tokenizer is made of, whatever file it comes from.
struct Recipe {
    /// The ids of all tokens.
    vocabulary: AHashMap<String, u32>,
    /// By id.
    kinds: Vec<Kind>,
    /// The tokens that are found in a text before it is cut into words.
    added: Vec<AddedToken>,
    /// Pairs in order of rank.
    merges: Vec<(String, String)>,
    normalizers: Vec<NormalizerWrapper>,
    pre_tokenizers: Vec<PreTokenizerWrapper>,
    /// Whether a word that is a token is taken whole, without merging.
    whole_words: bool,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    /// Further tokens that end a text or a turn.
    ends: Vec<u32>,
    add_bos: bool,
}

impl Recipe {
    /// The id of a control token.
    fn control(&self, name: &str) -> Option<u32> {
        let id = *self.vocabulary.get(name)?;
        (self.kinds.get(id as usize) == Some(&Kind::Control)).then_some(id)
    }

    fn build(self) -> Result<ModelTokenizer, TokenizerError> {
        let inconsistent = |error: String| TokenizerError::Inconsistent(error);
        let eot = self
            .eot
            .or_else(|| self.control("<|eot_id|>"))
            .or_else(|| self.control("<|im_end|>"));
        let mut stops: Vec<u32> = self.eos.into_iter().chain(eot).collect();
        stops.extend(&self.ends);
        stops.extend(STOP_NAMES.iter().filter_map(|name| self.control(name)));
        stops.sort_unstable();
        stops.dedup();
        let bpe = BPE::builder()
            .vocab_and_merges(self.vocabulary, self.merges)
            .ignore_merges(self.whole_words)
            .build()
            .map_err(|error| inconsistent(error.to_string()))?;
        let mut tokenizer = Tokenizer::new(bpe);
        if !self.normalizers.is_empty() {
            tokenizer
                .with_normalizer(Some(Normalizers::new(self.normalizers)))
                .map_err(|error| inconsistent(error.to_string()))?;
        }
        tokenizer.with_pre_tokenizer(Some(Sequence::new(self.pre_tokenizers)));
        tokenizer
            .add_tokens(self.added)
            .map_err(|error| inconsistent(error.to_string()))?;
        Ok(ModelTokenizer {
            tokenizer,
            kinds: self.kinds,
            bos: self.bos,
            eos: self.eos,
            eot,
            stops,
            add_bos: self.bos.is_some() && self.add_bos,
        })
    }
}

impl ModelTokenizer {
    /// The tokenizer that a GGUF file's metadata describes.
    ///
    /// # Errors
    /// When the kind or the pre-tokenizer is unknown, or when the lists contradict each other.
    pub fn from_gguf(parts: Parts) -> Result<Self, TokenizerError> {
        gguf::recipe(parts)?.build()
    }

    /// The tokenizer of a `tokenizer.json`, at most [`MAX_JSON_BYTES`] long, with the special tokens
    /// that other files tell. Where they tell none, the file's own rule for beginning a text counts,
    /// and the names that control tokens usually have.
    ///
    /// # Errors
    /// When the file is damaged, or of a kind that is not byte-level BPE.
    pub fn from_json(json: &[u8], special: &SpecialIds) -> Result<Self, TokenizerError> {
        json::recipe(json, special)?.build()
    }

    /// Number of tokens: the largest id, and one.
    pub fn vocab_size(&self) -> usize {
        self.kinds.len()
    }

    /// Beginning of a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// End of a text, for instruct models often of a turn.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// End of a turn, where the file or a well-known name tells it.
    pub fn eot(&self) -> Option<u32> {
        self.eot
    }

    /// Whether a text is to begin with [`Self::bos`]. [`Self::encode`] never adds it.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether generation ends with this token.
    pub fn is_stop(&self, id: u32) -> bool {
        self.stops.contains(&id)
    }

    /// The tokens that end generation, in order of their ids.
    pub fn stops(&self) -> &[u32] {
        &self.stops
    }

    /// Whether this is a control token and not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&Kind::Control)
    }

    /// The ids of a text.
    ///
    /// With `parse_special` the names of special tokens in the text become these tokens; without, all
    /// of it is plain text, whatever it spells, and no control token comes out.
    ///
    /// # Errors
    /// When the library refuses the text, which no text is known to cause.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = if parse_special {
            self.tokenizer.encode_fast(text, false)
        } else {
            self.encode_plain(text)
        };
        let encoding = encoding.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let ids = encoding.get_ids();
        if parse_special || !ids.iter().any(|id| self.is_special(*id)) {
            return Ok(ids.to_vec());
        }
        Ok(ids.iter().flat_map(|id| self.spelled(*id)).collect())
    }

    fn encode_plain(&self, text: &str) -> tokenizers::Result<tokenizers::Encoding> {
        let mut pieces = PreTokenizedString::from(text);
        if let Some(normalizer) = self.tokenizer.get_normalizer() {
            pieces.normalize(|text| normalizer.normalize(text))?;
        }
        if let Some(words) = self.tokenizer.get_pre_tokenizer() {
            words.pre_tokenize(&mut pieces)?;
        }
        let model = self.tokenizer.get_model();
        pieces.tokenize(|word| model.tokenize(word.get()))?;
        pieces.into_encoding(None, 0, OffsetType::None)
    }

    /// A token as text: a control token whose name is a word of its own, or that merges lead to,
    /// becomes the characters of its name.
    fn spelled(&self, id: u32) -> Vec<u32> {
        if !self.is_special(id) {
            return vec![id];
        }
        let model = self.tokenizer.get_model();
        let name = model.id_to_token(id).unwrap_or_default();
        let mut buffer = [0; 4];
        name.chars()
            .filter_map(|c| model.token_to_id(c.encode_utf8(&mut buffer)))
            .filter(|id| !self.is_special(*id))
            .collect()
    }

    /// The bytes a token stands for; special tokens stand for their names. Empty for an id out of
    /// range.
    pub fn piece(&self, id: u32) -> Vec<u8> {
        let Some(token) = self.tokenizer.get_model().id_to_token(id) else {
            return Vec::new();
        };
        match self.kinds.get(id as usize) {
            Some(Kind::Text) => alphabet::bytes_of(&token).unwrap_or_else(|| token.into_bytes()),
            _ => token.into_bytes(),
        }
    }

    /// [`Self::piece`] as text; parts of characters become U+FFFD.
    pub fn piece_text(&self, id: u32) -> String {
        String::from_utf8_lossy(&self.piece(id)).into_owned()
    }

    /// The text of these ids, special tokens by name, nothing added or tidied up. Bytes that are not
    /// UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.piece(*id)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A decoder for ids that come one by one.
    pub fn stream(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self)
    }
}
