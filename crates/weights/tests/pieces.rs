//! Pieces over disks that fail in every way: the bytes are right or there is an error, what was complete
//! stays, and nothing is fetched twice without need.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pollster::block_on;
use proptest::prelude::*;
use weights::digest::sha256;
use weights::pieces::{Finished, From, MAX_PIECE_BYTES, Notice, Piece, Pieces, cut};
use weights::source::http::Version;
use weights::store::{
    Before, Description, DirDisk, Disk, DiskError, Entry, Key, MemoryDisk, Mode, OriginFile, Store,
};
use weights::{ByteSource, SourceError};

const STEP: usize = 100;
const FLUSH: u64 = 250;

/// The plain bytes.
fn model(len: usize, seed: u32) -> Rc<Vec<u8>> {
    let byte = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 11) as u8;
    Rc::new((0..len as u32).map(byte).collect())
}

/// An origin that counts and fails.
#[derive(Clone)]
struct Origin(Rc<State>);

struct State {
    bytes: RefCell<Rc<Vec<u8>>>,
    fetched: Cell<u64>,
    rests: Cell<u32>,
    /// From this byte on it fails so.
    fails: RefCell<Option<(u64, SourceError)>>,
    /// Bytes that come flipped so many times.
    flips: RefCell<Vec<(u64, u32)>>,
}

impl Origin {
    fn new(bytes: &Rc<Vec<u8>>) -> Self {
        Self(Rc::new(State {
            bytes: RefCell::new(bytes.clone()),
            fetched: Cell::default(),
            rests: Cell::default(),
            fails: RefCell::default(),
            flips: RefCell::default(),
        }))
    }

    fn fail(&self, at: u64, error: SourceError) {
        *self.0.fails.borrow_mut() = Some((at, error));
    }

    fn heal(&self) {
        *self.0.fails.borrow_mut() = None;
    }

    fn flip(&self, at: u64, times: u32) {
        self.0.flips.borrow_mut().push((at, times));
    }

    /// Bytes since the last time.
    fn fetched(&self) -> u64 {
        self.0.fetched.take()
    }
}

impl ByteSource for Origin {
    fn name(&self) -> String {
        "https://example.org/m.gguf".to_owned()
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.borrow().len() as u64)
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        let end = offset + len as u64;
        if let Some((at, error)) = &*self.0.fails.borrow()
            && *at < end
        {
            return Err(error.clone());
        }
        let old = buf.len();
        buf.extend_from_slice(&self.0.bytes.borrow()[offset as usize..end as usize]);
        for (at, times) in self.0.flips.borrow_mut().iter_mut() {
            if *times > 0 && (offset..end).contains(at) {
                *times -= 1;
                buf[old + (*at - offset) as usize] ^= 4;
            }
        }
        self.0.fetched.set(self.0.fetched.get() + len as u64);
        Ok(())
    }

    fn rest(&mut self) {
        self.0.rests.set(self.0.rests.get() + 1);
    }
}

fn lost() -> SourceError {
    SourceError::Lost {
        url: "https://example.org/m.gguf".to_owned(),
        reached: 1,
        total: None,
        detail: "network error".to_owned(),
    }
}

fn version(etag: &str) -> OriginFile {
    OriginFile {
        name: "m.gguf".to_owned(),
        version: Version {
            etag: Some(etag.to_owned()),
            ..Version::default()
        },
    }
}

fn description(pieces: Vec<Piece>) -> Description {
    Description {
        name: "m".to_owned(),
        origin: "https://example.org/m.gguf".to_owned(),
        files: vec![version("\"one\"")],
        pieces,
        ..Description::default()
    }
}

fn key() -> Key {
    Key::of(&["https://example.org/m.gguf", ""])
}

/// Pieces of 1000 bytes whose checksums are not known.
fn unknown(bytes: &[u8]) -> Vec<Piece> {
    cut("m.gguf", bytes.len() as u64, 1000).expect("small")
}

/// Pieces of 1000 bytes with their checksums.
fn known(bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = unknown(bytes);
    for (index, (piece, chunk)) in pieces.iter_mut().zip(bytes.chunks(1000)).enumerate() {
        piece.file = format!("shard-{index}");
        piece.sha256 = Some(sha256(chunk));
    }
    pieces
}

type Notices = Rc<RefCell<Vec<Notice>>>;

fn opened<D: Disk>(disk: &D, pieces: &[Piece], now: u64) -> (Entry<D>, Before) {
    let store = Store::new(disk.clone());
    block_on(store.open_or_create(&key(), &description(pieces.to_vec()), now))
}

/// A source over what `disk` keeps.
fn source<D: Disk>(
    disk: &D,
    origin: Option<&Origin>,
    pieces: &[Piece],
) -> (Pieces<Origin, D>, Notices) {
    let (entry, _) = opened(disk, pieces, 1);
    over(entry, origin, pieces)
}

