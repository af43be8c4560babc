//! The manifest of a package of shards: written, read, checked, and compared with its JSON Schema.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use weights::manifest::{
    Entry, FORMAT, Licence, MAX_BYTES, Manifest, ManifestError, Shard, Special, VERSION,
};
use weights::{BlockType, digest};

fn shard(file: &str, bytes: u64) -> Shard {
    Shard {
        file: file.to_owned(),
        bytes,
        sha256: digest::sha256(file.as_bytes()),
    }
}

fn entry(name: &str, kind: BlockType, shape: &[u64], offset: u64) -> Entry {
    Entry {
        name: name.to_owned(),
        kind,
        shape: shape.to_vec(),
        offset,
    }
}

/// With all that a manifest can have.
fn full() -> Manifest {
    let config = json!({
        "layers": 1, "dim": 256, "heads": 8, "kv_heads": 2, "head_dim": 32, "ffn": 256, "vocab": 640,
        "norm_eps": 1e-5, "context": 4096,
        "rope": {"theta": 500000.0, "linear": 1.0, "divisors": vec![1.0; 16], "pairing": "adjacent"}
    });
    Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: "a model".to_owned(),
        licence: Some(Licence {
            name: "Llama 3.1 Community License".to_owned(),
            link: Some("https://www.llama.com/llama3_1/license/".to_owned()),
            attribution: Some("Built with Llama".to_owned()),
        }),
        recipe: "q4".to_owned(),
        config: config.as_object().expect("an object").clone(),
        tensors: vec![
            entry("token_embd.weight", BlockType::Q4_0, &[640, 256], 0),
            entry("output_norm.weight", BlockType::F32, &[256], 92_160),
        ],
        shards: vec![
            shard("model-00001-of-00002.bin", 90_000),
            shard("model-00002-of-00002.bin", 3_184),
        ],
        tokenizer: shard("tokenizer.json", 1234),
        template: Some("{{ messages }}".to_owned()),
        special: Special {
            bos: Some(624),
            eos: vec![628, 625],
            add_bos: Some(true),
        },
    }
}

/// With no more than a manifest must have.
fn least() -> Manifest {
    Manifest {
        licence: None,
        template: None,
        special: Special::default(),
        tokenizer: shard("tokenizer.gguf", 1),
        ..full()
    }
}

fn value(manifest: &Manifest) -> Value {
    serde_json::from_str(&manifest.to_json().expect("a good manifest")).expect("JSON")
}

fn changed(change: impl Fn(&mut Value)) -> Result<Manifest, ManifestError> {
    let mut value = value(&full());
    change(&mut value);
    Manifest::parse(value.to_string().as_bytes())
}

#[test]
fn what_is_written_is_read() {
    for manifest in [full(), least()] {
        let text = manifest.to_json().expect("a good manifest");
        let read = Manifest::parse(text.as_bytes()).expect("a good manifest");
        assert_eq!(read, manifest);
        assert_eq!(read.to_json().expect("a good manifest"), text);
        assert_eq!(read.total(), 93_184);
    }
    // Keys of later writers are no matter.
    let read = changed(|value| value["tensors"][0]["note"] = json!({"made": "by"}));
    assert_eq!(read.expect("a good manifest"), full());
}

