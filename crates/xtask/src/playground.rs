//! The program `playground`, which the tests and measurements use to make shards.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::project::Project;
use crate::suite::{HEAVY, HEAVY_FEATURES};
use crate::synthetic::{self, Kind, Size};

/// What the browser tests load besides the small real model: a scaled-down one in all its forms. Its shards
/// are small, so that it has several; those of half precision are larger than what is read at once.
pub fn test_models(project: &Project, folder: &Path) -> Result<()> {
    synthetic::model(folder, Size::Nano, Kind::F16)?;
    for (recipe, shard_mib) in [("q4", 1), ("f16", 3)] {
        shards(project, folder, Size::Nano, recipe, shard_mib)?;
    }
    Ok(())
}

/// A synthetic model as our shards of so many MiB in `folder`, converted by a recipe unless that was done
/// before.
pub fn shards(
    project: &Project,
    folder: &Path,
    size: Size,
    recipe: &str,
    shard_mib: u32,
) -> Result<PathBuf> {
    let source = synthetic::model(folder, size, Kind::Safetensors)?;
    let out = folder.join(format!("{}.{recipe}", size.shape().name));
    // It is written last.
    let manifest = out.join("model.json");
    let mut makers = vec![source.join("config.json")];
    // Cheap to convert again, and what is compared has to come from the same quantizer.
    if size == Size::Nano {
        makers.push(build(project)?);
    }
    if is_newest(&manifest, &makers) {
        return Ok(out);
    }
    // What was begun from the same source goes on.
    if manifest.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("removing {}", out.display()))?;
    }
    process::run(
        process::command(project, build(project)?)
            .arg("convert")
            .arg(&source)
            .args(["--quant", recipe, "--shard-size", &shard_mib.to_string()])
            .arg("--out")
            .arg(&out),
    )?;
    ensure!(
        manifest.is_file(),
        "the conversion wrote no {}",
        manifest.display()
    );
    Ok(out)
}

/// Whether a file is there and was written after all of these.
fn is_newest(file: &Path, others: &[PathBuf]) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let written_last = |other: &PathBuf| written(other) < written(file);
    file.is_file() && others.iter().all(written_last)
}

/// Builds the program, with the selection of packages and features that the tests use, so that burn is
/// compiled once.
fn build(project: &Project) -> Result<PathBuf> {
    let mut cargo = process::cargo(project);
    cargo.args(["build", "--quiet"]);
    cargo.args(HEAVY.iter().flat_map(|package| ["--package", package]));
    cargo.args(HEAVY_FEATURES);
    process::run(&mut cargo)?;
    let program = project
        .target
        .join("debug")
        .join(format!("playground{}", std::env::consts::EXE_SUFFIX));
    program
        .is_file()
        .then_some(program)
        .context("cargo built no program named playground")
}