fn over<D: Disk>(
    entry: Entry<D>,
    origin: Option<&Origin>,
    pieces: &[Piece],
) -> (Pieces<Origin, D>, Notices) {
    let notices = Notices::default();
    let note = {
        let notices = notices.clone();
        move |notice| notices.borrow_mut().push(notice)
    };
    let source = Pieces::new("m", origin.cloned(), pieces.to_vec(), Some(entry));
    let source = source.expect("small pieces").steps(STEP, FLUSH);
    (source.notify(note), notices)
}

fn in_memory(origin: &Origin, pieces: &[Piece]) -> Pieces<Origin> {
    Pieces::new("m", Some(origin.clone()), pieces.to_vec(), None).expect("small pieces")
}

fn read<S: ByteSource>(source: &mut S, offset: u64, len: usize) -> Result<Vec<u8>, SourceError> {
    let mut buf = b"before".to_vec();
    let read = block_on(source.read(offset, &mut buf, len));
    assert_eq!(&buf[..6], b"before");
    if read.is_err() {
        assert_eq!(buf.len(), 6, "nothing is left of a failed read");
    }
    read.map(|()| buf.split_off(6))
}

/// Reads everything in order, compares, finishes.
fn read_all<D: Disk>(
    source: &mut Pieces<Origin, D>,
    bytes: &[u8],
) -> Result<Finished, SourceError> {
    for start in (0..bytes.len()).step_by(333) {
        let len = 333.min(bytes.len() - start);
        let got = read(source, start as u64, len)?;
        assert!(got == bytes[start..start + len], "wrong bytes at {start}");
    }
    block_on(source.finish())
}

fn damaged(notices: &Notices) -> Vec<(usize, From)> {
    let notices = notices.borrow();
    let damaged = notices.iter().filter_map(|notice| match notice {
        Notice::Damaged { piece, from } => Some((*piece, *from)),
        _ => None,
    });
    damaged.collect()
}

fn not_kept(notices: &Notices) -> Vec<DiskError> {
    let notices = notices.borrow();
    let why = notices.iter().filter_map(|notice| match notice {
        Notice::NotKept { why } => Some(why.clone()),
        _ => None,
    });
    why.collect()
}

/// The path of a piece, or of its checksums.
fn path(disk: &MemoryDisk, end: &str) -> Option<String> {
    disk.paths().into_iter().rfind(|path| path.ends_with(end))
}

/// Compares reads of all kinds.
fn reads_like(source: &mut impl ByteSource, bytes: &[u8]) {
    assert_eq!(source.size(), Some(bytes.len() as u64));
    for (at, len) in [(0, 10), (999, 2), (990, 2500), (0, 4321), (4321, 0), (5, 0)] {
        let got = read(source, at, len).expect("inside");
        assert!(got == bytes[at as usize..at as usize + len], "{at} {len}");
    }
    for (at, len) in [(4321, 1), (0, 4322), (u64::MAX, 2)] {
        let error = read(source, at, len).expect_err("past the end");
        assert!(matches!(error, SourceError::PastEnd { size: 4321, .. }));
    }
}

#[test]
fn it_reads_like_the_plain_bytes() {
    let bytes = model(4321, 1);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    for pieces in [unknown(&bytes), known(&bytes)] {
        reads_like(&mut source(&disk, Some(&origin), &pieces).0, &bytes);
        reads_like(&mut source(&disk, None, &pieces).0, &bytes);
        reads_like(&mut in_memory(&origin, &pieces), &bytes);
    }
}

#[test]
fn pieces_that_cannot_be_are_refused() {
    let piece = |bytes| Piece {
        file: "shard".to_owned(),
        bytes,
        sha256: None,
    };
    for pieces in [
        vec![piece(0)],
        vec![piece(MAX_PIECE_BYTES + 1)],
        vec![piece(u64::MAX); 2],
        vec![piece(1); 70_000],
    ] {
        let refused = Pieces::<Origin>::new("m", None, pieces, None);
        assert!(matches!(refused, Err(SourceError::BadAnswer { .. })));
    }
    assert!(cut("m", u64::MAX, 1).is_err());
    assert!(cut("m", 10, 0).is_err());
    assert!(cut("m", 10, MAX_PIECE_BYTES + 1).is_err());
    assert_eq!(cut("m", 0, 10), Ok(Vec::new()));
    let sizes = cut("m", 25, 10).expect("three");
    let sizes: Vec<_> = sizes.iter().map(|piece| piece.bytes).collect();
    assert_eq!(sizes, [10, 10, 5]);
}

