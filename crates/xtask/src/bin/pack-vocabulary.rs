//! Packs a `tokenizer.json` into the compact vocabulary that the page loads.

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        bail!("usage: pack-vocabulary TOKENIZER_JSON OUTPUT");
    };
    let json = std::fs::read(&input).with_context(|| format!("reading {}", input.display()))?;
    let packed = tokens::Llama3Tokenizer::compact_from_json(&json)?;
    std::fs::write(&output, packed).with_context(|| format!("writing {}", output.display()))
}
