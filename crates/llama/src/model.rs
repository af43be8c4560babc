//! The Llama network: modules, working buffers and the forward pass.
//!
//! Source: Touvron et al. 2023 (RMS norm, rotary embedding, SwiGLU), Ainslie et al. 2023
//! (grouped-query attention). Rotary pairs are adjacent elements, as GGUF stores the projections.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use cubecl::server::Handle;

use crate::config::Config;
use crate::gpu::{Gpu, GpuError, float_handle, word_handle};
use crate::kernels::{ARGMAX_PARTS, Epilogue, Kernel, STEP_WORDS};
use crate::linear::Linear;

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

impl Llama {
    /// Bytes of weights on the GPU.
    pub fn bytes(&self) -> u64 {
        let norms =
            |block: &Block| (block.attention_norm.dims()[0] + block.ffn_norm.dims()[0]) as u64 * 4;
        let blocks: u64 = self
            .blocks
            .iter()
            .map(|block| {
                [
                    &block.qkv,
                    &block.output,
                    &block.gate,
                    &block.up,
                    &block.down,
                ]
                .iter()
                .map(|linear| linear.bytes())
                .sum::<u64>()
                    + norms(block)
            })
            .sum();
        self.embedding.bytes()
            + blocks
            + self.norm.dims()[0] as u64 * 4
            + self.head.as_ref().map_or(0, Linear::bytes)
    }
}

/// Keys and values of the tokens seen so far, per block.
///
/// Layout of each: `kv_heads × capacity × head_dim`, single precision.
#[derive(Debug)]
pub(crate) struct Cache {
    keys: Vec<Tensor<1>>,
    values: Vec<Tensor<1>>,
    capacity: usize,
}

impl Cache {
    pub(crate) fn new(gpu: &Gpu, config: &Config, capacity: usize) -> Self {
        let len = config.kv_heads * capacity * config.head_dim;
        let make = || (0..config.layers).map(|_| gpu.floats(len)).collect();
        Self {
            keys: make(),
            values: make(),
            capacity,
        }
    }
}

/// Buffers that a forward pass works in, made once for the largest chunk.
#[derive(Debug)]
pub(crate) struct Workspace {
    step: Tensor<1, Int>,
    /// A `step` that says one token.
    one: Tensor<1, Int>,
    ids: Tensor<1, Int>,
    table: Tensor<1>,
    stream: Tensor<1>,
    normed: Tensor<1>,
    qkv: Tensor<1>,
    query: Tensor<1>,
    mixed: Tensor<1>,
    hidden: Tensor<1>,
    logits: Tensor<1>,
    parts: Tensor<1, Int>,
    best: Tensor<1, Int>,
}

impl Workspace {
    /// Buffers for chunks of at most `chunk` tokens and positions below `capacity`.
    pub(crate) fn new(gpu: &Gpu, config: &Config, chunk: usize, capacity: usize) -> Self {
        let table = gpu.floats(capacity * config.head_dim);
        let angles = config.rope.table(config.head_dim, capacity);
        gpu.write(&float_handle(&table), 0, bytemuck::cast_slice(&angles));
        let one = gpu.words(STEP_WORDS);
        gpu.write(&word_handle(&one), 0, &[1, 0, 0, 0]);
        Self {
            step: gpu.words(STEP_WORDS),
            one,
            ids: gpu.words(chunk),
            table,
            stream: gpu.floats(chunk * config.dim),
            normed: gpu.floats(chunk * config.dim),
            qkv: gpu.floats(chunk * config.qkv_rows()),
            query: gpu.floats(chunk * config.heads * config.head_dim),
            mixed: gpu.floats(chunk * config.heads * config.head_dim),
            hidden: gpu.floats(chunk * config.ffn),
            logits: gpu.floats(config.vocab),
            parts: gpu.words(ARGMAX_PARTS as usize * 2),
            best: gpu.words(1),
        }
    }

    /// The logits of the last token of the last chunk. `vocab`.
    pub(crate) fn logits(&self) -> Handle {
        float_handle(&self.logits)
    }
}

/// A model with all that a pass through it needs.
#[derive(Debug)]
pub(crate) struct Network {
    pub gpu: Gpu,
    pub config: Config,
    pub model: Llama,
    pub cache: Cache,
    pub work: Workspace,
}

