//! The small files beside the weights: `generation_config.json`, `tokenizer_config.json`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use weights::json;
use weights::manifest::MAX_EOS;

use super::{LoadError, Special};

/// Longest `tokenizer_config.json`, in bytes. That of Llama 3 takes 55 KiB.
pub(super) const MAX_SETTINGS_BYTES: u64 = 16 << 20;
/// Longest chat template, in bytes.
pub(super) const MAX_TEMPLATE_BYTES: u64 = 1 << 20;
/// Most named chat templates.
const MAX_TEMPLATES: usize = 64;
/// Most values of a `generation_config.json`.
const MAX_VALUES: u32 = 16 << 10;

/// What is read of a `tokenizer_config.json`.
#[derive(Debug, Default)]
pub(super) struct TokenizerSettings {
    pub(super) template: Option<String>,
    pub(super) add_bos: Option<bool>,
}

pub(super) fn utf8(file: &str, bytes: Vec<u8>) -> Result<String, LoadError> {
    String::from_utf8(bytes)
        .map_err(|_| LoadError::Inconsistent(format!("{file} is not valid text (UTF-8)")))
}

/// The chat template (where there are several: the one called `default`, or else the first) and
/// whether texts begin with a token of their own.
pub(super) fn tokenizer_settings(text: &[u8]) -> Result<TokenizerSettings, LoadError> {
    #[derive(Deserialize)]
    struct Raw {
        #[serde(default)]
        chat_template: Templates,
        #[serde(default)]
        add_bos_token: Option<bool>,
    }
    let raw: Raw = serde_json::from_slice(text).map_err(|error| {
        let error = json::message(&error);
        LoadError::Inconsistent(format!("tokenizer_config.json cannot be read ({error})"))
    })?;
    let templates = raw.chat_template.0;
    let place = templates.iter().position(|(name, _)| name == "default");
    let template = templates.into_iter().nth(place.unwrap_or(0));
    let template = template.map(|(_, template)| template);
    if let Some(template) = &template
        && template.len() as u64 > MAX_TEMPLATE_BYTES
    {
        return Err(LoadError::Inconsistent(format!(
            "tokenizer_config.json: the chat template has {} bytes, more than the limit of {MAX_TEMPLATE_BYTES}",
            template.len()
        )));
    }
    Ok(TokenizerSettings {
        template,
        add_bos: raw.add_bos_token,
    })
}

/// A chat template, or a list of named ones.
#[derive(Default)]
struct Templates(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Templates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
            template: String,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Templates;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a chat template, or at most {MAX_TEMPLATES} named ones")
            }

            fn visit_unit<E>(self) -> Result<Templates, E> {
                Ok(Templates::default())
            }

            fn visit_str<E>(self, template: &str) -> Result<Templates, E> {
                Ok(Templates(vec![("default".to_owned(), template.to_owned())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Templates, A::Error> {
                let mut templates = Vec::new();
                while let Some(Named { name, template }) = list.next_element()? {
                    if templates.len() == MAX_TEMPLATES {
                        return Err(serde::de::Error::invalid_length(MAX_TEMPLATES + 1, &self));
                    }
                    templates.push((name, template));
                }
                Ok(Templates(templates))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Templates, A::Error> {
                let mut templates = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if templates.len() == MAX_TEMPLATES {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        templates.push((name, map.next_value()?));
                    }
                }
                Ok(Templates(templates))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The special tokens that `generation_config.json` names, and those that only `config.json` does.
pub(super) fn special(generation: Option<&[u8]>, config: &[u8]) -> Result<Special, LoadError> {
    let mut special = Special::default();
    for (file, text) in [
        ("generation_config.json", generation),
        ("config.json", Some(config)),
    ] {
        let Some(text) = text else {
            continue;
        };
        let wrong = |what: String| LoadError::Inconsistent(format!("{file}: {what}"));
        let object = json::parse_small(text, MAX_VALUES).map_err(wrong)?;
        let ids = |key: &str| -> Result<Vec<u32>, LoadError> {
            let values = match object.get(key) {
                None | Some(Value::Null) => &[],
                Some(Value::Array(list)) => &list[..],
                Some(one) => std::slice::from_ref(one),
            };
            let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
            let ids: Option<Vec<u32>> = values.iter().map(id).collect();
            ids.filter(|ids| ids.len() <= MAX_EOS)
                .ok_or_else(|| wrong(format!("{key} is no id and no list of at most {MAX_EOS}")))
        };
        if special.bos.is_none() {
            special.bos = ids("bos_token_id")?.first().copied();
        }
        if special.eos.is_empty() {
            special.eos = ids("eos_token_id")?;
        }
    }
    Ok(special)
}
