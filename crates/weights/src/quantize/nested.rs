//! Blocks of 256 weights whose groups have scales of a few bits: the K types.

use super::fit::{GROUPS, affine, inverse, put_levels, round, symmetric};
use super::put_half;

/// Bit pairs as Q2_K, Q3_K and Q6_K have them: each half of 128 weights has 32 bytes; its four runs of
/// 32 weights are the four bit pairs of these bytes. `levels >> shift` are stored.
#[inline(always)]
fn put_pairs(levels: &[u32; 256], shift: u32, out: &mut [u8]) {
    for (half, out) in levels.chunks_exact(128).zip(out.chunks_exact_mut(32)) {
        for (i, out) in out.iter_mut().enumerate() {
            let [a, b, c, d] = [half[i], half[32 + i], half[64 + i], half[96 + i]];
            let pairs = (a >> shift & 3)
                | (b >> shift & 3) << 2
                | (c >> shift & 3) << 4
                | (d >> shift & 3) << 6;
            *out = pairs as u8;
        }
    }
}

/// Nibbles as Q4_K, Q5_K (runs of 32) and Q6_K (runs of 64) have them: of every two runs, the first is
/// in the low halves of the bytes, the second in the high halves.
#[inline(always)]
fn put_nibbles<const RUN: usize>(levels: &[u32; 256], out: &mut [u8]) {
    for (both, out) in levels.chunks_exact(2 * RUN).zip(out.chunks_exact_mut(RUN)) {
        let (low, high) = both.split_at(RUN);
        for (out, (low, high)) in out.iter_mut().zip(low.iter().zip(high)) {
            *out = (low & 15 | (high & 15) << 4) as u8;
        }
    }
}

/// One bit of each level: bit `j` of byte `i` belongs to weight `32 j + i`.
#[inline(always)]
fn put_bits(levels: &[u32; 256], shift: u32, out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate().take(32) {
        let mut bits = 0;
        for j in 0..8 {
            bits |= (levels[32 * j + i] >> shift & 1) << j;
        }
        *out = bits as u8;
    }
}

/// What the types have in common: lines for each group of `SIZE` weights, of a few blocks at once, and
/// then block by block what `put` makes of weights and lines.
#[inline(always)]
fn in_batches<const SIZE: usize, const BYTES: usize, F>(
    weights: &[f32],
    out: &mut [u8],
    fit: impl Fn(&[f32]) -> F,
    put: impl Fn(&[f32; 256], &F, usize, &mut [u8; BYTES]),
) {
    let blocks = GROUPS * SIZE / 256;
    let batches = weights.chunks(blocks * 256);
    for (weights, out) in batches.zip(out.chunks_mut(blocks * BYTES)) {
        let fitted = fit(weights);
        let (blocks, _) = weights.as_chunks::<256>();
        let (out, _) = out.as_chunks_mut::<BYTES>();
        for (i, (x, out)) in blocks.iter().zip(out).enumerate() {
            put(x, &fitted, i * (256 / SIZE), out);
        }
    }
}

/// Rounds sixteen scales to whole numbers from `-most` to `most - 1` of a unit, which puts the outermost
/// at `-most` and is stored at byte `at`. Returns the whole numbers and the scales they mean.
#[inline(always)]
fn round_scales(scales: &[f32], most: f32, out: &mut [u8], at: usize) -> ([f32; 16], [f32; 16]) {
    let mut outermost = 0f32;
    for scale in scales {
        let further = scale.abs() > outermost.abs();
        outermost = if further { *scale } else { outermost };
    }
    let d = put_half(out, at, outermost / -most);
    let steps = inverse(d);
    let (mut whole, mut meant) = ([0.0; 16], [0.0; 16]);
    for (i, scale) in scales.iter().enumerate().take(16) {
        whole[i] = round(scale * steps, -most, most - 1.0);
        meant[i] = d * whole[i];
    }
    (whole, meant)
}

/// The levels of 256 weights in groups of 16 with these scales.
#[inline(always)]
fn levels_of(x: &[f32; 256], scales: &[f32; 16], levels: f32) -> [u32; 256] {
    let mut all = [0; 256];
    let (groups, _) = x.as_chunks::<16>();
    let (level_groups, _) = all.as_chunks_mut::<16>();
    for (j, (out, x)) in level_groups.iter_mut().zip(groups).enumerate() {
        put_levels(x, 0.0, inverse(scales[j]), (-levels, levels - 1.0), out);
    }
    all
}

/// Where the outermost weight of a group is put.
const SIX: [f32; 5] = [-32.0, 31.0, -31.0, -31.5, -32.6];
const THREE: [f32; 8] = [-4.0, 3.0, -3.0, -3.3, -3.6, -4.4, 3.4, 2.6];

#[inline(always)]
pub fn q6_k(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| symmetric::<16>(x, 32.0, &SIX);
    in_batches::<16, 210, _>(weights, out, fit, |x, scales, first, out| {
        let (whole, meant) = round_scales(&scales[first..first + 16], 128.0, out, 208);
        let levels = levels_of(x, &meant, 32.0);
        put_nibbles::<64>(&levels, &mut out[..128]);
        put_pairs(&levels, 4, &mut out[128..192]);
        for (out, scale) in out[192..208].iter_mut().zip(whole) {
            *out = scale as i8 as u8;
        }
    });
}

