//! What a Llama model is, whichever processor runs it.
//!
//! * [`config`]: shape and constants, rotary frequencies.
//! * [`plan`]: which tensor of a file is which part of the network.
//! * [`package`]: a model with all that belongs to it, from any kind of files.
//! * [`hf`]: `config.json` of Hugging Face models.
//! * [`convert`]: a model in another quantization, made while it is read.
//! * [`lora`]: LoRA adapters, merged into the weights that they were trained on.
//! * [`mod@stream`]: a file's tensors, read once and in order, into a [`stream::Sink`].
//! * [`network`]: what a processor must offer ([`Network`]); `llama` does so on the GPU, `cpu` on the
//!   CPU.
//! * [`session`]: prompts in, tokens out, over any [`Network`].
//! * [`sampling`]: choosing a token, and the reference for those who choose on the GPU.

pub mod config;
pub mod convert;
pub mod hf;
pub mod lora;
mod made;
pub mod network;
pub mod package;
pub mod plan;
pub mod sampling;
pub mod session;
pub mod stream;

pub use config::{Config, Pairing, Rope};
pub use hf::HfConfig;
pub use network::{BackendError, Estimate, Memory, Network};
pub use package::Package;
pub use plan::{LoadError, Plan, Role, Tensor};
pub use sampling::Sampling;
pub use session::{Prefill, Session, SessionError};
pub use stream::{Sink, stream};
