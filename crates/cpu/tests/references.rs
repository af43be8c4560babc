//! Whole models against reference logits and greedy continuations, in both kinds of arithmetic.
//!
//! The references (`tests/fixtures/*.json`) are double-precision forward passes over the dequantised
//! weights, and what llama.cpp makes of the same files with 8-bit activations.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cpu::{Arithmetic, CpuNetwork};
use model::{HfConfig, Network, Plan, Sampling, Session};
use pollster::block_on;
use serde_json::Value;
use weights::source::FileSource;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn nano(file: &str) -> PathBuf {
    fixtures().join("nano").join(format!("{file}.gguf"))
}

fn json(name: &str) -> Value {
    let text = std::fs::read_to_string(fixtures().join(name)).expect("a fixture");
    serde_json::from_str(&text).expect("valid JSON")
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let items = value.as_array().expect("a list").iter();
    items.map(|value| item(value).expect("an item")).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    list(value, |id| id.as_u64().map(|id| id as u32))
}

fn floats(value: &Value) -> Vec<f64> {
    list(value, Value::as_f64)
}

/// Pairs of a token and its logit, best first.
fn top(value: &Value) -> Vec<(usize, f64)> {
    list(value, |pair| {
        Some((pair[0].as_u64()? as usize, pair[1].as_f64()?))
    })
}

/// A GGUF file, or a Hugging Face folder.
async fn plan(path: &Path) -> (FileSource, Plan) {
    if path.is_dir() {
        let config = std::fs::read(path.join("config.json")).expect("a configuration");
        let config = HfConfig::parse(&config).expect("a Llama configuration");
        let mut source = FileSource::open(path.join("model.safetensors")).expect("a file");
        let header = weights::safetensors::read_header(&mut source).await;
        let plan = Plan::from_safetensors(&header.expect("a header"), &config);
        return (source, plan.expect("a plan"));
    }
    let mut source = FileSource::open(path).expect("a file");
    let header = weights::gguf::read_header(&mut source).await;
    let plan = Plan::from_gguf(&header.expect("a header"));
    (source, plan.expect("a plan"))
}

async fn load(path: &Path, arithmetic: Arithmetic) -> CpuNetwork {
    let (mut source, plan) = plan(path).await;
    let network = cpu::load(&mut source, &plan, arithmetic, |_| true)
        .await
        .expect("weights");
    // K types keep their scales in more bytes than the file does.
    let estimate = cpu::estimate(&plan).expect("figures");
    let held = network.memory();
    assert_eq!(estimate.weights, held.weights);
    assert_eq!(estimate.cache_per_token, held.cache_per_token);
    let memory = held.weights as f64;
    assert!(memory < 1.06 * plan.tensor_bytes() as f64, "{memory} bytes");
    network
}

fn session(path: &Path, arithmetic: Arithmetic) -> Session<CpuNetwork> {
    Session::new(block_on(load(path, arithmetic)), 512)
}

fn prefill(session: &mut Session<CpuNetwork>, prompt: &[u32]) -> Vec<f32> {
    block_on(session.prefill(prompt, |_| true)).expect("a prefill");
    block_on(session.logits()).expect("logits")
}

fn greedy(session: &mut Session<CpuNetwork>, count: u64) -> Vec<u32> {
    let next = |index| {
        let next = session.next(&Sampling::GREEDY, index, true);
        block_on(next).expect("a token")
    };
    (0..count).map(next).collect()
}

/// Equal up to the first step whose margin is too small for single precision to decide.
fn assert_greedy(name: &str, found: &[u32], reference: &Value, margin: f64) {
    let expected = ids(&reference["greedy"]);
    let margins = floats(&reference["margins"]);
    let unsure = margins.iter().position(|value| *value < margin);
    let sure = unsure.unwrap_or(expected.len());
    assert_eq!(
        found[..sure],
        expected[..sure],
        "{name}: the first {sure} greedy ids"
    );
}

fn best(logits: &[f32]) -> usize {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    order[0]
}

