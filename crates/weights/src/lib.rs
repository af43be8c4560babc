//! Model files: GGUF, byte sources, quantized block codecs and device layouts. No GPU.
