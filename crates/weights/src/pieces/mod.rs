//! A source cut into pieces that are checked, kept and resumed.
//!
//! [`Pieces`] holds one piece in memory at a time. No byte of a piece is handed out before the piece is
//! there and its SHA-256 is what it has to be: as the model's manifest tells it, else as it was when the
//! piece first arrived. What arrives is appended to an [`Entry`] of a [`Store`](crate::store::Store) on
//! the way, so that a load that breaks off goes on where it was.

mod buffer;
mod part;

use std::fmt;

use self::buffer::Buffer;
use self::part::{MAX_STEP_BYTES, Part};
use crate::store::{Disk, DiskError, DiskFile, Entry, MemoryDisk, Mode};
use crate::{ByteSource, SourceError};

/// Largest piece in bytes: 64 MiB.
pub const MAX_PIECE_BYTES: u64 = 64 << 20;
/// Most pieces of a model.
pub const MAX_PIECES: usize = 65_536;
/// Bytes that may be lost when the power fails.
const FLUSH_BYTES: u64 = 8 << 20;
/// How often a piece is fetched whole before its origin counts as damaged.
const FETCHES: u32 = 2;

/// A piece of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What to call it in messages: the name of the shard, or of the file that it is a part of.
    pub file: String,
    /// Its size in bytes: at least 1, at most [`MAX_PIECE_BYTES`].
    pub bytes: u64,
    /// What its SHA-256 has to be, where that is known.
    pub sha256: Option<[u8; 32]>,
}

/// Cuts `total` bytes into pieces of `piece_bytes` bytes, the last of them shorter; `file` is what to
/// call them.
///
/// # Errors
/// [`SourceError::BadAnswer`] when they would be too many or too large.
pub fn cut(file: &str, total: u64, piece_bytes: u64) -> Result<Vec<Piece>, SourceError> {
    let bad = |detail: String| SourceError::BadAnswer {
        url: file.to_owned(),
        detail,
    };
    if !(1..=MAX_PIECE_BYTES).contains(&piece_bytes) {
        return Err(bad(format!(
            "pieces of {piece_bytes} bytes; they have 1 to {MAX_PIECE_BYTES}"
        )));
    }
    let count = total.div_ceil(piece_bytes);
    if count > MAX_PIECES as u64 {
        return Err(bad(format!(
            "{total} bytes are more than {MAX_PIECES} pieces of {piece_bytes}"
        )));
    }
    let piece = |index: u64| Piece {
        file: file.to_owned(),
        bytes: piece_bytes.min(total - index * piece_bytes),
        sha256: None,
    };
    Ok((0..count).map(piece).collect())
}

/// Where a piece is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The disk.
    Disk,
    /// The origin.
    Origin,
}

/// What happens while pieces are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A piece is arriving.
    Arriving {
        /// Which, from 0.
        piece: usize,
        /// From where its bytes are coming now.
        from: From,
        /// Bytes of it that are here.
        done: u64,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A piece is here and its checksum is being computed.
    Hashing {
        /// Which, from 0.
        piece: usize,
    },
    /// A piece is what it has to be. Where nothing is known of it and nothing is kept, it is taken as
    /// it came.
    Verified {
        /// Which, from 0.
        piece: usize,
        /// From where the last of its bytes came.
        from: From,
        /// Whether it is complete on the disk.
        kept: bool,
    },
    /// A piece is not what it has to be. It is fetched again if that may help.
    Damaged {
        /// Which, from 0.
        piece: usize,
        /// Where it was read from.
        from: From,
    },
    /// From now on nothing is kept. What is on the disk stays there.
    NotKept {
        /// Why.
        why: DiskError,
    },
    /// The model has changed at its origin: what was kept of it was deleted.
    Discarded,
}

/// What [`Pieces::finish`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Pieces in all; each of them was verified since the source was made.
    pub pieces: usize,
    /// Pieces that are complete on the disk.
    pub kept: usize,
    /// Bytes that came from the origin.
    pub fetched: u64,
    /// Bytes that came from the disk.
    pub read_back: u64,
}

/// Says whether to go on.
struct Stop {
    name: String,
    wanted: Box<dyn Fn() -> bool>,
}

