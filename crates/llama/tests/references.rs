//! Whole models against reference logits and greedy continuations, on the adapter at hand.
//!
//! The references (`tests/fixtures/*.json`) are double-precision forward passes over the
//! dequantised weights. Needs a Vulkan adapter; `cargo xtask test --only llama` picks a software
//! one where there is no GPU.

use std::path::PathBuf;
use std::sync::OnceLock;

use llama::{Gpu, Sampling, Session, Spread};
use serde_json::Value;
use weights::source::FileSource;

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

async fn session(path: PathBuf, spread: Spread, context: usize) -> Session {
    let gpu = gpu().with_spread(spread);
    let mut source = FileSource::open(&path)
        .unwrap_or_else(|error| panic!("{error}; run `cargo xtask setup` to fetch test models"));
    let header = weights::gguf::read_header(&mut source)
        .await
        .expect("a header");
    let loaded = llama::load(&gpu, &mut source, &header, |_| true)
        .await
        .expect("weights");
    Session::new(gpu, loaded, context).await.expect("a session")
}

async fn greedy(session: &mut Session, count: usize) -> Vec<u32> {
    let mut found = Vec::new();
    for index in 0..count {
        let id = session
            .choose(&Sampling::GREEDY, index as u64)
            .await
            .expect("a token");
        found.push(id);
        session.push(id).expect("room");
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

fn nano(file: &str, spread: Spread) {
    let references = json("logits.json");
    let group = &references["groups"]["nano"];
    let reference = &group["models"][file]["exact"];
    let prompt = ids(&group["prompt_ids"]);
    pollster::block_on(async {
        let path = fixtures().join("nano").join(format!("{file}.gguf"));
        let mut session = session(path, spread, 64).await;
        session.prefill(&prompt, |_| true).await.expect("a prefill");
        let logits = session.logits().await.expect("logits");
        let expected = floats(&reference["logits"]);
        assert_eq!(logits.len(), expected.len());
        let error = logits
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        println!("{file}, {spread:?}: max abs logit error {error:e}");
        assert!(error < 2e-3, "{file}: max abs error {error}");
        let found = greedy(&mut session, 32).await;
        assert_greedy(file, &found, reference, 0.02);
    });
}

#[test]
fn nano_f16() {
    nano("nano-f16", Spread::Rows);
    nano("nano-f16", Spread::Lanes);
}

#[test]
fn nano_q8_0() {
    nano("nano-q8_0", Spread::Rows);
    nano("nano-q8_0", Spread::Lanes);
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

#[test]
fn an_edited_prompt_runs_only_what_changed() {
    pollster::block_on(async {
        let path = fixtures().join("nano/nano-q8_0.gguf");
        let mut session = session(path, gpu().spread(), 256).await;
        let prompt: Vec<u32> = (0..200).map(|i| (i * 37) % 640).collect();
        let first = session.prefill(&prompt, |_| true).await.expect("a prefill");
        assert_eq!(first.reused, 0);
        let fresh = session.logits().await.expect("logits");

        let mut edited = prompt.clone();
        edited[190] = 5;
        let second = session.prefill(&edited, |_| true).await.expect("a prefill");
        assert_eq!(second.reused, 190);
        let changed = session.logits().await.expect("logits");
        assert_ne!(fresh, changed);

        let back = session.prefill(&prompt, |_| true).await.expect("a prefill");
        assert_eq!(back.reused, 190);
        assert_eq!(session.logits().await.expect("logits"), fresh);
    });
}

#[test]
fn a_stopped_prefill_leaves_a_usable_session() {
    pollster::block_on(async {
        let path = fixtures().join("nano/nano-q8_0.gguf");
        let mut session = session(path, gpu().spread(), 256).await;
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
fn launches_stay_bounded() {
    pollster::block_on(async {
        let path = fixtures().join("nano/nano-q8_0.gguf");
        let mut session = session(path, gpu().spread(), 64).await;
        session
            .prefill(&[1, 2, 3], |_| true)
            .await
            .expect("a prefill");
        let before = session.gpu().launches();
        session.push(4).expect("room");
        session.choose(&Sampling::GREEDY, 0).await.expect("a token");
        let layers = session.config().layers as u64;
        assert!(session.gpu().launches() - before <= 8 * layers + 6);
    });
}

#[test]
fn a_full_context_is_an_error_and_not_the_end() {
    pollster::block_on(async {
        let path = fixtures().join("nano/nano-q8_0.gguf");
        let mut session = session(path, gpu().spread(), 8).await;
        assert!(session.prefill(&[1; 9], |_| true).await.is_err());
        session.prefill(&[1; 8], |_| true).await.expect("a prefill");
        assert!(session.push(1).is_err());
        assert!(session.prefill(&[700], |_| true).await.is_err());
        session.prefill(&[1, 2], |_| true).await.expect("a prefill");
    });
}
