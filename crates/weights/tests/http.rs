//! The HTTP reader against a server of our own making, with every fault we know of.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use weights::source::http::{
    Answer, Body, Failure, Headers, HttpReader, Piece, Transport, Version,
};
use weights::{ByteSource, SourceError};

const URL: &str = "https://example.org/model.gguf";

/// A pretended server and the connection to it.
#[derive(Clone)]
struct Server(Rc<State>);

struct State {
    file: RefCell<Vec<u8>>,
    /// Bytes per piece of a response.
    piece: usize,
    ranges: Cell<bool>,
    /// Whether scripts may read `Content-Range` and `ETag`.
    exposed: bool,
    etag: RefCell<Option<String>>,
    content_type: &'static str,
    content_encoding: Option<&'static str>,
    /// Whether the length of the file is announced.
    sized: bool,
    /// A length that is announced in place of the right one, as that of hidden compression.
    announced: Option<u64>,
    /// Statuses to answer with before anything else, the last first.
    statuses: RefCell<Vec<u16>>,
    /// Positions at which the connection breaks, each once, the last first.
    cuts: RefCell<Vec<u64>>,
    /// Whether a break looks like the end of the response.
    quiet: bool,
    offline: Cell<bool>,
    cancelled: Cell<bool>,
    requests: RefCell<Vec<(u64, Option<String>)>>,
    pauses: RefCell<Vec<u32>>,
    sent: Cell<u64>,
}

impl Server {
    fn with(change: impl FnOnce(&mut State)) -> Self {
        let mut state = State {
            file: RefCell::new(
                (0..5_000_000u32)
                    .map(|i| (i * 7 + (i >> 9)) as u8)
                    .collect(),
            ),
            piece: 50_000,
            ranges: Cell::new(true),
            exposed: true,
            etag: RefCell::new(Some("\"one\"".to_owned())),
            content_type: "application/octet-stream",
            content_encoding: None,
            sized: true,
            announced: None,
            statuses: RefCell::default(),
            cuts: RefCell::default(),
            quiet: false,
            offline: Cell::default(),
            cancelled: Cell::default(),
            requests: RefCell::default(),
            pauses: RefCell::default(),
            sent: Cell::default(),
        };
        change(&mut state);
        Self(Rc::new(state))
    }

    fn new() -> Self {
        Self::with(|_| {})
    }

    fn reader(&self) -> HttpReader<Self> {
        HttpReader::new(self.clone())
    }

    fn starts(&self) -> Vec<u64> {
        self.0
            .requests
            .borrow()
            .iter()
            .map(|(from, _)| *from)
            .collect()
    }
}

impl Transport for Server {
    type Body = Response;

    fn url(&self) -> &str {
        URL
    }

    async fn get(&self, from: u64, etag: Option<&str>) -> Result<Answer<Response>, Failure> {
        let state = &self.0;
        state
            .requests
            .borrow_mut()
            .push((from, etag.map(str::to_owned)));
        if state.cancelled.get() {
            return Err(Failure::Cancelled);
        }
        if state.offline.get() {
            return Err(Failure::Broken("Failed to fetch".to_owned()));
        }
        let size = state.file.borrow().len() as u64;
        let own = state.etag.borrow().clone();
        let valid = etag.is_none() || etag == own.as_deref();
        let ranged = from > 0 && state.ranges.get() && valid;
        let status = state.statuses.borrow_mut().pop().unwrap_or(match ranged {
            true if from >= size => 416,
            true => 206,
            false => 200,
        });
        let start = if status == 206 { from } else { 0 };
        let length = if matches!(status, 200 | 206) {
            size - start
        } else {
            0
        };
        let range = match status {
            206 => Some(format!("bytes {start}-{}/{size}", size - 1)),
            416 => Some(format!("bytes */{size}")),
            _ => None,
        };
        Ok(Answer {
            status,
            headers: Headers {
                content_encoding: state.content_encoding.map(str::to_owned),
                content_length: state
                    .sized
                    .then(|| state.announced.unwrap_or(length).to_string()),
                content_range: range.filter(|_| state.exposed),
                content_type: Some(state.content_type.to_owned()),
                etag: own.filter(|_| state.exposed),
                last_modified: None,
            },
            body: Response {
                server: self.clone(),
                position: start,
                end: start + length,
            },
        })
    }

