//! Tokenizers, encoding with provenance, and label masks.