/// A load that breaks off at 30 % goes on there, whatever broke it.
#[test]
fn what_broke_off_is_resumed() {
    let bytes = model(10_000, 2);
    let folder = std::env::temp_dir().join(format!("pieces-{}", std::process::id()));
    fn check<D: Disk>(disk: &D, bytes: &Rc<Vec<u8>>, pieces: &[Piece]) {
        let origin = Origin::new(bytes);
        origin.fail(3450, lost());
        {
            let (mut first, _) = source(disk, Some(&origin), pieces);
            assert_eq!(read_all(&mut first, bytes), Err(lost()));
            assert_eq!(origin.fetched(), 3400);
        }
        // Also when it breaks again before anything came.
        {
            let (mut second, _) = source(disk, Some(&origin), pieces);
            assert_eq!(read_all(&mut second, bytes), Err(lost()));
            assert_eq!(origin.fetched(), 0);
        }
        origin.heal();
        let (entry, before) = opened(disk, pieces, 7);
        assert_eq!(before, Before::Kept { complete: 3 });
        let (mut third, notices) = over(entry, Some(&origin), pieces);
        let finished = read_all(&mut third, bytes).expect("the network is back");
        assert_eq!(origin.fetched(), 6600, "nothing is fetched twice");
        let expected = Finished {
            pieces: 10,
            kept: 10,
            fetched: 6600,
            read_back: 3400,
        };
        assert_eq!(finished, expected);
        assert!(damaged(&notices).is_empty() && not_kept(&notices).is_empty());
        let verified: Vec<_> = notices
            .borrow()
            .iter()
            .filter_map(|notice| match *notice {
                Notice::Verified { piece, from, kept } => Some((piece, from, kept)),
                _ => None,
            })
            .collect();
        let expected: Vec<_> = (0..10)
            .map(|piece| match piece < 3 {
                true => (piece, From::Disk, true),
                false => (piece, From::Origin, true),
            })
            .collect();
        assert_eq!(verified, expected);
        drop(third);
        // Now without any origin.
        let (mut fourth, _) = source(disk, None, pieces);
        read_all(&mut fourth, bytes).expect("all is there");
    }
    check(&MemoryDisk::new(), &bytes, &unknown(&bytes));
    check(&MemoryDisk::new(), &bytes, &known(&bytes));
    check(&DirDisk::new(folder.join("a")), &bytes, &unknown(&bytes));
    check(&DirDisk::new(folder.join("b")), &bytes, &known(&bytes));
    std::fs::remove_dir_all(&folder).expect("made above");
}

/// Notices tell how far a piece is.
#[test]
fn progress_is_told() {
    let bytes = model(1250, 3);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let (mut first, notices) = source(&disk, Some(&origin), &unknown(&bytes));
    read(&mut first, 1100, 10).expect("inside");
    let arriving = |from, done| Notice::Arriving {
        piece: 1,
        from,
        done,
        bytes: 250,
    };
    let verified = |from| Notice::Verified {
        piece: 1,
        from,
        kept: true,
    };
    let expected = [
        arriving(From::Origin, 100),
        arriving(From::Origin, 200),
        arriving(From::Origin, 250),
        Notice::Hashing { piece: 1 },
        verified(From::Origin),
    ];
    assert_eq!(notices.take(), expected);
    // The piece is in memory.
    read(&mut first, 1000, 250).expect("inside");
    assert_eq!(notices.take(), []);
    drop(first);
    let (mut second, notices) = source(&disk, None, &unknown(&bytes));
    read(&mut second, 1000, 250).expect("stored");
    let expected = [
        arriving(From::Disk, 100),
        arriving(From::Disk, 200),
        arriving(From::Disk, 250),
        Notice::Hashing { piece: 1 },
        verified(From::Disk),
    ];
    assert_eq!(notices.take(), expected);
    let error = read(&mut second, 0, 1).expect_err("never fetched, and no origin");
    assert!(
        error.to_string().contains("is not stored here whole"),
        "{error}"
    );
}

/// `finish` verifies what nobody read.
#[test]
fn done_means_every_piece() {
    let bytes = model(5000, 4);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let (mut kept, _) = source(&disk, Some(&origin), &unknown(&bytes));
    read(&mut kept, 2500, 10).expect("inside");
    let finished = block_on(kept.finish()).expect("all arrive");
    assert_eq!(
        (finished.pieces, finished.kept, finished.fetched),
        (5, 5, 5000)
    );
    assert_eq!(origin.0.rests.get(), 1, "the connection is let go");
    drop(kept);
    // A byte rots that nobody reads.
    let rotten = path(&disk, "p00004").expect("the last piece");
    let mut content = disk.get(&rotten).expect("listed");
    content[999] ^= 1;
    disk.put(&rotten, content);
    origin.fetched();
    let (mut again, notices) = source(&disk, Some(&origin), &unknown(&bytes));
    read(&mut again, 0, 10).expect("good");
    block_on(again.finish()).expect("healed");
    assert_eq!(damaged(&notices), [(4, From::Disk)]);
    assert_eq!(origin.fetched(), 1000);
    // Without a checksum and without a disk there is nothing to verify.
    let mut plain = in_memory(&origin, &unknown(&bytes));
    block_on(plain.finish()).expect("nothing to do");
    assert_eq!(origin.fetched(), 0);
    let mut checked = in_memory(&origin, &known(&bytes));
    block_on(checked.finish()).expect("good");
    assert_eq!(origin.fetched(), 5000);
}

