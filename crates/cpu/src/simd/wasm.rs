//! WebAssembly's SIMD, with a vector of eight lanes as two of four.
//!
//! Plain SIMD multiplies in 16 bits. Relaxed SIMD multiplies bytes: an activation is then
//! `128 high + low`, both signed bytes, and the weights are the seven-bit operand, for which all engines
//! agree.

use std::arch::wasm32::*;

use super::{Quad, Simd, Task};

/// WebAssembly's SIMD, which every engine that takes this module has.
#[derive(Clone, Copy, Debug)]
pub struct Wasm(());

impl Wasm {
    /// There is nothing to look at: a module with SIMD does not compile where there is none.
    pub fn new() -> Self {
        Self(())
    }

    /// Does a task.
    pub fn run<T: Task>(self, task: T) -> T::Output {
        #[cfg_attr(feature = "relaxed", target_feature(enable = "relaxed-simd"))]
        #[target_feature(enable = "simd128")]
        fn enter<T: Task>(task: T, wasm: Wasm) -> T::Output {
            task.run(wasm)
        }
        enter(task, self)
    }
}

/// Eight lanes of 32 bits.
#[derive(Clone, Copy)]
pub struct Two(v128, v128);

/// Sums of products; relaxed, with the low and with the high bytes of activations.
#[derive(Clone, Copy)]
pub struct Sums {
    low: Two,
    #[cfg(feature = "relaxed")]
    high: Two,
}

/// 16 bytes from memory.
#[expect(unsafe_code, reason = "a load through a reference of the same size")]
#[inline(always)]
fn load<T>(from: &[T]) -> v128 {
    debug_assert!(size_of_val(from) >= 16);
    // SAFETY: callers pass 16 bytes.
    unsafe { v128_load(from.as_ptr().cast()) }
}

/// 32 bytes to memory.
#[expect(unsafe_code, reason = "a store through a reference of the same size")]
#[inline(always)]
fn store<T>(a: Two, to: std::ops::Range<*mut T>) {
    let first: *mut v128 = to.start.cast();
    // SAFETY: callers pass the range of an array of 32 bytes; stores need no alignment.
    unsafe {
        v128_store(first, a.0);
        v128_store(first.add(1), a.1);
    }
}

#[inline(always)]
fn dot16(sum: Two, codes: Two, pair: &i32) -> Two {
    let pair = i32x4_splat(*pair);
    Two(
        i32x4_add(sum.0, i32x4_dot_i16x8(codes.0, pair)),
        i32x4_add(sum.1, i32x4_dot_i16x8(codes.1, pair)),
    )
}

impl Two {
    #[inline(always)]
    fn map(self, change: impl Fn(v128) -> v128) -> Self {
        Self(change(self.0), change(self.1))
    }

    #[inline(always)]
    fn with(self, other: Self, both: impl Fn(v128, v128) -> v128) -> Self {
        Self(both(self.0, other.0), both(self.1, other.1))
    }
}

impl Simd for Wasm {
    type Bytes = Two;
    type Wide = [Two; 2];
    type Sums = Sums;
    type Floats = Two;

    const TILE: usize = if cfg!(feature = "relaxed") { 3 } else { 4 };

