//! Model files: GGUF and safetensors, byte sources, quantized block codecs and device layouts. No GPU.
//!
//! * [`source`]: where the bytes come from (memory, a file, HTTP, a browser `Blob`), read in order
//!   and by position through one trait.
//! * [`gguf`]: the header of a GGUF file: metadata and the tensor table, parsed while it arrives.
//! * [`safetensors`]: the header of a safetensors file: its table of tensors.
//! * [`hub`]: models on the Hugging Face hub.
//! * [`manifest`]: `model.json`, the table of a package of our shards.
//! * [`digest`]: SHA-256 of files and how it is written.
//! * [`json`]: JSON that is not believed.
//! * [`block`]: the element and block types tensors are stored in.
//! * [`codec`]: the reference meaning of those blocks: bytes to `f32`.
//! * [`quantize`]: the other direction.
//! * [`layout`]: the device layouts the engine's kernels read, repacked from the file's blocks.
//! * [`pieces`]: any source in pieces that are verified, kept and resumed.
//! * [`store`]: where they are kept: the browser's storage, a folder.

pub mod block;
pub mod codec;
pub mod digest;
pub mod gguf;
pub mod hub;
pub mod json;
pub mod layout;
mod looks;
pub mod manifest;
pub mod pieces;
pub mod quantize;
pub mod safetensors;
pub mod source;
pub mod store;

pub use block::BlockType;
pub use looks::Looks;
pub use source::{ByteSource, MemorySource, SourceError};
