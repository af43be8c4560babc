//! The Llama model on burn: layers, quantized kernels, KV cache and sampling on the GPU.
//!
//! * [`gpu`]: burn's device and how this crate launches on it.
//! * [`linear`]: matrices kept quantized, and their products.
//! * [`network`]: the network, which is a [`model::Network`].
//! * [`load`]: from a file to the GPU.
//! * `check`, `measure` (feature): every kernel against plain arithmetic, and products against the clock.

#[cfg(feature = "check")]
pub mod check;
pub mod gpu;
mod kernels;
pub mod linear;
pub mod load;
#[cfg(feature = "check")]
pub mod measure;
pub mod network;

pub use gpu::{Gpu, Spread};
pub use load::{estimate, load};
pub use network::GpuNetwork;
