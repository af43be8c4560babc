//! Headers with random damage: whatever the bytes say, no panic and no large allocation.
//!
//! The ordinary run damages some 20,000; `PLAYGROUND_MUTATIONS=1000000` damages a million, together with
//! the same test of `model`.
#![expect(unsafe_code, reason = "counting allocations takes an allocator")]

use weights::gguf::{Gguf, Step, parse, read_header};
use weights::layout::Packer;
use weights::manifest::{FORMAT, Manifest, Shard, Special, VERSION};
use weights::{BlockType, MemorySource, digest, hub, safetensors};

mod common;

use common::{LIMIT, Memory, Random, TURN, damage, damage_json, fixture, rounds};

/// Uses a header as a loader would.
fn explore(gguf: &Gguf) {
    let _ = gguf.check_supported();
    let _ = gguf.architecture();
    let _ = gguf.require_u64("llama.block_count");
    let _ = gguf.tokenizer_parts();
    for tensor in &gguf.tensors {
        assert_eq!(tensor.row_bytes() * tensor.rows(), tensor.bytes);
        if let Ok(row_len) = usize::try_from(tensor.row_len())
            && let Ok(packer) = Packer::new(tensor.kind, row_len)
        {
            assert_eq!(packer.row_bytes() as u64, tensor.row_bytes());
        }
    }
}

#[test]
fn damaged_headers_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let headers = ["nano-q4_0.gguf", "nano-q6_k.gguf", "nano-f16.gguf"].map(|name| {
        let mut bytes = fixture(&format!("nano/{name}"));
        let Ok(Step::Done(gguf)) = parse(&bytes, None) else {
            panic!("{name} is a good file");
        };
        bytes.truncate(gguf.data_start as usize);
        bytes
    });
    let memory = Memory::watch();
    let mut random = Random(0x5eed);
    let (mut good, mut wrong) = (0, 0);
    for round in 0..rounds(40) {
        let header = &headers[round % headers.len()];
        let bytes = damage(&mut random, header);
        let size = match random.below(3) {
            0 => None,
            1 => Some(bytes.len() as u64),
            _ => Some(1 << 40),
        };
        match parse(&bytes, size) {
            Ok(Step::Done(gguf)) => {
                good += 1;
                explore(&gguf);
            }
            Ok(Step::Need(needs)) => {
                wrong += 1;
                assert!(needs > bytes.len() as u64);
            }
            Err(error) => {
                wrong += 1;
                assert!(!error.to_string().is_empty());
            }
        }
        // Read as it arrives: every tenth, since it is the same parser.
        if round % 10 == 0 {
            let whole =
                pollster::block_on(read_header(&mut MemorySource::new("damaged", &bytes[..])));
            if let Err(error) = whole {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    memory.conclude("GGUF headers", good, wrong);
}

#[test]
fn damaged_safetensors_headers_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let file = fixture("nano/hf/model.safetensors");
    let header = safetensors::header_bytes(&file, None).expect("a good file") as usize;
    let size = Some(file.len() as u64);
    let memory = Memory::watch();
    let mut random = Random(0x5afe);
    let (mut good, mut wrong) = (0, 0);
    for _ in 0..rounds(20) {
        let bytes = damage_json(&mut random, &file[..8 + header], 9);
        let size = [None, size][random.below(2)];
        let parsed = safetensors::header_bytes(&bytes, size).and_then(|length| {
            safetensors::parse(&bytes[8..bytes.len().min(8 + length as usize)], size)
        });
        match parsed {
            Ok(header) => {
                good += 1;
                for tensor in &header.tensors {
                    assert_eq!(
                        tensor.rows() * tensor.row_len() * tensor.dtype.bytes(),
                        tensor.bytes
                    );
                }
            }
            Err(error) => {
                wrong += 1;
                assert!((10..2000).contains(&error.to_string().len()));
            }
        }
        let mut source = MemorySource::new("damaged", &bytes[..]);
        let _ = pollster::block_on(safetensors::read_header(&mut source));
    }
    memory.conclude("safetensors headers", good, wrong);
    assert!(memory.largest() <= 1 << 20, "small headers take little");
}

#[test]
fn damaged_indexes_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let mut file = fixture("nano/hf/model.safetensors");
    let header = pollster::block_on(safetensors::read_header(&mut MemorySource::new(
        "nano",
        &mut file[..],
    )));
    let header = header.expect("a good file");
    let pairs = header.tensors.iter().enumerate().map(|(place, tensor)| {
        let file = place % 3 + 1;
        format!(
            "{:?}: \"model-{file:05}-of-00003.safetensors\"",
            tensor.name
        )
    });
    let pairs: Vec<String> = pairs.collect();
    let text = format!(
        "{{\"metadata\": {{\"total_size\": 2}}, \"weight_map\": {{{}}}}}",
        pairs.join(", ")
    );
    let memory = Memory::watch();
    let mut random = Random(0x1de);
    let (mut good, mut wrong) = (0, 0);
    for _ in 0..rounds(10) {
        let bytes = damage_json(&mut random, text.as_bytes(), 0);
        match safetensors::Index::parse(&bytes) {
            Ok(index) => {
                good += 1;
                let headers = vec![header.clone(); index.files().len()];
                let joined = index.join(&headers);
                assert!(joined.is_err() || index.files().len() < 2);
            }
            Err(error) => {
                wrong += 1;
                assert!((10..2000).contains(&error.to_string().len()));
            }
        }
        // The hub's answers are JSON too.
        let _ = hub::Listing::parse(&bytes);
    }
    memory.conclude("indexes", good, wrong);
}

