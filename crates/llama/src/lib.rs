//! The Llama model on burn: layers, quantized kernels, KV cache, sampling and the generation stream.
