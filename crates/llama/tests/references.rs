//! Whole models against reference logits and greedy continuations, on the adapter at hand.
//!
//! The references (`tests/fixtures/*.json`) are double-precision forward passes over the
//! dequantised weights. Needs a Vulkan adapter; `cargo xtask test --only llama` picks a software
//! one where there is no GPU.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llama::{Gpu, GpuNetwork, Spread};
use model::hf::HfConfig;
use model::{Network, Plan, Sampling};
use serde_json::Value;
use weights::source::FileSource;

type Session = model::Session<GpuNetwork>;

fn gpu() -> Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| pollster::block_on(Gpu::open()).expect("a Vulkan adapter"))
        .clone()
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn json(name: &str) -> Value {
    let text = std::fs::read_to_string(fixtures().join(name)).expect("a fixture");
    serde_json::from_str(&text).expect("valid JSON")
}

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| id.as_u64().expect("an id") as u32)
        .collect()
}

fn floats(value: &Value) -> Vec<f32> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(|x| x.as_f64().expect("a number") as f32)
        .collect()
}

fn open(path: &Path) -> FileSource {
    FileSource::open(path)
        .unwrap_or_else(|error| panic!("{error}; run `cargo xtask setup` to fetch test models"))
}

/// A GGUF file, or a Hugging Face folder.
async fn plan(path: &Path) -> (FileSource, Plan) {
    if path.is_dir() {
        let config = std::fs::read(path.join("config.json")).expect("a configuration");
        let config = HfConfig::parse(&config).expect("a Llama configuration");
        let mut source = open(&path.join("model.safetensors"));
        let header = weights::safetensors::read_header(&mut source).await;
        let plan = Plan::from_safetensors(&header.expect("a header"), &config);
        return (source, plan.expect("a plan"));
    }
    let mut source = open(path);
    let header = weights::gguf::read_header(&mut source).await;
    let plan = Plan::from_gguf(&header.expect("a header"));
    (source, plan.expect("a plan"))
}

async fn network(gpu: &Gpu, path: &Path, half_cache: bool) -> GpuNetwork {
    let (mut source, plan) = plan(path).await;
    llama::load(gpu, &mut source, &plan, half_cache, |_| true)
        .await
        .expect("weights")
}

async fn session(path: PathBuf, spread: Spread, context: usize) -> Session {
    let gpu = gpu().with_spread(spread);
    Session::new(network(&gpu, &path, false).await, context)
}

async fn greedy(session: &mut Session, count: usize) -> Vec<u32> {
    let mut found = Vec::new();
    for index in 0..count {
        let next = session.next(&Sampling::GREEDY, index as u64, index + 1 < count);
        found.push(next.await.expect("a token"));
    }
    found
}

/// Equal up to the first step whose margin is too small for single precision to decide.
fn assert_greedy(name: &str, found: &[u32], reference: &Value, margin: f64) {
    let expected = ids(&reference["greedy"]);
    let margins = reference["margins"].as_array().expect("margins");
    let sure = margins
        .iter()
        .position(|value| value.as_f64().expect("a margin") < margin)
        .unwrap_or(expected.len());
    assert_eq!(
        found[..sure],
        expected[..sure],
        "{name}: the first {sure} greedy ids"
    );
}

