//! `playground convert`: a model as a package of our shards.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use model::Plan;
use model::convert::{Converted, Recipe, resolve, target};
use model::package::{Package, TokenizerFile};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weights::manifest::{self, Manifest, Shard};
use weights::{ByteSource, digest, gguf};

use self::journal::Journal;
use super::open::{Source, open};
use crate::progress::{Progress, bytes};

mod journal;

/// Bytes that are converted and handed to the writer at once.
const STEP: u64 = 4 << 20;
/// Such steps that may wait for the writer.
const WAITING: usize = 4;

#[derive(Args)]
pub struct Arguments {
    /// A GGUF file, a folder with config.json and safetensors, or a folder of our shards.
    source: PathBuf,
    /// How to quantize: q4 (Q4_0, output Q6_K), q4k (Q4_K, output Q6_K), q6 (Q6_K), q8 (Q8_0), f16, bf16.
    #[arg(long, value_parser = recipes())]
    quant: Recipe,
    /// The folder to write; made if it is not there. An unfinished conversion in it goes on.
    #[arg(long)]
    out: PathBuf,
    /// Size of a shard in MiB.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=64))]
    shard_size: u64,
    /// Threads that quantize; by default as many as there are processors.
    #[arg(long)]
    threads: Option<usize>,
}

fn recipes() -> impl TypedValueParser<Value = Recipe> {
    PossibleValuesParser::new(Recipe::ALL.map(Recipe::name))
        .try_map(|name| Recipe::from_name(&name).ok_or("no such recipe"))
}

/// The name of a shard, counted from 0.
fn shard_name(index: usize) -> String {
    format!("shard-{:05}.bin", index + 1)
}

/// Converts and gives a summary.
pub async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let (package, mut source) = open(&arguments.source).await?;
    let plan = resolve(&mut source, &package.plan).await?;
    let target = target(&plan, arguments.quant);
    let source_bytes = plan.tensor_bytes();
    let shard_bytes = arguments.shard_size << 20;
    let total = target.tensor_bytes();

    let (tokenizer, tokenizer_bytes) = tokenizer_file(&package);
    let draft = draft(&package, &target, arguments.quant, tokenizer);
    let out = Folder::new(&arguments.out)?;
    if arguments.source.is_dir()
        && fs::canonicalize(&arguments.source)? == fs::canonicalize(&arguments.out)?
    {
        bail!("--out is the source's own folder; choose another one");
    }
    let identity = identity(&draft, shard_bytes, &source)?;
    let mut journal = out.journal(&identity)?;

    let sizes = (0..total.div_ceil(shard_bytes))
        .map(|index| shard_bytes.min(total - index * shard_bytes))
        .collect::<Vec<_>>();
    let mut shards = out.kept(&journal, &sizes)?;
    let kept = shards.iter().flatten().count();
    if kept > 0 {
        eprintln!(
            "{kept} of {} shards are there and sound; going on.",
            sizes.len()
        );
    }
    out.write(&draft.tokenizer.file, &tokenizer_bytes)?;
    drop(tokenizer_bytes);

    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut converted = Converted::new(source, &plan, &target, threads)?;
    let mut progress = Progress::new("Converting", total);
    progress.skip(shards.iter().flatten().map(|shard| shard.bytes).sum());
    let missing: Vec<usize> = (0..sizes.len()).filter(|i| shards[*i].is_none()).collect();
    let written = std::thread::scope(|scope| {
        let (send, receive) = sync_channel(WAITING);
        let writer = scope.spawn(|| out.write_shards(receive, &mut journal));
        let sent = pollster::block_on(async {
            for index in missing {
                let start = index as u64 * shard_bytes;
                let end = start + sizes[index];
                for at in (start..end).step_by(STEP as usize) {
                    let len = STEP.min(end - at);
                    let mut bytes = Vec::new();
                    converted.read(at, &mut bytes, len as usize).await?;
                    let last = at + len == end;
                    // The writer is gone when it failed; it tells why.
                    if send.send(Step { index, bytes, last }).is_err() {
                        return Ok(());
                    }
                    progress.add(len);
                }
            }
            anyhow::Ok(())
        });
        drop(send);
        let written = match writer.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // What was finished stays finished whatever failed then.
        sent.and(written)
    });
    let (done, seconds) = progress.finish();
    for (index, shard) in written? {
        shards[index] = Some(shard);
    }

    let manifest = Manifest {
        shards: shards.into_iter().flatten().collect(),
        ..draft
    };
    // What is written can be read.
    let read = Plan::from_manifest(&manifest)?;
    if read != target {
        bail!("the manifest does not say what was converted; this is a fault of this program");
    }
    out.write(manifest::FILE, manifest.to_json()?.as_bytes())?;
    journal.remove()?;

    let rate = |bytes: f64| bytes / seconds.max(1e-3) / 1e6;
    let share = done as f64 / total.max(1) as f64;
    eprintln!(
        "{} of weights became {} in {} shards; {seconds:.1} s, {:.0} MB/s read, {:.0} MB/s written.",
        bytes(source_bytes),
        bytes(total),
        sizes.len(),
        rate(source_bytes as f64 * share),
        rate(done as f64),
    );
    Ok(json!({
        "folder": arguments.out,
        "name": manifest.name,
        "recipe": manifest.recipe,
        "tensors": manifest.tensors.len(),
        "source_bytes": source_bytes,
        "bytes": total,
        "shards": sizes.len(),
        "kept_shards": kept,
        "seconds": seconds,
        "read_mb_per_second": rate(source_bytes as f64 * share),
    }))
}

