//! The browser's sources: `fetch` and `Blob`. Both work in a page and in a worker.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use js_sys::{Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{AbortController, Blob, ReadableStreamDefaultReader, RequestInit, Response};

use super::folder::{Folder, check_inside};
use super::http::{Answer, Body, Failure, Headers, HttpReader, Piece, Transport, Version};
use super::{ByteSource, SourceError};

/// A file at a URL.
///
/// Bytes are copied from the response's chunks straight to where they are wanted; what is left of
/// a chunk stays in the browser's memory and not in ours.
pub struct HttpSource {
    reader: HttpReader<Fetch>,
}

/// An access token, for one origin alone. It is shown nowhere, not even in debug output.
#[derive(Clone)]
pub struct Token {
    origin: String,
    secret: String,
}

impl Token {
    /// A token that goes to the origin of `url` and to no other. `None` when the address has no origin
    /// of its own, or no secure one: it must be `https`, or this machine.
    pub fn new(url: &str, secret: impl Into<String>) -> Option<Self> {
        let url = absolute(url)?;
        let here = matches!(url.hostname().as_str(), "localhost" | "127.0.0.1" | "[::1]");
        let secure = url.protocol() == "https:" || (url.protocol() == "http:" && here);
        secure.then(|| Self {
            origin: url.origin(),
            secret: secret.into(),
        })
    }

    /// The origin that it is for, such as `https://huggingface.co`.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token for {}", self.origin)
    }
}

/// Cancels what a [`HttpSource`], or all those of a [`WebFolder`], are doing and all that they would
/// do later.
#[derive(Clone, Debug)]
pub struct AbortHandle(Option<AbortController>);

impl AbortHandle {
    /// A handle that nothing hangs on yet.
    pub fn new() -> Self {
        // Wherever there is `fetch` there is this; without it nothing can be cancelled.
        Self(AbortController::new().ok())
    }

    /// Cancels; reads fail with [`SourceError::Cancelled`].
    pub fn abort(&self) {
        if let Some(controller) = &self.0 {
            controller.abort();
        }
    }
}

impl Default for AbortHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpSource {
    /// A source for `url`, absolute or relative to the page or worker. Nothing is asked for yet.
    pub fn new(url: impl Into<String>) -> Self {
        Self::with(url, None, AbortHandle::new(), None)
    }

    /// As [`HttpSource::new`], with what is known beforehand: a token, which goes out if the address is
    /// of its origin; what cancels the source; the size in bytes.
    ///
    /// Where the server sends the request on to another origin, the browser leaves the token out.
    pub fn with(
        url: impl Into<String>,
        token: Option<&Token>,
        abort: AbortHandle,
        size: Option<u64>,
    ) -> Self {
        let url = url.into();
        let origin = absolute(&url).map(|url| url.origin());
        let fetch = Fetch {
            same_origin: origin.is_some() && origin == own_origin(),
            bearer: token
                .filter(|token| Some(&token.origin) == origin.as_ref())
                .map(|token| Bearer(format!("Bearer {}", token.secret))),
            controller: abort.0,
            url,
        };
        let reader = match size {
            Some(size) => HttpReader::with_size(fetch, size),
            None => HttpReader::new(fetch),
        };
        Self { reader }
    }

    /// A handle that cancels this source, usable while a read is going on.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(self.reader.transport().controller.clone())
    }

    /// What the first answer told of the file; `None` before it.
    pub fn version(&self) -> Option<&Version> {
        self.reader.version()
    }
}

impl ByteSource for HttpSource {
    fn name(&self) -> String {
        self.reader.name()
    }

    fn size(&self) -> Option<u64> {
        self.reader.size()
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        self.reader.read(offset, buf, len).await
    }

    async fn read_whole(&mut self, limit: u64) -> Result<Vec<u8>, SourceError> {
        self.reader.read_whole(limit).await
    }

    fn rest(&mut self) {
        self.reader.rest();
    }
}

