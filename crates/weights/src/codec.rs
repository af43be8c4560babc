//! The reference meaning of GGUF blocks: bytes to `f32`.
//!
//! Plain and exact rather than fast: products and sums are formed in `f32` in the order in which
//! ggml's reference forms them, so that results are equal to the last bit. The engine's kernels
//! and the [layouts](crate::layout) are tested against this module.

use half::{bf16, f16};

use crate::block::{BlockType, Unsupported};

/// Why bytes could not be turned into weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The type is known by name only.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The number of bytes does not belong to the number of weights.
    #[error("{weights} weights of type {kind} do not fit {bytes} bytes")]
    Size {
        /// The type.
        kind: BlockType,
        /// Number of weights asked for.
        weights: usize,
        /// Number of bytes given.
        bytes: usize,
    },
    /// Weights to encode are no whole number of blocks.
    #[error("{weights} weights are no whole number of blocks of type {kind} ({} each)", kind.block_len())]
    Partial {
        /// The type.
        kind: BlockType,
        /// Number of weights given.
        weights: usize,
    },
    /// A weight to encode is infinite or not a number.
    #[error("weight {index} is infinite or not a number; the model it comes from is damaged")]
    NotFinite {
        /// Which of the weights given, counted from 0.
        index: usize,
    },
}

/// Turns the blocks in `bytes` into weights; `out` must hold exactly the weights of all blocks.
pub fn dequantize(kind: BlockType, bytes: &[u8], out: &mut [f32]) -> Result<(), CodecError> {
    if kind.bytes_for(out.len() as u64) != Some(bytes.len() as u64) {
        return Err(CodecError::Size {
            kind,
            weights: out.len(),
            bytes: bytes.len(),
        });
    }
    match kind {
        BlockType::F32 => blocks(bytes, out, |block, out| *out = [f32::from_le_bytes(*block)]),
        BlockType::F16 => blocks(bytes, out, |block, out| *out = [plain_half(*block)]),
        BlockType::BF16 => blocks(bytes, out, |block, out| {
            *out = [bf16::from_le_bytes(*block).to_f32()];
        }),
        BlockType::Q4_0 => blocks(bytes, out, q4_0),
        BlockType::Q4_1 => blocks(bytes, out, q4_1),
        BlockType::Q5_0 => blocks(bytes, out, q5_0),
        BlockType::Q5_1 => blocks(bytes, out, q5_1),
        BlockType::Q8_0 => blocks(bytes, out, q8_0),
        BlockType::Q2_K => blocks(bytes, out, q2_k),
        BlockType::Q3_K => blocks(bytes, out, q3_k),
        BlockType::Q4_K => blocks(bytes, out, q4_k),
        BlockType::Q5_K => blocks(bytes, out, q5_k),
        BlockType::Q6_K => blocks(bytes, out, q6_k),
        _ => return Err(Unsupported { kind }.into()),
    }
    Ok(())
}

fn blocks<const BYTES: usize, const WEIGHTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: impl Fn(&[u8; BYTES], &mut [f32; WEIGHTS]),
) {
    let (from, _) = bytes.as_chunks::<BYTES>();
    let (to, _) = out.as_chunks_mut::<WEIGHTS>();
    for (from, to) in from.iter().zip(to) {
        block(from, to);
    }
}

fn half(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// As [`half`], in steps that the compiler makes vectors of; on their own, half floats are converted
/// one by one.
fn plain_half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let size = (bits & 0x7fff) << 13;
    // The exponents' zeros are 112 apart; a product is exact for subnormal numbers too.
    let finite = (f32::from_bits(size) * 2f32.powi(112)).to_bits();
    let size = if bits & 0x7c00 == 0x7c00 {
        size | 0x7f80_0000
    } else {
        finite
    };
    f32::from_bits(size | (bits & 0x8000) << 16)
}

/// The half at byte `at` of a block.
fn half_at(block: &[u8], at: usize) -> f32 {
    half([block[at], block[at + 1]])
}

/// Weight `i` of 32 whose low four bits are packed with weight `i + 16` in one byte.
fn nibble(packed: &[u8], i: usize) -> u8 {
    if i < 16 {
        packed[i] & 15
    } else {
        packed[i - 16] >> 4
    }
}

/// Scale; 16 bytes of nibbles around 8.
fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for (i, out) in out.iter_mut().enumerate() {
        *out = (f32::from(nibble(&block[2..], i)) - 8.0) * d;
    }
}

/// Scale, minimum; 16 bytes of nibbles.
fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for (i, out) in out.iter_mut().enumerate() {
        *out = f32::from(nibble(&block[4..], i)) * d + m;
    }
}

/// The fifth bits of 32 weights, one bit each.
fn fifth_bits(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

fn five_bits(packed: &[u8], high: u32, i: usize) -> f32 {
    f32::from(nibble(packed, i) | (((high >> i) & 1) as u8) << 4)
}

/// Scale; 32 high bits; 16 bytes of nibbles; around 16.
fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    let high = fifth_bits(block, 2);
    for (i, out) in out.iter_mut().enumerate() {
        *out = (five_bits(&block[6..], high, i) - 16.0) * d;
    }
}

