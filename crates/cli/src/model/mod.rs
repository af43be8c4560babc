//! Subcommands about models.

use std::process::ExitCode;

use clap::Subcommand;

use crate::text;

mod open;
mod run;

#[derive(Subcommand)]
pub enum Command {
    /// Continue a prompt with a model.
    Generate(run::Generate),
    /// Print the logits of the last of the given tokens.
    Logits(run::Logits),
    /// Measure prefill, decoding and the first token after an edit.
    Bench(run::Bench),
}

/// Runs a subcommand, which prints its answer.
pub async fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let answer = match command {
        Command::Generate(arguments) => run::generate(arguments).await?,
        Command::Logits(arguments) => run::logits(arguments).await?,
        Command::Bench(arguments) => run::bench(arguments).await?,
    };
    text::print(&answer)?;
    Ok(ExitCode::SUCCESS)
}
