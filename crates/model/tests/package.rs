//! Packages of every kind, whole and broken.

use std::collections::HashMap;
use std::path::PathBuf;

use model::package::{self, Kind, Package, TokenizerFile};
use model::{LoadError, Plan, Role, Tensor};
use pollster::block_on;
use serde_json::{Value, json};
use weights::gguf::{Step, parse, write_vocabulary};
use weights::manifest::{FORMAT, Licence, Manifest, Shard, Special, VERSION};
use weights::safetensors;
use weights::source::folder::{Folder, MemoryFolder};
use weights::source::{DirFolder, Joined};
use weights::store::{Description, Keeping, Key, MemoryDisk, Store};
use weights::{ByteSource, MemorySource, SourceError, digest};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The nano model as Hugging Face has it.
fn nano_hf() -> MemoryFolder {
    let mut folder = MemoryFolder::new("memory/nano");
    for name in [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        folder.insert(name, fixture(&format!("nano/hf/{name}")));
    }
    folder
}

fn opened<F: Folder>(folder: &F, main: Option<&str>) -> (Package, Joined<F::Source>) {
    block_on(package::open(folder, main)).unwrap_or_else(|error| panic!("{error}"))
}

fn refused<F: Folder>(folder: &F, main: Option<&str>) -> String {
    match block_on(package::open(folder, main)) {
        Err(error) => {
            let text = error.to_string();
            assert!((20..800).contains(&text.len()), "{text}");
            text
        }
        Ok((package, _)) => panic!("{} was opened", package.name),
    }
}

/// The bytes of every tensor, by role.
fn tensors(package: &Package, source: &mut impl ByteSource) -> HashMap<Role, Vec<u8>> {
    let mut read = |tensor: &Tensor| {
        let mut bytes = Vec::new();
        let read = source.read(tensor.offset, &mut bytes, tensor.bytes() as usize);
        block_on(read).unwrap_or_else(|error| panic!("{}: {error}", tensor.name));
        bytes
    };
    let tensors = package.plan.tensors.iter();
    tensors.map(|tensor| (tensor.role, read(tensor))).collect()
}

