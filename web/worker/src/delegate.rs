//! One source of several kinds.

/// [`ByteSource`] for an enum whose variants are sources.
macro_rules! delegate {
    ($name:ty: $($variant:ident),*) => {
        impl ByteSource for $name {
            fn name(&self) -> String {
                match self { $(Self::$variant(source) => source.name()),* }
            }

            fn size(&self) -> Option<u64> {
                match self { $(Self::$variant(source) => source.size()),* }
            }

            async fn read(
                &mut self,
                offset: u64,
                buf: &mut Vec<u8>,
                len: usize,
            ) -> Result<(), SourceError> {
                match self { $(Self::$variant(source) => source.read(offset, buf, len).await),* }
            }

            fn rest(&mut self) {
                match self { $(Self::$variant(source) => source.rest()),* }
            }
        }
    };
}
pub(crate) use delegate;
