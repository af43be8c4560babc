//! Models that are kept: on the browser's private file system, in a folder, in memory.
//!
//! A [`Store`] has an [`Entry`] for each model: its small files, and its data as the pieces that
//! [`Pieces`](crate::pieces::Pieces) reads and fills. What is known of an entry is written in two copies
//! in turn, and data only counts when its checksum says so; so whatever happens while something is
//! written, an entry is never lost and a wrong byte is never taken for a right one.
//!
//! An entry is written by one at a time. Who comes second, in another tab, reads what is complete and
//! keeps nothing.

mod dir;
mod disk;
mod memory;
#[cfg(target_arch = "wasm32")]
mod opfs;
mod record;
mod small;

use std::collections::BTreeMap;

pub use dir::DirDisk;
pub use disk::{Disk, DiskError, DiskFile, Estimate, Item, Mode};
pub use memory::MemoryDisk;
#[cfg(target_arch = "wasm32")]
pub use opfs::OpfsDisk;
pub use small::{Keeping, KeepingSource, MAX_SMALL_BYTES, SmallFiles, StoredFolder, StoredSource};

use self::record::{Found, Record, RecordFile, RecordPiece, Sum};
use crate::pieces::{MAX_PIECES, Piece, mix};
use crate::source::http::Version;

/// The folder of all entries.
const ROOT: &str = "models";

/// Models that are kept on a disk.
#[derive(Clone, Debug)]
pub struct Store<D> {
    disk: D,
}

/// Names an entry: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The key of a model by what makes it another one: where it is from, how it is quantized.
    pub fn of(parts: &[&str]) -> Self {
        let mut all = Vec::new();
        for part in parts {
            all.extend_from_slice(&(part.len() as u64).to_le_bytes());
            all.extend_from_slice(part.as_bytes());
        }
        Self(Sum::of(&all).to_string()[..32].to_owned())
    }

    /// A key as it was shown; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(digit)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn folder(&self) -> String {
        format!("{ROOT}/{}", self.0)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file at the origin of a model, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginFile {
    /// Its name.
    pub name: String,
    /// Which version of it.
    pub version: Version,
}

/// What an entry is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Name of the model.
    pub name: String,
    /// What kind of package it is; for the caller alone.
    pub kind: String,
    /// Where it is from: an address, a repository, a file.
    pub origin: String,
    /// What it is, as in `GGUF, Q4_K_M`.
    pub label: String,
    /// Anything else that the caller wants to find again.
    pub facts: BTreeMap<String, String>,
    /// The files that it is made of. When one of them is another version later, nothing of the entry is
    /// used.
    pub files: Vec<OriginFile>,
    /// Its data.
    pub pieces: Vec<Piece>,
}

/// What is known of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its key.
    pub key: Key,
    /// What it holds.
    pub description: Description,
    /// Bytes of complete pieces.
    pub complete_bytes: u64,
    /// Bytes of all pieces.
    pub total_bytes: u64,
    /// Complete pieces.
    pub complete: usize,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
    /// When it was last used, in milliseconds since 1970.
    pub used: u64,
    /// Whether its small files are there, so that it opens without its origin.
    pub opens_alone: bool,
}

impl Summary {
    /// Whether all pieces are there.
    pub fn is_complete(&self) -> bool {
        self.complete == self.description.pieces.len()
    }
}

/// An entry in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: Key,
    /// Bytes that it takes on the disk.
    pub bytes: u64,
    /// What is known of it.
    pub state: Result<Summary, Trouble>,
}

/// Why an entry cannot be used. It can be deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It was written by a later version of this program.
    #[error(
        "it was stored by a later version of this program (format {version}); reload the page to get \
         that version, or delete it"
    )]
    Later {
        /// Version of the format.
        version: u32,
    },
    /// What was written of it cannot be made out.
    #[error("its index is damaged; delete it and load the model again")]
    Damaged,
    /// The storage failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// What became of the data that there was of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was none.
    Nothing,
    /// It is used.
    Kept {
        /// Complete pieces.
        complete: usize,
    },
    /// It is of another version of the model and was thrown away.
    Discarded {
        /// What differs.
        reason: String,
    },
}

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Enough,
    /// So many bytes are missing.
    Short(u64),
    /// The disk does not tell.
    Unknown,
}

