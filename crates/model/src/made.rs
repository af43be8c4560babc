//! Bytes that are made when they are read, a stretch at a time.

use weights::source::{ByteSource, SourceError};

/// The bytes that were made last, and where they are.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) start: u64,
}

impl Stretch {
    /// What there is from the byte at `offset` on; empty where that is elsewhere.
    fn from(&self, offset: u64) -> &[u8] {
        let at = offset.checked_sub(self.start).map(usize::try_from);
        match at {
            Some(Ok(at)) => self.bytes.get(at..).unwrap_or_default(),
            _ => &[],
        }
    }
}

/// A source whose bytes are made.
pub(crate) trait Made: ByteSource {
    /// What was made last.
    fn stretch(&self) -> &Stretch;

    /// Makes the bytes around the one at `offset`, which is inside, or fails and leaves none.
    async fn make(&mut self, offset: u64) -> Result<(), SourceError>;
}

/// [`ByteSource::read`] of a source whose bytes are made.
pub(crate) async fn read<M: Made>(
    made: &mut M,
    offset: u64,
    buf: &mut Vec<u8>,
    len: usize,
) -> Result<(), SourceError> {
    let size = made.size().unwrap_or(u64::MAX);
    let end = offset.checked_add(len as u64);
    let Some(end) = end.filter(|end| *end <= size) else {
        return Err(SourceError::PastEnd {
            name: made.name(),
            offset,
            len: len as u64,
            size,
        });
    };
    let old = buf.len();
    buf.reserve(len);
    let mut at = offset;
    while at < end {
        if made.stretch().from(at).is_empty()
            && let Err(error) = made.make(at).await
        {
            buf.truncate(old);
            return Err(error);
        }
        let ready = made.stretch().from(at);
        let ready = &ready[..ready.len().min((end - at) as usize)];
        buf.extend_from_slice(ready);
        at += ready.len() as u64;
    }
    Ok(())
}
