//! Runs files of golden cases and prints a report on each as a line of JSON, for comparing builds.
//!
//! `cargo run -p agent --example reports -- TOKENIZER.json FILE...`

mod report;

use std::error::Error;
use tokens::Llama3Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let json = std::fs::read(arguments.next().ok_or("which tokenizer.json?")?)?;
    let compact = Llama3Tokenizer::compact_from_json(&json)?;
    let tokenizer = Llama3Tokenizer::from_compact(&compact)?;
    for path in arguments {
        println!(
            "{}",
            report::line(&std::fs::read_to_string(path)?, &tokenizer)?
        );
    }
    Ok(())
}
