//! The Llama network on the GPU: modules, KV cache, working buffers and the forward pass.
//!
//! Source: Touvron et al. 2023 (RMS norm, rotary embedding, SwiGLU), Ainslie et al. 2023
//! (grouped-query attention). Rotary pairs are adjacent elements, as GGUF stores the projections.
//!
//! Launches of a block, for one token: query, key and value product with norm, rotation and append to
//! the cache (one, or one per layout among the three); attention (two where it is split over the
//! context); output product with residual; gate and up product with norm and SiLU; down product with
//! residual. With several tokens the two norms are launches of their own.

use std::collections::VecDeque;

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use cubecl::server::Handle;
use model::config::rotations;
use model::{BackendError, Config, Memory, Sampling};

use crate::gpu::{Gpu, Spread, Words, float_handle, word_handle};
use crate::kernels::attention::{self, Attention, Heads, Merge};
use crate::kernels::copy::Copy;
use crate::kernels::norm::Norm;
use crate::kernels::sample::{self, Best, Score, Threshold, Winner};
use crate::kernels::step;
use crate::linear::{self, Input, Linear, Output};

/// The weights of a Llama model.
#[derive(Module, Debug)]
pub struct Llama {
    /// Token embeddings, and the output matrix too where the two are tied. `vocab × dim`.
    pub(crate) embedding: Linear,
    /// Transformer blocks.
    pub(crate) blocks: Vec<Block>,
    /// Gains of the last norm. `dim`.
    pub(crate) norm: Tensor<1>,
    /// Output matrix where it is not tied. `vocab × dim`.
    pub(crate) head: Option<Linear>,
}

/// One transformer block.
#[derive(Module, Debug)]
pub struct Block {
    /// Gains of the norm before attention. `dim`.
    pub(crate) attention_norm: Tensor<1>,
    /// Query, key and value projections, stacked. `(heads + 2 kv_heads) head_dim × dim`.
    pub(crate) qkv: Linear,
    /// Output projection of attention. `dim × heads head_dim`.
    pub(crate) output: Linear,
    /// Gains of the norm before the feed-forward layer. `dim`.
    pub(crate) ffn_norm: Tensor<1>,
    /// Gate projection. `ffn × dim`.
    pub(crate) gate: Linear,
    /// Up projection. `ffn × dim`.
    pub(crate) up: Linear,
    /// Down projection. `dim × ffn`.
    pub(crate) down: Linear,
}

impl Block {
    fn linears(&self) -> [&Linear; 5] {
        [&self.qkv, &self.output, &self.gate, &self.up, &self.down]
    }

    /// Weights of its matrices.
    fn weights(&self) -> u64 {
        let linears = self.linears();
        linears
            .iter()
            .map(|it| it.rows() as u64 * it.cols() as u64)
            .sum()
    }

    /// Bytes on the GPU.
    fn bytes(&self) -> u64 {
        let norms = self.attention_norm.dims()[0] + self.ffn_norm.dims()[0];
        let linears: u64 = self.linears().iter().map(|linear| linear.bytes()).sum();
        linears + norms as u64 * 4
    }
}

impl Llama {
    /// Bytes of weights on the GPU.
    pub fn bytes(&self) -> u64 {
        let blocks: u64 = self.blocks.iter().map(Block::bytes).sum();
        self.embedding.bytes()
            + blocks
            + self.norm.dims()[0] as u64 * 4
            + self.head.as_ref().map_or(0, Linear::bytes)
    }

    /// Bytes of weights that decoding one token reads, apart from one row of the embedding.
    pub fn bytes_per_token(&self) -> u64 {
        if self.head.is_some() {
            self.bytes() - self.embedding.bytes()
        } else {
            self.bytes()
        }
    }
}

/// Arithmetic operations that are submitted at once: a driver takes a GPU that is busy for two seconds
/// for a hanging one, and weak GPUs do some hundred thousand million operations a second.
const OPERATIONS_PER_SUBMIT: u64 = 50_000_000_000;
/// Positions that the cache grows by at least.
const GROWTH: usize = 256;

/// Keys and values of the tokens seen so far, per block.
///
/// Layout of each: `[position][kv_heads * head_dim]`, single precision, or half in pairs.
#[derive(Debug)]
struct Cache {
    keys: Vec<Tensor<1, Int>>,
    values: Vec<Tensor<1, Int>>,
    /// Positions that there is room for.
    capacity: usize,
    /// Words per position in each buffer.
    row: usize,
    half: bool,
}

