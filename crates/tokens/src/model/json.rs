//! A tokenizer from a `tokenizer.json`, the file of the `tokenizers` library.
//!
//! The file is not believed, so it is read into types whose lists end at a limit, and the library's own
//! reader, which takes many times the file's size, is not used.

use std::fmt;
use std::marker::PhantomData;

use ahash::AHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokenizers::normalizers::{NFC, NFD, NFKC, NFKD, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::{AddedToken, SplitDelimiterBehavior};

use super::{Kind, MAX_TOKENS, Recipe, SpecialIds, TokenizerError};

/// Longest `tokenizer.json`, in bytes. That of Llama 3 takes 17 MB.
pub const MAX_JSON_BYTES: usize = 64 << 20;
/// Most merges.
const MAX_MERGES: usize = 1 << 21;
/// Most added tokens.
const MAX_ADDED: usize = 1 << 16;
/// Most steps of a sequence.
const MAX_STEPS: usize = 16;
/// Longest pattern that cuts words, in bytes.
const MAX_PATTERN: usize = 8 << 10;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: List<Added, MAX_ADDED>,
    #[serde(default)]
    normalizer: Option<Normalizer<List<Normalizer<()>, MAX_STEPS>>>,
    #[serde(default)]
    pre_tokenizer: Option<Words<List<Words<()>, MAX_STEPS>>>,
    #[serde(default)]
    post_processor: Option<Frame<List<Frame<()>, MAX_STEPS>>>,
    model: Bpe,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

/// A step of the normalizer; `T` is the list of steps of a sequence.
#[derive(Deserialize)]
struct Normalizer<T> {
    r#type: String,
    #[serde(default = "none")]
    normalizers: Option<T>,
}

/// A step of the pre-tokenizer; `T` is the list of steps of a sequence.
#[derive(Deserialize)]
struct Words<T> {
    r#type: String,
    #[serde(default = "none")]
    pretokenizers: Option<T>,
    #[serde(default)]
    pattern: Option<Pattern>,
    #[serde(default)]
    behavior: Option<String>,
    #[serde(default)]
    invert: bool,
    #[serde(default)]
    individual_digits: bool,
    #[serde(default)]
    add_prefix_space: bool,
    /// The library's default.
    #[serde(default = "yes")]
    use_regex: bool,
}

/// What a text is put into: a template that may begin with a token of its own.
#[derive(Deserialize)]
struct Frame<T> {
    r#type: String,
    #[serde(default)]
    single: List<FramePart, MAX_STEPS>,
    #[serde(default = "none")]
    processors: Option<T>,
}

#[derive(Deserialize)]
struct FramePart {
    #[serde(default, rename = "SpecialToken")]
    special: Option<FrameToken>,
}

#[derive(Deserialize)]
struct FrameToken {
    /// The token's name.
    id: String,
}

#[derive(Deserialize)]
enum Pattern {
    String(String),
    Regex(String),
}

fn none<T>() -> Option<T> {
    None
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Bpe {
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    /// Absent, or a list, where the model is of another kind.
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    merges: List<Merge, MAX_MERGES>,
}

/// A list of at most `MAX` elements.
struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Elements<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(List(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == MAX {
                        return Err(A::Error::invalid_length(MAX + 1, &self));
                    }
                    elements.push(element);
                }
                Ok(List(elements))
            }
        }
        deserializer.deserialize_any(Elements::<T, MAX>(PhantomData))
    }
}

