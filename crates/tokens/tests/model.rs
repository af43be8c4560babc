//! Tokenizers from GGUF metadata: the real SmolLM2 file, and a small file whose `tokenizer.json` is at
//! hand for comparison.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;
use tokenizers::Tokenizer;
use tokens::model::{ModelTokenizer, Parts, TokenizerError};
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

static SMOLLM2: LazyLock<ModelTokenizer> = LazyLock::new(|| {
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
    ModelTokenizer::from_gguf(parts(&bytes)).expect("usable")
});

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