/// The tokenizer as a file of the package, and its bytes.
fn tokenizer_file(package: &Package) -> (Shard, Vec<u8>) {
    let (file, bytes) = match &package.tokenizer {
        TokenizerFile::Json(bytes) => ("tokenizer.json", bytes.clone()),
        TokenizerFile::Gguf(parts) => ("tokenizer.gguf", gguf::write_vocabulary(parts)),
    };
    let file = Shard {
        file: file.to_owned(),
        bytes: bytes.len() as u64,
        sha256: digest::sha256(&bytes),
    };
    (file, bytes)
}

/// The manifest without shards.
fn draft(package: &Package, target: &Plan, recipe: Recipe, tokenizer: Shard) -> Manifest {
    Manifest {
        format: manifest::FORMAT.to_owned(),
        version: manifest::VERSION,
        name: package.name.clone(),
        licence: package.licence.clone(),
        recipe: recipe.name().to_owned(),
        config: target.config.to_json(),
        tensors: target.entries(),
        shards: Vec::new(),
        tokenizer,
        template: package.template.clone(),
        special: package.special.clone(),
    }
}

/// What a conversion is of: one that was broken off goes on only where this is the same.
fn identity(draft: &Manifest, shard_bytes: u64, source: &Source) -> anyhow::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(draft)?);
    hash.update(shard_bytes.to_le_bytes());
    for file in source.files() {
        let path = file.name();
        let metadata = fs::metadata(&path).with_context(|| path.clone())?;
        let since = metadata
            .modified()?
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        hash.update(path.as_bytes());
        hash.update([0]);
        hash.update(metadata.len().to_le_bytes());
        hash.update(since.as_nanos().to_le_bytes());
    }
    Ok(hash.finalize().into())
}

/// Consecutive bytes of a shard.
struct Step {
    index: usize,
    bytes: Vec<u8>,
    last: bool,
}

/// The folder that is written.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path)
            .with_context(|| format!("the folder {} cannot be made", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// The record of finished shards. A manifest beside it is of no use any more and removed; one
    /// without it belongs to a finished package.
    fn journal(&self, identity: &[u8; 32]) -> anyhow::Result<Journal> {
        let path = self.path.join("conversion.journal");
        let manifest = self.path.join(manifest::FILE);
        if !path.exists() && manifest.exists() {
            bail!(
                "{} holds a finished package; delete it, or choose another folder",
                self.path.display()
            );
        }
        let journal = Journal::open(path, identity)?.ok_or_else(|| {
            anyhow!(
                "{} holds an unfinished conversion of another source or with other options; delete it, \
                 or choose another folder",
                self.path.display()
            )
        })?;
        if manifest.exists() {
            fs::remove_file(&manifest).with_context(|| manifest.display().to_string())?;
        }
        Ok(journal)
    }

    /// The finished shards that are as they were written, by index.
    fn kept(&self, journal: &Journal, sizes: &[u64]) -> anyhow::Result<Vec<Option<Shard>>> {
        let mut shards = vec![None; sizes.len()];
        let total = journal.entries().iter().map(|entry| entry.bytes).sum();
        let mut progress = Progress::new("Verifying", total);
        for entry in journal.entries() {
            let Some(place) = shards.get_mut(entry.index) else {
                continue;
            };
            let file = shard_name(entry.index);
            let found =
                super::verify::digest_of(&self.path.join(&file), |bytes| progress.add(bytes));
            // A file that is missing or cannot be read is written again.
            let same = found.is_ok_and(|found| found == (entry.bytes, entry.sha256));
            if same && sizes[entry.index] == entry.bytes {
                *place = Some(Shard {
                    file,
                    bytes: entry.bytes,
                    sha256: entry.sha256,
                });
            }
        }
        progress.finish();
        Ok(shards)
    }

    /// Writes a small file, under its name only when it is whole.
    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let part = self.path.join(format!("{name}.part"));
        fs::write(&part, bytes)
            .and_then(|()| fs::rename(&part, &path))
            .with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Writes what arrives; a shard has its name only when it is whole.
    fn write_shards(
        &self,
        receive: Receiver<Step>,
        journal: &mut Journal,
    ) -> anyhow::Result<Vec<(usize, Shard)>> {
        let mut shards = Vec::new();
        let mut current: Option<(File, Sha256, u64)> = None;
        for step in receive {
            let file = shard_name(step.index);
            let (path, part) = (
                self.path.join(&file),
                self.path.join(format!("{file}.part")),
            );
            let failed = || format!("{} cannot be written", path.display());
            let (mut out, mut hash, written) = match current.take() {
                Some(current) => current,
                None => (File::create(&part).with_context(failed)?, Sha256::new(), 0),
            };
            out.write_all(&step.bytes).with_context(failed)?;
            hash.update(&step.bytes);
            let written = written + step.bytes.len() as u64;
            if !step.last {
                current = Some((out, hash, written));
                continue;
            }
            drop(out);
            fs::rename(&part, &path).with_context(failed)?;
            let shard = Shard {
                file,
                bytes: written,
                sha256: hash.finalize().into(),
            };
            journal.add(step.index, &shard)?;
            shards.push((step.index, shard));
        }
        Ok(shards)
    }
}
