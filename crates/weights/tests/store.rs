//! The store of models: what is listed, kept, deleted, and what becomes of it when something breaks.

use pollster::block_on;
use proptest::prelude::*;
use weights::pieces::{Pieces, cut};
use weights::source::folder::{Folder, MemoryFolder, read_small};
use weights::source::http::Version;
use weights::store::{
    Before, Description, DirDisk, Disk, DiskError, DiskFile, Entry, Item, Keeping, Key, MemoryDisk,
    Mode, OriginFile, Room, SmallFiles, Store, Summary, Trouble,
};
use weights::{ByteSource, MemorySource, SourceError};

fn description(name: &str, bytes: u64) -> Description {
    Description {
        name: name.to_owned(),
        kind: "gguf".to_owned(),
        origin: format!("https://example.org/{name}.gguf"),
        label: "GGUF, Q4_K_M".to_owned(),
        facts: [("licence".to_owned(), "MIT".to_owned())].into(),
        files: vec![OriginFile {
            name: format!("{name}.gguf"),
            version: Version {
                etag: Some("\"one\"".to_owned()),
                last_modified: None,
                size: Some(bytes),
            },
        }],
        pieces: cut(&format!("{name}.gguf"), bytes, 100).expect("small"),
    }
}

fn key(name: &str) -> Key {
    Key::of(&[name])
}

fn create<D: Disk>(store: &Store<D>, name: &str, now: u64) -> Entry<D> {
    let (entry, _) = block_on(store.open_or_create(&key(name), &description(name, 250), now));
    entry
}

/// Fills an entry with `bytes[..upto]`.
fn fill<D: Disk>(entry: Entry<D>, upto: usize) {
    let pieces = entry.pieces();
    let origin = MemorySource::new("bytes", vec![7u8; 250]);
    let mut source = Pieces::new("m", Some(origin), pieces, Some(entry)).expect("small");
    let mut buf = Vec::new();
    block_on(source.read(0, &mut buf, upto)).expect("in memory");
}

fn names<D: Disk>(store: &Store<D>) -> Vec<String> {
    let list = block_on(store.list()).expect("listed").into_iter();
    list.map(|listed| match listed.state {
        Ok(summary) => summary.description.name,
        Err(trouble) => trouble.to_string(),
    })
    .collect()
}

/// The same on every disk; `name` tells its folder from others.
fn everywhere(name: &str, check: impl Fn(&dyn Checked)) {
    check(&MemoryDisk::new());
    let folder = std::env::temp_dir().join(format!("store-{name}-{}", std::process::id()));
    check(&DirDisk::new(&folder));
    drop(std::fs::remove_dir_all(&folder));
}

/// A disk and what is checked on it, whichever it is.
trait Checked {
    fn life(&self);
    fn files(&self);
}

impl<D: Disk> Checked for D {
    /// From the first byte to the deletion.
    fn life(&self) {
        let store = Store::new(self.clone());
        assert_eq!(block_on(store.list()), Ok(Vec::new()));
        assert_eq!(block_on(store.find(&key("a"))), Ok(None));
        assert!(
            block_on(store.open(&key("a"), 1))
                .expect("no trouble")
                .is_none()
        );
        let (entry, before) =
            block_on(store.open_or_create(&key("a"), &description("a", 250), 1000));
        assert_eq!((entry.keeps(), before), (Ok(()), Before::Nothing));
        fill(entry, 150);
        fill(create(&store, "b", 2000), 250);
        let expected = Summary {
            key: key("a"),
            description: description("a", 250),
            complete_bytes: 200,
            total_bytes: 250,
            complete: 2,
            created: 1000,
            used: 1000,
            opens_alone: false,
        };
        assert!(!expected.is_complete());
        assert_eq!(block_on(store.find(&key("a"))), Ok(Some(expected)));
        let list = block_on(store.list()).expect("listed");
        assert_eq!(names(&store), ["b", "a"], "the last used first");
        assert!(list[0].state.as_ref().is_ok_and(Summary::is_complete));
        assert!((250..4000).contains(&list[0].bytes), "{}", list[0].bytes);
        // A use changes the order, and nothing else.
        block_on(store.touch(&key("a"), 3000)).expect("there");
        block_on(store.touch(&key("none"), 3000)).expect("nothing to do");
        assert_eq!(names(&store), ["a", "b"]);
        let entry = block_on(store.open(&key("b"), 4000)).expect("there");
        let summary = entry.expect("there").summary();
        assert_eq!(
            (summary.used, summary.created, summary.complete),
            (4000, 2000, 3)
        );
        assert_eq!(names(&store), ["b", "a"]);
        // What is in use is not deleted.
        let entry = create(&store, "a", 5000);
        let refused = block_on(store.delete(&key("a"))).expect_err("in use");
        assert!(refused.to_string().starts_with("a is in use"), "{refused}");
        drop(entry);
        block_on(store.delete(&key("a"))).expect("free");
        assert_eq!(names(&store), ["b"]);
        block_on(store.delete(&key("a"))).expect("there is none, and that is fine");
        assert_eq!(names(&store), ["b"]);
        assert_eq!(block_on(store.find(&key("a"))), Ok(None));
        block_on(store.delete(&key("b"))).expect("free");
        assert_eq!(block_on(self.list("models")), Ok(Vec::new()));
    }

