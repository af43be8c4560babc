//! Llama models on the CPU, on one thread: in a browser without WebGPU, and natively.
//!
//! Weights stay quantized in memory, as large as in the file or a few percent larger, with the rows of
//! eight interleaved: one lane of a vector is one row. There are two kinds of [`Arithmetic`].
//!
//! The logits are a function of the token ids, the model, the arithmetic and the instruction set; into
//! which chunks a prompt is cut changes nothing, to the last bit. Between instruction sets they differ
//! by rounding.
//!
//! * [`network`]: [`CpuNetwork`], the forward pass.
//! * [`load`]: a file into a [`CpuNetwork`].
//! * `simd`: eight-lane vectors on each instruction set; all intrinsics are there.
//! * `format`: how the weights of each block type lie in memory, and how they unpack.
//! * `matrix`, `input`, `product`: weights, what they are multiplied by, and the products.
//! * `attention`, `cache`, `math`: the rest of the pass.

mod attention;
mod cache;
#[cfg(any(test, feature = "check"))]
pub mod check;
mod format;
mod input;
pub mod load;
mod math;
mod matrix;
pub mod network;
mod product;
mod simd;

pub use load::{estimate, load};
pub use network::{Arithmetic, CpuNetwork};

/// The vector instructions that the kernels use here.
pub fn vectors() -> &'static str {
    simd::Level::detect().name()
}
