//! The forward pass.

use std::collections::VecDeque;

use model::config::rotations;
use model::{BackendError, Config, Memory, Network, Sampling};

use crate::attention::{Attention, Scores};
use crate::cache::Cache;
use crate::input::Input;
use crate::math::{Gated, Norm};
use crate::matrix::{Matrix, reserve};
use crate::product::{Scratch, multiply, read_row};
use crate::simd::Level;

/// Most tokens of one run. Larger chunks are hardly faster, and smaller ones can be stopped sooner.
const CHUNK: usize = 32;

/// How weights and activations are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// In single precision.
    Exact,
    /// Activations are rounded to 15 bits with a scale for every 32, so that products are of integers;
    /// several times as fast. Weights that are not quantized are multiplied as in [`Self::Exact`].
    Fast,
}

/// The weights of a transformer block.
#[derive(Debug)]
pub struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Matrix,
    pub(crate) key: Matrix,
    pub(crate) value: Matrix,
    pub(crate) output: Matrix,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

impl Layer {
    fn matrices(&self) -> [&Matrix; 7] {
        [
            &self.query,
            &self.key,
            &self.value,
            &self.output,
            &self.gate,
            &self.up,
            &self.down,
        ]
    }
}

/// All weights.
#[derive(Debug)]
pub(crate) struct Weights {
    pub embedding: Matrix,
    pub layers: Vec<Layer>,
    pub norm: Vec<f32>,
    /// `None` where the embeddings are the output matrix too.
    pub head: Option<Matrix>,
}

impl Weights {
    fn memory(&self) -> usize {
        let layers = self.layers.iter().map(|layer| {
            let norms = layer.attention_norm.capacity() + layer.ffn_norm.capacity();
            let matrices = layer.matrices().map(Matrix::memory);
            4 * norms + matrices.iter().sum::<usize>()
        });
        self.embedding.memory()
            + self.head.as_ref().map_or(0, Matrix::memory)
            + 4 * self.norm.capacity()
            + layers.sum::<usize>()
    }
}

/// Buffers of the pass, all `tokens ×` what is said.
#[derive(Debug)]
struct Workspace {
    /// `dim`: the residual stream.
    x: Vec<f32>,
    /// `dim`: what a layer adds to it.
    change: Vec<f32>,
    /// What goes into the next matrix.
    input: Input,
    /// `heads head_dim`.
    queries: Vec<f32>,
    /// `kv_heads head_dim`.
    keys: Vec<f32>,
    /// `kv_heads head_dim`.
    values: Vec<f32>,
    /// `ffn`.
    gate: Vec<f32>,
    /// `ffn`.
    up: Vec<f32>,
    /// `head_dim`: cosines and sines.
    rotations: Vec<f32>,
    scores: Scores,
    scratch: Scratch,
}

impl Workspace {
    fn new(config: &Config) -> Result<Self, BackendError> {
        let (q, kv) = (
            config.heads * config.head_dim,
            config.kv_heads * config.head_dim,
        );
        let widest = config.dim.max(config.ffn).max(q);
        let floats = |width: usize| {
            let mut floats = Vec::new();
            reserve(&mut floats, CHUNK * width)?;
            Ok::<_, BackendError>(floats)
        };
        Ok(Self {
            x: floats(config.dim)?,
            change: floats(config.dim)?,
            input: Input::with_capacity(CHUNK * widest)?,
            queries: floats(q)?,
            keys: floats(kv)?,
            values: floats(kv)?,
            gate: floats(config.ffn)?,
            up: floats(config.ffn)?,
            rotations: floats(config.head_dim)?,
            scores: Scores::default(),
            scratch: Scratch::with_capacity(widest)?,
        })
    }

    fn memory(&self) -> usize {
        let floats = [
            &self.x,
            &self.change,
            &self.queries,
            &self.keys,
            &self.values,
            &self.gate,
            &self.up,
            &self.rotations,
        ];
        4 * floats.map(Vec::capacity).iter().sum::<usize>()
            + 32 * self.scores.iter().map(Vec::capacity).sum::<usize>()
            + self.input.memory()
            + self.scratch.memory()
    }
}

/// Bytes of cache per token and of buffers to work in, for a model of this shape.
pub(crate) fn estimate(config: &Config) -> Result<(u64, u64), BackendError> {
    let per_token = Cache::new(config.kv_heads, config.head_dim).memory_per_token();
    // The buffers are small, and measuring them is sure to be right.
    let workspace = Workspace::new(config)?.memory() + 4 * config.vocab;
    Ok((per_token as u64 * config.layers as u64, workspace as u64))
}

