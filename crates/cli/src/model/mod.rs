//! Subcommands about models.

use std::process::ExitCode;

use clap::Subcommand;

use crate::text;

mod convert;
mod inspect;
mod lora;
mod open;
mod quality;
mod run;
mod verify;

#[derive(Subcommand)]
pub enum Command {
    /// Continue a prompt with a model.
    Generate(run::Generate),
    /// Print the logits of the last of the given tokens.
    Logits(run::Logits),
    /// Measure prefill, decoding and the first token after an edit.
    Bench(run::Bench),
    /// Convert a model to a package of shards, quantizing it on the way.
    Convert(convert::Arguments),
    /// Check that a package of shards is whole and undamaged.
    Verify(verify::Arguments),
    /// Show what a model is: shape, tensors, tokenizer, licence, memory that it needs.
    Inspect(inspect::Arguments),
    /// Compare two models over a text: divergence, agreement, perplexity.
    Quality(quality::Arguments),
    /// Merge a LoRA adapter of the PEFT library into the model that it was trained on.
    MergeLora(lora::Arguments),
}

/// Runs a subcommand, which prints its answer.
pub async fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let answer = match command {
        Command::Generate(arguments) => run::generate(arguments).await?,
        Command::Logits(arguments) => run::logits(arguments).await?,
        Command::Bench(arguments) => run::bench(arguments).await?,
        Command::Convert(arguments) => convert::run(arguments).await?.to_string(),
        Command::Verify(arguments) => return verify::run(arguments),
        Command::Inspect(arguments) => inspect::run(arguments).await?,
        Command::Quality(arguments) => quality::run(arguments).await?.to_string(),
        Command::MergeLora(arguments) => lora::run(arguments).await?.to_string(),
    };
    text::print(&answer)?;
    Ok(ExitCode::SUCCESS)
}
