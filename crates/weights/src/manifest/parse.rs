//! The JSON of a manifest, as the file has it, with limits on what it can make us hold.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serializer};
use serde_json::{Map, Value};

use super::{
    Entry, FORMAT, Licence, MAX_CONFIG_VALUES, MAX_EOS, MAX_SHARDS, MAX_TENSORS, Manifest,
    ManifestError, Shard, Special, VERSION,
};
use crate::block::BlockType;
use crate::digest;
use crate::json::{self, List};

/// What every version has.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Deserialize)]
struct Body {
    name: String,
    #[serde(default)]
    licence: Option<Licence>,
    recipe: String,
    #[serde(deserialize_with = "config")]
    config: Map<String, Value>,
    tensors: List<Entry, MAX_TENSORS>,
    shards: List<Shard, MAX_SHARDS>,
    tokenizer: Shard,
    #[serde(default)]
    template: Option<String>,
    #[serde(default)]
    special: Ends,
}

/// [`Special`] with a bounded list.
#[derive(Default, Deserialize)]
struct Ends {
    #[serde(default)]
    bos: Option<u32>,
    #[serde(default)]
    eos: List<u32, MAX_EOS>,
    #[serde(default)]
    add_bos: Option<bool>,
}

fn config<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    json::small_object(deserializer, MAX_CONFIG_VALUES)
}

pub(super) fn manifest(text: &[u8]) -> Result<Manifest, ManifestError> {
    let wrong = |error: serde_json::Error| ManifestError::Json(json::message(&error));
    let head: Head = serde_json::from_slice(text).map_err(wrong)?;
    match head.format.as_deref() {
        Some(FORMAT) => {}
        Some(other) => {
            let other: String = other.chars().take(60).collect();
            return Err(ManifestError::Other(format!("its format is {other:?}")));
        }
        None => return Err(ManifestError::Other("it says no format".to_owned())),
    }
    match head.version {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version @ 1..) => return Err(ManifestError::Version { version }),
        _ => return Err(ManifestError::Other("it says no version".to_owned())),
    }
    let body: Body = serde_json::from_slice(text).map_err(wrong)?;
    Ok(Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: body.name,
        licence: body.licence,
        recipe: body.recipe,
        config: body.config,
        tensors: body.tensors.0,
        shards: body.shards.0,
        tokenizer: body.tokenizer,
        template: body.template,
        special: Special {
            bos: body.special.bos,
            eos: body.special.eos.0,
            add_bos: body.special.add_bos,
        },
    })
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            name: String,
            kind: String,
            shape: List<u64, 2>,
            offset: u64,
        }
        let raw = Raw::deserialize(deserializer)?;
        let Some(kind) = BlockType::from_name(&raw.kind) else {
            let kind: String = raw.kind.chars().take(40).collect();
            return Err(D::Error::custom(format!("there is no type {kind:?}")));
        };
        Ok(Self {
            name: raw.name,
            kind,
            shape: raw.shape.0,
            offset: raw.offset,
        })
    }
}

impl<'de> Deserialize<'de> for Shard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            file: String,
            bytes: u64,
            sha256: String,
        }
        let raw = Raw::deserialize(deserializer)?;
        let sha256 = digest::parse_hex(&raw.sha256)
            .ok_or_else(|| D::Error::custom("sha256 is not 64 hexadecimal digits"))?;
        Ok(Self {
            file: raw.file,
            bytes: raw.bytes,
            sha256,
        })
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
pub(super) fn write_kind<S: Serializer>(kind: &BlockType, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

pub(super) fn write_hash<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&digest::hex(hash))
}