#[test]
fn other_formats_and_later_versions_are_told_apart() {
    let error = changed(|value| value["version"] = 2.into()).expect_err("later");
    assert_eq!(error, ManifestError::Version { version: 2 });
    assert!(error.to_string().contains("update it"), "{error}");
    // A later version may look quite different.
    let later = format!(r#"{{"format":"{FORMAT}","version":7,"tensors":{{}}}}"#);
    let error = Manifest::parse(later.as_bytes()).expect_err("later");
    assert_eq!(error, ManifestError::Version { version: 7 });
    for other in [
        json!({"format": "gguf", "version": 1}),
        json!({"version": 1}),
        json!({"format": FORMAT}),
        json!({"format": FORMAT, "version": 0}),
    ] {
        let error = Manifest::parse(other.to_string().as_bytes()).expect_err("another file");
        assert!(matches!(error, ManifestError::Other(_)), "{error}");
    }
    for text in ["", "3", "{", "<html>", "{\"format\":3}"] {
        let error = Manifest::parse(text.as_bytes()).expect_err("no manifest");
        assert!(matches!(error, ManifestError::Json(_)), "{error}");
    }
}

/// A change and what the error names.
type Case<'a> = (&'a dyn Fn(&mut Value), &'a str);

#[test]
fn contradictions_are_named() {
    let cases: &[Case<'_>] = &[
        (&|v| v["tensors"][1]["offset"] = 92_159.into(), "overlap"),
        (
            &|v| v["tensors"][1]["offset"] = 92_161.into(),
            "the shards have",
        ),
        (
            &|v| v["tensors"][1]["offset"] = u64::MAX.into(),
            "the shards have",
        ),
        (
            &|v| v["tensors"][1]["name"] = "token_embd.weight".into(),
            "twice",
        ),
        (
            &|v| v["tensors"][0]["shape"] = json!([640, 250]),
            "cannot have the shape",
        ),
        (
            &|v| v["tensors"][0]["shape"] = json!([0, 256]),
            "cannot have the shape",
        ),
        (
            &|v| v["tensors"][0]["shape"] = json!([]),
            "cannot have the shape",
        ),
        (
            &|v| v["tensors"][0]["shape"] = json!([1u64 << 60, 1u64 << 60]),
            "cannot have the shape",
        ),
        (&|v| v["tensors"][0]["kind"] = "IQ2_XS".into(), "IQ2_XS"),
        (
            &|v| v["shards"][1]["file"] = "model-00001-of-00002.bin".into(),
            "twice",
        ),
        (
            &|v| v["shards"][1]["file"] = "tokenizer.json".into(),
            "twice",
        ),
        (&|v| v["shards"][1]["file"] = "model.json".into(), "twice"),
        (
            &|v| v["shards"][1]["file"] = "../secret".into(),
            "not the name",
        ),
        (&|v| v["shards"][1]["file"] = "a/b".into(), "not the name"),
        (&|v| v["shards"][1]["file"] = "".into(), "not the name"),
        (
            &|v| v["tokenizer"]["file"] = "https://x".into(),
            "not the name",
        ),
        (
            &|v| v["tokenizer"]["file"] = "tokenizer.model".into(),
            "neither",
        ),
        (&|v| v["shards"][1]["bytes"] = 0.into(), "no bytes"),
    ];
    for (change, named) in cases {
        let error = changed(change).expect_err(named);
        assert!(matches!(error, ManifestError::Inconsistent(_)), "{error}");
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
    let damaged: &[Case<'_>] = &[
        (
            &|v| v["tensors"][0]["shape"] = json!([1, 2, 3]),
            "at most 2",
        ),
        (&|v| v["tensors"][0]["kind"] = "Q9".into(), "Q9"),
        (&|v| v["tensors"][0]["offset"] = (-1).into(), "-1"),
        (&|v| v["shards"][0]["sha256"] = "12".into(), "sha256"),
        (
            &|v| {
                drop(
                    v["shards"][0]
                        .as_object_mut()
                        .expect("an object")
                        .remove("bytes"),
                )
            },
            "bytes",
        ),
        (&|v| v["config"] = json!(vec![0; 5000]), "more values"),
        (&|v| v["config"]["x"] = json!(vec![0; 5000]), "more values"),
        (&|v| v["special"]["eos"] = json!(vec![1; 65]), "at most 64"),
        (
            &|v| v["tensors"] = json!(vec![v["tensors"][0].clone(); 16_385]),
            "at most 16384",
        ),
    ];
    for (change, named) in damaged {
        let error = changed(change).expect_err(named);
        assert!(matches!(error, ManifestError::Json(_)), "{error}");
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
    let large: &[Case<'_>] = &[
        (
            &|v| v["shards"][1]["bytes"] = (1u64 << 40).into(),
            "size of a shard",
        ),
        (
            &|v| v["tokenizer"]["bytes"] = (1u64 << 40).into(),
            "size of the tokenizer",
        ),
        (&|v| v["name"] = "x".repeat(5000).into(), "length of name"),
        (
            &|v| v["recipe"] = "x".repeat(5000).into(),
            "length of recipe",
        ),
        (
            &|v| v["licence"]["link"] = "x".repeat(5000).into(),
            "licence",
        ),
        (
            &|v| v["template"] = "x".repeat(1_100_000).into(),
            "template",
        ),
        (
            &|v| v["tensors"][0]["name"] = "x".repeat(500).into(),
            "tensor's name",
        ),
        (
            &|v| v["x"] = "x".repeat(MAX_BYTES as usize).into(),
            "its length",
        ),
    ];
    for (change, named) in large {
        let error = changed(change).expect_err(named);
        assert!(matches!(error, ManifestError::Limit { .. }), "{error}");
        assert!(error.to_string().contains(named), "{named}: {error}");
        assert!(error.to_string().len() < 500);
    }
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let mut manifest = full();
    manifest.shards.pop();
    manifest.to_json().expect_err("a tensor outside");
    let mut manifest = full();
    manifest.version = 2;
    manifest.to_json().expect_err("another version");
}

fn schema() -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../public/schemas");
    let text = std::fs::read(path.join("model.schema.json")).expect("the schema");
    serde_json::from_slice(&text).expect("JSON")
}

/// Whether a value is as a schema says: as much of JSON Schema as ours uses.
fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let number = value.as_f64();
    let length = value.as_str().map(|text| text.chars().count() as u64);
    let items = value.as_array().map(|items| items.len() as u64);
    schema
        .as_object()
        .expect("a schema")
        .iter()
        .all(|(keyword, rule)| {
            let at_most = |size: Option<u64>| {
                size.is_none_or(|size| size <= rule.as_u64().expect("a number"))
            };
            let at_least = |size: Option<u64>| {
                size.is_none_or(|size| size >= rule.as_u64().expect("a number"))
            };
            match keyword.as_str() {
                "$schema" | "title" | "description" | "$defs" => true,
                "$ref" => {
                    let name = rule.as_str().and_then(|name| name.strip_prefix("#/$defs/"));
                    valid(root, &root["$defs"][name.expect("a definition")], value)
                }
                "type" => match rule.as_str().expect("a type") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "number" => value.is_number(),
                    "integer" => value.is_u64() || value.is_i64(),
                    other => panic!("unknown type {other}"),
                },
                "const" => value == rule,
                "enum" => rule.as_array().expect("values").contains(value),
                "required" => {
                    let mut keys = rule.as_array().expect("keys").iter();
                    keys.all(|key| value.get(key.as_str().expect("a key")).is_some())
                }
                "properties" => {
                    let rules = rule.as_object().expect("rules");
                    rules.iter().all(|(key, rule)| {
                        value.get(key).is_none_or(|value| valid(root, rule, value))
                    })
                }
                "items" => {
                    let items = value.as_array();
                    items.is_none_or(|items| items.iter().all(|item| valid(root, rule, item)))
                }
                "minimum" => number.is_none_or(|number| number >= rule.as_f64().expect("a number")),
                "maximum" => number.is_none_or(|number| number <= rule.as_f64().expect("a number")),
                "exclusiveMinimum" => {
                    number.is_none_or(|number| number > rule.as_f64().expect("a number"))
                }
                "multipleOf" => {
                    number.is_none_or(|number| number % rule.as_f64().expect("a number") == 0.0)
                }
                "minLength" => at_least(length),
                "maxLength" => at_most(length),
                "minItems" => at_least(items),
                "maxItems" => at_most(items),
                "pattern" => {
                    value
                        .as_str()
                        .is_none_or(|text| match rule.as_str().expect("a pattern") {
                            "^[0-9a-fA-F]{64}$" => digest::parse_hex(text).is_some(),
                            "^[^/\\\\:?#%\\u0000-\\u001f]+$" => {
                                !text.is_empty()
                                    && !text.contains(|c: char| "/\\:?#%".contains(c) || c < ' ')
                            }
                            other => panic!("unknown pattern {other}"),
                        })
                }
                other => panic!("unknown keyword {other}"),
            }
        })
}

