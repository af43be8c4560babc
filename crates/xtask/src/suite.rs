//! `cargo xtask test`: everything CI runs, cheap steps first, one summary at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::project::Project;
use crate::site::{self, Engine, Recipe};
use crate::{playground, process, server, setup};

/// One part of the suite, in the order in which they run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Step {
    /// Formatting
    Fmt,
    /// Tests of crates/formats
    Formats,
    /// Tests of crates/tokens
    Tokens,
    /// Tests of crates/weights
    Weights,
    /// Tests of crates/model
    Model,
    /// Tests of crates/cpu
    Cpu,
    /// Tests of crates/agent
    Agent,
    /// Tests of crates/xtask
    Xtask,
    /// Tests of the page that need no browser
    Page,
    /// Lints of the page
    PageLints,
    /// Golden cases in WebAssembly, in Node.js and Chromium: the same answers as native
    Wasm,
    /// Tests of crates/llama, on a software GPU
    Llama,
    /// Tests of crates/engine, on a software GPU
    Engine,
    /// Tests of the program `playground`, on a software GPU
    Cli,
    /// Documentation examples of all crates
    Docs,
    /// Lints of everything, native and wasm
    Clippy,
    /// The site: all WebAssembly programs and all that belongs to them, and the pages of the tests
    Web,
    /// Browser tests of the page alone, on a site without the engine; part of `browser`
    BrowserPage,
    /// Browser tests
    Browser,
}

/// Packages that do without burn.
const LIGHT: [&str; 7] = [
    "formats", "tokens", "weights", "model", "cpu", "agent", "xtask",
];
/// Packages that use burn. Their tests are always built together: one set of features, so that burn is
/// compiled once.
pub const HEAVY: [&str; 3] = ["llama", "engine", "cli"];
/// What is compiled for the tests of those.
pub const HEAVY_FEATURES: [&str; 2] = ["--features", "llama/check"];

const NO_BROWSER: &str = "no Chromium was found";

impl Step {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn is_light(self) -> bool {
        matches!(
            self,
            Self::Formats
                | Self::Tokens
                | Self::Weights
                | Self::Model
                | Self::Cpu
                | Self::Agent
                | Self::Xtask
        )
    }

    fn uses_gpu(self) -> bool {
        matches!(self, Self::Llama | Self::Engine | Self::Cli | Self::Docs)
    }

    fn uses_browser(self) -> bool {
        matches!(self, Self::Wasm | Self::BrowserPage | Self::Browser)
    }
}

