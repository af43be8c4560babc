//! Conversion of the small fixtures: which bytes come out, whatever the way of reading.

use std::path::PathBuf;

use model::convert::{Converted, Recipe, resolve, target};
use model::{HfConfig, Pairing, Plan, Role, Sink, Tensor, stream};
use pollster::block_on;
use proptest::prelude::*;
use weights::codec::dequantize;
use weights::{BlockType, ByteSource, MemorySource, SourceError};

fn fixture(name: &str) -> Vec<u8> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    std::fs::read(fixtures.join(name)).expect("fixture")
}

type Memory = MemorySource<Vec<u8>>;

fn gguf(name: &str) -> (Memory, Plan) {
    let mut source = MemorySource::new(name, fixture(name));
    let header = block_on(weights::gguf::read_header(&mut source)).expect("a header");
    let plan = Plan::from_gguf(&header).expect("a plan");
    let plan = block_on(resolve(&mut source, &plan)).expect("divisors");
    (source, plan)
}

fn folder() -> (Memory, Plan) {
    let config = HfConfig::parse(&fixture("nano/hf/config.json")).expect("a configuration");
    let mut source = MemorySource::new("nano/hf", fixture("nano/hf/model.safetensors"));
    let header = block_on(weights::safetensors::read_header(&mut source)).expect("a header");
    let plan = Plan::from_safetensors(&header, &config).expect("a plan");
    (source, plan)
}

fn converted(
    source: &Memory,
    plan: &Plan,
    recipe: Recipe,
    threads: usize,
) -> (Converted<Memory>, Plan) {
    let target = target(plan, recipe);
    let source = Converted::new(source.clone(), plan, &target, threads).expect("one model");
    (source, target)
}

fn all(source: &mut impl ByteSource) -> Vec<u8> {
    let size = source.size().expect("a size") as usize;
    let mut bytes = Vec::new();
    block_on(source.read(0, &mut bytes, size)).expect("all bytes");
    bytes
}

/// All tensors as numbers, by role; projections with adjacent pairs.
#[derive(Default)]
struct Numbers(Vec<(Role, Vec<f32>)>);

impl Sink for Numbers {
    async fn rows(
        &mut self,
        tensor: &Tensor,
        _: usize,
        bytes: &[u8],
    ) -> Result<(), model::LoadError> {
        let mut numbers = tensor.floats(bytes)?;
        match self.0.last_mut() {
            Some((role, all)) if *role == tensor.role => all.append(&mut numbers),
            _ => self.0.push((tensor.role, numbers)),
        }
        Ok(())
    }
}

fn numbers(source: &mut impl ByteSource, plan: &Plan) -> Vec<(Role, Vec<f32>)> {
    let mut numbers = Numbers::default();
    block_on(stream(source, plan, &mut numbers, |_| true)).expect("all tensors");
    numbers.0.sort_by_key(|(role, _)| format!("{role:?}"));
    numbers.0
}

#[test]
fn tensors_lie_one_after_another() {
    let (source, plan) = folder();
    for recipe in Recipe::ALL {
        let (mut converted, target) = converted(&source, &plan, recipe, 1);
        assert_eq!(target.config.rope.pairing, Pairing::Adjacent);
        let mut end = 0;
        for (from, to) in plan.tensors.iter().zip(&target.tensors) {
            assert_eq!(
                (from.role, from.rows, from.cols),
                (to.role, to.rows, to.cols)
            );
            assert_eq!(to.offset, end);
            end += to.bytes();
        }
        assert_eq!(converted.size(), Some(end));
        assert_eq!(all(&mut converted).len() as u64, end);
        let kind = |role| {
            target
                .tensors
                .iter()
                .find(|tensor| tensor.role == role)
                .expect("a tensor")
                .kind
        };
        assert_eq!(kind(Role::OutputNorm), BlockType::F32);
        // Embeddings that are the output matrix too.
        assert_eq!(kind(Role::Embedding), recipe.kind(true, 256));
        assert_eq!(target.tensors[0].name, target.tensors[0].role.gguf_name());
    }
}

#[test]
fn halves_lose_nothing() {
    let (mut source, plan) = gguf("nano/nano-f16.gguf");
    let (mut converted, target) = converted(&source, &plan, Recipe::F16, 2);
    assert!(numbers(&mut source, &plan) == numbers(&mut converted, &target));
    let (mut source, plan) = folder();
    let (mut converted, target) = self::converted(&source, &plan, Recipe::BF16, 2);
    assert!(numbers(&mut source, &plan) == numbers(&mut converted, &target));
}

/// The folder's projections are in the other order, and its divisors are worked out from figures.
#[test]
fn a_folder_becomes_what_the_gguf_file_is() {
    let (mut file, file_plan) = gguf("nano/nano-f16.gguf");
    let (source, plan) = folder();
    let (mut converted, target) = converted(&source, &plan, Recipe::F16, 2);
    assert!(numbers(&mut file, &file_plan) == numbers(&mut converted, &target));
    let (ours, theirs) = (&target.config.rope, &file_plan.config.rope);
    assert_eq!(ours.pairing, theirs.pairing);
    let divisors = |rope: &model::Rope| rope.divisors.clone().expect("divisors");
    for (a, b) in divisors(ours).iter().zip(divisors(theirs)) {
        assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    }
}