    async fn pause(&self, millis: u32) {
        self.0.pauses.borrow_mut().push(millis);
    }
}

struct Response {
    server: Server,
    position: u64,
    end: u64,
}

struct Bytes(Vec<u8>);

impl Body for Response {
    type Piece = Bytes;

    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let state = &self.server.0;
        if state.cancelled.get() {
            return Err(Failure::Cancelled);
        }
        let mut stop = self.end.min(self.position + state.piece as u64);
        let cut = state.cuts.borrow().last().copied();
        if let Some(cut) = cut.filter(|cut| (self.position..stop).contains(cut)) {
            if cut == self.position {
                state.cuts.borrow_mut().pop();
                return match state.quiet {
                    true => Ok(None),
                    false => Err(Failure::Broken("network error".to_owned())),
                };
            }
            stop = cut;
        }
        if stop == self.position {
            return Ok(None);
        }
        let bytes = state.file.borrow()[self.position as usize..stop as usize].to_vec();
        state.sent.set(state.sent.get() + bytes.len() as u64);
        self.position = stop;
        Ok(Some(Bytes(bytes)))
    }
}

impl Piece for Bytes {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn copy(&self, start: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.0[start..start + to.len()]);
    }
}

fn read(reader: &mut HttpReader<Server>, offset: u64, len: usize) -> Result<Vec<u8>, SourceError> {
    let mut buf = b"kept".to_vec();
    let result = pollster::block_on(reader.read(offset, &mut buf, len));
    assert_eq!(&buf[..4], b"kept");
    if result.is_err() {
        assert_eq!(buf.len(), 4, "an error leaves the buffer as it was");
    }
    result.map(|()| buf.split_off(4))
}

/// Reads `len` bytes at `offset` and compares them with the file.
fn good(reader: &mut HttpReader<Server>, server: &Server, offset: u64, len: usize) {
    let got = read(reader, offset, len).expect("readable");
    let file = server.0.file.borrow();
    assert!(
        got == file[offset as usize..offset as usize + len],
        "wrong bytes at {offset}"
    );
}

#[test]
fn reading_in_order_is_one_request() {
    let server = Server::new();
    let mut reader = server.reader();
    assert_eq!(reader.size(), None);
    good(&mut reader, &server, 0, 64);
    assert_eq!(reader.size(), Some(5_000_000));
    let mut at = 64;
    for len in [1, 49_999, 50_000, 123_456, 0, 3, 1_000_000] {
        good(&mut reader, &server, at, len);
        at += len as u64;
    }
    // A small gap is read over, as alignment leaves them.
    good(
        &mut reader,
        &server,
        at + 70_000,
        5_000_000 - at as usize - 70_000,
    );
    assert_eq!(server.starts(), [0]);
}

#[test]
fn jumps_ask_for_ranges() {
    let server = Server::new();
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    good(&mut reader, &server, 4_000_000, 100_000);
    good(&mut reader, &server, 4_100_000, 100_000);
    good(&mut reader, &server, 20, 100);
    let etag = Some("\"one\"".to_owned());
    let expected = [(0, None), (4_000_000, etag.clone()), (20, etag)];
    assert_eq!(*server.0.requests.borrow(), expected);
    // The reader may also begin anywhere.
    let mut reader = server.reader();
    good(&mut reader, &server, 3_000_000, 10);
    assert_eq!(reader.size(), Some(5_000_000));
}

#[test]
fn a_server_on_another_site_may_hide_its_headers() {
    let server = Server::with(|state| state.exposed = false);
    let mut reader = server.reader();
    good(&mut reader, &server, 4_000_000, 10);
    assert_eq!(reader.size(), Some(5_000_000));
    good(&mut reader, &server, 0, 10);
    assert_eq!(server.starts(), [4_000_000, 0]);
}

#[test]
fn a_server_without_ranges_is_read_from_the_start() {
    let server = Server::with(|state| state.ranges = Cell::new(false));
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    good(&mut reader, &server, 3_000_000, 10);
    assert_eq!(server.starts(), [0, 3_000_000]);
    // Now it is known, and forward jumps read on.
    good(&mut reader, &server, 4_800_000, 10);
    assert_eq!(server.starts(), [0, 3_000_000]);
    good(&mut reader, &server, 5, 10);
    assert_eq!(server.starts(), [0, 3_000_000, 5]);
}