impl<D: Disk> Store<D> {
    /// The store on this disk.
    pub fn new(disk: D) -> Self {
        Self { disk }
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// All entries, the one last used first. Files and folders that are not ours are left out.
    ///
    /// # Errors
    /// [`DiskError`] when the disk cannot be listed at all.
    pub async fn list(&self) -> Result<Vec<Listed>, DiskError> {
        let mut list = Vec::new();
        for item in self.disk.list(ROOT).await? {
            let Some(key) = Key::parse(&item.name).filter(|_| item.folder) else {
                continue;
            };
            let files = self.disk.list(&key.folder()).await.unwrap_or_default();
            let bytes: u64 = files.iter().filter_map(|file| file.bytes).sum();
            let state = match self.find(&key).await {
                Ok(Some(summary)) => Ok(summary),
                // What is left of a beginning or of a deletion.
                Ok(None) if bytes == 0 => continue,
                Ok(None) => Err(Trouble::Damaged),
                Err(trouble) => Err(trouble),
            };
            list.push(Listed { key, bytes, state });
        }
        list.sort_by_key(|listed| {
            let used = listed.state.as_ref().map_or(0, |summary| summary.used);
            std::cmp::Reverse(used)
        });
        Ok(list)
    }

    /// What is known of an entry; `None` if there is none.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn find(&self, key: &Key) -> Result<Option<Summary>, Trouble> {
        let found = self.read(key).await?;
        Ok(found.map(|(record, _)| summary(key, &record)))
    }

    async fn read(&self, key: &Key) -> Result<Option<(Box<Record>, u64)>, Trouble> {
        match record::read(&self.disk, &key.folder()).await? {
            Found::Nothing => Ok(None),
            Found::Record(record, sequence) => Ok(Some((record, sequence))),
            Found::Later(version) => Err(Trouble::Later { version }),
            Found::Damaged => Err(Trouble::Damaged),
        }
    }

    /// Opens an entry as it is; `None` if there is none. `now` in milliseconds since 1970 is noted as its
    /// last use. Where it cannot be written, it is opened for reading: see [`Entry::keeps`].
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn open(&self, key: &Key, now: u64) -> Result<Option<Entry<D>>, Trouble> {
        if self.read(key).await?.is_none() {
            return Ok(None);
        }
        let lock = self.lock(key).await;
        // Again, now that nobody else writes it.
        let Some((record, sequence)) = self.read(key).await? else {
            return Ok(None);
        };
        let lock = lock.map_err(|error| named(error, &record.name));
        let mut entry = Entry {
            disk: self.disk.clone(),
            key: key.clone(),
            record: *record,
            sequence,
            lock,
        };
        entry.record.used = now;
        entry.write_or_stop().await;
        Ok(Some(entry))
    }

    /// Opens the entry of a model, and makes it if there is none; `now` in milliseconds since 1970. What
    /// there is of it is used if it is of the same version, else thrown away.
    ///
    /// This always gives an entry: where nothing can be kept, one that keeps nothing
    /// ([`Entry::keeps`]).
    pub async fn open_or_create(
        &self,
        key: &Key,
        description: &Description,
        now: u64,
    ) -> (Entry<D>, Before) {
        let mut entry = Entry {
            disk: self.disk.clone(),
            key: key.clone(),
            record: new_record(key, description, now),
            sequence: 0,
            lock: Err(DiskError::Full),
        };
        // A later version's entry is not even locked: nothing of it is touched.
        let mut found = self.read(key).await;
        let count = description.pieces.len();
        let lock = match &found {
            Err(trouble @ Trouble::Later { .. }) => Err(DiskError::io(&description.name, trouble)),
            Err(Trouble::Disk(error)) => Err(error.clone()),
            _ if count > MAX_PIECES => {
                let detail =
                    format!("it has {count} pieces, more than the {MAX_PIECES} of a store");
                Err(DiskError::io(&description.name, detail))
            }
            _ => self.lock(key).await,
        };
        entry.lock = lock.map_err(|error| named(error, &description.name));
        if entry.lock.is_ok() {
            found = self.read(key).await;
        }
        let before = match found {
            Ok(Some((old, sequence))) => {
                entry.sequence = sequence;
                match difference(&old, &entry.record) {
                    None => {
                        entry.adopt(&old);
                        let complete = entry.complete();
                        Before::Kept { complete }
                    }
                    Some(reason) => {
                        entry.clear().await;
                        return (entry, Before::Discarded { reason });
                    }
                }
            }
            Err(Trouble::Damaged) => {
                entry.clear().await;
                let reason = Trouble::Damaged.to_string();
                return (entry, Before::Discarded { reason });
            }
            _ => Before::Nothing,
        };
        entry.write_or_stop().await;
        (entry, before)
    }

