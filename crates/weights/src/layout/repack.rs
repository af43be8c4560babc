//! The file's blocks, row by row, as the planes and scales of the [layouts](super).
//!
//! Every function takes one row of blocks and fills the row's planes and scales; padding stays as it is.

use crate::codec::{q3_k_scales, scales_and_mins};

/// The word at byte `at` of a block.
fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

fn half(block: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// `N` words from byte `at` on.
fn words_at<const N: usize>(block: &[u8], at: usize) -> [u32; N] {
    std::array::from_fn(|i| word(block, at + 4 * i))
}

/// Scales that stand alone, two to a word.
fn paired_scales<const BYTES: usize>(blocks: &[[u8; BYTES]], scales: &mut [u32]) {
    for (pair, scale) in blocks.chunks(2).zip(scales) {
        *scale = half(&pair[0], 0) | pair.get(1).map_or(0, |block| half(block, 0)) << 16;
    }
}

/// The file has nibbles and single bits in the order of the planes.
pub(super) fn q4_0(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<18>();
    for (block, low) in blocks.iter().zip(low.as_chunks_mut::<4>().0) {
        *low = words_at(block, 2);
    }
    paired_scales(blocks, scales);
}

/// Scale and minimum lie in the file as in the layout.
pub(super) fn q4_1(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<20>();
    let outputs = low.as_chunks_mut::<4>().0.iter_mut().zip(scales);
    for (block, (low, scale)) in blocks.iter().zip(outputs) {
        *low = words_at(block, 4);
        *scale = word(block, 0);
    }
}

pub(super) fn q5_0(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<22>();
    for ((block, low), high) in blocks.iter().zip(low.as_chunks_mut::<4>().0).zip(high) {
        *low = words_at(block, 6);
        *high = word(block, 2);
    }
    paired_scales(blocks, scales);
}

pub(super) fn q5_1(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<24>();
    let outputs = low.as_chunks_mut::<4>().0.iter_mut().zip(high).zip(scales);
    for (block, ((low, high), scale)) in blocks.iter().zip(outputs) {
        *low = words_at(block, 8);
        *high = word(block, 4);
        *scale = word(block, 0);
    }
}

pub(super) fn q8_0(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<34>();
    for (block, low) in blocks.iter().zip(low.as_chunks_mut::<8>().0) {
        *low = words_at(block, 2);
    }
    paired_scales(blocks, scales);
}

/// Floats of all widths lie in the file as in their plane; a row of halves may end within a word.
pub(super) fn floats(row: &[u8], low: &mut [u32]) {
    let (words, rest) = row.as_chunks::<4>();
    for (bytes, word) in words.iter().zip(&mut *low) {
        *word = u32::from_le_bytes(*bytes);
    }
    if !rest.is_empty() {
        low[words.len()] = half(rest, 0);
    }
}

/// Four bit pairs of bytes in a row to one word of the pairs plane.
///
/// The K types keep the pairs of 128 weights in 32 bytes: weight `32 run + b` is pair `run` of byte `b`.
/// A word of the plane has 16 weights of one run: pair `k` of its bytes comes from bytes `4 k` to
/// `4 k + 3` of the sixteen.
fn pairs(bytes: &[u32; 4], run: u32) -> u32 {
    let pair = |k: usize| (bytes[k] >> (2 * run) & 0x0303_0303) << (2 * k);
    pair(0) | pair(1) | pair(2) | pair(3)
}

/// The pairs of 256 weights from 64 bytes at `at`, as sixteen words.
fn all_pairs(block: &[u8], at: usize, out: &mut [u32; 16]) {
    for half in 0..2 {
        for side in 0..2 {
            let bytes = words_at(block, at + 32 * half + 16 * side);
            for run in 0..4 {
                out[8 * half + 2 * run + side] = pairs(&bytes, run as u32);
            }
        }
    }
}

/// Bit `bit` of each of 32 bytes, as one word.
fn singles(bytes: &[u32; 8], bit: u32) -> u32 {
    let mut out = 0;
    for (i, four) in bytes.iter().enumerate() {
        // The four bits gathered into the top nibble: byte `j` moves to bit `28 + j`.
        let bits = (four >> bit & 0x0101_0101).wrapping_mul(0x1020_4080) >> 28;
        out |= bits << (4 * i);
    }
    out
}

/// The single bits of 256 weights from 32 bytes at `at`: bit `j` of byte `i` is weight `32 j + i`.
fn all_singles(block: &[u8], at: usize, out: &mut [u32; 8]) {
    let bytes = words_at(block, at);
    for (bit, out) in (0..).zip(out) {
        *out = singles(&bytes, bit);
    }
}

/// The nibbles of 64 weights from 32 bytes: the first 32 weights are the low halves. In the plane,
/// weights 0 to 15 of 32 are low halves and 16 to 31 high ones.
fn nibbles_of_64(bytes: &[u32; 8], first: &mut [u32; 4], second: &mut [u32; 4]) {
    const LOW: u32 = 0x0f0f_0f0f;
    for i in 0..4 {
        first[i] = bytes[i] & LOW | (bytes[i + 4] & LOW) << 4;
        second[i] = bytes[i] >> 4 & LOW | bytes[i + 4] & !LOW;
    }
}

/// The nibbles of 256 weights from 128 bytes at `at`, as 32 words.
fn all_nibbles(block: &[u8], at: usize, out: &mut [u32; 32]) {
    let (groups, _) = out.as_chunks_mut::<4>();
    for (run, pair) in groups.chunks_exact_mut(2).enumerate() {
        if let [first, second] = pair {
            nibbles_of_64(&words_at(block, at + 32 * run), first, second);
        }
    }
}

pub(super) fn q2_k(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<16>().0.iter_mut();
    let outputs = outputs.zip(scales.as_chunks_mut::<5>().0);
    for (block, (low, scales)) in row.as_chunks::<84>().0.iter().zip(outputs) {
        all_pairs(block, 16, low);
        let [a, b, c, d] = words_at(block, 0);
        *scales = [word(block, 80), a, b, c, d];
    }
}

pub(super) fn q3_k(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<16>().0.iter_mut();
    let outputs = outputs
        .zip(high.as_chunks_mut::<8>().0)
        .zip(scales.as_chunks_mut::<5>().0);
    for (block, ((low, high), scales)) in row.as_chunks::<110>().0.iter().zip(outputs) {
        all_pairs(block, 32, low);
        all_singles(block, 0, high);
        let mut packed = [0; 12];
        packed.copy_from_slice(&block[96..108]);
        let bytes = q3_k_scales(&packed).map(|scale| scale as u8);
        let [a, b, c, d] = words_at(&bytes, 0);
        *scales = [half(block, 108), a, b, c, d];
    }
}

/// Scale of scales and scale of minimums, then eight scales and eight minimums, each in a byte.
fn scales_with_mins(block: &[u8]) -> [u32; 5] {
    let mut packed = [0; 12];
    packed.copy_from_slice(&block[4..16]);
    let (scales, mins) = scales_and_mins(&packed);
    let [a, b] = words_at(&scales, 0);
    let [c, d] = words_at(&mins, 0);
    [word(block, 0), a, b, c, d]
}

pub(super) fn q4_k(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<32>().0.iter_mut();
    let outputs = outputs.zip(scales.as_chunks_mut::<5>().0);
    for (block, (low, scales)) in row.as_chunks::<144>().0.iter().zip(outputs) {
        all_nibbles(block, 16, low);
        *scales = scales_with_mins(block);
    }
}

pub(super) fn q5_k(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<32>().0.iter_mut();
    let outputs = outputs
        .zip(high.as_chunks_mut::<8>().0)
        .zip(scales.as_chunks_mut::<5>().0);
    for (block, ((low, high), scales)) in row.as_chunks::<176>().0.iter().zip(outputs) {
        all_nibbles(block, 48, low);
        all_singles(block, 16, high);
        *scales = scales_with_mins(block);
    }
}

/// The nibbles of 128 weights are in 64 bytes, the first 64 weights in the low halves.
pub(super) fn q6_k(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<32>().0.iter_mut();
    let outputs = outputs
        .zip(high.as_chunks_mut::<16>().0)
        .zip(scales.as_chunks_mut::<5>().0);
    for (block, ((low, high), scales)) in row.as_chunks::<210>().0.iter().zip(outputs) {
        let (groups, _) = low.as_chunks_mut::<4>();
        for half in 0..2 {
            for side in 0..2 {
                let bytes = words_at(block, 64 * half + 32 * side);
                let (mut first, mut second) = ([0; 4], [0; 4]);
                nibbles_of_64(&bytes, &mut first, &mut second);
                groups[4 * half + side] = first;
                groups[4 * half + 2 + side] = second;
            }
        }
        all_pairs(block, 128, high);
        let [a, b, c, d] = words_at(block, 192);
        *scales = [half(block, 208), a, b, c, d];
    }
}
