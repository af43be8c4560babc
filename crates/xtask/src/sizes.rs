//! Compressed copies and the size table of `dist`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;
use crate::project::Project;
use crate::site::Part;

/// Compresses each named file to `<file>.br` with Node's brotli, several at a time. A module that an engine
/// refuses is an error; Node.js 20 cannot judge those with relaxed vectors, which the first test finds out.
const COMPRESS: &str = "
import { readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { brotliCompress, constants as c } from 'node:zlib';
const compress = promisify(brotliCompress);
// A product of relaxed vectors, as in web/worker/worker.js.
const relaxed = '0061736d010000000107016002' + '7b7b017b' + '03020100' + '0a0b0109' + '0020002001fd92020b';
const judges = WebAssembly.validate(Buffer.from(relaxed, 'hex'));
await Promise.all(process.argv.slice(1).map(async (file) => {
  const data = readFileSync(file);
  const judged = file.endsWith('.wasm') && (judges || !file.includes('relaxed'));
  if (judged && !WebAssembly.validate(data)) throw new Error(file + ' is not valid WebAssembly');
  const params = { [c.BROTLI_PARAM_QUALITY]: 11, [c.BROTLI_PARAM_LGWIN]: 24, [c.BROTLI_PARAM_SIZE_HINT]: data.length };
  writeFileSync(file + '.br', await compress(data, { params }));
}));
";

/// What a host should send compressed. Model files are not among them: ranges of compressed copies are a trap.
const COMPRESSIBLE: [&str; 8] = ["css", "html", "js", "json", "svg", "tok", "txt", "wasm"];

/// Writes a brotli copy beside every file that gains from it.
pub fn compress(project: &Project, site: &Path) -> Result<()> {
    let mut files = Vec::new();
    collect(site, &mut files)?;
    process::output(
        process::command(project, "node")
            .args(["--input-type=module", "--eval", COMPRESS, "--"])
            .args(files),
    )?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|kind| COMPRESSIBLE.iter().any(|known| kind == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Prints the size of each part, raw and brotli.
pub fn print(site: &Path, parts: &[Part]) -> Result<()> {
    let size = |file: &str| {
        fs::metadata(site.join(file))
            .map(|data| data.len())
            .with_context(|| format!("no size of {file}"))
    };
    println!("\n{:<20}{:>12}{:>12}", "part", "raw kB", "brotli kB");
    let (mut raw, mut packed) = (0, 0);
    for part in parts {
        let (one, other) = (size(&part.file)?, size(&format!("{}.br", part.file))?);
        println!(
            "{:<20}{:>12}{:>12}",
            part.name,
            kilobytes(one),
            kilobytes(other)
        );
        raw += one;
        packed += other;
    }
    println!(
        "{:<20}{:>12}{:>12}",
        "together",
        kilobytes(raw),
        kilobytes(packed)
    );
    println!("\nThe site is in {}.", site.display());
    Ok(())
}

fn kilobytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1000, bytes % 1000 / 100)
}