#[test]
fn a_flipped_byte_on_the_disk_is_found_and_healed() {
    let bytes = model(3000, 5);
    for pieces in [unknown(&bytes), known(&bytes)] {
        for fault in ["flip", "short", "missing"] {
            let origin = Origin::new(&bytes);
            let disk = MemoryDisk::new();
            let (mut first, _) = source(&disk, Some(&origin), &pieces);
            read_all(&mut first, &bytes).expect("good");
            drop(first);
            origin.fetched();
            let place = path(&disk, "p00001").expect("a piece");
            let mut content = disk.get(&place).expect("listed");
            match fault {
                "flip" => content[500] ^= 0x80,
                "short" => content.truncate(999),
                _ => {}
            }
            match fault {
                "missing" => block_on(disk.remove(&place)).expect("not open"),
                _ => disk.put(&place, content),
            }
            // Without an origin it is an error, and never a wrong byte.
            let (mut alone, notices) = source(&disk, None, &pieces);
            let error = read_all(&mut alone, &bytes).expect_err("damaged");
            assert!(error.to_string().contains("load the model from its origin"));
            assert_eq!(damaged(&notices), [(1, From::Disk)]);
            drop(alone);
            let (entry, before) = opened(&disk, &pieces, 2);
            assert_eq!(before, Before::Kept { complete: 2 }, "the list knows");
            drop(entry);
            let (mut healed, _) = source(&disk, Some(&origin), &pieces);
            read_all(&mut healed, &bytes).expect("fetched again");
            assert_eq!(origin.fetched(), 1000, "only that piece");
            drop(healed);
            let (mut alone, _) = source(&disk, None, &pieces);
            read_all(&mut alone, &bytes).expect("kept again");
        }
    }
}

#[test]
fn a_flipped_byte_from_the_origin_is_healed_once() {
    let bytes = model(3000, 6);
    let pieces = known(&bytes);
    for kept in [true, false] {
        let origin = Origin::new(&bytes);
        origin.flip(1234, 1);
        let disk = MemoryDisk::new();
        if kept {
            let (mut source, notices) = source(&disk, Some(&origin), &pieces);
            read_all(&mut source, &bytes).expect("healed");
            assert_eq!(damaged(&notices), [(1, From::Origin)]);
            assert_eq!(source.entry().expect("kept").complete(), 3);
        } else {
            read_all(&mut in_memory(&origin, &pieces), &bytes).expect("healed");
        }
        assert_eq!(origin.fetched(), 4000);
    }
    // Always: an error that names the file; nothing wrong is kept, the rest is.
    let origin = Origin::new(&bytes);
    origin.flip(1234, u32::MAX);
    let disk = MemoryDisk::new();
    {
        let (mut source, notices) = source(&disk, Some(&origin), &pieces);
        let error = read_all(&mut source, &bytes).expect_err("always wrong");
        let text = error.to_string();
        for word in ["m:", "shard-1", "SHA-256", "twice", "again later"] {
            assert!(text.contains(word), "{text}");
        }
        assert_eq!(damaged(&notices), [(1, From::Origin); 2]);
        assert_eq!(source.entry().expect("kept").complete(), 1);
    }
    // When the server is repaired, loading again goes on.
    origin.0.flips.borrow_mut().clear();
    origin.fetched();
    let (mut source, _) = source(&disk, Some(&origin), &pieces);
    read_all(&mut source, &bytes).expect("good now");
    assert_eq!(origin.fetched(), 2000);
}

/// A wrong byte in what arrived before the break is found too.
#[test]
fn a_wrong_byte_in_a_resumed_piece_is_healed() {
    let bytes = model(1000, 7);
    let origin = Origin::new(&bytes);
    origin.flip(50, 1);
    origin.fail(600, lost());
    let disk = MemoryDisk::new();
    let pieces = known(&bytes);
    {
        let (mut first, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut first, &bytes).expect_err("breaks");
    }
    origin.heal();
    origin.flip(60, 1);
    let (mut second, notices) = source(&disk, Some(&origin), &pieces);
    read_all(&mut second, &bytes).expect("the third time it is right");
    assert_eq!(damaged(&notices), [(0, From::Origin); 2]);
    assert_eq!(origin.fetched(), 600 + 400 + 1000 + 1000);
}

