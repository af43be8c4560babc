//! Scales of groups of weights, by least squares over candidates.
//!
//! Many groups are searched at once, side by side: their first weights, their second weights and so on
//! lie together, so that every step is the same for all of them and the compiler uses vectors. Groups
//! are measured in units of their largest weight, so that no sum overflows or vanishes.

use half::f16;

/// Groups that are searched at once. Fewer, and loops over them are unrolled before they are
/// vectorized, which makes them several times slower.
pub const GROUPS: usize = 32;

/// A number for each group.
pub type Lanes = [f32; GROUPS];

/// Adding this to a number of at most a few million and taking it away rounds to the nearest integer,
/// ties to even; in between, the integer is in the low bits. Unlike a conversion, every instruction set
/// has this for vectors.
const ROUND: f32 = 12_582_912.0;

/// A group whose largest weight is below this is all zero: half the smallest half float.
const NOTHING: f32 = 2.0e-8;

/// Errors below this part of the whole may be none at all but for rounding.
const NEARLY_EXACT: f32 = 1e-5;

/// `value`, put into `low..=high`. Not as the standard library does it, which heeds numbers that are
/// none.
#[inline(always)]
fn within(value: f32, low: f32, high: f32) -> f32 {
    let value = if value > low { value } else { low };
    if value < high { value } else { high }
}

/// The nearest integer to `value`, which is put into `low..=high` first.
#[inline(always)]
pub fn round(value: f32, low: f32, high: f32) -> f32 {
    within(value, low, high) + ROUND - ROUND
}

/// One over `value`; zero for zero, so that all levels are zero then.
#[inline(always)]
pub fn inverse(value: f32) -> f32 {
    if value == 0.0 { 0.0 } else { 1.0 / value }
}

/// The levels nearest to `(x + offset) * steps`, counted from `low`.
#[inline(always)]
pub fn put_levels<const N: usize>(
    x: &[f32; N],
    offset: f32,
    steps: f32,
    (low, high): (f32, f32),
    out: &mut [u32; N],
) {
    for (out, x) in out.iter_mut().zip(x) {
        let value = within((x + offset) * steps, low, high);
        *out = (value - low + ROUND).to_bits() - ROUND.to_bits();
    }
}

/// Groups of `N` weights, side by side. Where there are fewer than [`GROUPS`], the others are zero.
fn side_by_side<const N: usize>(x: &[f32]) -> [Lanes; N] {
    let mut lanes = [[0.0; GROUPS]; N];
    let (groups, _) = x.as_chunks::<N>();
    for (lane, group) in groups.iter().enumerate().take(GROUPS) {
        for (lanes, x) in lanes.iter_mut().zip(group) {
            lanes[lane] = *x;
        }
    }
    lanes
}

/// The smallest and the largest weight of each group.
#[inline(always)]
fn ranges<const N: usize>(x: &[Lanes; N]) -> (Lanes, Lanes) {
    let (mut low, mut high) = (x[0], x[0]);
    for x in x {
        for i in 0..GROUPS {
            low[i] = if x[i] < low[i] { x[i] } else { low[i] };
            high[i] = if x[i] > high[i] { x[i] } else { high[i] };
        }
    }
    (low, high)
}

/// For each of up to [`GROUPS`] groups of `N` weights: the scale `d` for which `d q`, with whole `q`
/// from `-levels` to `levels - 1`, is nearest to the weights, among scales that put the outermost weight
/// at one of `candidates`.
#[inline(always)]
pub fn symmetric<const N: usize>(x: &[f32], levels: f32, candidates: &[f32]) -> Lanes {
    let mut t = side_by_side::<N>(x);
    let (mut min, max) = ranges(&t);
    // From here on `min` is the outermost weight.
    let mut unit = [0.0; GROUPS];
    for i in 0..GROUPS {
        let peak = if max[i] > -min[i] { max[i] } else { min[i] };
        min[i] = peak;
        unit[i] = if peak.abs() < NOTHING {
            0.0
        } else {
            1.0 / peak
        };
    }
    let peak = min;
    let mut all = [0.0; GROUPS];
    for t in &mut t {
        for i in 0..GROUPS {
            t[i] *= unit[i];
            all[i] += t[i] * t[i];
        }
    }
    let (low, high) = (-levels, levels - 1.0);
    let (mut best, mut scale) = ([0.0; GROUPS], [0.0; GROUPS]);
    let (pairs, _) = t.as_chunks::<2>();
    for candidate in candidates {
        let (mut with, mut square) = ([0.0; GROUPS], [0.0; GROUPS]);
        for [a, b] in pairs {
            for i in 0..GROUPS {
                let p = round(a[i] * candidate, low, high);
                let q = round(b[i] * candidate, low, high);
                with[i] += a[i] * p + b[i] * q;
                square[i] += p * p + q * q;
            }
        }
        for i in 0..GROUPS {
            let inverse = 1.0 / square[i];
            // By this much the square error is below that of all zeros. In a group of zeros it is
            // no number and not above any.
            let gain = with[i] * with[i] * inverse;
            let found = with[i] * inverse;
            scale[i] = if gain > best[i] { found } else { scale[i] };
            best[i] = if gain > best[i] { gain } else { best[i] };
        }
    }
    let (groups, _) = x.as_chunks::<N>();
    for (i, group) in groups.iter().enumerate().take(GROUPS) {
        scale[i] *= peak[i];
        if all[i] - best[i] < NEARLY_EXACT * all[i]
            && let Some(exact) = exact_symmetric(group, peak[i], levels)
        {
            scale[i] = exact;
        }
    }
    scale
}