#[test]
fn a_broken_connection_is_taken_up_where_it_broke() {
    let server = Server::with(|state| state.cuts = RefCell::new(vec![2_500_001]));
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 5_000_000);
    assert_eq!(server.starts(), [0, 2_500_001]);
    assert_eq!(server.0.requests.borrow()[1].1.as_deref(), Some("\"one\""));
    assert_eq!(server.0.sent.get(), 5_000_000);
    assert_eq!(*server.0.pauses.borrow(), [300]);

    // Many breaks are survived as long as a good deal comes through between them.
    let cuts: Vec<u64> = (1..12).rev().map(|i| i * 400_000).collect();
    let server = Server::with(|state| state.cuts = RefCell::new(cuts));
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 5_000_000);
    assert_eq!(server.starts().len(), 12);

    // Also without ranges, from the start again.
    let server = Server::with(|state| {
        state.cuts = RefCell::new(vec![2_500_001]);
        state.ranges = Cell::new(false);
    });
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 5_000_000);
    assert_eq!(server.0.sent.get(), 7_500_001);
}

#[test]
fn a_connection_that_stays_broken_ends_in_a_clear_error() {
    let server = Server::with(|state| state.cuts = RefCell::new(vec![2_500_000; 3]));
    let mut reader = server.reader();
    let error = read(&mut reader, 0, 5_000_000).expect_err("three times cut");
    assert_eq!(
        error,
        SourceError::Lost {
            url: URL.to_owned(),
            reached: 2_500_000,
            total: Some(5_000_000),
            detail: "network error".to_owned(),
        }
    );
    assert!(
        error.to_string().contains("after 2500000 of 5000000 bytes"),
        "{error}"
    );
    assert_eq!(*server.0.pauses.borrow(), [300, 600]);
    // When the network is back the same reader goes on.
    good(&mut reader, &server, 2_500_000, 1000);

    // The server goes away altogether.
    let server = Server::new();
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    server.0.offline.set(true);
    let error = read(&mut reader, 4_000_000, 10).expect_err("offline");
    assert!(
        matches!(
            error,
            SourceError::Lost {
                reached: 4_000_000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_short_answer_counts_as_broken() {
    let server = Server::with(|state| {
        state.cuts = RefCell::new(vec![2_000_000; 4]);
        state.quiet = true;
    });
    let mut reader = server.reader();
    let error = read(&mut reader, 0, 5_000_000).expect_err("ends early three times");
    let lost = "lost after 2000000 of 5000000 bytes (the answer ended early)";
    assert!(error.to_string().contains(lost), "{error}");
    // The fourth end comes, then the rest.
    good(&mut reader, &server, 2_000_000, 3_000_000);
}

#[test]
fn statuses_are_told_with_advice() {
    for (status, words) in [
        (404, "no such file"),
        (403, "private or gated"),
        (401, "private or gated"),
        (500, "try again later"),
        (429, "busy"),
        (418, "answered 418"),
    ] {
        let server = Server::with(|state| state.statuses = RefCell::new(vec![status]));
        let mut reader = server.reader();
        let error = read(&mut reader, 0, 64).expect_err("status");
        assert_eq!(
            error,
            SourceError::Status {
                url: URL.to_owned(),
                status
            }
        );
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(URL), "{text}");
        assert_eq!(server.starts().len(), 1, "not retried");
    }
    // A server that is busy while a download goes on gets another chance.
    let server = Server::new();
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    server.0.statuses.borrow_mut().extend([503, 503]);
    good(&mut reader, &server, 4_000_000, 10);
    server.0.statuses.borrow_mut().push(404);
    let error = read(&mut reader, 100, 10).expect_err("gone");
    assert!(
        matches!(error, SourceError::Status { status: 404, .. }),
        "{error}"
    );
}

#[test]
fn no_answer_names_both_causes() {
    let server = Server::new();
    server.0.offline.set(true);
    let text = read(&mut server.reader(), 0, 64)
        .expect_err("offline")
        .to_string();
    for word in [URL, "Failed to fetch", "connection", "CORS"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(server.starts().len(), 1, "not retried");
}

#[test]
fn web_pages_are_recognised() {
    let server = Server::with(|state| {
        state.file = RefCell::new(b"\n<!DOCTYPE html><html><title>Sign in</title></html>".to_vec());
        state.content_type = "text/html; charset=utf-8";
    });
    let error = read(&mut server.reader(), 0, 20).expect_err("a page");
    assert_eq!(
        error,
        SourceError::WebPage {
            url: URL.to_owned()
        }
    );
    // A real file with a careless type is read all the same.
    let server = Server::with(|state| state.content_type = "text/html");
    good(&mut server.reader(), &server, 0, 200_000);
}

#[test]
fn a_changed_file_is_an_error() {
    let changes: [fn(&State); 2] = [
        |state| *state.etag.borrow_mut() = Some("\"two\"".to_owned()),
        |state| state.file.borrow_mut().push(0),
    ];
    for change in changes {
        let server = Server::with(|state| state.cuts = RefCell::new(vec![2_500_000]));
        let mut reader = server.reader();
        good(&mut reader, &server, 0, 1_000_000);
        change(&server.0);
        let error = read(&mut reader, 1_000_000, 3_000_000).expect_err("changed");
        assert_eq!(
            error,
            SourceError::Changed {
                url: URL.to_owned()
            }
        );
    }
    // A weak tag does not go out with a range.
    let server = Server::with(|state| state.etag = RefCell::new(Some("W/\"x\"".to_owned())));
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    good(&mut reader, &server, 4_000_000, 10);
    assert_eq!(server.0.requests.borrow()[1], (4_000_000, None));
}

#[test]
fn the_end_is_known_or_found() {
    let server = Server::new();
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    let error = read(&mut reader, 4_999_999, 2).expect_err("past the end");
    assert!(
        matches!(
            error,
            SourceError::PastEnd {
                size: 5_000_000,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(server.starts(), [0], "not even asked");
    let error = read(&mut reader, u64::MAX, 2).expect_err("past the end");
    assert!(matches!(error, SourceError::PastEnd { .. }), "{error}");

    // Without a length the end shows when it comes.
    for hide in [
        |state: &mut State| state.sized = false,
        |state: &mut State| state.content_encoding = Some("gzip"),
    ] {
        let server = Server::with(hide);
        let mut reader = server.reader();
        good(&mut reader, &server, 0, 4_999_999);
        assert_eq!(reader.size(), None);
        let error = read(&mut reader, 4_999_999, 2).expect_err("past the end");
        assert!(
            matches!(
                error,
                SourceError::PastEnd {
                    size: 5_000_000,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(reader.size(), Some(5_000_000));
    }
    // A first jump past the end.
    let server = Server::new();
    let error = read(&mut server.reader(), 9_000_000, 2).expect_err("past the end");
    assert!(
        matches!(
            error,
            SourceError::PastEnd {
                size: 5_000_000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn cancelling_ends_everything() {
    let server = Server::new();
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 10);
    server.0.cancelled.set(true);
    let cancelled = SourceError::Cancelled {
        name: URL.to_owned(),
    };
    assert_eq!(read(&mut reader, 60_000, 10), Err(cancelled.clone()));
    assert_eq!(read(&mut reader, 4_000_000, 10), Err(cancelled.clone()));
    assert_eq!(read(&mut server.reader(), 0, 10), Err(cancelled));
    assert!(server.0.pauses.borrow().is_empty());
}

#[test]
fn small_files_are_read_whole() {
    let whole =
        |reader: &mut HttpReader<Server>, limit| pollster::block_on(reader.read_whole(limit));
    // With and without a known length: compressed answers do not tell it.
    for (sized, encoding) in [(true, None), (false, None), (true, Some("gzip"))] {
        for size in [0usize, 1, 64 << 10, 150_000] {
            let server = Server::with(|state| {
                state.file.borrow_mut().truncate(size);
                state.sized = sized;
                state.content_encoding = encoding;
            });
            let mut reader = server.reader();
            let bytes = whole(&mut reader, 150_000).expect("small");
            assert!(bytes == *server.0.file.borrow(), "{size} bytes");
            assert_eq!(server.starts(), [0], "{size} bytes in one request");
            if size > 1000 {
                let error = whole(&mut server.reader(), size as u64 - 1).expect_err("too large");
                let limit = size as u64 - 1;
                assert!(
                    matches!(error, SourceError::TooLarge { limit: l, .. } if l == limit),
                    "{error}"
                );
            }
        }
    }
    // Compressed, which the server hides; also where a listing tells the size.
    for listed in [false, true] {
        let server = Server::with(|state| {
            state.file.borrow_mut().truncate(150_000);
            state.announced = Some(30_000);
            state.exposed = false;
        });
        let mut reader = match listed {
            true => HttpReader::with_size(server.clone(), 150_000),
            false => server.reader(),
        };
        let bytes = whole(&mut reader, 150_000).expect("small");
        assert!(bytes == *server.0.file.borrow());
        assert_eq!(reader.size(), Some(150_000));
    }
    // A listing that tells another size than the file has.
    for listed in [149_999, 150_001] {
        let server = Server::with(|state| state.file.borrow_mut().truncate(150_000));
        let mut reader = HttpReader::with_size(server, listed);
        whole(&mut reader, 1 << 20).expect_err("another file");
    }
    // A break in the middle is taken up.
    let server = Server::with(|state| {
        state.file.borrow_mut().truncate(150_000);
        state.cuts = RefCell::new(vec![70_000]);
    });
    let bytes = whole(&mut server.reader(), 1 << 20).expect("small");
    assert!(bytes == *server.0.file.borrow());
    assert_eq!(server.starts(), [0, 70_000]);
    // A file that should be small and is not costs no memory.
    let server = Server::new();
    whole(&mut server.reader(), 1 << 20).expect_err("large");
    assert!(server.0.sent.get() <= 50_000);
    let missing = Server::with(|state| state.statuses = RefCell::new(vec![404]));
    assert!(
        whole(&mut missing.reader(), 9)
            .expect_err("none")
            .is_missing()
    );
}

#[test]
fn a_source_that_rests_goes_on_later() {
    let server = Server::new();
    let mut reader = server.reader();
    good(&mut reader, &server, 0, 1000);
    reader.rest();
    good(&mut reader, &server, 1000, 1000);
    good(&mut reader, &server, 2000, 1000);
    assert_eq!(server.starts(), [0, 1000]);
}

#[test]
fn versions_are_told_and_compared() {
    let server = Server::new();
    let mut reader = server.reader();
    assert_eq!(reader.version(), None);
    good(&mut reader, &server, 4_000_000, 10);
    let version = reader.version().expect("told").clone();
    let tag = |tag: &str, size| Version {
        etag: Some(tag.to_owned()),
        last_modified: None,
        size,
    };
    assert_eq!(version, tag("\"one\"", Some(5_000_000)));
    assert!(version.fits(&version) && version.fits(&Version::default()));
    assert!(!version.fits(&tag("\"two\"", Some(5_000_000))));
    assert!(!version.fits(&tag("\"one\"", Some(1))));
    let dated = |etag: Option<&str>, date: &str| Version {
        etag: etag.map(str::to_owned),
        last_modified: Some(date.to_owned()),
        size: None,
    };
    assert!(!dated(None, "Mon").fits(&dated(None, "Tue")));
    assert!(!dated(Some("1"), "Mon").fits(&dated(None, "Tue")));
    // Two servers of one site may have copied a file at different times.
    assert!(dated(Some("1"), "Mon").fits(&dated(Some("1"), "Tue")));
}

#[test]
fn a_size_that_is_known_beforehand_is_held_to() {
    let server = Server::new();
    let mut reader = HttpReader::with_size(server.clone(), 5_000_000);
    assert_eq!(reader.size(), Some(5_000_000));
    good(&mut reader, &server, 100, 10);
    let past = read(&mut HttpReader::with_size(server.clone(), 50), 40, 20);
    assert!(matches!(past, Err(SourceError::PastEnd { size: 50, .. })));
    let other = read(&mut HttpReader::with_size(server, 50), 0, 20);
    assert!(matches!(other, Err(SourceError::Changed { .. })));
}
