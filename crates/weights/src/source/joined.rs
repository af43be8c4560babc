//! Several sources as one.

use super::{ByteSource, SourceError};

/// Several sources in one address space, one after another; a read may cross their borders.
///
/// Only one of them is kept busy: when reading goes on in another, the one before it is told to
/// [rest](ByteSource::rest), since a browser opens few connections to one server.
#[derive(Debug)]
pub struct Joined<S> {
    parts: Vec<Part<S>>,
    /// The part that was read last.
    current: usize,
}

#[derive(Debug)]
struct Part<S> {
    source: S,
    /// Where it begins in the common address space.
    start: u64,
    /// Bytes of it; `None` for a last part of unknown size.
    size: Option<u64>,
}

impl<S: ByteSource> Joined<S> {
    /// One source, of a size that need not be known.
    pub fn one(source: S) -> Self {
        let part = Part {
            size: None,
            start: 0,
            source,
        };
        Self {
            parts: vec![part],
            current: 0,
        }
    }

    /// Sources that know their sizes.
    ///
    /// # Errors
    /// [`SourceError::NoSize`] when one does not; [`SourceError::TooLarge`] when all together are
    /// beyond what 63 bits address.
    pub fn new(sources: Vec<S>) -> Result<Self, SourceError> {
        let sized = sources.into_iter().map(|source| match source.size() {
            Some(size) => Ok((source, size)),
            None => Err(SourceError::NoSize {
                name: source.name(),
            }),
        });
        Self::with_sizes(sized.collect::<Result<_, _>>()?)
    }

    /// Sources with the number of bytes that each of them takes, as a manifest tells it. A source that
    /// has fewer fails when they are read; bytes beyond are never read.
    ///
    /// # Errors
    /// [`SourceError::TooLarge`] when all together are beyond what 63 bits address.
    pub fn with_sizes(sources: Vec<(S, u64)>) -> Result<Self, SourceError> {
        let mut parts = Vec::with_capacity(sources.len());
        let mut start = 0u64;
        for (source, size) in sources {
            let limit = i64::MAX as u64 - start;
            if size > limit {
                let name = source.name();
                return Err(SourceError::TooLarge { name, size, limit });
            }
            parts.push(Part {
                source,
                start,
                size: Some(size),
            });
            start += size;
        }
        Ok(Self { parts, current: 0 })
    }

    /// The sources in order.
    pub fn sources(&self) -> impl Iterator<Item = &S> {
        self.parts.iter().map(|part| &part.source)
    }

    /// The sources in order.
    pub fn sources_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.parts.iter_mut().map(|part| &mut part.source)
    }

    /// The sources in order.
    pub fn into_sources(self) -> Vec<S> {
        self.parts.into_iter().map(|part| part.source).collect()
    }

    /// Where each source begins in the common address space.
    pub fn starts(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|part| part.start)
    }

    /// The part that holds the byte at `offset`. Empty parts hold none.
    fn part_at(&self, offset: u64) -> Option<usize> {
        let index = self
            .parts
            .partition_point(|part| part.start <= offset)
            .checked_sub(1)?;
        let part = &self.parts[index];
        let inside = part.size.is_none_or(|size| offset - part.start < size);
        inside.then_some(index)
    }
}

impl<S: ByteSource> ByteSource for Joined<S> {
    /// The name of the part that was read last, so that an error that is built from it names the file.
    fn name(&self) -> String {
        match self.parts.get(self.current) {
            Some(part) => part.source.name(),
            None => "nothing".to_owned(),
        }
    }

    fn size(&self) -> Option<u64> {
        match self.parts.last() {
            None => Some(0),
            Some(part) => Some(part.start + part.size.or_else(|| part.source.size())?),
        }
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let past = |name: String, size| SourceError::PastEnd {
            name,
            offset,
            len: len as u64,
            size,
        };
        let end = offset.checked_add(len as u64);
        let (Some(end), size) = (end, self.size()) else {
            return Err(past(self.name(), self.size().unwrap_or(u64::MAX)));
        };
        if let Some(size) = size
            && end > size
        {
            return Err(past(self.name(), size));
        }
        let old = buf.len();
        let mut at = offset;
        while at < end {
            let Some(index) = self.part_at(at) else {
                buf.truncate(old);
                return Err(past(self.name(), at));
            };
            if index != self.current {
                self.parts[self.current].source.rest();
                self.current = index;
            }
            let part = &mut self.parts[index];
            let from = at - part.start;
            let left = part.size.map_or(u64::MAX, |size| size - from);
            let count = left.min(end - at);
            // Not more than `len`, which is a `usize`.
            if let Err(error) = part.source.read(from, buf, count as usize).await {
                buf.truncate(old);
                return Err(error);
            }
            at += count;
        }
        Ok(())
    }