/// The half float of which all weights are multiples within the levels, if there is one.
#[inline(never)]
fn exact_symmetric(x: &[f32], peak: f32, levels: f32) -> Option<f32> {
    let fits = |scale: f32| {
        scale != 0.0
            && x.iter().all(|x| {
                let q = round(x / scale, -levels, levels - 1.0);
                q * scale == *x
            })
    };
    // The outermost weight may be at any level.
    let mut level = levels;
    while level > 0.0 {
        for at in [-level, level] {
            let scale = f16::from_f32(peak / at).to_f32();
            if scale.is_finite() && fits(scale) {
                return Some(scale);
            }
        }
        level -= 1.0;
    }
    None
}

/// For each of up to [`GROUPS`] groups of `N` weights: scale and offset of the line `scale q + offset`,
/// with whole `q` from 0 to `top`, that is nearest to the weights, among those that put the range of
/// weights to one of `candidates` steps. With `below`, the offset is not above zero.
#[inline(always)]
pub fn affine<const N: usize>(
    x: &[f32],
    top: f32,
    below: bool,
    candidates: &[f32],
) -> (Lanes, Lanes) {
    let mut t = side_by_side::<N>(x);
    let (mut min, max) = ranges(&t);
    let (mut peak, mut unit, mut span) = ([0.0; GROUPS], [0.0; GROUPS], [0.0; GROUPS]);
    let (mut scale, mut offset) = ([0.0; GROUPS], [0.0; GROUPS]);
    for i in 0..GROUPS {
        peak[i] = if max[i] > -min[i] { max[i] } else { -min[i] };
        unit[i] = if peak[i] < NOTHING {
            0.0
        } else {
            1.0 / peak[i]
        };
        min[i] = if below && min[i] > 0.0 { 0.0 } else { min[i] };
        offset[i] = min[i] * unit[i];
        // Zero where all weights are the same; such a group keeps its offset and has no scale.
        span[i] = max[i] * unit[i] - offset[i];
    }
    let (mut sum, mut squares) = ([0.0; GROUPS], [0.0; GROUPS]);
    for t in &mut t {
        for i in 0..GROUPS {
            t[i] *= unit[i];
            sum[i] += t[i];
            squares[i] += t[i] * t[i];
        }
    }
    let low = offset;
    let mut best = [f32::MAX; GROUPS];
    let count = N as f32;
    let (pairs, _) = t.as_chunks::<2>();
    for candidate in candidates {
        let (mut steps, mut start) = ([0.0; GROUPS], [0.0; GROUPS]);
        for i in 0..GROUPS {
            steps[i] = if span[i] > 0.0 {
                candidate / span[i]
            } else {
                0.0
            };
            start[i] = -low[i] * steps[i];
        }
        let mut q1 = [0.0; GROUPS];
        let mut q2 = [0.0; GROUPS];
        let mut with = [0.0; GROUPS];
        for [a, b] in pairs {
            for i in 0..GROUPS {
                let p = round(a[i] * steps[i] + start[i], 0.0, top);
                let q = round(b[i] * steps[i] + start[i], 0.0, top);
                q1[i] += p + q;
                q2[i] += p * p + q * q;
                with[i] += a[i] * p + b[i] * q;
            }
        }
        for i in 0..GROUPS {
            let (q1, q2, with, sum) = (q1[i], q2[i], with[i], sum[i]);
            // Zero where all weights have one level, which is no line. These are whole numbers that
            // `f32` holds exactly.
            let determinant = count * q2 - q1 * q1;
            let inverse = if determinant > 0.0 {
                1.0 / determinant
            } else {
                f32::NAN
            };
            let a = (count * with - sum * q1) * inverse;
            let b = (q2 * sum - q1 * with) * inverse;
            let through_zero = below && (b > 0.0 || determinant == 0.0);
            let a = if through_zero { with / q2 } else { a };
            let b = if through_zero { 0.0 } else { b };
            let error =
                squares[i] + a * (a * q2 + 2.0 * (b * q1 - with)) + b * (b * count - 2.0 * sum);
            scale[i] = if error < best[i] { a } else { scale[i] };
            offset[i] = if error < best[i] { b } else { offset[i] };
            best[i] = if error < best[i] { error } else { best[i] };
        }
    }
    let (groups, _) = x.as_chunks::<N>();
    for (i, group) in groups.iter().enumerate().take(GROUPS) {
        scale[i] *= peak[i];
        offset[i] *= peak[i];
        if best[i] < NEARLY_EXACT * squares[i]
            && !below
            && let Some(exact) = exact_affine(group, min[i], max[i], top)
        {
            (scale[i], offset[i]) = exact;
        }
    }
    (scale, offset)
}

/// Two half floats, scale and offset, of a line on which all weights are, if there is one that begins at
/// the smallest.
#[inline(never)]
fn exact_affine(x: &[f32], min: f32, max: f32, top: f32) -> Option<(f32, f32)> {
    let offset = f16::from_f32(min).to_f32();
    let fits = |scale: f32| {
        x.iter().all(|x| {
            let q = round((x - offset) / scale, 0.0, top);
            q * scale + offset == *x
        })
    };
    let mut level = top;
    while level > 0.0 {
        let scale = f16::from_f32((max - min) / level).to_f32();
        if scale > 0.0 && scale.is_finite() && fits(scale) {
            return Some((scale, offset));
        }
        level -= 1.0;
    }
    None
}
