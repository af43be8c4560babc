//! Files that can be written, wherever they are: a folder, the browser's private file system, memory.

/// Longest name of a file or folder on a [`Disk`], in bytes.
const MAX_NAME_BYTES: usize = 128;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To read a file that is there. Where the disk can, also while somebody writes it.
    Read,
    /// To read and write it, alone; made if it is not there.
    Write,
}

/// A place for files. Paths are names with `/` between them, at most a few levels deep; the folders of
/// a file that is written are made with it. Clones are the same place.
#[expect(
    async_fn_in_trait,
    reason = "everything here runs on one thread; no future is sent to another"
)]
pub trait Disk: Clone {
    /// An open file.
    type File: DiskFile;

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`DiskError::Missing`] in [`Mode::Read`]; [`DiskError::Locked`] while it is open elsewhere, in
    /// another tab or in this one; others.
    async fn open(&self, path: &str, mode: Mode) -> Result<Self::File, DiskError>;

    /// Removes the file at `path`, or the folder with all that is in it. It is no error if there is none.
    ///
    /// # Errors
    /// [`DiskError::Locked`] while it is open; others.
    async fn remove(&self, path: &str) -> Result<(), DiskError>;

    /// What the folder at `path` holds, sorted by name; the root's path is empty. Nothing, if there is no
    /// such folder.
    ///
    /// # Errors
    /// [`DiskError`].
    async fn list(&self, path: &str) -> Result<Vec<Item>, DiskError>;

    /// How much room there is, where the disk can tell.
    async fn estimate(&self) -> Option<Estimate>;

    /// Asks that nothing is cleared away without the person's knowledge. With `ask` false it is only
    /// looked up. `None` where the disk has no such promise to give.
    async fn persist(&self, ask: bool) -> Option<bool>;

    /// The whole file at `path`, of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Disk::open`]; [`DiskError::Io`] for a larger file, before memory is taken for it.
    async fn read_small(&self, path: &str, limit: u64) -> Result<Vec<u8>, DiskError> {
        let file = self.open(path, Mode::Read).await?;
        let size = file.size()?;
        check_limit(path, size, limit)?;
        let mut bytes = vec![0; size as usize];
        file.read(0, &mut bytes).await?;
        Ok(bytes)
    }

    /// Writes the whole file at `path` and sees to it that it stays.
    ///
    /// # Errors
    /// As [`Disk::open`]; [`DiskError::Full`].
    async fn write_small(&self, path: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let mut file = self.open(path, Mode::Write).await?;
        file.truncate(0)?;
        file.write(0, bytes)?;
        file.flush()
    }
}

/// An open file of a [`Disk`]; dropping it closes it. What is written may be lost, or be there in part,
/// when the program ends before [`DiskFile::flush`].
#[expect(
    async_fn_in_trait,
    reason = "everything here runs on one thread; no future is sent to another"
)]
pub trait DiskFile {
    /// Size in bytes.
    ///
    /// # Errors
    /// [`DiskError`].
    fn size(&self) -> Result<u64, DiskError>;

    /// Fills `to` with the bytes from `at` on.
    ///
    /// # Errors
    /// [`DiskError::Io`] if the file ends before; others.
    async fn read(&self, at: u64, to: &mut [u8]) -> Result<(), DiskError>;

    /// Writes `bytes` from `at` on, which is at most the size.
    ///
    /// # Errors
    /// [`DiskError::Full`], after which the file may have grown by a part of them; others.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes the file `size` bytes long, which is at most what it has.
    ///
    /// # Errors
    /// [`DiskError`].
    fn truncate(&mut self, size: u64) -> Result<(), DiskError>;

    /// Sees to it that what was written stays.
    ///
    /// # Errors
    /// [`DiskError`].
    fn flush(&mut self) -> Result<(), DiskError>;
}

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Size of a file in bytes, where it can be told; `None` for a folder.
    pub bytes: Option<u64>,
    /// Whether it is a folder.
    pub folder: bool,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that may be used in all.
    pub quota: u64,
}

/// What went wrong on a [`Disk`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// There is no room left.
    #[error("there is no room left in storage; delete a stored model or free some space")]
    Full,
    /// Somebody else has the file open.
    #[error("{path} is in use, perhaps by another tab of this page; close it there")]
    Locked {
        /// The file or folder.
        path: String,
    },
    /// There is no such file.
    #[error("{path} is not in storage any more")]
    Missing {
        /// The file.
        path: String,
    },
    /// There is no storage at all.
    #[error("there is no storage here: {detail}")]
    Unavailable {
        /// Why, and what may help.
        detail: String,
    },
    /// Anything else.
    #[error("storage failed at {path}: {detail}")]
    Io {
        /// The file or folder.
        path: String,
        /// The system's or the browser's message.
        detail: String,
    },
}

impl DiskError {
    /// [`DiskError::Io`] at a path.
    pub(super) fn io(path: &str, detail: impl ToString) -> Self {
        Self::Io {
            path: path.to_owned(),
            detail: detail.to_string(),
        }
    }
}

/// The names of a path.
///
/// # Errors
/// [`DiskError::Io`] for names that could mean something to a file system.
pub(super) fn parts(path: &str) -> Result<Vec<&str>, DiskError> {
    let parts: Vec<_> = path.split('/').collect();
    if parts.iter().all(|part| is_name(part)) {
        return Ok(parts);
    }
    Err(DiskError::io(path, "this is not a path in storage"))
}

/// Whether this can be the name of a file or folder of ours.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && name.bytes().all(plain)
}

/// # Errors
/// [`DiskError::Io`] for a file that is larger than it may be.
pub(super) fn check_limit(path: &str, size: u64, limit: u64) -> Result<(), DiskError> {
    if size <= limit {
        return Ok(());
    }
    let detail = format!("it has {size} bytes, more than the {limit} that such a file may have");
    Err(DiskError::io(path, detail))
}
