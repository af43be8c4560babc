//! Running other programs, saying which.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::project::Project;

/// A command that runs in the project's root.
pub fn command(project: &Project, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(&project.root);
    command
}

/// The cargo that runs us.
pub fn cargo(project: &Project) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(project, Path::new(&program));
    command.env("CARGO_TARGET_DIR", &project.target);
    command
}

/// Says what is run and runs it; an exit status other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    say(command);
    let status = command
        .status()
        .with_context(|| format!("starting {}", name(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", name(command));
    }
    Ok(())
}

/// Runs a program quietly and returns what it printed; errors carry its complaint.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("starting {}", name(command)))?;
    if !output.status.success() {
        bail!(
            "{} ended with {}:\n{}",
            name(command),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something other than UTF-8", name(command)))
}

/// Runs a program, hands each line of its standard output to `line`, and returns whether it succeeded.
pub fn lines(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", name(command)))?;
    let stdout = child
        .stdout
        .take()
        .context("standard output was not captured")?;
    for text in BufReader::new(stdout).split(b'\n') {
        line(&String::from_utf8_lossy(&text?));
    }
    Ok(child.wait()?.success())
}

/// Prints a command the way it would be typed.
pub fn say(command: &Command) {
    let words = std::iter::once(name(command))
        .chain(
            command
                .get_args()
                .map(|word| word.to_string_lossy().into_owned()),
        )
        .collect::<Vec<_>>();
    eprintln!("$ {}", words.join(" "));
}

fn name(command: &Command) -> String {
    Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned()
}
