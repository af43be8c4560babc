//! Reading a file over HTTP: one response streamed for as long as the reading goes on in order,
//! `Range` requests for jumps, and going on from the place reached when the connection breaks.
//!
//! This is the part that does not know the browser: requests go through a [`Transport`].

use std::future::Future;

use super::{ByteSource, SourceError};

/// Gaps up to this many bytes are read over, because that is quicker than a new request.
const SKIP_BYTES: u64 = 1 << 20;
/// How often a broken connection is taken up again before giving up.
const RETRIES: u32 = 2;
/// After so many bytes without trouble the count of failures starts anew.
const CALM_BYTES: u64 = 256 << 10;
/// Bytes that are read at once of a file that is read whole.
const PAGE_BYTES: usize = 64 << 10;
/// Pause before the first retry; doubled for the next.
const PAUSE_MILLIS: u32 = 300;

/// Makes GET requests.
pub trait Transport {
    /// A response's content, arriving in pieces.
    type Body: Body;

    /// The address, for messages.
    fn url(&self) -> &str;

    /// Asks for the file from byte `from` to its end; with 0 for the whole file, without `Range`.
    /// `etag` goes out as `If-Range` where the transport may send that header.
    fn get(
        &self,
        from: u64,
        etag: Option<&str>,
    ) -> impl Future<Output = Result<Answer<Self::Body>, Failure>>;

    /// Waits.
    fn pause(&self, millis: u32) -> impl Future<Output = ()>;
}

/// A response's content.
pub trait Body {
    /// A piece of the content, held outside of our memory until it is copied.
    type Piece: Piece;

    /// The next piece, or `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Piece>, Failure>>;
}

/// Some bytes that can be copied out.
pub trait Piece {
    /// Number of bytes.
    fn size(&self) -> usize;

    /// Copies `to.len()` bytes from `start` on.
    fn copy(&self, start: usize, to: &mut [u8]);
}

/// A response.
#[derive(Debug)]
pub struct Answer<B> {
    /// HTTP status code.
    pub status: u16,
    /// The headers that may be read; a server on another site may hide any of them.
    pub headers: Headers,
    /// The content.
    pub body: B,
}

/// The response headers that matter here, as they were sent.
#[expect(missing_docs, reason = "the names are the headers'")]
#[derive(Clone, Debug, Default)]
pub struct Headers {
    pub content_encoding: Option<String>,
    pub content_length: Option<String>,
    pub content_range: Option<String>,
    pub content_type: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// Why a request or a response came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Somebody asked for it.
    Cancelled,
    /// The connection failed; in the transport's words.
    Broken(String),
}

/// Which version of a file a server has, as its first answer tells it. A later visit compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `ETag`, where it may be read.
    pub etag: Option<String>,
    /// `Last-Modified`, where it may be read.
    pub last_modified: Option<String>,
    /// Size in bytes, where it is told.
    pub size: Option<u64>,
}

impl Version {
    /// Whether both can be of one file. What only one of them tells decides nothing; a modification
    /// time counts where there are no tags.
    pub fn fits(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            matches!((one, other), (Some(one), Some(other)) if one != other)
        }
        let tagged = self.etag.is_some() && other.etag.is_some();
        !differ(&self.etag, &other.etag)
            && !differ(&self.size, &other.size)
            && (tagged || !differ(&self.last_modified, &other.last_modified))
    }
}

/// A file read through a [`Transport`].
pub struct HttpReader<T: Transport> {
    transport: T,
    size: Option<u64>,
    /// The size that was known beforehand.
    listed: Option<u64>,
    /// What the first answer tells.
    version: Option<Version>,
    /// False once the server has answered a `Range` request with the whole file.
    ranges: bool,
    stream: Option<Stream<T::Body>>,
    failures: u32,
    /// Bytes received since the last failure.
    calm: u64,
}

/// An open response.
struct Stream<B: Body> {
    body: B,
    /// Position in the file of the next byte to hand out.
    position: u64,
    piece: Option<(B::Piece, usize)>,
}

/// Why no bytes came.
enum Trouble {
    /// Worth another request.
    Broken(String),
    /// Not worth another request.
    Fatal(SourceError),
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Self {
        Self::Fatal(error)
    }
}