    fn files(&self) {
        let mut file = block_on(self.open("models/x/f", Mode::Write)).expect("made");
        file.write(0, b"0123456789").expect("room");
        file.write(4, b"xy").expect("room");
        file.truncate(8).expect("shorter");
        file.flush().expect("kept");
        assert_eq!(file.size(), Ok(8));
        let locked = block_on(self.open("models/x/f", Mode::Write)).err();
        assert!(matches!(locked, Some(DiskError::Locked { .. })));
        drop(file);
        let file = block_on(self.open("models/x/f", Mode::Read)).expect("there");
        let mut bytes = [0; 5];
        block_on(file.read(3, &mut bytes)).expect("inside");
        assert_eq!(&bytes, b"3xy67");
        block_on(file.read(4, &mut bytes)).expect_err("past the end");
        let item = |name: &str, bytes: Option<u64>| Item {
            name: name.to_owned(),
            bytes,
            folder: bytes.is_none(),
        };
        assert_eq!(block_on(self.list("")), Ok(vec![item("models", None)]));
        assert_eq!(block_on(self.list("models")), Ok(vec![item("x", None)]));
        assert_eq!(
            block_on(self.list("models/x")),
            Ok(vec![item("f", Some(8))])
        );
        assert_eq!(block_on(self.list("nowhere")), Ok(Vec::new()));
        assert_eq!(
            block_on(self.read_small("models/x/f", 8)),
            Ok(b"0123xy67".to_vec())
        );
        block_on(self.read_small("models/x/f", 7)).expect_err("too large");
        block_on(self.write_small("models/x/f", b"new")).expect("room");
        assert_eq!(
            block_on(self.read_small("models/x/f", 8)),
            Ok(b"new".to_vec())
        );
        for bad in [
            "", "a/../b", "/etc", "a//b", ".hidden", "a\\b", "c:", "a/b/", "é",
        ] {
            let refused = block_on(self.open(bad, Mode::Write)).err();
            assert!(matches!(refused, Some(DiskError::Io { .. })), "{bad}");
        }
        let missing = block_on(self.open("models/x/g", Mode::Read)).err();
        assert!(matches!(missing, Some(DiskError::Missing { .. })));
        block_on(self.remove("models/x/g")).expect("there is none, and that is fine");
        block_on(self.remove("models")).expect("free");
        assert_eq!(block_on(self.list("")), Ok(Vec::new()));
    }
}

#[test]
fn a_life() {
    everywhere("life", |disk| disk.life());
}

#[test]
fn disks_are_alike() {
    everywhere("files", |disk| disk.files());
}

#[test]
fn keys_are_digits() {
    assert_ne!(Key::of(&["ab", "c"]), Key::of(&["a", "bc"]));
    assert_ne!(Key::of(&["a"]), Key::of(&["a", ""]));
    let key = Key::of(&["https://example.org/m.gguf", "q4"]);
    assert_eq!(Key::parse(key.as_str()), Some(key.clone()));
    assert_eq!(Key::parse(&key.as_str().to_uppercase()), None);
    for no in ["", "..", "0", "../../x", &"g".repeat(32), &"0".repeat(33)] {
        assert_eq!(Key::parse(no), None, "{no}");
    }
}

/// The two copies of `a`'s record.
fn copies() -> [String; 2] {
    [0, 1].map(|slot| format!("models/{}/entry.{slot}", key("a")))
}

