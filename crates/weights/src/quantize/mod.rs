//! Weights to blocks: the other direction of [`crate::codec`].
//!
//! Every encoder minimises the mean square error of a block over a few candidate scales, each refined
//! by least squares, and then rounds with the scales as they are stored, so that no weight is further
//! than half a step from where it was unless it lies beyond the block's range. The K types search
//! scales (and minimums) per group and round those to their own few bits. Where a block's weights
//! came out of a block of the same type, they come out again as they were if the type tells its scale
//! (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0; for the K types only nearly).
//!
//! The same weights give the same bytes on every machine: sums are formed in a fixed order in `f32`.
//!
//! Weights that are no numbers or infinite are refused. Scales are half floats, the smallest of which is
//! 6e-8: a block whose weights are beyond their range is saturated, as F16 and BF16 are, and one whose
//! weights are all tiny (1e-6 in Q4_0, 1e-4 in Q6_K with its scales of scales) keeps little of them.

use half::{bf16, f16};

use crate::block::{BlockType, Unsupported};
use crate::codec::CodecError;

mod fit;
mod legacy;
mod nested;

/// Appends `weights` to `out` as blocks of type `kind`.
///
/// # Errors
/// [`CodecError::Unsupported`] for a type without a codec, [`CodecError::Partial`] when the weights
/// are no whole number of blocks, [`CodecError::NotFinite`] when one is infinite or not a number. `out`
/// is as it was.
pub fn quantize(kind: BlockType, weights: &[f32], out: &mut Vec<u8>) -> Result<(), CodecError> {
    let partial = CodecError::Partial {
        kind,
        weights: weights.len(),
    };
    let bytes = kind
        .bytes_for(weights.len() as u64)
        .ok_or(partial.clone())?;
    let bytes = usize::try_from(bytes).map_err(|_| partial)?;
    let old = out.len();
    out.resize(old + bytes, 0);
    quantize_into(kind, weights, &mut out[old..]).inspect_err(|_| out.truncate(old))
}

/// Writes `weights` as blocks of type `kind` to `out`, which must be exactly as long as they are.
///
/// # Errors
/// As [`quantize`], and [`CodecError::Size`] when `out` has another length. What `out` holds then is
/// of no use.
pub fn quantize_into(kind: BlockType, weights: &[f32], out: &mut [u8]) -> Result<(), CodecError> {
    if !kind.is_supported() {
        return Err(Unsupported { kind }.into());
    }
    if kind.bytes_for(weights.len() as u64) != Some(out.len() as u64) {
        return Err(CodecError::Size {
            kind,
            weights: weights.len(),
            bytes: out.len(),
        });
    }
    if !all_finite(weights) {
        let index = weights.iter().position(|weight| !weight.is_finite());
        return Err(CodecError::NotFinite {
            index: index.unwrap_or_default(),
        });
    }
    encode(kind, weights, out);
    Ok(())
}

/// Without a test per weight, which would keep the loop from being vectorized.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
fn all_finite(weights: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let (runs, rest) = weights.as_chunks::<32>();
    let infinite = |weight: &f32| u32::from(weight.to_bits() & EXPONENT == EXPONENT);
    let count = |run: &[f32]| run.iter().map(infinite).fold(0, |all, one| all | one);
    runs.iter().all(|run| count(run) == 0) && count(rest) == 0
}

/// In WebAssembly this is where vectors begin to be used, and all that is inlined here uses them:
/// a module with such instructions loads in every browser of today.
#[cfg_attr(target_arch = "wasm32", target_feature(enable = "simd128"))]
fn encode(kind: BlockType, weights: &[f32], out: &mut [u8]) {
    match kind {
        BlockType::F32 => scalars(weights, out, f32::to_le_bytes),
        BlockType::F16 => scalars(weights, out, |weight| half_bits(weight).to_le_bytes()),
        BlockType::BF16 => scalars(weights, out, |weight| {
            let largest = bf16::MAX.to_f32();
            bf16::from_f32(weight.clamp(-largest, largest)).to_le_bytes()
        }),
        BlockType::Q4_0 => legacy::q4_0(weights, out),
        BlockType::Q4_1 => legacy::q4_1(weights, out),
        BlockType::Q5_0 => legacy::q5_0(weights, out),
        BlockType::Q5_1 => legacy::q5_1(weights, out),
        BlockType::Q8_0 => legacy::q8_0(weights, out),
        BlockType::Q2_K => nested::q2_k(weights, out),
        BlockType::Q3_K => nested::q3_k(weights, out),
        BlockType::Q4_K => nested::q4_k(weights, out),
        BlockType::Q5_K => nested::q5_k(weights, out),
        BlockType::Q6_K => nested::q6_k(weights, out),
        // Refused before.
        _ => {}
    }
}

#[inline(always)]
fn scalars<const BYTES: usize>(
    weights: &[f32],
    out: &mut [u8],
    bytes: impl Fn(f32) -> [u8; BYTES],
) {
    let (out, _) = out.as_chunks_mut::<BYTES>();
    for (out, weight) in out.iter_mut().zip(weights) {
        *out = bytes(*weight);
    }
}

/// The bits of the nearest finite half float.
#[inline]
fn half_bits(value: f32) -> u16 {
    let largest = f16::MAX.to_f32();
    f16::from_f32(value.clamp(-largest, largest)).to_bits()
}

/// Stores the nearest finite half float at byte `at` of a block and gives its value.
#[inline]
fn put_half(block: &mut [u8], at: usize, value: f32) -> f32 {
    let bits = half_bits(value);
    block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    f16::from_bits(bits).to_f32()
}
