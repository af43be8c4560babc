//! Models on this machine.

use std::path::Path;

use anyhow::Context;
use model::package::{self, Package};
use weights::pieces::Pieces;
use weights::source::{DirFolder, FileSource, Joined};
use weights::{ByteSource, SourceError};

/// The bytes of a package's files.
#[derive(Debug)]
pub enum Source {
    /// As they are.
    Plain(Joined<FileSource>),
    /// Shards, each of which is verified before its bytes are used.
    Verified(Box<Pieces<Joined<FileSource>>>),
}

impl ByteSource for Source {
    fn name(&self) -> String {
        match self {
            Self::Plain(files) => files.name(),
            Self::Verified(pieces) => pieces.name(),
        }
    }

    fn size(&self) -> Option<u64> {
        match self {
            Self::Plain(files) => files.size(),
            Self::Verified(pieces) => pieces.size(),
        }
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        match self {
            Self::Plain(files) => files.read(offset, buf, len).await,
            Self::Verified(pieces) => pieces.read(offset, buf, len).await,
        }
    }
}

impl Source {
    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &FileSource> {
        let files = match self {
            Self::Plain(files) => Some(files),
            Self::Verified(pieces) => pieces.origin(),
        };
        files.into_iter().flat_map(Joined::sources)
    }
}

/// Opens the model at `path`: a GGUF file, a folder of safetensors, a folder of our shards, or a main
/// file of such a folder.
pub async fn open(path: &Path) -> anyhow::Result<(Package, Source)> {
    let opened = async {
        if path.is_dir() {
            return package::open(&DirFolder::open(path)?, None).await;
        }
        // A path that leads nowhere is told as it was given.
        drop(FileSource::open(path)?);
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = DirFolder::open(parent.unwrap_or(Path::new(".")))?;
        let name = path.file_name().and_then(|name| name.to_str());
        package::open(&folder, name).await
    };
    let (package, files) = opened
        .await
        .with_context(|| format!("the model {} cannot be opened", path.display()))?;
    let source = match &package.pieces {
        None => Source::Plain(files),
        Some(pieces) => {
            let name = path.display().to_string();
            let pieces = Pieces::new(name, Some(files), pieces.clone(), None)?;
            Source::Verified(Box::new(pieces))
        }
    };
    Ok((package, source))
}
