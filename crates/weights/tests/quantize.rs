//! The encoders, measured with the reference decoder.

use std::path::PathBuf;

use proptest::prelude::*;
use weights::BlockType;
use weights::codec::{CodecError, dequantize};
use weights::gguf::{Gguf, Step, parse};
use weights::quantize::{quantize, quantize_into};

const KINDS: [BlockType; 13] = [
    BlockType::F32,
    BlockType::F16,
    BlockType::BF16,
    BlockType::Q4_0,
    BlockType::Q4_1,
    BlockType::Q5_0,
    BlockType::Q5_1,
    BlockType::Q8_0,
    BlockType::Q2_K,
    BlockType::Q3_K,
    BlockType::Q4_K,
    BlockType::Q5_K,
    BlockType::Q6_K,
];

fn encode(kind: BlockType, weights: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    quantize(kind, weights, &mut bytes).expect("finite weights in whole blocks");
    bytes
}

fn decode(kind: BlockType, bytes: &[u8]) -> Vec<f32> {
    let mut weights = vec![0.0; bytes.len() / kind.block_bytes() * kind.block_len()];
    dequantize(kind, bytes, &mut weights).expect("whole blocks");
    weights
}

fn there_and_back(kind: BlockType, weights: &[f32]) -> Vec<f32> {
    decode(kind, &encode(kind, weights))
}

fn square_error(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
        .sum()
}

/// Nearly normal numbers: sums of four of a linear congruential generator.
fn normal(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count)
        .map(|_| (next() + next() + next() + next()) * 0.03)
        .collect()
}

fn peak(weights: &[f32]) -> f32 {
    weights.iter().fold(0.0, |peak, x| peak.max(x.abs()))
}

/// The most that a block's weights may be off in the square mean, as a part of its largest. Plain rounding
/// is half a step off at most, or a whole one where a type has no level for the far end of the range; the K
/// types have groups' scales and minimums rounded on top.
fn bound(kind: BlockType) -> f32 {
    match kind {
        BlockType::F32 => 0.0,
        BlockType::F16 => 1.0 / 2048.0,
        BlockType::BF16 => 1.0 / 256.0,
        BlockType::Q4_0 => 1.0 / 6.5,
        BlockType::Q5_0 => 1.0 / 13.5,
        BlockType::Q8_0 => 0.51 / 127.0,
        // The range of weights is up to twice the largest.
        BlockType::Q4_1 => 2.0 / 15.0,
        BlockType::Q5_1 => 2.0 / 31.0,
        BlockType::Q2_K => 2.0 / 3.0 + 2.5 / 15.0,
        BlockType::Q3_K => 1.0 / 3.0 + 1.0 / 32.0,
        BlockType::Q4_K => 2.0 / 15.0 + 2.0 / 63.0,
        BlockType::Q5_K => 2.0 / 31.0 + 2.0 / 63.0,
        BlockType::Q6_K => 1.0 / 31.0 + 1.0 / 128.0,
        other => panic!("{other} has no encoder"),
    }
}

/// What rounding the scale to a half float may move the outermost weight by where the half float is
/// subnormal: half of the smallest one times the largest level, and the largest scale of a group.
fn floor(kind: BlockType) -> f32 {
    let levels = match kind {
        BlockType::Q4_0 => 8.0,
        BlockType::Q5_0 | BlockType::Q4_1 => 16.0,
        BlockType::Q5_1 => 32.0,
        BlockType::Q8_0 => 127.0,
        BlockType::Q2_K => 15.0 * 4.0,
        BlockType::Q3_K => 32.0 * 4.0,
        BlockType::Q4_K => 63.0 * 16.0,
        BlockType::Q5_K => 63.0 * 32.0,
        BlockType::Q6_K => 128.0 * 32.0,
        _ => 1.0,
    };
    levels * 2f32.powi(-25)
}

