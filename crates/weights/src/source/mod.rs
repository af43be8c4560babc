//! Where a model's bytes come from.
//!
//! A [`ByteSource`] is read by position. Reading in order is cheap everywhere: the HTTP source
//! keeps one response open and only asks the server again when the position jumps.

use std::future::Future;

pub mod folder;
pub mod http;
mod joined;

pub use joined::Joined;

#[cfg(not(target_arch = "wasm32"))]
mod file;
#[cfg(not(target_arch = "wasm32"))]
pub use file::{DirFolder, FileSource};

#[cfg(target_arch = "wasm32")]
mod web;
#[cfg(target_arch = "wasm32")]
pub use web::{AbortHandle, BlobFolder, BlobSource, HttpSource, Token, WebFolder};

/// Bytes that can be read by position.
///
/// Futures are not required to be `Send`: in the browser everything runs on one thread.
pub trait ByteSource {
    /// What to call this source in messages: a path, a file name or a URL.
    fn name(&self) -> String;

    /// The size in bytes, where it is known. An HTTP source learns it with its first answer.
    fn size(&self) -> Option<u64>;

    /// Appends exactly `len` bytes from `offset` to `buf`.
    ///
    /// On an error `buf` is as long as it was. Memory is taken in advance for `len` bytes, so a
    /// length that comes out of a file must be checked before it is asked for.
    fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> impl Future<Output = Result<(), SourceError>>;

    /// All bytes, of a file that is small: at most `limit` of them.
    ///
    /// # Errors
    /// [`SourceError::TooLarge`] before memory is taken for more than `limit` bytes.
    fn read_whole(&mut self, limit: u64) -> impl Future<Output = Result<Vec<u8>, SourceError>> {
        async move {
            let mut bytes = Vec::new();
            if self.size().is_none() {
                // A source learns its size with its first answer.
                match self.read(0, &mut bytes, 1).await {
                    Err(SourceError::PastEnd { size: 0, .. }) => return Ok(bytes),
                    other => other?,
                }
            }
            let name = self.name();
            let Some(size) = self.size() else {
                return Err(SourceError::NoSize { name });
            };
            if size > limit {
                return Err(SourceError::TooLarge { name, size, limit });
            }
            let have = bytes.len();
            self.read(have as u64, &mut bytes, size as usize - have)
                .await?;
            Ok(bytes)
        }
    }

    /// Lets go of what is only held to be quick, such as an open connection, because other sources
    /// are read now. Reading goes on as before.
    fn rest(&mut self) {}
}