/// What JavaScript says about an error, in its own words.
fn describe(error: &JsValue) -> String {
    match error.dyn_ref::<js_sys::Error>() {
        Some(error) => String::from(error.message()),
        None => error
            .as_string()
            .unwrap_or_else(|| "unknown error".to_owned()),
    }
}

fn global(name: &str) -> Result<JsValue, JsValue> {
    Reflect::get(&js_sys::global(), &name.into())
}

/// Calls a function of the global scope that returns a promise.
fn call_global(name: &str, first: &JsValue, second: &JsValue) -> Result<Promise, JsValue> {
    let function: Function = global(name)?.dyn_into()?;
    function.call2(&js_sys::global(), first, second)?.dyn_into()
}

fn location(key: &str) -> Option<String> {
    let location = global("location").ok()?;
    Reflect::get(&location, &key.into()).ok()?.as_string()
}

/// An address as the page or worker understands it.
fn absolute(url: &str) -> Option<web_sys::Url> {
    match location("href") {
        Some(base) => web_sys::Url::new_with_base(url, &base).ok(),
        None => web_sys::Url::new(url).ok(),
    }
}

fn own_origin() -> Option<String> {
    location("origin")
}

/// The value of an `Authorization` header.
struct Bearer(String);

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")
    }
}

#[derive(Debug)]
struct Fetch {
    url: String,
    controller: Option<AbortController>,
    /// `If-Range` makes a request to another site subject to that site's permission, so it is only
    /// sent to our own.
    same_origin: bool,
    bearer: Option<Bearer>,
}

impl Fetch {
    fn failure(&self, error: &JsValue) -> Failure {
        failure(&self.controller, error)
    }
}

fn failure(controller: &Option<AbortController>, error: &JsValue) -> Failure {
    let aborted = |controller: &AbortController| controller.signal().aborted();
    if controller.as_ref().is_some_and(aborted) {
        return Failure::Cancelled;
    }
    Failure::Broken(describe(error))
}

impl Transport for Fetch {
    type Body = FetchBody;

    fn url(&self) -> &str {
        &self.url
    }

    async fn get(&self, from: u64, etag: Option<&str>) -> Result<Answer<FetchBody>, Failure> {
        let failed = |error: JsValue| self.failure(&error);
        let request = web_sys::Headers::new().map_err(failed)?;
        if from > 0 {
            request
                .set("Range", &format!("bytes={from}-"))
                .map_err(failed)?;
            if let Some(etag) = etag.filter(|_| self.same_origin) {
                request.set("If-Range", etag).map_err(failed)?;
            }
        }
        if let Some(Bearer(value)) = &self.bearer {
            request.set("Authorization", value).map_err(failed)?;
        }
        let init = RequestInit::new();
        init.set_headers(&request);
        let signal = self.controller.as_ref().map(AbortController::signal);
        init.set_signal(signal.as_ref());
        let promise = call_global("fetch", &self.url.as_str().into(), &init).map_err(failed)?;
        let response: Response = JsFuture::from(promise)
            .await
            .and_then(|response| response.dyn_into())
            .map_err(failed)?;
        let headers = response.headers();
        // A header that may not be read is as good as absent.
        let header = |name: &str| headers.get(name).ok().flatten();
        let reader = match response.body() {
            Some(stream) => {
                let reader = stream.get_reader().dyn_into();
                Some(reader.map_err(|_| Failure::Broken("no stream reader".to_owned()))?)
            }
            None => None,
        };
        Ok(Answer {
            status: response.status(),
            headers: Headers {
                content_encoding: header("Content-Encoding"),
                content_length: header("Content-Length"),
                content_range: header("Content-Range"),
                content_type: header("Content-Type"),
                etag: header("ETag"),
                last_modified: header("Last-Modified"),
            },
            body: FetchBody {
                reader,
                controller: self.controller.clone(),
                finished: Cell::new(false),
            },
        })
    }

    async fn pause(&self, millis: u32) {
        let promise = Promise::new(&mut |resolve, _| {
            // Without a timer the pause is none.
            if call_timer(&resolve, millis).is_err() {
                drop(resolve.call0(&JsValue::UNDEFINED));
            }
        });
        drop(JsFuture::from(promise).await);
    }
}

