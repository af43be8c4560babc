//! The native program `playground`: the same engine as the page's, on the command line.
//!
//! Every subcommand but `conform` and `inspect` (without `--json`) prints JSON on standard output, and
//! all print messages on standard error.

mod conform;
mod model;
mod progress;
mod text;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "playground",
    version,
    about = "AgenticML Playground on the command line"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run files of golden cases: what the published reference does, case by case.
    Conform(conform::Arguments),
    #[command(flatten)]
    Text(text::Command),
    #[command(flatten)]
    Model(model::Command),
}

fn main() -> ExitCode {
    match pollster::block_on(run(Arguments::parse().command)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("playground: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    let answer = match command {
        Command::Conform(arguments) => return conform::conform(&arguments),
        Command::Text(command) => text::run(&command)?,
        Command::Model(command) => return model::run(&command).await,
    };
    text::print(&answer)?;
    Ok(ExitCode::SUCCESS)
}