impl Cache {
    fn new(gpu: &Gpu, config: &Config, half: bool) -> Self {
        let row = cache_row(config, half);
        let make = || {
            (0..config.layers)
                .map(|_| gpu.words(GROWTH * row))
                .collect()
        };
        Self {
            keys: make(),
            values: make(),
            capacity: GROWTH,
            row,
            half,
        }
    }

    /// Bytes per position, of all blocks.
    fn bytes_per_token(&self) -> u64 {
        cache_bytes_per_token(self.keys.len(), self.row)
    }

    /// Makes room for `tokens` positions, and somewhat more so that growing stays rare. The old buffers
    /// are kept until all are copied, so that a failure leaves the cache as it was.
    async fn grow(&mut self, gpu: &Gpu, tokens: usize, most: usize) -> Result<(), BackendError> {
        let step = (self.capacity / 2).next_multiple_of(GROWTH);
        let capacity = (self.capacity + step).max(tokens.next_multiple_of(GROWTH));
        let capacity = capacity.min(most.next_multiple_of(GROWTH));
        let bytes = (capacity * self.row * 4) as u64;
        let limit = gpu.info().max_binding;
        if bytes > limit {
            return Err(BackendError::Memory(format!(
                "{tokens} tokens of context need cache buffers of {bytes} bytes, but the adapter \
                 binds at most {limit}"
            )));
        }
        let copy = Copy {
            quads: (self.capacity * self.row / 4) as u32,
        };
        let mut grown = Vec::new();
        for buffer in self.keys.iter().chain(&self.values) {
            let larger = gpu.words(capacity * self.row);
            gpu.launch(
                copy.clone(),
                copy.groups(),
                &[&word_handle(buffer), &word_handle(&larger)],
            );
            grown.push(larger);
        }
        gpu.finish().await?;
        self.values = grown.split_off(self.keys.len());
        self.keys = grown;
        self.capacity = capacity;
        Ok(())
    }
}

/// Buffers that a forward pass works in, made once for the largest chunk.
#[derive(Debug)]
struct Workspace {
    step: Tensor<1, Int>,
    /// A `step` that says one token.
    one: Tensor<1, Int>,
    ids: Tensor<1, Int>,
    stream: Tensor<1>,
    normed: Tensor<1>,
    query: Tensor<1>,
    mixed: Tensor<1>,
    partial: Tensor<1>,
    hidden: Tensor<1>,
    logits: Tensor<1>,
    draw: Tensor<1, Int>,
    candidates: Tensor<1, Int>,
    threshold: Tensor<1, Int>,
    parts: Tensor<1, Int>,
    chosen: Tensor<1, Int>,
    bytes: u64,
}

/// Elements of each of the buffers, all of four bytes.
struct Sizes {
    step: usize,
    ids: usize,
    stream: usize,
    queries: usize,
    partial: usize,
    hidden: usize,
    logits: usize,
    draw: usize,
    candidates: usize,
    parts: usize,
}

impl Sizes {
    /// For chunks of at most `chunk` tokens.
    fn new(config: &Config, chunk: usize) -> Self {
        let partial = attention::partial_len(config.head_dim) * attention::MOST_SPLITS;
        Self {
            step: step::words(chunk, config.head_dim),
            ids: chunk,
            stream: chunk * config.dim,
            queries: chunk * config.heads * config.head_dim,
            partial: config.heads * partial,
            hidden: chunk * config.ffn,
            logits: config.vocab,
            draw: sample::DRAW_WORDS,
            candidates: config.vocab * 2,
            parts: sample::PARTS as usize * 2,
        }
    }

    /// Bytes of all buffers of a [`Workspace`].
    fn bytes(&self) -> u64 {
        let twice = self.step + self.stream + self.queries;
        let once = self.ids
            + self.partial
            + self.hidden
            + self.logits
            + self.draw
            + self.candidates
            + self.parts;
        // The threshold and the chosen token are a word each.
        (2 * twice + once + 2) as u64 * 4
    }
}

impl Workspace {
    fn new(gpu: &Gpu, sizes: &Sizes) -> Self {
        let work = Self {
            step: gpu.words(sizes.step),
            one: gpu.words(sizes.step),
            ids: gpu.words(sizes.ids),
            stream: gpu.floats(sizes.stream),
            normed: gpu.floats(sizes.stream),
            query: gpu.floats(sizes.queries),
            mixed: gpu.floats(sizes.queries),
            partial: gpu.floats(sizes.partial),
            hidden: gpu.floats(sizes.hidden),
            logits: gpu.floats(sizes.logits),
            draw: gpu.words(sizes.draw),
            candidates: gpu.words(sizes.candidates),
            threshold: gpu.words(1),
            parts: gpu.words(sizes.parts),
            chosen: gpu.words(1),
            bytes: sizes.bytes(),
        };
        gpu.write(&word_handle(&work.one), 0, &[1]);
        work
    }
}