/// A manifest of as many tensors as the nano file has.
fn manifest() -> String {
    let file = fixture("nano/hf/model.safetensors");
    let header = pollster::block_on(safetensors::read_header(&mut MemorySource::new(
        "nano", file,
    )));
    let mut offset = 0;
    let tensors = header
        .expect("a good file")
        .tensors
        .into_iter()
        .map(|tensor| {
            let mut entry = weights::manifest::Entry {
                kind: BlockType::Q8_0,
                shape: tensor.shape,
                name: tensor.name,
                offset,
            };
            if entry.shape.len() == 1 {
                entry.kind = BlockType::F32;
            }
            offset += entry.bytes().expect("whole blocks");
            entry
        });
    let tensors = tensors.collect();
    let shard = |file: String, bytes| Shard {
        sha256: digest::sha256(file.as_bytes()),
        file,
        bytes,
    };
    let cut = (0..offset).step_by(100_000).map(|at| {
        let file = format!("shard-{at}.bin");
        shard(file, (offset - at).min(100_000))
    });
    let config = serde_json::json!({"layers": 2, "rope": {"divisors": vec![1.5; 16]}});
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: "nano".to_owned(),
        licence: None,
        recipe: "q8".to_owned(),
        config: config.as_object().expect("an object").clone(),
        tensors,
        shards: cut.collect(),
        tokenizer: shard("tokenizer.json".to_owned(), 100),
        template: Some("{{ messages }}".to_owned()),
        special: Special {
            bos: Some(1),
            eos: vec![2, 3],
            add_bos: None,
        },
    };
    manifest.to_json().expect("a good manifest")
}

#[test]
fn damaged_manifests_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let text = manifest();
    let memory = Memory::watch();
    let mut random = Random(0x3a9);
    let (mut good, mut wrong) = (0, 0);
    for _ in 0..rounds(20) {
        match Manifest::parse(&damage_json(&mut random, text.as_bytes(), 0)) {
            Ok(manifest) => {
                good += 1;
                let total = manifest.total();
                for tensor in &manifest.tensors {
                    let bytes = tensor.bytes().expect("checked");
                    assert!(tensor.offset + bytes <= total);
                }
                manifest.to_json().expect("what is read can be written");
            }
            Err(error) => {
                wrong += 1;
                assert!((10..2000).contains(&error.to_string().len()));
            }
        }
    }
    memory.conclude("manifests", good, wrong);
}

