//! Runs the golden files that need no tokenizer.

mod bridge;
mod calls;
mod chatml;
mod common;
mod parse;
mod properties;
mod render;
mod tools;
mod validate;
mod validity;