#[test]
fn a_full_disk_does_not_end_the_load() {
    let bytes = model(10_000, 8);
    for pieces in [unknown(&bytes), known(&bytes)] {
        // Also so full that not even the record fits.
        for room in [0, 100, 900, 3000, 4321, 6543, 9000] {
            let origin = Origin::new(&bytes);
            let disk = MemoryDisk::new();
            disk.set_room(Some(room));
            let (entry, _) = opened(&disk, &pieces, 1);
            let at_once = entry.keeps().is_err();
            let (mut source_, notices) = over(entry, Some(&origin), &pieces);
            let finished = read_all(&mut source_, &bytes).expect("goes on in memory");
            assert_eq!(origin.fetched(), 10_000);
            assert!(finished.kept < 10);
            assert_eq!(source_.keeps(), Some(Err(&DiskError::Full)));
            let told = not_kept(&notices);
            assert_eq!(
                told,
                vec![DiskError::Full; usize::from(!at_once)],
                "told once"
            );
            drop(source_);
            // What was stored stays and is used, still without room.
            let (mut again, _) = source(&disk, Some(&origin), &pieces);
            read_all(&mut again, &bytes).expect("goes on in memory");
            let saved = 10_000 - origin.fetched();
            assert!(saved >= finished.kept as u64 * 1000, "{room}: {saved}");
            drop(again);
            // With room, the load goes on where it was.
            disk.set_room(None);
            let (mut last, _) = source(&disk, Some(&origin), &pieces);
            let finished = read_all(&mut last, &bytes).expect("good");
            assert_eq!(finished.kept, 10);
            let saved_now = 10_000 - origin.fetched();
            assert!(saved_now >= saved, "{room}: {saved_now}");
        }
    }
}

#[test]
fn storage_that_goes_away_does_not_end_the_load() {
    let bytes = model(5000, 9);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let pieces = unknown(&bytes);
    let (mut source_, notices) = source(&disk, Some(&origin), &pieces);
    read(&mut source_, 0, 1500).expect("good");
    disk.set_unavailable(Some("cleared by the person"));
    read_all(&mut source_, &bytes).expect("goes on in memory");
    let gone = DiskError::Unavailable {
        detail: "cleared by the person".to_owned(),
    };
    assert_eq!(not_kept(&notices), std::slice::from_ref(&gone));
    drop(source_);
    // Never there in the first place.
    let (entry, before) = opened(&disk, &pieces, 1);
    assert_eq!((entry.keeps(), before), (Err(&gone), Before::Nothing));
    let (mut source_, _) = over(entry, Some(&origin), &pieces);
    read_all(&mut source_, &bytes).expect("in memory");
}

#[test]
fn who_comes_second_reads_and_keeps_nothing() {
    let bytes = model(5000, 10);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let pieces = unknown(&bytes);
    let (mut first, _) = source(&disk, Some(&origin), &pieces);
    read(&mut first, 0, 2500).expect("good");
    assert_eq!(origin.fetched(), 3000);
    let (entry, before) = opened(&disk, &pieces, 2);
    let in_use = DiskError::Locked {
        path: "m".to_owned(),
    };
    assert_eq!(entry.keeps(), Err(&in_use));
    assert_eq!(before, Before::Kept { complete: 3 });
    let changes = disk.changes();
    let (mut second, notices) = over(entry, Some(&origin), &pieces);
    read_all(&mut second, &bytes).expect("reads");
    assert_eq!(
        origin.fetched(),
        2000,
        "what is complete is read from the disk"
    );
    assert_eq!(disk.changes(), changes, "and nothing is written");
    assert!(not_kept(&notices).is_empty(), "it was said at the start");
    drop(second);
    read_all(&mut first, &bytes).expect("undisturbed");
    assert_eq!(origin.fetched(), 2000);
    drop(first);
    let (mut third, _) = source(&disk, None, &pieces);
    read_all(&mut third, &bytes).expect("all is there");
}

/// A piece that another tab has locked comes from the origin.
#[test]
fn a_locked_piece_is_fetched() {
    let bytes = model(2000, 11);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let pieces = unknown(&bytes);
    let (entry, _) = opened(&disk, &pieces, 1);
    let place = "models/".to_owned() + key().as_str() + "/p00000";
    let lock = block_on(disk.open(&place, Mode::Write)).expect("not open");
    let (mut source_, notices) = over(entry, Some(&origin), &pieces);
    read_all(&mut source_, &bytes).expect("goes on in memory");
    let told = DiskError::Locked {
        path: "m".to_owned(),
    };
    assert_eq!(not_kept(&notices), [told]);
    drop(lock);
}