/// Why bytes could not be read. The message says what happened, where, and what may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The source ends before the bytes that were asked for.
    #[error(
        "{name} ends at byte {size}, but bytes {offset} to {} were expected; the file is incomplete: \
         fetch it again",
        offset.saturating_add(*len)
    )]
    PastEnd {
        /// The source.
        name: String,
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: u64,
        /// Size of the source in bytes.
        size: u64,
    },
    /// A local file could not be opened or read.
    #[error("{name}: {detail}")]
    Io {
        /// Path or file name.
        name: String,
        /// The system's or the browser's message.
        detail: String,
    },
    /// There is no file of this name.
    #[error("{name}: there is no such file")]
    NotFound {
        /// Path or file name.
        name: String,
    },
    /// A name that leads out of its folder, or that no file can have.
    #[error("{name:?} is not the name of a file inside the model's folder")]
    BadName {
        /// The name, shortened.
        name: String,
    },
    /// A file that should be small is not.
    #[error("{name} has {size} bytes, more than the {limit} that such a file may have")]
    TooLarge {
        /// The source.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The size must be known and is not.
    #[error(
        "{name}: the server does not tell the file's size; it must send Content-Length, and allow \
         pages of other sites to read it"
    )]
    NoSize {
        /// The source.
        name: String,
    },
    /// The server answered with a status other than success.
    #[error("{url}: the server answered {status}{}", advice_for_status(*status))]
    Status {
        /// The address.
        url: String,
        /// HTTP status code.
        status: u16,
    },
    /// No answer came: no connection, a wrong address, or cross-origin reading is not allowed.
    /// Browsers do not tell scripts which.
    #[error(
        "{url}: no answer ({detail}). Check the address and the connection; if the file is on \
         another site, that site must allow cross-origin reading (CORS)"
    )]
    NoAnswer {
        /// The address.
        url: String,
        /// The browser's message.
        detail: String,
    },
    /// The answer is a web page and not a file.
    #[error(
        "{url}: the server sent a web page (HTML) and not a model file; use the address of the \
         file itself (on Hugging Face: /resolve/, not /blob/)"
    )]
    WebPage {
        /// The address.
        url: String,
    },
    /// The connection broke, and going on from there failed too.
    #[error(
        "{url}: the connection was lost after {reached} {} ({detail}); trying again did not help. \
         Check the connection and load again",
        of_total(*total)
    )]
    Lost {
        /// The address.
        url: String,
        /// The position up to which bytes had arrived.
        reached: u64,
        /// Size of the file, if known.
        total: Option<u64>,
        /// The last failure.
        detail: String,
    },
    /// The server's answer does not fit what was asked.
    #[error("{url}: the server's answer cannot be used ({detail})")]
    BadAnswer {
        /// The address.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The file on the server is another one than at the start.
    #[error("{url}: the file changed on the server while it was being read; load it again")]
    Changed {
        /// The address.
        url: String,
    },
    /// The reading was cancelled.
    #[error("loading of {name} was cancelled")]
    Cancelled {
        /// The source.
        name: String,
    },
}

impl SourceError {
    /// Whether there is no such file. Some servers answer every address with a web page, so that
    /// counts as none.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::WebPage { .. }
                | Self::Status {
                    status: 404 | 410,
                    ..
                }
        )
    }
}

fn of_total(total: Option<u64>) -> String {
    match total {
        Some(total) => format!("of {total} bytes"),
        None => "bytes".to_owned(),
    }
}

fn advice_for_status(status: u16) -> &'static str {
    match status {
        401 | 403 => {
            "; access is not allowed: the file may be private or gated (accept its terms and give \
             an access token)"
        }
        404 | 410 => "; there is no such file: check the address",
        408 | 429 => "; it is busy: wait a while and load again",
        500..=599 => "; it has a problem of its own: try again later",
        _ => "",
    }
}

/// Bytes in memory.
#[derive(Clone, Debug)]
pub struct MemorySource<T> {
    name: String,
    bytes: T,
}

impl<T: AsRef<[u8]>> MemorySource<T> {
    /// A source over `bytes` that is called `name` in messages.
    pub fn new(name: impl Into<String>, bytes: T) -> Self {
        Self {
            name: name.into(),
            bytes,
        }
    }
}

impl<T: AsRef<[u8]>> ByteSource for MemorySource<T> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> Option<u64> {
        Some(self.bytes.as_ref().len() as u64)
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let bytes = self.bytes.as_ref();
        let wanted = usize::try_from(offset)
            .ok()
            .and_then(|start| bytes.get(start..start.checked_add(len)?));
        match wanted {
            Some(wanted) => {
                buf.extend_from_slice(wanted);
                Ok(())
            }
            None => Err(SourceError::PastEnd {
                name: self.name.clone(),
                offset,
                len: len as u64,
                size: bytes.len() as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_by_position_and_appended() {
        let mut source = MemorySource::new("bytes", b"0123456789");
        let mut buf = b"x".to_vec();
        pollster::block_on(source.read(3, &mut buf, 4)).expect("inside");
        assert_eq!(buf, b"x3456");
        let past = pollster::block_on(source.read(8, &mut buf, 3)).expect_err("past the end");
        assert!(matches!(past, SourceError::PastEnd { size: 10, .. }));
        pollster::block_on(source.read(u64::MAX, &mut buf, 3)).expect_err("past the end");
        assert_eq!(buf, b"x3456");
    }
}
