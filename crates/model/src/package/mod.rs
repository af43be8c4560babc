//! A model with all that belongs to it, from any kind of files: a GGUF file, a folder as Hugging Face
//! has them, or a package of our shards.

use weights::gguf::{self, Gguf, TokenizerParts};
use weights::manifest::{self, Manifest};
use weights::pieces::Piece;
use weights::safetensors;
use weights::source::Joined;
use weights::source::folder::{Folder, Within, read_small};
use weights::{ByteSource, MemorySource, digest};

use crate::plan::{LoadError, Plan};

mod folder;
mod licence;
mod texts;

pub use weights::manifest::{Licence, Special};

/// Longest `tokenizer.json`, in bytes. That of Llama 3 takes 17 MB.
pub const MAX_TOKENIZER_BYTES: u64 = manifest::MAX_TOKENIZER_BYTES;

/// Longest name of a model that is taken from its file, in characters.
const MAX_NAME: usize = 200;

/// What kind of files a model comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One GGUF file.
    Gguf,
    /// `config.json`, safetensors files and `tokenizer.json`, as Hugging Face has them.
    Safetensors,
    /// `model.json` and shards, as `playground convert` makes them.
    Shards,
}

/// What a tokenizer is made from.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenizerFile {
    /// The metadata of a GGUF file.
    Gguf(Box<TokenizerParts>),
    /// The bytes of a `tokenizer.json`.
    Json(Vec<u8>),
}

/// A model and what belongs to it.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The kind of its files.
    pub kind: Kind,
    /// Its licence, where the files tell it.
    pub licence: Option<Licence>,
    /// Its shape, and where its tensors are in the address space of the source that [`open`] returns.
    pub plan: Plan,
    /// What its tokenizer is made from.
    pub tokenizer: TokenizerFile,
    /// Its chat template (Jinja).
    pub template: Option<String>,
    /// Tokens with a task, as the files beside the weights tell them. Empty for a GGUF file: there the
    /// tokenizer's parts tell them.
    pub special: Special,
    /// Number of weights, shared ones counted once.
    pub parameters: u64,
    /// How many tensors are of each type, the most frequent first.
    pub types: Vec<(String, u32)>,
    /// How the weights are quantized: llama.cpp's name such as `Q4_K_M`, the recipe of shards, else the
    /// most frequent type.
    pub quantization: String,
    /// For shards: their sizes and hashes, in order.
    pub pieces: Option<Vec<Piece>>,
}

/// Opens the package in `folder`: `main` names its main file (`x.gguf`, `model.json`, `config.json` or
/// a safetensors file), or a folder inside; without, the package is looked for.
///
/// Reads headers and small files. No tensor is read, and no shard asked for.
///
/// # Errors
/// [`LoadError`]: of a source, or because something is missing, unknown, damaged or contradictory; the
/// message names the file.
pub async fn open<F: Folder>(
    folder: &F,
    main: Option<&str>,
) -> Result<(Package, Joined<F::Source>), LoadError> {
    let (kind, main) = match main {
        Some(main) => match folder_inside(folder, main) {
            Some(path) => {
                let (kind, name) = find(&Within::at(folder, &path)).await?;
                (kind, format!("{path}{name}"))
            }
            None => (kind_of(main)?, main.to_owned()),
        },
        None => find(folder).await?,
    };
    // What belongs to it is beside it.
    let (folder, main) = Within::of(folder, &main);
    match kind {
        Kind::Gguf => open_gguf(folder.open(main).await?).await,
        Kind::Safetensors => folder::open(&folder, main).await,
        Kind::Shards => open_shards(&folder, main).await,
    }
}

/// The path of a folder inside another, with a slash at its end, where it is known to be one.
fn folder_inside<F: Folder>(folder: &F, main: &str) -> Option<String> {
    let path = format!("{}/", main.trim_end_matches('/'));
    let names = folder.names()?;
    names
        .iter()
        .any(|name| name.starts_with(&path))
        .then_some(path)
}

/// The kind of package that a main file belongs to.
fn kind_of(main: &str) -> Result<Kind, LoadError> {
    let lower = main.to_ascii_lowercase();
    if lower.ends_with(".gguf") {
        return Ok(Kind::Gguf);
    }
    let name = main.rsplit('/').next().unwrap_or(main);
    if name == "config.json" || name == safetensors::INDEX_FILE || lower.ends_with(".safetensors") {
        return Ok(Kind::Safetensors);
    }
    if lower.ends_with(".json") {
        return Ok(Kind::Shards);
    }
    let main: String = main.chars().take(80).collect();
    Err(LoadError::Unsupported(format!(
        "{main} is no model file that is known here; choose a .gguf file, a folder with config.json and \
         .safetensors files, or the model.json of a package of shards"
    )))
}

