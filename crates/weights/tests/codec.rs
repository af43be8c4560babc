//! The codecs against the reference decoders of the `gguf` Python package (`dequantized.json`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use weights::BlockType;
use weights::codec::dequantize;
use weights::gguf::{Step, parse};

fn golden() -> serde_json::Value {
    serde_json::from_str(include_str!("dequantized.json")).expect("golden file")
}

fn nano() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano")
}

/// CRC-32 of the weights' bytes, negative zero counted as zero.
fn crc(weights: &[f32]) -> u64 {
    let mut crc = u32::MAX;
    for weight in weights {
        for byte in (weight + 0.0).to_le_bytes() {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
            }
        }
    }
    u64::from(!crc)
}

/// xorshift64*, the highest byte of each number.
fn random_bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(2_685_821_657_736_338_717) >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn every_tensor_of_the_nano_files_decodes_as_in_the_reference() {
    let golden = golden();
    let files = golden["files"].as_object().expect("files");
    let mut kinds = BTreeMap::<&str, usize>::new();
    for (file, tensors) in files {
        let bytes = std::fs::read(nano().join(file)).expect("fixture");
        let Ok(Step::Done(gguf)) = parse(&bytes, Some(bytes.len() as u64)) else {
            panic!("{file} does not parse");
        };
        assert_eq!(
            gguf.tensors.len(),
            tensors.as_object().expect("tensors").len()
        );
        for tensor in &gguf.tensors {
            let mut weights = vec![0.0; tensor.weights() as usize];
            let raw = &bytes[tensor.offset as usize..tensor.end() as usize];
            dequantize(tensor.kind, raw, &mut weights).expect("sizes");
            let expected = tensors[&tensor.name].as_u64();
            assert_eq!(Some(crc(&weights)), expected, "{file} {}", tensor.name);
            *kinds.entry(tensor.kind.name()).or_default() += 1;
        }
    }
    assert_eq!(kinds.len(), 12, "all but BF16: {kinds:?}");
}

#[test]
fn random_blocks_decode_as_in_the_reference() {
    let golden = golden();
    let half_places = |kind| match kind {
        BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4_K | BlockType::Q5_K => vec![0, 2],
        BlockType::Q2_K => vec![80, 82],
        BlockType::Q3_K => vec![108],
        BlockType::Q6_K => vec![208],
        BlockType::F32 => vec![2],
        _ => vec![0],
    };
    let mut tried = 0;
    for id in 0..64 {
        let Some(kind) = BlockType::from_ggml_id(id).filter(|kind| kind.is_supported()) else {
            continue;
        };
        let golden = &golden["random"][kind.name()];
        let blocks = golden["blocks"].as_u64().expect("blocks") as usize;
        let mut bytes = random_bytes(blocks * kind.block_bytes(), 1000 + u64::from(id));
        for block in bytes.chunks_exact_mut(kind.block_bytes()) {
            // Finite scales: one exponent bit is never set.
            for place in half_places(kind) {
                block[place + 1] &= 0xbf;
            }
        }
        let mut weights = vec![0.0; blocks * kind.block_len()];
        dequantize(kind, &bytes, &mut weights).expect("sizes");
        assert_eq!(Some(crc(&weights)), golden["crc"].as_u64(), "{kind}");
        tried += 1;
    }
    assert_eq!(tried, 13);
}

#[test]
fn wrong_sizes_and_unknown_types_are_errors() {
    let mut out = [0.0; 32];
    dequantize(BlockType::Q8_0, &[0; 33], &mut out).expect_err("a byte too few");
    dequantize(BlockType::Q8_0, &[0; 34], &mut out[..31]).expect_err("a weight too few");
    let error = dequantize(BlockType::IQ4_NL, &[0; 18], &mut out).expect_err("unsupported");
    assert!(error.to_string().contains("IQ4_NL"), "{error}");
}
