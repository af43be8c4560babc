//! Vectors as arrays, for processors that have no module of their own.

use std::array::from_fn;

use half::{bf16, f16};

use super::{Quad, Simd};

/// Plain code.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

fn lanes16(a: [u8; 32], change: impl Fn(u16) -> u16) -> [u8; 32] {
    from_fn(|i| {
        let lane = u16::from_le_bytes([a[i & !1], a[i | 1]]);
        change(lane).to_le_bytes()[i & 1]
    })
}

impl Simd for Portable {
    type Bytes = [u8; 32];
    type Wide = [u8; 64];
    type Sums = [i32; 8];
    type Floats = [f32; 8];

    const TILE: usize = 4;

    #[inline(always)]
    fn quad(self, codes: [i32; 4], _: bool) -> Quad {
        let [a, b, c, d] = codes;
        [a & 0xFFFF | b << 16, c & 0xFFFF | d << 16]
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 32]) -> [u8; 32] {
        *from
    }

    #[inline(always)]
    fn mask(self, a: [u8; 32], mask: u8) -> [u8; 32] {
        a.map(|byte| byte & mask)
    }

    #[inline(always)]
    fn or(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn shift_left(self, a: [u8; 32], bits: u32) -> [u8; 32] {
        lanes16(a, |lane| lane << bits)
    }

    #[inline(always)]
    fn shift_right(self, a: [u8; 32], bits: u32) -> [u8; 32] {
        lanes16(a, |lane| lane >> bits)
    }

    /// The first half holds the bytes, the second their signs.
    #[inline(always)]
    fn widen(self, codes: [u8; 32], signed: bool) -> [u8; 64] {
        from_fn(|i| match codes.get(i) {
            Some(code) => *code,
            None if signed && codes[i - 32] > 127 => 255,
            None => 0,
        })
    }

    #[inline(always)]
    fn load_wide(self, from: &[u8; 64]) -> [u8; 64] {
        *from
    }

    #[inline(always)]
    fn store_wide(self, a: [u8; 64], to: &mut [u8; 64]) {
        *to = a;
    }

    #[inline(always)]
    fn dot(self, sum: [i32; 8], codes: [u8; 64], quad: [&i32; 2], _: bool) -> [i32; 8] {
        let [[a, b], [c, d]] = quad.map(|both| [i32::from(*both as i16), both >> 16]);
        let activations = [a, b, c, d];
        from_fn(|row| {
            let products = (4 * row..4 * row + 4).map(|i| {
                let code = i16::from_le_bytes([codes[i], codes[32 + i]]);
                i32::from(code) * activations[i % 4]
            });
            sum[row] + products.sum::<i32>()
        })
    }

    #[inline(always)]
    fn column(self, codes: [u8; 32], column: u32) -> [f32; 8] {
        from_fn(|row| f32::from(codes[4 * row + column as usize]))
    }

    #[inline(always)]
    fn column_signed(self, codes: [u8; 32], column: u32) -> [f32; 8] {
        from_fn(|row| f32::from(codes[4 * row + column as usize] as i8))
    }

    #[inline(always)]
    fn sums(self, value: i32) -> [i32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn to_floats(self, a: [i32; 8]) -> [f32; 8] {
        a.map(|value| value as f32)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> [f32; 8] {
        *from
    }

    #[inline(always)]
    fn store(self, a: [f32; 8], to: &mut [f32; 8]) {
        *to = a;
    }

    #[inline(always)]
    fn halves(self, from: &[u16; 8]) -> [f32; 8] {
        from.map(|bits| f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn bfloats(self, from: &[u16; 8]) -> [f32; 8] {
        from.map(|bits| bf16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn unsigned(self, from: &[u8; 8]) -> [f32; 8] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn signed(self, from: &[i8; 8]) -> [f32; 8] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        from_fn(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        from_fn(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn max(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn abs(self, a: [f32; 8]) -> [f32; 8] {
        a.map(f32::abs)
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn power_of_two(self, rounded: [f32; 8]) -> [f32; 8] {
        rounded.map(|x| f32::from_bits((x.to_bits() << 23).wrapping_add(1f32.to_bits())))
    }
}