/// Tensors that have the wanted type already are not quantized a second time.
#[test]
fn what_is_right_already_is_passed_on() {
    let (source, plan) = gguf("nano/nano-q8_0.gguf");
    let (mut converted, target) = converted(&source, &plan, Recipe::Q8, 1);
    let bytes = all(&mut converted);
    let original = fixture("nano/nano-q8_0.gguf");
    let mut same = 0;
    for (from, to) in plan.tensors.iter().zip(&target.tensors) {
        if from.kind == to.kind {
            let place =
                |tensor: &Tensor| tensor.offset as usize..(tensor.offset + tensor.bytes()) as usize;
            assert!(original[place(from)] == bytes[place(to)], "{}", to.name);
            same += 1;
        }
    }
    assert_eq!(same, plan.tensors.len());
}

#[test]
fn every_type_is_read() {
    for (file, most) in [
        ("q4_0", 0.1),
        ("q4_1", 0.1),
        ("q5_0", 0.06),
        ("q5_1", 0.06),
        ("q8_0", 0.02),
        ("q2_k", 0.4),
        ("q3_k_m", 0.25),
        ("q4_k_m", 0.1),
        ("q5_k_m", 0.06),
        ("q6_k", 0.03),
        ("f16", 0.01),
    ] {
        let (mut original, original_plan) = gguf("nano/nano-f16.gguf");
        let expected = numbers(&mut original, &original_plan);
        let (source, plan) = gguf(&format!("nano/nano-{file}.gguf"));
        let (mut converted, target) = converted(&source, &plan, Recipe::Q8, 2);
        for ((role, expected), (same, found)) in
            expected.iter().zip(numbers(&mut converted, &target))
        {
            assert_eq!(*role, same);
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>();
            let error = square(&mut expected.iter().zip(&found).map(|(a, b)| a - b));
            let whole = square(&mut expected.iter().copied());
            assert!((error / whole).sqrt() < most, "{file} {role:?}");
        }
    }
}

#[test]
fn a_damaged_weight_is_named() {
    let (_, plan) = folder();
    let mut bytes = fixture("nano/hf/model.safetensors");
    let tensor = plan
        .tensors
        .iter()
        .find(|tensor| tensor.role.is_rotated())
        .expect("a projection");
    // Row 17, weight 3, of BF16.
    let at = tensor.offset as usize + 17 * tensor.row_bytes() + 3 * 2;
    bytes[at..at + 2].copy_from_slice(&[0x80, 0x7f]);
    let source = MemorySource::new("damaged", bytes);
    for threads in [1, 2] {
        let (mut converted, target) = converted(&source, &plan, Recipe::Q4, threads);
        let mut buf = vec![1];
        let size = target.tensor_bytes() as usize;
        let error = block_on(converted.read(0, &mut buf, size)).expect_err("an infinite weight");
        let message = error.to_string();
        assert!(message.contains(&tensor.name), "{message}");
        assert!(
            message.contains("row 17") && message.contains("weight 3 "),
            "{message}"
        );
        assert_eq!(buf, [1]);
        // What lies before it can still be read.
        let before = target
            .tensors
            .iter()
            .find(|to| to.role == tensor.role)
            .expect("it")
            .offset;
        block_on(converted.read(0, &mut buf, before as usize)).expect("sound weights");
    }
}

#[test]
fn plans_of_other_models_are_refused() {
    let (source, plan) = folder();
    let (other_source, other) = gguf("tinyrope/tinyrope-q4_k_m.gguf");
    let error =
        Converted::new(source, &plan, &target(&other, Recipe::Q4), 1).expect_err("two models");
    assert!(error.to_string().contains("cannot be converted"), "{error}");
    // The source's own plan has gaps.
    Converted::new(other_source, &other, &other, 1).expect_err("not a target");
}

#[test]
fn reading_beyond_the_end_is_an_error() {
    let (source, plan) = folder();
    let (mut converted, _) = converted(&source, &plan, Recipe::Q4, 1);
    let size = converted.size().expect("a size");
    let mut buf = Vec::new();
    let error = block_on(converted.read(size - 1, &mut buf, 2)).expect_err("past the end");
    assert!(matches!(error, SourceError::PastEnd { .. }));
    block_on(converted.read(size, &mut buf, 0)).expect("nothing");
    block_on(converted.read(u64::MAX, &mut buf, 2)).expect_err("past the end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Bytes do not depend on where reading begins, how much is read at once, nor on threads.
    #[test]
    fn bytes_do_not_depend_on_how_they_are_read(
        recipe in prop::sample::select(Recipe::ALL.to_vec()),
        from_folder in any::<bool>(),
        reads in prop::collection::vec((0.0f64..1.0, 0usize..100_000), 1..12),
        threads in 1usize..5,
        at_once in prop::sample::select(vec![1, 5_000, 40_000, 1 << 22]),
    ) {
        let (source, plan) = if from_folder { folder() } else { gguf("nano/nano-q6_k.gguf") };
        let expected = all(&mut converted(&source, &plan, recipe, 1).0);
        let (converted, target) = converted(&source, &plan, recipe, threads);
        let mut converted = converted.at_once(at_once);
        for (at, len) in reads {
            let at = (at * expected.len() as f64) as usize;
            let len = len.min(expected.len() - at);
            let mut buf = Vec::new();
            block_on(converted.read(at as u64, &mut buf, len)).expect("inside");
            prop_assert!(buf == expected[at..at + len]);
        }
        // And each tensor on its own, last one first.
        for tensor in target.tensors.iter().rev() {
            let mut buf = Vec::new();
            block_on(converted.read(tensor.offset, &mut buf, tensor.bytes() as usize)).expect("inside");
            let at = tensor.offset as usize;
            prop_assert!(buf == expected[at..at + buf.len()]);
            let mut numbers = vec![0.0; tensor.rows * tensor.cols];
            dequantize(tensor.kind, &buf, &mut numbers).expect("whole blocks");
        }
    }
}
