//! A file on this machine.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

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
        let io = |error: std::io::Error| SourceError::Io {
            name: name.clone(),
            detail: error.to_string(),
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
