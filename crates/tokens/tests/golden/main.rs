//! Runs the golden files that need the Llama 3.1 tokenizer, and checks the views built on it.

mod chatml;
mod common;
mod embeddings;
mod helpers;
mod properties;
mod reading;
mod sample;
mod tokens;
