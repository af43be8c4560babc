//! `cargo xtask synthetic`: models of random weights in the shapes of published ones, with nothing to
//! download. The same shape always gives the same files.
//!
//! Half-precision kinds of a shape hold the same weights: the GGUF file of F16 is the model that the
//! safetensors folder of BF16 is. Quantized kinds are random blocks of their own.

mod folder;
mod gguf;
mod random;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

pub use vocabulary::WORDS;

/// What to write, and where.
#[derive(Args)]
pub struct Options {
    /// The shape
    shape: Size,
    /// The kind of files
    kind: Kind,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Shapes by the names that command lines use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Of the size of small published models
    #[value(name = "160m")]
    Small,
    /// Of Llama 3.2 1B
    #[value(name = "1b")]
    One,
    /// Of Llama 3.1 8B
    #[value(name = "8b")]
    Eight,
    /// Of Llama 3.1 8B, scaled down to a few MB
    #[value(name = "nano-8b")]
    Nano,
}

/// What kind of files a model is written as. GGUF kinds are named as llama.cpp names its files.
#[expect(non_camel_case_types, reason = "the names are llama.cpp's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// GGUF: Q4_K, and Q6_K for the output and for half of the value and down projections
    #[value(name = "q4_k_m")]
    Q4_K_M,
    /// GGUF: Q4_0, and Q6_K for the output
    #[value(name = "q4_0")]
    Q4_0,
    /// GGUF: F16
    #[value(name = "f16")]
    F16,
    /// A Hugging Face folder of BF16
    #[value(name = "safetensors")]
    Safetensors,
}

/// Widths and counts of a Llama model.
pub struct Shape {
    /// Name of the model, and of its files.
    pub name: &'static str,
    /// Transformer blocks.
    pub layers: usize,
    /// Width of the residual stream, a multiple of 256.
    pub dim: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width of the feed-forward layer, a multiple of 256.
    pub ffn: usize,
    /// Entries of the vocabulary.
    pub vocab: usize,
    /// Whether the embeddings are the output matrix too.
    pub tied: bool,
    /// Longest context in tokens.
    pub context: usize,
    /// Base of the rotary frequencies.
    pub theta: f64,
    /// The slowing of long rotary waves, where there is one.
    pub slowing: Option<Slowing>,
    /// Whether texts begin with the token for their beginning.
    pub add_bos: bool,
    /// Bytes of tensors that a safetensors file holds at most.
    pub file_bytes: u64,
}

/// Rotary scaling of Llama 3.1 and 3.2; the bounds are 1 and 4 waves in the original context.
pub struct Slowing {
    /// How much the long waves are slowed.
    pub factor: f64,
    /// The context before, in tokens.
    pub original: usize,
}

impl Slowing {
    /// Lower and upper bound in waves per original context, between which the slowing fades in.
    pub const BOUNDS: [f64; 2] = [1.0, 4.0];
}

/// Of the size of small published models ("160M"): 125 million weights.
const SMALL: Shape = Shape {
    name: "random-160m",
    layers: 12,
    dim: 768,
    heads: 12,
    kv_heads: 4,
    head_dim: 64,
    ffn: 2048,
    vocab: 32_000,
    tied: false,
    context: 2048,
    theta: 10_000.0,
    slowing: None,
    add_bos: false,
    file_bytes: 5_000_000_000,
};

/// Llama 3.2 1B.
const ONE: Shape = Shape {
    name: "random-1b",
    layers: 16,
    dim: 2048,
    heads: 32,
    kv_heads: 8,
    head_dim: 64,
    ffn: 8192,
    vocab: 128_256,
    tied: true,
    context: 131_072,
    theta: 500_000.0,
    slowing: Some(Slowing {
        factor: 32.0,
        original: 8192,
    }),
    add_bos: true,
    file_bytes: 5_000_000_000,
};

/// Llama 3.1 8B, in four files as published.
const EIGHT: Shape = Shape {
    name: "random-8b",
    layers: 32,
    dim: 4096,
    heads: 32,
    kv_heads: 8,
    head_dim: 128,
    ffn: 14_336,
    vocab: 128_256,
    tied: false,
    context: 131_072,
    theta: 500_000.0,
    slowing: Some(Slowing {
        factor: 8.0,
        original: 8192,
    }),
    add_bos: true,
    file_bytes: 5_000_000_000,
};

/// Llama 3.1 8B in small: four files, separate output, slowed waves.
const NANO: Shape = Shape {
    name: "random-nano-8b",
    layers: 8,
    dim: 256,
    heads: 8,
    kv_heads: 2,
    head_dim: 32,
    ffn: 768,
    vocab: 2304,
    tied: false,
    context: 4096,
    theta: 500_000.0,
    slowing: Some(Slowing {
        factor: 8.0,
        original: 64,
    }),
    add_bos: true,
    file_bytes: 4_000_000,
};