/// A model of `logits.json` that is in the repository.
struct Reference {
    name: String,
    path: PathBuf,
    prompt: Vec<u32>,
    /// Logits and greedy ids without quantized activations.
    exact: Value,
    /// llama.cpp's best logits, for quantized files.
    llama_cpp: Option<Value>,
}

fn all_references() -> Vec<Reference> {
    let references = json("logits.json");
    let mut all = Vec::new();
    for group in references["groups"].as_object().expect("groups").values() {
        for (name, model) in group["models"].as_object().expect("models") {
            let hf = model.get("torch_f32");
            let path = fixtures().join(model["file"].as_str().expect("a path"));
            // Some of the references belong to files that are kept elsewhere.
            if path.exists() {
                all.push(Reference {
                    name: name.clone(),
                    path,
                    prompt: ids(&group["prompt_ids"]),
                    exact: hf.unwrap_or(&model["exact"]).clone(),
                    llama_cpp: model.get("llama_cpp").map(|found| found["top32"].clone()),
                });
            }
        }
    }
    assert!(all.len() >= 12, "{} models", all.len());
    all
}

#[test]
fn models_in_single_precision() {
    for reference in all_references() {
        let name = &reference.name;
        let mut session = session(&reference.path, Arithmetic::Exact);
        let logits = prefill(&mut session, &reference.prompt);
        let expected = floats(&reference.exact["logits"]);
        assert_eq!(logits.len(), expected.len());
        let errors = logits.iter().zip(&expected);
        let error = errors
            .map(|(a, b)| (f64::from(*a) - b).abs())
            .fold(0.0, f64::max);
        println!("{name}: max abs error of the logits {error:.1e}");
        assert!(error < 2e-3, "{name}: {error}");
        let found = greedy(&mut session, 32);
        assert_greedy(name, &found, &reference.exact, 0.02);
    }
}

/// The largest error over llama.cpp's 32 best tokens, ours and its own.
fn errors(logits: &[f32], exact: &HashMap<usize, f64>, llama_cpp: &Value) -> (f64, f64) {
    let mut largest = (0.0f64, 0.0f64);
    for (id, theirs) in top(llama_cpp) {
        if let Some(exact) = exact.get(&id) {
            largest.0 = largest.0.max((f64::from(logits[id]) - exact).abs());
            largest.1 = largest.1.max((theirs - exact).abs());
        }
    }
    largest
}

#[test]
fn models_with_quantized_activations() {
    for reference in all_references() {
        let Some(llama_cpp) = &reference.llama_cpp else {
            continue;
        };
        let name = &reference.name;
        let mut session = session(&reference.path, Arithmetic::Fast);
        let logits = prefill(&mut session, &reference.prompt);
        let exact = floats(&reference.exact["logits"]);
        let by_id = exact.iter().copied().enumerate().collect();
        let (ours, theirs) = errors(&logits, &by_id, llama_cpp);
        println!("{name}: max abs error {ours:.4}, llama.cpp's {theirs:.4}");
        assert!(ours <= theirs, "{name}: {ours} against {theirs}");
        let top = top(&reference.exact["top32"]);
        if top[0].1 - top[1].1 > 0.1 {
            assert_eq!(best(&logits), top[0].0, "{name}");
        }
    }
}

/// The 98 MB test model, fetched by `cargo xtask setup --tests`.
fn smollm2() -> Option<PathBuf> {
    let path = std::env::var_os("PLAYGROUND_SMOLLM2").map_or_else(
        || {
            let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
            home.join(".cache/agenticml-playground/models/SmolLM2-135M-Instruct.Q4_1.gguf")
        },
        PathBuf::from,
    );
    if path.exists() {
        return Some(path);
    }
    println!(
        "SKIPPED: {} is missing; run `cargo xtask setup --tests`",
        path.display()
    );
    None
}

