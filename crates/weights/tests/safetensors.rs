//! The safetensors header on a real file, on files made to be wrong, and on made-up tables.

use std::path::PathBuf;

use proptest::prelude::*;
use weights::safetensors::{
    Dtype, Header, HeaderError, Index, MAX_FILES, MAX_HEADER_BYTES, MAX_INDEX_BYTES, MAX_TENSORS,
    SafetensorsError, read_header,
};
use weights::{BlockType, ByteSource, Looks, MemorySource, SourceError};

fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
    pollster::block_on(read_header(&mut MemorySource::new("model", bytes)))
}

/// A file of this header and so many bytes of data.
fn file(json: &str, data: usize) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn error(json: &str, data: usize) -> SafetensorsError {
    match read(&file(json, data)) {
        Err(HeaderError::Safetensors { error, .. }) => error,
        other => panic!("{json}: {other:?}"),
    }
}

fn nano() -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano/hf");
    std::fs::read(folder.join("model.safetensors")).expect("fixture")
}

#[test]
fn the_nano_file_has_its_tensors() {
    let bytes = nano();
    let header = read(&bytes).expect("a good file");
    assert_eq!(header.tensors.len(), 20);
    assert_eq!(header.data_start, 8 + 2128);
    let last = header.tensors.last().expect("tensors");
    assert_eq!(last.name, "model.norm.weight");
    assert_eq!(last.end(), bytes.len() as u64);
    let key = header.tensor("model.layers.1.self_attn.k_proj.weight");
    let key = key.expect("a key projection");
    assert_eq!((key.rows(), key.row_len(), key.bytes), (64, 256, 32768));
    assert_eq!(key.dtype.block_type(), Some(BlockType::BF16));
    assert_eq!(header.tensor("lm_head.weight"), None);
}

#[test]
fn types_and_shapes_of_all_kinds_are_listed() {
    let json = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[4,10]},
        "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
        "none":{"dtype":"I64","shape":[0,7],"data_offsets":[4,4]}}   "#;
    let header = read(&file(json, 6 + 4)).expect("a good file");
    let names: Vec<&str> = header.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a", "none", "b"]);
    assert_eq!(
        (header.tensors[0].rows(), header.tensors[0].row_len()),
        (1, 1)
    );
    assert_eq!(header.tensors[2].dtype, Dtype::F8_E4M3);
    assert_eq!(header.tensors[2].dtype.block_type(), None);
    assert_eq!(header.tensors[2].offset, header.data_start + 4);
}

#[test]
fn other_files_are_recognised() {
    let cases: [(&[u8], Looks); 6] = [
        (b"", Looks::Short),
        (b"{\"error\":\"not found\"}", Looks::Json),
        (b"GGUF\x03\0\0\0\0\0\0\0", Looks::Gguf),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:",
            Looks::LfsPointer,
        ),
        (b"\x05\0\0\0\0\0\0\0", Looks::Unknown),
        (b"\x05\0\0\0\0\0\0\0[1,2]", Looks::Unknown),
    ];
    for (bytes, looks) in cases {
        let Err(HeaderError::Safetensors { name, error }) = read(bytes) else {
            panic!("{bytes:?}");
        };
        assert_eq!(name, "model");
        assert_eq!(error, SafetensorsError::NotSafetensors { looks });
    }
}

#[test]
fn cut_files_and_hostile_lengths_are_refused() {
    let bytes = nano();
    for cut in [100, 2000, 2135] {
        let Err(HeaderError::Safetensors { error, .. }) = read(&bytes[..cut]) else {
            panic!("cut at {cut}");
        };
        let has = cut as u64;
        assert_eq!(error, SafetensorsError::HeaderCutShort { needs: 2136, has });
    }
    let Err(HeaderError::Safetensors { error, .. }) = read(&bytes[..bytes.len() - 1]) else {
        panic!("a byte is missing");
    };
    assert!(
        matches!(error, SafetensorsError::TensorCutShort { .. }),
        "{error}"
    );
    for length in [MAX_HEADER_BYTES + 1, u64::MAX] {
        let mut bytes = bytes.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        let Err(HeaderError::Safetensors { error, .. }) = read(&bytes) else {
            panic!("length {length}");
        };
        assert!(matches!(error, SafetensorsError::Limit { .. }), "{error}");
    }
}

