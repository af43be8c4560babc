//! A piece that is not complete yet, on the disk.
//!
//! Beside its bytes there is a file of checksums, one for each step that was appended. So whatever a crash
//! leaves of both, only bytes that were written as they are count.

use super::buffer::Buffer;
use super::{Stop, mix};
use crate::SourceError;
use crate::store::{Disk, DiskError, DiskFile, Entry, Mode};

/// Bytes of a step's entry: where it ends and its checksum.
const ENTRY_BYTES: usize = 16;
/// Longest step, in bytes.
pub(super) const MAX_STEP_BYTES: usize = 1 << 20;

/// An incomplete piece, open for appending.
#[derive(Debug)]
pub(super) struct Part<F> {
    data: F,
    sums: F,
    seed: u64,
    at: u64,
    entries: u64,
    /// Bytes since the last flush.
    loose: u64,
}

impl<F: DiskFile> Part<F> {
    /// Opens what there is of a piece of `bytes` bytes and puts it into the buffer.
    ///
    /// # Errors
    /// The disk's; the outer ones are [`SourceError::Cancelled`].
    pub(super) async fn open<D: Disk<File = F>>(
        entry: &Entry<D>,
        piece: usize,
        bytes: u64,
        buffer: &mut Buffer,
        step: &mut Vec<u8>,
        stop: &Stop,
    ) -> Result<Result<Self, DiskError>, SourceError> {
        let opened = async {
            let (data, sums) = (entry.piece_path(piece), entry.sums_path(piece));
            let data = entry.disk().open(&data, Mode::Write).await?;
            let sums = entry.disk().open(&sums, Mode::Write).await?;
            let entries = read_entries(&sums, bytes).await?;
            let size = data.size()?;
            Ok((data, sums, entries, size))
        };
        let (data, sums, entries, size) = match opened.await {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let mut part = Self {
            data,
            sums,
            seed: mix(entry.salt(), &(piece as u64).to_le_bytes()),
            at: 0,
            entries: 0,
            loose: 0,
        };
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            stop.check()?;
            let [end, sum] = [0, 8].map(|at| {
                let mut number = [0; 8];
                number.copy_from_slice(&entry[at..at + 8]);
                u64::from_le_bytes(number)
            });
            let fits =
                end > part.at && end - part.at <= MAX_STEP_BYTES as u64 && end <= bytes.min(size);
            if !fits {
                break;
            }
            step.clear();
            step.resize((end - part.at) as usize, 0);
            let read = part.data.read(part.at, step).await;
            if read.is_err() || part.sum(step) != sum {
                break;
            }
            buffer.put(part.at as usize, step);
            part.at = end;
            part.entries += 1;
        }
        let cut = part
            .sums
            .truncate(part.entries * ENTRY_BYTES as u64)
            .and_then(|()| part.data.truncate(part.at));
        Ok(cut.map(|()| part))
    }

    /// Bytes that are there.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn sum(&self, step: &[u8]) -> u64 {
        mix(mix(self.seed, &self.at.to_le_bytes()), step)
    }

    /// Appends a step; flushes when `often` bytes are loose.
    pub(super) fn append(&mut self, step: &[u8], often: u64) -> Result<(), DiskError> {
        let end = self.at + step.len() as u64;
        let mut entry = [0; ENTRY_BYTES];
        entry[..8].copy_from_slice(&end.to_le_bytes());
        entry[8..].copy_from_slice(&self.sum(step).to_le_bytes());
        self.data.write(self.at, step)?;
        self.sums.write(self.entries * ENTRY_BYTES as u64, &entry)?;
        self.at = end;
        self.entries += 1;
        self.loose += step.len() as u64;
        match self.loose >= often {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) -> Result<(), DiskError> {
        self.at = 0;
        self.entries = 0;
        self.loose = 0;
        self.sums.truncate(0)?;
        self.data.truncate(0)
    }

    /// Sees to it that what is there stays.
    pub(super) fn flush(&mut self) -> Result<(), DiskError> {
        self.loose = 0;
        self.data.flush()?;
        self.sums.flush()
    }
}

/// As many entries as a piece of `bytes` bytes can have.
async fn read_entries<F: DiskFile>(sums: &F, bytes: u64) -> Result<Vec<u8>, DiskError> {
    // Steps may be short, but there are never more entries than this in what we write ourselves.
    let most = (bytes.saturating_mul(ENTRY_BYTES as u64)).min(MAX_STEP_BYTES as u64);
    let size = sums.size()?.min(most);
    let mut entries = vec![0; size as usize];
    sums.read(0, &mut entries).await?;
    Ok(entries)
}