/// One model of `logits.json` on both spreads.
fn check(group: &str, model: &str, path: &str, reference: &str) {
    let references = json("logits.json");
    let group = &references["groups"][group];
    let reference = &group["models"][model][reference];
    let prompt = ids(&group["prompt_ids"]);
    let expected = floats(&reference["logits"]);
    let plan = pollster::block_on(plan(&fixtures().join(path))).1;
    let tensor_bytes = plan.tensor_bytes();
    for spread in [Spread::Rows, Spread::Lanes] {
        pollster::block_on(async {
            let mut session = session(fixtures().join(path), spread, 64).await;
            let held = session.network().memory();
            let gpu = session.network().gpu();
            let estimate = llama::estimate(gpu, &plan, false).expect("figures");
            assert_eq!(
                (
                    estimate.weights,
                    estimate.cache_per_token,
                    estimate.workspace
                ),
                (held.weights, held.cache_per_token, held.workspace)
            );
            let ratio = held.weights as f64 / tensor_bytes as f64;
            println!("{model}: {ratio:.3} times the file's tensors");
            let exact = ["f16", "safetensors", "q4_0", "q4_1", "q8_0"];
            let limit = if exact.iter().any(|name| model.ends_with(name)) {
                1.03
            } else {
                1.10
            };
            assert!(ratio <= limit, "{model}: {ratio}");
            session.prefill(&prompt, |_| true).await.expect("a prefill");
            let logits = session.logits().await.expect("logits");
            assert_eq!(logits.len(), expected.len());
            let pairs = logits.iter().zip(&expected);
            let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            println!("{model}, {spread:?}: max abs logit error {error:e}");
            assert!(error < 2e-3, "{model}: max abs error {error}");
            let found = greedy(&mut session, 32).await;
            assert_greedy(model, &found, reference, 0.02);
        });
    }
}

macro_rules! models {
    ($($test:ident $group:literal $model:literal $path:literal $reference:literal)*) => {$(
        #[test]
        fn $test() {
            check($group, $model, $path, $reference);
        }
    )*};
}

models! {
    nano_f16 "nano" "nano-f16" "nano/nano-f16.gguf" "exact"
    nano_q8_0 "nano" "nano-q8_0" "nano/nano-q8_0.gguf" "exact"
    nano_q4_0 "nano" "nano-q4_0" "nano/nano-q4_0.gguf" "exact"
    nano_q4_1 "nano" "nano-q4_1" "nano/nano-q4_1.gguf" "exact"
    nano_q5_0 "nano" "nano-q5_0" "nano/nano-q5_0.gguf" "exact"
    nano_q5_1 "nano" "nano-q5_1" "nano/nano-q5_1.gguf" "exact"
    nano_q2_k "nano" "nano-q2_k" "nano/nano-q2_k.gguf" "exact"
    nano_q3_k_m "nano" "nano-q3_k_m" "nano/nano-q3_k_m.gguf" "exact"
    nano_q4_k_m "nano" "nano-q4_k_m" "nano/nano-q4_k_m.gguf" "exact"
    nano_q5_k_m "nano" "nano-q5_k_m" "nano/nano-q5_k_m.gguf" "exact"
    nano_q6_k "nano" "nano-q6_k" "nano/nano-q6_k.gguf" "exact"
    nano_bf16_safetensors "nano" "nano-safetensors" "nano/hf" "torch_f32"
    tinyrope_q4_k_m "tinyrope" "tinyrope-q4_k_m" "tinyrope/tinyrope-q4_k_m.gguf" "exact"
}

#[test]
fn smollm2_prompts() {
    let references = json("smollm2.json");
    pollster::block_on(async {
        let mut session = session(smollm2(), gpu().spread(), 256).await;
        for case in references["cases"].as_array().expect("cases") {
            let name = case["name"].as_str().expect("a name");
            session
                .prefill(&ids(&case["ids"]), |_| true)
                .await
                .expect("a prefill");
            let logits = session.logits().await.expect("logits");
            let error = case["exact"]["top"]
                .as_array()
                .expect("pairs")
                .iter()
                .map(|pair| {
                    let id = pair[0].as_u64().expect("an id") as usize;
                    (f64::from(logits[id]) - pair[1].as_f64().expect("a logit")).abs()
                })
                .fold(0.0, f64::max);
            println!("{name}: max abs error of the top 32 logits {error:e}");
            assert!(error < 2e-3, "{name}: {error}");
            let found = greedy(&mut session, 32).await;
            assert_greedy(name, &found, &case["exact"], 0.05);
        }
    });
}