/// Scale, minimum; 32 high bits; 16 bytes of nibbles.
fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let high = fifth_bits(block, 4);
    for (i, out) in out.iter_mut().enumerate() {
        *out = five_bits(&block[8..], high, i) * d + m;
    }
}

/// Scale; 32 signed bytes.
fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for (out, q) in out.iter_mut().zip(&block[2..]) {
        *out = f32::from(*q as i8) * d;
    }
}

/// The two-bit part that Q2_K and Q3_K share: 256 weights in 64 bytes. Each half of 128 weights
/// has 32 bytes; its four runs of 32 weights are the four bit pairs of these bytes.
fn two_bits(packed: &[u8], i: usize) -> u8 {
    let (half, run, byte) = (i / 128, i / 32 % 4, i % 32);
    packed[32 * half + byte] >> (2 * run) & 3
}

/// 16 bytes of 4-bit scales and minimums for groups of 16; 64 bytes of bit pairs; scale of scales,
/// scale of minimums.
fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    for (i, out) in out.iter_mut().enumerate() {
        let packed = block[i / 16];
        let scale = d * f32::from(packed & 15);
        let min = dmin * f32::from(packed >> 4);
        *out = scale * f32::from(two_bits(&block[16..80], i)) - min;
    }
}

/// The sixteen 6-bit scales of Q3_K in 12 bytes, around 32: low four bits in the first eight
/// bytes, high two bits in the last four.
pub(crate) fn q3_k_scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = if i < 8 {
            packed[i] & 15
        } else {
            packed[i - 8] >> 4
        };
        let high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// 32 bytes of third bits (inverted: a clear bit takes 4 away); 64 bytes of bit pairs; 12 bytes of
/// scales for groups of 16; scale of scales.
fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(block, 108);
    let mut packed = [0; 12];
    packed.copy_from_slice(&block[96..108]);
    let scales = q3_k_scales(&packed);
    for (i, out) in out.iter_mut().enumerate() {
        let third = block[i % 32] >> (i / 32) & 1;
        let q = (two_bits(&block[32..96], i) | third << 2) as i8 - 4;
        *out = d * f32::from(scales[i / 16]) * f32::from(q);
    }
}

/// The eight 6-bit scales and minimums of Q4_K and Q5_K in 12 bytes. The first four of each have
/// a byte's low six bits; the last four have a nibble and the others' two spare bits.
pub(crate) fn scales_and_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let mut scales = [0; 8];
    let mut mins = [0; 8];
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        mins[j] = packed[4 + j] & 63;
        scales[4 + j] = packed[8 + j] & 15 | packed[j] >> 6 << 4;
        mins[4 + j] = packed[8 + j] >> 4 | packed[4 + j] >> 6 << 4;
    }
    (scales, mins)
}

/// Scales and minimums of the groups of 32 in a Q4_K or Q5_K block, multiplied out.
fn group_scales(block: &[u8]) -> [(f32, f32); 8] {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let mut packed = [0; 12];
    packed.copy_from_slice(&block[4..16]);
    let (scales, mins) = scales_and_mins(&packed);
    std::array::from_fn(|j| (d * f32::from(scales[j]), dmin * f32::from(mins[j])))
}

/// The nibbles of Q4_K and Q5_K: each run of 64 weights has 32 bytes, the first 32 weights in the
/// low halves.
fn nibble_of_64(packed: &[u8], i: usize) -> u8 {
    packed[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15
}

/// Scale of scales, scale of minimums; 12 bytes of scales and minimums; 128 bytes of nibbles.
fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let groups = group_scales(block);
    for (i, out) in out.iter_mut().enumerate() {
        let (scale, min) = groups[i / 32];
        *out = scale * f32::from(nibble_of_64(&block[16..], i)) - min;
    }
}

/// As Q4_K, with 32 bytes of fifth bits before the nibbles: bit `j` of byte `i` belongs to weight
/// `i` of group `j`.
fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let groups = group_scales(block);
    for (i, out) in out.iter_mut().enumerate() {
        let (scale, min) = groups[i / 32];
        let fifth = block[16 + i % 32] >> (i / 32) & 1;
        let q = nibble_of_64(&block[48..], i) | fifth << 4;
        *out = scale * f32::from(q) - min;
    }
}

/// 128 bytes of nibbles; 64 bytes of bit pairs; 16 signed scales for groups of 16; scale of scales.
/// Each half of 128 weights has 64 bytes of nibbles (first 64 weights in the low halves) and 32
/// bytes of bit pairs (as [`two_bits`]). Around 32.
fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = half_at(block, 208);
    for (i, out) in out.iter_mut().enumerate() {
        let (half, run) = (i / 128, i / 64 % 2);
        let low = block[64 * half + i % 64] >> (4 * run) & 15;
        let high = two_bits(&block[128..192], i);
        let q = (low | high << 4) as i8 - 32;
        let scale = block[192 + i / 16] as i8;
        *out = d * f32::from(scale) * f32::from(q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_halves_are_the_same_numbers() {
        for bits in 0..=u16::MAX {
            let bytes = bits.to_le_bytes();
            let (plain, reference) = (plain_half(bytes), half(bytes));
            let same = plain.to_bits() == reference.to_bits();
            assert!(same || plain.is_nan() && reference.is_nan(), "{bits:#x}");
        }
    }
}