#[test]
fn a_model_that_changed_at_its_origin_is_not_mixed() {
    let bytes = model(5000, 12);
    let other = model(5000, 13);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let pieces = unknown(&bytes);
    origin.fail(2300, lost());
    {
        let (mut first, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut first, &bytes).expect_err("breaks");
    }
    // Known before the first byte.
    *origin.0.bytes.borrow_mut() = other.clone();
    origin.heal();
    let mut changed = description(pieces.clone());
    changed.files = vec![version("\"two\"")];
    let store = Store::new(disk.clone());
    let (entry, before) = block_on(store.open_or_create(&key(), &changed, 3));
    let Before::Discarded { reason } = before else {
        panic!("{before:?}");
    };
    assert!(reason.contains("m.gguf has changed"), "{reason}");
    let (mut second, _) = over(entry, Some(&origin), &pieces);
    origin.fail(3300, lost());
    origin.fetched();
    read_all(&mut second, &other).expect_err("breaks");
    assert_eq!(origin.fetched(), 3300, "from the start");
    drop(second);

    // Found out midway: the origin says so.
    let gone = SourceError::Changed {
        url: "https://example.org/m.gguf".to_owned(),
    };
    origin.fail(3300, gone.clone());
    let (entry, before) = block_on(store.open_or_create(&key(), &changed, 4));
    assert_eq!(before, Before::Kept { complete: 3 });
    let (mut third, notices) = over(entry, Some(&origin), &pieces);
    assert_eq!(read_all(&mut third, &other), Err(gone));
    assert!(notices.borrow().contains(&Notice::Discarded));
    drop(third);
    assert_eq!(path(&disk, "p00000"), None, "nothing is left of it");
    origin.heal();
    *origin.0.bytes.borrow_mut() = bytes.clone();
    origin.fetched();
    let (mut fourth, _) = source(&disk, Some(&origin), &pieces);
    read_all(&mut fourth, &bytes).expect("anew");
    assert_eq!(origin.fetched(), 5000);
}

/// The power fails while the data of the old version is thrown away, or is written over.
#[test]
fn no_crash_mixes_versions() {
    let bytes = model(3500, 20);
    let other = model(3500, 21);
    let pieces = unknown(&bytes);
    let half_loaded = || {
        let disk = MemoryDisk::new();
        let origin = Origin::new(&bytes);
        origin.fail(2700, lost());
        let (mut first, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut first, &bytes).expect_err("breaks");
        drop(first);
        disk
    };
    let mut changed = description(pieces.clone());
    changed.files = vec![version("\"two\"")];
    let load = |disk: &MemoryDisk, deleted: bool, breaks: bool| {
        let origin = Origin::new(&other);
        if breaks {
            origin.fail(2700, lost());
        }
        let store = Store::new(disk.clone());
        if deleted {
            // It may fail when the power does.
            drop(block_on(store.delete(&key())));
        }
        let (entry, _) = block_on(store.open_or_create(&key(), &changed, 5));
        let loaded = read_all(&mut over(entry, Some(&origin), &pieces).0, &other);
        assert_eq!(loaded.is_err(), breaks);
    };
    for deleted in [false, true] {
        let disk = half_loaded();
        let before = disk.changes();
        load(&disk, deleted, false);
        for at in 0..=disk.changes() - before {
            for seed in 0..12 {
                let disk = half_loaded();
                disk.fail_after(Some(at));
                load(&disk, deleted, seed % 2 == 0);
                disk.crash(at * 100 + seed);
                load(&disk, false, false);
            }
        }
    }
}

/// The same when the origin says midway that it has changed.
#[test]
fn no_crash_brings_back_what_was_discarded() {
    let bytes = model(3500, 22);
    let other = model(3500, 23);
    let pieces = unknown(&bytes);
    let url = "https://example.org/m.gguf".to_owned();
    for seed in 0..60 {
        let disk = MemoryDisk::new();
        let origin = Origin::new(&bytes);
        origin.fail(2700, SourceError::Changed { url: url.clone() });
        let (mut first, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut first, &bytes).expect_err("changed");
        drop(first);
        disk.crash(seed);
        let origin = Origin::new(&other);
        let (mut second, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut second, &other).expect("anew");
        assert_eq!(origin.fetched(), 3500);
    }
}

/// What had arrived when a load ended in order is there even if the power fails then.
#[test]
fn an_error_leaves_everything_on_the_disk() {
    let bytes = model(3500, 24);
    let pieces = unknown(&bytes);
    for seed in 0..20 {
        let disk = MemoryDisk::new();
        let origin = Origin::new(&bytes);
        origin.fail(2400, lost());
        let (mut first, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut first, &bytes).expect_err("breaks");
        disk.crash(seed);
        origin.heal();
        origin.fetched();
        let (mut second, _) = source(&disk, Some(&origin), &pieces);
        read_all(&mut second, &bytes).expect("goes on");
        assert_eq!(origin.fetched(), 1100);
    }
}