/// Looks for a package.
async fn find<F: Folder>(folder: &F) -> Result<(Kind, String), LoadError> {
    let nothing = |what: &str| {
        LoadError::Inconsistent(format!(
            "{}: {what}; a model is a .gguf file, a folder with config.json, .safetensors files and \
             tokenizer.json, or a package of shards with its model.json",
            folder.name()
        ))
    };
    let Some(names) = folder.names() else {
        // A web address: ask.
        for (kind, main) in [
            (Kind::Shards, manifest::FILE),
            (Kind::Safetensors, "config.json"),
        ] {
            let mut file = folder.open(main).await?;
            let found = file.read(0, &mut Vec::new(), 1).await;
            file.rest();
            match found {
                Ok(()) => return Ok((kind, main.to_owned())),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.into()),
            }
        }
        return Err(nothing(
            "neither model.json nor config.json is at this address",
        ));
    };
    let has = |name: &str| names.iter().any(|known| known == name);
    let ending = |ending: &'static str| {
        let names = names.iter();
        names.filter(move |name| name.to_ascii_lowercase().ends_with(ending))
    };
    if has(manifest::FILE) {
        return Ok((Kind::Shards, manifest::FILE.to_owned()));
    }
    let tensors = ending(".safetensors").next().is_some();
    if has("config.json") && tensors {
        return Ok((Kind::Safetensors, "config.json".to_owned()));
    }
    if has("adapter_config.json") {
        return Err(LoadError::Unsupported(format!(
            "{}: this is a LoRA adapter and not a whole model; merge it into its base model first \
             (playground merge-lora BASE ADAPTER --out DIR)",
            folder.name()
        )));
    }
    let ggufs: Vec<&String> = ending(".gguf").collect();
    match ggufs[..] {
        [one] => Ok((Kind::Gguf, one.clone())),
        [] if tensors => Err(nothing("there are .safetensors files, but no config.json")),
        [] if has("config.json") => Err(nothing("there is config.json, but no .safetensors file")),
        [] => Err(nothing("there is no model here")),
        _ => {
            let shown: Vec<&str> = ggufs.iter().take(12).map(|name| name.as_str()).collect();
            Err(LoadError::Inconsistent(format!(
                "{}: there are {} GGUF files; choose one of them: {}{}",
                folder.name(),
                ggufs.len(),
                shown.join(", "),
                if ggufs.len() > shown.len() {
                    ", …"
                } else {
                    ""
                }
            )))
        }
    }
}

/// Opens the package that is one GGUF file.
///
/// # Errors
/// As of [`open`].
pub async fn open_gguf<S: ByteSource>(mut source: S) -> Result<(Package, Joined<S>), LoadError> {
    let header = gguf::read_header(&mut source).await?;
    refuse_split(&header)?;
    let plan = Plan::from_gguf(&header)?;
    let tokenizer = header.tokenizer_parts()?;
    let text = |key: &str| header.get(key).and_then(gguf::MetaValue::as_str);
    let name = match text("general.name").filter(|name| !name.trim().is_empty()) {
        Some(name) => name.chars().take(MAX_NAME).collect(),
        None => last_part(&source.name()).to_owned(),
    };
    check_vocabulary(tokenizer.tokens.len(), &plan)?;
    let package = Package {
        name,
        kind: Kind::Gguf,
        quantization: match file_type(&header)? {
            Some(name) => name.to_owned(),
            None => commonest(&plan.types()),
        },
        licence: licence::of_gguf(&header),
        template: tokenizer.chat_template.clone(),
        tokenizer: TokenizerFile::Gguf(Box::new(tokenizer)),
        special: Special::default(),
        parameters: plan.parameters(),
        types: plan.types(),
        pieces: None,
        plan,
    };
    Ok((package, Joined::one(source)))
}