impl<T: Transport> HttpReader<T> {
    /// A reader that has asked for nothing yet.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            size: None,
            listed: None,
            version: None,
            ranges: true,
            stream: None,
            failures: 0,
            calm: 0,
        }
    }

    /// A reader of a file whose size is known from elsewhere, such as a listing. A server that tells
    /// another one has another file ([`SourceError::Changed`]).
    pub fn with_size(transport: T, size: u64) -> Self {
        Self {
            size: Some(size),
            listed: Some(size),
            ..Self::new(transport)
        }
    }

    /// What makes the requests.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// What the first answer told of the file; `None` before it.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    fn url(&self) -> String {
        self.transport.url().to_owned()
    }

    fn cancelled(&self) -> SourceError {
        SourceError::Cancelled { name: self.url() }
    }

    /// Fills `out` from `offset` on.
    async fn fill(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let mut done = 0;
        while done < out.len() {
            done += self
                .fill_some(offset + done as u64, &mut out[done..])
                .await?;
        }
        Ok(())
    }

    /// Copies some bytes at `at`, at least one, through broken connections.
    async fn fill_some(&mut self, at: u64, out: &mut [u8]) -> Result<usize, SourceError> {
        loop {
            let detail = match self.pull(at, out).await {
                Ok(bytes) => return Ok(bytes),
                Err(Trouble::Fatal(error)) => {
                    self.stream = None;
                    return Err(error);
                }
                Err(Trouble::Broken(detail)) => detail,
            };
            let reached = self.stream.take().map_or(at, |stream| stream.position);
            if self.calm >= CALM_BYTES {
                self.failures = 0;
            }
            self.calm = 0;
            self.failures += 1;
            if self.failures > RETRIES {
                self.failures = 0;
                return Err(SourceError::Lost {
                    url: self.url(),
                    reached,
                    total: self.size,
                    detail,
                });
            }
            let pause = PAUSE_MILLIS << (self.failures - 1);
            self.transport.pause(pause).await;
        }
    }

    /// Copies some bytes at `at`, at least one.
    async fn pull(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Trouble> {
        let mut stream = match self.stream.take() {
            Some(stream) if self.reaches(&stream, at) => stream,
            _ => self.open(at).await?,
        };
        let pulled = self.pull_from(&mut stream, at, out).await;
        self.stream = Some(stream);
        pulled
    }

    /// Whether it is better to read on in `stream` than to ask again.
    fn reaches(&self, stream: &Stream<T::Body>, at: u64) -> bool {
        at >= stream.position && (at - stream.position <= SKIP_BYTES || !self.ranges)
    }

    async fn pull_from(
        &mut self,
        stream: &mut Stream<T::Body>,
        at: u64,
        out: &mut [u8],
    ) -> Result<usize, Trouble> {
        loop {
            let Some((piece, used)) = &mut stream.piece else {
                stream.piece = self.next_piece(stream).await?.map(|piece| (piece, 0));
                if stream.piece.is_none() {
                    return Err(self.ended(stream.position, at, out.len()));
                }
                continue;
            };
            let left = piece.size() - *used;
            let skip = at - stream.position;
            if skip >= left as u64 {
                stream.position += left as u64;
                stream.piece = None;
                continue;
            }
            let skip = skip as usize;
            let count = out.len().min(left - skip);
            piece.copy(*used + skip, &mut out[..count]);
            *used += skip + count;
            stream.position += (skip + count) as u64;
            return Ok(count);
        }
    }

    async fn next_piece(
        &mut self,
        stream: &mut Stream<T::Body>,
    ) -> Result<Option<<T::Body as Body>::Piece>, Trouble> {
        match stream.body.next().await {
            Ok(piece) => {
                self.calm += piece.as_ref().map_or(0, |piece| piece.size() as u64);
                Ok(piece)
            }
            Err(Failure::Cancelled) => Err(self.cancelled().into()),
            Err(Failure::Broken(detail)) => Err(Trouble::Broken(detail)),
        }
    }

    /// The response has ended at `position`, before the wanted bytes at `at`.
    fn ended(&mut self, position: u64, at: u64, len: usize) -> Trouble {
        match self.size {
            Some(size) if position < size => Trouble::Broken("the answer ended early".to_owned()),
            _ => {
                self.size = Some(position);
                Trouble::Fatal(SourceError::PastEnd {
                    name: self.url(),
                    offset: at,
                    len: len as u64,
                    size: position,
                })
            }
        }
    }

    async fn open(&mut self, from: u64) -> Result<Stream<T::Body>, Trouble> {
        let first = self.version.is_none();
        let etag = self
            .version
            .as_ref()
            .and_then(|version| version.etag.as_deref());
        // A weak tag promises nothing about single bytes, so it may not be used with ranges.
        let etag = etag.filter(|etag| !etag.starts_with("W/"));
        let answer = match self.transport.get(from, etag).await {
            Ok(answer) => answer,
            Err(Failure::Cancelled) => return Err(self.cancelled().into()),
            Err(Failure::Broken(detail)) if first => {
                return Err(SourceError::NoAnswer {
                    url: self.url(),
                    detail,
                }
                .into());
            }
            Err(Failure::Broken(detail)) => return Err(Trouble::Broken(detail)),
        };
        let headers = answer.headers;
        let range = headers.content_range.as_deref().map(ContentRange::parse);
        let start = match answer.status {
            200 => 0,
            206 => match range {
                Some(Some(range)) => range.start.unwrap_or(from),
                // The header is hidden by a server on another site.
                _ => from,
            },
            416 => {
                let size = range.flatten().and_then(|range| range.size).or(self.size);
                return Err(SourceError::PastEnd {
                    name: self.url(),
                    offset: from,
                    len: 1,
                    size: size.unwrap_or(from),
                }
                .into());
            }
            status @ (408 | 429 | 500..=599) if !first => {
                return Err(Trouble::Broken(format!("the server answered {status}")));
            }
            status => {
                return Err(SourceError::Status {
                    url: self.url(),
                    status,
                }
                .into());
            }
        };
        if start > from {
            return Err(SourceError::BadAnswer {
                url: self.url(),
                detail: format!("it begins at byte {start}, not at {from}"),
            }
            .into());
        }
        if answer.status == 200 && from > 0 {
            self.ranges = false;
        }

        // The length of compressed content says nothing about the file.
        let plain = headers
            .content_encoding
            .as_deref()
            .is_none_or(|encoding| encoding.is_empty() || encoding == "identity");
        let length = headers.content_length.as_deref().filter(|_| plain);
        let length = length
            .and_then(|length| start.checked_add(length.trim().parse().ok()?))
            // A server on another site may hide that its content is compressed, too.
            .filter(|length| self.listed.is_none_or(|listed| *length >= listed));
        let size = range.flatten().and_then(|range| range.size).or(length);
        self.check_version(size, headers.etag, headers.last_modified)?;

        let mut stream = Stream {
            body: answer.body,
            position: start,
            piece: None,
        };
        if headers
            .content_type
            .is_some_and(|kind| kind.trim_start().starts_with("text/html"))
        {
            self.refuse_web_page(&mut stream).await?;
        }
        Ok(stream)
    }

    /// Remembers what the first answer says about the file; later answers must say the same.
    fn check_version(
        &mut self,
        size: Option<u64>,
        etag: Option<String>,
        modified: Option<String>,
    ) -> Result<(), SourceError> {
        let version = Version {
            etag,
            last_modified: modified,
            size,
        };
        let known = Version {
            size: self.size,
            ..self.version.clone().unwrap_or_default()
        };
        if !known.fits(&version) {
            return Err(SourceError::Changed { url: self.url() });
        }
        self.version.get_or_insert(version);
        self.size = self.size.or(size);
        Ok(())
    }

    /// Some servers send good files as `text/html`, so the content has a say too.
    async fn refuse_web_page(&mut self, stream: &mut Stream<T::Body>) -> Result<(), Trouble> {
        let Some(piece) = self.next_piece(stream).await? else {
            return Ok(());
        };
        let mut first = vec![0; piece.size().min(64)];
        piece.copy(0, &mut first);
        stream.piece = Some((piece, 0));
        let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first);
        if text.trim_ascii_start().starts_with(b"<") {
            return Err(SourceError::WebPage { url: self.url() }.into());
        }
        Ok(())
    }
}

