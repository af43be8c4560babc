//! The header parser on real files, on files made to be wrong, and on mutations of both.

use std::path::PathBuf;

use weights::MemorySource;
use weights::gguf::{
    Gguf, GgufError, Looks, MetaValue, Parser, Progress, Step, parse, read_header, write_vocabulary,
};
use weights::{BlockType, ByteSource, SourceError};

fn nano(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano");
    std::fs::read(path.join(name)).expect("fixture")
}

fn done(bytes: &[u8]) -> Gguf {
    match parse(bytes, Some(bytes.len() as u64)) {
        Ok(Step::Done(gguf)) => gguf,
        other => panic!("{other:?}"),
    }
}

fn error(bytes: &[u8]) -> GgufError {
    parse(bytes, Some(bytes.len() as u64)).expect_err("must fail")
}

/// Writes small GGUF files, right or wrong as the caller likes.
#[derive(Clone)]
struct Writer {
    version: u32,
    metadata: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: usize,
}

impl Writer {
    fn new() -> Self {
        Self {
            version: 3,
            metadata: Vec::new(),
            tensors: Vec::new(),
            data: 0,
        }
    }

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes
    }

    fn entry(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        let mut bytes = Self::text(key);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        self.metadata.push(bytes);
        self
    }

    fn tensor(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let mut bytes = Self::text(name);
        bytes.extend((dims.len() as u32).to_le_bytes());
        for dim in dims {
            bytes.extend(dim.to_le_bytes());
        }
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        self
    }

    fn data(mut self, bytes: usize) -> Self {
        self.data = bytes;
        self
    }

    fn build(self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.metadata.len() as u64).to_le_bytes());
        bytes.extend(self.metadata.concat());
        bytes.extend(self.tensors.concat());
        bytes.resize(bytes.len().next_multiple_of(32) + self.data, 0);
        bytes
    }
}

#[test]
fn nano_files_have_their_metadata_and_tensors() {
    let bytes = nano("nano-q4_k_m.gguf");
    let gguf = done(&bytes);
    assert_eq!(gguf.version, 3);
    assert_eq!(gguf.architecture(), Ok("llama"));
    assert_eq!(gguf.require_u64("llama.block_count"), Ok(2));
    assert_eq!(gguf.require_f64("llama.rope.freq_base"), Ok(500_000.0));
    assert_eq!(gguf.optional_str("general.nothing"), Ok(None));
    assert!(matches!(
        gguf.require_u64("general.architecture"),
        Err(GgufError::WrongType { .. })
    ));
    assert!(matches!(
        gguf.require_str("general.nothing"),
        Err(GgufError::MissingKey { .. })
    ));
    let embedding = gguf.tensor("token_embd.weight").expect("embedding");
    assert_eq!(embedding.dims, [256, 640]);
    assert_eq!(embedding.kind, BlockType::Q6_K);
    assert_eq!(
        (embedding.row_len(), embedding.rows(), embedding.row_bytes()),
        (256, 640, 210)
    );
    assert_eq!(embedding.bytes, 640 * 210);
    let end = gguf.tensors.iter().map(|tensor| tensor.end()).max();
    assert_eq!(
        end.map(|end| end.next_multiple_of(32)),
        Some(bytes.len() as u64)
    );
    gguf.check_supported().expect("all types are known");

    let parts = gguf.tokenizer_parts().expect("tokenizer");
    assert_eq!(
        (parts.model.as_str(), parts.pre.as_deref()),
        ("gpt2", Some("llama-bpe"))
    );
    assert_eq!((parts.tokens.len(), parts.types.len()), (640, 640));
    assert_eq!(parts.merges[0], "Ġ Ġ");
    assert_eq!(
        (parts.bos, parts.eos, parts.add_bos),
        (Some(624), Some(628), Some(true))
    );
    assert!(parts.chat_template.is_some());
}

/// Counts reads and never lets one go past `limit`.
struct Guarded {
    inner: MemorySource<Vec<u8>>,
    sized: bool,
    limit: u64,
    reads: usize,
}

impl ByteSource for Guarded {
    fn name(&self) -> String {
        self.inner.name()
    }
    fn size(&self) -> Option<u64> {
        self.inner.size().filter(|_| self.sized)
    }
    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        assert!(offset + len as u64 <= self.limit, "reads past the header");
        self.reads += 1;
        self.inner.read(offset, buf, len).await
    }
}

