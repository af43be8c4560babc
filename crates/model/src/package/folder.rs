//! A folder as Hugging Face has them.

use weights::safetensors::{self, HeaderError, INDEX_FILE, Index, MAX_INDEX_BYTES};
use weights::source::Joined;
use weights::source::folder::{Folder, read_small};
use weights::{ByteSource, SourceError};

use super::{
    Kind, LoadError, MAX_TOKENIZER_BYTES, Package, Plan, Special, TokenizerFile, last_part,
    licence, texts,
};
use crate::hf::{HfConfig, MAX_CONFIG_BYTES};

/// Where the weights are when they are in one file.
const SINGLE_FILE: &str = "model.safetensors";
/// Longest `README.md` that is looked into, in bytes.
const MAX_README_BYTES: u64 = 1 << 20;

pub(super) async fn open<F: Folder>(
    folder: &F,
    main: &str,
) -> Result<(Package, Joined<F::Source>), LoadError> {
    let missing = |file: &str| {
        LoadError::Inconsistent(format!(
            "{}: {file} is missing; a folder of safetensors needs config.json, tokenizer.json and {SINGLE_FILE} \
             or the files that {INDEX_FILE} names",
            folder.name()
        ))
    };
    let config = read_small(folder, "config.json", MAX_CONFIG_BYTES)
        .await?
        .ok_or_else(|| missing("config.json"))?;
    let hf = HfConfig::parse(&config)?;
    let (header, source) = open_tensors(folder, main)
        .await?
        .ok_or_else(|| missing(SINGLE_FILE))?;
    let plan = Plan::from_safetensors(&header, &hf)?;

    let tokenizer = read_small(folder, "tokenizer.json", MAX_TOKENIZER_BYTES)
        .await?
        .ok_or_else(|| missing("tokenizer.json"))?;
    let generation = read_small(folder, "generation_config.json", MAX_CONFIG_BYTES).await?;
    let settings = read_small(folder, "tokenizer_config.json", texts::MAX_SETTINGS_BYTES).await?;
    let settings = match &settings {
        Some(text) => texts::tokenizer_settings(text)?,
        None => texts::TokenizerSettings::default(),
    };
    let jinja = read_small(folder, "chat_template.jinja", texts::MAX_TEMPLATE_BYTES).await?;
    let template = match jinja {
        Some(text) => Some(texts::utf8("chat_template.jinja", text)?),
        None => settings.template,
    };
    let special = Special {
        add_bos: settings.add_bos,
        ..texts::special(generation.as_deref(), &config)?
    };
    check_special(&special, &plan, "generation_config.json or config.json")?;
    let readme = match read_small(folder, "README.md", MAX_README_BYTES).await {
        Ok(readme) => readme,
        Err(SourceError::TooLarge { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let name = match last_part(&folder.name()) {
        "" | "." | ".." => "model".to_owned(),
        name => name.to_owned(),
    };
    let package = Package {
        licence: licence::of_folder(readme.as_deref(), &name),
        name,
        kind: Kind::Safetensors,
        quantization: super::commonest(&plan.types()),
        tokenizer: TokenizerFile::Json(tokenizer),
        template,
        special,
        parameters: plan.parameters(),
        types: plan.types(),
        pieces: None,
        plan,
    };
    Ok((package, source))
}

/// Special tokens must be in the vocabulary.
pub(super) fn check_special(special: &Special, plan: &Plan, file: &str) -> Result<(), LoadError> {
    let vocab = plan.config.vocab;
    let outside = |id: &&u32| **id as usize >= vocab;
    match special.bos.iter().chain(&special.eos).find(outside) {
        None => Ok(()),
        Some(id) => Err(LoadError::Inconsistent(format!(
            "{file}: a special token has the id {id}, but the vocabulary has {vocab} entries"
        ))),
    }
}

/// The header of all weights in one address space, and that space; `None` if there are no weights.
async fn open_tensors<F: Folder>(
    folder: &F,
    main: &str,
) -> Result<Option<(safetensors::Header, Joined<F::Source>)>, LoadError> {
    // A file that was chosen, unless it is one of several.
    let chosen = main.ends_with(".safetensors").then_some(main);
    let numbered = chosen.is_some_and(|name| name.contains("-of-"));
    if let Some(name) = chosen.filter(|_| !numbered) {
        return open_one(folder, name).await.map(Some);
    }
    if let Some(text) = read_small(folder, INDEX_FILE, MAX_INDEX_BYTES).await? {
        let wrong = |error| HeaderError::Safetensors {
            name: format!("{}/{INDEX_FILE}", folder.name()),
            error,
        };
        let index = Index::parse(&text).map_err(wrong)?;
        let mut headers = Vec::with_capacity(index.files().len());
        let mut sources = Vec::with_capacity(index.files().len());
        for file in index.files() {
            let (header, source) = open_file(folder, file).await.map_err(|error| match error {
                LoadError::Source(error)
                | LoadError::Safetensors(HeaderError::Source(error))
                    if error.is_missing() =>
                {
                    LoadError::Inconsistent(format!(
                        "{}: {file} is missing, but {INDEX_FILE} names it; add it, or fetch the folder again",
                        folder.name()
                    ))
                }
                other => other,
            })?;
            sources.push((source, header.end()));
            headers.push(header);
        }
        let header = index.join(&headers).map_err(wrong)?;
        return Ok(Some((header, Joined::with_sizes(sources)?)));
    }
    match open_one(folder, SINGLE_FILE).await {
        Ok(opened) => Ok(Some(opened)),
        Err(LoadError::Source(error) | LoadError::Safetensors(HeaderError::Source(error)))
            if error.is_missing() =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn open_one<F: Folder>(
    folder: &F,
    name: &str,
) -> Result<(safetensors::Header, Joined<F::Source>), LoadError> {
    let (header, source) = open_file(folder, name).await?;
    let size = header.end();
    Ok((header, Joined::with_sizes(vec![(source, size)])?))
}

/// Opens a file and reads its header; the connection is not kept.
async fn open_file<F: Folder>(
    folder: &F,
    name: &str,
) -> Result<(safetensors::Header, F::Source), LoadError> {
    let mut source = folder.open(name).await?;
    let header = safetensors::read_header(&mut source).await?;
    source.rest();
    Ok((header, source))
}