impl Network {
    /// Runs `ids` through the model at positions `past..`, appending to the cache and, where
    /// `want_logits`, computing the logits of the last of them. Queues work and submits it; waits for
    /// nothing.
    pub(crate) fn forward(
        &self,
        ids: &[u32],
        past: usize,
        want_logits: bool,
    ) -> Result<(), GpuError> {
        let Self {
            gpu,
            config,
            model,
            cache,
            work,
        } = self;
        let tokens = ids.len();
        let step = word_handle(&work.step);
        let ids_buffer = word_handle(&work.ids);
        gpu.write(
            &step,
            0,
            &[tokens as u32, past as u32, cache.capacity as u32, 0],
        );
        gpu.write(&ids_buffer, 0, ids);

        let stream = float_handle(&work.stream);
        let normed = float_handle(&work.normed);
        let qkv = float_handle(&work.qkv);
        let query = float_handle(&work.query);
        let mixed = float_handle(&work.mixed);
        let hidden = float_handle(&work.hidden);
        let table = float_handle(&work.table);
        let (heads, kv_heads) = (config.heads as u32, config.kv_heads as u32);
        let head_dim = config.head_dim as u32;
        let spread = gpu.spread();
        let norm = |gain: &Tensor<1>, last: bool| {
            let kernel = Kernel::Norm {
                dim: config.dim as u32,
                eps_bits: config.norm_eps.to_bits(),
                last,
                spread,
            };
            let groups = kernel.groups(tokens as u32);
            gpu.launch(
                kernel,
                groups,
                &[&stream, &float_handle(gain), &step, &normed],
            );
        };

        model
            .embedding
            .gather(gpu, &step, &ids_buffer, &stream, tokens);
        for (index, block) in model.blocks.iter().enumerate() {
            let keys = float_handle(&cache.keys[index]);
            let values = float_handle(&cache.values[index]);
            norm(&block.attention_norm, false);
            block
                .qkv
                .forward(gpu, &step, &normed, &qkv, tokens, Epilogue::Store);
            let kernel = Kernel::Rope {
                heads,
                kv_heads,
                head_dim,
            };
            let groups = kernel.groups(tokens as u32);
            gpu.launch(
                kernel,
                groups,
                &[&qkv, &table, &step, &query, &keys, &values],
            );
            let kernel = Kernel::Attention {
                heads,
                kv_heads,
                head_dim,
                spread,
            };
            let groups = kernel.groups(tokens as u32);
            gpu.launch(kernel, groups, &[&query, &keys, &values, &step, &mixed]);
            block
                .output
                .forward(gpu, &step, &mixed, &stream, tokens, Epilogue::Add);
            norm(&block.ffn_norm, false);
            Linear::gate_up(&block.gate, &block.up, gpu, &step, &normed, &hidden, tokens);
            block
                .down
                .forward(gpu, &step, &hidden, &stream, tokens, Epilogue::Add);
        }
        if want_logits {
            norm(&model.norm, true);
            // The norm left the last token's vector in front, so the head sees one token.
            let (one, logits) = (word_handle(&work.one), float_handle(&work.logits));
            let head = model.head.as_ref().unwrap_or(&model.embedding);
            head.forward(gpu, &one, &normed, &logits, 1, Epilogue::Store);
        }
        gpu.submit()
    }

    /// The most probable token by the logits of the last forward pass; the lowest id among equals.
    pub(crate) async fn argmax(&self) -> Result<u32, GpuError> {
        let Self {
            gpu, config, work, ..
        } = self;
        let parts = word_handle(&work.parts);
        let best = word_handle(&work.best);
        let kernel = Kernel::ArgmaxParts {
            vocab: config.vocab as u32,
        };
        let groups = kernel.groups(1);
        gpu.launch(kernel, groups, &[&float_handle(&work.logits), &parts]);
        let kernel = Kernel::ArgmaxMerge;
        let groups = kernel.groups(1);
        gpu.launch(kernel, groups, &[&parts, &best]);
        let read = gpu.read(&best).await?;
        read.first()
            .copied()
            .ok_or_else(|| GpuError::Fault("the arg-max returned nothing".to_owned()))
    }
}