    async fn lock(&self, key: &Key) -> Result<D::File, DiskError> {
        let lock = format!("{}/lock", key.folder());
        self.disk.open(&lock, Mode::Write).await
    }

    /// Deletes an entry, in whatever state it is.
    ///
    /// # Errors
    /// [`DiskError::Locked`] while it is being written, in another tab or in this one; others.
    pub async fn delete(&self, key: &Key) -> Result<(), DiskError> {
        let folder = key.folder();
        let lock = match self.lock(key).await {
            // On a full disk the lock cannot be made of an entry that has none; nobody holds it then.
            Err(DiskError::Full) => None,
            Err(error) => {
                let found = self.find(key).await.ok().flatten();
                let name = found.map(|summary| summary.description.name);
                return Err(named(error, name.as_deref().unwrap_or("the model")));
            }
            Ok(lock) => Some(lock),
        };
        // The records go first: without them the rest counts for nothing.
        for slot in 0..2 {
            self.disk.remove(&record::copy_path(&folder, slot)).await?;
        }
        for item in self.disk.list(&folder).await? {
            if item.name != "lock" && disk::is_name(&item.name) {
                self.disk.remove(&format!("{folder}/{}", item.name)).await?;
            }
        }
        drop(lock);
        self.disk.remove(&folder).await
    }

    /// Notes a use of an entry; `now` in milliseconds since 1970. Nothing happens if there is none, or
    /// while it is being written.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn touch(&self, key: &Key, now: u64) -> Result<(), Trouble> {
        self.open(key, now).await.map(drop)
    }

    /// Whether `bytes` more bytes fit.
    pub async fn room_for(&self, bytes: u64) -> Room {
        match self.disk.estimate().await {
            None => Room::Unknown,
            Some(room) => match bytes.saturating_sub(room.quota.saturating_sub(room.used)) {
                0 => Room::Enough,
                short => Room::Short(short),
            },
        }
    }
}

/// The model's name says more than that of its lock.
fn named(error: DiskError, name: &str) -> DiskError {
    match error {
        DiskError::Locked { .. } => DiskError::Locked {
            path: name.to_owned(),
        },
        error => error,
    }
}

/// Milliseconds, the origin's version and the layout, stirred: what is found of an incomplete piece only
/// counts for the entry that wrote it.
fn salt(key: &Key, record: &Record) -> u64 {
    let mut salt = mix(record.created, key.0.as_bytes());
    for file in &record.files {
        for text in [&file.etag, &file.last_modified].into_iter().flatten() {
            salt = mix(salt, text.as_bytes());
        }
        salt = mix(salt, &file.size.unwrap_or_default().to_le_bytes());
    }
    mix(salt, &record.total().to_le_bytes())
}

fn new_record(key: &Key, description: &Description, now: u64) -> Record {
    let mut record = Record {
        name: description.name.clone(),
        kind: description.kind.clone(),
        origin: description.origin.clone(),
        label: description.label.clone(),
        facts: description.facts.clone(),
        created: now,
        used: now,
        salt: 0,
        files: description
            .files
            .iter()
            .map(|file| RecordFile::new(&file.name, &file.version))
            .collect(),
        pieces: description.pieces.iter().map(RecordPiece::new).collect(),
        small: None,
    };
    record.salt = salt(key, &record);
    record
}

/// What makes the data of one useless for the other.
fn difference(old: &Record, new: &Record) -> Option<String> {
    for file in &new.files {
        let known = old.files.iter().find(|known| known.name == file.name);
        if known.is_some_and(|known| !known.version().fits(&file.version())) {
            return Some(format!("{} has changed at its origin", file.name));
        }
    }
    let layout = |record: &Record| -> Vec<u64> {
        let pieces = record.pieces.iter();
        pieces.map(|piece| piece.bytes).collect()
    };
    if layout(old) != layout(new) {
        return Some(format!(
            "it had {} bytes in {} pieces and now has {} in {}",
            old.total(),
            old.pieces.len(),
            new.total(),
            new.pieces.len()
        ));
    }
    None
}

