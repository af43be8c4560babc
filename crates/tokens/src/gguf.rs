//! The tokenizer that a GGUF file carries in its metadata: byte-level BPE, through the `tokenizers`
//! crate.
//!
//! The words that a text is cut into before merging depend on the model's pre-tokenizer
//! (`tokenizer.ggml.pre`). Text is taken as it is: where the original tokenizer would first compose
//! Unicode characters (Qwen 2), this one, like llama.cpp, does not.

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::{
    AddedToken, Model, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
    Tokenizer,
};

/// What a GGUF file says about its tokenizer, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// `tokenizer.ggml.model`; only `gpt2` (byte-level BPE) is understood.
    pub model: String,
    /// `tokenizer.ggml.pre`: the name of the pre-tokenizer.
    pub pre: Option<String>,
    /// The token texts by id, in the byte-level alphabet.
    pub tokens: Vec<String>,
    /// Token types by id (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte); empty if
    /// the file has none.
    pub types: Vec<i32>,
    /// Merges in order of rank, the two parts separated by a space.
    pub merges: Vec<String>,
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// End of a text, for instruct models often of a turn.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// End of a message that expects a tool's answer.
    pub eom: Option<u32>,
    /// Whether a text is to begin with `bos`.
    pub add_bos: Option<bool>,
}

/// Why a tokenizer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufTokenizerError {
    /// Another kind of tokenizer.
    #[error("its kind is \"{0}\", but only byte-level BPE (\"gpt2\") is supported")]
    Model(String),
    /// A pre-tokenizer whose rules are not known.
    #[error(
        "its pre-tokenizer is \"{0}\"; supported are llama-bpe, smollm, qwen2, gpt-2 and default"
    )]
    PreTokenizer(String),
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
pub struct GgufTokenizer {
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

/// ggml's numbers for kinds of tokens.
mod token_type {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
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

/// Llama 3's and Qwen 2's patterns, which differ in how many digits make a word.
fn split_pattern(digits: &str) -> String {
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
        digits,
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]
    .concat()
}

/// The pre-tokenizer of a name, and whether a word that is a token is taken whole, without merging.
fn words(name: &str) -> Result<(Vec<PreTokenizerWrapper>, bool), GgufTokenizerError> {
    let gpt2 = || ByteLevel::new(false, true, true).into();
    let split = |digits: &str| -> Result<Vec<PreTokenizerWrapper>, GgufTokenizerError> {
        let pattern = SplitPattern::Regex(split_pattern(digits));
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|error| GgufTokenizerError::Inconsistent(error.to_string()))?;
        Ok(vec![
            split.into(),
            ByteLevel::new(false, true, false).into(),
        ])
    };
    match name {
        "llama-bpe" | "llama3" | "llama-v3" => Ok((split(r"\p{N}{1,3}")?, true)),
        "qwen2" => Ok((split(r"\p{N}")?, false)),
        "smollm" | "starcoder" | "refact" => Ok((vec![Digits::new(true).into(), gpt2()], false)),
        "gpt-2" | "default" => Ok((vec![gpt2()], false)),
        other => Err(GgufTokenizerError::PreTokenizer(other.to_owned())),
    }
}