#[test]
fn reading_a_header_takes_few_reads_and_none_past_its_end() {
    let bytes = nano("nano-q8_0.gguf");
    let whole = done(&bytes);
    for sized in [true, false] {
        let mut source = Guarded {
            limit: whole.data_start,
            sized,
            reads: 0,
            inner: MemorySource::new("nano", bytes.clone()),
        };
        let gguf = pollster::block_on(read_header(&mut source)).expect("header");
        assert_eq!(gguf, whole);
        assert!(source.reads < 250, "{} reads", source.reads);
    }
}

#[test]
fn any_split_gives_the_same_header() {
    let bytes = nano("nano-q5_1.gguf");
    let whole = done(&bytes);
    let header = &bytes[..whole.data_start as usize];
    for step in [1, 3, 17, 1000] {
        let mut parser = Parser::new(None);
        let mut have = 0;
        let gguf = loop {
            let window = &header[parser.position() as usize..have];
            match parser.advance(window).expect("a good header") {
                Progress::Done(gguf) => break gguf,
                Progress::Need(bytes) => assert!(parser.position() + bytes > have as u64),
            }
            have = (have + step).min(header.len());
        };
        assert_eq!(gguf, whole);
    }
}

#[test]
fn other_files_are_recognised() {
    let cases: [(&[u8], Looks); 10] = [
        (b"", Looks::Short),
        (b"GG", Looks::Short),
        (b"hello, I am a text file", Looks::Text),
        (b"\n <!DOCTYPE html><html><body>404</body>", Looks::Html),
        (b"{\"error\":\"not found\"}", Looks::Json),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:",
            Looks::LfsPointer,
        ),
        (b"PK\x03\x04........", Looks::Zip),
        (b"\x40\x01\0\0\0\0\0\0{\"a\":", Looks::Safetensors),
        (b"tjgg\x03\0\0\0\0\0\0\0", Looks::OldGgml),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0", Looks::Unknown),
    ];
    for (bytes, looks) in cases {
        assert_eq!(error(bytes), GgufError::NotGguf { looks }, "{bytes:?}");
        let mut source = MemorySource::new("model.gguf", bytes);
        let error = pollster::block_on(read_header(&mut source)).expect_err("no GGUF");
        assert!(
            error
                .to_string()
                .starts_with("model.gguf: this is not a GGUF file"),
            "{error}"
        );
    }
}

#[test]
fn versions_and_byte_order_are_told_apart() {
    let mut writer = Writer::new();
    for (version, expected) in [
        (1, GgufError::Version { version: 1 }),
        (4, GgufError::Version { version: 4 }),
        (3u32.swap_bytes(), GgufError::BigEndian),
    ] {
        writer.version = version;
        assert_eq!(error(&writer.clone().build()), expected);
    }
    writer.version = 2;
    assert_eq!(done(&writer.build()).version, 2);
}

#[test]
fn cut_files_say_what_is_missing() {
    let bytes = nano("nano-q4_0.gguf");
    let whole = done(&bytes);
    let cut = &bytes[..bytes.len() / 2];
    match error(cut) {
        GgufError::TensorCutShort { tensor, needs, has } => {
            assert_eq!(has, cut.len() as u64);
            let tensor = whole.tensor(&tensor).expect("a real tensor");
            assert!(tensor.offset <= has && tensor.end() == needs);
        }
        other => panic!("{other}"),
    }
    for len in [5, 23, 24, 100, 5000, whole.data_start as usize - 200] {
        let error = error(&bytes[..len]);
        assert!(
            matches!(error, GgufError::HeaderCutShort { .. }),
            "{len}: {error}"
        );
        // Without a known size the source itself reports the end.
        let mut source = Guarded {
            limit: u64::MAX,
            sized: false,
            reads: 0,
            inner: MemorySource::new("cut", bytes[..len].to_vec()),
        };
        pollster::block_on(read_header(&mut source)).expect_err("cut");
    }
}