fn summary(key: &Key, record: &Record) -> Summary {
    let complete = || record.pieces.iter().filter(|piece| piece.kept.is_some());
    Summary {
        key: key.clone(),
        description: Description {
            name: record.name.clone(),
            kind: record.kind.clone(),
            origin: record.origin.clone(),
            label: record.label.clone(),
            facts: record.facts.clone(),
            files: record
                .files
                .iter()
                .map(|file| OriginFile {
                    name: file.name.clone(),
                    version: file.version(),
                })
                .collect(),
            pieces: record.pieces.iter().map(RecordPiece::piece).collect(),
        },
        complete_bytes: complete().map(|piece| piece.bytes).sum(),
        total_bytes: record.total(),
        complete: complete().count(),
        created: record.created,
        used: record.used,
        opens_alone: record.small.is_some(),
    }
}

/// An open entry. Nobody else writes it until it is dropped.
#[derive(Debug)]
pub struct Entry<D: Disk> {
    disk: D,
    key: Key,
    record: Record,
    sequence: u64,
    /// Held while the entry may be written; else why it may not.
    lock: Result<D::File, DiskError>,
}

impl<D: Disk> Entry<D> {
    /// What is known of it.
    pub fn summary(&self) -> Summary {
        summary(&self.key, &self.record)
    }

    /// Its data.
    pub fn pieces(&self) -> Vec<Piece> {
        self.record.pieces.iter().map(RecordPiece::piece).collect()
    }

    /// Whether what arrives is kept.
    ///
    /// # Errors
    /// Why it is not.
    pub fn keeps(&self) -> Result<(), &DiskError> {
        self.lock.as_ref().map(drop)
    }

    /// Keeps small files, in place of those it had.
    ///
    /// # Errors
    /// Why they are not kept.
    pub async fn set_small(&mut self, small: &SmallFiles) -> Result<(), DiskError> {
        self.keeps().map_err(DiskError::clone)?;
        if !small.is_whole() {
            let detail = format!("its small files have more than {MAX_SMALL_BYTES} bytes");
            return Err(DiskError::io(&self.record.name, detail));
        }
        let old = self.record.small.as_ref().map(|small| small.place.clone());
        let place = match old.as_deref() {
            Some("small.0") => "small.1",
            _ => "small.0",
        };
        let (small, block) = small.pack(place.to_owned());
        if self.record.small.as_ref().is_some_and(|old| {
            (old.sum, &old.files, &old.names) == (small.sum, &small.files, &small.names)
        }) {
            return Ok(());
        }
        let path = self.path(place);
        self.disk.write_small(&path, &block).await?;
        let before = self.record.small.replace(small);
        if let Err(error) = self.write().await {
            self.record.small = before;
            return Err(error);
        }
        if let Some(old) = old {
            // It is of no use any more; where it stays, the next write of it takes its place.
            drop(self.disk.remove(&self.path(&old)).await);
        }
        Ok(())
    }

