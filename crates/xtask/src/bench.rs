//! `cargo xtask bench`: speed in Chromium beside wllama, in one interleaved run; with `--model` what a
//! large model takes, with `--typing` how fast the page follows typing.

mod large;
mod typing;

use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::project::Project;
use crate::site::{self, Recipe};
use crate::synthetic::{self, WORDS};
use crate::{process, server, setup};

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Instead: what one large model takes in the browser, of random weights in the shape of Llama 3.2 1B
    /// (GGUF, Q4_K_M) or Llama 3.1 8B (our 4-bit shards)
    #[arg(long, conflicts_with_all = ["models", "engines", "rounds", "prompt_tokens", "decode_tokens"])]
    model: Option<large::Model>,
    /// Instead: how long both sides take to follow a typed character, in trajectories of 2,000 and 20,000
    /// tokens; needs no engine
    #[arg(long, conflicts_with_all = ["model", "models", "engines", "rounds", "prompt_tokens", "decode_tokens"])]
    typing: bool,
    /// GGUF files, or `smollm2`, or random weights such as `160m-q4_k_m` or `1b-q4_0` (written once)
    #[arg(
        long,
        value_name = "FILE",
        value_delimiter = ',',
        default_value = "smollm2,160m-q4_k_m"
    )]
    models: Vec<String>,
    /// Engines, in the order in which they run
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cpu,gpu,wllama-1,wllama-2"
    )]
    engines: Vec<Engine>,
    /// How often each engine runs each model; figures are medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    prompt_tokens: u32,
    /// Tokens to write after it
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..))]
    decode_tokens: u32,
    /// Also write every measurement to this file
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

/// What runs the models.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Ours on the CPU, with relaxed SIMD where the browser has it
    Cpu,
    /// Ours on the CPU, without relaxed SIMD
    Simd128,
    /// Ours on WebGPU
    Gpu,
    /// wllama with one thread
    #[value(name = "wllama-1")]
    Wllama1,
    /// wllama with two threads
    #[value(name = "wllama-2")]
    Wllama2,
}

impl Engine {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn is_peer(self) -> bool {
        matches!(self, Self::Wllama1 | Self::Wllama2)
    }
}

/// One engine's run of one model.
struct Run {
    round: u64,
    model: String,
    engine: String,
    /// Tokens of the prompt.
    prompt: u64,
    load_seconds: f64,
    /// Tokens per second.
    prefill: Speed,
    decode: Speed,
    /// Largest resident memory of renderer and GPU process in MB.
    megabytes: Option<f64>,
    /// What our engine counts itself, in the first round.
    counters: Option<Value>,
}

/// Tokens per second of one phase.
struct Speed {
    /// By the clock.
    wall: f64,
    /// Per second of CPU time, which holds on a busy machine too; unknown outside Linux.
    cpu: Option<f64>,
}

impl Speed {
    fn new(tokens: f64, result: &Value, wall: &str, cpu: &str) -> Option<Self> {
        Some(Self {
            wall: 1000.0 * tokens / result[wall].as_f64()?,
            cpu: result[cpu]
                .as_f64()
                .filter(|milliseconds| *milliseconds > 0.0)
                .map(|milliseconds| 1000.0 * tokens / milliseconds),
        })
    }
}

impl Run {
    /// Reads a line of the script's.
    fn new(line: &Value) -> Option<Self> {
        // The first token comes with the prompt.
        let steps = line["newTokens"].as_f64()? - 1.0;
        Some(Self {
            round: line["round"].as_u64()?,
            model: line["model"].as_str()?.to_owned(),
            engine: line["engine"].as_str()?.to_owned(),
            prompt: line["promptTokens"].as_u64()?,
            load_seconds: line["loadMs"].as_f64()? / 1000.0,
            prefill: Speed::new(
                line["promptTokens"].as_f64()?,
                line,
                "prefillMs",
                "prefillCpuMs",
            )?,
            decode: Speed::new(steps, line, "decodeMs", "decodeCpuMs")?,
            megabytes: line["peakMB"].as_f64(),
            counters: line.get("counters").cloned(),
        })
    }
}