/// Bytes of cache per token, bytes of buffers to work in, and the most tokens that a buffer of the cache
/// has room for.
pub(crate) fn estimate(gpu: &Gpu, config: &Config, half: bool) -> (u64, u64, u64) {
    let row = cache_row(config, half);
    let sizes = Sizes::new(config, chunk_tokens(gpu.spread()));
    (
        cache_bytes_per_token(config.layers, row),
        sizes.bytes(),
        gpu.info().max_binding / (row as u64 * 4),
    )
}

/// Words of a position in each buffer of the cache.
fn cache_row(config: &Config, half: bool) -> usize {
    config.kv_heads * config.head_dim / if half { 2 } else { 1 }
}

/// Bytes of a position in all buffers of the cache.
fn cache_bytes_per_token(layers: usize, row: usize) -> u64 {
    layers as u64 * 2 * row as u64 * 4
}

/// A model on the GPU with all that a pass through it needs.
pub struct GpuNetwork {
    gpu: Gpu,
    config: Config,
    model: Llama,
    cache: Cache,
    work: Workspace,
    /// Angular frequencies of the rotary pairs.
    frequencies: Vec<f64>,
    /// Settings that the GPU's `draw` buffer holds, and the index it has reached.
    drawn: Option<(Sampling, u64)>,
    /// Chosen tokens on their way.
    pending: VecDeque<Words>,
}