impl<T: Transport> ByteSource for HttpReader<T> {
    fn name(&self) -> String {
        self.url()
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
        let end = offset.checked_add(len as u64);
        if let Some(size) = self.size
            && end.is_none_or(|end| end > size)
        {
            return Err(SourceError::PastEnd {
                name: self.url(),
                offset,
                len: len as u64,
                size,
            });
        }
        let old = buf.len();
        buf.resize(old + len, 0);
        let filled = self.fill(offset, &mut buf[old..]).await;
        if filled.is_err() {
            buf.truncate(old);
        }
        filled
    }

    /// Reads to the end of the answer, whatever length it announces: that of compressed content is not
    /// the file's, and a server on another site may hide that it is compressed.
    async fn read_whole(&mut self, limit: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        loop {
            let have = bytes.len() as u64;
            let size = self.size.unwrap_or(0).max(have);
            if size > limit {
                self.rest();
                let name = self.url();
                return Err(SourceError::TooLarge { name, size, limit });
            }
            bytes.resize(bytes.len() + PAGE_BYTES, 0);
            match self.fill_some(have, &mut bytes[have as usize..]).await {
                Ok(count) => bytes.truncate(have as usize + count),
                Err(SourceError::PastEnd { size, .. }) if size == have => {
                    bytes.truncate(have as usize);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let have = bytes.len() as u64;
        if self.listed.is_some_and(|listed| listed != have) {
            return Err(SourceError::Changed { url: self.url() });
        }
        self.size = Some(have);
        Ok(bytes)
    }

    /// Closes the connection.
    fn rest(&mut self) {
        self.stream = None;
    }
}

/// A `Content-Range` header: `bytes 5-9/10`, `bytes 5-9/*` or `bytes */10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentRange {
    start: Option<u64>,
    size: Option<u64>,
}

impl ContentRange {
    fn parse(header: &str) -> Option<Self> {
        let (range, size) = header
            .trim()
            .strip_prefix("bytes")?
            .trim()
            .split_once('/')?;
        Some(Self {
            start: range
                .split_once('-')
                .and_then(|(start, _)| start.trim().parse().ok()),
            size: size.trim().parse().ok(),
        })
    }
}