#[test]
fn tensors_are_checked() {
    let one = |entry: &str| format!(r#"{{"a":{{{entry}}}}}"#);
    let inconsistent = [
        // Sizes that do not match, run backwards or overflow.
        (one(r#""dtype":"F32","shape":[2],"data_offsets":[0,4]"#), 4),
        (one(r#""dtype":"F32","shape":[1],"data_offsets":[4,0]"#), 4),
        (one(r#""dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4]"#), 4),
        (one(r#""dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]"#), 4),
        // A hole in front, and data behind.
        (one(r#""dtype":"F32","shape":[1],"data_offsets":[4,8]"#), 8),
        (one(r#""dtype":"F32","shape":[1],"data_offsets":[0,4]"#), 5),
        // Overlapping tensors, and one that is there twice.
        (r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#.to_owned(), 6),
        (r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}"#.to_owned(), 4),
    ];
    for (json, data) in inconsistent {
        let error = error(&json, data);
        assert!(
            matches!(error, SafetensorsError::Inconsistent { .. }),
            "{json}: {error}"
        );
    }
    let unreadable = [
        "{".to_owned(),
        r#"{"a":1}"#.to_owned(),
        r#"{"a":{}} trailing"#.to_owned(),
        one(r#""dtype":"F32","shape":[1]"#),
        one(r#""dtype":"F32","shape":[-1],"data_offsets":[0,4]"#),
        one(r#""dtype":"F32","shape":[1.5],"data_offsets":[0,4]"#),
        one(r#""dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]"#),
        one(r#""dtype":"F32","shape":[1],"data_offsets":[0,4,8]"#),
        one(r#""dtype":4,"shape":[1],"data_offsets":[0,4]"#),
        format!("{{\"a\":{}", "[".repeat(100_000)),
    ];
    for json in unreadable {
        let error = error(&json, 4);
        assert!(
            matches!(error, SafetensorsError::Json { .. }),
            "{json:.80}: {error}"
        );
    }
    let unknown = error(&one(r#""dtype":"F4","shape":[2],"data_offsets":[0,1]"#), 1);
    assert!(
        matches!(unknown, SafetensorsError::UnknownType { .. }),
        "{unknown}"
    );
    let long = "x".repeat(2000);
    let long = error(
        &format!(r#"{{"{long}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#),
        1,
    );
    assert!(matches!(long, SafetensorsError::Limit { .. }), "{long}");
}

#[test]
fn a_header_beyond_all_counts_is_refused() {
    let entry = |i: usize| format!(r#""{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let entries: Vec<String> = (0..70_000).map(entry).collect();
    let error = error(&format!("{{{}}}", entries.join(",")), 0);
    assert!(
        error.to_string().contains("at most 65536 tensors"),
        "{error}"
    );
}

/// Notes what is read past the header.
struct Guarded {
    inner: MemorySource<Vec<u8>>,
    known: bool,
    reached: u64,
}

impl ByteSource for Guarded {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn size(&self) -> Option<u64> {
        self.inner.size().filter(|_| self.known)
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        assert_eq!(offset, self.reached, "read in order");
        self.reached += len as u64;
        self.inner.read(offset, buf, len).await
    }
}

#[test]
fn reading_is_in_order_and_stops_at_the_header() {
    for known in [true, false] {
        let mut source = Guarded {
            inner: MemorySource::new("model", nano()),
            known,
            reached: 0,
        };
        let header = pollster::block_on(read_header(&mut source)).expect("a good file");
        assert_eq!(source.reached, header.data_start);
    }
}

proptest! {
    /// Tensors in any order of names come out in the order of their bytes, whatever the header's order.
    #[test]
    fn good_tables_are_read(sizes in prop::collection::vec(1u64..20, 1..12), turn in 0usize..12) {
        let mut at = 0;
        let mut entries: Vec<String> = sizes.iter().enumerate().map(|(i, size)| {
            let begin = at;
            at += 2 * size;
            format!(r#""t{i}":{{"dtype":"F16","shape":[{size}],"data_offsets":[{begin},{at}]}}"#)
        }).collect();
        entries.rotate_left(turn % sizes.len());
        let header = read(&file(&format!("{{{}}}", entries.join(",")), at as usize)).expect("good");
        let read: Vec<u64> = header.tensors.iter().map(|tensor| tensor.row_len()).collect();
        prop_assert_eq!(read, sizes);
    }

    /// Any text in place of the JSON gives an answer.
    #[test]
    fn any_json_is_answered(json in r#"\{("[ab]":(\{("(dtype|shape|data_offsets)":("U8"|"BF16"|\[([0-9]{1,20},?){0,3}\]|null),?){0,4}\}|[0-9]|\[\]),?){0,3}\}?"#) {
        if let Err(error) = read(&file(&json, 4)) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

fn index(pairs: &[(&str, &str)]) -> Result<Index, SafetensorsError> {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, file)| format!("{name:?}:{file:?}"))
        .collect();
    let text = format!(
        r#"{{"metadata":{{"total_size":1e3}},"weight_map":{{{}}}}}"#,
        pairs.join(",")
    );
    Index::parse(text.as_bytes())
}

#[test]
fn an_index_names_the_files_in_order() {
    let good = index(&[
        ("b", "m-2.safetensors"),
        ("a", "m-1.safetensors"),
        ("c", "m-2.safetensors"),
    ]);
    let good = good.expect("a good index");
    assert_eq!(good.files(), ["m-1.safetensors", "m-2.safetensors"]);
    assert_eq!(good.file_of("a"), Some("m-1.safetensors"));
    assert_eq!(good.file_of("c"), Some("m-2.safetensors"));
    assert_eq!(good.file_of("d"), None);
    for (pairs, named) in [
        (&[("a", "../m.safetensors")][..], "not the name"),
        (&[("a", "x/m.safetensors")], "not the name"),
        (&[("a", "/m.safetensors")], "not the name"),
        (&[("a", "m.bin")], "not the name"),
        (&[("a", "m.safetensors"), ("a", "n.safetensors")], "twice"),
        (&[(&"a".repeat(2000), "m.safetensors")], "too long"),
    ] {
        let error = index(pairs).expect_err(named);
        assert!(error.to_string().contains(named), "{error}");
    }
    let names: Vec<String> = (0..=MAX_TENSORS).map(|i| i.to_string()).collect();
    let many = |count: usize, file: &dyn Fn(usize) -> String| {
        let pairs = names[..count].iter().enumerate();
        let pairs: Vec<(&str, String)> = pairs.map(|(i, name)| (name.as_str(), file(i))).collect();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(n, f)| (*n, f.as_str())).collect();
        index(&pairs)
    };
    let one = |_| "m.safetensors".to_owned();
    many(MAX_TENSORS, &one).expect("as many as may be");
    many(MAX_TENSORS + 1, &one).expect_err("one too many");
    let own = |i| format!("m{i}.safetensors");
    many(MAX_FILES, &own).expect("as many as may be");
    many(MAX_FILES + 1, &own).expect_err("one too many");
    for text in [
        "",
        "3",
        "{}",
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{"a":1}}"#,
    ] {
        Index::parse(text.as_bytes()).expect_err("no index");
    }
    let long = vec![b' '; MAX_INDEX_BYTES as usize + 1];
    let error = Index::parse(&long).expect_err("too long");
    assert!(matches!(error, SafetensorsError::Limit { .. }));
}

#[test]
fn files_are_joined_as_the_index_says() {
    let header = |tensors: &[(&str, u64)]| {
        let mut at = 0;
        let entries: Vec<String> = tensors
            .iter()
            .map(|(name, len)| {
                at += len;
                format!(
                    r#"{name:?}:{{"dtype":"U8","shape":[{len}],"data_offsets":[{},{at}]}}"#,
                    at - len
                )
            })
            .collect();
        let bytes = file(&format!("{{{}}}", entries.join(",")), at as usize);
        let header = read(&bytes).expect("a good file");
        assert_eq!(header.end(), bytes.len() as u64);
        header
    };
    let (one, two) = ("m-1.safetensors", "m-2.safetensors");
    let index = index(&[("a", one), ("b", one), ("c", two)]).expect("a good index");
    let first = header(&[("a", 3), ("b", 5)]);
    let second = header(&[("unused", 2), ("c", 7)]);
    let joined = index
        .join(&[first.clone(), second.clone()])
        .expect("as it says");
    let names: Vec<&str> = joined.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(joined.tensors[1], first.tensors[1]);
    let expected = first.end() + second.data_start + 2;
    assert_eq!(joined.tensors[2].offset, expected);
    assert_eq!(joined.end(), first.end() + second.end());

    let error = |headers: &[Header]| index.join(headers).expect_err("not as it says").to_string();
    let text = error(&[first.clone(), header(&[("x", 1)])]);
    assert!(
        text.contains("tensor c is in m-2.safetensors, but it is not there"),
        "{text}"
    );
    let text = error(&[first.clone(), header(&[("c", 7), ("a", 3)])]);
    assert!(
        text.contains("tensor a is in m-2.safetensors, but the index says"),
        "{text}"
    );
    let text = error(&[second.clone(), first.clone()]);
    assert!(text.contains("tensor c is in m-1.safetensors"), "{text}");
    assert!(error(&[first]).contains("names 2 files"));
}