impl std::fmt::Debug for GpuNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuNetwork")
            .field("gpu", &self.gpu)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl GpuNetwork {
    /// Gives loaded weights a cache, in half precision if asked, and buffers to work in.
    pub(crate) async fn new(
        gpu: Gpu,
        config: Config,
        model: Llama,
        half_cache: bool,
    ) -> Result<Self, BackendError> {
        let cache = Cache::new(&gpu, &config, half_cache);
        let sizes = Sizes::new(&config, chunk_tokens(gpu.spread()));
        let work = Workspace::new(&gpu, &sizes);
        gpu.finish().await?;
        Ok(Self {
            frequencies: config.rope.frequencies(config.head_dim),
            gpu,
            config,
            model,
            cache,
            work,
            drawn: None,
            pending: VecDeque::new(),
        })
    }

    /// The GPU it runs on.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The weights.
    pub fn model(&self) -> &Llama {
        &self.model
    }

    /// Whether keys and values are kept in half precision.
    pub fn half_cache(&self) -> bool {
        self.cache.half
    }

    /// Queues a pass of `tokens` tokens, whose ids lie in `ids`, at positions `past..`.
    fn forward(
        &self,
        ids: &Handle,
        tokens: usize,
        past: usize,
        want_logits: bool,
    ) -> Result<(), BackendError> {
        let Self {
            gpu, model, work, ..
        } = self;
        let mut words = vec![0; step::ROTATIONS];
        words[..2].copy_from_slice(&[tokens as u32, past as u32]);
        let mut table = Vec::new();
        rotations(&self.frequencies, past..past + tokens, &mut table);
        words.extend(table.iter().map(|x| x.to_bits()));
        let step = word_handle(&work.step);
        gpu.write(&step, 0, &words);

        let stream = float_handle(&work.stream);
        model.embedding.gather(gpu, &step, ids, &stream, tokens);
        let mut operations = 0;
        for (index, block) in model.blocks.iter().enumerate() {
            self.block(index, &step, &stream, tokens, past);
            operations += 2 * tokens as u64 * block.weights();
            if tokens > 1 && operations > OPERATIONS_PER_SUBMIT {
                gpu.submit()?;
                operations = 0;
            }
        }
        if want_logits {
            let logits = float_handle(&work.logits);
            let head = model.head.as_ref().unwrap_or(&model.embedding);
            let one = word_handle(&work.one);
            let (step, input) = if tokens == 1 {
                (&step, self.normalized(&stream, &model.norm, &step, tokens))
            } else {
                // The norm leaves the last token's vector in front, so that the head sees one token.
                let normed = self.norm(&model.norm, &step, tokens, true);
                (&one, (normed, None))
            };
            head.forward(gpu, &input_of(step, &input), &Output::Store(&logits), 1);
        }
        gpu.check()
    }

    /// Queues one transformer block.
    fn block(&self, index: usize, step: &Handle, stream: &Handle, tokens: usize, past: usize) {
        let Self {
            gpu,
            config,
            model,
            cache,
            work,
            ..
        } = self;
        let block = &model.blocks[index];
        let queries = float_handle(&work.query);
        let keys = word_handle(&cache.keys[index]);
        let values = word_handle(&cache.values[index]);
        let shape = Heads {
            heads: config.heads as u32,
            kv_heads: config.kv_heads as u32,
            head_dim: config.head_dim as u32,
            half: cache.half,
        };

        let input = self.normalized(stream, &block.attention_norm, step, tokens);
        let output = Output::Rotate {
            queries: &queries,
            keys: &keys,
            values: &values,
            shape,
        };
        block
            .qkv
            .forward(gpu, &input_of(step, &input), &output, tokens);
        let mixed = self.attention(shape, &queries, &keys, &values, step, tokens, past);
        let plain = |x| Input {
            step,
            x,
            norm: None,
        };
        block
            .output
            .forward(gpu, &plain(&mixed), &Output::Add(stream), tokens);

        let input = self.normalized(stream, &block.ffn_norm, step, tokens);
        let input = input_of(step, &input);
        let hidden = float_handle(&work.hidden);
        if block.gate.pairs_with(&block.up) {
            Linear::gate_up(&block.gate, &block.up, gpu, &input, &hidden, tokens);
        } else {
            block
                .gate
                .forward(gpu, &input, &Output::Store(&hidden), tokens);
            block
                .up
                .forward(gpu, &input, &Output::Gated(&hidden), tokens);
        }
        block
            .down
            .forward(gpu, &plain(&hidden), &Output::Add(stream), tokens);
    }

    /// Queues attention and says where its result will be.
    #[expect(clippy::too_many_arguments, reason = "the operands of one launch")]
    fn attention(
        &self,
        shape: Heads,
        queries: &Handle,
        keys: &Handle,
        values: &Handle,
        step: &Handle,
        tokens: usize,
        past: usize,
    ) -> Handle {
        let Self {
            gpu, config, work, ..
        } = self;
        let spread = gpu.spread();
        let mixed = float_handle(&work.mixed);
        let splits = if tokens == 1 {
            attention::splits(spread, config.heads, past + 1)
        } else {
            1
        };
        let kernel = Attention {
            shape,
            partial: splits > 1,
            spread,
        };
        let groups = kernel.groups(tokens as u32, splits);
        if splits == 1 {
            gpu.launch(kernel, groups, &[queries, keys, values, step, &mixed]);
            return mixed;
        }
        let partial = float_handle(&work.partial);
        gpu.launch(kernel, groups, &[queries, keys, values, step, &partial]);
        let merge = Merge {
            heads: shape.heads,
            head_dim: shape.head_dim,
            splits,
        };
        let groups = merge.groups();
        gpu.launch(merge, groups, &[&partial, &mixed]);
        mixed
    }

    /// The residual stream as a product is to read it: with one token as it is, with the norm's gains,
    /// else normalized by a launch of its own.
    fn normalized(
        &self,
        stream: &Handle,
        gain: &Tensor<1>,
        step: &Handle,
        tokens: usize,
    ) -> (Handle, Option<(Handle, f32)>) {
        if tokens == 1 {
            let gain = float_handle(gain);
            (stream.clone(), Some((gain, self.config.norm_eps)))
        } else {
            (self.norm(gain, step, tokens, false), None)
        }
    }

    /// Queues a norm of the residual stream, of all tokens or the last, and says where its result will
    /// be.
    fn norm(&self, gain: &Tensor<1>, step: &Handle, tokens: usize, last: bool) -> Handle {
        let kernel = Norm {
            dim: self.config.dim as u32,
            eps: self.config.norm_eps.to_bits(),
            last,
            spread: self.gpu.spread(),
        };
        let groups = kernel.groups(tokens as u32);
        let stream = float_handle(&self.work.stream);
        let normed = float_handle(&self.work.normed);
        self.gpu.launch(
            kernel,
            groups,
            &[&stream, &float_handle(gain), step, &normed],
        );
        normed
    }

    /// Queues the choice of a token and its way back.
    fn queue_choice(&mut self, sampling: &Sampling, index: u64) {
        let Self {
            gpu, config, work, ..
        } = self;
        let spread = gpu.spread();
        let vocab = config.vocab as u32;
        let logits = float_handle(&work.logits);
        let draw = word_handle(&work.draw);
        let threshold = word_handle(&work.threshold);
        let parts = word_handle(&work.parts);
        let chosen = word_handle(&work.chosen);
        if self.drawn != Some((*sampling, index)) {
            gpu.write(&draw, 0, &sample::draw(sampling, index));
        }
        let filtered = sampling.top_k > 0 || sampling.top_p < 1.0 || sampling.min_p > 0.0;
        let score = match (sampling.is_greedy(), filtered) {
            (true, _) => Score::Greedy,
            (false, false) => Score::Noisy,
            (false, true) => Score::Filtered,
        };
        if score == Score::Filtered {
            let candidates = word_handle(&work.candidates);
            let kernel = Threshold { vocab };
            gpu.launch(
                kernel,
                [1, 1, 1],
                &[&logits, &draw, &candidates, &threshold],
            );
        }
        let kernel = Best {
            vocab,
            score,
            spread,
        };
        let groups = kernel.groups();
        match score {
            Score::Greedy => gpu.launch(kernel, groups, &[&logits, &parts]),
            Score::Noisy => gpu.launch(kernel, groups, &[&logits, &parts, &draw]),
            Score::Filtered => gpu.launch(kernel, groups, &[&logits, &parts, &draw, &threshold]),
        }
        gpu.launch(Winner { spread }, [1, 1, 1], &[&parts, &draw, &chosen]);
        self.pending.push_back(gpu.read(&chosen));
        self.drawn = Some((*sampling, index + 1));
    }
}

