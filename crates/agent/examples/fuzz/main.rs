//! Drives the parsers with broken input and looks for panics and for time that grows faster than the
//! input.
//!
//! `cargo run --release -p agent --example fuzz -- --executions 10000000 --seed 1`
//!
//! One execution is one input through one target. Equal seeds give equal inputs. Everything runs on a
//! stack of 1 MiB, as a WebAssembly module has. A panic prints the input that caused it.

mod inputs;
mod run;
mod targets;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut executions = 1_000_000;
    let mut seed = 1;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let number = arguments.next().and_then(|number| number.parse().ok());
        match (name.as_str(), number) {
            ("--executions", Some(number)) => executions = number,
            ("--seed", Some(number)) => seed = number,
            _ => {
                eprintln!("usage: fuzz [--executions N] [--seed S]");
                return ExitCode::FAILURE;
            }
        }
    }
    let found = run::on_small_stack(move || run::run(executions, seed));
    for (target, count) in &found.executions {
        println!("{target}: {count} executions");
    }
    println!(
        "{} executions, {} bytes, slowest {:.1} ms ({})",
        found.executions.values().sum::<u64>(),
        found.bytes,
        found.slowest.0 * 1e3,
        found.slowest.1
    );
    for problem in &found.problems {
        println!("PROBLEM {problem}");
    }
    if found.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