/// The 98 MB test model, fetched by `cargo xtask setup`.
fn smollm2() -> PathBuf {
    if let Some(path) = std::env::var_os("PLAYGROUND_SMOLLM2") {
        return path.into();
    }
    let home = std::env::var_os("HOME").unwrap_or_default();
    PathBuf::from(home).join(".cache/agenticml-playground/models/SmolLM2-135M-Instruct.Q4_1.gguf")
}

async fn small(context: usize) -> Session {
    let path = fixtures().join("nano/nano-q8_0.gguf");
    session(path, gpu().spread(), context).await
}

async fn logits_of(session: &mut Session, ids: &[u32]) -> Vec<f32> {
    session.prefill(ids, |_| true).await.expect("a prefill");
    session.logits().await.expect("logits")
}

#[test]
fn an_edited_prompt_runs_only_what_changed() {
    pollster::block_on(async {
        let mut session = small(600).await;
        let prompt: Vec<u32> = (0..500).map(|i| (i * 37) % 640).collect();
        let first = session.prefill(&prompt, |_| true).await.expect("a prefill");
        assert_eq!((first.reused, first.run), (0, 500));
        let fresh = session.logits().await.expect("logits");

        // The last frame: its last 30 tokens.
        let mut edited = prompt.clone();
        edited[470] = 5;
        let second = session.prefill(&edited, |_| true).await.expect("a prefill");
        assert_eq!((second.reused, second.run), (470, 30));
        let changed = session.logits().await.expect("logits");
        assert_ne!(fresh, changed);

        let back = session.prefill(&prompt, |_| true).await.expect("a prefill");
        assert_eq!((back.reused, back.run), (470, 30));
        let again = session.logits().await.expect("logits");
        let pairs = again.iter().zip(&fresh);
        let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 1e-4, "{error}");
    });
}

#[test]
fn a_stopped_prefill_leaves_a_usable_session() {
    pollster::block_on(async {
        let mut session = small(256).await;
        let prompt: Vec<u32> = (0..200).map(|i| (i * 31) % 640).collect();
        let stopped = session
            .prefill(&prompt, |done| done < 64)
            .await
            .expect("a prefill");
        assert!(!stopped.complete);
        assert_eq!(session.len(), 64);
        let resumed = session.prefill(&prompt, |_| true).await.expect("a prefill");
        assert_eq!((resumed.reused, resumed.complete), (64, true));
    });
}

#[test]
fn a_token_is_few_launches_and_one_submission() {
    pollster::block_on(async {
        for sampling in [
            Sampling::GREEDY,
            Sampling {
                temperature: 0.8,
                top_k: 40,
                top_p: 0.9,
                min_p: 0.05,
                seed: 1,
            },
        ] {
            let mut session = small(64).await;
            session
                .prefill(&[1, 2, 3], |_| true)
                .await
                .expect("a prefill");
            session.next(&sampling, 0, true).await.expect("a token");
            let gpu = session.network().gpu().clone();
            let (launches, submits) = (gpu.launches(), gpu.submits());
            for index in 1..=10 {
                session.next(&sampling, index, true).await.expect("a token");
            }
            let layers = session.network().config().layers as u64;
            assert!(gpu.launches() - launches <= 10 * (8 * layers + 6));
            assert_eq!(gpu.submits() - submits, 10);
        }
    });
}

#[test]
fn a_full_context_is_an_error_and_not_the_end() {
    pollster::block_on(async {
        let mut session = small(8).await;
        assert!(session.prefill(&[1; 9], |_| true).await.is_err());
        session.prefill(&[1; 8], |_| true).await.expect("a prefill");
        assert!(session.push(1).await.is_err());
        assert!(session.prefill(&[700], |_| true).await.is_err());
        session.prefill(&[1, 2], |_| true).await.expect("a prefill");
    });
}

