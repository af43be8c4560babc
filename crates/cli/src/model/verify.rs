//! `playground verify`: whether a package of our shards is what its manifest says.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::Args;
use model::Plan;
use serde_json::json;
use sha2::{Digest, Sha256};
use weights::manifest::{self, Manifest, Shard};

use crate::progress::{Progress, bytes};
use crate::text;

#[derive(Args)]
pub struct Arguments {
    /// The folder with model.json.
    folder: PathBuf,
}

/// Reads a file and gives its size and SHA-256, telling of bytes as they are read.
pub fn digest_of(path: &Path, mut read: impl FnMut(u64)) -> std::io::Result<(u64, [u8; 32])> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok((size, hash.finalize().into()));
        }
        hash.update(&buffer[..count]);
        size += count as u64;
        read(count as u64);
    }
}

/// What is wrong with a file; `None` if nothing is.
fn fault(folder: &Path, expected: &Shard, read: impl FnMut(u64)) -> Option<String> {
    let path = folder.join(&expected.file);
    match std::fs::metadata(&path) {
        Err(error) => return Some(format!("cannot be read ({error})")),
        Ok(metadata) if metadata.len() != expected.bytes => {
            return Some(format!(
                "has {} bytes, expected {}",
                metadata.len(),
                expected.bytes
            ));
        }
        Ok(_) => {}
    }
    match digest_of(&path, read) {
        Err(error) => Some(format!("cannot be read ({error})")),
        Ok((_, found)) if found != expected.sha256 => {
            Some("is damaged: its bytes are not those that were written (SHA-256)".to_owned())
        }
        Ok(_) => None,
    }
}

/// Verifies and prints what was found; the exit code is 1 if anything is wrong.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder;
    let path = folder.join(manifest::FILE);
    let size = std::fs::metadata(&path).with_context(|| {
        format!(
            "{} cannot be read; is this a package of shards, and is it finished?",
            path.display()
        )
    })?;
    anyhow::ensure!(
        size.len() <= manifest::MAX_BYTES,
        "{} is too large to be a manifest",
        path.display()
    );
    let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let manifest = Manifest::parse(&text)?;
    Plan::from_manifest(&manifest)?;

    let files: Vec<&Shard> = manifest
        .shards
        .iter()
        .chain([&manifest.tokenizer])
        .collect();
    let total = files.iter().map(|file| file.bytes).sum();
    let progress = Mutex::new(Progress::new("Verifying", total));
    let add = |bytes| {
        if let Ok(mut progress) = progress.lock() {
            progress.add(bytes);
        }
    };
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(8) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(what) = fault(folder, file, add)
                        && let Ok(mut faults) = faults.lock()
                    {
                        faults.push((file.file.clone(), what));
                    }
                }
            });
        }
    });
    if let Ok(progress) = progress.into_inner() {
        progress.finish();
    }
    let mut faults = faults.into_inner().unwrap_or_default();
    faults.sort();
    for (file, what) in &faults {
        eprintln!("{}: {file} {what}", folder.display());
    }
    if faults.is_empty() {
        eprintln!("{} files with {} are sound.", files.len(), bytes(total));
    } else {
        eprintln!("Convert the model again, or fetch these files again.");
    }
    let faults: Vec<_> = faults
        .into_iter()
        .map(|(file, what)| json!({ "file": file, "fault": what }))
        .collect();
    let sound = faults.is_empty();
    let answer = json!({
        "name": manifest.name,
        "files": files.len(),
        "bytes": total,
        "sound": sound,
        "faults": faults,
    });
    text::print(&answer.to_string())?;
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
