//! Files of models, wherever they are.

use web_sys::Blob;
use weights::source::folder::Folder;
use weights::source::{AbortHandle, BlobFolder, BlobSource, HttpSource, Token, WebFolder};
use weights::{ByteSource, SourceError};

use crate::delegate::delegate;

/// A folder of any kind. One type, so that everything built on it is compiled once.
#[derive(Debug)]
pub enum Files {
    /// At an address.
    Web(WebFolder),
    /// A single file at an address, which may have a query.
    Single {
        /// Its name.
        name: String,
        /// Its address.
        url: String,
        /// For its origin.
        token: Option<Token>,
        /// What cancels reading.
        abort: AbortHandle,
    },
    /// Picked or dropped by the person.
    Local(BlobFolder),
}

impl Files {
    /// The file at `url`, of this name.
    pub fn single(name: String, url: String, token: Option<Token>, abort: AbortHandle) -> Self {
        Self::Single {
            name,
            url,
            token,
            abort,
        }
    }

    /// Picked files by their names.
    pub fn local(name: &str, files: impl IntoIterator<Item = (String, Blob)>) -> Self {
        Self::Local(BlobFolder::new(name, files))
    }
}

impl Folder for Files {
    type Source = File;

    async fn open(&self, name: &str) -> Result<File, SourceError> {
        match self {
            Self::Web(folder) => folder.open(name).await.map(File::Web),
            Self::Single {
                name: own,
                url,
                token,
                abort,
            } if name == own => Ok(File::Web(HttpSource::with(
                url.clone(),
                token.as_ref(),
                abort.clone(),
                None,
            ))),
            Self::Single { .. } => Err(SourceError::NotFound {
                name: name.to_owned(),
            }),
            Self::Local(folder) => folder.open(name).await.map(File::Local),
        }
    }

    fn names(&self) -> Option<Vec<String>> {
        match self {
            Self::Web(folder) => folder.names(),
            Self::Single { name, .. } => Some(vec![name.clone()]),
            Self::Local(folder) => folder.names(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Web(folder) => folder.name(),
            Self::Single { url, .. } => url.clone(),
            Self::Local(folder) => folder.name(),
        }
    }
}

/// A file of [`Files`].
pub enum File {
    /// At an address.
    Web(HttpSource),
    /// On this machine.
    Local(BlobSource),
}

delegate!(File: Web, Local);
