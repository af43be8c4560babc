//! The device layouts the kernels read, repacked from GGUF blocks.