impl Size {
    /// The widths and counts.
    pub fn shape(self) -> &'static Shape {
        match self {
            Self::Small => &SMALL,
            Self::One => &ONE,
            Self::Eight => &EIGHT,
            Self::Nano => &NANO,
        }
    }
}

/// The matrices of a model: [`Shape::matrices`] lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Embedding,
    Output,
    Query,
    Key,
    Value,
    AttentionOutput,
    Gate,
    Up,
    Down,
}

/// A tensor of a model, however it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Which matrix, or `None` for gains of a norm.
    pub part: Option<Part>,
    /// The block, or `None` outside the blocks.
    pub layer: Option<usize>,
    /// The second of a block's two norms.
    pub second: bool,
    /// Rows; 1 for gains.
    pub rows: usize,
    /// Weights per row.
    pub cols: usize,
    /// Which stream of random numbers fills it.
    pub stream: u64,
}

impl Shape {
    /// All tensors, from the embedding through the blocks to the output; gains stand where they are used.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut all = Vec::new();
        let mut add = |part, layer, second, rows, cols| {
            all.push(Tensor {
                part,
                layer,
                second,
                rows,
                cols,
                stream: all.len() as u64,
            });
        };
        let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        add(Some(Part::Embedding), None, false, self.vocab, self.dim);
        for layer in 0..self.layers {
            let layer = Some(layer);
            add(None, layer, false, 1, self.dim);
            add(Some(Part::Query), layer, false, queries, self.dim);
            add(Some(Part::Key), layer, false, keys, self.dim);
            add(Some(Part::Value), layer, false, keys, self.dim);
            add(Some(Part::AttentionOutput), layer, false, self.dim, queries);
            add(None, layer, true, 1, self.dim);
            add(Some(Part::Gate), layer, false, self.ffn, self.dim);
            add(Some(Part::Up), layer, false, self.ffn, self.dim);
            add(Some(Part::Down), layer, false, self.dim, self.ffn);
        }
        add(None, None, false, 1, self.dim);
        if !self.tied {
            add(Some(Part::Output), None, false, self.vocab, self.dim);
        }
        all
    }
}

/// The model of this shape and kind in `folder`, written unless it is already there: a GGUF file, or a
/// folder of safetensors.
pub fn model(folder: &Path, size: Size, kind: Kind) -> Result<PathBuf> {
    let shape = size.shape();
    match kind {
        Kind::Safetensors => folder::model(folder, shape),
        Kind::Q4_K_M => gguf::model(folder, shape, gguf::Mix::Q4_K_M),
        Kind::Q4_0 => gguf::model(folder, shape, gguf::Mix::Q4_0),
        Kind::F16 => gguf::model(folder, shape, gguf::Mix::F16),
    }
}

/// The shape and kind of a name such as `1b-q4_k_m`.
pub fn named(name: &str) -> Option<(Size, Kind)> {
    let (size, kind) = name.rsplit_once('-')?;
    let size = Size::from_str(size, false).ok()?;
    Some((size, Kind::from_str(kind, false).ok()?))
}

/// Writes a model and says where it is.
pub fn run(options: &Options) -> Result<()> {
    let path = model(&options.out, options.shape, options.kind)?;
    println!("{}", path.display());
    Ok(())
}

/// Runs what writes `bytes` bytes to `path`, and says how that goes.
fn timed(path: &Path, bytes: u64, write: impl FnOnce() -> Result<()>) -> Result<()> {
    let megabytes = bytes as f64 / 1e6;
    eprintln!(
        "Writing {} ({megabytes:.0} MB of random weights).",
        path.display()
    );
    let start = Instant::now();
    write().with_context(|| format!("writing {}", path.display()))?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "That took {seconds:.1} s, {:.0} MB/s.",
        megabytes / seconds.max(1e-3)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_published_numbers_of_weights() {
        let weights = |shape: &Shape| {
            let tensors = shape.tensors();
            tensors.iter().map(|it| it.rows * it.cols).sum::<usize>()
        };
        assert_eq!(weights(&ONE), 1_235_814_400);
        assert_eq!(weights(&EIGHT), 8_030_261_248);
        assert!(weights(&NANO) < 8_000_000);
    }

    #[test]
    fn names_mean_shapes_and_kinds() {
        assert_eq!(named("160m-q4_0"), Some((Size::Small, Kind::Q4_0)));
        assert_eq!(named("nano-8b-f16"), Some((Size::Nano, Kind::F16)));
        assert_eq!(named("smollm2"), None);
        assert_eq!(named("2b-f16"), None);
    }
}