/// Measures and prints tables.
pub fn run(project: &Project, options: &Options) -> Result<()> {
    setup::npm(project)?;
    let browser = setup::browser().context("no Chromium was found")?;
    if let Some(model) = options.model {
        return large::run(project, model, &browser, options.json.as_deref());
    }
    if options.typing {
        return typing::run(project, &browser, options.json.as_deref());
    }
    let work = project.target.join("bench");
    let models = gather(project, options, &work.join("models"))?;
    let ours = options.engines.iter().any(|engine| !engine.is_peer());
    let site = if ours {
        let site = project.target.join("site");
        let without_gpu = !options.engines.contains(&Engine::Gpu);
        let engines = site::Engine::unless(false, without_gpu);
        site::build(project, &Recipe::quick(engines), &site)?;
        let address = server::start(&site, &work.join("models"))?;
        Some(format!("http://{address}/"))
    } else {
        None
    };
    let request = json!({
        "site": site,
        "models": models,
        "engines": options.engines.iter().map(|engine| engine.name()).collect::<Vec<_>>(),
        "rounds": options.rounds,
        "prompt": words(options.prompt_tokens, 0),
        "warmup": words(16, 5),
        "decodeTokens": options.decode_tokens,
    });
    let lines = measured(project, &browser, "bench", &request, progress)?;
    let report = report(project, options, &lines)?;
    if let Some(out) = &options.json {
        write_json(out, &lines)?;
    }
    println!("{report}");
    let failed = lines.iter().filter(|line| line["failed"].is_string());
    match failed.count() {
        0 => Ok(()),
        count => bail!("{count} measurements failed"),
    }
}

/// Runs a measuring script of `tests/bench`. What it prints in JSON, a value a line, goes to `each` and comes
/// back; the rest is shown.
fn measured(
    project: &Project,
    browser: &Path,
    name: &str,
    request: &Value,
    each: impl Fn(&Value),
) -> Result<Vec<Value>> {
    let mut script = process::command(project, "node");
    script
        .arg(format!("tests/bench/{name}.js"))
        .arg(request.to_string())
        .env("PLAYGROUND_CHROMIUM", browser);
    let mut lines = Vec::new();
    let ok = process::lines(&mut script, |line| {
        match serde_json::from_str::<Value>(line) {
            Ok(line) => {
                each(&line);
                lines.push(line);
            }
            Err(_) => eprintln!("{line}"),
        }
    })?;
    ensure!(ok, "the measuring script failed");
    Ok(lines)
}

fn write_json(out: &Path, lines: &[Value]) -> Result<()> {
    let all = serde_json::to_string_pretty(lines)? + "\n";
    fs::write(out, all).with_context(|| format!("writing {}", out.display()))
}

/// Puts the models into an empty folder that the servers can serve, and returns their paths there.
fn gather(project: &Project, options: &Options, folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let cache = project.cache.join("models");
    let mut models = Vec::new();
    for model in &options.models {
        let source = match synthetic::named(model) {
            Some((size, kind)) => synthetic::model(&cache, size, kind)?,
            None if model == "smollm2" => setup::model(project)?,
            None => model.into(),
        };
        let name = source.file_name().context("a model without a file name")?;
        let place = folder.join(name);
        // A link costs nothing; between file systems there is none.
        fs::hard_link(&source, &place)
            .or_else(|_| fs::copy(&source, &place).map(drop))
            .with_context(|| format!("taking {}", source.display()))?;
        models.push(place);
    }
    Ok(models)
}

/// A text of so many words, each one token with the space before it.
fn words(count: u32, first: usize) -> String {
    (0..count as usize).fold(String::new(), |mut text, index| {
        // The stride has no factor in common with the number of words; each lap begins one word on.
        let word = WORDS[(first + 7 * index + index / WORDS.len()) % WORDS.len()];
        text.push(' ');
        text.push_str(word);
        text
    })
}

/// Says how a run went.
fn progress(line: &Value) {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let title = format!(
        "round {} {} {}",
        line["round"],
        text("model"),
        text("engine")
    );
    if let Some(failure) = line["failed"].as_str() {
        eprintln!("{title}: failed: {failure}");
    } else if let Some(run) = Run::new(line) {
        eprintln!(
            "{title}: prefill {} tok/s, decode {} tok/s",
            figure(run.prefill.wall),
            figure(run.decode.wall)
        );
    }
}

