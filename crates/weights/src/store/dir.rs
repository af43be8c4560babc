//! A folder of this machine as a disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::disk::{Disk, DiskError, DiskFile, Estimate, Item, Mode, parts};

/// A folder of this machine. A file that is open for writing is locked against other processes that
/// use this too.
#[derive(Clone, Debug)]
pub struct DirDisk {
    root: PathBuf,
}

impl DirDisk {
    /// A disk in the folder at `root`, which is made with the first file.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn place(&self, path: &str) -> Result<PathBuf, DiskError> {
        let mut place = self.root.clone();
        place.extend(parts(path)?);
        Ok(place)
    }
}

fn error(path: &str, error: &std::io::Error) -> DiskError {
    match error.kind() {
        ErrorKind::NotFound => DiskError::Missing {
            path: path.to_owned(),
        },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DiskError::Full,
        _ => DiskError::io(path, error),
    }
}

impl Disk for DirDisk {
    type File = DirFile;

    async fn open(&self, path: &str, mode: Mode) -> Result<DirFile, DiskError> {
        let place = self.place(path)?;
        let failed = |e: std::io::Error| error(path, &e);
        let file = match mode {
            Mode::Read => File::open(&place).map_err(failed)?,
            Mode::Write => {
                if let Some(folder) = place.parent() {
                    std::fs::create_dir_all(folder).map_err(failed)?;
                }
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                let file = options.open(&place).map_err(failed)?;
                match file.try_lock() {
                    Ok(()) => file,
                    Err(TryLockError::WouldBlock) => {
                        return Err(DiskError::Locked {
                            path: path.to_owned(),
                        });
                    }
                    Err(TryLockError::Error(e)) => return Err(failed(e)),
                }
            }
        };
        Ok(DirFile {
            path: path.to_owned(),
            file,
        })
    }

    async fn remove(&self, path: &str) -> Result<(), DiskError> {
        let place = self.place(path)?;
        let removed = match place.is_dir() {
            true => std::fs::remove_dir_all(&place),
            false => std::fs::remove_file(&place),
        };
        match removed {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(error(path, &e)),
            _ => Ok(()),
        }
    }

    async fn list(&self, path: &str) -> Result<Vec<Item>, DiskError> {
        let place = match path {
            "" => self.root.clone(),
            path => self.place(path)?,
        };
        let failed = |e: std::io::Error| error(path, &e);
        let entries = match std::fs::read_dir(place) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(failed)?,
        };
        let mut items = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            if let Ok(name) = entry.file_name().into_string() {
                let folder = metadata.is_dir();
                items.push(Item {
                    name,
                    bytes: (!folder).then_some(metadata.len()),
                    folder,
                });
            }
        }
        items.sort_unstable();
        Ok(items)
    }

    async fn estimate(&self) -> Option<Estimate> {
        None
    }

    async fn persist(&self, _ask: bool) -> Option<bool> {
        None
    }
}

/// A file of a [`DirDisk`].
#[derive(Debug)]
pub struct DirFile {
    path: String,
    file: File,
}

impl DirFile {
    fn seek(&self, at: u64) -> std::io::Result<&File> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at))?;
        Ok(file)
    }

    fn failed(&self, e: &std::io::Error) -> DiskError {
        error(&self.path, e)
    }
}

impl DiskFile for DirFile {
    fn size(&self) -> Result<u64, DiskError> {
        let metadata = self.file.metadata().map_err(|e| self.failed(&e))?;
        Ok(metadata.len())
    }

    async fn read(&self, at: u64, to: &mut [u8]) -> Result<(), DiskError> {
        let read = self.seek(at).and_then(|mut file| file.read_exact(to));
        read.map_err(|e| self.failed(&e))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let written = self.seek(at).and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| self.failed(&e))
    }

    fn truncate(&mut self, size: u64) -> Result<(), DiskError> {
        self.file.set_len(size).map_err(|e| self.failed(&e))
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|e| self.failed(&e))
    }
}
