//! The licences of what the site carries, as text files beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;
use crate::project::Project;
use crate::site::Engine;

const OWN: &str = "AgenticML Playground is licensed under MIT (LICENSE-MIT.txt) or Apache-2.0 (LICENSE-APACHE.txt), \
as you choose.\n\n\
llama-vocabulary.txt   the tokenizer's vocabulary (assets/llama3-*.tok)\n\
rust-crates.txt        the Rust crates compiled into the WebAssembly programs; the Rust standard library, also \
compiled in, is MIT OR Apache-2.0\n";

/// Writes our licences, the vocabulary's notice, and name, version, licence and licence texts of every
/// crate that is compiled into the site.
pub fn write(project: &Project, engine: Engine, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("README.txt"), OWN)?;
    fs::write(
        folder.join("llama-vocabulary.txt"),
        include_str!("../notices/llama-vocabulary.txt"),
    )?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = fs::read(project.root.join(name)).with_context(|| format!("reading {name}"))?;
        fs::write(folder.join(format!("{name}.txt")), text)?;
    }
    fs::write(folder.join("rust-crates.txt"), crates(project, engine)?)?;
    Ok(())
}

fn crates(project: &Project, engine: Engine) -> Result<String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let mut tree = process::cargo(project);
    tree.args([
        "tree",
        "--target",
        TARGET,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
    ]);
    tree.args(["--format", "{p}", "--package", "page"]);
    match engine {
        Engine::Included => {
            tree.args(["--package", "worker", "--features", "worker/gpu,worker/cpu"]);
        }
        Engine::Cpu => {
            tree.args(["--package", "worker", "--features", "worker/cpu"]);
        }
        Engine::Left => {}
    }
    // Lines such as `serde v1.0.228`, a path or `(*)` after it.
    let used = process::output(&mut tree)?
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((
                words.next()?.to_owned(),
                words.next()?.strip_prefix('v')?.to_owned(),
            ))
        })
        .collect::<BTreeSet<_>>();

    let metadata = process::output(process::cargo(project).args([
        "metadata",
        "--format-version",
        "1",
        "--filter-platform",
        TARGET,
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("reading cargo's metadata")?;
    let mut list = String::new();
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let field = |key: &str| package[key].as_str().unwrap_or_default();
        let title = format!("{} {}", field("name"), field("version"));
        // A package without a source is one of ours.
        let foreign = package["source"].is_string();
        if !foreign || !used.contains(&(field("name").to_owned(), field("version").to_owned())) {
            continue;
        }
        writeln!(
            list,
            "{title}: {} {}",
            field("license"),
            field("repository")
        )?;
        let home = Path::new(field("manifest_path"))
            .parent()
            .context("a manifest without a folder")?;
        for text in licence_texts(home)? {
            texts.entry(text).or_default().push(title.clone());
        }
    }
    let mut all = list;
    for (text, titles) in texts {
        writeln!(
            all,
            "\n{}\n{}\n\n{}",
            "=".repeat(80),
            titles.join(", "),
            text.trim_end()
        )?;
    }
    Ok(all)
}

/// The licence files at the top of a crate, each with plain line ends.
fn licence_texts(home: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(home).with_context(|| format!("reading {}", home.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let fits = [
            "LICENSE",
            "LICENCE",
            "COPYING",
            "COPYRIGHT",
            "NOTICE",
            "UNLICENSE",
        ]
        .iter()
        .any(|start| name.starts_with(start));
        if fits && entry.file_type()?.is_file() {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