/// Token texts and their ids.
#[derive(Default)]
struct Vocabulary(AHashMap<String, u32>);

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {MAX_TOKENS} tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut ids = AHashMap::new();
                while let Some((token, id)) = map.next_entry::<String, u32>()? {
                    if ids.len() == MAX_TOKENS {
                        return Err(A::Error::invalid_length(MAX_TOKENS + 1, &self));
                    }
                    ids.insert(token, id);
                }
                Ok(Vocabulary(ids))
            }

            /// Unigram models have a list of pairs; their kind is refused later.
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Vocabulary::default())
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// Two tokens: as a list of two, or, in older files, as a text with a space between them.
struct Merge(String, String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) => Ok(Merge(left.to_owned(), right.to_owned())),
                    None => Err(E::custom("a merge does not name two tokens")),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
                let (left, right) = (list.next_element()?, list.next_element()?);
                let more = list.next_element::<IgnoredAny>()?.is_some();
                match (left, right) {
                    (Some(left), Some(right)) if !more => Ok(Merge(left, right)),
                    _ => Err(A::Error::custom("a merge does not name two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Pair)
    }
}

fn unsupported<T>(what: String) -> Result<T, TokenizerError> {
    Err(TokenizerError::Unsupported(what))
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

pub(super) fn recipe(json: &[u8], special: &SpecialIds) -> Result<Recipe, TokenizerError> {
    if json.len() > MAX_JSON_BYTES {
        return Err(TokenizerError::Json(format!(
            "it has {} bytes, more than the limit of {MAX_JSON_BYTES}",
            json.len()
        )));
    }
    let file: File = serde_json::from_slice(json).map_err(|error| {
        // The message may repeat a part of the file, of any length.
        TokenizerError::Json(error.to_string().chars().take(200).collect())
    })?;
    let File {
        added_tokens: List(added),
        normalizer,
        pre_tokenizer,
        post_processor,
        model,
    } = file;
    check_model(&model)?;
    let (normalizers, pre_tokenizers) = (normalizer_steps(normalizer)?, word_steps(pre_tokenizer)?);

    let mut vocabulary = model.vocab.0;
    for token in &added {
        match vocabulary.insert(token.content.clone(), token.id) {
            Some(other) if other != token.id => {
                return Err(TokenizerError::Inconsistent(format!(
                    "tokenizer.json: the token {:?} has the ids {other} and {}",
                    shown(&token.content),
                    token.id
                )));
            }
            _ => {}
        }
    }
    let kinds = kinds(&vocabulary, &added, special)?;
    let start = post_processor.as_ref().and_then(first_special);
    let start = start.and_then(|name| vocabulary.get(name).copied());
    let bos = special.bos.or(start);
    let added = added
        .into_iter()
        .map(|token| {
            let control = kinds[token.id as usize] == Kind::Control;
            AddedToken::from(token.content, control)
                .single_word(token.single_word)
                .lstrip(token.lstrip)
                .rstrip(token.rstrip)
                .normalized(token.normalized)
        })
        .collect();
    Ok(Recipe {
        vocabulary,
        kinds,
        added,
        merges: model
            .merges
            .0
            .into_iter()
            .map(|pair| (pair.0, pair.1))
            .collect(),
        normalizers,
        pre_tokenizers,
        whole_words: model.ignore_merges,
        bos,
        eos: special.eos.first().copied(),
        eot: None,
        ends: special.eos.clone(),
        add_bos: special.add_bos.unwrap_or(start.is_some() && start == bos),
    })
}

/// Refuses models that are no byte-level BPE, as far as the model's own part tells.
fn check_model(model: &Bpe) -> Result<(), TokenizerError> {
    match model.r#type.as_deref() {
        Some("BPE") => {}
        // Old files do not say it.
        None if !model.merges.0.is_empty() => {}
        other => return Err(TokenizerError::Model(shown(other.unwrap_or("unknown")))),
    }
    if model.byte_fallback {
        return Err(TokenizerError::Model("BPE of SentencePiece".to_owned()));
    }
    for affix in [&model.continuing_subword_prefix, &model.end_of_word_suffix] {
        if affix.as_ref().is_some_and(|affix| !affix.is_empty()) {
            return unsupported("words have marks of their own at their ends".to_owned());
        }
    }
    Ok(())
}

fn normalizer_steps(
    normalizer: Option<Normalizer<List<Normalizer<()>, MAX_STEPS>>>,
) -> Result<Vec<NormalizerWrapper>, TokenizerError> {
    let Some(normalizer) = normalizer else {
        return Ok(Vec::new());
    };
    let names: Vec<String> = match (normalizer.r#type.as_str(), normalizer.normalizers) {
        ("Sequence", Some(List(steps))) => steps.into_iter().map(|step| step.r#type).collect(),
        _ => vec![normalizer.r#type],
    };
    let step = |name: String| {
        Ok(match name.as_str() {
            "NFC" => NFC.into(),
            "NFD" => NFD.into(),
            "NFKC" => NFKC.into(),
            "NFKD" => NFKD.into(),
            other => {
                return unsupported(format!(
                    "its normalizer is \"{}\"; known are NFC, NFD, NFKC and NFKD",
                    shown(other)
                ));
            }
        })
    };
    names.into_iter().map(step).collect()
}

fn word_steps(
    words: Option<Words<List<Words<()>, MAX_STEPS>>>,
) -> Result<Vec<PreTokenizerWrapper>, TokenizerError> {
    let mut steps = Vec::new();
    let mut bytes = false;
    match words {
        None => {}
        Some(Words {
            r#type,
            pretokenizers: Some(List(list)),
            ..
        }) if r#type == "Sequence" => {
            for words in list {
                bytes |= words.r#type == "ByteLevel";
                steps.push(word_step(words)?);
            }
        }
        Some(words) => {
            bytes = words.r#type == "ByteLevel";
            steps.push(word_step(words)?);
        }
    }
    if !bytes {
        return Err(TokenizerError::Model("BPE of characters".to_owned()));
    }
    Ok(steps)
}

fn word_step<T>(words: Words<T>) -> Result<PreTokenizerWrapper, TokenizerError> {
    match words.r#type.as_str() {
        "ByteLevel" => Ok(ByteLevel::new(words.add_prefix_space, true, words.use_regex).into()),
        "Digits" => Ok(Digits::new(words.individual_digits).into()),
        "Split" => {
            let pattern = match words.pattern {
                Some(Pattern::String(text)) if text.len() <= MAX_PATTERN => {
                    SplitPattern::String(text)
                }
                Some(Pattern::Regex(text)) if text.len() <= MAX_PATTERN => {
                    SplitPattern::Regex(text)
                }
                _ => return unsupported("a split has no pattern, or a very long one".to_owned()),
            };
            let behavior = match words.behavior.as_deref() {
                Some("Removed") => SplitDelimiterBehavior::Removed,
                Some("Isolated") => SplitDelimiterBehavior::Isolated,
                Some("MergedWithPrevious") => SplitDelimiterBehavior::MergedWithPrevious,
                Some("MergedWithNext") => SplitDelimiterBehavior::MergedWithNext,
                Some("Contiguous") => SplitDelimiterBehavior::Contiguous,
                _ => return unsupported("a split has no behaviour that is known".to_owned()),
            };
            match Split::new(pattern, behavior, words.invert) {
                Ok(split) => Ok(split.into()),
                Err(error) => {
                    let error = shown(&error.to_string());
                    unsupported(format!("the pattern of a split cannot be used ({error})"))
                }
            }
        }
        "Metaspace" => Err(TokenizerError::Model("SentencePiece".to_owned())),
        other => unsupported(format!(
            "its pre-tokenizer has the step \"{}\"; known are ByteLevel, Split and Digits",
            shown(other)
        )),
    }
}

/// What every id is.
fn kinds(
    vocabulary: &AHashMap<String, u32>,
    added: &[Added],
    special: &SpecialIds,
) -> Result<Vec<Kind>, TokenizerError> {
    let inconsistent = |what: String| {
        Err(TokenizerError::Inconsistent(format!(
            "tokenizer.json: {what}"
        )))
    };
    let last = vocabulary.values().max().map_or(0, |id| *id as usize);
    if vocabulary.is_empty() || last >= MAX_TOKENS {
        return inconsistent(format!(
            "its tokens have ids up to {last}, not up to {MAX_TOKENS}"
        ));
    }
    let mut seen = vec![false; last + 1];
    for (token, id) in vocabulary {
        if std::mem::replace(&mut seen[*id as usize], true) {
            return inconsistent(format!(
                "{:?} and another token have the id {id}",
                shown(token)
            ));
        }
    }
    let mut kinds = vec![Kind::Text; last + 1];
    for token in added {
        kinds[token.id as usize] = match token.special {
            true => Kind::Control,
            false => Kind::Added,
        };
    }
    for id in special.bos.iter().chain(&special.eos) {
        match kinds.get_mut(*id as usize) {
            Some(kind) => *kind = Kind::Control,
            None => {
                return inconsistent(format!(
                    "a special token has the id {id} of {} tokens",
                    last + 1
                ));
            }
        }
    }
    Ok(kinds)
}

/// The name of the token that texts begin with.
fn first_special(frame: &Frame<List<Frame<()>, MAX_STEPS>>) -> Option<&str> {
    fn of<T>(frame: &Frame<T>) -> Option<&str> {
        let first = frame.single.0.first()?;
        (frame.r#type == "TemplateProcessing").then_some(())?;
        Some(first.special.as_ref()?.id.as_str())
    }
    match &frame.processors {
        Some(List(steps)) => steps.iter().find_map(of),
        None => of(frame),
    }
}
