//! The subcommands about models, as a user runs them on the small fixtures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use half::bf16;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    fixtures.join(name)
}

/// A folder that is deleted with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("playground-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn playground(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_playground"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// What it prints, as JSON, when all is well.
fn json_of(arguments: &[&str]) -> Value {
    let output = playground(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// What it says when it fails.
fn complaint(arguments: &[&str]) -> String {
    let output = playground(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn convert(source: &Path, recipe: &str, out: &Path) -> Value {
    let arguments = [
        "convert",
        text(source),
        "--quant",
        recipe,
        "--out",
        text(out),
        "--shard-size",
        "1",
    ];
    json_of(&arguments)
}

/// All files of a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name");
            (name, fs::read(entry.path()).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// The logits of three tokens, by the engine.
fn logits(model: &Path) -> Vec<f64> {
    let answer = json_of(&["logits", text(model), "--tokens", "5,17,200", "--all"]);
    let logits = answer["logits"].as_array().expect("a list");
    logits
        .iter()
        .map(|logit| logit.as_f64().expect("a number"))
        .collect()
}

fn difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max)
}

#[test]
fn packages_are_the_same_however_they_are_made() {
    let folder = Folder::new("same");
    for (source, recipe) in [
        ("nano/hf", "f16"),
        ("nano/hf", "q4"),
        ("nano/nano-q6_k.gguf", "q8"),
    ] {
        let (one, two) = (folder.join("one"), folder.join("two"));
        let answer = convert(&fixture(source), recipe, &one);
        assert_eq!(answer["recipe"], recipe);
        let two_text = text(&two).to_owned();
        let arguments = [
            "--quant",
            recipe,
            "--out",
            &two_text,
            "--shard-size",
            "1",
            "--threads",
            "3",
        ];
        json_of(&[&["convert", text(&fixture(source))], &arguments[..]].concat());
        assert!(files(&one) == files(&two), "{source} {recipe}");
        let verified = json_of(&["verify", text(&one)]);
        assert_eq!(verified["sound"], true);
        assert_eq!(
            verified["files"],
            answer["shards"].as_u64().expect("a count") + 1
        );
        for (name, bytes) in files(&one) {
            assert!(bytes.len() <= 1 << 20, "{name}");
            assert!(
                !name.ends_with(".part") && !name.ends_with(".journal"),
                "{name}"
            );
        }
        fs::remove_dir_all(&one).expect("removed");
        fs::remove_dir_all(&two).expect("removed");
    }
}

#[test]
fn a_folder_its_shards_and_its_gguf_file_predict_the_same() {
    let folder = Folder::new("predict");
    let shards = folder.join("f16");
    let answer = convert(&fixture("nano/hf"), "f16", &shards);
    assert_eq!(answer["shards"], 2);
    let expected = logits(&fixture("nano/nano-f16.gguf"));
    assert!(difference(&expected, &logits(&shards)) < 1e-3);
    assert!(difference(&expected, &logits(&fixture("nano/hf"))) < 1e-3);
    // Shards of shards.
    let again = folder.join("again");
    convert(&shards, "f16", &again);
    let (mut one, mut two) = (files(&shards), files(&again));
    for files in [&mut one, &mut two] {
        files.retain(|(name, _)| name.starts_with("shard"));
    }
    assert!(one == two);
    // And text goes in and out through the tokenizer of either kind.
    for model in [text(&shards), text(&fixture("nano/nano-f16.gguf"))] {
        let answer = json_of(&[
            "generate",
            model,
            "--prompt",
            "hello",
            "--max",
            "4",
            "--arithmetic",
            "exact",
        ]);
        assert_eq!(answer["prompt_ids"], json!([281, 75, 348]));
    }
}

#[test]
fn a_conversion_that_was_broken_off_goes_on() {
    let folder = Folder::new("resume");
    let (whole, broken) = (folder.join("whole"), folder.join("broken"));
    convert(&fixture("nano/hf"), "f16", &whole);
    // The second shard cannot be written.
    let obstacle = broken.join("shard-00002.bin.part");
    fs::create_dir_all(&obstacle).expect("a folder");
    let source = fixture("nano/hf");
    let arguments = [
        "convert",
        text(&source),
        "--quant",
        "f16",
        "--out",
        text(&broken),
        "--shard-size",
        "1",
    ];
    let said = complaint(&arguments);
    assert!(said.contains("shard-00002.bin"), "{said}");
    assert!(broken.join("shard-00001.bin").exists() && !broken.join("model.json").exists());
    let said = complaint(&["verify", text(&broken)]);
    assert!(said.contains("model.json"), "{said}");

    // Another conversion does not go on from there.
    let mut other = arguments;
    other[3] = "bf16";
    let said = complaint(&other);
    assert!(said.contains("unfinished conversion"), "{said}");

    fs::remove_dir(&obstacle).expect("removed");
    let written = || {
        fs::metadata(broken.join("shard-00001.bin"))
            .and_then(|file| file.modified())
            .expect("a time")
    };
    let before = written();
    let answer = json_of(&arguments);
    assert_eq!(
        (&answer["kept_shards"], &answer["shards"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(before, written(), "a sound shard is not written again");
    assert!(files(&whole) == files(&broken));

    let said = complaint(&[
        "convert",
        text(&broken),
        "--quant",
        "q8",
        "--out",
        text(&broken),
    ]);
    assert!(said.contains("own folder"), "{said}");

    // Once it is finished, it is left alone.
    let said = complaint(&arguments);
    assert!(said.contains("finished package"), "{said}");
    assert!(files(&whole) == files(&broken));
}

#[test]
fn a_shard_that_was_damaged_meanwhile_is_made_again() {
    let folder = Folder::new("damaged");
    let (whole, broken) = (folder.join("whole"), folder.join("broken"));
    convert(&fixture("nano/hf"), "f16", &whole);
    let obstacle = broken.join("shard-00002.bin.part");
    fs::create_dir_all(&obstacle).expect("a folder");
    let source = fixture("nano/hf");
    let arguments = [
        "convert",
        text(&source),
        "--quant",
        "f16",
        "--out",
        text(&broken),
        "--shard-size",
        "1",
    ];
    complaint(&arguments);
    fs::remove_dir(&obstacle).expect("removed");
    flip(&broken.join("shard-00001.bin"), 70_000);
    let answer = json_of(&arguments);
    assert_eq!(answer["kept_shards"], 0);
    assert!(files(&whole) == files(&broken));
}

/// Flips a bit of a file.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 4;
    fs::write(path, bytes).expect("written");
}

#[test]
fn verify_names_what_is_wrong() {
    let folder = Folder::new("verify");
    let out = folder.join("out");
    convert(&fixture("nano/hf"), "f16", &out);
    let sound = files(&out);
    let restore = || {
        for (name, bytes) in &sound {
            fs::write(out.join(name), bytes).expect("written");
        }
    };
    let fault = |named: &str| {
        let output = playground(&["verify", text(&out)]);
        assert_eq!(output.status.code(), Some(1));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["sound"], false);
        assert_eq!(answer["faults"].as_array().expect("a list").len(), 1);
        assert_eq!(answer["faults"][0]["file"], named);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(said.contains(named), "{said}");
        restore();
    };
    flip(&out.join("shard-00002.bin"), 123_456);
    fault("shard-00002.bin");
    flip(&out.join("tokenizer.json"), 20);
    fault("tokenizer.json");
    fs::write(out.join("shard-00001.bin"), b"short").expect("written");
    fault("shard-00001.bin");
    fs::remove_file(out.join("shard-00001.bin")).expect("removed");
    fault("shard-00001.bin");

    // A damaged shard is not used either.
    flip(&out.join("shard-00001.bin"), 5000);
    let said = complaint(&["logits", text(&out), "--tokens", "1"]);
    assert!(said.contains("shard-00001.bin"), "{said}");
    restore();

    let manifest = fs::read_to_string(out.join("model.json")).expect("a file");
    fs::write(
        out.join("model.json"),
        manifest.replace("\"version\": 1", "\"version\": 7"),
    )
    .expect("written");
    let said = complaint(&["verify", text(&out)]);
    assert!(said.contains("version 7"), "{said}");
    restore();
    assert_eq!(json_of(&["verify", text(&out)])["sound"], true);
}

#[test]
fn damaged_weights_stop_a_conversion() {
    let folder = Folder::new("weights");
    let source = folder.join("source");
    fs::create_dir_all(&source).expect("a folder");
    for (name, bytes) in files(&fixture("nano/hf")) {
        fs::write(source.join(name), bytes).expect("written");
    }
    let path = source.join("model.safetensors");
    let mut bytes = fs::read(&path).expect("a file");
    let end = bytes.len();
    bytes[end - 2..].copy_from_slice(&[0xc0, 0x7f]);
    fs::write(&path, bytes).expect("written");
    let out = folder.join("out");
    let said = complaint(&[
        "convert",
        text(&source),
        "--quant",
        "q4",
        "--out",
        text(&out),
    ]);
    assert!(said.contains("tensor model."), "{said}");
    assert!(said.contains("not a number"), "{said}");
    assert!(!out.join("model.json").exists());
}

#[test]
fn models_are_described() {
    let answer = json_of(&[
        "inspect",
        text(&fixture("nano/nano-q4_k_m.gguf")),
        "--json",
        "--context",
        "1000",
    ]);
    assert_eq!(answer["quantization"], "Q4_K_M");
    assert_eq!(answer["config"]["layers"], 2);
    assert_eq!(answer["tensors"].as_array().expect("a list").len(), 21);
    assert_eq!(answer["special"]["end"], json!([628]));
    assert!(
        answer["template"]
            .as_str()
            .expect("a template")
            .contains("start_header_id")
    );
    let memory = &answer["gpu_memory"];
    let number = |key: &str| memory[key].as_u64().expect("a number");
    // Two blocks, keys and values of two heads of 32, in four bytes.
    assert_eq!(number("cache"), 1000 * 2 * 2 * 2 * 32 * 4);
    assert_eq!(number("half_cache") * 2, number("cache"));
    assert_eq!(
        number("total"),
        number("weights") + number("cache") + number("workspace")
    );
    let tensors = answer["tensor_bytes"].as_u64().expect("a number");
    assert!((tensors..tensors * 11 / 10).contains(&number("weights")));

    let folder = Folder::new("inspect");
    let source = folder.join("model");
    fs::create_dir_all(&source).expect("a folder");
    for (name, bytes) in files(&fixture("nano/hf")) {
        fs::write(source.join(name), bytes).expect("written");
    }
    fs::write(source.join("LICENSE"), "You may.\n").expect("written");
    let output = playground(&["inspect", text(&source)]);
    let shown = String::from_utf8(output.stdout).expect("text");
    for part in [
        "folder of safetensors",
        "BF16 × 20",
        "GPU memory for 4096 tokens",
        "640 × 256",
        "LICENSE:\nYou may.",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let said = complaint(&["inspect", text(&folder.join("nothing"))]);
    assert!(said.contains("nothing"), "{said}");
}

#[test]
fn quality_tells_what_is_lost() {
    let folder = Folder::new("quality");
    let path = folder.join("text.txt");
    fs::write(
        &path,
        "The quick brown fox jumps over the lazy dog, and then again. ".repeat(12),
    )
    .expect("written");
    let compare = |b: &str| {
        let original = fixture("nano/nano-f16.gguf");
        json_of(&[
            "quality",
            text(&original),
            text(&fixture(b)),
            "--text",
            text(&path),
            "--tokens",
            "200",
            "--window",
            "64",
        ])
    };
    let number = |answer: &Value, key: &str| answer[key].as_f64().expect("a number");
    let same = compare("nano/hf");
    assert!(number(&same, "mean_kl").abs() < 1e-6, "{same}");
    assert_eq!(same["same_top1_percent"], 100.0);
    assert!((number(&same, "perplexity_ratio") - 1.0).abs() < 1e-4);
    let (eight, four) = (
        compare("nano/nano-q8_0.gguf"),
        compare("nano/nano-q4_0.gguf"),
    );
    let (eight, four) = (number(&eight, "mean_kl"), number(&four, "mean_kl"));
    assert!(
        0.0 < eight && eight < 0.05 && eight < four,
        "{eight} {four}"
    );
}

/// A safetensors file in single precision.
fn safetensors(tensors: &[(&str, [usize; 2], Vec<f32>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        assert_eq!(values.len(), shape[0] * shape[1]);
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// A tensor of a safetensors file in BF16, and its shape.
fn tensor(file: &[u8], name: &str) -> (Vec<f32>, Vec<usize>) {
    let len = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let header: Value = serde_json::from_slice(&file[8..8 + len]).expect("a header");
    let entry = &header[name];
    assert_eq!(entry["dtype"], "BF16", "{name}");
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let place = &entry["data_offsets"];
    let data = &file[8 + len..][number(&place[0])..number(&place[1])];
    let values = data
        .chunks_exact(2)
        .map(|two| bf16::from_le_bytes([two[0], two[1]]).to_f32());
    let shape = entry["shape"].as_array().expect("a shape");
    (values.collect(), shape.iter().map(number).collect())
}

fn made_up(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// `base + scale * b a`, in BF16.
fn sum(base: &[f32], scale: f32, b: &[f32], a: &[f32], rank: usize) -> Vec<f32> {
    let cols = a.len() / rank;
    let added = |i: usize| -> f32 {
        (0..rank)
            .map(|k| b[i / cols * rank + k] * a[k * cols + i % cols])
            .sum()
    };
    let sums = base
        .iter()
        .enumerate()
        .map(|(i, weight)| weight + scale * added(i));
    sums.map(|sum| bf16::from_f32(sum).to_f32()).collect()
}

#[test]
fn adapters_are_merged() {
    const Q: &str = "model.layers.1.self_attn.q_proj";
    const EMBEDDING: &str = "model.embed_tokens.weight";
    let folder = Folder::new("lora");
    let adapter = folder.join("adapter");
    fs::create_dir_all(&adapter).expect("a folder");
    let config = json!({
        "peft_type": "LORA", "r": 3, "lora_alpha": 6, "target_modules": ["q_proj", "lm_head"],
        "bias": "none", "fan_in_fan_out": false, "use_rslora": false, "modules_to_save": null
    });
    fs::write(adapter.join("adapter_config.json"), config.to_string()).expect("written");
    let (q_a, q_b) = (made_up(3 * 256, 1), made_up(256 * 3, 2));
    let (head_a, head_b) = (made_up(3 * 256, 3), made_up(640 * 3, 4));
    let names = [
        format!("base_model.model.{Q}.lora_A.weight"),
        format!("base_model.model.{Q}.lora_B.weight"),
    ];
    let weights = safetensors(&[
        (&names[0], [3, 256], q_a.clone()),
        (&names[1], [256, 3], q_b.clone()),
        (
            "base_model.model.lm_head.lora_A.weight",
            [3, 256],
            head_a.clone(),
        ),
        (
            "base_model.model.lm_head.lora_B.weight",
            [640, 3],
            head_b.clone(),
        ),
    ]);
    fs::write(adapter.join("adapter_model.safetensors"), &weights).expect("written");

    let (base, out) = (fixture("nano/hf"), folder.join("out"));
    let arguments = [
        "merge-lora",
        text(&base),
        text(&adapter),
        "--out",
        text(&out),
    ];
    let answer = json_of(&arguments);
    assert_eq!(
        (&answer["changed"], &answer["unties"]),
        (&json!(2), &json!(true))
    );
    let before = fs::read(base.join("model.safetensors")).expect("a file");
    let after = fs::read(out.join("model.safetensors")).expect("a file");
    let changed = format!("{Q}.weight");
    let (q, _) = tensor(&before, &changed);
    // The last bit may differ: sums are formed in another order here.
    let near = |found: &[f32], expected: &[f32]| {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= expected.abs().max(1e-4) / 120.0,
                "{found} {expected}"
            );
        }
    };
    near(&tensor(&after, &changed).0, &sum(&q, 2.0, &q_b, &q_a, 3));
    let (embedding, shape) = tensor(&before, EMBEDDING);
    assert!(tensor(&after, EMBEDDING).0 == embedding);
    let (head, head_shape) = tensor(&after, "lm_head.weight");
    assert_eq!(head_shape, shape);
    near(&head, &sum(&embedding, 2.0, &head_b, &head_a, 3));
    let key = "model.layers.0.mlp.down_proj.weight";
    assert!(tensor(&before, key) == tensor(&after, key));
    let config: Value =
        serde_json::from_slice(&fs::read(out.join("config.json")).expect("a file")).expect("JSON");
    assert_eq!(config["tie_word_embeddings"], false);
    assert_eq!(config["hidden_size"], 256);
    assert!(
        fs::read(out.join("tokenizer.json")).expect("a file")
            == fs::read(base.join("tokenizer.json")).expect("a file")
    );

    // It is a model like any other.
    assert!(difference(&logits(&out), &logits(&base)) > 0.1);
    convert(&out, "f16", &folder.join("f16"));
    assert!(difference(&logits(&out), &logits(&folder.join("f16"))) < 0.01);

    let text_of = |name: &str| format!("base_model.model.model.layers.5.{name}.weight");
    let (a, b) = (text_of("mlp.up_proj.lora_A"), text_of("mlp.up_proj.lora_B"));
    let weights = safetensors(&[
        (&names[0], [3, 256], q_a),
        (&names[1], [256, 3], q_b),
        (&a, [3, 256], made_up(768, 5)),
        (&b, [256, 3], made_up(768, 6)),
    ]);
    fs::write(adapter.join("adapter_model.safetensors"), weights).expect("written");
    let said = complaint(&arguments);
    assert!(
        said.contains(&a) && said.contains(&b) && !said.contains(&names[0]),
        "{said}"
    );
    let said = complaint(&[
        "merge-lora",
        text(&fixture("nano/nano-f16.gguf")),
        text(&adapter),
        "--out",
        text(&out),
    ]);
    assert!(said.contains("no folder"), "{said}");
    let said = complaint(&[
        "merge-lora",
        text(&out),
        text(&adapter),
        "--out",
        text(&out),
    ]);
    assert!(
        said.contains("layers.5") || said.contains("own folder"),
        "{said}"
    );
    // An adapter alone is no model.
    let said = complaint(&["inspect", text(&adapter)]);
    assert!(said.contains("merge-lora"), "{said}");
}