impl Drop for GpuNetwork {
    fn drop(&mut self) {
        self.gpu.abandon(self.pending.drain(..));
    }
}

fn input_of<'a>(step: &'a Handle, (x, norm): &'a (Handle, Option<(Handle, f32)>)) -> Input<'a> {
    Input {
        step,
        x,
        norm: norm
            .as_ref()
            .map(|(gain, eps)| linear::Norm { gain, eps: *eps }),
    }
}

/// Tokens per pass. Between passes the work so far is awaited, so that a weak GPU is never given more
/// than it finishes in time, and a request to stop is heard within about a second.
fn chunk_tokens(spread: Spread) -> usize {
    match spread {
        Spread::Rows => 16,
        Spread::Lanes => 128,
    }
}

impl model::Network for GpuNetwork {
    fn config(&self) -> &Config {
        &self.config
    }

    fn chunk_tokens(&self) -> usize {
        chunk_tokens(self.gpu.spread())
    }

    fn runs_ahead(&self) -> bool {
        true
    }

    fn memory(&self) -> Memory {
        let cache_per_token = self.cache.bytes_per_token();
        Memory {
            weights: self.model.bytes(),
            cache: cache_per_token * self.cache.capacity as u64,
            cache_per_token,
            workspace: self.work.bytes,
        }
    }

    async fn reserve(&mut self, tokens: usize) -> Result<(), BackendError> {
        if tokens <= self.cache.capacity {
            return Ok(());
        }
        let most = self.config.context.max(tokens);
        self.cache.grow(&self.gpu, tokens, most).await
    }

    async fn run(
        &mut self,
        ids: &[u32],
        past: usize,
        want_logits: bool,
    ) -> Result<(), BackendError> {
        let buffer = word_handle(&self.work.ids);
        self.gpu.write(&buffer, 0, ids);
        self.forward(&buffer, ids.len(), past, want_logits)?;
        // With logits to choose by, the choice goes into the same submission.
        if want_logits {
            Ok(())
        } else {
            self.gpu.submit()
        }
    }

    async fn run_chosen(&mut self, past: usize) -> Result<(), BackendError> {
        self.forward(&word_handle(&self.work.chosen), 1, past, true)
    }

    async fn choose(&mut self, sampling: &Sampling, index: u64) -> Result<(), BackendError> {
        self.queue_choice(sampling, index);
        self.gpu.check()
    }

    async fn chosen(&mut self) -> Result<u32, BackendError> {
        let Some(read) = self.pending.pop_front() else {
            return Err(BackendError::Fault("no token was chosen".to_owned()));
        };
        let words = read.await?;
        words
            .first()
            .copied()
            .ok_or_else(|| BackendError::Fault("a chosen token came back empty".to_owned()))
    }

    fn forget_chosen(&mut self) {
        self.gpu.abandon(self.pending.drain(..));
    }

    async fn logits(&mut self) -> Result<Vec<f32>, BackendError> {
        let words = self.gpu.read(&float_handle(&self.work.logits)).await?;
        Ok(words.into_iter().map(f32::from_bits).collect())
    }

    async fn wait(&mut self) -> Result<(), BackendError> {
        self.gpu.finish().await
    }
}
