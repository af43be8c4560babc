//! The program `playground`, which the tests and measurements use to make shards.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::project::Project;
use crate::suite::{HEAVY, HEAVY_FEATURES};
use crate::synthetic::{self, Kind, Size};

/// MiB of a shard of the scaled-down model, so that it has several.
const SMALL_SHARD: &str = "1";

/// What the browser tests load besides the small real model: a scaled-down one in all its forms.
pub fn test_models(project: &Project, folder: &Path) -> Result<()> {
    synthetic::model(folder, Size::Nano, Kind::F16)?;
    for recipe in ["q4", "f16"] {
        shards(project, folder, Size::Nano, recipe)?;
    }
    Ok(())
}

/// A synthetic model as our shards in `folder`, converted by a recipe unless that was done before.
pub fn shards(project: &Project, folder: &Path, size: Size, recipe: &str) -> Result<PathBuf> {
    let out = folder.join(format!("{}.{recipe}", size.shape().name));
    // It is written last.
    if out.join("model.json").is_file() {
        return Ok(out);
    }
    let source = synthetic::model(folder, size, Kind::Safetensors)?;
    let mut convert = process::command(project, build(project)?);
    convert.arg("convert").arg(&source);
    convert.args(["--quant", recipe, "--out"]).arg(&out);
    if size == Size::Nano {
        convert.args(["--shard-size", SMALL_SHARD]);
    }
    process::run(&mut convert)?;
    ensure!(
        out.join("model.json").is_file(),
        "the conversion wrote no model.json into {}",
        out.display()
    );
    Ok(out)
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