/// How a step went.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Count {
    /// A step that is one check.
    fn check(ok: bool) -> Self {
        Self {
            passed: ok.into(),
            failed: (!ok).into(),
            ignored: 0,
        }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// Runs the steps and prints the summary. An error if anything failed.
pub fn run(project: &Project, only: &[Step], rest: &[String]) -> Result<()> {
    let mut steps = only.to_vec();
    if steps.is_empty() {
        steps = Step::value_variants().to_vec();
        steps.retain(|step| *step != Step::BrowserPage);
    }
    steps.sort();
    steps.dedup();

    setup::npm(project)?;
    if steps
        .iter()
        .any(|step| step.uses_gpu() || step.uses_browser())
    {
        setup::test_tools()?;
    }
    let light = steps
        .iter()
        .filter(|step| step.is_light())
        .map(|step| step.name())
        .collect();
    let mut suite = Suite {
        project,
        rest,
        light,
        programs: BTreeMap::new(),
        model: None,
    };
    if steps
        .iter()
        .any(|step| step.uses_gpu() || *step == Step::Browser)
    {
        suite.model = Some(setup::model(project)?);
    }

    let mut rows = Vec::new();
    let mut total = Count::default();
    for step in steps {
        eprintln!("\n== {} ==", step.name());
        let start = Instant::now();
        let count = suite.step(step).unwrap_or_else(|error| {
            eprintln!("{error:#}");
            Count::check(false)
        });
        total.add(count);
        rows.push((step, count, start.elapsed()));
    }

    println!(
        "\n{:<12}{:>8}{:>8}{:>9}{:>9}",
        "step", "passed", "failed", "ignored", "seconds"
    );
    for (step, count, time) in &rows {
        let Count {
            passed,
            failed,
            ignored,
        } = count;
        println!(
            "{:<12}{passed:>8}{failed:>8}{ignored:>9}{:>9.1}",
            step.name(),
            time.as_secs_f64()
        );
    }
    let time = rows.iter().map(|(_, _, time)| *time).sum::<Duration>();
    println!("{:<37}{:>9.1}", "", time.as_secs_f64());
    // The last line is read by machines.
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

struct Suite<'a> {
    project: &'a Project,
    rest: &'a [String],
    /// The asked-for packages without burn; their tests are built together.
    light: Vec<String>,
    /// Test programs by package, once built.
    programs: BTreeMap<String, Vec<PathBuf>>,
    model: Option<PathBuf>,
}

impl Suite<'_> {
    fn step(&mut self, step: Step) -> Result<Count> {
        match step {
            Step::Fmt => self.check(&[&["fmt", "--all", "--check"]]),
            Step::Formats
            | Step::Tokens
            | Step::Weights
            | Step::Model
            | Step::Cpu
            | Step::Agent
            | Step::Xtask => {
                let group = self.light.clone();
                self.package(&step.name(), &group)
            }
            Step::Llama | Step::Engine | Step::Cli => {
                self.package(&step.name(), &HEAVY.map(str::to_owned))
            }
            Step::Docs => self.docs(),
            Step::Page => self.package("page", &["page".to_owned()]),
            Step::PageLints => self.check(&[&clippy("page", &[])]),
            Step::Wasm => self.wasm(),
            Step::Clippy => {
                let all = [
                    "clippy",
                    "--quiet",
                    "--workspace",
                    "--exclude",
                    "page",
                    "--exclude",
                    "worker",
                ];
                let targets = ["--all-targets", "--features", "llama/check,cpu/check"];
                let deny = ["--", "-D", "warnings"];
                self.check(&[
                    &[&all[..], &targets[..], &deny[..]].concat(),
                    &clippy("page", &[]),
                    &clippy("agent", &["--example", "wasm"]),
                    &clippy("worker", &["--features", "check"]),
                    &clippy("worker", &["--features", "cpu"]),
                    &clippy("worker", &["--features", "relaxed"]),
                ])
            }
            Step::Web => {
                self.site(Engine::Included)?;
                Ok(Count::check(true))
            }
            Step::BrowserPage => self.browser(Engine::Left),
            Step::Browser => self.browser(Engine::Included),
        }
    }

    /// Cargo commands that all must succeed; they count as one check.
    fn check(&self, commands: &[&[&str]]) -> Result<Count> {
        let mut ok = true;
        for arguments in commands {
            let mut cargo = process::cargo(self.project);
            cargo.args(*arguments);
            process::say(&cargo);
            ok &= cargo.status()?.success();
        }
        Ok(Count::check(ok))
    }

    /// Runs the test programs of a package, which is built together with its group.
    fn package(&mut self, package: &str, group: &[String]) -> Result<Count> {
        if !self.programs.contains_key(package) {
            self.build(group)?;
        }
        let mut total = Count::default();
        for program in self.programs.get(package).into_iter().flatten() {
            let mut command = Command::new(program);
            // As cargo does: the working folder is the package's own.
            let home = self.home(package);
            command
                .current_dir(&home)
                .env("CARGO_MANIFEST_DIR", &home)
                .args(self.rest);
            self.environment(&mut command)?;
            total.add(counted(&mut command, closing)?);
        }
        Ok(total)
    }

    fn build(&mut self, group: &[String]) -> Result<()> {
        let mut cargo = process::cargo(self.project);
        cargo.args([
            "test",
            "--quiet",
            "--no-run",
            "--message-format",
            "json-render-diagnostics",
        ]);
        if group.iter().any(|package| package == "llama") {
            cargo.args(HEAVY_FEATURES);
        }
        cargo.args(
            group
                .iter()
                .flat_map(|package| ["--package", package.as_str()]),
        );
        process::say(&cargo);
        let homes = group
            .iter()
            .map(|package| self.home(package))
            .collect::<Vec<_>>();
        let mut programs = vec![Vec::new(); group.len()];
        let built = process::lines(&mut cargo, |line| {
            let Ok(message) = serde_json::from_str::<Value>(line) else {
                return;
            };
            let test = message["profile"]["test"].as_bool() == Some(true);
            let Some(program) = message["executable"].as_str().filter(|_| test) else {
                return;
            };
            let manifest = message["manifest_path"].as_str().map(Path::new);
            let mut homes = homes.iter().zip(&mut programs);
            if let Some((_, list)) =
                homes.find(|(home, _)| manifest.is_some_and(|it| it.starts_with(home)))
            {
                list.push(program.into());
            }
        })?;
        if !built {
            bail!("the tests of {} do not compile", group.join(", "));
        }
        self.programs.extend(group.iter().cloned().zip(programs));
        Ok(())
    }

    /// The folder of a package.
    fn home(&self, package: &str) -> PathBuf {
        match package {
            "page" => self.project.root.join("web"),
            _ => self.project.root.join("crates").join(package),
        }
    }

    /// Documentation examples; the same groups as for the tests, so that the same builds serve.
    fn docs(&self) -> Result<Count> {
        let mut total = Count::default();
        for group in [&LIGHT[..], &HEAVY[..]] {
            let mut cargo = process::cargo(self.project);
            cargo.args(["test", "--quiet", "--doc"]);
            cargo.args(group.iter().flat_map(|package| ["--package", package]));
            if group.contains(&"llama") {
                cargo.args(HEAVY_FEATURES);
            }
            process::say(&cargo);
            self.environment(&mut cargo)?;
            total.add(counted(&mut cargo, closing)?);
        }
        Ok(total)
    }

    /// Where tests find the model, and a software GPU so that they run and agree everywhere. What the
    /// caller has set stays.
    fn environment(&self, command: &mut Command) -> Result<()> {
        let mut set = |name: &str, value: &Path| {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        };
        if let Some(model) = &self.model {
            set("PLAYGROUND_SMOLLM2", model);
        }
        if let Some(driver) = setup::vulkan_driver() {
            set("VK_ICD_FILENAMES", &driver);
            set("CUBECL_WGPU_DEFAULT_DEVICE", Path::new("Cpu"));
        }
        let runtime = self.project.target.join("runtime");
        fs::create_dir_all(&runtime)?;
        set("XDG_RUNTIME_DIR", &runtime);
        Ok(())
    }

    /// Runs the golden cases natively and in WebAssembly, and compares the reports.
    fn wasm(&self) -> Result<Count> {
        let bindgen = setup::build_tools(self.project)?;
        let browser = setup::browser().context(NO_BROWSER)?;
        let tokenizer = site::tokenizer_json(self.project)?;
        // Relative to the root, where commands run.
        let golden = Path::new("tests/golden");
        let mut cases = fs::read_dir(self.project.root.join(golden))
            .with_context(|| format!("reading {}", golden.display()))?
            .map(|entry| Ok(golden.join(entry?.file_name())))
            .collect::<Result<Vec<_>>>()?;
        cases.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "json")
        });
        cases.sort();
        let out = self.project.target.join("wasm");
        fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;

        let native = out.join("native.jsonl");
        let reports =
            fs::File::create(&native).with_context(|| format!("creating {}", native.display()))?;
        process::run(
            process::cargo(self.project)
                .args([
                    "run",
                    "--quiet",
                    "--package",
                    "agent",
                    "--example",
                    "reports",
                    "--",
                ])
                .arg(&tokenizer)
                .args(&cases)
                .stdout(reports),
        )?;
        process::run(process::cargo(self.project).args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "agent",
            "--example",
            "wasm",
            "--target",
            setup::WASM,
        ]))?;
        let module = self
            .project
            .target
            .join(setup::WASM)
            .join("release/examples/wasm.wasm");
        let bound = out.join("bound");
        process::run(
            process::command(self.project, &bindgen)
                .args([
                    "--no-typescript",
                    "--target",
                    "web",
                    "--out-name",
                    "wasm",
                    "--out-dir",
                ])
                .arg(&bound)
                .arg(&module),
        )?;
        // Without it, what Node.js takes the script for depends on where the target folder is.
        fs::write(bound.join("package.json"), "{\"type\": \"module\"}\n")?;
        let mut total = Count::default();
        for script in ["golden.mjs", "chromium.mjs"] {
            let mut node = process::command(self.project, "node");
            node.arg(Path::new("tests/wasm").join(script))
                .args([&bound, &native, &tokenizer])
                .args(&cases)
                .env("PLAYGROUND_CHROMIUM", &browser);
            process::say(&node);
            total.add(counted(&mut node, script_closing)?);
        }
        Ok(total)
    }

    /// Builds the site for the browser tests; quick when nothing changed.
    fn site(&self, engine: Engine) -> Result<PathBuf> {
        let name = match engine {
            Engine::Included => "site",
            Engine::Cpu => "site-cpu",
            Engine::Left => "site-page",
        };
        let site = self.project.target.join(name);
        let recipe = Recipe::quick(engine);
        let recipe = if engine == Engine::Included {
            recipe.with_checks()
        } else {
            recipe
        };
        site::build(self.project, &recipe, &site)?;
        Ok(site)
    }

    fn browser(&self, engine: Engine) -> Result<Count> {
        let site = self.site(engine)?;
        if engine == Engine::Included {
            playground::test_models(self.project, &self.project.cache.join("models"))?;
        }
        let results = self.project.target.join("browser");
        let report = results.join("report.json");
        let _ = fs::remove_file(&report);
        let mut tests = playwright(self.project, &site, &results)?;
        tests
            .arg("test")
            .args(["--config", "tests/browser/playwright.config.js"]);
        if engine == Engine::Left {
            tests.args(["--grep-invert", "@engine"]);
        }
        tests.args(self.rest);
        process::say(&tests);
        let ok = tests
            .status()
            .context("starting the browser tests")?
            .success();
        let report = fs::read(&report).context("the browser tests wrote no report")?;
        let report: Value = serde_json::from_slice(&report)?;
        let stat = |name: &str| {
            u32::try_from(report["stats"][name].as_u64().unwrap_or(0)).unwrap_or(u32::MAX)
        };
        let mut count = Count {
            passed: stat("expected") + stat("flaky"),
            failed: stat("unexpected"),
            ignored: stat("skipped"),
        };
        if !ok && count.failed == 0 {
            count.failed = 1;
        }
        Ok(count)
    }
}