impl Stop {
    fn check(&self) -> Result<(), SourceError> {
        if (self.wanted)() {
            let name = self.name.clone();
            return Err(SourceError::Cancelled { name });
        }
        Ok(())
    }
}

/// A source whose pieces are checked, and kept where there is an [`Entry`] for them.
///
/// `D` is the disk that the entry is on; without one, any.
pub struct Pieces<S, D: Disk = MemoryDisk> {
    name: String,
    origin: Option<S>,
    pieces: Vec<Piece>,
    /// Where each piece begins, and the end.
    starts: Vec<u64>,
    entry: Option<Entry<D>>,
    /// Memory for the largest piece, once it is needed.
    buffer: Option<Buffer>,
    /// The piece in the buffer, verified.
    held: Option<usize>,
    verified: Vec<bool>,
    step: Vec<u8>,
    step_bytes: usize,
    flush_bytes: u64,
    fetched: u64,
    read_back: u64,
    notify: Box<dyn FnMut(Notice)>,
    stop: Stop,
}

impl<S, D: Disk> fmt::Debug for Pieces<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces")
            .field("name", &self.name)
            .field("pieces", &self.pieces.len())
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl<S: ByteSource, D: Disk> Pieces<S, D> {
    /// The source that consists of `pieces`, one after another, called `name` in messages. What is not in
    /// `entry` is read from `origin`, whose addresses are the same; without an origin it is an error.
    ///
    /// The pieces of the entry must have the sizes of `pieces`; an entry of other sizes is not used.
    ///
    /// # Errors
    /// [`SourceError::BadAnswer`] for pieces that are too large, too many or empty.
    pub fn new(
        name: impl Into<String>,
        origin: Option<S>,
        pieces: Vec<Piece>,
        entry: Option<Entry<D>>,
    ) -> Result<Self, SourceError> {
        let name = name.into();
        let bad = |detail: String| SourceError::BadAnswer {
            url: name.clone(),
            detail,
        };
        if pieces.len() > MAX_PIECES {
            let count = pieces.len();
            return Err(bad(format!(
                "{count} pieces; at most {MAX_PIECES} are read"
            )));
        }
        let mut starts = vec![0];
        let mut end = 0;
        for piece in &pieces {
            if !(1..=MAX_PIECE_BYTES).contains(&piece.bytes) {
                let (file, bytes) = (&piece.file, piece.bytes);
                return Err(bad(format!(
                    "{file} has {bytes} bytes; a piece has 1 to {MAX_PIECE_BYTES}"
                )));
            }
            // At most 2^16 times 2^26.
            end += piece.bytes;
            starts.push(end);
        }
        let fits = |entry: &Entry<D>| {
            let sizes = entry.pieces().into_iter().map(|piece| piece.bytes);
            sizes.eq(pieces.iter().map(|piece| piece.bytes))
        };
        Ok(Self {
            verified: vec![false; pieces.len()],
            entry: entry.filter(fits),
            stop: Stop {
                name: name.clone(),
                wanted: Box::new(|| false),
            },
            name,
            origin,
            pieces,
            starts,
            buffer: None,
            held: None,
            step: Vec::new(),
            step_bytes: MAX_STEP_BYTES,
            flush_bytes: FLUSH_BYTES,
            fetched: 0,
            read_back: 0,
            notify: Box::new(drop),
        })
    }

    /// Tells `notify` what happens.
    #[must_use]
    pub fn notify(mut self, notify: impl FnMut(Notice) + 'static) -> Self {
        self.notify = Box::new(notify);
        self
    }

    /// Reading ends with [`SourceError::Cancelled`] when `wanted` is true; it is asked at each step.
    #[must_use]
    pub fn stop_when(mut self, wanted: impl Fn() -> bool + 'static) -> Self {
        self.stop.wanted = Box::new(wanted);
        self
    }

    /// Reads in steps of `step` bytes, at most 1 MiB, and flushes after `flush` bytes: for tests.
    #[must_use]
    pub fn steps(mut self, step: usize, flush: u64) -> Self {
        self.step_bytes = step.clamp(1, MAX_STEP_BYTES);
        self.flush_bytes = flush;
        self
    }

    /// Whether what arrives is kept: `None` if that was not asked for.
    pub fn keeps(&self) -> Option<Result<(), &DiskError>> {
        self.entry.as_ref().map(Entry::keeps)
    }

    /// The entry that the pieces are kept in.
    pub fn entry(&self) -> Option<&Entry<D>> {
        self.entry.as_ref()
    }

    /// The entry that the pieces are kept in, to keep small files too.
    pub fn entry_mut(&mut self) -> Option<&mut Entry<D>> {
        self.entry.as_mut()
    }

    /// Where pieces come from that are not kept.
    pub fn origin(&self) -> Option<&S> {
        self.origin.as_ref()
    }

    /// Bytes that came from the origin so far.
    pub fn fetched(&self) -> u64 {
        self.fetched
    }

    /// Reads and verifies every piece that was not verified yet: when this is done, all are. Pieces that
    /// have no checksum to be compared with and are not kept are left out.
    ///
    /// # Errors
    /// As reading them.
    pub async fn finish(&mut self) -> Result<Finished, SourceError> {
        for piece in 0..self.pieces.len() {
            let is_checked = self.pieces[piece].sha256.is_some() || self.entry.is_some();
            if !self.verified[piece] && is_checked {
                self.hold(piece).await?;
            }
        }
        self.rest();
        Ok(Finished {
            pieces: self.pieces.len(),
            kept: self.entry.as_ref().map_or(0, Entry::complete),
            fetched: self.fetched,
            read_back: self.read_back,
        })
    }

    /// Gets a piece into the buffer, verified.
    async fn hold(&mut self, piece: usize) -> Result<(), SourceError> {
        if self.held == Some(piece) {
            return Ok(());
        }
        self.held = None;
        self.stop.check()?;
        let mut buffer = self.take_buffer()?;
        let held = match self.read_back_piece(piece, &mut buffer).await {
            Ok(false) => self.complete_piece(piece, &mut buffer).await,
            other => other.map(drop),
        };
        self.buffer = Some(buffer);
        held?;
        self.held = Some(piece);
        self.verified[piece] = true;
        Ok(())
    }

    fn take_buffer(&mut self) -> Result<Buffer, SourceError> {
        if let Some(buffer) = self.buffer.take() {
            return Ok(buffer);
        }
        let bytes = self.pieces.iter().map(|piece| piece.bytes).max();
        // At most `MAX_PIECE_BYTES`.
        let bytes = bytes.unwrap_or_default() as usize;
        Buffer::new(bytes).ok_or_else(|| SourceError::Io {
            name: self.name.clone(),
            detail: format!(
                "there is no memory for a piece of {bytes} bytes; close other tabs and load again"
            ),
        })
    }

    fn arriving(&mut self, piece: usize, from: From, done: u64) {
        let bytes = self.pieces[piece].bytes;
        (self.notify)(Notice::Arriving {
            piece,
            from,
            done,
            bytes,
        });
    }

    async fn digest(&mut self, piece: usize, buffer: &Buffer) -> [u8; 32] {
        (self.notify)(Notice::Hashing { piece });
        buffer.digest(self.pieces[piece].bytes as usize).await
    }

    /// Reads a piece that is complete on the disk; false if it is not, or not any more.
    async fn read_back_piece(
        &mut self,
        piece: usize,
        buffer: &mut Buffer,
    ) -> Result<bool, SourceError> {
        let Some(entry) = &self.entry else {
            return Ok(false);
        };
        let Some(sha256) = entry.kept(piece) else {
            return Ok(false);
        };
        let (bytes, expected) = (self.pieces[piece].bytes, self.pieces[piece].sha256);
        let path = entry.piece_path(piece);
        let file = entry.disk().open(&path, Mode::Read).await;
        let file = match file.and_then(|file| Ok((file.size()?, file))) {
            Ok((size, file)) if size >= bytes => file,
            // It is there and cannot be read now.
            Err(DiskError::Locked { .. } | DiskError::Unavailable { .. }) => return Ok(false),
            _ => {
                self.damaged(piece).await;
                return Ok(false);
            }
        };
        let mut done = 0;
        while done < bytes {
            self.stop.check()?;
            self.step.clear();
            let len = (bytes - done).min(self.step_bytes as u64);
            self.step.resize(len as usize, 0);
            if file.read(done, &mut self.step).await.is_err() {
                drop(file);
                self.damaged(piece).await;
                return Ok(false);
            }
            buffer.put(done as usize, &self.step);
            done += len;
            self.read_back += len;
            self.arriving(piece, From::Disk, done);
        }
        drop(file);
        let found = self.digest(piece, buffer).await;
        if found != sha256 || expected.is_some_and(|expected| expected != found) {
            self.damaged(piece).await;
            return Ok(false);
        }
        (self.notify)(Notice::Verified {
            piece,
            from: From::Disk,
            kept: true,
        });
        Ok(true)
    }

    /// A piece on the disk is not what it has to be.
    async fn damaged(&mut self, piece: usize) {
        let from = From::Disk;
        (self.notify)(Notice::Damaged { piece, from });
        let Some(entry) = &mut self.entry else {
            return;
        };
        let kept = entry.keeps().is_ok();
        entry.forget(piece).await;
        if let (true, Err(why)) = (kept, entry.keeps()) {
            let why = why.clone();
            (self.notify)(Notice::NotKept { why });
        }
    }

    /// Keeps nothing from now on.
    fn stop_keeping(&mut self, why: DiskError) {
        if let Some(entry) = &mut self.entry
            && entry.keeps().is_ok()
        {
            entry.stop(why);
            if let Err(why) = entry.keeps() {
                let why = why.clone();
                (self.notify)(Notice::NotKept { why });
            }
        }
    }

    /// Gets a piece from what there is of it on the disk and from the origin.
    async fn complete_piece(
        &mut self,
        piece: usize,
        buffer: &mut Buffer,
    ) -> Result<(), SourceError> {
        let Piece {
            file,
            bytes,
            sha256: expected,
        } = self.pieces[piece].clone();
        let mut part = self.open_part(piece, buffer).await?;
        let mut fetches = 0;
        loop {
            let have = part.as_ref().map_or(0, Part::at);
            fetches += u32::from(have == 0);
            if have > 0 {
                self.read_back += have;
                self.arriving(piece, From::Disk, have);
            }
            if let Err(error) = self.fetch(piece, have, &mut part, buffer).await {
                if let Some(part) = &mut part {
                    // It is as well if this fails: its checksums tell what is there.
                    drop(part.flush());
                }
                drop(part);
                if matches!(error, SourceError::Changed { .. }) && expected.is_none() {
                    self.discard().await;
                }
                return Err(error);
            }
            let from = match have < bytes {
                true => From::Origin,
                false => From::Disk,
            };
            if expected.is_none() && part.is_none() {
                let kept = false;
                (self.notify)(Notice::Verified { piece, from, kept });
                return Ok(());
            }
            let found = self.digest(piece, buffer).await;
            if expected.is_none_or(|expected| expected == found) {
                let kept = self.complete(piece, part, found).await;
                (self.notify)(Notice::Verified { piece, from, kept });
                return Ok(());
            }
            (self.notify)(Notice::Damaged { piece, from });
            if let Some(Err(why)) = part.as_mut().map(Part::clear) {
                part = None;
                self.stop_keeping(why);
            }
            if fetches == FETCHES {
                return Err(SourceError::BadAnswer {
                    url: self.name.clone(),
                    detail: format!(
                        "{file}, fetched twice, does not have the SHA-256 checksum that it should \
                         have; the file is damaged or another one at its origin: load it again later \
                         or from elsewhere"
                    ),
                });
            }
        }
    }

    /// Opens what there is of an incomplete piece, where pieces are kept.
    async fn open_part(
        &mut self,
        piece: usize,
        buffer: &mut Buffer,
    ) -> Result<Option<Part<D::File>>, SourceError> {
        let Some(entry) = self.entry.as_ref().filter(|entry| entry.keeps().is_ok()) else {
            return Ok(None);
        };
        let bytes = self.pieces[piece].bytes;
        let part = Part::open(entry, piece, bytes, buffer, &mut self.step, &self.stop);
        match part.await? {
            Ok(part) => Ok(Some(part)),
            Err(why) => {
                self.stop_keeping(why);
                Ok(None)
            }
        }
    }

    /// Reads the rest of a piece from the origin.
    async fn fetch(
        &mut self,
        piece: usize,
        have: u64,
        part: &mut Option<Part<D::File>>,
        buffer: &mut Buffer,
    ) -> Result<(), SourceError> {
        let (start, bytes) = (self.starts[piece], self.pieces[piece].bytes);
        let mut done = have;
        while done < bytes {
            self.stop.check()?;
            let Some(origin) = &mut self.origin else {
                return Err(SourceError::Io {
                    name: self.name.clone(),
                    detail: format!(
                        "{} is not stored here whole; load the model from its origin",
                        self.pieces[piece].file
                    ),
                });
            };
            let len = (bytes - done).min(self.step_bytes as u64) as usize;
            self.step.clear();
            origin.read(start + done, &mut self.step, len).await?;
            buffer.put(done as usize, &self.step);
            self.fetched += len as u64;
            done += len as u64;
            if let Some(open) = part
                && let Err(why) = open.append(&self.step, self.flush_bytes)
            {
                *part = None;
                self.stop_keeping(why);
            }
            self.arriving(piece, From::Origin, done);
        }
        Ok(())
    }

    /// Records a piece as complete; whether it is.
    async fn complete(
        &mut self,
        piece: usize,
        part: Option<Part<D::File>>,
        sha256: [u8; 32],
    ) -> bool {
        let (Some(mut part), Some(entry)) = (part, &mut self.entry) else {
            return false;
        };
        let flushed = part.flush();
        // A file that is open cannot be removed, nor read by others.
        drop(part);
        let kept = match flushed {
            Ok(()) => entry.set_kept(piece, sha256).await,
            Err(error) => Err(error),
        };
        match kept {
            Ok(()) => true,
            Err(why) => {
                self.stop_keeping(why);
                false
            }
        }
    }

    /// The origin is another one now.
    async fn discard(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.discard().await;
            self.verified.fill(false);
            (self.notify)(Notice::Discarded);
        }
    }
}