/// Weights of one size with outliers, zeros and runs of equal numbers among them.
fn any_weights() -> impl Strategy<Value = Vec<f32>> {
    let weight = prop_oneof![
        8 => -1f32..1.0,
        2 => -0.05f32..0.05,
        1 => Just(0.0f32),
        1 => Just(0.75f32),
        1 => 0.9f32..4.0,
    ];
    let run = (weight, 1usize..4).prop_map(|(weight, count)| vec![weight; count]);
    (prop::collection::vec(run, 512), -14i32..6, any::<bool>()).prop_map(
        |(runs, size, positive)| {
            let mut weights = runs.concat();
            weights.truncate(512);
            for weight in &mut weights {
                *weight *= 2f32.powi(size);
                if positive {
                    *weight = weight.abs();
                }
            }
            weights
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A fit is at least as good as plain rounding in the square mean. To be so it may leave single
    /// weights further off: of 32 that are half a step off in the mean, one is off by less than 3 steps.
    #[test]
    fn no_weight_is_further_off_than_the_type_allows(weights in any_weights()) {
        for kind in KINDS {
            let back = there_and_back(kind, &weights);
            let len = kind.block_len();
            for (block, back) in weights.chunks(len).zip(back.chunks(len)) {
                let most = (bound(kind) * peak(block) + floor(kind)) * 1.01;
                let square: f32 = block.iter().zip(back).map(|(a, b)| (a - b).powi(2)).sum();
                let mean = (square / len as f32).sqrt();
                prop_assert!(mean <= most, "{kind}: {mean} in the mean in a block up to {}", peak(block));
                for (weight, back) in block.iter().zip(back) {
                    prop_assert!(
                        (weight - back).abs() <= 3.0 * most,
                        "{kind}: {weight} became {back} in a block up to {}", peak(block)
                    );
                }
            }
        }
    }

    #[test]
    fn a_block_does_not_depend_on_its_neighbours(weights in any_weights()) {
        for kind in KINDS {
            let together = encode(kind, &weights);
            let apart: Vec<u8> = weights
                .chunks(kind.block_len())
                .flat_map(|block| encode(kind, block))
                .collect();
            prop_assert!(together == apart, "{}", kind);
        }
    }

    /// The bits of any finite numbers: sums must not overflow, tiny ones not divide by zero.
    #[test]
    fn what_is_finite_stays_finite(
        bits in prop::collection::vec(any::<u32>(), 256),
        size in prop::option::of(-126i32..127),
    ) {
        let weights: Vec<f32> = bits
            .iter()
            .map(|bits| match size {
                Some(size) => (*bits as i32) as f32 * 2f32.powi(-32) * 2f32.powi(size),
                None => Some(f32::from_bits(*bits)).filter(|x| x.is_finite()).unwrap_or_default(),
            })
            .collect();
        for kind in KINDS {
            let back = there_and_back(kind, &weights);
            prop_assert!(back.iter().all(|x| x.is_finite()), "{}", kind);
            let most = if matches!(kind, BlockType::F32 | BlockType::BF16) {
                f32::MAX
            } else {
                65_504.0 * 64.0 * 128.0
            };
            prop_assert!(peak(&back) <= most, "{}: {}", kind, peak(&back));
        }
    }

    /// Plain rounding to the grid of the largest weight is one of the candidates, so it is never
    /// better but for the rounding of scales to half floats.
    #[test]
    fn plain_rounding_is_not_better(weights in any_weights()) {
        for (kind, levels) in [(BlockType::Q4_0, 8.0f32), (BlockType::Q5_0, 16.0), (BlockType::Q8_0, 127.0)] {
            for block in weights.chunks(32) {
                let outermost = block.iter().fold(0f32, |a, b| if b.abs() > a.abs() { *b } else { a });
                let scale = outermost / -levels;
                let top = if kind == BlockType::Q8_0 { levels } else { levels - 1.0 };
                let plain: Vec<f32> = block
                    .iter()
                    .map(|x| if scale == 0.0 { 0.0 } else { (x / scale).round().clamp(-levels, top) * scale })
                    .collect();
                let ours = square_error(block, &there_and_back(kind, block));
                let floor = (f64::from(peak(block)).powi(2) * 1e-6 + f64::from(floor(kind)).powi(2)) * 32.0;
                prop_assert!(ours <= square_error(block, &plain) * 1.001 + floor, "{kind} {block:?}");
            }
        }
        for (kind, top) in [(BlockType::Q4_1, 15.0f32), (BlockType::Q5_1, 31.0)] {
            for block in weights.chunks(32) {
                let min = block.iter().copied().fold(f32::MAX, f32::min);
                let max = block.iter().copied().fold(f32::MIN, f32::max);
                let scale = (max - min) / top;
                let plain: Vec<f32> = block
                    .iter()
                    .map(|x| if scale == 0.0 { min } else { ((x - min) / scale).round() * scale + min })
                    .collect();
                let ours = square_error(block, &there_and_back(kind, block));
                let floor = (f64::from(peak(block)).powi(2) * 1e-6 + f64::from(floor(kind)).powi(2)) * 32.0;
                prop_assert!(ours <= square_error(block, &plain) * 1.001 + floor, "{kind} {block:?}");
            }
        }
    }

    /// Levels and scale of a block, decoded, come out as they were; its outermost levels are used, as in
    /// every block that an encoder made.
    #[test]
    fn blocks_go_round_exactly(
        mut levels in prop::collection::vec(any::<u8>(), 32),
        scale in 0x0400u16..0x7000,
        negative in any::<bool>(),
        offset in 0x0400u16..0x4000,
    ) {
        (levels[3], levels[4]) = (0, 255);
        let scale = half::f16::from_bits(scale | u16::from(negative) << 15).to_f32();
        let signed = |bits: u32| -> Vec<f32> {
            let half = 1i32 << (bits - 1);
            levels.iter().map(|q| ((i32::from(*q) >> (8 - bits)) - half) as f32 * scale).collect()
        };
        let mut bytes = signed(8);
        bytes[7] = 127.0 * scale;
        for x in &mut bytes {
            // Q8_0 has -127 to 127.
            *x = x.max(-127.0 * scale.abs()).min(127.0 * scale.abs());
        }
        for (kind, weights) in [
            (BlockType::Q4_0, signed(4)),
            (BlockType::Q5_0, signed(5)),
            (BlockType::Q8_0, bytes),
        ] {
            prop_assert_eq!(there_and_back(kind, &weights), weights, "{}", kind);
        }
        // Sums are formed as the decoder forms them.
        let offset = -half::f16::from_bits(offset).to_f32();
        for (kind, bits) in [(BlockType::Q4_1, 4), (BlockType::Q5_1, 5)] {
            let scale = scale.abs().min(64.0);
            let weights: Vec<f32> =
                levels.iter().map(|q| f32::from(q >> (8 - bits)) * scale + offset).collect();
            let back = there_and_back(kind, &weights);
            // Where offset or scale is large the other may be lost in the sum; then it need not come back.
            let spread = scale / offset.abs();
            if (1e-3..1e3).contains(&spread) {
                prop_assert_eq!(back, weights, "{}", kind);
            }
        }
    }
}

#[test]
fn zeros_and_constants() {
    for kind in KINDS {
        for zero in [0.0, -0.0, 1e-45, -1e-39, 1e-9] {
            let back = there_and_back(kind, &[zero; 256]);
            assert!(peak(&back) <= 1e-9, "{kind}: {zero} became {}", peak(&back));
        }
        for constant in [1.0, -1.0, 0.125, -3.0, 1000.0] {
            let weights = [constant; 256];
            let back = there_and_back(kind, &weights);
            for x in back {
                assert!(
                    (x / constant - 1.0).abs() < 0.01,
                    "{kind}: {constant} became {x}"
                );
            }
        }
    }
}

#[test]
fn scales_beyond_half_floats_are_saturated() {
    for kind in KINDS {
        let back = there_and_back(kind, &[3e38; 256]);
        match kind {
            BlockType::F32 | BlockType::BF16 => assert!(peak(&back) > 2.9e38),
            _ => assert!(
                (65_000.0..1e9).contains(&peak(&back)),
                "{kind}: {}",
                peak(&back)
            ),
        }
    }
}

#[test]
fn what_cannot_be_encoded_is_refused_and_nothing_written() {
    for kind in KINDS {
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut weights = vec![1.0; 512];
            weights[300] = wrong;
            let mut out = vec![1, 2, 3];
            let error = quantize(kind, &weights, &mut out).expect_err("not finite");
            assert_eq!(error, CodecError::NotFinite { index: 300 });
            assert_eq!(out, [1, 2, 3]);
        }
        if kind.block_len() > 1 {
            let error = quantize(kind, &[0.0; 33], &mut Vec::new()).expect_err("a weight too many");
            assert!(error.to_string().contains(kind.name()), "{error}");
        }
        let error = quantize_into(kind, &[0.0; 256], &mut [0; 3]).expect_err("too short");
        assert!(matches!(error, CodecError::Size { .. }));
    }
    let error = quantize(BlockType::IQ4_NL, &[0.0; 32], &mut Vec::new()).expect_err("no encoder");
    assert!(error.to_string().contains("IQ4_NL"), "{error}");
}

#[test]
fn halves_are_the_nearest() {
    let weights: Vec<f32> = normal(4096, 5).iter().map(|x| x * 1000.0).collect();
    for (weight, back) in weights.iter().zip(there_and_back(BlockType::F16, &weights)) {
        assert_eq!(half::f16::from_f32(*weight).to_f32(), back);
    }
    for (weight, back) in weights
        .iter()
        .zip(there_and_back(BlockType::BF16, &weights))
    {
        assert_eq!(half::bf16::from_f32(*weight).to_f32(), back);
    }
}

/// Relative root mean square errors over nearly normal weights, which trained ones are like. The
/// figures are those that this code reaches; a change that makes an encoder worse is seen here.
#[test]
fn errors_stay_where_they_are() {
    let weights = normal(1 << 18, 1);
    let power = square_error(&weights, &vec![0.0; weights.len()]);
    for (kind, most) in [
        (BlockType::F16, 0.000_22),
        (BlockType::BF16, 0.001_7),
        (BlockType::Q4_0, 0.0773),
        (BlockType::Q4_1, 0.0687),
        (BlockType::Q5_0, 0.0383),
        (BlockType::Q5_1, 0.0337),
        (BlockType::Q8_0, 0.0051),
        (BlockType::Q2_K, 0.267),
        (BlockType::Q3_K, 0.140),
        (BlockType::Q4_K, 0.0692),
        (BlockType::Q5_K, 0.0349),
        (BlockType::Q6_K, 0.0167),
    ] {
        let error = square_error(&weights, &there_and_back(kind, &weights));
        let relative = (error / power).sqrt();
        assert!(relative < most, "{kind}: {relative}");
    }
}

fn nano(file: &str) -> (Vec<u8>, Gguf) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/nano")
        .join(file);
    let bytes = std::fs::read(path).expect("fixture");
    match parse(&bytes, Some(bytes.len() as u64)) {
        Ok(Step::Done(gguf)) => (bytes, gguf),
        _ => panic!("{file} does not parse"),
    }
}