/// Takes pictures of the page's main states, two of which the README shows. They need no engine.
pub fn screens(project: &Project) -> Result<()> {
    setup::npm(project)?;
    setup::test_tools()?;
    setup::picture_fonts()?;
    let site = project.target.join("site-page");
    site::build(project, &Recipe::quick(Engine::Left), &site)?;
    let mut tool = playwright(project, &site, &project.target.join("browser"))?;
    tool.args(["test", "--config", "tests/browser/screens.config.js"]);
    process::run(&mut tool)
}

/// Playwright with a server for the site and the models, and the browser to use.
fn playwright(project: &Project, site: &Path, results: &Path) -> Result<Command> {
    fs::create_dir_all(results)?;
    let models = project.cache.join("models");
    fs::create_dir_all(&models)?;
    let address = server::start(site, &models)?;
    let browser = setup::browser().context(NO_BROWSER)?;
    let mut command = process::command(project, "node");
    command
        .arg(project.npm("@playwright/test/cli.js"))
        .env("PLAYGROUND_URL", format!("http://{address}"))
        .env("PLAYGROUND_CHROMIUM", browser)
        .env("PLAYGROUND_MODELS", &models)
        .env("PLAYGROUND_RESULTS", results);
    Ok(command)
}

/// Lints of a package, or of the named targets or features of it, as compiled to WebAssembly.
fn clippy<'a>(package: &'a str, named: &[&'a str]) -> Vec<&'a str> {
    let clippy = [
        "clippy",
        "--quiet",
        "--target",
        setup::WASM,
        "--package",
        package,
    ];
    [&clippy, named, &["--", "-D", "warnings"]].concat()
}

/// Runs a test program, passes its output on, and reads its closing lines.
fn counted(command: &mut Command, closing: impl Fn(&str) -> Option<Count>) -> Result<Count> {
    let mut count = Count::default();
    let ok = process::lines(command, |line| {
        println!("{line}");
        if let Some(found) = closing(line) {
            count.add(found);
        }
    })?;
    if !ok && count.failed == 0 {
        count.failed = 1;
    }
    Ok(count)
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn closing(line: &str) -> Option<Count> {
    let mut numbers = line.strip_prefix("test result: ")?.split("; ").map(|part| {
        let mut words = part.rsplit(' ');
        let name = words.next()?;
        Some((name, words.next()?.parse::<u32>().ok()?))
    });
    let mut number = |wanted: &str| {
        numbers
            .next()?
            .filter(|(name, _)| *name == wanted)
            .map(|(_, number)| number)
    };
    Some(Count {
        passed: number("passed")?,
        failed: number("failed")?,
        ignored: number("ignored")?,
    })
}

/// Reads `3 passed, 0 failed`, with which the scripts of tests/wasm end.
fn script_closing(line: &str) -> Option<Count> {
    let (passed, failed) = line.strip_suffix(" failed")?.split_once(" passed, ")?;
    Some(Count {
        passed: passed.parse().ok()?,
        failed: failed.parse().ok()?,
        ignored: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let count = closing(line).unwrap();
        assert_eq!((count.passed, count.failed, count.ignored), (12, 3, 1));
        assert!(closing("running 3 tests").is_none());
        let count = script_closing("12 passed, 3 failed").unwrap();
        assert_eq!((count.passed, count.failed, count.ignored), (12, 3, 0));
        assert!(script_closing("bridge: 3/3").is_none());
    }

    #[test]
    fn no_crate_is_forgotten() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for entry in fs::read_dir(crates).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let group = LIGHT.iter().chain(&HEAVY).any(|known| *known == name);
            let step = Step::value_variants()
                .iter()
                .any(|step| step.name() == name);
            assert!(group && step, "nothing tests crates/{name}");
        }
    }
}