#[test]
fn a_torn_write_loses_no_entry() {
    for broken in 0..2 {
        for fault in 0..4 {
            let disk = MemoryDisk::new();
            let store = Store::new(disk.clone());
            fill(create(&store, "a", 1), 250);
            let path = &copies()[broken];
            let mut copy = disk.get(path).expect("both are written");
            match fault {
                0 => copy.truncate(copy.len() / 2),
                1 => copy.clear(),
                2 => copy[100] ^= 1,
                _ => copy.fill(0),
            }
            disk.put(path, copy);
            let summary = block_on(store.find(&key("a"))).expect("one copy is whole");
            assert!(summary.expect("there").complete >= 2);
            // The whole copy is not the next to be written over.
            let changes = disk.changes();
            for at in 0.. {
                disk.fail_after(Some(at));
                drop(block_on(store.touch(&key("a"), 9)));
                disk.crash(at);
                let summary = block_on(store.find(&key("a"))).expect("one copy is whole");
                assert!(summary.expect("there").complete >= 2);
                if disk.changes() - changes > at * (at + 1) / 2 + 20 || at > 20 {
                    break;
                }
            }
        }
    }
}

/// A record that does not fit is written again in the same place: the other copy stays whole.
#[test]
fn a_write_that_failed_spares_the_other_copy() {
    for at in 0..12 {
        let disk = MemoryDisk::new();
        let store = Store::new(disk.clone());
        let mut entry = create(&store, "a", 1);
        let mut small = SmallFiles::new(None);
        small.insert("config.json", vec![1; 100]);
        let used: usize = disk
            .paths()
            .iter()
            .filter_map(|it| disk.get(it))
            .map(|it| it.len())
            .sum();
        // Room for the small files, and not for the record that tells of them.
        disk.set_room(Some(used as u64 + 120));
        assert_eq!(block_on(entry.set_small(&small)), Err(DiskError::Full));
        disk.set_room(None);
        disk.fail_after(Some(at));
        drop(block_on(entry.set_small(&small)));
        disk.crash(at);
        let found = block_on(store.find(&key("a"))).expect("one copy is whole");
        assert!(found.is_some());
    }
}

#[test]
fn a_later_version_is_left_alone() {
    let disk = MemoryDisk::new();
    let store = Store::new(disk.clone());
    fill(create(&store, "a", 1), 250);
    fill(create(&store, "b", 1), 250);
    // As a later version would write it: the first line is the same, the rest is its own.
    let body = b"\x01\x02 another format";
    let head = format!("agenticml-store 2 99 {}", body.len());
    let sum = weights::digest::sha256(&[head.as_bytes(), body].concat());
    let copy = [
        format!("{head} {}\n", weights::digest::hex(&sum)).as_bytes(),
        body,
    ]
    .concat();
    disk.put(&copies()[1], copy);
    let content = |disk: &MemoryDisk| -> Vec<_> {
        let paths = disk.paths().into_iter();
        paths.map(|path| (disk.get(&path), path)).collect()
    };
    let before = content(&disk);
    let later = Trouble::Later { version: 2 };
    assert_eq!(block_on(store.find(&key("a"))), Err(later.clone()));
    assert_eq!(
        block_on(store.open(&key("a"), 5)).err(),
        Some(later.clone())
    );
    assert_eq!(block_on(store.touch(&key("a"), 5)), Err(later.clone()));
    let (entry, known) = block_on(store.open_or_create(&key("a"), &description("a", 250), 5));
    assert_eq!((known, entry.complete()), (Before::Nothing, 0));
    let why = entry.keeps().expect_err("nothing is kept").to_string();
    assert!(
        why.contains("later version of this program (format 2)"),
        "{why}"
    );
    // It loads all the same.
    fill(entry, 250);
    assert_eq!(content(&disk), before, "nothing was touched");
    let list = block_on(store.list()).expect("listed");
    assert_eq!(list.len(), 2);
    assert_eq!(list[1].state, Err(later));
    assert!(list[1].bytes > 250);
    // Until somebody wants it gone.
    block_on(store.delete(&key("a"))).expect("free");
    assert_eq!(names(&store), ["b"]);
}

