//! `playground merge-lora`: an adapter merged into the model that it was trained on.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use model::HfConfig;
use model::lora::{self, AdapterConfig, Merge, Merged, MergedTensor};
use serde_json::{Map, Value, json};
use weights::ByteSource;
use weights::safetensors::{Header, INDEX_FILE, Index, MAX_INDEX_BYTES, read_header};
use weights::source::{FileSource, Joined};

use crate::progress::{Progress, bytes};

/// Where the weights are when they are in one file.
const SINGLE_FILE: &str = "model.safetensors";
/// Bytes that are merged and written at once.
const STEP: u64 = 4 << 20;
/// Longest text that is read into memory to be changed, in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

#[derive(Args)]
pub struct Arguments {
    /// The model that the adapter was trained on: a folder with config.json and safetensors.
    base: PathBuf,
    /// The adapter: a folder with adapter_config.json and adapter_model.safetensors.
    adapter: PathBuf,
    /// The folder to write, of the same kind as the base model's; made if it is not there.
    #[arg(long)]
    out: PathBuf,
    /// Threads that merge; by default as many as there are processors.
    #[arg(long)]
    threads: Option<usize>,
}

/// Merges and gives a summary.
pub async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let (base, out) = (&arguments.base, &arguments.out);
    for folder in [base, &arguments.adapter] {
        ensure!(
            folder.is_dir(),
            "{} is no folder; base model and adapter are folders with safetensors (an adapter cannot be \
             merged into a GGUF file)",
            folder.display()
        );
    }
    let config_text = read_text(&base.join("config.json"))?;
    let tied = HfConfig::parse(&config_text)?.tied;
    let (header, source, files) = open_base(base).await?;
    let settings =
        AdapterConfig::parse(&read_text(&arguments.adapter.join("adapter_config.json"))?)?;
    let (adapter_header, adapter) = open_adapter(&arguments.adapter).await?;
    let merge = lora::merge(&settings, &adapter_header, &header, tied)?;

    fs::create_dir_all(out)
        .with_context(|| format!("the folder {} cannot be made", out.display()))?;
    ensure!(
        fs::canonicalize(out)? != fs::canonicalize(base)?,
        "--out is the base model's own folder; choose another one"
    );
    // Until it is written, the folder is no model.
    remove(&out.join("config.json"))?;
    copy_others(base, out, &files)?;

    let threads = arguments
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut merged = Merged::new(source, adapter, &merge, threads);
    let total = merged.size().unwrap_or_default();
    let mut progress = Progress::new("Merging", total);
    for file in files.names() {
        let tensors: Vec<&MergedTensor> = merge
            .tensors
            .iter()
            .filter(|tensor| files.of(&tensor.name) == file)
            .collect();
        write_file(&out.join(file), &tensors, &mut merged, &mut progress).await?;
    }
    if let Files::Several { .. } = &files {
        let index = index(&merge, &files);
        write_whole(&out.join(INDEX_FILE), index.to_string().as_bytes())?;
    }
    let config = if merge.unties {
        untied(&config_text)?
    } else {
        config_text
    };
    write_whole(&out.join("config.json"), &config)?;

    let (done, seconds) = progress.finish();
    let changed = merge
        .tensors
        .iter()
        .filter(|tensor| tensor.is_changed())
        .count();
    eprintln!(
        "{changed} of {} tensors were changed{}; {} in {seconds:.1} s, {:.0} MB/s.",
        merge.tensors.len(),
        if merge.unties {
            ", and the output matrix is not the embeddings any more"
        } else {
            ""
        },
        bytes(done),
        done as f64 / seconds.max(1e-3) / 1e6
    );
    Ok(json!({
        "folder": out,
        "tensors": merge.tensors.len(),
        "changed": changed,
        "adapter_tensors": adapter_header.tensors.len(),
        "unties": merge.unties,
        "bytes": total,
        "seconds": seconds,
    }))
}

/// The files that a model's tensors are in.
enum Files {
    One,
    Several { index: Index },
}

impl Files {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::One => vec![SINGLE_FILE],
            Self::Several { index } => index.files().iter().map(String::as_str).collect(),
        }
    }

    /// The file that holds a tensor; a new one is put into the last.
    fn of(&self, tensor: &str) -> &str {
        match self {
            Self::One => SINGLE_FILE,
            Self::Several { index } => {
                let last = index.files().last().map_or(SINGLE_FILE, String::as_str);
                index.file_of(tensor).unwrap_or(last)
            }
        }
    }
}

