//! Eight-lane vectors, written once for each instruction set. All intrinsics of the crate are here.
//!
//! A type that implements [`Simd`] is a proof that its instructions are there: values of it are made
//! only after a look at the processor. Kernels are generic over it and inline altogether into
//! [`Level::run`]'s function for the instruction set, so that the compiler knows what it may use.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(any(not(target_arch = "wasm32"), test))]
mod portable;
#[cfg(target_arch = "wasm32")]
mod wasm;

/// Four neighbouring activations, quantized, in the form that an instruction set's dot product wants.
pub type Quad = [i32; 2];

/// The largest quantized activation: 127 × 128, so that two signed bytes can hold it.
pub const LARGEST: i32 = 16_256;

/// Vectors of eight lanes.
///
/// Bytes come as eight lanes of four: lane `r` is row `r`, its bytes are four neighbouring columns.
pub trait Simd: Copy {
    /// 32 bytes.
    type Bytes: Copy;
    /// 32 bytes, prepared for a dot product.
    type Wide: Copy;
    /// Eight sums of products, `i32`.
    type Sums: Copy;
    /// Eight `f32`.
    type Floats: Copy;

    /// Tokens that are multiplied together, so that registers suffice; at most 4.
    const TILE: usize;

    /// Prepares activations within [`LARGEST`] for [`Simd::dot`].
    fn quad(self, codes: [i32; 4], signed: bool) -> Quad;

    /// 32 bytes from memory.
    fn bytes(self, from: &[u8; 32]) -> Self::Bytes;
    /// Each byte and `mask`.
    fn mask(self, a: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Bitwise or.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Shifts left in lanes of 16 bits; what one byte pushes into the next must be masked away.
    fn shift_left(self, a: Self::Bytes, bits: u32) -> Self::Bytes;
    /// Shifts right in lanes of 16 bits; what one byte pushes into the next must be masked away.
    fn shift_right(self, a: Self::Bytes, bits: u32) -> Self::Bytes;
    /// Prepares bytes for [`Simd::dot`]. They are signed or from 0 to 127.
    fn widen(self, codes: Self::Bytes, signed: bool) -> Self::Wide;
    /// Prepared bytes from memory.
    fn load_wide(self, from: &[u8; 64]) -> Self::Wide;
    /// Prepared bytes to memory.
    fn store_wide(self, a: Self::Wide, to: &mut [u8; 64]);
    /// Adds to each row the products of its four bytes and the activations. Bytes and activations are
    /// prepared with the same `signed`.
    fn dot(self, sum: Self::Sums, codes: Self::Wide, quad: [&i32; 2], signed: bool) -> Self::Sums;
    /// The bytes of column 0 to 3, as numbers from 0 to 255.
    fn column(self, codes: Self::Bytes, column: u32) -> Self::Floats;
    /// The bytes of column 0 to 3, as numbers from -128 to 127.
    fn column_signed(self, codes: Self::Bytes, column: u32) -> Self::Floats;

    /// Sums that begin with an integer.
    fn sums(self, value: i32) -> Self::Sums;
    /// To floating point, rounded.
    fn to_floats(self, a: Self::Sums) -> Self::Floats;

    /// The same number in all lanes.
    fn splat(self, value: f32) -> Self::Floats;
    /// Eight numbers from memory.
    fn load(self, from: &[f32; 8]) -> Self::Floats;
    /// Eight numbers to memory.
    fn store(self, a: Self::Floats, to: &mut [f32; 8]);
    /// Eight numbers in half precision, which are finite.
    fn halves(self, from: &[u16; 8]) -> Self::Floats;
    /// Eight numbers in bfloat16.
    fn bfloats(self, from: &[u16; 8]) -> Self::Floats;
    /// Eight numbers from 0 to 255.
    fn unsigned(self, from: &[u8; 8]) -> Self::Floats;
    /// Eight numbers from -128 to 127.
    fn signed(self, from: &[i8; 8]) -> Self::Floats;
    /// Sum.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Difference.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Product.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Quotient.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The larger.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The smaller.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Without the sign.
    fn abs(self, a: Self::Floats) -> Self::Floats;
    /// `a b + c`, rounded once or twice.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// The integer in the low bits of each lane, shifted left by 23 and added to the bits of 1: two to
    /// its power, where the lane is [`ROUND`] plus an integer from -126 to 127.
    fn power_of_two(self, rounded: Self::Floats) -> Self::Floats;
}

/// Adding this to a number below 2²² in size rounds it to an integer, which then is in the low bits.
pub const ROUND: f32 = 12_582_912.0;

/// Work that can be done with any instruction set.
pub trait Task {
    /// What comes of it.
    type Output;
    /// Does it. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The instruction set that this processor and this build have.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Plain code.
    #[cfg(not(target_arch = "wasm32"))]
    Portable,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// WebAssembly's SIMD; relaxed with that feature of the crate.
    #[cfg(target_arch = "wasm32")]
    Wasm(wasm::Wasm),
}

impl Level {
    /// The best there is.
    pub fn detect() -> Self {
        #[cfg(target_arch = "wasm32")]
        return Self::Wasm(wasm::Wasm::new());
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = avx2::Avx2::detect() {
            return Self::Avx2(avx2);
        }
        #[cfg(not(target_arch = "wasm32"))]
        Self::Portable
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::Portable => "none",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "wasm32")]
            Self::Wasm(_) if cfg!(feature = "relaxed") => "relaxed simd128",
            #[cfg(target_arch = "wasm32")]
            Self::Wasm(_) => "simd128",
        }
    }

    /// All that this processor has.
    #[cfg(any(test, feature = "check"))]
    pub fn all() -> Vec<Self> {
        let best = [Self::detect()];
        #[cfg(target_arch = "x86_64")]
        if matches!(best, [Self::Avx2(_)]) {
            return best.into_iter().chain([Self::Portable]).collect();
        }
        best.to_vec()
    }

    /// Does a task with it.
    pub fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::Portable => task.run(portable::Portable),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.run(task),
            #[cfg(target_arch = "wasm32")]
            Self::Wasm(wasm) => wasm.run(task),
        }
    }
}