#[test]
fn what_is_damaged_is_shown_and_can_go() {
    let disk = MemoryDisk::new();
    let store = Store::new(disk.clone());
    fill(create(&store, "a", 1), 250);
    for path in copies() {
        disk.put(&path, b"agenticml-store 1 5 0 \xff\n".to_vec());
    }
    let damaged = Trouble::Damaged.to_string();
    assert_eq!(names(&store), std::slice::from_ref(&damaged));
    assert_eq!(block_on(store.find(&key("a"))), Err(Trouble::Damaged));
    assert_eq!(
        block_on(store.open(&key("a"), 1)).err(),
        Some(Trouble::Damaged)
    );
    // Loading it begins anew.
    let (entry, before) = block_on(store.open_or_create(&key("a"), &description("a", 250), 2));
    assert_eq!(before, Before::Discarded { reason: damaged });
    assert_eq!((entry.keeps(), entry.complete()), (Ok(()), 0));
    drop(entry);
    assert_eq!(names(&store), ["a"]);
    // Pieces without a record.
    for path in copies() {
        block_on(disk.remove(&path)).expect("not open");
    }
    disk.put(&format!("models/{}/p00001", key("a")), vec![1; 10]);
    assert_eq!(block_on(store.list()).expect("listed")[0].bytes, 10);
    block_on(store.delete(&key("a"))).expect("free");
    assert!(names(&store).is_empty());
    // What is not ours is not shown, not deleted, and in nobody's way.
    for foreign in ["models/readme", "models/other/file", "elsewhere/x"] {
        disk.put(foreign, b"theirs".to_vec());
    }
    let file_as_folder = format!("models/{}", key("b"));
    disk.put(&file_as_folder, b"theirs".to_vec());
    assert!(names(&store).is_empty());
    fill(create(&store, "a", 1), 250);
    disk.put(
        &format!("models/{}/foreign thing", key("a")),
        b"theirs".to_vec(),
    );
    assert_eq!(names(&store), ["a"]);
    block_on(store.delete(&key("a"))).expect("free");
    assert!(names(&store).is_empty());
    assert_eq!(disk.get("models/readme").as_deref(), Some(&b"theirs"[..]));
}

#[test]
fn only_one_writes() {
    let disk = MemoryDisk::new();
    let (one, two) = (Store::new(disk.clone()), Store::new(disk.clone()));
    let entry = create(&one, "a", 1);
    let changes = disk.changes();
    let (second, _) = block_on(two.open_or_create(&key("a"), &description("a", 250), 2));
    let in_use = DiskError::Locked {
        path: "a".to_owned(),
    };
    assert_eq!(second.keeps(), Err(&in_use));
    assert!(
        in_use
            .to_string()
            .starts_with("a is in use, perhaps by another tab")
    );
    let mut third = block_on(two.open(&key("a"), 2))
        .expect("readable")
        .expect("there");
    assert_eq!(third.keeps(), Err(&in_use));
    assert_eq!(
        block_on(third.set_small(&SmallFiles::default())),
        Err(in_use)
    );
    block_on(two.touch(&key("a"), 3)).expect("nothing to do");
    assert_eq!(disk.changes(), changes, "nothing was written");
    // Another entry is free.
    assert_eq!(create(&two, "b", 3).keeps(), Ok(()));
    drop(entry);
    assert_eq!(create(&two, "a", 4).keeps(), Ok(()));
}

#[test]
fn what_changed_at_the_origin_is_discarded() {
    type Change = fn(&mut Description);
    let changes: [(Change, Option<&str>); 6] = [
        (
            |it| it.files[0].version.etag = Some("\"two\"".to_owned()),
            Some("a.gguf has changed"),
        ),
        (
            |it| it.files[0].version.size = Some(251),
            Some("a.gguf has changed"),
        ),
        (
            |it| it.pieces[2].bytes = 51,
            Some("it had 250 bytes in 3 pieces and now has 251 in 3"),
        ),
        (|it| it.pieces.truncate(2), Some("now has 200 in 2")),
        // Not told, or of no weight.
        (|it| it.files[0].version.etag = None, None),
        (
            |it| {
                it.label = "GGUF".to_owned();
                it.files[0].version.last_modified = Some("now".to_owned());
            },
            None,
        ),
    ];
    for (change, reason) in changes {
        let disk = MemoryDisk::new();
        let store = Store::new(disk.clone());
        fill(create(&store, "a", 1), 250);
        let mut changed = description("a", 250);
        change(&mut changed);
        let (entry, before) = block_on(store.open_or_create(&key("a"), &changed, 2));
        match reason {
            Some(reason) => {
                let Before::Discarded { reason: told } = before else {
                    panic!("{before:?}");
                };
                assert!(told.contains(reason), "{told}");
                assert_eq!(entry.complete(), 0);
                assert_eq!(disk.get(&format!("models/{}/p00000", key("a"))), None);
            }
            None => {
                assert_eq!(before, Before::Kept { complete: 3 });
                let summary = entry.summary();
                assert_eq!(summary.description.label, changed.label);
                // What was known is not forgotten.
                let etag = &summary.description.files[0].version.etag;
                assert_eq!(etag.as_deref(), Some("\"one\""));
            }
        }
    }
}