/// Everything as Markdown.
fn report(project: &Project, options: &Options, lines: &[Value]) -> Result<String> {
    let runs = lines.iter().filter_map(Run::new).collect::<Vec<_>>();
    let mut out = String::new();
    writeln!(out, "{}", circumstances(project, options, lines)?)?;
    let mut models = runs.iter().map(|run| &run.model).collect::<Vec<_>>();
    models.sort_unstable();
    models.dedup();
    for model in models {
        let of_model = runs
            .iter()
            .filter(|run| run.model == *model)
            .collect::<Vec<_>>();
        writeln!(out, "### {model}\n")?;
        ensure!(
            of_model
                .windows(2)
                .all(|two| two[0].prompt == two[1].prompt),
            "engines make different numbers of tokens of the prompt for {model}"
        );
        writeln!(out, "{}", speeds(&options.engines, &of_model)?)?;
        if let Some(table) = counters(&of_model)? {
            writeln!(out, "{table}")?;
        }
        for peer in options.engines.iter().filter(|engine| engine.is_peer()) {
            if let Some(table) = ratios(&options.engines, *peer, &of_model)? {
                writeln!(out, "{table}")?;
            }
        }
    }
    Ok(out)
}

/// Machine, date, commit and how it was measured.
fn circumstances(project: &Project, options: &Options, lines: &[Value]) -> Result<String> {
    let machine = lines
        .iter()
        .find_map(|line| line.get("machine"))
        .context("the script named no machine")?;
    let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
    let git = |arguments: &[&str]| {
        process::output(process::command(project, "git").args(arguments))
            .map(|text| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|_| "unknown".into());
    let changed = git(&["status", "--porcelain"]).is_ok_and(|changes| !changes.is_empty());
    let wllama = lines
        .iter()
        .find_map(|line| line["version"].as_str())
        .map_or_else(String::new, |version| {
            format!(", wllama's llama.cpp {version}")
        });
    Ok(format!(
        "{}, commit {commit}{}. {}, {} cores, load {:.1} at the start. Chromium {}, WebGPU adapter \
         {}{wllama}. Prompt {} tokens, {} decoded, medians of {} interleaved rounds, each in a fresh \
         browser after a short warm-up.\n",
        text("date"),
        if changed { " with changes" } else { "" },
        text("cpu"),
        machine["cores"],
        machine["load"].as_f64().unwrap_or_default(),
        text("chromium"),
        text("adapter"),
        options.prompt_tokens,
        options.decode_tokens,
        options.rounds,
    ))
}

/// Median figures of every engine.
fn speeds(engines: &[Engine], runs: &[&Run]) -> Result<String, fmt::Error> {
    let mut out = String::from(
        "| engine | load s | prefill tok/s | decode tok/s | prefill tok/CPU-s | decode tok/CPU-s | \
         memory MB |\n|---|---|---|---|---|---|---|\n",
    );
    for engine in engines.iter().map(|engine| engine.name()) {
        let of = |figure: fn(&Run) -> Option<f64>| {
            let own = runs.iter().filter(|run| run.engine == engine);
            cell(median(own.filter_map(|run| figure(run)).collect()))
        };
        writeln!(
            out,
            "| {engine} | {} | {} | {} | {} | {} | {} |",
            of(|run| Some(run.load_seconds)),
            of(|run| Some(run.prefill.wall)),
            of(|run| Some(run.decode.wall)),
            of(|run| run.prefill.cpu),
            of(|run| run.decode.cpu),
            of(|run| run.megabytes),
        )?;
    }
    Ok(out)
}

/// What our engines count themselves. `None` where none of them ran.
fn counters(runs: &[&Run]) -> Result<Option<String>, fmt::Error> {
    let mut out = String::from(
        "| engine | launches per token | submits per token | weights read per token MB | weights MB | \
         wasm MB | first token of an edited prompt ms |\n|---|---|---|---|---|---|---|\n",
    );
    let mut any = false;
    for run in runs {
        let Some(counters) = &run.counters else {
            continue;
        };
        any = true;
        let of = |key: &str, unit: f64| cell(counters[key].as_f64().map(|value| value / unit));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            run.engine,
            of("dispatchesPerToken", 1.0),
            of("submitsPerToken", 1.0),
            of("bytesPerToken", 1e6),
            of("weightBytes", 1e6),
            of("wasmPeakMB", 1.0),
            of("firstTokenMs", 1.0),
        )?;
    }
    Ok(any.then_some(out))
}

