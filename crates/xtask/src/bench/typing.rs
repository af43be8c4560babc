//! How long a typed character takes until both sides show it, in Chromium.

use std::fmt::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::{cell, measured, write_json};
use crate::project::Project;
use crate::server;
use crate::site::{self, Engine, Recipe};

/// Tokens of the trajectories, on side A.
const TOKENS: [u32; 2] = [2_000, 20_000];
/// Characters to type into each.
const KEYS: u32 = 100;

/// Measures and prints a table.
pub fn run(project: &Project, browser: &Path, json: Option<&Path>) -> Result<()> {
    let site = project.target.join("site-page");
    site::build(project, &Recipe::quick(Engine::Left), &site)?;
    let address = server::start(&site, &site)?;
    let request = json!({
        "site": format!("http://{address}/"),
        "tokens": TOKENS,
        "keys": KEYS,
    });
    let lines = measured(project, browser, "typing", &request, |_| {})?;
    if let Some(out) = json {
        write_json(out, &lines)?;
    }
    println!("{}", table(&lines)?);
    Ok(())
}

fn table(lines: &[Value]) -> Result<String, fmt::Error> {
    let mut out = String::new();
    for line in lines {
        let machine = &line["machine"];
        if machine.is_object() {
            writeln!(
                out,
                "{}, {} cores, load {:.1} at the start. Chromium {}. Milliseconds from the input event of a \
                 character in the middle frame until script is done, and until both sides are painted.\n\n\
                 | tokens A | tokens B | characters | script median | p95 | painted median | p95 | worst | \
                 elements in the rows |\n|---|---|---|---|---|---|---|---|---|",
                machine["cpu"].as_str().unwrap_or("unknown"),
                machine["cores"],
                machine["load"].as_f64().unwrap_or_default(),
                machine["chromium"].as_str().unwrap_or("unknown"),
            )?;
            continue;
        }
        let of = |phase: &str, which: &str| cell(line[phase][which].as_f64());
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            line["tokens"]["agenticml"],
            line["tokens"]["chatml"],
            line["keys"],
            of("script", "median"),
            of("script", "p95"),
            of("painted", "median"),
            of("painted", "p95"),
            of("painted", "worst"),
            line["elements"],
        )?;
    }
    Ok(out)
}