#[test]
fn room_is_told() {
    let disk = MemoryDisk::new();
    let store = Store::new(disk.clone());
    assert_eq!(block_on(store.room_for(u64::MAX)), Room::Unknown);
    disk.set_room(Some(1000));
    disk.put("x", vec![0; 300]);
    assert_eq!(block_on(store.room_for(700)), Room::Enough);
    assert_eq!(block_on(store.room_for(701)), Room::Short(1));
    disk.set_room(Some(100));
    assert_eq!(block_on(store.room_for(0)), Room::Enough);
    assert_eq!(block_on(store.room_for(5)), Room::Short(5));
}

fn package() -> MemoryFolder {
    let mut folder = MemoryFolder::new("hub");
    folder.insert("config.json", &b"{\"a\": 1}"[..]);
    folder.insert("tokenizer.json", vec![b't'; 5000]);
    folder.insert(
        "m.safetensors",
        (0..100_000u32).map(|i| i as u8).collect::<Vec<_>>(),
    );
    folder
}

/// What opening the package reads.
fn open<F: Folder>(folder: &F) -> Result<Vec<Option<Vec<u8>>>, SourceError> {
    block_on(async {
        let mut read = Vec::new();
        for name in ["config.json", "tokenizer.json", "generation_config.json"] {
            read.push(read_small(folder, name, 10_000).await?);
        }
        let mut header = folder.open("m.safetensors").await?;
        for (offset, len) in [(0, 8), (8, 400), (300, 200), (0, 8), (90_000, 10)] {
            let mut part = Vec::new();
            header.read(offset, &mut part, len).await?;
            read.push(Some(part));
        }
        read.push(header.size().map(|size| size.to_le_bytes().to_vec()));
        Ok(read)
    })
}