    #[inline(always)]
    fn quad(self, codes: [i32; 4], signed: bool) -> Quad {
        if cfg!(feature = "relaxed") && !signed {
            let high = codes.map(|code| (code + 64) >> 7);
            let low: [i32; 4] = std::array::from_fn(|i| codes[i] - 128 * high[i]);
            return [low, high].map(|part| i32::from_le_bytes(part.map(|code| code as u8)));
        }
        let [a, b, c, d] = codes;
        [a & 0xFFFF | c << 16, b & 0xFFFF | d << 16]
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 32]) -> Two {
        Two(load(&from[..16]), load(&from[16..]))
    }

    #[inline(always)]
    fn mask(self, a: Two, mask: u8) -> Two {
        a.map(|a| v128_and(a, u8x16_splat(mask)))
    }

    #[inline(always)]
    fn or(self, a: Two, b: Two) -> Two {
        a.with(b, |a, b| v128_or(a, b))
    }

    #[inline(always)]
    fn shift_left(self, a: Two, bits: u32) -> Two {
        a.map(|a| i16x8_shl(a, bits))
    }

    #[inline(always)]
    fn shift_right(self, a: Two, bits: u32) -> Two {
        a.map(|a| u16x8_shr(a, bits))
    }

    #[inline(always)]
    fn widen(self, codes: Two, signed: bool) -> [Two; 2] {
        if signed {
            let even = codes.map(|codes| i16x8_shr(i16x8_shl(codes, 8), 8));
            [even, codes.map(|codes| i16x8_shr(codes, 8))]
        } else if cfg!(feature = "relaxed") {
            [codes; 2]
        } else {
            let even = codes.map(|codes| v128_and(codes, i16x8_splat(255)));
            [even, codes.map(|codes| u16x8_shr(codes, 8))]
        }
    }

    #[inline(always)]
    fn load_wide(self, from: &[u8; 64]) -> [Two; 2] {
        [
            Two(load(&from[..16]), load(&from[16..32])),
            Two(load(&from[32..48]), load(&from[48..])),
        ]
    }

    #[inline(always)]
    fn store_wide(self, a: [Two; 2], to: &mut [u8; 64]) {
        let (first, second) = to.split_at_mut(32);
        store(a[0], first.as_mut_ptr_range());
        store(a[1], second.as_mut_ptr_range());
    }

    #[inline(always)]
    fn dot(self, sums: Sums, codes: [Two; 2], quad: [&i32; 2], signed: bool) -> Sums {
        #[cfg(feature = "relaxed")]
        if !signed {
            let add = |sum: Two, quad: &i32| {
                let quad = i32x4_splat(*quad);
                Two(
                    i32x4_relaxed_dot_i8x16_i7x16_add(quad, codes[0].0, sum.0),
                    i32x4_relaxed_dot_i8x16_i7x16_add(quad, codes[0].1, sum.1),
                )
            };
            return Sums {
                low: add(sums.low, quad[0]),
                high: add(sums.high, quad[1]),
            };
        }
        let _ = signed;
        let mut sums = sums;
        sums.low = dot16(dot16(sums.low, codes[0], quad[0]), codes[1], quad[1]);
        sums
    }

    #[inline(always)]
    fn column(self, codes: Two, column: u32) -> Two {
        codes.map(|codes| {
            let moved = u32x4_shr(codes, 8 * column);
            f32x4_convert_i32x4(v128_and(moved, i32x4_splat(255)))
        })
    }

    #[inline(always)]
    fn column_signed(self, codes: Two, column: u32) -> Two {
        codes.map(|codes| {
            let moved = i32x4_shl(codes, 24 - 8 * column);
            f32x4_convert_i32x4(i32x4_shr(moved, 24))
        })
    }

    #[inline(always)]
    fn sums(self, value: i32) -> Sums {
        Sums {
            low: Two(i32x4_splat(value), i32x4_splat(value)),
            #[cfg(feature = "relaxed")]
            high: Two(i32x4_splat(0), i32x4_splat(0)),
        }
    }

    #[inline(always)]
    fn to_floats(self, sums: Sums) -> Two {
        let sum = sums.low;
        #[cfg(feature = "relaxed")]
        let sum = sum.with(sums.high, |low, high| i32x4_add(low, i32x4_shl(high, 7)));
        sum.map(|sum| f32x4_convert_i32x4(sum))
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Two {
        Two(f32x4_splat(value), f32x4_splat(value))
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> Two {
        Two(load(&from[..4]), load(&from[4..]))
    }

    #[inline(always)]
    fn store(self, a: Two, to: &mut [f32; 8]) {
        store(a, to.as_mut_ptr_range());
    }

    #[inline(always)]
    fn halves(self, from: &[u16; 8]) -> Two {
        // Exponent and mantissa move to their places in single precision; a product with 2¹¹² moves
        // the exponent's bias, subnormal numbers included.
        let bits = load(from);
        Two(i32x4_extend_low_i16x8(bits), i32x4_extend_high_i16x8(bits)).map(|bits| {
            let moved = v128_and(i32x4_shl(bits, 13), i32x4_splat(0x8FFF_E000_u32 as i32));
            f32x4_mul(moved, f32x4_splat(f32::from_bits((127 + 112) << 23)))
        })
    }

    #[inline(always)]
    fn bfloats(self, from: &[u16; 8]) -> Two {
        let bits = load(from);
        Two(u32x4_extend_low_u16x8(bits), u32x4_extend_high_u16x8(bits))
            .map(|bits| i32x4_shl(bits, 16))
    }

    #[inline(always)]
    fn unsigned(self, from: &[u8; 8]) -> Two {
        let wide = u16x8_extend_low_u8x16(i64x2_splat(i64::from_le_bytes(*from)));
        Two(u32x4_extend_low_u16x8(wide), u32x4_extend_high_u16x8(wide))
            .map(|wide| f32x4_convert_i32x4(wide))
    }

    #[inline(always)]
    fn signed(self, from: &[i8; 8]) -> Two {
        let bytes = i64::from_le_bytes(from.map(|byte| byte as u8));
        let wide = i16x8_extend_low_i8x16(i64x2_splat(bytes));
        Two(i32x4_extend_low_i16x8(wide), i32x4_extend_high_i16x8(wide))
            .map(|wide| f32x4_convert_i32x4(wide))
    }

    #[inline(always)]
    fn add(self, a: Two, b: Two) -> Two {
        a.with(b, |a, b| f32x4_add(a, b))
    }

    #[inline(always)]
    fn sub(self, a: Two, b: Two) -> Two {
        a.with(b, |a, b| f32x4_sub(a, b))
    }

    #[inline(always)]
    fn mul(self, a: Two, b: Two) -> Two {
        a.with(b, |a, b| f32x4_mul(a, b))
    }

    #[inline(always)]
    fn div(self, a: Two, b: Two) -> Two {
        a.with(b, |a, b| f32x4_div(a, b))
    }

    #[inline(always)]
    fn max(self, a: Two, b: Two) -> Two {
        // As the other instruction sets: of a number and a NaN, the second operand.
        a.with(b, |a, b| f32x4_pmax(b, a))
    }

    #[inline(always)]
    fn min(self, a: Two, b: Two) -> Two {
        a.with(b, |a, b| f32x4_pmin(b, a))
    }

    #[inline(always)]
    fn abs(self, a: Two) -> Two {
        a.map(|a| f32x4_abs(a))
    }

    #[cfg(feature = "relaxed")]
    #[inline(always)]
    fn mul_add(self, a: Two, b: Two, c: Two) -> Two {
        Two(
            f32x4_relaxed_madd(a.0, b.0, c.0),
            f32x4_relaxed_madd(a.1, b.1, c.1),
        )
    }

    #[cfg(not(feature = "relaxed"))]
    #[inline(always)]
    fn mul_add(self, a: Two, b: Two, c: Two) -> Two {
        self.add(self.mul(a, b), c)
    }

    #[inline(always)]
    fn power_of_two(self, rounded: Two) -> Two {
        rounded.map(|bits| i32x4_add(i32x4_shl(bits, 23), f32x4_splat(1.0)))
    }
}
