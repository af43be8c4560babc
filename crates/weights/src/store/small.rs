//! The small files of a package: kept while they are read the first time, and read again from there.

use std::cell::RefCell;
use std::rc::Rc;

use super::record::{RecordSmall, RecordSmallFile, Sum};
use crate::source::folder::{Folder, check_inside};
use crate::{ByteSource, SourceError};

/// Most bytes of small files that are kept of a package.
pub const MAX_SMALL_BYTES: u64 = 64 << 20;
/// Most parts that are kept of a file; opening a package reads few.
const MAX_PARTS: usize = 4096;
/// Most files that are kept, and most names in a listing.
const MAX_NAMES: usize = 10_000;

/// What was read to open a package: small files whole, and of large ones the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SmallFiles {
    files: Vec<SmallFile>,
    names: Option<Vec<String>>,
    bytes: u64,
    /// Why it is not everything.
    too_much: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SmallFile {
    name: String,
    size: Option<u64>,
    /// Offset and bytes.
    parts: Vec<(u64, Vec<u8>)>,
}

impl SmallFiles {
    /// None yet, of a folder that lists these names.
    pub fn new(names: Option<Vec<String>>) -> Self {
        Self {
            names: names.filter(|names| names.len() <= MAX_NAMES),
            ..Self::default()
        }
    }

    /// Adds a whole file, in place of what there was of it.
    pub fn insert(&mut self, name: &str, bytes: Vec<u8>) {
        self.remove(name);
        if let Some(names) = &mut self.names
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
        self.note(name, Some(bytes.len() as u64), 0, &bytes);
    }

    /// Takes a file out.
    pub fn remove(&mut self, name: &str) {
        self.files.retain(|file| file.name != name);
        let parts = self.files.iter().flat_map(|file| &file.parts);
        self.bytes = parts.map(|part| part.1.len() as u64).sum();
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is everything that was read; else it was more than [`MAX_SMALL_BYTES`].
    pub fn is_whole(&self) -> bool {
        !self.too_much
    }

    /// Adds what was read of a file.
    fn note(&mut self, name: &str, size: Option<u64>, offset: u64, bytes: &[u8]) {
        let at = match self.files.iter().position(|file| file.name == name) {
            Some(at) => at,
            None => {
                if self.files.len() >= MAX_NAMES {
                    self.too_much = true;
                    return;
                }
                self.files.push(SmallFile {
                    name: name.to_owned(),
                    ..SmallFile::default()
                });
                self.files.len() - 1
            }
        };
        let file = &mut self.files[at];
        file.size = size.or(file.size);
        let end = |part: &(u64, Vec<u8>)| part.0 + part.1.len() as u64;
        let before = file
            .parts
            .iter()
            .position(|part| (part.0..=end(part)).contains(&offset));
        let known = before.map_or(0, |part| end(&file.parts[part]) - offset);
        let new = &bytes[known.min(bytes.len() as u64) as usize..];
        if new.is_empty() {
            return;
        }
        let full = self.bytes + new.len() as u64 > MAX_SMALL_BYTES
            || (before.is_none() && file.parts.len() >= MAX_PARTS);
        if full {
            self.too_much = true;
            return;
        }
        match before {
            Some(part) => file.parts[part].1.extend_from_slice(new),
            None => file.parts.push((offset, new.to_vec())),
        }
        self.bytes += new.len() as u64;
    }

    /// One block of all parts, and where each of them is.
    pub(super) fn pack(&self, place: String) -> (RecordSmall, Vec<u8>) {
        let mut block = Vec::with_capacity(self.bytes as usize);
        let mut files = Vec::new();
        for file in &self.files {
            let mut parts = Vec::new();
            for (offset, bytes) in &file.parts {
                parts.push((*offset, bytes.len() as u64));
                block.extend_from_slice(bytes);
            }
            files.push(RecordSmallFile {
                name: file.name.clone(),
                size: file.size,
                parts,
            });
        }
        let small = RecordSmall {
            place,
            bytes: block.len() as u64,
            sum: Sum::of(&block),
            files,
            names: self.names.clone(),
        };
        (small, block)
    }
}

/// A folder that notes what is read of its files, to be kept: what opening the package needs.
///
/// Open the package from it, then take the notes with [`Keeping::take`]; what its sources read from then
/// on is not noted.
#[derive(Clone, Debug)]
pub struct Keeping<F> {
    folder: F,
    notes: Notes,
}

/// Taken out when it is over.
type Notes = Rc<RefCell<Option<SmallFiles>>>;

impl<F: Folder> Keeping<F> {
    /// Notes what is read from `folder`.
    pub fn new(folder: F) -> Self {
        let notes = SmallFiles::new(folder.names());
        Self {
            notes: Rc::new(RefCell::new(Some(notes))),
            folder,
        }
    }

    /// What was read so far. From now on nothing is noted; a second call gives nothing.
    pub fn take(&self) -> SmallFiles {
        self.notes.borrow_mut().take().unwrap_or_default()
    }

