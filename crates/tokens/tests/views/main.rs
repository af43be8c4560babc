//! The views that are built on the Llama 3.1 tokenizer. The golden files run in `agent::conform`.

mod common;
mod costs;
mod prefix;
mod properties;
mod reading;
mod sample;
mod why;
