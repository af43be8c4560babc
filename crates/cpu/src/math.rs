//! Norm, activation function and softmax.

use crate::simd::{ROUND, Simd, Task};

/// `eˣ`, with a relative error below 2 × 10⁻⁷; `x` is kept within -87 and 88.
///
/// `x = n ln 2 + r` with an integer `n` and `r` within half of `ln 2`; `eʳ` is its Taylor polynomial of
/// degree 7, whose remainder is 10⁻⁸.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    // The logarithm of 2 in two parts; the first has few digits, so that its product with n is exact.
    const HIGH: f32 = 355.0 / 512.0;
    const LOW: f32 = -2.121_944_4e-4;
    let x = simd.min(simd.max(x, simd.splat(-87.0)), simd.splat(88.0));
    let scaled = simd.mul(x, simd.splat(std::f32::consts::LOG2_E));
    let rounded = simd.add(scaled, simd.splat(ROUND));
    let n = simd.sub(rounded, simd.splat(ROUND));
    let rest = simd.mul_add(n, simd.splat(-HIGH), x);
    let rest = simd.mul_add(n, simd.splat(-LOW), rest);
    let mut power = simd.splat(1.0 / 5040.0);
    for coefficient in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        power = simd.mul_add(power, rest, simd.splat(coefficient));
    }
    simd.mul(power, simd.power_of_two(rounded))
}

/// The sum of the lanes, in a fixed order.
#[inline(always)]
fn sum<S: Simd>(simd: S, a: S::Floats) -> f32 {
    let mut lanes = [0.0; 8];
    simd.store(a, &mut lanes);
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Eight numbers of the end of a slice, with zeros after them.
fn padded(rest: &[f32]) -> [f32; 8] {
    let mut all = [0.0; 8];
    all[..rest.len()].copy_from_slice(rest);
    all
}

/// RMS norm of each token: `x gains / sqrt(mean(x²) + eps)`.
pub struct Norm<'a> {
    /// `tokens × dim`.
    pub x: &'a [f32],
    /// `dim`.
    pub gains: &'a [f32],
    /// Added to the mean square.
    pub eps: f32,
    /// `tokens × dim`.
    pub out: &'a mut [f32],
}

impl Task for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let dim = self.gains.len();
        let tokens = self.x.chunks_exact(dim).zip(self.out.chunks_exact_mut(dim));
        for (x, out) in tokens {
            let (whole, rest) = x.as_chunks::<8>();
            let rest = simd.load(&padded(rest));
            let mut squares = simd.mul(rest, rest);
            for x in whole {
                let x = simd.load(x);
                squares = simd.mul_add(x, x, squares);
            }
            let scale = 1.0 / (sum(simd, squares) / dim as f32 + self.eps).sqrt();
            for ((out, x), gain) in out.iter_mut().zip(x).zip(self.gains) {
                *out = x * scale * gain;
            }
        }
    }
}

/// `silu(gate) up`, in place of `gate`.
pub struct Gated<'a> {
    /// Gates, replaced by the result.
    pub gate: &'a mut [f32],
    /// As many.
    pub up: &'a [f32],
}

#[inline(always)]
fn gated<S: Simd>(simd: S, gate: &mut [f32; 8], up: &[f32; 8]) {
    let x = simd.load(gate);
    let falling = exp(simd, simd.sub(simd.splat(0.0), x));
    let silu = simd.div(x, simd.add(falling, simd.splat(1.0)));
    simd.store(simd.mul(silu, simd.load(up)), gate);
}

impl Task for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gate, gate_rest) = self.gate.as_chunks_mut::<8>();
        let (up, up_rest) = self.up.as_chunks::<8>();
        for (gate, up) in gate.iter_mut().zip(up) {
            gated(simd, gate, up);
        }
        let mut last = padded(gate_rest);
        gated(simd, &mut last, &padded(up_rest));
        gate_rest.copy_from_slice(&last[..gate_rest.len()]);
    }
}

/// Replaces the first `count` scores by `eˢ⁻ᵐᵃˣ` and the others by zeros; returns their sum.
#[inline(always)]
pub fn softmax<S: Simd>(simd: S, scores: &mut [[f32; 8]], count: usize) -> f32 {
    let flat = scores.as_flattened_mut();
    let largest = flat[..count].iter().copied();
    let largest = largest.fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    flat[count..].fill(largest);
    for lanes in scores.iter_mut() {
        let scores = simd.load(lanes);
        simd.store(exp(simd, simd.sub(scores, simd.splat(largest))), lanes);
    }
    scores.as_flattened_mut()[count..].fill(0.0);
    let mut total = simd.splat(0.0);
    for lanes in scores.iter() {
        total = simd.add(total, simd.load(lanes));
    }
    sum(simd, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    struct Exp([f32; 8]);

    impl Task for Exp {
        type Output = [f32; 8];

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [f32; 8] {
            let mut out = [0.0; 8];
            simd.store(exp(simd, simd.load(&self.0)), &mut out);
            out
        }
    }

    #[test]
    fn the_exponential_is_good_to_single_precision() {
        let mut worst = 0.0f64;
        for step in 0..175_000 {
            let x: [f32; 8] =
                std::array::from_fn(|i| -87.0 + step as f32 * 0.001 + i as f32 * 1e-4);
            for level in Level::all() {
                for (x, found) in x.iter().zip(level.run(Exp(x))) {
                    let exact = f64::from(x.min(88.0)).exp();
                    worst = worst.max((f64::from(found) / exact - 1.0).abs());
                }
            }
        }
        assert!(worst < 2e-7, "{worst}");
    }

    #[test]
    fn the_exponential_ends_where_it_must() {
        for level in Level::all() {
            let ends = [-1e30, -88.0, -87.0, 0.0, 88.0, 89.0, 1e30, -0.0];
            let found = level.run(Exp(ends));
            assert!(found.iter().all(|x| x.is_finite() && *x > 0.0));
            assert_eq!((found[3], found[7]), (1.0, 1.0));
        }
    }
}