/// A safetensors file of these tensors: name, header entry without its place, bytes.
fn safetensors_file(tensors: &[(String, Value, Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, entry, bytes) in tensors {
        let mut entry = entry.clone();
        entry["data_offsets"] = json!([data.len(), data.len() + bytes.len()]);
        header.insert(name.clone(), entry);
        data.extend(bytes);
    }
    let header = Value::from(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// The tensors of the nano file.
fn nano_tensors() -> Vec<(String, Value, Vec<u8>)> {
    let bytes = fixture("nano/hf/model.safetensors");
    let header = block_on(safetensors::read_header(&mut MemorySource::new(
        "file",
        &bytes[..],
    )));
    let header = header.expect("a good file");
    header
        .tensors
        .iter()
        .map(|tensor| {
            let entry = json!({"dtype": tensor.dtype.to_string(), "shape": tensor.shape});
            let data = &bytes[tensor.offset as usize..tensor.end() as usize];
            (tensor.name.clone(), entry, data.to_vec())
        })
        .collect()
}

/// The nano model in files of so many tensors, with their index.
fn sharded(per_file: usize) -> MemoryFolder {
    let mut folder = nano_hf();
    folder.remove("model.safetensors").expect("the file");
    let tensors = nano_tensors();
    let files: Vec<_> = tensors.chunks(per_file).collect();
    let mut map = serde_json::Map::new();
    for (place, file) in files.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", place + 1, files.len());
        for (tensor, ..) in *file {
            map.insert(tensor.clone(), name.clone().into());
        }
        folder.insert(name, safetensors_file(file));
    }
    let index = json!({"metadata": {"total_size": 1}, "weight_map": map});
    folder.insert(
        "model.safetensors.index.json",
        index.to_string().into_bytes(),
    );
    folder
}

/// The nano model as a package of shards, cut at odd places.
fn shards(from: &str, shard_bytes: usize) -> MemoryFolder {
    let bytes = fixture(from);
    let mut folder = MemoryFolder::new("memory/nano.gguf");
    folder.insert("x.gguf", bytes.clone());
    let (package, mut source) = opened(&folder, None);
    let mut data = Vec::new();
    let mut plan = package.plan.clone();
    let config = &mut plan.config;
    plan.tensors.retain_mut(|tensor| {
        let mut bytes = Vec::new();
        let read = source.read(tensor.offset, &mut bytes, tensor.bytes() as usize);
        block_on(read).expect("a tensor");
        if tensor.role == Role::RopeDivisors {
            config.rope.divisors = Some(tensor.floats(&bytes).expect("floats"));
            return false;
        }
        tensor.offset = data.len() as u64;
        data.extend(bytes);
        true
    });
    let TokenizerFile::Gguf(parts) = package.tokenizer else {
        panic!("a GGUF file has a tokenizer of its own");
    };
    let vocabulary = write_vocabulary(&parts);
    let mut folder = MemoryFolder::new("memory/shards");
    let shard = |file: String, bytes: &[u8]| Shard {
        file,
        bytes: bytes.len() as u64,
        sha256: digest::sha256(bytes),
    };
    let cut = data.chunks(shard_bytes).enumerate().map(|(place, bytes)| {
        let file = format!("shard-{:05}.bin", place + 1);
        folder.insert(file.as_str(), bytes);
        shard(file, bytes)
    });
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        name: "nano in shards".to_owned(),
        licence: Some(Licence {
            name: "Llama 3.2 Community License".to_owned(),
            link: None,
            attribution: Some("Built with Llama".to_owned()),
        }),
        recipe: "as it was".to_owned(),
        config: plan.config.to_json(),
        tensors: plan.entries(),
        shards: cut.collect(),
        tokenizer: shard("tokenizer.gguf".to_owned(), &vocabulary),
        template: package.template,
        special: Special::default(),
    };
    folder.insert("tokenizer.gguf", vocabulary);
    let text = manifest.to_json().expect("a good manifest");
    folder.insert("model.json", text.into_bytes());
    folder
}

const GGUF: [&str; 12] = [
    "nano/nano-f16.gguf",
    "nano/nano-q2_k.gguf",
    "nano/nano-q3_k_m.gguf",
    "nano/nano-q4_0.gguf",
    "nano/nano-q4_1.gguf",
    "nano/nano-q4_k_m.gguf",
    "nano/nano-q5_0.gguf",
    "nano/nano-q5_1.gguf",
    "nano/nano-q5_k_m.gguf",
    "nano/nano-q6_k.gguf",
    "nano/nano-q8_0.gguf",
    "tinyrope/tinyrope-q4_k_m.gguf",
];

#[test]
fn every_gguf_file_opens() {
    for name in GGUF {
        let (folder, file) = name.split_once('/').expect("in a folder");
        let folder = DirFolder::open(fixtures().join(folder)).expect("a folder");
        let (package, mut source) = opened(&folder, Some(file));
        assert_eq!(package.kind, Kind::Gguf, "{name}");
        let bytes = fixture(name);
        let Ok(Step::Done(header)) = parse(&bytes, None) else {
            panic!("{name} is a good file");
        };
        assert_eq!(package.plan, Plan::from_gguf(&header).expect("a model"));
        let parts = header.tokenizer_parts().expect("a tokenizer");
        assert_eq!(package.template, parts.chat_template);
        assert_eq!(package.tokenizer, TokenizerFile::Gguf(Box::new(parts)));
        assert_eq!(package.special, Special::default());
        assert!(package.pieces.is_none());
        let weights: u64 = header.tensors.iter().map(|tensor| tensor.weights()).sum();
        assert_eq!(package.parameters, weights);
        let count: u32 = package.types.iter().map(|(_, count)| count).sum();
        assert_eq!(count as usize, package.plan.tensors.len());
        assert!(package.types.is_sorted_by(|a, b| a.1 >= b.1));
        assert!(!package.name.is_empty());
        for tensor in &package.plan.tensors {
            let mut read = Vec::new();
            block_on(source.read(tensor.offset, &mut read, 16)).expect("inside");
            assert_eq!(read, bytes[tensor.offset as usize..][..16]);
        }
    }
}

#[test]
fn a_folder_opens_from_memory_and_from_disk() {
    let (package, mut source) = opened(&nano_hf(), None);
    assert_eq!(package.kind, Kind::Safetensors);
    assert_eq!(package.name, "nano");
    assert_eq!(
        (package.special.bos, &package.special.eos[..]),
        (Some(624), &[628][..])
    );
    assert_eq!(package.special.add_bos, None);
    assert!(
        package
            .template
            .as_ref()
            .is_some_and(|text| text.contains("<|eot_id|>"))
    );
    assert_eq!(package.types, [("BF16".to_owned(), 20)]);
    let expected = fixture("nano/hf/tokenizer.json");
    assert_eq!(package.tokenizer, TokenizerFile::Json(expected));
    let memory = tensors(&package, &mut source);

    let folder = DirFolder::open(fixtures().join("nano/hf")).expect("a folder");
    for main in [None, Some("config.json"), Some("model.safetensors")] {
        let (disk, mut source) = opened(&folder, main);
        assert_eq!(disk.plan, package.plan);
        assert!(tensors(&disk, &mut source) == memory);
    }
}

/// Up to how the weights are stored, and to where.
#[test]
fn a_folder_and_its_gguf_file_are_one_model() {
    let (folder, _) = opened(&nano_hf(), None);
    let disk = DirFolder::open(fixtures().join("nano")).expect("a folder");
    let (gguf, mut source) = opened(&disk, Some("nano-f16.gguf"));
    let (mut a, mut b) = (folder.plan.config.clone(), gguf.plan.config.clone());
    // There the divisors are a tensor, and rows are in another order.
    let divisors = gguf
        .plan
        .tensors
        .iter()
        .find(|t| t.role == Role::RopeDivisors);
    let divisors = divisors.expect("divisors");
    let mut bytes = Vec::new();
    block_on(source.read(divisors.offset, &mut bytes, divisors.bytes() as usize)).expect("read");
    assert_eq!(
        a.rope.divisors,
        Some(divisors.floats(&bytes).expect("floats"))
    );
    assert_ne!(a.rope.pairing, b.rope.pairing);
    (a.rope.divisors, b.rope.divisors) = (None, None);
    b.rope.pairing = a.rope.pairing;
    assert_eq!(a, b);
    let shapes = |package: &Package| {
        let tensors = package.plan.tensors.iter();
        let mut shapes: Vec<_> = tensors
            .filter(|tensor| tensor.role != Role::RopeDivisors)
            .map(|tensor| (format!("{:?}", tensor.role), tensor.rows, tensor.cols))
            .collect();
        shapes.sort();
        shapes
    };
    assert_eq!(shapes(&folder), shapes(&gguf));
    let own = divisors.cols as u64;
    assert_eq!(folder.parameters, gguf.parameters - own);
}

#[test]
fn several_safetensors_files_are_one_model() {
    let (single, mut source) = opened(&nano_hf(), None);
    let expected = tensors(&single, &mut source);
    for per_file in [1, 7, 19, 20] {
        let folder = sharded(per_file);
        for main in [
            None,
            Some("model.safetensors.index.json"),
            Some("config.json"),
        ] {
            let (package, mut source) = opened(&folder, main);
            assert_eq!(package.kind, Kind::Safetensors);
            assert_eq!(package.plan.config, single.plan.config);
            assert!(
                tensors(&package, &mut source) == expected,
                "{per_file} in a file"
            );
            assert_eq!(source.sources().count(), 20usize.div_ceil(per_file));
        }
        // One of the numbered files stands for all.
        let name = format!(
            "model-00001-of-{:05}.safetensors",
            20usize.div_ceil(per_file)
        );
        let (package, _) = opened(&folder, Some(&name));
        assert_eq!(package.parameters, single.parameters);
    }
}

/// Published folders have halves of either kind, and single precision.
#[test]
fn tensors_of_all_types_are_read() {
    let values = |bytes: &[u8]| -> Vec<f32> {
        let pairs = bytes.chunks_exact(2);
        let pairs = pairs.map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
        pairs.map(f32::from_bits).collect()
    };
    let (expected, _) = opened(&nano_hf(), None);
    for (dtype, kind) in [("F32", "F32"), ("F16", "F16"), ("BF16", "BF16")] {
        let mut file = nano_tensors();
        // Norms stay as they were: types may differ within a file.
        for (name, entry, bytes) in &mut file {
            if name.ends_with("norm.weight") {
                continue;
            }
            entry["dtype"] = dtype.into();
            let values = values(bytes).into_iter();
            match dtype {
                "F32" => *bytes = values.flat_map(f32::to_le_bytes).collect(),
                // Zeros: their places count here, `weights::codec` is tested elsewhere.
                "F16" => *bytes = vec![0; bytes.len()],
                _ => {}
            }
        }
        let mut folder = nano_hf();
        folder.insert("model.safetensors", safetensors_file(&file));
        let (package, mut source) = opened(&folder, None);
        let read = tensors(&package, &mut source);
        for (name, _, bytes) in &file {
            let tensor = package.plan.tensors.iter().find(|t| t.name == *name);
            let tensor = tensor.expect("the tensor");
            assert_eq!(&read[&tensor.role], bytes, "{name}");
            let other = name.ends_with("norm.weight");
            assert_eq!(tensor.kind.name(), if other { "BF16" } else { kind });
        }
        assert_eq!(package.parameters, expected.parameters);
    }
    for dtype in ["I16", "F64", "F8_E4M3"] {
        let mut file = nano_tensors();
        let size = if dtype == "I16" { 2 } else { 8 };
        let (name, entry, bytes) = &mut file[4];
        entry["dtype"] = dtype.into();
        *bytes = vec![
            0;
            if dtype == "F8_E4M3" {
                bytes.len() / 2
            } else {
                bytes.len() / 2 * size
            }
        ];
        let name = name.clone();
        let mut folder = nano_hf();
        folder.insert("model.safetensors", safetensors_file(&file));
        let text = refused(&folder, None);
        assert!(text.contains(&name) && text.contains(dtype), "{text}");
    }
}

#[test]
fn broken_folders_are_explained() {
    let without = |name: &str| {
        let mut folder = nano_hf();
        folder.remove(name).expect("a file");
        folder
    };
    for name in ["tokenizer.json", "config.json", "model.safetensors"] {
        let text = refused(&without(name), Some("config.json"));
        assert!(text.contains(name) && text.contains("missing"), "{text}");
    }
    assert!(refused(&without("config.json"), None).contains("no config.json"));
    assert!(refused(&without("model.safetensors"), None).contains("no .safetensors file"));
    for name in ["generation_config.json", "tokenizer_config.json"] {
        let (package, _) = opened(&without(name), None);
        assert_eq!(package.special.bos, Some(624));
        assert_eq!(package.template.is_none(), name == "tokenizer_config.json");
    }

    let with = |name: &str, text: &str| {
        let mut folder = nano_hf();
        folder.insert(name, text.as_bytes());
        folder
    };
    for (name, text, named) in [
        ("config.json", "{", "config.json"),
        ("config.json", r#"{"model_type":"mamba"}"#, "mamba"),
        ("generation_config.json", "[", "generation_config.json"),
        ("generation_config.json", r#"{"eos_token_id":640}"#, "640"),
        (
            "generation_config.json",
            r#"{"eos_token_id":"x"}"#,
            "eos_token_id",
        ),
        (
            "generation_config.json",
            r#"{"eos_token_id":[-1]}"#,
            "eos_token_id",
        ),
        ("tokenizer_config.json", "[", "tokenizer_config.json"),
        (
            "tokenizer_config.json",
            r#"{"chat_template":3}"#,
            "tokenizer_config.json",
        ),
        (
            "model.safetensors",
            "version https://git-lfs.github.com/spec/v1",
            "git lfs pull",
        ),
        ("model.safetensors", "<!doctype html>", "web page"),
    ] {
        let text = refused(&with(name, text), None);
        assert!(text.contains(named), "{named}: {text}");
    }
    let mut folder = nano_hf();
    folder.insert("config.json", vec![b' '; 300 << 10]);
    assert!(refused(&folder, None).contains("config.json"));
    let mut folder = nano_hf();
    folder.insert("chat_template.jinja", &b"\xff"[..]);
    assert!(refused(&folder, None).contains("chat_template.jinja"));

    let mut adapter = MemoryFolder::new("memory/adapter");
    adapter.insert("adapter_config.json", &b"{}"[..]);
    adapter.insert("adapter_model.safetensors", &b"x"[..]);
    assert!(refused(&adapter, None).contains("merge-lora"));
    assert!(refused(&MemoryFolder::new("memory/empty"), None).contains("no model here"));
    assert!(refused(&nano_hf(), Some("model.onnx")).contains("model.onnx"));
    assert!(refused(&nano_hf(), Some("../model.gguf")).contains("inside"));
    assert!(refused(&nano_hf(), Some("none.gguf")).contains("no such file"));
    let several = DirFolder::open(fixtures().join("nano")).expect("a folder");
    let text = refused(&several, None);
    assert!(
        text.contains("11 GGUF files") && text.contains("nano-q4_0.gguf"),
        "{text}"
    );
}

#[test]
fn broken_indexes_are_explained() {
    let index = "model.safetensors.index.json";
    let change = |change: &dyn Fn(&mut MemoryFolder, &mut Value)| {
        let mut folder = sharded(7);
        let mut value = serde_json::from_slice(folder.get(index).expect("it")).expect("JSON");
        change(&mut folder, &mut value);
        folder.insert(index, value.to_string().into_bytes());
        refused(&folder, None)
    };
    let (one, two) = (
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
    );
    let name = "model.norm.weight";
    let text = change(&|folder, _| drop(folder.remove(two)));
    assert!(text.contains(two) && text.contains("missing"), "{text}");
    let text = change(&|_, v| v["weight_map"][name] = one.into());
    assert!(
        text.contains(name) && text.contains("but the index says"),
        "{text}"
    );
    let text = change(&|_, v| v["weight_map"]["extra"] = one.into());
    assert!(
        text.contains("extra") && text.contains("not there"),
        "{text}"
    );
    let text = change(&|_, v| v["weight_map"][name] = "../x.safetensors".into());
    assert!(text.contains("not the name"), "{text}");
    let text = change(&|_, v| drop(v["weight_map"].as_object_mut().expect("a map").remove(name)));
    assert!(text.contains(name), "{text}");
    // A tensor in two of the files.
    let text = change(&|folder, _| {
        let all = nano_tensors();
        folder.insert(two, safetensors_file(&[&all[7..14], &all[..1]].concat()));
    });
    assert!(
        text.contains(two) && text.contains("but the index says"),
        "{text}"
    );
    let text = change(&|folder, _| {
        let cut = folder.get(one).expect("a file");
        let cut = cut[..cut.len() - 1].to_vec();
        folder.insert(one, cut);
    });
    assert!(text.contains(one) && text.contains("cut short"), "{text}");
    let text = change(&|_, v| *v = json!([]));
    assert!(text.contains(index), "{text}");
}

#[test]
fn packages_of_shards_open() {
    for (name, shard_bytes) in [(GGUF[3], 100_001), (GGUF[0], 300_000), (GGUF[11], 1 << 20)] {
        let mut folder = MemoryFolder::new("memory");
        folder.insert("x.gguf", fixture(name));
        let (gguf, mut source) = opened(&folder, Some("x.gguf"));
        let mut expected = tensors(&gguf, &mut source);
        expected.remove(&Role::RopeDivisors);

        let folder = shards(name, shard_bytes);
        let (package, mut source) = opened(&folder, None);
        assert_eq!(package.kind, Kind::Shards);
        assert_eq!(package.name, "nano in shards");
        assert!(package.plan.config.rope.divisors.is_some());
        assert!(tensors(&package, &mut source) == expected, "{name}");
        assert_eq!(package.tokenizer, gguf.tokenizer);
        assert_eq!(package.template, gguf.template);
        let licence = package.licence.expect("a licence");
        assert_eq!(licence.attribution.as_deref(), Some("Built with Llama"));
        let pieces = package.pieces.expect("pieces");
        assert!(pieces.len() > 1 && pieces.len() == source.sources().count());
        for piece in &pieces {
            let bytes = folder.get(&piece.file).expect("a shard");
            assert_eq!(piece.bytes, bytes.len() as u64);
            assert_eq!(piece.sha256, Some(digest::sha256(bytes)));
        }
    }
    // In a folder of its own, beside others.
    let inner = shards(GGUF[3], 100_001);
    let mut outer = nano_hf();
    for name in inner.names().expect("names") {
        outer.insert(format!("q4/{name}"), inner.get(&name).expect("a file"));
    }
    for main in ["q4/model.json", "q4", "q4/"] {
        let (package, mut source) = opened(&outer, Some(main));
        assert_eq!(package.kind, Kind::Shards);
        assert!(!tensors(&package, &mut source).is_empty());
    }
    assert!(refused(&outer, Some("q5")).contains("q5"));
}

/// A change and what the error names.
type PackageCase<'a> = (&'a dyn Fn(&mut MemoryFolder, &mut Value), &'a str);
/// The same of a file.
type FileCase<'a> = (&'a dyn Fn(&mut Vec<u8>), &'a str);

#[test]
fn broken_packages_are_explained() {
    let change = |change: &dyn Fn(&mut MemoryFolder, &mut Value)| {
        let mut folder = shards(GGUF[3], 100_001);
        let text = folder.get("model.json").expect("it").to_vec();
        let mut value = serde_json::from_slice(&text).expect("JSON");
        change(&mut folder, &mut value);
        folder.insert("model.json", value.to_string().into_bytes());
        refused(&folder, None)
    };
    let cases: &[PackageCase<'_>] = &[
        (&|_, v| v["version"] = 2.into(), "version 2"),
        (&|_, v| v["format"] = "other".into(), "other"),
        (&|f, _| drop(f.remove("shard-00002.bin")), "shard-00002.bin"),
        (
            &|f, _| f.insert("shard-00002.bin", &b"short"[..]),
            "5 bytes",
        ),
        (
            &|f, _| drop(f.remove("tokenizer.gguf")),
            "tokenizer is missing",
        ),
        (
            &|f, _| f.insert("tokenizer.gguf", &b"GGUF"[..]),
            "not the file that model.json names",
        ),
        (&|_, v| v["config"]["layers"] = 3.into(), "Block(2"),
        (&|_, v| v["config"]["layers"] = 1.into(), "blk.1."),
        (
            &|_, v| v["config"]["layers"] = (1u64 << 40).into(),
            "layers",
        ),
        (
            &|_, v| v["config"]["rope"]["pairing"] = "halves".into(),
            "adjacent",
        ),
        (
            &|_, v| v["config"]["rope"]["divisors"] = json!([1.0]),
            "divisors",
        ),
        (&|_, v| v["config"]["vocab"] = 639.into(), "639"),
        (
            &|_, v| v["tensors"][3]["name"] = "blk.0.attn_k.bias".into(),
            "no role",
        ),
        (
            &|_, v| {
                let list = v["tensors"].as_array_mut().expect("tensors");
                let key = list.iter_mut().find(|t| t["name"] == "blk.0.attn_k.weight");
                key.expect("a key projection")["name"] = "blk.99.attn_k.weight".into();
            },
            "beyond",
        ),
        (&|_, v| v["special"]["bos"] = 640.into(), "640"),
    ];
    for (broken, named) in cases {
        let text = change(broken);
        assert!(text.contains(named), "{named}: {text}");
    }
    let mut folder = shards(GGUF[3], 100_001);
    folder.insert("model.json", &b"<html>"[..]);
    assert!(refused(&folder, None).contains("model.json"));
    // A tokenizer with more tokens than the table has rows.
    let text = change(&|_, v| {
        v["config"]["vocab"] = 320.into();
        let tensors = v["tensors"].as_array_mut().expect("tensors");
        let table = tensors
            .iter_mut()
            .find(|t| t["name"] == "token_embd.weight");
        table.expect("embeddings")["shape"] = json!([320, 256]);
    });
    assert!(text.contains("640 entries"), "{text}");
}

#[test]
fn broken_gguf_files_are_explained() {
    let good = fixture("nano/nano-q4_0.gguf");
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let mut folder = MemoryFolder::new("memory");
        folder.insert("x.gguf", bytes);
        refused(&folder, None)
    };
    let replace = |bytes: &mut Vec<u8>, old: &[u8], new: &[u8]| {
        assert_eq!(old.len(), new.len());
        let at = bytes.windows(old.len()).position(|window| window == old);
        let at = at.expect("it is there");
        bytes[at..at + new.len()].copy_from_slice(new);
    };
    let cases: &[FileCase<'_>] = &[
        (&|b| b.truncate(100), "cut short"),
        (&|b| b.truncate(b.len() - 1), "cut short"),
        (&|b| b[4] = 9, "version 9"),
        (&|b| b[4..8].copy_from_slice(&[0, 0, 0, 3]), "big-endian"),
        (&|b| b[0] = b'g', "not a GGUF file"),
        (
            &|b| replace(b, b"llama.block_count", b"llama.block_cOunt"),
            "llama.block_count",
        ),
        (
            &|b| replace(b, b"tokenizer.ggml.tokens", b"tokenizer.ggml.tokenZ"),
            "tokenizer.ggml.tokens",
        ),
        (
            &|b| replace(b, b"blk.1.attn_q.weight", b"blk.1.attn_Q.weight"),
            "blk.1.attn_q.weight",
        ),
        (&|b| b.clear(), "empty"),
    ];
    for (broken, named) in cases {
        let text = with(broken);
        assert!(text.contains(named), "{named}: {text}");
    }
    // Types of weights that can be named but not read.
    let Ok(Step::Done(header)) = parse(&good, None) else {
        panic!("a good file");
    };
    let tensor = header.tensor("blk.0.ffn_up.weight").expect("a tensor");
    let mut entry = (tensor.name.len() as u64).to_le_bytes().to_vec();
    entry.extend(tensor.name.as_bytes());
    let at = good
        .windows(entry.len())
        .position(|window| window == entry)
        .expect("its entry");
    let kind = at + entry.len() + 4 + 8 * tensor.dims.len();
    // IQ4_NL takes as many bytes as Q4_0.
    let text = with(&|bytes| bytes[kind] = 20);
    assert!(text.contains("IQ4_NL") && text.contains("Q4_0"), "{text}");
}

/// A web address: it cannot list its files, and says only with the first read that there is none.
struct Web(MemoryFolder);

struct WebFile {
    url: String,
    file: Option<MemorySource<std::sync::Arc<[u8]>>>,
    asked: bool,
}

impl Folder for Web {
    type Source = WebFile;

    async fn open(&self, name: &str) -> Result<WebFile, SourceError> {
        Ok(WebFile {
            url: format!("https://example.org/m/{name}"),
            file: self.0.open(name).await.ok(),
            asked: false,
        })
    }

    fn names(&self) -> Option<Vec<String>> {
        None
    }

    fn name(&self) -> String {
        "https://example.org/m".to_owned()
    }
}

impl ByteSource for WebFile {
    fn name(&self) -> String {
        self.url.clone()
    }

    fn size(&self) -> Option<u64> {
        self.file.as_ref().filter(|_| self.asked)?.size()
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        self.asked = true;
        match &mut self.file {
            Some(file) => file.read(offset, buf, len).await,
            None => Err(SourceError::Status {
                url: self.url.clone(),
                status: 404,
            }),
        }
    }
}

#[test]
fn web_addresses_open_without_a_listing() {
    for (folder, kind) in [
        (nano_hf(), Kind::Safetensors),
        (sharded(7), Kind::Safetensors),
        (shards(GGUF[3], 100_001), Kind::Shards),
    ] {
        let (expected, mut source) = opened(&folder, None);
        let expected_tensors = tensors(&expected, &mut source);
        let (package, mut source) = opened(&Web(folder), None);
        assert_eq!(package.kind, kind);
        assert_eq!(package.plan, expected.plan);
        assert!(tensors(&package, &mut source) == expected_tensors);
    }
    let mut folder = MemoryFolder::new("memory");
    folder.insert("x.gguf", fixture(GGUF[3]));
    let (package, source) = opened(&Web(folder), Some("x.gguf"));
    assert_eq!(package.kind, Kind::Gguf);
    assert!(source.size().is_some());
    let text = refused(&Web(MemoryFolder::new("memory")), None);
    assert!(
        text.contains("neither model.json nor config.json"),
        "{text}"
    );
    let text = refused(&Web(MemoryFolder::new("memory")), Some("x.gguf"));
    assert!(text.contains("404"), "{text}");
    let mut broken = sharded(7);
    broken
        .remove("model-00002-of-00003.safetensors")
        .expect("a file");
    let text = refused(&Web(broken), None);
    assert!(
        text.contains("model-00002-of-00003.safetensors is missing"),
        "{text}"
    );
    let mut broken = nano_hf();
    broken.remove("model.safetensors").expect("a file");
    let text = refused(&Web(broken), None);
    assert!(text.contains("model.safetensors is missing"), "{text}");
}

#[test]
fn templates_and_licences_of_folders() {
    let mut folder = nano_hf();
    let named = json!({"chat_template": [
        {"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}
    ], "add_bos_token": false});
    folder.insert("tokenizer_config.json", named.to_string().into_bytes());
    let (package, _) = opened(&folder, None);
    assert_eq!(package.template.as_deref(), Some("D"));
    assert_eq!(package.special.add_bos, Some(false));
    assert_eq!(package.licence, None);
    // A file of its own goes before.
    folder.insert("chat_template.jinja", &b"J"[..]);
    folder.insert(
        "README.md",
        &b"---\nlicense: llama3.1\nbase_model: meta-llama/Llama-3.1-8B\n---\n# A model"[..],
    );
    folder.insert(
        "generation_config.json",
        &br#"{"bos_token_id":624,"eos_token_id":[625,628]}"#[..],
    );
    let (package, _) = opened(&folder, None);
    assert_eq!(package.template.as_deref(), Some("J"));
    assert_eq!(package.special.eos, [625, 628]);
    let licence = package.licence.expect("a licence");
    assert_eq!(licence.attribution.as_deref(), Some("Built with Llama"));
}

#[test]
fn errors_keep_their_kind() {
    let mut folder = shards(GGUF[3], 100_001);
    let text = folder.get("model.json").expect("it").to_vec();
    let mut value: Value = serde_json::from_slice(&text).expect("JSON");
    value["version"] = 3.into();
    folder.insert("model.json", value.to_string().into_bytes());
    let error = block_on(package::open(&folder, None)).expect_err("refused");
    assert!(matches!(error, LoadError::Manifest(_)), "{error}");
    let error = block_on(package::open(&nano_hf(), Some("none.gguf"))).expect_err("refused");
    assert!(matches!(error, LoadError::Source(error) if error.is_missing()));
}

/// A folder that cannot list its files, as an address on the web.
struct Unlisted(MemoryFolder);

impl Folder for Unlisted {
    type Source = MemorySource<std::sync::Arc<[u8]>>;

    async fn open(&self, name: &str) -> Result<Self::Source, SourceError> {
        self.0.open(name).await
    }

    fn names(&self) -> Option<Vec<String>> {
        None
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// Opens a package, keeps what was read for that, and opens it again from what was kept.
fn kept_and_opened<F: Folder>(folder: F, main: Option<&str>) -> (Package, Package) {
    let folder = Keeping::new(folder);
    let (package, _) = opened(&folder, main);
    let store = Store::new(MemoryDisk::new());
    let description = Description::default();
    let key = Key::of(&["a"]);
    let create = store.open_or_create(&key, &description, 1);
    let (mut entry, _) = block_on(create);
    block_on(entry.set_small(&folder.take())).expect("room");
    let stored = block_on(entry.small()).expect("whole").expect("kept");
    (package, opened(&stored, main).0)
}

#[test]
fn packages_of_every_kind_open_from_what_storage_noted() {
    let mut gguf = MemoryFolder::new("memory");
    gguf.insert("x.gguf", fixture(GGUF[3]));
    let folders = [
        (gguf, "x.gguf"),
        (nano_hf(), "config.json"),
        (shards(GGUF[3], 100_001), "model.json"),
    ];
    for (folder, main) in folders {
        for (package, again) in [
            kept_and_opened(folder.clone(), Some(main)),
            kept_and_opened(Unlisted(folder), Some(main)),
        ] {
            assert_eq!(again.plan, package.plan, "{main}");
            assert_eq!(again.tokenizer, package.tokenizer);
            assert_eq!(again.template, package.template);
            assert_eq!(again.special, package.special);
            assert_eq!(again.pieces, package.pieces);
        }
    }
}