#[test]
fn tensors_are_checked() {
    let base = || Writer::new().data(4096);
    let good = done(
        &base()
            .tensor("a", &[32, 2], 2, 0)
            .tensor("b", &[4], 0, 64)
            .build(),
    );
    assert_eq!(good.tensors[0].bytes, 36);
    assert_eq!(good.tensors[1].offset, good.data_start + 64);

    let says = |writer: Writer, words: &str| {
        let text = error(&writer.build()).to_string();
        assert!(text.contains(words), "{text} should say {words}");
    };
    says(
        base().tensor("a", &[32], 2, 0).tensor("a", &[32], 2, 64),
        "twice",
    );
    says(
        base()
            .tensor("a", &[32, 8], 2, 0)
            .tensor("b", &[32], 2, 128),
        "overlap",
    );
    says(base().tensor("a", &[32], 2, 8), "not a multiple of 32");
    says(base().tensor("a", &[33], 2, 0), "impossible dimensions");
    says(base().tensor("a", &[0], 0, 0), "impossible dimensions");
    says(
        base().tensor("a", &[1 << 40, 1 << 40], 0, 0),
        "impossible dimensions",
    );
    says(
        base().tensor("a", &[1 << 62], 28, 0),
        "impossible dimensions",
    );
    says(base().tensor("a", &[], 0, 0), "0 dimensions");
    says(base().tensor("a", &[1; 5], 0, 0), "5 dimensions");
    says(base().tensor("a", &[4], 99, 0), "unknown type 99");
    says(
        base().tensor("a", &[4], 0, u64::MAX - 31),
        "impossible offset",
    );
    says(base().tensor("a", &[4], 0, 1 << 40), "cut short");
    says(base().tensor("", &[4], 0, 0), "empty");

    let listed = done(&base().tensor("a", &[256], 23, 0).build());
    let text = listed.check_supported().expect_err("IQ4_XS").to_string();
    assert!(
        text.contains("tensor a") && text.contains("IQ4_XS"),
        "{text}"
    );
}