/// All tensors of the base model in one address space, and their files.
async fn open_base(folder: &Path) -> anyhow::Result<(Header, Joined<FileSource>, Files)> {
    let path = folder.join(INDEX_FILE);
    if path.exists() {
        let text = FileSource::open(&path)?.read_whole(MAX_INDEX_BYTES).await?;
        let index = Index::parse(&text).with_context(|| path.display().to_string())?;
        let (mut headers, mut sources) = (Vec::new(), Vec::new());
        for file in index.files() {
            ensure!(
                weights::source::folder::is_plain_name(file),
                "{} names {file:?}, which is no file beside it",
                path.display()
            );
            let mut source = FileSource::open(folder.join(file))?;
            let header = read_header(&mut source).await?;
            sources.push((source, header.end()));
            headers.push(header);
        }
        let header = index
            .join(&headers)
            .with_context(|| path.display().to_string())?;
        return Ok((
            header,
            Joined::with_sizes(sources)?,
            Files::Several { index },
        ));
    }
    let path = folder.join(SINGLE_FILE);
    let mut source = FileSource::open(&path).with_context(|| {
        format!(
            "{} has neither {SINGLE_FILE} nor {INDEX_FILE}",
            folder.display()
        )
    })?;
    let header = read_header(&mut source).await?;
    let size = header.end();
    Ok((
        header,
        Joined::with_sizes(vec![(source, size)])?,
        Files::One,
    ))
}

async fn open_adapter(folder: &Path) -> anyhow::Result<(Header, FileSource)> {
    let path = folder.join("adapter_model.safetensors");
    if !path.exists() && folder.join("adapter_model.bin").exists() {
        bail!(
            "{} has its weights as adapter_model.bin, which can hold programs and is not read; save the \
             adapter as safetensors",
            folder.display()
        );
    }
    let mut source = FileSource::open(&path)?;
    let header = read_header(&mut source).await?;
    Ok((header, source))
}

fn read_text(path: &Path) -> anyhow::Result<Vec<u8>> {
    let size = fs::metadata(path)
        .with_context(|| format!("{} cannot be read", path.display()))?
        .len();
    ensure!(size <= MAX_TEXT_BYTES, "{} is too large", path.display());
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Copies what belongs to the base model beside its weights: tokenizer, templates, licence.
fn copy_others(base: &Path, out: &Path, files: &Files) -> anyhow::Result<()> {
    let written = files.names();
    for entry in fs::read_dir(base).with_context(|| base.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(text) = name.to_str() else {
            continue;
        };
        // Weights in other forms would be the base model's and not the merged one's.
        let weights = [
            ".safetensors",
            ".bin",
            ".pt",
            ".pth",
            ".gguf",
            ".index.json",
            ".part",
        ];
        let is_weights = weights.iter().any(|end| text.ends_with(end));
        let hidden = text.starts_with('.');
        if is_weights
            || hidden
            || text == "config.json"
            || written.contains(&text)
            || !entry.path().is_file()
        {
            continue;
        }
        fs::copy(entry.path(), out.join(&name))
            .with_context(|| format!("{text} cannot be copied to {}", out.display()))?;
    }
    Ok(())
}

/// The header of a safetensors file of these tensors, its length in front.
fn header_of(tensors: &[&MergedTensor]) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut end = 0;
    for tensor in tensors {
        let start = end;
        end += tensor.bytes;
        header.insert(
            tensor.name.clone(),
            json!({
                "dtype": tensor.dtype.to_string(),
                "shape": tensor.shape,
                "data_offsets": [start, end],
            }),
        );
    }
    let mut text = Value::Object(header).to_string();
    // Data begins at a multiple of eight, as the format's own library has it.
    text += &" ".repeat(text.len().next_multiple_of(8) - text.len());
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// Writes a file, under its name only when it is whole.
async fn write_file(
    path: &Path,
    tensors: &[&MergedTensor],
    merged: &mut impl ByteSource,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let failed = || format!("{} cannot be written", path.display());
    let part = part_of(path);
    let mut out = BufWriter::new(File::create(&part).with_context(failed)?);
    out.write_all(&header_of(tensors)).with_context(failed)?;
    let mut buffer = Vec::new();
    for tensor in tensors {
        for at in (0..tensor.bytes).step_by(STEP as usize) {
            let len = STEP.min(tensor.bytes - at);
            buffer.clear();
            merged
                .read(tensor.offset + at, &mut buffer, len as usize)
                .await?;
            out.write_all(&buffer).with_context(failed)?;
            progress.add(len);
        }
    }
    out.flush().with_context(failed)?;
    drop(out);
    fs::rename(&part, path).with_context(failed)
}

fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let part = part_of(path);
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// The index of several files.
fn index(merge: &Merge, files: &Files) -> Value {
    let places: Map<String, Value> = merge
        .tensors
        .iter()
        .map(|tensor| (tensor.name.clone(), json!(files.of(&tensor.name))))
        .collect();
    let total: u64 = merge.tensors.iter().map(|tensor| tensor.bytes).sum();
    json!({ "metadata": { "total_size": total }, "weight_map": places })
}

/// A `config.json` that says that the output matrix is one of its own.
fn untied(config: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut config: Map<String, Value> = serde_json::from_slice(config)?;
    config.insert("tie_word_embeddings".to_owned(), Value::Bool(false));
    let mut text = serde_json::to_string_pretty(&config)?;
    text.push('\n');
    Ok(text.into_bytes())
}