/// Our engines against a peer: medians of the ratios within each round. `None` where there is nothing to
/// compare.
fn ratios(engines: &[Engine], peer: Engine, runs: &[&Run]) -> Result<Option<String>, fmt::Error> {
    let peer = peer.name();
    let mut out = format!(
        "| against {peer} | prefill | decode | prefill per CPU-s | decode per CPU-s |\n\
         |---|---|---|---|---|\n"
    );
    let own = engines.iter().filter(|engine| !engine.is_peer());
    let mut any = false;
    for engine in own.map(|engine| engine.name()) {
        let of = |figure: fn(&Run) -> Option<f64>| {
            let in_round = |name: &str, round: u64| {
                let mut found = runs.iter();
                let run = found.find(|run| run.engine == name && run.round == round)?;
                figure(run)
            };
            let ours = runs.iter().filter(|run| run.engine == engine);
            let ratios = ours
                .filter_map(|run| Some(figure(run)? / in_round(&peer, run.round)?))
                .collect();
            median(ratios)
        };
        let columns = [
            of(|run| Some(run.prefill.wall)),
            of(|run| Some(run.decode.wall)),
            of(|run| run.prefill.cpu),
            of(|run| run.decode.cpu),
        ];
        any |= columns.iter().any(Option::is_some);
        let columns =
            columns.map(|ratio| ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}×")));
        writeln!(out, "| {engine} | {} |", columns.join(" | "))?;
    }
    Ok(any.then_some(out))
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        count if count % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), figure)
}

/// A number with the digits that mean something.
fn figure(value: f64) -> String {
    match value {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(lines: &[(u64, &str, f64)]) -> Vec<Run> {
        let line = |(round, engine, milliseconds): &(u64, &str, f64)| {
            Run::new(&json!({
                "round": round, "model": "m", "engine": engine, "loadMs": 500.0,
                "promptTokens": 100, "prefillMs": milliseconds, "prefillCpuMs": 2000.0,
                "newTokens": 11, "decodeMs": milliseconds, "decodeCpuMs": null, "peakMB": 100.0,
            }))
        };
        lines.iter().filter_map(line).collect()
    }

    #[test]
    fn figures_are_medians_and_ratios_those_within_a_round() {
        // The machine was half as fast in round 2 and a tenth as fast in round 3.
        let runs = runs(&[
            (1, "cpu", 1000.0),
            (1, "wllama-1", 2000.0),
            (2, "cpu", 2000.0),
            (2, "wllama-1", 4000.0),
            (3, "cpu", 10_000.0),
            (3, "wllama-1", 5000.0),
        ]);
        let runs = runs.iter().collect::<Vec<_>>();
        let engines = [Engine::Cpu, Engine::Gpu, Engine::Wllama1];
        let table = speeds(&engines, &runs).unwrap();
        assert!(
            table.contains("\n| cpu | 0.50 | 50.0 | 5.00 | 50.0 | – | 100 |\n"),
            "{table}"
        );
        assert!(
            table.contains("\n| gpu | – | – | – | – | – | – |\n"),
            "{table}"
        );
        let table = ratios(&engines, Engine::Wllama1, &runs).unwrap().unwrap();
        assert!(
            table.contains("\n| cpu | 2.00× | 2.00× | 1.00× | – |\n"),
            "{table}"
        );
        assert!(
            ratios(&[Engine::Wllama1], Engine::Wllama1, &runs)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_failed_run_has_no_figures() {
        assert!(
            Run::new(&json!({ "round": 1, "model": "m", "engine": "gpu", "failed": "no" }))
                .is_none()
        );
    }

    #[test]
    fn prompts_have_as_many_words_as_asked_and_use_them_all() {
        let text = words(128, 0);
        assert_eq!(text.split(' ').count() - 1, 128);
        assert!(text.starts_with(" the"));
        assert!(WORDS.iter().all(|word| text.contains(word)));
        // The cache must not serve the prompt.
        assert!(!text.starts_with(words(16, 5).split_inclusive(' ').nth(1).unwrap()));
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
