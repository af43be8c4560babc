//! A tokenizer from the metadata of a GGUF file.

use ahash::AHashMap;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::{AddedToken, SplitDelimiterBehavior};

use super::{Kind, Recipe, TokenizerError};

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

/// ggml's numbers for kinds of tokens.
mod token_type {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
}

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
fn words(name: &str) -> Result<(Vec<PreTokenizerWrapper>, bool), TokenizerError> {
    let gpt2 = || ByteLevel::new(false, true, true).into();
    let split = |digits: &str| -> Result<Vec<PreTokenizerWrapper>, TokenizerError> {
        let pattern = SplitPattern::Regex(split_pattern(digits));
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|error| TokenizerError::Inconsistent(error.to_string()))?;
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
        other => Err(TokenizerError::PreTokenizer(other.to_owned())),
    }
}

pub(super) fn recipe(parts: Parts) -> Result<Recipe, TokenizerError> {
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
        return Err(TokenizerError::Model(model));
    }
    let (pre_tokenizers, whole_words) = words(pre.as_deref().unwrap_or("default"))?;
    let count = tokens.len();
    let mut kinds: Vec<Kind> = match types.len() {
        0 => vec![token_type::NORMAL; count],
        len if len == count => types,
        len => {
            let what = format!("there are {len} token types for {count} tokens");
            return Err(TokenizerError::Inconsistent(what));
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
                return Err(TokenizerError::Inconsistent(what));
            }
        }
    }
    let added = tokens
        .iter()
        .zip(&kinds)
        .filter(|(_, kind)| **kind != Kind::Text)
        .map(|(token, kind)| {
            AddedToken::from(token.clone(), *kind == Kind::Control).normalized(false)
        })
        .collect();
    let merges = merges
        .into_iter()
        .enumerate()
        .map(|(index, merge)| match merge.split_once(' ') {
            Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
            None => Err(TokenizerError::Merge { index, merge }),
        })
        .collect::<Result<_, _>>()?;
    let vocabulary: AHashMap<String, u32> = tokens.into_iter().zip(0u32..).collect();
    if vocabulary.len() != count {
        let what = format!(
            "{} of {count} tokens are listed twice",
            count - vocabulary.len()
        );
        return Err(TokenizerError::Inconsistent(what));
    }
    Ok(Recipe {
        vocabulary,
        kinds,
        added,
        merges,
        normalizers: Vec::new(),
        pre_tokenizers,
        whole_words,
        bos,
        eos,
        eot,
        ends: eom.into_iter().collect(),
        add_bos: add_bos.unwrap_or(whole_words),
    })
}
