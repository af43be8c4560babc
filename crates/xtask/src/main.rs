//! Builds, serves and tests the playground: `cargo xtask setup | serve | dist | test | bench | synthetic | screens`.

mod bench;
mod licences;
mod playground;
mod process;
mod project;
mod server;
mod setup;
mod site;
mod sizes;
mod suite;
mod synthetic;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use project::Project;
use site::{Engine, Recipe};

#[derive(Parser)]
#[command(name = "cargo xtask", about, version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing: wasm target, wasm-bindgen, npm packages; with --tests also browser and model
    Setup {
        /// Also what only the tests need: Chromium, Vulkan drivers and the small model
        #[arg(long)]
        tests: bool,
    },
    /// Build the site and serve it on this machine
    Serve {
        /// Port on 127.0.0.1; 0 takes a free one. Without it: 8000, or a free one when that is taken
        #[arg(long)]
        port: Option<u16>,
        /// A folder of model files, listed and served at /models/
        #[arg(long, value_name = "DIR")]
        models: Option<PathBuf>,
        /// Leave the engines out: quick when working on the page alone; models cannot run then
        #[arg(long)]
        without_engine: bool,
        /// Leave out the engine for the GPU, which takes long to build; models run on the CPU then
        #[arg(long)]
        without_gpu: bool,
    },
    /// Write the static site to dist/, optimised and compressed, and print its sizes
    Dist {
        /// Leave the engines out
        #[arg(long)]
        without_engine: bool,
    },
    /// Run everything that CI runs, cheap steps first
    Test {
        /// Only these steps (comma separated or repeated)
        #[arg(long, value_name = "STEP", value_delimiter = ',')]
        only: Vec<suite::Step>,
        /// Passed on to the test programs (Playwright's own options for the browser steps)
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// Measure the engines in Chromium beside wllama, on the same models in one interleaved run
    Bench(bench::Options),
    /// Write a model of random weights in the shape of a published one
    Synthetic(synthetic::Options),
    /// Take pictures of the page's main states: tests/screens/*.png
    Screens,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let project = Project::find()?;
    match task {
        Task::Setup { tests } => {
            setup::build_tools(&project)?;
            if tests {
                setup::test_tools()?;
                setup::model(&project)?;
            }
            println!("Everything is in place.");
            Ok(())
        }
        Task::Serve {
            port,
            models,
            without_engine,
            without_gpu,
        } => {
            let site = project.target.join("site");
            site::build(
                &project,
                &Recipe::quick(Engine::unless(without_engine, without_gpu)),
                &site,
            )?;
            let listener = server::listen(Ipv4Addr::LOCALHOST, port)?;
            println!(
                "\nOpen http://{}/  (Ctrl+C ends it)",
                listener.local_addr()?
            );
            server::run(listener, &site, models.as_deref())
        }
        Task::Dist { without_engine } => {
            let site = project.root.join("dist");
            let built = site::build(
                &project,
                &Recipe::best(Engine::unless(without_engine, false)),
                &site,
            )?;
            sizes::print(&site, &built)
        }
        Task::Test { only, rest } => suite::run(&project, &only, &rest),
        Task::Bench(options) => bench::run(&project, &options),
        Task::Synthetic(options) => synthetic::run(&options),
        Task::Screens => suite::screens(&project),
    }
}
