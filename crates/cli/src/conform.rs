//! `playground conform`: runs files of golden cases.

use std::path::PathBuf;
use std::process::ExitCode;

use agent::conform::{Allowed, run};
use anyhow::Context;
use clap::Args;

use crate::text::{TokenizerPath, print, read_file};

/// What `playground conform` takes.
#[derive(Args)]
pub struct Arguments {
    /// Files of golden cases.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Cases that may fail: `subject: name` a line, `#` before comments.
    #[arg(long)]
    allow: Option<PathBuf>,
    #[command(flatten)]
    tokenizer: TokenizerPath,
}

/// Prints `name: passed/total` for each file, and each failing case's name, what it expects and what it
/// got. Fails when a case fails that the allow file does not name.
pub fn conform(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let allowed = match &arguments.allow {
        Some(path) => Allowed::parse(&read_file(path)?)
            .with_context(|| format!("{} is no allow file", path.display()))?,
        None => Allowed::default(),
    };
    let tokenizer = arguments.tokenizer.load()?;
    let mut unexpected = 0;
    for path in &arguments.files {
        let report = run(&read_file(path)?, &tokenizer)
            .with_context(|| format!("{} cannot be run", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let other_texts = match report.other_texts {
            0 => String::new(),
            n => format!(" ({n} with another error text)"),
        };
        print(&format!(
            "{name}: {}/{}{other_texts}",
            report.passed(),
            report.total
        ))?;
        for failure in &report.failures {
            let may_fail = allowed.contains(&report.subject, &failure.name);
            unexpected += usize::from(!may_fail);
            let note = if may_fail { " (allowed)" } else { "" };
            print(&format!(
                "  {}{note}\n    expected {}\n    got      {}",
                failure.name, failure.expected, failure.got
            ))?;
        }
    }
    Ok(if unexpected == 0 {
        ExitCode::SUCCESS
    } else {
        eprintln!("playground: {unexpected} cases fail that may not");
        ExitCode::FAILURE
    })
}