/// The cache begins with 256 positions; the answer must not depend on when it grows, nor attention on
/// how the context is split.
#[test]
fn a_growing_cache_changes_nothing() {
    for spread in [Spread::Rows, Spread::Lanes] {
        pollster::block_on(async {
            let path = fixtures().join("nano/nano-f16.gguf");
            let mut grown = session(path.clone(), spread, 2048).await;
            let prompt: Vec<u32> = (0..1100).map(|i| (i * 53) % 640).collect();
            let first = logits_of(&mut grown, &prompt[..200]).await;
            let all = logits_of(&mut grown, &prompt).await;
            let mut at_once = session(path, spread, 2048).await;
            let same = logits_of(&mut at_once, &prompt).await;
            assert_eq!(all, same);
            // Back to the beginning, one token at a time, over keys that were copied.
            at_once.prefill(&prompt[..100], |_| true).await.expect("it");
            for id in &prompt[100..200] {
                at_once.push(*id).await.expect("room");
            }
            let stepped = at_once.logits().await.expect("logits");
            let pairs = stepped.iter().zip(&first);
            let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(error < 1e-4, "{error}");
            // A decode step whose context is split, against the same position of a prefill.
            at_once
                .prefill(&prompt[..1099], |_| true)
                .await
                .expect("it");
            at_once.push(prompt[1099]).await.expect("room");
            let split = at_once.logits().await.expect("logits");
            let error = split.iter().zip(&all).map(|(a, b)| (a - b).abs());
            let error = error.fold(0.0, f32::max);
            assert!(error < 1e-4, "{error}");
        });
    }
}

#[test]
fn a_half_precision_cache_is_half_the_memory_and_nearly_exact() {
    for spread in [Spread::Rows, Spread::Lanes] {
        pollster::block_on(async {
            let gpu = gpu().with_spread(spread);
            let path = fixtures().join("nano/nano-f16.gguf");
            let full = network(&gpu, &path, false).await;
            let half = network(&gpu, &path, true).await;
            let (mut full, mut half) = (Session::new(full, 600), Session::new(half, 600));

            assert_eq!(
                half.network().memory().cache_per_token * 2,
                full.network().memory().cache_per_token
            );
            let prompt: Vec<u32> = (0..550).map(|i| (i * 29) % 640).collect();
            let (a, b) = (
                logits_of(&mut full, &prompt).await,
                logits_of(&mut half, &prompt).await,
            );
            let error = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
            let error = error.fold(0.0, f32::max);
            println!("{spread:?}: half-precision cache, max abs logit error {error:e}");
            assert!(error > 0.0 && error < 0.02, "{error}");
            half.push(3).await.expect("room");
            full.push(3).await.expect("room");
            let a = half.logits().await.expect("logits");
            let b = full.logits().await.expect("logits");
            let error = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
            assert!(error.fold(0.0, f32::max) < 0.02);
        });
    }
}

/// The GPU's choices are those of the reference, token by token.
#[test]
fn sampling_follows_the_reference() {
    let base = Sampling {
        temperature: 0.9,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: 0x1234_5678_9abc_def0,
    };
    let settings = [
        base,
        Sampling { top_k: 1, ..base },
        Sampling { top_k: 7, ..base },
        Sampling { top_p: 0.6, ..base },
        Sampling { min_p: 0.2, ..base },
        Sampling {
            temperature: 1.7,
            top_k: 50,
            top_p: 0.8,
            min_p: 0.01,
            seed: 7,
        },
        Sampling::GREEDY,
    ];
    for spread in [Spread::Rows, Spread::Lanes] {
        pollster::block_on(async {
            let path = fixtures().join("nano/nano-q8_0.gguf");
            let mut session = session(path, spread, 64).await;
            session
                .prefill(&[5, 6, 7], |_| true)
                .await
                .expect("a prefill");
            let logits = session.logits().await.expect("logits");
            let mut differ = 0;
            for sampling in &settings {
                for index in 0..40 {
                    // Asked anew each time, so that all choices are among the same logits.
                    session
                        .prefill(&[5, 6, 7], |_| true)
                        .await
                        .expect("a prefill");
                    let found = session.next(sampling, index, false).await.expect("a token");
                    differ += usize::from(found != sampling.choose(&logits, index));
                }
            }
            // Logarithms and exponentials of a GPU may differ in their last digits, which decides only
            // between tokens whose scores are as close.
            assert!(differ <= 1, "{spread:?}: {differ} of 280 choices differ");
        });
    }
}

