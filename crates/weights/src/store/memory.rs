//! A disk in memory, with the faults that disks have.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::disk::{Disk, DiskError, DiskFile, Estimate, Item, Mode, parts};

/// A disk in memory. It can be full, locked, flip bits, and lose power in the midst of writing.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Content>,
    /// Files that are open for writing.
    open: BTreeSet<String>,
    /// Files that were removed, as they were: a crash may bring them back.
    removed: Vec<(String, Vec<u8>)>,
    /// Bytes that fit in all.
    room: Option<u64>,
    /// Changes until the power fails.
    changes_left: Option<u64>,
    changes: u64,
    unavailable: Option<String>,
    /// Handles of before the last crash are of no use.
    epoch: u32,
}

#[derive(Debug, Default)]
struct Content {
    /// What readers see.
    seen: Vec<u8>,
    /// What a crash leaves for sure.
    safe: Vec<u8>,
    /// What happened since.
    since: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>, part: usize) {
        match self {
            Self::Write(at, bytes) => {
                let bytes = &bytes[..part.min(bytes.len())];
                if to.len() < at + bytes.len() {
                    to.resize(at + bytes.len(), 0);
                }
                to[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            Self::Truncate(size) => to.truncate(*size),
        }
    }
}

impl MemoryDisk {
    /// An empty disk without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on so many bytes fit in all; `None` for no limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.borrow_mut().room = bytes;
    }

    /// The power fails after so many further changes (writes, truncations, flushes, removals, new
    /// files): then everything fails until [`MemoryDisk::crash`].
    pub fn fail_after(&self, changes: Option<u64>) {
        self.0.borrow_mut().changes_left = changes;
    }

    /// How many changes there have been.
    pub fn changes(&self) -> u64 {
        self.0.borrow().changes
    }

    /// The storage is gone, for this reason; `None` brings it back.
    pub fn set_unavailable(&self, why: Option<&str>) {
        self.0.borrow_mut().unavailable = why.map(str::to_owned);
    }

    /// The power fails and comes back. What was not flushed is there, is not, or is there in part, each
    /// change for itself, and removed files may be back, as `seed` will have it. Files that were open
    /// are closed; handles to them are of no more use.
    pub fn crash(&self, seed: u64) {
        let mut dice = Dice(seed);
        let state = &mut *self.0.borrow_mut();
        for content in state.files.values_mut() {
            for change in content.since.drain(..) {
                match dice.roll(4) {
                    0 => {}
                    1 => change.apply(&mut content.safe, dice.roll(5000) as usize),
                    _ => change.apply(&mut content.safe, usize::MAX),
                }
            }
            content.seen.clone_from(&content.safe);
        }
        for (path, bytes) in state.removed.drain(..) {
            if dice.roll(2) == 0 {
                state.files.entry(path).or_insert(Content {
                    seen: bytes.clone(),
                    safe: bytes,
                    since: Vec::new(),
                });
            }
        }
        state.open.clear();
        state.changes_left = None;
        state.epoch += 1;
    }

    /// The program ends, the power stays: all files are closed, what was written is there.
    pub fn close_all(&self) {
        let state = &mut *self.0.borrow_mut();
        state.open.clear();
        state.changes_left = None;
        state.epoch += 1;
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<String> {
        self.0.borrow().files.keys().cloned().collect()
    }

    /// What is in a file.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.0.borrow();
        state.files.get(path).map(|content| content.seen.clone())
    }

    /// Puts a file there, past all limits and locks.
    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        let content = Content {
            seen: bytes.clone(),
            safe: bytes,
            since: Vec::new(),
        };
        self.0.borrow_mut().files.insert(path.to_owned(), content);
    }

    fn used(&self) -> u64 {
        let state = self.0.borrow();
        let sizes = state.files.values().map(|it| it.seen.len() as u64);
        sizes.sum()
    }

    fn available(&self) -> Result<(), DiskError> {
        match &self.0.borrow().unavailable {
            Some(detail) => Err(DiskError::Unavailable {
                detail: detail.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Counts a change; false when the power is gone.
    fn change(&self, path: &str) -> Result<(), DiskError> {
        self.available()?;
        let state = &mut *self.0.borrow_mut();
        match &mut state.changes_left {
            Some(0) => return Err(DiskError::io(path, "the power is gone")),
            Some(left) => *left -= 1,
            None => {}
        }
        state.changes += 1;
        Ok(())
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    async fn open(&self, path: &str, mode: Mode) -> Result<MemoryFile, DiskError> {
        parts(path)?;
        self.available()?;
        let is_there = self.0.borrow().files.contains_key(path);
        if mode == Mode::Read && !is_there {
            return Err(DiskError::Missing {
                path: path.to_owned(),
            });
        }
        if mode == Mode::Write {
            if self.0.borrow().open.contains(path) {
                return Err(DiskError::Locked {
                    path: path.to_owned(),
                });
            }
            if !is_there {
                self.change(path)?;
            }
            let mut state = self.0.borrow_mut();
            state.files.entry(path.to_owned()).or_default();
            state.open.insert(path.to_owned());
        }
        Ok(MemoryFile {
            epoch: self.0.borrow().epoch,
            disk: self.clone(),
            path: path.to_owned(),
            mode,
        })
    }

    async fn remove(&self, path: &str) -> Result<(), DiskError> {
        parts(path)?;
        let inside = format!("{path}/");
        let is_it = |it: &String| it == path || it.starts_with(&inside);
        if self.0.borrow().open.iter().any(is_it) {
            return Err(DiskError::Locked {
                path: path.to_owned(),
            });
        }
        let all: Vec<String> = self.paths().into_iter().filter(is_it).collect();
        for path in all {
            self.change(&path)?;
            let state = &mut *self.0.borrow_mut();
            if let Some(content) = state.files.remove(&path) {
                state.removed.push((path, content.safe));
            }
        }
        Ok(())
    }

    async fn list(&self, path: &str) -> Result<Vec<Item>, DiskError> {
        self.available()?;
        let inside = match path {
            "" => String::new(),
            path => format!("{path}/"),
        };
        let state = self.0.borrow();
        let mut items: Vec<Item> = Vec::new();
        for (path, content) in &state.files {
            let Some(rest) = path.strip_prefix(&inside) else {
                continue;
            };
            let (name, folder) = match rest.split_once('/') {
                Some((folder, _)) => (folder, true),
                None => (rest, false),
            };
            items.push(Item {
                name: name.to_owned(),
                bytes: (!folder).then_some(content.seen.len() as u64),
                folder,
            });
        }
        items.sort_unstable();
        items.dedup();
        Ok(items)
    }

    async fn estimate(&self) -> Option<Estimate> {
        let quota = self.0.borrow().room?;
        let used = self.used();
        Some(Estimate { used, quota })
    }

    async fn persist(&self, _ask: bool) -> Option<bool> {
        None
    }
}

/// A file of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    path: String,
    mode: Mode,
    epoch: u32,
}

impl MemoryFile {
    fn with<T>(&self, take: impl FnOnce(&mut Content) -> T) -> Result<T, DiskError> {
        self.disk.available()?;
        let state = &mut *self.disk.0.borrow_mut();
        match state.files.get_mut(&self.path) {
            Some(content) if state.epoch == self.epoch => Ok(take(content)),
            _ => Err(DiskError::Missing {
                path: self.path.clone(),
            }),
        }
    }

    fn writable(&self) -> Result<(), DiskError> {
        match self.mode {
            Mode::Write => self.disk.change(&self.path),
            Mode::Read => Err(DiskError::io(&self.path, "it is open for reading")),
        }
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> Result<u64, DiskError> {
        self.with(|content| content.seen.len() as u64)
    }

    async fn read(&self, at: u64, to: &mut [u8]) -> Result<(), DiskError> {
        let len = to.len();
        let read = self.with(|content| {
            let start = usize::try_from(at).ok()?;
            to.copy_from_slice(content.seen.get(start..start.checked_add(len)?)?);
            Some(())
        })?;
        read.ok_or_else(|| DiskError::io(&self.path, "the file ends early"))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.writable()?;
        let used = self.disk.used();
        let room = self.disk.0.borrow().room;
        let size = self.size()?;
        let grows = (at + bytes.len() as u64).saturating_sub(size);
        let fits = room.map_or(u64::MAX, |room| room.saturating_sub(used));
        let all = bytes.len() as u64;
        let taken = (all - grows.saturating_sub(fits)) as usize;
        self.with(|content| {
            let change = Change::Write(at as usize, bytes[..taken].to_vec());
            change.apply(&mut content.seen, usize::MAX);
            content.since.push(change);
        })?;
        match taken < bytes.len() {
            true => Err(DiskError::Full),
            false => Ok(()),
        }
    }

    fn truncate(&mut self, size: u64) -> Result<(), DiskError> {
        self.writable()?;
        self.with(|content| {
            let change = Change::Truncate(size as usize);
            change.apply(&mut content.seen, 0);
            content.since.push(change);
        })
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.writable()?;
        self.with(|content| {
            content.since.clear();
            content.safe.clone_from(&content.seen);
        })
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.disk.0.borrow_mut();
        if self.mode == Mode::Write && state.epoch == self.epoch {
            state.open.remove(&self.path);
        }
    }
}

/// Chance, the same for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}