/// llama.cpp's name for the mix of types that `general.file_type` tells.
fn file_type(header: &Gguf) -> Result<Option<&'static str>, LoadError> {
    Ok(match header.optional_u64("general.file_type")? {
        Some(0) => Some("F32"),
        Some(1) => Some("F16"),
        Some(2) => Some("Q4_0"),
        Some(3) => Some("Q4_1"),
        Some(7) => Some("Q8_0"),
        Some(8) => Some("Q5_0"),
        Some(9) => Some("Q5_1"),
        Some(10) => Some("Q2_K"),
        Some(11) => Some("Q3_K_S"),
        Some(12) => Some("Q3_K_M"),
        Some(13) => Some("Q3_K_L"),
        Some(14) => Some("Q4_K_S"),
        Some(15) => Some("Q4_K_M"),
        Some(16) => Some("Q5_K_S"),
        Some(17) => Some("Q5_K_M"),
        Some(18) => Some("Q6_K"),
        Some(32) => Some("BF16"),
        _ => None,
    })
}

/// The most frequent type, which is never that of the vectors where there is another.
fn commonest(types: &[(String, u32)]) -> String {
    let matrices = types.iter().find(|(kind, _)| kind != "F32");
    matrices
        .or(types.first())
        .map_or_else(String::new, |(kind, _)| kind.clone())
}

/// A model in several GGUF files has only a part of its tensors in each.
fn refuse_split(header: &Gguf) -> Result<(), LoadError> {
    let parts = header.optional_u64("split.count")?.unwrap_or(0);
    if parts > 1 {
        return Err(LoadError::Unsupported(format!(
            "this file is one of {parts} parts of a model; join them first (llama-gguf-split --merge), or \
             take a file that is whole"
        )));
    }
    Ok(())
}

fn check_vocabulary(tokens: usize, plan: &Plan) -> Result<(), LoadError> {
    if tokens <= plan.config.vocab {
        return Ok(());
    }
    Err(LoadError::Inconsistent(format!(
        "the tokenizer has {tokens} entries, but the embedding table only {}",
        plan.config.vocab
    )))
}

/// The last part of a path or an address.
fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches(['/', '\\']);
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Opens a package of our shards.
async fn open_shards<F: Folder>(
    folder: &F,
    main: &str,
) -> Result<(Package, Joined<F::Source>), LoadError> {
    let mut file = folder.open(main).await?;
    let text = file.read_whole(manifest::MAX_BYTES).await?;
    let manifest = Manifest::parse(&text)?;
    let plan = Plan::from_manifest(&manifest)?;
    let tokenizer = read_tokenizer(folder, &manifest).await?;
    if let TokenizerFile::Gguf(parts) = &tokenizer {
        check_vocabulary(parts.tokens.len(), &plan)?;
    }
    folder::check_special(&manifest.special, &plan, manifest::FILE)?;
    let mut sources = Vec::with_capacity(manifest.shards.len());
    for shard in &manifest.shards {
        let source = folder.open(&shard.file).await?;
        if let Some(size) = source.size()
            && size != shard.bytes
        {
            return Err(LoadError::Inconsistent(format!(
                "{} has {size} bytes, but model.json says {}; fetch it again",
                source.name(),
                shard.bytes
            )));
        }
        sources.push((source, shard.bytes));
    }
    let pieces = manifest.shards.into_iter().map(|shard| Piece {
        file: shard.file,
        bytes: shard.bytes,
        sha256: Some(shard.sha256),
    });
    let package = Package {
        name: manifest.name,
        kind: Kind::Shards,
        quantization: manifest.recipe,
        licence: manifest.licence,
        tokenizer,
        template: manifest.template,
        special: manifest.special,
        parameters: plan.parameters(),
        types: plan.types(),
        pieces: Some(pieces.collect()),
        plan,
    };
    Ok((package, Joined::with_sizes(sources)?))
}

/// Reads the tokenizer of a package of shards and checks its hash.
async fn read_tokenizer<F: Folder>(
    folder: &F,
    manifest: &Manifest,
) -> Result<TokenizerFile, LoadError> {
    let file = &manifest.tokenizer;
    let wrong =
        |what: String| LoadError::Inconsistent(format!("{}/{}: {what}", folder.name(), file.file));
    let bytes = read_small(folder, &file.file, MAX_TOKENIZER_BYTES)
        .await?
        .ok_or_else(|| wrong("the tokenizer is missing".to_owned()))?;
    if bytes.len() as u64 != file.bytes || digest::sha256(&bytes) != file.sha256 {
        return Err(wrong(format!(
            "it is not the file that model.json names ({} bytes, expected {}, or another content); fetch \
             it again",
            bytes.len(),
            file.bytes
        )));
    }
    if file.file.ends_with(".json") {
        return Ok(TokenizerFile::Json(bytes));
    }
    let header = gguf::read_header(&mut MemorySource::new(file.file.as_str(), bytes)).await?;
    Ok(TokenizerFile::Gguf(Box::new(header.tokenizer_parts()?)))
}