    fn rest(&mut self) {
        if let Some(part) = self.parts.get_mut(self.current) {
            part.source.rest();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use pollster::block_on;
    use proptest::prelude::*;

    use super::*;
    use crate::source::MemorySource;

    fn memory(bytes: &[u8]) -> MemorySource<Vec<u8>> {
        MemorySource::new("part", bytes.to_vec())
    }

    proptest! {
        #[test]
        fn reads_cross_borders(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..6),
            offset in 0usize..60,
            len in 0usize..60,
        ) {
            let whole = parts.concat();
            let mut joined = Joined::new(parts.iter().map(|part| memory(part)).collect())
                .expect("sizes are known");
            prop_assert_eq!(joined.size(), Some(whole.len() as u64));
            let mut buf = b"x".to_vec();
            let read = block_on(joined.read(offset as u64, &mut buf, len));
            match whole.get(offset..offset + len) {
                Some(expected) => {
                    read.expect("inside");
                    prop_assert_eq!(&buf[1..], expected);
                }
                None => {
                    let past = matches!(read, Err(SourceError::PastEnd { .. }));
                    prop_assert!(past);
                    prop_assert_eq!(&buf[..], b"x");
                }
            }
        }
    }

    #[test]
    fn sizes_that_are_told_hold() {
        let sources = vec![(memory(b"01234"), 3), (memory(b"abc"), 5)];
        let mut joined = Joined::with_sizes(sources).expect("small");
        let mut buf = Vec::new();
        block_on(joined.read(1, &mut buf, 4)).expect("inside");
        assert_eq!(buf, b"12ab");
        let error = block_on(joined.read(2, &mut buf, 6)).expect_err("the second is short");
        assert!(
            matches!(error, SourceError::PastEnd { size: 3, .. }),
            "{error}"
        );
        assert_eq!(buf, b"12ab");
        let huge = vec![(memory(b""), 1 << 62), (memory(b""), 1 << 62)];
        let error = Joined::with_sizes(huge).expect_err("too large");
        assert!(matches!(error, SourceError::TooLarge { .. }));
    }

    /// A source that learns its size when it is read, as one over HTTP, and counts its rests.
    struct Late(MemorySource<Vec<u8>>, bool, Rc<Cell<u32>>);

    impl ByteSource for Late {
        fn name(&self) -> String {
            "late".to_owned()
        }

        fn size(&self) -> Option<u64> {
            self.0.size().filter(|_| self.1)
        }

        async fn read(
            &mut self,
            offset: u64,
            buf: &mut Vec<u8>,
            len: usize,
        ) -> Result<(), SourceError> {
            self.1 = true;
            self.0.read(offset, buf, len).await
        }

        fn rest(&mut self) {
            self.2.set(self.2.get() + 1);
        }
    }

    #[test]
    fn one_source_may_learn_its_size_late() {
        let late = |rests: &Rc<Cell<u32>>| Late(memory(b"01234567"), false, rests.clone());
        let rests = Rc::default();
        let mut joined = Joined::one(late(&rests));
        assert_eq!(joined.size(), None);
        let mut buf = Vec::new();
        block_on(joined.read(2, &mut buf, 3)).expect("inside");
        assert_eq!((&buf[..], joined.size()), (&b"234"[..], Some(8)));
        assert_eq!(block_on(joined.read_whole(8)).expect("small"), b"01234567");
        let none = Joined::new(vec![late(&rests)]).err().expect("no size");
        assert!(matches!(none, SourceError::NoSize { .. }));
    }

    #[test]
    fn only_one_source_is_busy() {
        let rests: Rc<Cell<u32>> = Rc::default();
        let parts = (0..3).map(|_| (Late(memory(b"0123"), false, rests.clone()), 4));
        let mut joined = Joined::with_sizes(parts.collect()).expect("small");
        let mut buf = Vec::new();
        for (offset, rested) in [(0, 0), (2, 0), (3, 0), (4, 1), (11, 2), (0, 3)] {
            block_on(joined.read(offset, &mut buf, 1)).expect("inside");
            assert_eq!(rests.get(), rested);
        }
    }
}