/// Two hundred random edits, stops, branches and generations: always the tokens of a fresh session, and
/// no memory left behind.
#[test]
fn random_use_leaks_nothing_and_gives_no_wrong_token() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    pollster::block_on(async {
        let path = fixtures().join("nano/nano-q8_0.gguf");
        // A device of its own: other tests' memory does not count.
        let gpu = Gpu::open().await.expect("a Vulkan adapter");
        let empty = gpu.bytes_in_use();
        let mut used = Session::new(network(&gpu, &path, false).await, 400);
        let mut fresh = Session::new(network(&gpu, &path, false).await, 400);
        let mut prompt: Vec<u32> = (0..20).collect();
        let mut baseline = None;
        for round in 0..200 {
            match random(4) {
                // Edit somewhere.
                0 => {
                    let at = random(prompt.len() as u64) as usize;
                    prompt[at] = random(640) as u32;
                }
                // Branch: keep a prefix and go on otherwise.
                1 => {
                    prompt.truncate(1 + random(prompt.len() as u64) as usize);
                    prompt.extend((0..random(30)).map(|i| (i * 7 + round) as u32 % 640));
                }
                // Stop a prefill somewhere.
                2 => {
                    let limit = random(prompt.len() as u64 + 1) as usize;
                    let stopped = used.prefill(&prompt, |done| done < limit).await;
                    stopped.expect("a prefill");
                }
                _ => prompt.push(random(640) as u32),
            }
            prompt.truncate(300);
            let sampling = Sampling {
                temperature: 0.7,
                seed: round,
                ..Sampling::GREEDY
            };
            let count = 1 + random(4);
            used.prefill(&prompt, |_| true).await.expect("a prefill");
            fresh.clear();
            fresh.prefill(&prompt, |_| true).await.expect("a prefill");
            for index in 0..count {
                // Sometimes the generation ends while the next token is being made.
                let a = used.next(&sampling, index, true).await.expect("a token");
                let b = fresh.next(&sampling, index, false).await.expect("a token");
                assert_eq!(a, b, "round {round}, token {index}");
            }
            if round == 150 || round == 199 {
                // What was asked for and not awaited is still held.
                used.clear();
                fresh.clear();
                gpu.finish().await.expect("the end");
                gpu.finish().await.expect("the end");
                let bytes = gpu.bytes_in_use();
                assert_eq!(*baseline.get_or_insert(bytes), bytes);
            }
        }
        drop((used, fresh));
        gpu.finish().await.expect("the end");
        assert_eq!(gpu.bytes_in_use(), empty);
    });
}

#[test]
fn after_a_lost_device_another_one_works() {
    pollster::block_on(async {
        let path = fixtures().join("nano/nano-q8_0.gguf");
        let gpu = Gpu::open().await.expect("a Vulkan adapter");
        let mut session = Session::new(network(&gpu, &path, false).await, 64);
        let before = logits_of(&mut session, &[1, 2, 3]).await;
        gpu.destroy();
        assert!(
            session.prefill(&[4, 5], |_| true).await.is_err() || session.logits().await.is_err()
        );
        drop(session);
        let gpu = Gpu::open().await.expect("a Vulkan adapter");
        let mut session = Session::new(network(&gpu, &path, false).await, 64);
        assert_eq!(logits_of(&mut session, &[1, 2, 3]).await, before);
    });
}