/// The same model quantized by llama.cpp: no type comes out worse here.
#[test]
fn errors_are_not_above_those_of_llama_cpp() {
    let (original_bytes, original) = nano("nano-f16.gguf");
    for file in [
        "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k",
    ] {
        let (bytes, gguf) = nano(&format!("nano-{file}.gguf"));
        let mut errors = std::collections::BTreeMap::<&str, (f64, f64)>::new();
        for tensor in gguf
            .tensors
            .iter()
            .filter(|tensor| tensor.kind != BlockType::F32)
        {
            let source = original.tensor(&tensor.name).expect("the same tensors");
            let of = |bytes: &[u8], info: &weights::gguf::TensorInfo| {
                decode(info.kind, &bytes[info.offset as usize..info.end() as usize])
            };
            let weights = of(&original_bytes, source);
            let errors = errors.entry(tensor.kind.name()).or_default();
            errors.0 += square_error(&weights, &of(&bytes, tensor));
            errors.1 += square_error(&weights, &there_and_back(tensor.kind, &weights));
        }
        for (kind, (theirs, ours)) in errors {
            let ratio = (ours / theirs).sqrt();
            println!("{file}: {kind} {ratio:.4} of llama.cpp's error");
            assert!(
                ratio < 1.0,
                "{file}: {kind} has {ratio} of llama.cpp's error"
            );
        }
    }
}