#[inline(always)]
pub fn q3_k(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| symmetric::<16>(x, 4.0, &THREE);
    in_batches::<16, 110, _>(weights, out, fit, |x, scales, first, out| {
        let (whole, meant) = round_scales(&scales[first..first + 16], 32.0, out, 108);
        let levels = levels_of(x, &meant, 4.0);
        // A clear third bit takes four away, so levels counted from -4 have it as it is.
        put_bits(&levels, 2, &mut out[..32]);
        put_pairs(&levels, 0, &mut out[32..96]);
        out[96..108].fill(0);
        for (j, scale) in whole.into_iter().enumerate() {
            let scale = (scale as i8 + 32) as u8;
            out[96 + j % 8] |= (scale & 15) << (4 * (j / 8));
            out[104 + j % 4] |= scale >> 4 << (2 * (j / 4));
        }
    });
}

/// Scales and minimums of a block's groups, as whole numbers of two units.
struct Lines<const COUNT: usize> {
    units: (f32, f32),
    scales: [f32; COUNT],
    mins: [f32; COUNT],
}

impl<const COUNT: usize> Lines<COUNT> {
    /// Rounds lines to whole numbers up to `most` and stores the units at byte `at`.
    #[inline(always)]
    fn round(scales: &[f32], offsets: &[f32], most: f32, out: &mut [u8], at: usize) -> Self {
        let (mut scale, mut min) = (0f32, 0f32);
        for (s, offset) in scales.iter().zip(offsets) {
            scale = scale.max(*s);
            min = min.max(-offset);
        }
        let d = put_half(out, at, scale / most);
        let e = put_half(out, at + 2, min / most);
        let (scale_steps, min_steps) = (inverse(d), inverse(e));
        let mut lines = Self {
            units: (d, e),
            scales: [0.0; COUNT],
            mins: [0.0; COUNT],
        };
        for (j, (scale, offset)) in scales.iter().zip(offsets).enumerate().take(COUNT) {
            lines.scales[j] = round(scale * scale_steps, 0.0, most);
            lines.mins[j] = round(-offset * min_steps, 0.0, most);
        }
        lines
    }

    /// The levels of 256 weights in groups of `SIZE`.
    #[inline(always)]
    fn levels<const SIZE: usize>(&self, x: &[f32; 256], top: f32) -> [u32; 256] {
        let mut all = [0; 256];
        let (groups, _) = x.as_chunks::<SIZE>();
        let (level_groups, _) = all.as_chunks_mut::<SIZE>();
        for (j, (out, x)) in level_groups.iter_mut().zip(groups).enumerate() {
            let steps = inverse(self.units.0 * self.scales[j]);
            let min = self.units.1 * self.mins[j];
            put_levels(x, min, steps, (0.0, top), out);
        }
        all
    }
}

/// How many steps the range of a group's weights is.
const TWO_STEPS: [f32; 8] = [3.0, 2.2, 2.5, 2.75, 3.25, 3.5, 3.75, 4.0];
const FOUR_STEPS: [f32; 10] = [15.0, 13.0, 13.6, 14.0, 14.4, 14.7, 15.3, 15.6, 16.0, 16.5];
const FIVE_STEPS: [f32; 5] = [31.0, 30.0, 30.5, 31.6, 32.4];

#[inline(always)]
pub fn q2_k(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| affine::<16>(x, 3.0, true, &TWO_STEPS);
    in_batches::<16, 84, _>(weights, out, fit, |x, (scales, offsets), first, out| {
        let groups = first..first + 16;
        let lines = Lines::<16>::round(&scales[groups.clone()], &offsets[groups], 15.0, out, 80);
        for (j, out) in out[..16].iter_mut().enumerate() {
            *out = lines.scales[j] as u8 | (lines.mins[j] as u8) << 4;
        }
        put_pairs(&lines.levels::<16>(x, 3.0), 0, &mut out[16..80]);
    });
}

/// The lines of Q4_K and Q5_K: two units in front of twelve bytes that hold eight 6-bit scales and
/// minimums; see [`crate::codec`].
#[inline(always)]
fn put_lines(
    (scales, offsets): &([f32; GROUPS], [f32; GROUPS]),
    first: usize,
    out: &mut [u8],
) -> Lines<8> {
    let groups = first..first + 8;
    let lines = Lines::<8>::round(&scales[groups.clone()], &offsets[groups], 63.0, out, 0);
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..8 {
        scales[j] = lines.scales[j] as u8;
        mins[j] = lines.mins[j] as u8;
    }
    let out = &mut out[4..16];
    for j in 0..4 {
        out[j] = scales[j] | scales[4 + j] >> 4 << 6;
        out[4 + j] = mins[j] | mins[4 + j] >> 4 << 6;
        out[8 + j] = scales[4 + j] & 15 | mins[4 + j] << 4;
    }
    lines
}

#[inline(always)]
pub fn q4_k(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| affine::<32>(x, 15.0, true, &FOUR_STEPS);
    in_batches::<32, 144, _>(weights, out, fit, |x, fitted, first, out| {
        let lines = put_lines(fitted, first, out);
        put_nibbles::<32>(&lines.levels::<32>(x, 15.0), &mut out[16..]);
    });
}

#[inline(always)]
pub fn q5_k(weights: &[f32], out: &mut [u8]) {
    let fit = |x: &[f32]| affine::<32>(x, 31.0, true, &FIVE_STEPS);
    in_batches::<32, 176, _>(weights, out, fit, |x, fitted, first, out| {
        let lines = put_lines(fitted, first, out);
        let levels = lines.levels::<32>(x, 31.0);
        put_bits(&levels, 4, &mut out[16..48]);
        put_nibbles::<32>(&levels, &mut out[48..]);
    });
}