#[test]
fn a_stored_package_opens_without_its_origin() {
    let folder = package();
    let keeping = Keeping::new(folder.clone());
    let expected = open(&keeping).expect("in memory");
    assert_eq!(expected[2], None);
    let notes = keeping.take();
    assert_eq!(notes.bytes(), 8 + 5000 + 500 + 10, "nothing is noted twice");
    // Loading reads on and is not noted.
    let mut weights = block_on(keeping.open("m.safetensors")).expect("there");
    block_on(weights.read(1000, &mut Vec::new(), 50_000)).expect("inside");
    assert_eq!(keeping.take(), SmallFiles::default());

    let disk = MemoryDisk::new();
    let store = Store::new(disk.clone());
    let mut entry = create(&store, "a", 1);
    assert!(block_on(entry.small()).expect("none").is_none());
    block_on(entry.set_small(&notes)).expect("room");
    let changes = disk.changes();
    block_on(entry.set_small(&notes)).expect("the same");
    assert_eq!(disk.changes(), changes, "is not written again");
    drop(entry);
    let entry = block_on(store.open(&key("a"), 2))
        .expect("whole")
        .expect("there");
    assert!(entry.summary().opens_alone);
    let stored = block_on(entry.small()).expect("whole").expect("kept");
    assert_eq!(open(&stored), Ok(expected.clone()));
    assert_eq!(
        (stored.name(), stored.names()),
        ("a".to_owned(), folder.names())
    );
    // What was not read is not there, and is not taken for anything else.
    let mut weights = block_on(stored.open("m.safetensors")).expect("its header");
    let mut buf = Vec::new();
    for (offset, len) in [(400, 200), (89_999, 2), (90_005, 10)] {
        let error = block_on(weights.read(offset, &mut buf, len)).expect_err("not kept");
        assert!(
            error.to_string().contains("is not stored in this browser"),
            "{error}"
        );
        assert!(buf.is_empty());
    }
    let error = block_on(weights.read(99_999, &mut buf, 2)).expect_err("past the end");
    assert!(matches!(error, SourceError::PastEnd { .. }));
    let error = block_on(stored.open("x")).expect_err("there is none");
    assert!(error.is_missing());
    assert!(block_on(stored.open("../x")).is_err());

    // Others in their place, and a crash at any time: the ones or the others.
    let mut other = SmallFiles::new(None);
    other.insert("config.json", b"{}".to_vec());
    other.insert("config.json", b"{\"b\": 2}".to_vec());
    drop(entry);
    for at in 0..20 {
        let disk = MemoryDisk::new();
        let store = Store::new(disk.clone());
        let mut entry = create(&store, "a", 1);
        block_on(entry.set_small(&notes)).expect("room");
        disk.fail_after(Some(at));
        let replaced = block_on(entry.set_small(&other)).is_ok();
        disk.crash(at);
        drop(entry);
        let entry = block_on(store.open(&key("a"), 2))
            .expect("whole")
            .expect("there");
        let stored = block_on(entry.small()).expect("whole").expect("kept");
        let config = block_on(read_small(&stored, "config.json", 100)).expect("kept");
        match config.as_deref() {
            Some(b"{\"b\": 2}") => {}
            Some(b"{\"a\": 1}") if !replaced => assert_eq!(open(&stored), Ok(expected.clone())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn damaged_small_files_are_an_error() {
    let disk = MemoryDisk::new();
    let store = Store::new(disk.clone());
    let mut entry = create(&store, "a", 1);
    let mut small = SmallFiles::new(None);
    small.insert("config.json", b"{}".to_vec());
    block_on(entry.set_small(&small)).expect("room");
    let path = disk.paths().into_iter().find(|path| path.contains("small"));
    let path = path.expect("written");
    disk.put(&path, b"{]".to_vec());
    let error = block_on(entry.small()).expect_err("flipped");
    assert!(
        error.to_string().contains("load it from its origin"),
        "{error}"
    );
    disk.put(&path, b"{} ".to_vec());
    block_on(entry.small()).expect_err("longer");
    block_on(disk.remove(&path)).expect("not open");
    block_on(entry.small()).expect_err("gone");
    // No room.
    disk.set_room(Some(0));
    small.insert("tokenizer.json", vec![0; 100]);
    assert_eq!(block_on(entry.set_small(&small)), Err(DiskError::Full));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is in a record: no panic, and deleting works.
    #[test]
    fn foreign_records_do_no_harm(
        mutations in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<u16>()),
        resealed in any::<bool>(),
    ) {
        let disk = MemoryDisk::new();
        let store = Store::new(disk.clone());
        let mut entry = create(&store, "a", 1);
        let mut small = SmallFiles::new(Some(vec!["config.json".to_owned()]));
        small.insert("config.json", b"{}".to_vec());
        block_on(entry.set_small(&small)).expect("room");
        fill(entry, 250);
        let newest = copies().into_iter().max_by_key(|path| {
            let text = String::from_utf8(disk.get(path).unwrap_or_default()).unwrap_or_default();
            text.split(' ').nth(2).and_then(|sequence| sequence.parse::<u64>().ok())
        });
        let newest = newest.expect("two");
        let copy = disk.get(&newest).expect("there");
        let end = copy.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
        let mut body = copy[end..].to_vec();
        let first = if resealed { 0 } else { end };
        let mut all = copy.clone();
        let target = if resealed { &mut body } else { &mut all };
        for (at, byte) in mutations {
            let at = first.min(target.len() - 1) + usize::from(at) % (target.len() - first);
            target[at] = byte;
        }
        if let Some(cut) = cut {
            target.truncate(usize::from(cut));
        }
        if resealed {
            // A program of bad intent, or a wrong one, wrote it.
            let head = format!("agenticml-store 1 500 {}", body.len());
            let sum = weights::digest::sha256(&[head.as_bytes(), &body[..]].concat());
            let line = format!("{head} {}\n", weights::digest::hex(&sum));
            all = [line.as_bytes(), &body[..]].concat();
        }
        disk.put(&newest, all);
        drop(block_on(store.list()));
        if let Ok(Some(entry)) = block_on(store.open(&key("a"), 2)) {
            if let Ok(Some(small)) = block_on(entry.small())
                && let Ok(mut config) = block_on(small.open("config.json"))
            {
                drop(block_on(config.read_whole(100)));
                drop(block_on(config.read(1, &mut Vec::new(), 1)));
            }
            let pieces = entry.pieces();
            let source = Pieces::<MemorySource<Vec<u8>>, _>::new("m", None, pieces, Some(entry));
            if let Ok(mut source) = source {
                let mut buf = Vec::new();
                if block_on(source.read(0, &mut buf, 100)).is_ok() {
                    prop_assert_eq!(buf, vec![7; 100]);
                }
            }
        }
        block_on(store.delete(&key("a"))).expect("free");
        prop_assert_eq!(block_on(store.list()), Ok(Vec::new()));
    }
}
