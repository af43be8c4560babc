//! AVX2 with FMA and F16C.
#![expect(
    unsafe_code,
    reason = "intrinsics outside a function with their target feature; an `Avx2` exists only where the \
              processor has them"
)]

use std::arch::x86_64::*;

use super::{Quad, Simd, Task};

/// The processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// Looks at the processor.
    pub fn detect() -> Option<Self> {
        let there = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        there.then_some(Self(()))
    }

    /// Does a task.
    pub fn run<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn enter<T: Task>(task: T, avx2: Avx2) -> T::Output {
            task.run(avx2)
        }
        // SAFETY: `self` is the proof that the processor has these features.
        unsafe { enter(task, self) }
    }
}

// SAFETY of all blocks below: `self` is the proof that the processor has the features of the
// intrinsics, and memory is read and written through references to arrays of the right size.
impl Simd for Avx2 {
    type Bytes = __m256i;
    type Wide = [__m256i; 2];
    type Sums = __m256i;
    type Floats = __m256;

    const TILE: usize = 4;

    #[inline(always)]
    fn quad(self, codes: [i32; 4], _: bool) -> Quad {
        let [a, b, c, d] = codes;
        [a & 0xFFFF | c << 16, b & 0xFFFF | d << 16]
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 32]) -> __m256i {
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn mask(self, a: __m256i, mask: u8) -> __m256i {
        unsafe { _mm256_and_si256(a, _mm256_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn shift_left(self, a: __m256i, bits: u32) -> __m256i {
        unsafe { _mm256_sll_epi16(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    fn shift_right(self, a: __m256i, bits: u32) -> __m256i {
        unsafe { _mm256_srl_epi16(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    /// Even and odd bytes as lanes of 16 bits.
    #[inline(always)]
    fn widen(self, codes: __m256i, signed: bool) -> [__m256i; 2] {
        unsafe {
            if signed {
                let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(codes));
                [even, _mm256_srai_epi16::<8>(codes)]
            } else {
                let even = _mm256_and_si256(codes, _mm256_set1_epi16(255));
                [even, _mm256_srli_epi16::<8>(codes)]
            }
        }
    }

    #[inline(always)]
    fn load_wide(self, from: &[u8; 64]) -> [__m256i; 2] {
        let first = from.as_ptr().cast::<__m256i>();
        unsafe { [_mm256_loadu_si256(first), _mm256_loadu_si256(first.add(1))] }
    }

    #[inline(always)]
    fn store_wide(self, a: [__m256i; 2], to: &mut [u8; 64]) {
        let first = to.as_mut_ptr().cast::<__m256i>();
        unsafe {
            _mm256_storeu_si256(first, a[0]);
            _mm256_storeu_si256(first.add(1), a[1]);
        }
    }

    #[inline(always)]
    fn dot(self, sum: __m256i, codes: [__m256i; 2], quad: [&i32; 2], _: bool) -> __m256i {
        unsafe {
            let even = _mm256_madd_epi16(codes[0], _mm256_set1_epi32(*quad[0]));
            let odd = _mm256_madd_epi16(codes[1], _mm256_set1_epi32(*quad[1]));
            _mm256_add_epi32(_mm256_add_epi32(sum, even), odd)
        }
    }

    #[inline(always)]
    fn column(self, codes: __m256i, column: u32) -> __m256 {
        unsafe {
            let moved = _mm256_srl_epi32(codes, _mm_cvtsi32_si128(8 * column as i32));
            _mm256_cvtepi32_ps(_mm256_and_si256(moved, _mm256_set1_epi32(255)))
        }
    }

    #[inline(always)]
    fn column_signed(self, codes: __m256i, column: u32) -> __m256 {
        unsafe {
            let moved = _mm256_sll_epi32(codes, _mm_cvtsi32_si128(24 - 8 * column as i32));
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(moved))
        }
    }

    #[inline(always)]
    fn sums(self, value: i32) -> __m256i {
        unsafe { _mm256_set1_epi32(value) }
    }

    #[inline(always)]
    fn to_floats(self, a: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(a) }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> __m256 {
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, a: __m256, to: &mut [f32; 8]) {
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), a) }
    }

    #[inline(always)]
    fn halves(self, from: &[u16; 8]) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn bfloats(self, from: &[u16; 8]) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    fn unsigned(self, from: &[u8; 8]) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
            _mm256_cvtepi32_ps(wide)
        }
    }

    #[inline(always)]
    fn signed(self, from: &[i8; 8]) -> __m256 {
        unsafe {
            let wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
            _mm256_cvtepi32_ps(wide)
        }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn power_of_two(self, rounded: __m256) -> __m256 {
        unsafe {
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(rounded));
            let one = _mm256_castps_si256(_mm256_set1_ps(1.0));
            _mm256_castsi256_ps(_mm256_add_epi32(power, one))
        }
    }
}