/// A model on the CPU, with its KV cache in single precision.
///
/// The logits do not depend on how a prompt is cut into runs.
#[derive(Debug)]
pub struct CpuNetwork {
    config: Config,
    arithmetic: Arithmetic,
    level: Level,
    weights: Weights,
    frequencies: Vec<f64>,
    caches: Vec<Cache>,
    workspace: Workspace,
    logits: Vec<f32>,
    /// Tokens that were chosen and not fetched.
    chosen: VecDeque<u32>,
    /// The token chosen last.
    latest: Option<u32>,
}

impl CpuNetwork {
    pub(crate) fn new(
        config: Config,
        weights: Weights,
        arithmetic: Arithmetic,
    ) -> Result<Self, BackendError> {
        let mut logits = Vec::new();
        reserve(&mut logits, config.vocab)?;
        Ok(Self {
            arithmetic,
            level: Level::detect(),
            weights,
            frequencies: config.rope.frequencies(config.head_dim),
            caches: (0..config.layers)
                .map(|_| Cache::new(config.kv_heads, config.head_dim))
                .collect(),
            workspace: Workspace::new(&config)?,
            logits,
            chosen: VecDeque::new(),
            latest: None,
            config,
        })
    }

    /// How weights and activations are multiplied.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Chooses it anew; what the cache holds stays as it was computed.
    pub fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        self.arithmetic = arithmetic;
    }

    /// Bytes of weights that decoding one token reads, apart from one row of the embedding.
    pub fn bytes_per_token(&self) -> u64 {
        let unread = match &self.weights.head {
            Some(_) => self.weights.embedding.memory(),
            None => 0,
        };
        (self.weights.memory() - unread) as u64
    }

    fn make_room(&mut self, tokens: usize) -> Result<(), BackendError> {
        for scores in &mut self.workspace.scores {
            let missing = tokens.div_ceil(8).saturating_sub(scores.len());
            scores.try_reserve(missing).map_err(|_| {
                BackendError::Memory("the memory for attention could not be had".into())
            })?;
        }
        self.caches
            .iter_mut()
            .try_for_each(|cache| cache.reserve(tokens))
    }

    fn embed(&mut self, ids: &[u32]) {
        let dim = self.config.dim;
        let workspace = &mut self.workspace;
        workspace.x.resize(ids.len() * dim, 0.0);
        for (id, x) in ids.iter().zip(workspace.x.chunks_exact_mut(dim)) {
            let (table, row) = (&self.weights.embedding, *id as usize);
            read_row(self.level, table, row, &mut workspace.scratch, x);
        }
    }

    /// One transformer block over the residual stream. With `last_only`, of the last token alone: the
    /// others give nothing but their keys and values, and leave the stream. With none, not even that.
    fn block(&mut self, index: usize, past: usize, keep: Keep) {
        let Self {
            config,
            arithmetic,
            level,
            weights,
            caches,
            workspace,
            ..
        } = self;
        let (level, arithmetic) = (*level, *arithmetic);
        let layer = &weights.layers[index];
        let cache = &mut caches[index];
        let Workspace {
            x,
            change,
            input,
            queries,
            keys,
            values,
            gate,
            up,
            rotations,
            scores,
            scratch,
        } = workspace;
        let mut product = |matrix: &Matrix, input: &mut Input, out: &mut Vec<f32>| {
            let tokens = input.floats().len() / input.cols();
            out.resize(tokens * matrix.rows(), 0.0);
            multiply(level, arithmetic, matrix, input, scratch, out);
        };
        let dim = config.dim;
        let norm = |x: &[f32], gains: &[f32], input: &mut Input| {
            level.run(Norm {
                x,
                gains,
                eps: config.norm_eps,
                out: input.reset(x.len() / dim, dim),
            });
        };

        norm(x, &layer.attention_norm, input);
        product(&layer.key, input, keys);
        product(&layer.value, input, values);
        rotate(keys, config.kv_heads, config.head_dim, rotations);
        cache.write(keys, values, past);
        let tokens = x.len() / dim;
        let skipped = match keep {
            Keep::All => 0,
            Keep::Last => tokens - 1,
            Keep::None => return,
        };
        if skipped > 0 {
            x.drain(..skipped * dim);
            norm(x, &layer.attention_norm, input);
        }
        product(&layer.query, input, queries);
        let rotations = &rotations[skipped * config.head_dim..];
        rotate(queries, config.heads, config.head_dim, rotations);
        let scale = 1.0 / (config.head_dim as f32).sqrt();
        queries.iter_mut().for_each(|x| *x *= scale);
        level.run(Attention {
            cache,
            past: past + skipped,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            queries,
            scores,
            out: input.reset(tokens - skipped, config.heads * config.head_dim),
        });
        product(&layer.output, input, change);
        add(x, change);

        norm(x, &layer.ffn_norm, input);
        product(&layer.gate, input, gate);
        product(&layer.up, input, up);
        level.run(Gated { gate, up });
        input
            .reset(tokens - skipped, config.ffn)
            .copy_from_slice(gate);
        product(&layer.down, input, change);
        add(x, change);
    }

    /// Logits of the residual stream, which is that of one token.
    fn read_out(&mut self) {
        let workspace = &mut self.workspace;
        self.level.run(Norm {
            x: &workspace.x,
            gains: &self.weights.norm,
            eps: self.config.norm_eps,
            out: workspace.input.reset(1, self.config.dim),
        });
        self.logits.resize(self.config.vocab, 0.0);
        multiply(
            self.level,
            self.arithmetic,
            self.weights
                .head
                .as_ref()
                .unwrap_or(&self.weights.embedding),
            &mut workspace.input,
            &mut workspace.scratch,
            &mut self.logits,
        );
    }

    fn forward(&mut self, ids: &[u32], past: usize, want_logits: bool) {
        self.embed(ids);
        self.workspace.rotations.clear();
        rotations(
            &self.frequencies,
            past..past + ids.len(),
            &mut self.workspace.rotations,
        );
        for index in 0..self.config.layers {
            let keep = match (index + 1 == self.config.layers, want_logits) {
                (false, _) => Keep::All,
                (true, true) => Keep::Last,
                (true, false) => Keep::None,
            };
            self.block(index, past, keep);
        }
        if want_logits {
            self.read_out();
        }
    }
}