fn call_timer(resolve: &Function, millis: u32) -> Result<(), JsValue> {
    let set_timeout: Function = global("setTimeout")?.dyn_into()?;
    set_timeout.call2(&js_sys::global(), resolve, &millis.into())?;
    Ok(())
}

#[derive(Debug)]
struct FetchBody {
    reader: Option<ReadableStreamDefaultReader>,
    controller: Option<AbortController>,
    finished: Cell<bool>,
}

impl Body for FetchBody {
    type Piece = Uint8Array;

    async fn next(&mut self) -> Result<Option<Uint8Array>, Failure> {
        let Some(reader) = &self.reader else {
            return Ok(None);
        };
        let failed = |error: JsValue| failure(&self.controller, &error);
        let read = JsFuture::from(reader.read()).await.map_err(failed)?;
        let value = Reflect::get(&read, &"value".into()).map_err(failed)?;
        if value.is_undefined() {
            self.finished.set(true);
            return Ok(None);
        }
        value.dyn_into().map(Some).map_err(failed)
    }
}

impl Drop for FetchBody {
    /// Closes the connection of a response that is not read to its end.
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take().filter(|_| !self.finished.get()) {
            // The promise is awaited so that its failure does not count as unhandled.
            spawn_local(async move { drop(JsFuture::from(reader.cancel()).await) });
        }
    }
}

impl Piece for Uint8Array {
    fn size(&self) -> usize {
        self.length() as usize
    }

    fn copy(&self, start: usize, to: &mut [u8]) {
        let end = start + to.len();
        // Both are at most `size()`, which is a u32.
        self.subarray(start as u32, end as u32).copy_to(to);
    }
}

/// A file the user picked, or any other `Blob`.
#[derive(Debug)]
pub struct BlobSource {
    name: String,
    blob: Blob,
    size: u64,
    /// Bytes read ahead, in the browser's memory, and where they begin.
    ahead: Option<(u64, Uint8Array)>,
}

/// Small reads are served from pieces of this size.
const AHEAD_BYTES: u64 = 1 << 20;
/// The largest piece that is asked of a blob at once.
const SLICE_BYTES: u64 = 16 << 20;

impl BlobSource {
    /// A source over `blob`; `name` is what to call it in messages.
    pub fn new(name: impl Into<String>, blob: Blob) -> Self {
        Self {
            name: name.into(),
            // A blob's size is a whole number below 2^53.
            size: blob.size() as u64,
            blob,
            ahead: None,
        }
    }

    async fn slice(&self, start: u64, end: u64) -> Result<Uint8Array, SourceError> {
        let read = async {
            let slice = self.blob.slice_with_f64_and_f64(start as f64, end as f64)?;
            let buffer = JsFuture::from(slice.array_buffer()).await?;
            Ok(Uint8Array::new(&buffer))
        };
        read.await.map_err(|error: JsValue| SourceError::Io {
            name: self.name.clone(),
            detail: format!(
                "reading at byte {start}: {}; if the file was changed or moved, choose it again",
                describe(&error)
            ),
        })
    }
}

impl ByteSource for BlobSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let end = offset.checked_add(len as u64);
        let Some(end) = end.filter(|end| *end <= self.size) else {
            return Err(SourceError::PastEnd {
                name: self.name.clone(),
                offset,
                len: len as u64,
                size: self.size,
            });
        };
        let old = buf.len();
        buf.resize(old + len, 0);
        let mut at = offset;
        while at < end {
            let held = match &self.ahead {
                Some((start, bytes)) if (*start..*start + bytes.size() as u64).contains(&at) => {
                    Some((*start, bytes.clone()))
                }
                _ => None,
            };
            let (start, bytes) = match held {
                Some(held) => held,
                None => {
                    let wanted = (end - at).clamp(AHEAD_BYTES, SLICE_BYTES);
                    let stop = (at + wanted).min(self.size);
                    match self.slice(at, stop).await {
                        Ok(bytes) if bytes.size() as u64 == stop - at => (at, bytes),
                        Ok(_) => {
                            buf.truncate(old);
                            return Err(SourceError::Io {
                                name: self.name.clone(),
                                detail: "the file has become shorter; choose it again".to_owned(),
                            });
                        }
                        Err(error) => {
                            buf.truncate(old);
                            return Err(error);
                        }
                    }
                }
            };
            let skip = (at - start) as usize;
            let count = (bytes.size() - skip).min((end - at) as usize);
            let to = old + (at - offset) as usize;
            bytes.copy(skip, &mut buf[to..to + count]);
            at += count as u64;
            self.ahead = (bytes.size() as u64 <= AHEAD_BYTES).then_some((start, bytes));
        }
        Ok(())
    }
}

