//! The tokenizer that a GGUF file carries in its metadata.

use super::{Gguf, GgufError, MetaArray, MetaValue, require};

/// The tokenizer's metadata as plain data, for whoever builds a tokenizer from it.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizerParts {
    /// `tokenizer.ggml.model`: `gpt2` for byte-level BPE, `llama` for SentencePiece.
    pub model: String,
    /// `tokenizer.ggml.pre`: the name of the pre-tokenizer.
    pub pre: Option<String>,
    /// The token texts by id.
    pub tokens: Vec<String>,
    /// ggml's token types by id (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte);
    /// empty if the file has none.
    pub types: Vec<i32>,
    /// Scores by id; empty if the file has none.
    pub scores: Vec<f32>,
    /// BPE merges in order of rank, the two parts separated by a space; empty if the file has none.
    pub merges: Vec<String>,
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// End of a text; instruct models often put their end of turn here.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// End of a message that expects a tool's answer.
    pub eom: Option<u32>,
    /// Stands for what the vocabulary cannot express.
    pub unknown: Option<u32>,
    /// Padding.
    pub padding: Option<u32>,
    /// Whether a text is to begin with `bos`.
    pub add_bos: Option<bool>,
    /// Whether a text is to end with `eos`.
    pub add_eos: Option<bool>,
    /// The chat template (Jinja). Where a file has only named ones: the one called `default`, or else
    /// the first.
    pub chat_template: Option<String>,
    /// Further chat templates by name, such as `tool_use`.
    pub chat_templates: Vec<(String, String)>,
}

/// Most named chat templates.
const MAX_TEMPLATES: usize = 64;

impl Gguf {
    /// The tokenizer's metadata. Ids are checked to be in the vocabulary.
    pub fn tokenizer_parts(&self) -> Result<TokenizerParts, GgufError> {
        let model = self.require_str("tokenizer.ggml.model")?.to_owned();
        let tokens = require(
            "tokenizer.ggml.tokens",
            self.strings("tokenizer.ggml.tokens")?,
        )?;
        let id = |name: &str| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            match self.optional_u64(&key)? {
                None => Ok(None),
                Some(id) if id < tokens.len() as u64 => Ok(Some(id as u32)),
                // Some converters write all ones for "none".
                Some(id) if id == u64::from(u32::MAX) => Ok(None),
                Some(id) => Err(GgufError::Inconsistent {
                    what: format!("{key} is {id}, but there are {} tokens", tokens.len()),
                }),
            }
        };
        let chat_templates = self.named_templates()?;
        let default = chat_templates.iter().find(|(name, _)| name == "default");
        let default = default.or(chat_templates.first());
        let chat_template = match self.optional_str("tokenizer.chat_template")? {
            Some(template) => Some(template.to_owned()),
            None => default.map(|(_, template)| template.clone()),
        };
        Ok(TokenizerParts {
            pre: self.optional_str("tokenizer.ggml.pre")?.map(str::to_owned),
            types: self.token_types(tokens.len())?,
            scores: self.scores(tokens.len())?,
            merges: self.strings("tokenizer.ggml.merges")?.unwrap_or_default(),
            bos: id("bos")?,
            eos: id("eos")?,
            eot: id("eot")?,
            eom: id("eom")?,
            unknown: id("unknown")?,
            padding: id("padding")?,
            add_bos: self.optional_bool("tokenizer.ggml.add_bos_token")?,
            add_eos: self.optional_bool("tokenizer.ggml.add_eos_token")?,
            chat_template,
            chat_templates,
            model,
            tokens,
        })
    }

    /// `tokenizer.chat_templates` lists the names; each template has a key of its own.
    fn named_templates(&self) -> Result<Vec<(String, String)>, GgufError> {
        let list = "tokenizer.chat_templates";
        let names = self.strings(list)?.unwrap_or_default();
        if names.len() > MAX_TEMPLATES {
            return Err(GgufError::Inconsistent {
                what: format!("{list} has {} entries", names.len()),
            });
        }
        let mut templates: Vec<(String, String)> = Vec::with_capacity(names.len());
        for name in names {
            let template = self.optional_str(&format!("tokenizer.chat_template.{name}"))?;
            let known = templates.iter().any(|(known, _)| *known == name);
            if let Some(template) = template.filter(|_| !known) {
                let template = template.to_owned();
                templates.push((name, template));
            }
        }
        Ok(templates)
    }

    fn strings(&self, key: &str) -> Result<Option<Vec<String>>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(MetaValue::Array(MetaArray::Str(list))) => {
                let strings = list.to_strings().map_err(|index| GgufError::NotText {
                    key: key.to_owned(),
                    index,
                })?;
                Ok(Some(strings))
            }
            Some(other) => Err(wrong_list(key, "a list of text", other)),
        }
    }

    fn token_types(&self, tokens: usize) -> Result<Vec<i32>, GgufError> {
        let key = "tokenizer.ggml.token_type";
        let types = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(MetaValue::Array(MetaArray::I32(types))) => types.clone(),
            Some(MetaValue::Array(MetaArray::U32(types))) => {
                types.iter().map(|kind| *kind as i32).collect()
            }
            Some(other) => return Err(wrong_list(key, "a list of integers", other)),
        };
        same_length(key, types.len(), tokens)?;
        Ok(types)
    }

    fn scores(&self, tokens: usize) -> Result<Vec<f32>, GgufError> {
        let key = "tokenizer.ggml.scores";
        let scores = match self.get(key) {
            None => return Ok(Vec::new()),
            Some(MetaValue::Array(MetaArray::F32(scores))) => scores.clone(),
            Some(other) => return Err(wrong_list(key, "a list of floats", other)),
        };
        same_length(key, scores.len(), tokens)?;
        Ok(scores)
    }
}

fn wrong_list(key: &str, expected: &'static str, found: &MetaValue) -> GgufError {
    GgufError::WrongType {
        key: key.to_owned(),
        expected,
        found: found.type_name(),
    }
}

fn same_length(key: &str, len: usize, tokens: usize) -> Result<(), GgufError> {
    if len == tokens {
        return Ok(());
    }
    Err(GgufError::Inconsistent {
        what: format!("{key} has {len} entries, but there are {tokens} tokens"),
    })
}
