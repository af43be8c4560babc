//! Blocks of 32 weights with one scale.

use super::fit::{GROUPS, affine, inverse, put_levels, symmetric};
use super::put_half;

/// Weight `i` in the low half of byte `i`, weight `i + 16` in the high half.
#[inline(always)]
fn put_nibbles(levels: &[u32; 32], out: &mut [u8]) {
    let (low, high) = levels.split_at(16);
    for (out, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
        *out = (low & 15 | (high & 15) << 4) as u8;
    }
}

#[inline(always)]
fn fifth_bits(levels: &[u32; 32]) -> [u8; 4] {
    let mut bits = 0;
    for (i, level) in levels.iter().enumerate() {
        bits |= (level >> 4 & 1) << i;
    }
    bits.to_le_bytes()
}

/// Blocks with a scale, `BYTES` each: the scales that `fit` finds for each few of them, and what `put`
/// makes of weights and scale.
#[inline(always)]
fn in_batches<const BYTES: usize, F>(
    weights: &[f32],
    out: &mut [u8],
    fit: impl Fn(&[f32]) -> F,
    put: impl Fn(&[f32; 32], &F, usize, &mut [u8; BYTES]),
) {
    let batches = weights.chunks(GROUPS * 32);
    for (weights, out) in batches.zip(out.chunks_mut(GROUPS * BYTES)) {
        let fitted = fit(weights);
        let (blocks, _) = weights.as_chunks::<32>();
        let (out, _) = out.as_chunks_mut::<BYTES>();
        for (i, (x, out)) in blocks.iter().zip(out).enumerate() {
            put(x, &fitted, i, out);
        }
    }
}

/// Where the outermost weight is put. Its own side has a level more than the other.
const FOUR: [f32; 5] = [-8.0, 7.0, -7.0, -7.5, -8.5];
const FIVE: [f32; 5] = [-16.0, 15.0, -15.4, -16.5, -17.0];

#[inline(always)]
pub fn q4_0(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| symmetric::<32>(x, 8.0, &FOUR);
    in_batches(weights, out, fit, |x, scales, i, out: &mut [u8; 18]| {
        let d = put_half(out, 0, scales[i]);
        let mut levels = [0; 32];
        put_levels(x, 0.0, inverse(d), (-8.0, 7.0), &mut levels);
        put_nibbles(&levels, &mut out[2..]);
    });
}

#[inline(always)]
pub fn q5_0(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| symmetric::<32>(x, 16.0, &FIVE);
    in_batches(weights, out, fit, |x, scales, i, out: &mut [u8; 22]| {
        let d = put_half(out, 0, scales[i]);
        let mut levels = [0; 32];
        put_levels(x, 0.0, inverse(d), (-16.0, 15.0), &mut levels);
        out[2..6].copy_from_slice(&fifth_bits(&levels));
        put_nibbles(&levels, &mut out[6..]);
    });
}

/// How many steps the range of weights is.
const FOUR_STEPS: [f32; 6] = [15.0, 14.0, 14.5, 15.5, 16.0, 16.5];
const FIVE_STEPS: [f32; 4] = [31.0, 30.5, 31.5, 32.0];

#[inline(always)]
pub fn q4_1(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| affine::<32>(x, 15.0, false, &FOUR_STEPS);
    in_batches(
        weights,
        out,
        fit,
        |x, (scales, offsets), i, out: &mut [u8; 20]| {
            let d = put_half(out, 0, scales[i]);
            let m = put_half(out, 2, offsets[i]);
            let mut levels = [0; 32];
            put_levels(x, -m, inverse(d), (0.0, 15.0), &mut levels);
            put_nibbles(&levels, &mut out[4..]);
        },
    );
}

#[inline(always)]
pub fn q5_1(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| affine::<32>(x, 31.0, false, &FIVE_STEPS);
    in_batches(
        weights,
        out,
        fit,
        |x, (scales, offsets), i, out: &mut [u8; 24]| {
            let d = put_half(out, 0, scales[i]);
            let m = put_half(out, 2, offsets[i]);
            let mut levels = [0; 32];
            put_levels(x, -m, inverse(d), (0.0, 31.0), &mut levels);
            out[4..8].copy_from_slice(&fifth_bits(&levels));
            put_nibbles(&levels, &mut out[8..]);
        },
    );
}

/// Plain rounding: with 255 levels, a search gains nothing worth its time.
#[inline(always)]
pub fn q8_0(weights: &[f32], out: &mut [u8]) {
    let (blocks, _) = weights.as_chunks::<32>();
    let (out, _) = out.as_chunks_mut::<34>();
    for (x, out) in blocks.iter().zip(out) {
        // Bits of positive numbers are in the order of the numbers.
        let mut peak = 0;
        for x in x {
            peak = peak.max(x.to_bits() & 0x7fff_ffff);
        }
        let d = put_half(out, 0, f32::from_bits(peak) / 127.0);
        let mut levels = [0; 32];
        put_levels(x, 0.0, inverse(d), (-127.0, 127.0), &mut levels);
        for (out, level) in out[2..].iter_mut().zip(levels) {
            *out = level.wrapping_sub(127) as u8;
        }
    }
}