#[test]
fn metadata_is_checked() {
    let u32s = |n: u32| n.to_le_bytes();
    let array =
        |element: u32, count: u64| [&element.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let base = || Writer::new().data(4096);

    let nested = [
        array(9, 2),
        array(0, 1),
        vec![7],
        array(8, 1),
        Writer::text("x"),
    ]
    .concat();
    let good = done(
        &base()
            .entry("n", 9, &nested)
            .entry("general.alignment", 4, &u32s(64))
            .build(),
    );
    assert_eq!(good.alignment, 64);
    assert_eq!(good.data_start % 64, 0);
    assert_eq!(
        good.get("n").and_then(MetaValue::as_array).map(|a| a.len()),
        Some(2)
    );

    let says = |writer: Writer, words: &str| {
        let text = error(&writer.build()).to_string();
        assert!(text.contains(words), "{text} should say {words}");
    };
    says(
        base().entry("k", 4, &u32s(1)).entry("k", 4, &u32s(1)),
        "twice",
    );
    says(base().entry("k", 13, &u32s(1)), "unknown value type 13");
    says(
        base().entry("k", 9, &array(13, 1)),
        "unknown element type 13",
    );
    says(base().entry("k", 9, &array(8, u64::MAX)), "cut short");
    says(base().entry("k", 9, &array(4, 1 << 62)), "cut short");
    says(base().entry("k", 8, &u64::MAX.to_le_bytes()), "limit");
    says(base().entry("k", 9, &array(9, 1 << 30)), "limit");
    says(
        base().entry("general.alignment", 4, &u32s(48)),
        "power of two",
    );
    let deep: Vec<u8> = (0..20).flat_map(|_| array(9, 1)).collect();
    says(base().entry("k", 9, &deep), "nests deeper");
    says(base().entry(&"k".repeat(2000), 4, &u32s(1)), "limit");

    // Hostile counts are refused by the file's size or by the limits, with and without a size.
    let mut counts = base().build();
    counts[8..16].copy_from_slice(&60_000u64.to_le_bytes());
    assert!(matches!(error(&counts), GgufError::HeaderCutShort { .. }));
    counts[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(parse(&counts, None), Err(GgufError::Limit { .. })));
    let mut huge = base().entry("k", 9, &array(8, 1 << 40)).build();
    assert!(matches!(parse(&huge, None), Err(GgufError::Limit { .. })));
    huge[4..8].copy_from_slice(&2u32.to_le_bytes());
    assert!(matches!(parse(&huge, None), Err(GgufError::Limit { .. })));
}

#[test]
fn tokenizer_metadata_is_checked() {
    let list = |texts: &[&str]| {
        let mut bytes = [&8u32.to_le_bytes()[..], &(texts.len() as u64).to_le_bytes()].concat();
        texts
            .iter()
            .for_each(|text| bytes.extend(Writer::text(text)));
        bytes
    };
    let base = || {
        Writer::new()
            .entry("tokenizer.ggml.model", 8, &Writer::text("gpt2"))
            .entry("tokenizer.ggml.tokens", 9, &list(&["a", "b"]))
    };
    let parts = |writer: Writer| done(&writer.build()).tokenizer_parts();
    assert_eq!(parts(base()).expect("enough").tokens, ["a", "b"]);
    let id = |id: u32| base().entry("tokenizer.ggml.eos_token_id", 4, &id.to_le_bytes());
    assert_eq!(parts(id(1)).expect("in range").eos, Some(1));
    assert_eq!(parts(id(u32::MAX)).expect("none").eos, None);
    assert!(matches!(parts(id(2)), Err(GgufError::Inconsistent { .. })));
    let types = [
        &5u32.to_le_bytes()[..],
        &1u64.to_le_bytes(),
        &3i32.to_le_bytes(),
    ]
    .concat();
    let short = base().entry("tokenizer.ggml.token_type", 9, &types);
    assert!(matches!(parts(short), Err(GgufError::Inconsistent { .. })));
    assert!(matches!(
        parts(Writer::new()),
        Err(GgufError::MissingKey { .. })
    ));
    let mut broken = base().build();
    let at = broken
        .windows(9)
        .rposition(|w| w == b"\x01\0\0\0\0\0\0\0b")
        .expect("b")
        + 8;
    broken[at] = 0xff;
    assert!(matches!(
        done(&broken).tokenizer_parts(),
        Err(GgufError::NotText { index: 1, .. })
    ));
}

#[test]
fn named_chat_templates_are_found() {
    let list = |texts: &[&str]| {
        let mut bytes = [&8u32.to_le_bytes()[..], &(texts.len() as u64).to_le_bytes()].concat();
        texts
            .iter()
            .for_each(|text| bytes.extend(Writer::text(text)));
        bytes
    };
    let base = || {
        Writer::new()
            .entry("tokenizer.ggml.model", 8, &Writer::text("gpt2"))
            .entry("tokenizer.ggml.tokens", 9, &list(&["a"]))
    };
    let named = || {
        base()
            .entry(
                "tokenizer.chat_templates",
                9,
                &list(&["rag", "tool_use", "rag", "absent"]),
            )
            .entry("tokenizer.chat_template.rag", 8, &Writer::text("R"))
            .entry("tokenizer.chat_template.tool_use", 8, &Writer::text("T"))
    };
    let parts = |writer: Writer| done(&writer.build()).tokenizer_parts().expect("good");
    let both = [("rag", "R"), ("tool_use", "T")].map(|(name, text)| (name.into(), text.into()));
    let found = parts(named());
    assert_eq!(found.chat_templates, both);
    assert_eq!(found.chat_template.as_deref(), Some("R"));
    let found = parts(named().entry("tokenizer.chat_template", 8, &Writer::text("D")));
    assert_eq!(found.chat_template.as_deref(), Some("D"));
    let found = parts(base());
    assert_eq!((found.chat_template, found.chat_templates.len()), (None, 0));
}

/// A package of shards that was made from a GGUF file carries its tokenizer as such a file.
#[test]
fn a_vocabulary_is_written_and_read_again() {
    let files = ["nano-q4_0.gguf", "../tinyrope/tinyrope-q4_k_m.gguf"];
    for file in files {
        let mut parts = done(&nano(file)).tokenizer_parts().expect("a tokenizer");
        for change in 0..2 {
            let bytes = write_vocabulary(&parts);
            let mut source = MemorySource::new("vocabulary", &bytes[..]);
            let read = pollster::block_on(read_header(&mut source)).expect("a good file");
            assert!(read.tensors.is_empty());
            assert_eq!(
                read.tokenizer_parts().expect("a tokenizer"),
                parts,
                "{file} {change}"
            );
            // Whatever the fixtures lack.
            parts.scores = vec![-1.5; parts.tokens.len()];
            parts.pre = None;
            (parts.unknown, parts.padding, parts.add_eos) = (Some(3), Some(4), Some(true));
            parts.chat_templates = vec![("tool_use".to_owned(), "{{ tools }}".to_owned())];
        }
    }
}
