//! Which shards of an unfinished conversion are finished.
//!
//! A text file in the folder that is written: a line that says which conversion it is, then a line for
//! every finished shard. A line that is cut off is as if it were not there, so nothing is lost when the
//! program is stopped while it writes one.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::Context;
use weights::digest::{hex, parse_hex};
use weights::manifest::Shard;

/// Begins the first line; with the version of the format.
const TITLE: &str = "playground-conversion 1";
/// Longest journal that is read, in bytes: more than all shards that a package may have.
const MAX_BYTES: u64 = 4 << 20;

/// A finished shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub index: usize,
    pub bytes: u64,
    pub sha256: [u8; 32],
}

/// The record of a conversion.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    entries: Vec<Finished>,
}

impl Journal {
    /// Opens the journal at `path`, which is made if it is not there or holds nothing; `None` if it is of
    /// another conversion.
    pub fn open(path: PathBuf, identity: &[u8; 32]) -> anyhow::Result<Option<Self>> {
        let failed = || path.display().to_string();
        let first = format!("{TITLE} {}", hex(identity));
        let text = match fs::metadata(&path) {
            Ok(metadata) if metadata.len() > MAX_BYTES => return Ok(None),
            Ok(_) => fs::read(&path).with_context(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(failed),
        };
        let text = String::from_utf8_lossy(&text);
        // Without the line that may be cut off.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines();
        let entries = match lines.next() {
            Some(line) if line == first => lines.map_while(entry).collect(),
            Some(_) => return Ok(None),
            None => Vec::new(),
        };
        let journal = Self { path, entries };
        journal.rewrite(&first)?;
        Ok(Some(journal))
    }

    /// Puts what was understood in place of the file, so that a cut line is not continued.
    fn rewrite(&self, first: &str) -> anyhow::Result<()> {
        let mut text = format!("{first}\n");
        for entry in &self.entries {
            text += &line(entry);
        }
        let part = self.path.with_extension("part");
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, &self.path))
            .with_context(|| format!("{} cannot be written", self.path.display()))
    }

    /// The finished shards. A shard that was written again is listed again; the last entry holds.
    pub fn entries(&self) -> &[Finished] {
        &self.entries
    }

    /// Adds a shard that is finished.
    pub fn add(&mut self, index: usize, shard: &Shard) -> anyhow::Result<()> {
        let entry = Finished {
            index,
            bytes: shard.bytes,
            sha256: shard.sha256,
        };
        OpenOptions::new()
            .append(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(line(&entry).as_bytes()))
            .with_context(|| format!("{} cannot be written", self.path.display()))?;
        self.entries.push(entry);
        Ok(())
    }

    /// Deletes the file: all is finished.
    pub fn remove(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| self.path.display().to_string())
    }
}

fn line(entry: &Finished) -> String {
    let Finished {
        index,
        bytes,
        sha256,
    } = entry;
    format!("{index} {bytes} {}\n", hex(sha256))
}

fn entry(line: &str) -> Option<Finished> {
    let mut words = line.split(' ');
    let entry = Finished {
        index: words.next()?.parse().ok()?,
        bytes: words.next()?.parse().ok()?,
        sha256: parse_hex(words.next()?)?,
    };
    words.next().is_none().then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(byte: u8) -> Shard {
        Shard {
            file: String::new(),
            bytes: u64::from(byte) * 1000,
            sha256: [byte; 32],
        }
    }

    #[test]
    fn what_was_finished_is_remembered_wherever_the_file_is_cut() {
        let path = std::env::temp_dir().join(format!("journal-{}", std::process::id()));
        drop(fs::remove_file(&path));
        let open = |identity| Journal::open(path.clone(), &[identity; 32]).expect("a journal");
        let mut journal = open(1).expect("a new one");
        journal.add(0, &shard(3)).expect("written");
        journal.add(7, &shard(4)).expect("written");
        assert!(open(2).is_none());
        let whole = fs::read(&path).expect("the file");
        for cut in (0..=whole.len()).rev() {
            fs::write(&path, &whole[..cut]).expect("written");
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let journal = open(1).expect("the same conversion");
            assert_eq!(
                journal.entries().len(),
                lines.saturating_sub(1),
                "cut at {cut}"
            );
            for (entry, (index, byte)) in journal.entries().iter().zip([(0, 3), (7, 4)]) {
                let Shard { bytes, sha256, .. } = shard(byte);
                assert_eq!(
                    *entry,
                    Finished {
                        index,
                        bytes,
                        sha256
                    }
                );
            }
        }
        let mut journal = open(1).expect("the same conversion");
        journal.add(2, &shard(9)).expect("written");
        assert_eq!(open(1).expect("it").entries().len(), 1);
        open(1).expect("it").remove().expect("removed");
        assert!(!path.exists());
    }
}