/// Which tokens are wanted after a block. The others give it nothing but keys and values.
#[derive(Clone, Copy)]
enum Keep {
    All,
    Last,
    None,
}

/// Rotates neighbouring pairs of each head. `x` is `tokens × heads head_dim`, `rotations` is
/// `tokens × head_dim`.
fn rotate(x: &mut [f32], heads: usize, head_dim: usize, rotations: &[f32]) {
    let tokens = x.chunks_exact_mut(heads * head_dim);
    for (x, rotations) in tokens.zip(rotations.chunks_exact(head_dim)) {
        for head in x.chunks_exact_mut(head_dim) {
            let pairs = head.as_chunks_mut::<2>().0.iter_mut();
            for ([a, b], [cos, sin]) in pairs.zip(rotations.as_chunks::<2>().0) {
                (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
            }
        }
    }
}

fn add(x: &mut [f32], change: &[f32]) {
    for (x, change) in x.iter_mut().zip(change) {
        *x += change;
    }
}

impl Network for CpuNetwork {
    fn config(&self) -> &Config {
        &self.config
    }

    fn chunk_tokens(&self) -> usize {
        CHUNK
    }

    fn runs_ahead(&self) -> bool {
        false
    }

    fn memory(&self) -> Memory {
        let per_token = self.caches.first().map_or(0, Cache::memory_per_token);
        Memory {
            weights: self.weights.memory() as u64,
            cache: self.caches.iter().map(Cache::memory).sum::<usize>() as u64,
            cache_per_token: (per_token * self.caches.len()) as u64,
            workspace: (self.workspace.memory() + 4 * self.logits.capacity()) as u64,
        }
    }

    async fn reserve(&mut self, tokens: usize) -> Result<(), BackendError> {
        self.make_room(tokens)
    }

    async fn run(
        &mut self,
        ids: &[u32],
        past: usize,
        want_logits: bool,
    ) -> Result<(), BackendError> {
        self.make_room(past + ids.len())?;
        let mut past = past;
        let mut chunks = ids.chunks(CHUNK).peekable();
        while let Some(chunk) = chunks.next() {
            self.forward(chunk, past, want_logits && chunks.peek().is_none());
            past += chunk.len();
        }
        Ok(())
    }

    async fn run_chosen(&mut self, past: usize) -> Result<(), BackendError> {
        let id = self
            .latest
            .ok_or_else(|| BackendError::Fault("no token was chosen".into()))?;
        self.run(&[id], past, true).await
    }

    async fn choose(&mut self, sampling: &Sampling, index: u64) -> Result<(), BackendError> {
        let id = sampling.choose(&self.logits, index);
        self.latest = Some(id);
        self.chosen.push_back(id);
        Ok(())
    }

    async fn chosen(&mut self) -> Result<u32, BackendError> {
        self.chosen
            .pop_front()
            .ok_or_else(|| BackendError::Fault("no token was chosen".into()))
    }

    fn forget_chosen(&mut self) {
        self.chosen.clear();
    }

    async fn logits(&mut self) -> Result<Vec<f32>, BackendError> {
        Ok(self.logits.clone())
    }

    async fn wait(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}