    /// The folder itself.
    pub fn folder(&self) -> &F {
        &self.folder
    }
}

impl<F: Folder> Folder for Keeping<F> {
    type Source = KeepingSource<F::Source>;

    async fn open(&self, name: &str) -> Result<Self::Source, SourceError> {
        Ok(KeepingSource {
            source: self.folder.open(name).await?,
            name: name.to_owned(),
            notes: self.notes.clone(),
        })
    }

    fn names(&self) -> Option<Vec<String>> {
        self.folder.names()
    }

    fn name(&self) -> String {
        self.folder.name()
    }
}

/// A file of a [`Keeping`] folder.
#[derive(Debug)]
pub struct KeepingSource<S> {
    source: S,
    name: String,
    notes: Notes,
}

impl<S: ByteSource> KeepingSource<S> {
    /// The file itself.
    pub fn source(&self) -> &S {
        &self.source
    }

    fn note(&self, size: Option<u64>, offset: u64, bytes: &[u8]) {
        if let Some(notes) = &mut *self.notes.borrow_mut() {
            notes.note(&self.name, size, offset, bytes);
        }
    }
}

impl<S: ByteSource> ByteSource for KeepingSource<S> {
    fn name(&self) -> String {
        self.source.name()
    }

    fn size(&self) -> Option<u64> {
        self.source.size()
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let old = buf.len();
        self.source.read(offset, buf, len).await?;
        self.note(self.source.size(), offset, &buf[old..]);
        Ok(())
    }

    async fn read_whole(&mut self, limit: u64) -> Result<Vec<u8>, SourceError> {
        let bytes = self.source.read_whole(limit).await?;
        self.note(Some(bytes.len() as u64), 0, &bytes);
        Ok(bytes)
    }

    fn rest(&mut self) {
        self.source.rest();
    }
}

/// The small files of a stored model, as the folder that its package is opened from. As with a folder on
/// the web, that there is no such file may only show with the first read.
#[derive(Clone, Debug)]
pub struct StoredFolder {
    name: String,
    block: Rc<[u8]>,
    small: Rc<RecordSmall>,
}

impl StoredFolder {
    pub(super) fn new(name: String, block: Vec<u8>, small: RecordSmall) -> Self {
        Self {
            name,
            block: block.into(),
            small: Rc::new(small),
        }
    }
}

impl Folder for StoredFolder {
    type Source = StoredSource;

    async fn open(&self, name: &str) -> Result<StoredSource, SourceError> {
        check_inside(name)?;
        let mut start = 0;
        for file in &self.small.files {
            let place = |&(offset, len): &(u64, u64)| {
                let part = (offset, start..start + len as usize);
                start = part.1.end;
                part
            };
            let parts: Vec<_> = file.parts.iter().map(place).collect();
            if file.name == name {
                return Ok(StoredSource {
                    name: format!("{}/{name}", self.name),
                    size: file.size,
                    block: self.block.clone(),
                    parts,
                    noted: true,
                });
            }
        }
        let full = format!("{}/{name}", self.name);
        let names = self.small.names.as_ref();
        if names.is_some_and(|names| !names.iter().any(|known| known == name)) {
            return Err(SourceError::NotFound { name: full });
        }
        // Opened and never read, as shards are, or not there at all.
        Ok(StoredSource {
            name: full,
            size: None,
            block: self.block.clone(),
            parts: Vec::new(),
            noted: false,
        })
    }

    fn names(&self) -> Option<Vec<String>> {
        self.small.names.clone()
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// A file of a [`StoredFolder`]: what is kept of it.
#[derive(Clone, Debug)]
pub struct StoredSource {
    name: String,
    size: Option<u64>,
    block: Rc<[u8]>,
    /// Offset in the file, place in the block.
    parts: Vec<(u64, std::ops::Range<usize>)>,
    /// Whether anything of it was read when its package was opened.
    noted: bool,
}

impl ByteSource for StoredSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> Option<u64> {
        self.size
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        if !self.noted {
            return Err(SourceError::NotFound {
                name: self.name.clone(),
            });
        }
        let end = offset.checked_add(len as u64);
        if let Some(size) = self.size
            && end.is_none_or(|end| end > size)
        {
            return Err(SourceError::PastEnd {
                name: self.name.clone(),
                offset,
                len: len as u64,
                size,
            });
        }
        let old = buf.len();
        let mut at = offset;
        while buf.len() < old + len {
            let covers = |(start, place): &&(u64, std::ops::Range<usize>)| {
                at >= *start && at - *start < place.len() as u64
            };
            let Some((start, place)) = self.parts.iter().find(covers) else {
                buf.truncate(old);
                return Err(SourceError::Io {
                    name: self.name.clone(),
                    detail: format!(
                        "byte {at} is not stored in this browser; load the model from its origin"
                    ),
                });
            };
            let bytes = &self.block[place.clone()][(at - start) as usize..];
            let bytes = &bytes[..bytes.len().min(old + len - buf.len())];
            buf.extend_from_slice(bytes);
            at += bytes.len() as u64;
        }
        Ok(())
    }
}
