//! What a large model takes in the browser: time, the worker's memory, that of the processes, and the
//! largest allocation in JavaScript.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::{cell, measured, write_json};
use crate::project::Project;
use crate::site::{self, Engine, Recipe};
use crate::synthetic::{self, Kind, Size};
use crate::{playground, server};

/// Tokens to write.
const TOKENS: u32 = 8;
/// Minutes that one run may take; the GPU is emulated where there is none.
const MINUTES: u32 = 60;
/// The worker's WebAssembly memory stays below this many bytes.
const WASM_LIMIT: f64 = 300e6;
/// No allocation in JavaScript exceeds this many bytes.
const ALLOCATION_LIMIT: f64 = 130e6;

/// Large models.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// Of the shape of Llama 3.2 1B
    #[value(name = "1b")]
    One,
    /// Of the shape of Llama 3.1 8B
    #[value(name = "8b")]
    Eight,
}

/// Measures and prints a table, and whether the limits hold.
pub fn run(project: &Project, model: Model, browser: &Path, json: Option<&Path>) -> Result<()> {
    let models = project.cache.join("models");
    let file = match model {
        Model::One => synthetic::model(&models, Size::One, Kind::Q4_K_M)?,
        Model::Eight => {
            playground::shards(project, &models, Size::Eight, "q4", 64)?.join("model.json")
        }
    };
    let site = project.target.join("site");
    site::build(project, &Recipe::quick(Engine::Included), &site)?;
    let address = server::start(&site, &models)?;
    let request = json!({
        "site": format!("http://{address}/"),
        "model": address_of(&file, &models)?,
        "tokens": TOKENS,
        "minutes": MINUTES,
    });
    let lines = measured(project, browser, "large", &request, |_| {})?;
    if let Some(out) = json {
        write_json(out, &lines)?;
    }
    println!("{}", table(&lines)?);
    for line in &lines {
        if let Some(failure) = line["failed"].as_str() {
            let title = line["title"].as_str().unwrap_or_default();
            println!("{title}: failed: {failure}");
        }
    }
    let wasm = limit(
        &lines,
        "wasmBytes",
        WASM_LIMIT,
        "WebAssembly memory of the worker",
    );
    let allocation = limit(
        &lines,
        "largestBytes",
        ALLOCATION_LIMIT,
        "single allocations in JavaScript",
    );
    let failed = lines.iter().any(|line| line["failed"].is_string());
    ensure!(!failed, "a run failed");
    ensure!(wasm && allocation, "a limit is exceeded");
    Ok(())
}

/// Where the server has a file of the models' folder.
fn address_of(file: &Path, models: &Path) -> Result<String> {
    let inside: PathBuf = file.strip_prefix(models)?.into();
    let parts = inside.iter().map(|part| part.to_string_lossy());
    Ok(format!("/models/{}", parts.collect::<Vec<_>>().join("/")))
}

fn table(lines: &[Value]) -> Result<String, fmt::Error> {
    let mut out = String::from(
        "| load | seconds | worker wasm at load MB | after generating MB | renderer peak MB | GPU process \
         peak MB | largest JS allocation MB | of | tokens/s |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines.iter().filter(|line| !line["failed"].is_string()) {
        let of = |value: &Value, unit: f64| cell(value.as_f64().map(|value| value / unit));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            line["title"].as_str().unwrap_or_default(),
            of(&line["loadSeconds"], 1.0),
            of(&line["wasmAtLoad"], 1e6),
            of(&line["wasmBytes"], 1e6),
            of(&line["rendererMB"], 1.0),
            of(&line["gpuMB"], 1.0),
            of(&line["largestBytes"], 1e6),
            line["largestBy"].as_str().unwrap_or_default(),
            of(&line["stats"]["tokensPerSecond"], 1.0),
        )?;
    }
    Ok(out)
}

/// Says whether all runs keep to a limit.
fn limit(lines: &[Value], key: &str, limit: f64, what: &str) -> bool {
    let most = lines.iter().filter_map(|line| line[key].as_f64());
    let most = most.fold(f64::NAN, f64::max);
    let holds = most < limit;
    println!(
        "{what}: {} of at most {} MB: {}",
        cell((!most.is_nan()).then_some(most / 1e6)),
        limit / 1e6,
        if holds { "holds" } else { "DOES NOT HOLD" }
    );
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_all_runs_or_not_at_all() {
        let line = |bytes: f64| json!({ "wasmBytes": bytes });
        assert!(limit(&[line(1e6), line(299e6)], "wasmBytes", 300e6, "x"));
        assert!(!limit(&[line(1e6), line(301e6)], "wasmBytes", 300e6, "x"));
        assert!(!limit(&[], "wasmBytes", 300e6, "x"));
    }

    #[test]
    fn files_have_addresses_below_the_models() {
        let models = Path::new("models");
        let file = models.join("a").join("model.json");
        assert_eq!(address_of(&file, models).unwrap(), "/models/a/model.json");
    }
}
