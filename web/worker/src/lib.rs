//! The Web Worker shell around `crates/engine`.
