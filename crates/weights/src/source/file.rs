//! Files on this machine.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::folder::{Folder, check_inside};
use super::{ByteSource, SourceError};

/// A file on this machine, read by position.
#[derive(Debug)]
pub struct FileSource {
    name: String,
    file: File,
    size: u64,
}

impl FileSource {
    /// Opens the file at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SourceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => SourceError::NotFound { name: name.clone() },
            _ => SourceError::Io {
                name: name.clone(),
                detail: error.to_string(),
            },
        };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(SourceError::Io {
                name,
                detail: "this is a folder; name a file in it".to_owned(),
            });
        }
        let size = metadata.len();
        Ok(Self { name, file, size })
    }
}

impl ByteSource for FileSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.size) {
            return Err(SourceError::PastEnd {
                name: self.name.clone(),
                offset,
                len: len as u64,
                size: self.size,
            });
        }
        let old = buf.len();
        buf.resize(old + len, 0);
        let read = self
            .file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(&mut buf[old..]));
        read.map_err(|error| {
            buf.truncate(old);
            SourceError::Io {
                name: self.name.clone(),
                detail: format!("reading at byte {offset}: {error}"),
            }
        })
    }
}

/// A folder on this machine.
#[derive(Clone, Debug)]
pub struct DirFolder {
    root: PathBuf,
    names: Vec<String>,
}

impl DirFolder {
    /// Opens the folder at `path` and lists its files. Those of folders inside it can be opened, but
    /// are not listed.
    ///
    /// # Errors
    /// [`SourceError::NotFound`] or [`SourceError::Io`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, SourceError> {
        let root = path.into();
        let name = root.display().to_string();
        let io = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => SourceError::NotFound { name: name.clone() },
            _ => SourceError::Io {
                name: name.clone(),
                detail: error.to_string(),
            },
        };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&root).map_err(io)? {
            let entry = entry.map_err(io)?;
            // The files of a download cache are links, so the link's target counts.
            let is_file = entry.path().is_file();
            if let Some(name) = entry.file_name().to_str().filter(|_| is_file) {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(Self { root, names })
    }
}

impl Folder for DirFolder {
    type Source = FileSource;

    async fn open(&self, name: &str) -> Result<FileSource, SourceError> {
        check_inside(name)?;
        FileSource::open(self.root.join(name))
    }

    fn names(&self) -> Option<Vec<String>> {
        Some(self.names.clone())
    }

    fn name(&self) -> String {
        self.root.display().to_string()
    }
}
