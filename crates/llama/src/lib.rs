//! The Llama model on burn: layers, quantized kernels, KV cache, sampling and the generation
//! stream.
//!
//! * [`gpu`]: burn's device and how this crate launches on it.
//! * [`config`]: shape and constants.
//! * [`linear`]: matrices kept quantized, and their products.
//! * [`model`]: the network.
//! * [`load`]: from a GGUF file to the GPU.
//! * [`session`]: prompts in, tokens out.
//! * [`sampling`]: choosing a token.

pub mod config;
pub mod gpu;
mod kernels;
pub mod linear;
pub mod load;
pub mod model;
pub mod sampling;
pub mod session;

pub use config::Config;
pub use gpu::{Gpu, GpuError, Spread};
pub use load::{LoadError, Loaded, load};
pub use sampling::Sampling;
pub use session::{Session, SessionError};