#[test]
fn smollm2_prompts() {
    let Some(path) = smollm2() else { return };
    let references = json("smollm2.json");
    for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
        let mut session = session(&path, arithmetic);
        for case in references["cases"].as_array().expect("cases") {
            let name = case["name"].as_str().expect("a name");
            let logits = prefill(&mut session, &ids(&case["ids"]));
            let exact = top(&case["exact"]["top"]);
            let by_id: HashMap<_, _> = exact.iter().copied().collect();
            let (ours, theirs) = errors(&logits, &by_id, &case["llama_cpp"]["top"]);
            println!("{name}, {arithmetic:?}: max abs error {ours:.1e}, llama.cpp's {theirs:.1e}");
            if arithmetic == Arithmetic::Exact {
                assert!(ours < 2e-3, "{name}: {ours}");
                assert_greedy(name, &greedy(&mut session, 32), &case["exact"], 0.05);
            } else {
                assert!(ours <= theirs, "{name}: {ours} against {theirs}");
                if exact[0].1 - exact[1].1 > 0.1 {
                    assert_eq!(best(&logits), exact[0].0, "{name}");
                }
            }
        }
    }
}

#[test]
fn chunks_change_nothing() {
    for file in ["nano-q4_k_m", "nano-q8_0", "nano-f16", "nano-q2_k"] {
        for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
            let mut network = block_on(load(&nano(file), arithmetic));
            let prompt: Vec<u32> = (0..75).map(|i| (i * 37 + 11) % 640).collect();
            let mut run = |sizes: &[usize]| {
                let mut past = 0;
                for size in sizes.iter().cycle() {
                    let chunk = &prompt[past..][..(*size).min(prompt.len() - past)];
                    let last = past + chunk.len() == prompt.len();
                    block_on(network.run(chunk, past, last)).expect("a run");
                    past += chunk.len();
                    if last {
                        break;
                    }
                }
                block_on(network.logits()).expect("logits")
            };
            let single = run(&[1]);
            assert!(single.iter().all(|logit| logit.is_finite()));
            for sizes in [&[32][..], &[75], &[5, 1, 7], &[30, 2, 3]] {
                assert_eq!(run(sizes), single, "{file}, {arithmetic:?}, {sizes:?}");
            }
        }
    }
}

#[test]
fn a_grown_cache_holds_what_it_held() {
    let mut small = block_on(load(&nano("nano-q4_0"), Arithmetic::Fast));
    let mut large = block_on(load(&nano("nano-q4_0"), Arithmetic::Fast));
    block_on(large.reserve(1000)).expect("room");
    let before = small.memory();
    let prompt: Vec<u32> = (0..600).map(|i| (i * 31 + 7) % 640).collect();
    for network in [&mut small, &mut large] {
        block_on(network.run(&prompt, 0, true)).expect("a run");
    }
    assert_eq!(
        block_on(small.logits()).expect("logits"),
        block_on(large.logits()).expect("logits")
    );
    let after = small.memory();
    assert_eq!(
        (before.cache, after.cache),
        (0, 768 * after.cache_per_token)
    );
    assert_eq!(large.memory().cache, 1024 * after.cache_per_token);
    let room = block_on(small.reserve(1 << 60));
    assert!(
        matches!(room, Err(model::BackendError::Memory(_))),
        "{room:?}"
    );
    assert_eq!(small.memory().cache, after.cache);
}

#[test]
fn an_edited_prompt_gives_what_a_fresh_one_gives() {
    let mut session = session(&nano("nano-q5_k_m"), Arithmetic::Fast);
    let prompt: Vec<u32> = (0..200).map(|i| (i * 37) % 640).collect();
    let fresh = prefill(&mut session, &prompt);
    let mut edited = prompt.clone();
    edited[190] = 5;
    let changed = prefill(&mut session, &edited);
    assert_ne!(fresh, changed);
    let back = block_on(session.prefill(&prompt, |_| true)).expect("a prefill");
    assert_eq!(back.reused, 190);
    assert_eq!(block_on(session.logits()).expect("logits"), fresh);
}