impl GgufTokenizer {
    /// Builds the tokenizer.
    ///
    /// # Errors
    /// When the kind or the pre-tokenizer is unknown, or when the lists contradict each other.
    pub fn new(parts: Parts) -> Result<Self, GgufTokenizerError> {
        let Parts {
            model,
            pre,
            tokens,
            types,
            merges,
            bos,
            eos,
            eot,
            eom,
            add_bos,
        } = parts;
        if model != "gpt2" {
            return Err(GgufTokenizerError::Model(model));
        }
        let (pre_tokenizers, whole_words) = words(pre.as_deref().unwrap_or("default"))?;
        let count = tokens.len();
        let mut kinds: Vec<Kind> = match types.len() {
            0 => vec![token_type::NORMAL; count],
            len if len == count => types,
            len => {
                let what = format!("there are {len} token types for {count} tokens");
                return Err(GgufTokenizerError::Inconsistent(what));
            }
        }
        .into_iter()
        .map(|kind| match kind {
            token_type::UNKNOWN | token_type::CONTROL => Kind::Control,
            token_type::USER_DEFINED => Kind::Added,
            _ => Kind::Text,
        })
        .collect();
        for id in [bos, eos, eot, eom].into_iter().flatten() {
            match kinds.get_mut(id as usize) {
                Some(kind) => *kind = Kind::Control,
                None => {
                    let what = format!("a special token has the id {id} of {count} tokens");
                    return Err(GgufTokenizerError::Inconsistent(what));
                }
            }
        }

        let named = |name: &str| {
            let id = tokens.iter().position(|token| token == name)?;
            (kinds[id] == Kind::Control).then_some(id as u32)
        };
        let mut stops: Vec<u32> = [eos, eot, eom].into_iter().flatten().collect();
        stops.extend(STOP_NAMES.iter().filter_map(|name| named(name)));
        let eot = eot
            .or_else(|| named("<|eot_id|>"))
            .or_else(|| named("<|im_end|>"));
        let added: Vec<AddedToken> = tokens
            .iter()
            .zip(&kinds)
            .filter(|(_, kind)| **kind != Kind::Text)
            .map(|(token, kind)| {
                AddedToken::from(token.clone(), *kind == Kind::Control).normalized(false)
            })
            .collect();

        let pairs = merges
            .into_iter()
            .enumerate()
            .map(|(index, merge)| match merge.split_once(' ') {
                Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
                None => Err(GgufTokenizerError::Merge { index, merge }),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let vocabulary: AHashMap<String, u32> = tokens.into_iter().zip(0u32..).collect();
        if vocabulary.len() != count {
            let what = format!(
                "{} of {count} tokens are listed twice",
                count - vocabulary.len()
            );
            return Err(GgufTokenizerError::Inconsistent(what));
        }
        let bpe = BPE::builder()
            .vocab_and_merges(vocabulary, pairs)
            .ignore_merges(whole_words)
            .build()
            .map_err(|error| GgufTokenizerError::Inconsistent(error.to_string()))?;
        let mut tokenizer = Tokenizer::new(bpe);
        tokenizer.with_pre_tokenizer(Some(Sequence::new(pre_tokenizers)));
        tokenizer
            .add_tokens(added)
            .map_err(|error| GgufTokenizerError::Inconsistent(error.to_string()))?;
        Ok(Self {
            tokenizer,
            kinds,
            bos,
            eos,
            eot,
            stops,
            add_bos: bos.is_some() && add_bos.unwrap_or(whole_words),
        })
    }

    /// Number of tokens.
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

    /// Whether this is a control token and not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&Kind::Control)
    }

    /// The ids of a text.
    ///
    /// With `parse_special` the names of special tokens in the text become these tokens; without, all
    /// of it is plain text, whatever it spells.
    ///
    /// # Errors
    /// When the library refuses the text, which no text is known to cause.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>, GgufTokenizerError> {
        let encoding = if parse_special {
            self.tokenizer.encode_fast(text, false)
        } else {
            self.encode_plain(text)
        };
        encoding
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| GgufTokenizerError::Encode(error.to_string()))
    }

    fn encode_plain(&self, text: &str) -> tokenizers::Result<tokenizers::Encoding> {
        let mut pieces = PreTokenizedString::from(text);
        if let Some(words) = self.tokenizer.get_pre_tokenizer() {
            words.pre_tokenize(&mut pieces)?;
        }
        let model = self.tokenizer.get_model();
        pieces.tokenize(|word| model.tokenize(word.get()))?;
        pieces.into_encoding(None, 0, OffsetType::None)
    }

    /// The bytes a token stands for; special tokens stand for their names. Empty for an id out of
    /// range.
    pub fn piece(&self, id: u32) -> Vec<u8> {
        let Some(token) = self.tokenizer.get_model().id_to_token(id) else {
            return Vec::new();
        };
        match self.kinds.get(id as usize) {
            Some(Kind::Text) => bytes_of(&token).unwrap_or_else(|| token.into_bytes()),
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
        StreamDecoder {
            tokenizer: self,
            pending: Vec::new(),
        }
    }
}

/// Decodes ids one by one and holds back characters that are not complete yet. All its texts together
/// are what [`GgufTokenizer::decode`] gives for all the ids.
#[derive(Clone, Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a GgufTokenizer,
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl StreamDecoder<'_> {
    /// Takes a token and returns the text that is complete with it, perhaps none.
    pub fn push(&mut self, id: u32) -> String {
        self.pending.extend(self.tokenizer.piece(id));
        let mut text = String::new();
        let mut used = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = used + invalid.len() == self.pending.len();
            let unfinished = at_end
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if !invalid.is_empty() && !unfinished {
                text.push(char::REPLACEMENT_CHARACTER);
                used += invalid.len();
            }
        }
        self.pending.drain(..used);
        text
    }

    /// What was held back, with U+FFFD for characters that never became complete. The decoder may be
    /// used again.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// The byte that a character of the byte-level alphabet stands for: printable characters of Latin-1
/// stand for themselves, the others follow from U+0100 on in their order.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match c {
        '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' => code,
        '\u{100}'..='\u{120}' => code - 0x100,
        '\u{121}'..='\u{142}' => code - 0x121 + 0x7f,
        '\u{143}' => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_level_alphabet_names_every_byte_once() {
        let mut names: Vec<(u8, char)> = ('\0'..='\u{200}')
            .filter_map(|c| Some((byte_of(c)?, c)))
            .collect();
        names.sort_unstable();
        assert_eq!(names.len(), 256);
        assert!(
            names
                .iter()
                .zip(0..=255)
                .all(|((byte, _), expected)| *byte == expected)
        );
        assert_eq!(bytes_of("Ġa").as_deref(), Some(&b" a"[..]));
        assert_eq!(bytes_of("Ċ").as_deref(), Some(&b"\n"[..]));
        assert_eq!(bytes_of("a b"), None);
    }
}