#[test]
fn other_checksums_make_other_pieces() {
    let bytes = model(3000, 14);
    let mut other = bytes.to_vec();
    other[1500] ^= 1;
    let other = Rc::new(other);
    let disk = MemoryDisk::new();
    let (mut first, _) = source(&disk, Some(&Origin::new(&bytes)), &known(&bytes));
    read_all(&mut first, &bytes).expect("good");
    drop(first);
    // The manifest is a newer one in which one shard differs.
    let origin = Origin::new(&other);
    let (entry, before) = opened(&disk, &known(&other), 2);
    assert_eq!(before, Before::Kept { complete: 2 });
    let (mut second, _) = over(entry, Some(&origin), &known(&other));
    read_all(&mut second, &other).expect("good");
    assert_eq!(origin.fetched(), 1000);
}

#[test]
fn stopping_keeps_what_arrived_and_leaves_room_for_another() {
    let bytes = model(5000, 15);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let pieces = unknown(&bytes);
    let (entry, _) = opened(&disk, &pieces, 1);
    let (source_, _) = over(entry, Some(&origin), &pieces);
    let stopped = {
        let origin = origin.clone();
        move || origin.0.fetched.get() >= 2300
    };
    let mut source_ = source_.stop_when(stopped);
    let cancelled = SourceError::Cancelled {
        name: "m".to_owned(),
    };
    assert_eq!(read_all(&mut source_, &bytes), Err(cancelled));
    drop(source_);
    origin.fetched();
    // Another model.
    let other = model(3000, 16);
    let store = Store::new(disk.clone());
    let description = description(unknown(&other));
    let second_key = Key::of(&["another"]);
    let (entry, _) = block_on(store.open_or_create(&second_key, &description, 2));
    let second_origin = Origin::new(&other);
    let (mut second, _) = over(entry, Some(&second_origin), &unknown(&other));
    read_all(&mut second, &other).expect("good");
    drop(second);
    // And the first one again.
    let (mut again, _) = source(&disk, Some(&origin), &pieces);
    read_all(&mut again, &bytes).expect("goes on");
    assert_eq!(origin.fetched(), 2700);
    drop(again);
    let list = block_on(store.list()).expect("listed");
    assert_eq!(list.len(), 2);
    assert!(
        list.iter()
            .all(|it| it.state.as_ref().is_ok_and(|it| it.is_complete()))
    );
}

/// The power fails at every single change to the disk, and again during the load that follows.
#[test]
fn no_crash_makes_a_wrong_byte_or_loses_a_piece() {
    let bytes = model(3500, 17);
    let load = |disk: &MemoryDisk, pieces: &[Piece]| {
        let origin = Origin::new(&bytes);
        let (mut source_, _) = source(disk, Some(&origin), pieces);
        // Goes on in memory when the power of the disk fails.
        read_all(&mut source_, &bytes).expect("right bytes");
        (source_.entry().map_or(0, Entry::complete), origin.fetched())
    };
    for pieces in [unknown(&bytes), known(&bytes)] {
        let whole = MemoryDisk::new();
        load(&whole, &pieces);
        let changes = whole.changes();
        for seed in 0..6 {
            for at in 0..=changes {
                let disk = MemoryDisk::new();
                disk.fail_after(Some(at));
                let (complete, _) = load(&disk, &pieces);
                disk.crash(seed * 1000 + at);
                // Now with another crash at some place.
                disk.fail_after(Some((at * 7 + seed) % changes));
                let (complete_again, fetched) = load(&disk, &pieces);
                assert!(complete_again >= complete, "{at} {seed}: a piece was lost");
                assert!(
                    fetched <= 3500 - 1000 * complete.min(3) as u64,
                    "{at} {seed}"
                );
                disk.crash(seed * 777 + at);
                let (complete, fetched) = load(&disk, &pieces);
                assert_eq!(complete, 4);
                assert!(fetched <= 3500 - 1000 * complete_again.min(3) as u64);
            }
        }
    }
}

/// When only the program ends, what was appended is there, flushed or not.
#[test]
fn closing_the_tab_keeps_what_had_arrived() {
    let bytes = model(5000, 18);
    let origin = Origin::new(&bytes);
    let disk = MemoryDisk::new();
    let pieces = unknown(&bytes);
    let (source_, _) = source(&disk, Some(&origin), &pieces);
    // The tab closes at 60 %: nothing is dropped in order.
    origin.fail(3050, lost());
    let mut source_ = source_;
    read_all(&mut source_, &bytes).expect_err("closed");
    disk.close_all();
    std::mem::forget(source_);
    origin.heal();
    origin.fetched();
    let (mut again, _) = source(&disk, Some(&origin), &pieces);
    read_all(&mut again, &bytes).expect("goes on");
    assert_eq!(origin.fetched(), 2000);
}