#[test]
fn the_schema_describes_what_is_written_and_read() {
    let schema = schema();
    for manifest in [full(), least()] {
        assert!(valid(&schema, &schema, &value(&manifest)));
    }
    // What the schema refuses is refused here, too.
    let cases: &[&dyn Fn(&mut Value)] = &[
        &|v| v["format"] = "gguf".into(),
        &|v| v["version"] = 2.into(),
        &|v| v["tensors"][0]["kind"] = "Q8_1".into(),
        &|v| v["tensors"][0]["shape"] = json!([1, 2, 3]),
        &|v| v["tensors"][0]["shape"] = json!([0]),
        &|v| v["tensors"][0]["offset"] = (-1).into(),
        &|v| v["shards"][0]["sha256"] = "xy".into(),
        &|v| v["shards"][0]["file"] = "a/b".into(),
        &|v| v["shards"][0]["bytes"] = (1u64 << 27).into(),
        &|v| v["tokenizer"]["bytes"] = 0.into(),
        &|v| v["name"] = 3.into(),
        &|v| v["special"]["eos"] = 3.into(),
        &|v| v["special"]["bos"] = (1u64 << 32).into(),
        &|v| v["licence"]["name"] = Value::Null,
        &|v| v["config"] = json!([]),
    ];
    for (place, change) in cases.iter().enumerate() {
        let mut broken = value(&full());
        change(&mut broken);
        assert!(!valid(&schema, &schema, &broken), "case {place}");
        Manifest::parse(broken.to_string().as_bytes()).expect_err("refused");
    }
    // Every key that must be there.
    for key in schema["required"].as_array().expect("keys") {
        let mut broken = value(&full());
        broken
            .as_object_mut()
            .expect("an object")
            .remove(key.as_str().expect("a key"));
        assert!(!valid(&schema, &schema, &broken), "{key}");
    }
    // Every kind that is read.
    let kinds = &schema["properties"]["tensors"]["items"]["properties"]["kind"]["enum"];
    let kinds: Vec<&str> = kinds
        .as_array()
        .expect("kinds")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for id in 0..64 {
        if let Some(kind) = BlockType::from_ggml_id(id) {
            assert_eq!(kinds.contains(&kind.name()), kind.is_supported(), "{kind}");
        }
    }
}

/// The example in the document is one.
#[test]
fn the_document_shows_a_manifest() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/shards.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (_, example) = text.split_once("```json").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let value: Value = serde_json::from_str(example).expect("JSON");
    let schema = schema();
    assert!(valid(&schema, &schema, &value));
    // Shortened, so the embeddings reach beyond the one shard.
    let error = Manifest::parse(example.as_bytes()).expect_err("shortened");
    assert!(error.to_string().contains("the shards have"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_answered(text in prop::collection::vec(any::<u8>(), 0..300)) {
        Manifest::parse(&text).expect_err("no manifest");
    }
}