/// A text and what reads it.
type Case<'a> = (Vec<u8>, &'a dyn Fn(&[u8]));

/// Texts as long as are read at all, made to take as much memory as they can.
#[test]
fn the_largest_texts_stay_within_the_limit() {
    let _turn = TURN.lock();
    let fill = |start: &str, piece: &str, end: &str, limit: u64| {
        let count = (limit as usize - start.len() - end.len()) / piece.len();
        format!("{start}{}{end}", piece.repeat(count)).into_bytes()
    };
    let head = format!("{{\"format\":\"{FORMAT}\",\"version\":1,");
    let (long, index) = (weights::manifest::MAX_BYTES, safetensors::MAX_INDEX_BYTES);
    let parse_manifest = |text: &[u8]| drop(Manifest::parse(text));
    let parse_index = |text: &[u8]| drop(safetensors::Index::parse(text));
    let parse_header = |text: &[u8]| drop(safetensors::parse(text, None));
    let cases: [Case<'_>; 9] = [
        (
            fill(&format!("{head}\"config\":{{\"a\":["), "0,", "0]}}", long),
            &parse_manifest,
        ),
        (
            fill(&format!("{head}\"tensors\":["), "{},", "{}]}", long),
            &parse_manifest,
        ),
        (
            fill(&format!("{head}\"name\":\""), "x", "\"}", long),
            &parse_manifest,
        ),
        (
            fill(&format!("{head}\"name\":\""), "\\n", "\"}", long),
            &parse_manifest,
        ),
        (
            fill(
                &format!("{head}\"tensors\":["),
                "{\"name\":\"a\",\"kind\":\"F32\",\"shape\":[1],\"offset\":0},",
                "{}]}",
                long,
            ),
            &parse_manifest,
        ),
        (
            fill("{\"weight_map\":{\"", "x", "\":1}}", index),
            &parse_index,
        ),
        (fill("{\"metadata\":[", "0,", "0]}", index), &parse_index),
        (
            fill(
                "{\"a\":{\"shape\":[",
                "1,",
                "1]}}",
                safetensors::MAX_HEADER_BYTES,
            ),
            &parse_header,
        ),
        (
            fill("{\"", "\\t", "\":1}", safetensors::MAX_HEADER_BYTES),
            &parse_header,
        ),
    ];
    for (place, (text, parse)) in cases.iter().enumerate() {
        let memory = Memory::watch();
        parse(text);
        assert!(
            memory.largest() <= LIMIT,
            "case {place}: {}",
            memory.largest()
        );
        assert!(memory.most() <= LIMIT, "case {place}: {}", memory.most());
    }
}

/// A header as large as is read at all, made to take as much memory as it can.
#[test]
fn the_largest_headers_stay_within_the_limit() {
    let _turn = TURN.lock();
    let array = |element: u32, count: u64, body: &dyn Fn(u64) -> Vec<u8>| {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, b'k', 9, 0, 0, 0]);
        bytes.extend(element.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        (0..count).for_each(|index| bytes.extend(body(index)));
        bytes
    };
    let empty_strings = array(8, 4_000_000, &|_| vec![0; 8]);
    let one_string = array(8, 1, &|_| {
        [&31_000_000u64.to_le_bytes()[..], &vec![b'x'; 31_000_000]].concat()
    });
    let bytes = array(0, 32_000_000, &|index| vec![index as u8]);
    for header in [empty_strings, one_string, bytes] {
        let memory = Memory::watch();
        let parsed = parse(&header, Some(header.len() as u64));
        assert!(
            matches!(parsed, Ok(Step::Done(_))),
            "{:.200}",
            format!("{parsed:?}")
        );
        assert!(memory.largest() <= LIMIT);
    }
}
