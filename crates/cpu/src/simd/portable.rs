//! Vectors as arrays, for processors that have no module of their own.

use std::array::from_fn;

use half::{bf16, f16};

use super::{Quad, Simd};

/// Plain code.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

/// The four activations of a quad.
fn activations(quad: Quad) -> [i32; 4] {
    quad[0].to_le_bytes().map(|byte| i32::from(byte as i8))
}

fn dot(sum: [i32; 8], codes: [u8; 32], quad: Quad, value: impl Fn(u8) -> i32) -> [i32; 8] {
    let activations = activations(quad);
    from_fn(|row| {
        let products = (0..4).map(|i| value(codes[4 * row + i]) * activations[i]);
        sum[row] + products.sum::<i32>()
    })
}

fn lanes16(a: [u8; 32], change: impl Fn(u16) -> u16) -> [u8; 32] {
    from_fn(|i| {
        let lane = u16::from_le_bytes([a[i & !1], a[i | 1]]);
        change(lane).to_le_bytes()[i & 1]
    })
}

impl Simd for Portable {
    type Bytes = [u8; 32];
    type Ints = [i32; 8];
    type Floats = [f32; 8];

    const GAIN: i32 = 1;
    const SIGNED_GAIN: i32 = 1;

    #[inline(always)]
    fn quad(self, codes: [i32; 4], _: bool) -> Quad {
        [i32::from_le_bytes(codes.map(|code| code as u8)), 0]
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 32]) -> [u8; 32] {
        *from
    }

    #[inline(always)]
    fn store_bytes(self, a: [u8; 32], to: &mut [u8; 32]) {
        *to = a;
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

    #[inline(always)]
    fn dot(self, sum: [i32; 8], codes: [u8; 32], quad: Quad) -> [i32; 8] {
        dot(sum, codes, quad, i32::from)
    }

    #[inline(always)]
    fn dot_signed(self, sum: [i32; 8], codes: [u8; 32], quad: Quad) -> [i32; 8] {
        dot(sum, codes, quad, |code| i32::from(code as i8))
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
    fn ints(self, value: i32) -> [i32; 8] {
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