/// What may happen to a model in its life.
#[derive(Clone, Debug)]
enum Happening {
    Read { at: u32, len: u16 },
    Finish,
    Reopen,
    Crash { seed: u64 },
    PowerFails { after: u8 },
    FlipStored { file: u8, at: u16 },
    FlipSent { at: u16 },
    OriginFails { at: Option<u16> },
    Room { bytes: Option<u16> },
    Delete,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (0u32..6000, 0u16..2500).prop_map(|(at, len)| Happening::Read { at, len }),
        2 => Just(Happening::Finish),
        3 => Just(Happening::Reopen),
        2 => any::<u64>().prop_map(|seed| Happening::Crash { seed }),
        1 => (0u8..60).prop_map(|after| Happening::PowerFails { after }),
        1 => (any::<u8>(), any::<u16>()).prop_map(|(file, at)| Happening::FlipStored { file, at }),
        1 => (0u16..6000).prop_map(|at| Happening::FlipSent { at }),
        1 => proptest::option::of(0u16..6000).prop_map(|at| Happening::OriginFails { at }),
        1 => proptest::option::of(0u16..9000).prop_map(|bytes| Happening::Room { bytes }),
        1 => Just(Happening::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens: a read gives the plain bytes or an error, and errors have a cause.
    #[test]
    fn histories_read_like_the_plain_bytes(
        happenings in proptest::collection::vec(happening(), 1..40),
        checksums in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let bytes = model(6000, seed);
        let pieces = if checksums { known(&bytes) } else { unknown(&bytes) };
        let origin = Origin::new(&bytes);
        let disk = MemoryDisk::new();
        let mut now = 1;
        let (mut current, _) = source(&disk, Some(&origin), &pieces);
        for happening in happenings {
            let flawed = origin.0.fails.borrow().is_some()
                || origin.0.flips.borrow().iter().any(|flip| flip.1 > 0);
            match happening {
                Happening::Read { at, len } => {
                    let (start, end) = (at as usize, at as usize + usize::from(len));
                    match read(&mut current, at.into(), len.into()) {
                        Ok(got) => prop_assert!(got == bytes[start..end], "wrong bytes"),
                        Err(error) if end > bytes.len() => {
                            let past_end = matches!(error, SourceError::PastEnd { .. });
                            prop_assert!(past_end || flawed, "{}", error);
                        }
                        Err(error) => prop_assert!(flawed, "{}", error),
                    }
                }
                Happening::Finish => match block_on(current.finish()) {
                    Ok(_) => {}
                    Err(error) => prop_assert!(flawed, "{}", error),
                },
                Happening::Reopen => {
                    drop(current);
                    now += 1;
                    let (entry, _) = opened(&disk, &pieces, now);
                    current = over(entry, Some(&origin), &pieces).0;
                }
                Happening::Crash { seed } => {
                    disk.crash(seed);
                    drop(current);
                    now += 1;
                    let (entry, _) = opened(&disk, &pieces, now);
                    current = over(entry, Some(&origin), &pieces).0;
                }
                Happening::PowerFails { after } => disk.fail_after(Some(after.into())),
                Happening::FlipStored { file, at } => {
                    let paths = disk.paths();
                    if let Some(path) = paths.get(usize::from(file) % paths.len().max(1)) {
                        let mut content = disk.get(path).unwrap_or_default();
                        let len = content.len().max(1);
                        if let Some(byte) = content.get_mut(usize::from(at) % len) {
                            *byte ^= 0x10;
                            disk.put(path, content);
                        }
                    }
                }
                // Without checksums nobody can tell.
                Happening::FlipSent { at } if checksums => origin.flip(at.into(), 1),
                Happening::FlipSent { .. } => {}
                Happening::OriginFails { at } => match at {
                    Some(at) => origin.fail(at.into(), lost()),
                    None => origin.heal(),
                },
                Happening::Room { bytes } => disk.set_room(bytes.map(u64::from)),
                Happening::Delete => {
                    // Refused while it is in use, and after a power failure.
                    let store = Store::new(disk.clone());
                    if block_on(store.delete(&key())).is_ok() {
                        prop_assert!(current.keeps().is_some_and(|keeps| keeps.is_err()));
                    }
                }
            }
        }
        // In the end all can be had, from a new beginning.
        origin.heal();
        origin.0.flips.borrow_mut().clear();
        disk.set_room(None);
        disk.crash(u64::from(seed));
        drop(current);
        let (entry, _) = opened(&disk, &pieces, now + 1);
        let (mut last, _) = over(entry, Some(&origin), &pieces);
        let finished = read_all(&mut last, &bytes);
        prop_assert_eq!(finished.map(|finished| finished.kept), Ok(6));
        drop(last);
        let (mut alone, _) = source(&disk, None, &pieces);
        prop_assert!(read_all(&mut alone, &bytes).is_ok());
    }
}
