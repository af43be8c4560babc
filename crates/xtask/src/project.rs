//! Where things are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The folders that the tasks work in.
pub struct Project {
    /// Root of the workspace.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Tools and test models, shared by all clones where the home folder allows it.
    pub cache: PathBuf,
}

impl Project {
    /// Asks cargo for the workspace that this program belongs to.
    pub fn find() -> Result<Self> {
        // Cargo sets the variable for `cargo run`; what was compiled in serves a program started by hand.
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let metadata = process::output(Command::new(cargo).current_dir(here).args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
        ]))?;
        let metadata: Value =
            serde_json::from_str(&metadata).context("reading cargo's metadata")?;
        let folder = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .with_context(|| format!("cargo's metadata lacks {key}"))
        };
        let root = folder("workspace_root")?;
        let cache = cache(&root);
        Ok(Self {
            target: folder("target_directory")?,
            root,
            cache,
        })
    }

    /// The version of a package in `Cargo.lock`.
    pub fn locked(&self, package: &str) -> Result<String> {
        let lock =
            std::fs::read_to_string(self.root.join("Cargo.lock")).context("reading Cargo.lock")?;
        let wanted = format!("name = \"{package}\"");
        let mut lines = lock.lines();
        lines.find(|line| *line == wanted);
        lines
            .next()
            .and_then(|line| line.strip_prefix("version = \""))
            .and_then(|line| line.strip_suffix('"'))
            .map(str::to_owned)
            .with_context(|| format!("Cargo.lock names no {package}"))
    }

    /// A folder or file that npm installed.
    pub fn npm(&self, path: &str) -> PathBuf {
        self.root.join("node_modules").join(path)
    }
}

fn cache(root: &Path) -> PathBuf {
    if let Some(chosen) = std::env::var_os("PLAYGROUND_CACHE").filter(|chosen| !chosen.is_empty()) {
        return chosen.into();
    }
    std::env::home_dir()
        .map(|home| home.join(".cache").join("agenticml-playground"))
        .filter(|shared| std::fs::create_dir_all(shared).is_ok())
        .unwrap_or_else(|| root.join(".tools"))
}