impl<S: ByteSource, D: Disk> ByteSource for Pieces<S, D> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> Option<u64> {
        self.starts.last().copied()
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let size = self.size().unwrap_or_default();
        let end = offset.checked_add(len as u64);
        let Some(end) = end.filter(|end| *end <= size) else {
            return Err(SourceError::PastEnd {
                name: self.name.clone(),
                offset,
                len: len as u64,
                size,
            });
        };
        let old = buf.len();
        buf.resize(old + len, 0);
        let mut at = offset;
        while at < end {
            // The last piece that begins at or before this byte; `starts` begins with 0.
            let piece = self.starts.partition_point(|start| *start <= at) - 1;
            if let Err(error) = self.hold(piece).await {
                buf.truncate(old);
                return Err(error);
            }
            let count = (self.starts[piece + 1].min(end) - at) as usize;
            let to = old + (at - offset) as usize;
            if let Some(buffer) = &self.buffer {
                let from = (at - self.starts[piece]) as usize;
                buffer.copy(from, &mut buf[to..to + count]);
            }
            at += count as u64;
        }
        Ok(())
    }

    fn rest(&mut self) {
        if let Some(origin) = &mut self.origin {
            origin.rest();
        }
    }
}

/// Stirs bytes into a number: a quick checksum against accidents, not against anybody.
pub(crate) fn mix(seed: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let stir = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let words = bytes.chunks_exact(8);
    let mut last = [0; 8];
    let rest = words.remainder();
    last[..rest.len()].copy_from_slice(rest);
    let mut sum = stir(seed ^ FACTOR, bytes.len() as u64);
    for word in words {
        let mut number = [0; 8];
        number.copy_from_slice(word);
        sum = stir(sum, u64::from_le_bytes(number));
    }
    sum = stir(sum, u64::from_le_bytes(last));
    sum ^ (sum >> 32)
}