    /// Its small files; `None` if they are not kept.
    ///
    /// # Errors
    /// [`DiskError`]: they cannot be read, or are damaged.
    pub async fn small(&self) -> Result<Option<StoredFolder>, DiskError> {
        let Some(small) = &self.record.small else {
            return Ok(None);
        };
        let path = self.path(&small.place);
        let block = self.disk.read_small(&path, MAX_SMALL_BYTES).await?;
        if block.len() as u64 != small.bytes || Sum::of(&block) != small.sum {
            let detail = "the small files of the model are damaged; load it from its origin";
            return Err(DiskError::io(&self.record.name, detail));
        }
        let name = self.record.name.clone();
        Ok(Some(StoredFolder::new(name, block, small.clone())))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.key.folder())
    }

    /// Where the bytes of a piece are.
    pub(crate) fn piece_path(&self, piece: usize) -> String {
        self.path(&format!("p{piece:05}"))
    }

    /// Where the checksums of an incomplete piece are.
    pub(crate) fn sums_path(&self, piece: usize) -> String {
        self.path(&format!("p{piece:05}.sums"))
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    pub(crate) fn salt(&self) -> u64 {
        self.record.salt
    }

    /// Checksum of a complete piece.
    pub(crate) fn kept(&self, piece: usize) -> Option<[u8; 32]> {
        let kept = self.record.pieces.get(piece)?.kept?;
        Some(kept.0)
    }

    /// Number of complete pieces.
    pub fn complete(&self) -> usize {
        let pieces = self.record.pieces.iter();
        pieces.filter(|piece| piece.kept.is_some()).count()
    }

    /// Takes over what an earlier record knows of the same data.
    fn adopt(&mut self, old: &Record) {
        self.record.created = old.created;
        self.record.salt = old.salt;
        self.record.small.clone_from(&old.small);
        for (piece, old) in self.record.pieces.iter_mut().zip(&old.pieces) {
            let fits = |kept: &Sum| piece.expected.is_none_or(|expected| expected == *kept);
            piece.kept = old.kept.filter(fits);
        }
        // A file whose version was not told this time is still the one it was.
        for known in &old.files {
            match self
                .record
                .files
                .iter_mut()
                .find(|it| it.name == known.name)
            {
                None => self.record.files.push(known.clone()),
                Some(file) => {
                    file.etag = file.etag.take().or_else(|| known.etag.clone());
                    file.size = file.size.or(known.size);
                    if file.last_modified.is_none() {
                        file.last_modified.clone_from(&known.last_modified);
                    }
                }
            }
        }
    }

    /// Writes the record; from then on it counts.
    async fn write(&mut self) -> Result<(), DiskError> {
        self.keeps().map_err(DiskError::clone)?;
        self.sequence += 1;
        let path = record::copy_path(&self.key.folder(), self.sequence);
        let copy = self.record.encode(self.sequence);
        let written = match record::check_size(&path, copy.len()) {
            Ok(()) => self.disk.write_small(&path, &copy).await,
            Err(error) => Err(error),
        };
        if written.is_err() {
            // The other copy is the good one; it must not be the next to be written over.
            self.sequence -= 1;
        }
        written
    }

    async fn write_or_stop(&mut self) {
        if self.lock.is_ok()
            && let Err(error) = self.write().await
        {
            self.stop(error);
        }
    }

    /// Keeps nothing from now on, for this reason. What is there stays.
    pub(crate) fn stop(&mut self, why: DiskError) {
        self.lock = Err(named(why, &self.record.name));
    }

    /// A piece is there, flushed, with this checksum.
    pub(crate) async fn set_kept(
        &mut self,
        piece: usize,
        sha256: [u8; 32],
    ) -> Result<(), DiskError> {
        self.record.pieces[piece].kept = Some(Sum(sha256));
        if let Err(error) = self.write().await {
            self.record.pieces[piece].kept = None;
            return Err(error);
        }
        // Without the record they would still be needed.
        self.disk.remove(&self.sums_path(piece)).await
    }

    /// A piece is not what it should be: deletes it.
    pub(crate) async fn forget(&mut self, piece: usize) {
        let was_kept = self.record.pieces[piece].kept.take().is_some();
        if self.lock.is_err() {
            return;
        }
        let forgotten = async {
            if was_kept {
                self.write().await?;
            }
            self.disk.remove(&self.sums_path(piece)).await?;
            self.disk.remove(&self.piece_path(piece)).await
        };
        if let Err(error) = forgotten.await {
            self.stop(error);
        }
    }

    /// The origin is another one now: deletes all data.
    pub(crate) async fn discard(&mut self) {
        for file in &mut self.record.files {
            *file = RecordFile::new(&file.name, &Version::default());
        }
        for piece in &mut self.record.pieces {
            piece.kept = None;
        }
        self.record.small = None;
        self.record.salt = mix(self.record.salt, b"discarded");
        self.clear().await;
    }

    /// Writes the record, which has no complete pieces, and removes everything else.
    async fn clear(&mut self) {
        if self.lock.is_err() {
            return;
        }
        let cleared = async {
            self.write().await?;
            for item in self.disk.list(&self.key.folder()).await? {
                let ours = item.name.starts_with('p') || item.name.starts_with("small.");
                if ours && disk::is_name(&item.name) {
                    self.disk.remove(&self.path(&item.name)).await?;
                }
            }
            Ok(())
        };
        if let Err(error) = cleared.await {
            self.stop(error);
        }
    }
}