/// Files at a web address.
#[derive(Debug)]
pub struct WebFolder {
    name: String,
    base: String,
    token: Option<Token>,
    abort: AbortHandle,
    /// The files and their sizes in bytes, where a listing tells them.
    listing: Option<BTreeMap<String, Option<u64>>>,
}

impl WebFolder {
    /// The folder at `base`, with or without a slash at its end. A query string is not kept.
    pub fn new(base: impl Into<String>, abort: AbortHandle) -> Self {
        let mut base = base.into();
        if let Some(end) = base.find(['?', '#']) {
            base.truncate(end);
        }
        while base.ends_with('/') {
            base.pop();
        }
        Self {
            name: base.clone(),
            base,
            token: None,
            abort,
            listing: None,
        }
    }

    /// With a name of its own for messages, in place of its address.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// With a token, which goes out to files of its origin.
    pub fn with_token(self, token: Option<Token>) -> Self {
        Self { token, ..self }
    }

    /// With the names of its files and their sizes in bytes, as a listing tells them.
    pub fn with_listing(self, files: impl IntoIterator<Item = (String, Option<u64>)>) -> Self {
        Self {
            listing: Some(files.into_iter().collect()),
            ..self
        }
    }

    /// The address of a file.
    ///
    /// # Errors
    /// [`SourceError::BadName`] for a name that leads out of the folder.
    pub fn url(&self, name: &str) -> Result<String, SourceError> {
        check_inside(name)?;
        let parts = name.split('/').map(js_sys::encode_uri_component);
        let path: Vec<String> = parts.map(String::from).collect();
        Ok(format!("{}/{}", self.base, path.join("/")))
    }

    /// A handle that cancels all sources of this folder.
    pub fn abort_handle(&self) -> AbortHandle {
        self.abort.clone()
    }
}

impl Folder for WebFolder {
    type Source = HttpSource;

    async fn open(&self, name: &str) -> Result<HttpSource, SourceError> {
        let url = self.url(name)?;
        let size = match &self.listing {
            None => None,
            Some(listing) => match listing.get(name) {
                Some(size) => *size,
                None => return Err(SourceError::NotFound { name: url }),
            },
        };
        let abort = self.abort.clone();
        Ok(HttpSource::with(url, self.token.as_ref(), abort, size))
    }

    fn names(&self) -> Option<Vec<String>> {
        let listing = self.listing.as_ref()?;
        Some(listing.keys().cloned().collect())
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Files that the user picked or dropped.
#[derive(Clone, Debug)]
pub struct BlobFolder {
    name: String,
    files: BTreeMap<String, Blob>,
}

impl BlobFolder {
    /// Files by their names in the folder `name`.
    pub fn new(name: impl Into<String>, files: impl IntoIterator<Item = (String, Blob)>) -> Self {
        Self {
            name: name.into(),
            files: files.into_iter().collect(),
        }
    }
}

impl Folder for BlobFolder {
    type Source = BlobSource;

    async fn open(&self, name: &str) -> Result<BlobSource, SourceError> {
        check_inside(name)?;
        match self.files.get(name) {
            Some(blob) => Ok(BlobSource::new(name, blob.clone())),
            None => Err(SourceError::NotFound {
                name: format!("{}/{name}", self.name),
            }),
        }
    }

    fn names(&self) -> Option<Vec<String>> {
        Some(self.files.keys().cloned().collect())
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
