//! The two enums that cross the worker boundary.
//!
//! The page posts [`Request`]s, the worker answers with [`Event`]s; both travel through
//! `serde-wasm-bindgen`. Weights never cross it. A local file crosses as the browser's own `File`
//! handle beside the request (see [`Source::File`]), which is a reference, not a copy.

use serde::{Deserialize, Serialize};

/// What the page asks of the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Request {
    /// Get the processor ready without loading anything. Answered by [`Event::Processor`] or
    /// [`Event::Failed`].
    Probe,
    /// Load a model; a loaded one is dropped first. Answered by [`Event::Progress`]es, then
    /// [`Event::Loaded`] or [`Event::Failed`].
    Load {
        /// Where the bytes are.
        source: Source,
        /// Longest context in tokens that the session may reach.
        context: u32,
        /// Keep keys and values in half precision on the GPU: half the memory, and rounding errors of
        /// about one in two thousand.
        half_cache: bool,
    },
    /// Continue a prompt. Answered by [`Event::Prompt`], [`Event::Token`]s and one
    /// [`Event::Finished`] or [`Event::Failed`].
    Generate {
        /// Chosen by the page; every answer to this request carries it.
        job: u32,
        /// What to continue.
        prompt: Prompt,
        /// How the next token is chosen.
        sampling: Sampling,
        /// At most this many new tokens.
        max_tokens: u32,
        /// Tell with each token what the model thought of it, with this many alternatives; 0 for
        /// nothing. Costs a read of all logits per token.
        alternatives: u32,
    },
    /// Measure the loaded model. Answered by [`Event::Measured`] or [`Event::Failed`].
    Measure {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Tokens to decode after it.
        decode_tokens: u32,
    },
    /// Stop a running generation or a running load as soon as possible.
    Stop,
    /// Drop the model and free its memory.
    Unload,
}

/// Where a model file is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Source {
    /// An http(s) address, absolute or relative to the page.
    Url {
        /// The address.
        url: String,
    },
    /// A local file: its handle travels beside the request, as the property `file` of the posted
    /// object.
    File {
        /// Name as the browser reports it, for messages only.
        name: String,
    },
}

/// What a generation continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Prompt {
    /// Token ids, used as they are.
    Ids {
        /// The ids.
        ids: Vec<u32>,
    },
    /// Text in which the model's own special tokens are recognised.
    Text {
        /// The text.
        text: String,
    },
    /// Chat messages, laid out by the chat template that the model file carries.
    Messages {
        /// The messages as a JSON list in the usual `role`/`content`/`tool_calls` form.
        json: String,
    },
}

/// How the next token is chosen. `temperature` 0 is greedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    /// Logits are divided by this; 0 takes the most probable token.
    pub temperature: f32,
    /// Keep the k most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set of tokens whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens below this share of the best token's probability; 0 keeps all.
    pub min_p: f32,
    /// Seed of the generator; the same seed and settings give the same tokens.
    pub seed: u64,
}

/// What the engine tells the page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Event {
    /// The worker's code runs and takes requests.
    Ready,
    /// The processor is ready.
    Processor {
        /// Its description.
        processor: Processor,
    },
    /// A load goes on.
    Progress {
        /// What is being done.
        stage: Stage,
        /// Bytes read so far.
        done: u64,
        /// Bytes in all; 0 when not known yet.
        total: u64,
        /// Seconds since the load began.
        seconds: f64,
    },
    /// The model is ready.
    Loaded {
        /// Its description.
        model: ModelInfo,
    },
    /// The prompt as the model sees it.
    Prompt {
        /// Which generation.
        job: u32,
        /// Its token ids.
        ids: Vec<u32>,
        /// The text of each id, special tokens by name; lossy where an id ends inside a character.
        pieces: Vec<String>,
        /// How many of the ids were still in the KV cache.
        reused: u32,
    },
    /// A new token.
    Token {
        /// Which generation.
        job: u32,
        /// Its id.
        id: u32,
        /// Text that became complete with this token; empty while a character is unfinished.
        text: String,
        /// Whether the id is a special token (its name is then in `text`).
        special: bool,
        /// Tokens per second since the first new token.
        rate: f64,
        /// What the model thought, where it was asked for.
        outlook: Option<Outlook>,
    },
    /// A generation ended.
    Finished {
        /// Which generation.
        job: u32,
        /// Why.
        reason: StopReason,
        /// What it took.
        stats: Stats,
    },
    /// The loaded model was measured.
    Measured {
        /// The figures.
        measures: Measures,
    },
    /// The model was dropped on request.
    Unloaded,
    /// A request could not be carried out. The worker stays usable.
    Failed {
        /// Which generation, when it was one.
        job: Option<u32>,
        /// What failed, why, and what to do next.
        failure: Failure,
    },
}

/// What a model runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "kind"
)]
pub enum Processor {
    /// WebGPU, or Vulkan natively.
    Gpu {
        /// The GPU.
        adapter: Adapter,
    },
    /// The CPU, one thread.
    Cpu {
        /// The vector instructions that its kernels use, such as `simd128` or `avx2`.
        vectors: String,
    },
}

/// What a model thought of its next token, at temperature 1 and before any filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Probability of the token that was chosen.
    pub probability: f32,
    /// Entropy of the distribution in nats.
    pub entropy: f32,
    /// The most probable tokens, best first.
    pub alternatives: Vec<Alternative>,
}

/// A token that might have been chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// Its id.
    pub id: u32,
    /// Its text; lossy where it ends inside a character.
    pub piece: String,
    /// Its probability.
    pub probability: f32,
}

/// Figures of a loaded model. Greedy decoding, after one run to warm up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measures {
    /// Milliseconds that the load took.
    pub load_ms: f64,
    /// Prompt tokens per second.
    pub prefill_tokens_per_second: f64,
    /// New tokens per second.
    pub decode_tokens_per_second: f64,
    /// Milliseconds from an edited prompt of one new token to its next token.
    pub first_token_ms: f64,
    /// Kernel launches per decoded token; 0 on the CPU.
    pub launches_per_token: f64,
    /// Submissions to the GPU per decoded token; 0 on the CPU.
    pub submits_per_token: f64,
    /// Bytes of weights read per decoded token.
    pub bytes_per_token: u64,
    /// Size of the wasm memory in bytes, which never shrinks; 0 natively.
    pub wasm_bytes: u64,
}

/// A GPU as the browser describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adapter {
    /// Vendor and device as far as the browser tells.
    pub name: String,
    /// Whether it is a CPU emulating a GPU.
    pub software: bool,
    /// Largest storage-buffer binding in bytes.
    pub max_binding: u64,
    /// Largest buffer in bytes.
    pub max_buffer: u64,
}

/// What a load is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// Looking for the GPU and setting it up.
    Device,
    /// Reading the file's header.
    Header,
    /// Reading weights into GPU memory.
    Weights,
    /// Compiling kernels.
    Kernels,
}

/// A loaded model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// Name from the file's metadata, else the file name.
    pub name: String,
    /// Licence as the file states it, if it does.
    pub licence: Option<String>,
    /// Parameters.
    pub parameters: u64,
    /// Count of tensors per type, as in `Q4_1 × 210`.
    pub types: Vec<(String, u32)>,
    /// Entries of the vocabulary.
    pub vocabulary: u32,
    /// Longest context of this session in tokens.
    pub context: u32,
    /// Bytes of the file's tensors.
    pub tensor_bytes: u64,
    /// Bytes of memory held by weights.
    pub weight_bytes: u64,
    /// Bytes of KV cache per token of context; the cache grows with the conversation.
    pub cache_bytes_per_token: u64,
    /// Whether keys and values are kept in half precision.
    pub half_cache: bool,
    /// Whether the file carries a chat template.
    pub chat_template: bool,
    /// Seconds that the load took.
    pub seconds: f64,
    /// Peak of the worker's wasm memory in bytes.
    pub wasm_bytes: u64,
    /// What it runs on.
    pub processor: Processor,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The model wrote one of its stop tokens.
    StopToken,
    /// The asked number of tokens was reached.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The page asked for it.
    Stopped,
}

/// Figures of one generation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// New tokens.
    pub new_tokens: u32,
    /// Seconds from the request to the first new token.
    pub first_token_seconds: f64,
    /// New tokens per second, counted from the first to the last.
    pub tokens_per_second: f64,
}

/// A failure as a person needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// What kind, stable for scripts.
    pub kind: FailureKind,
    /// What happened and where.
    pub message: String,
    /// What to do next.
    pub advice: String,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// The browser has no WebGPU, or offers no adapter.
    NoGpu,
    /// The GPU was lost or refused work.
    Device,
    /// The GPU or the tab has no memory left.
    Memory,
    /// The address or file could not be read.
    Network,
    /// The file is not what it should be.
    BadFile,
    /// The file is fine but of a kind that this engine does not run.
    Unsupported,
    /// The request makes no sense now, such as generating with no model.
    BadRequest,
    /// The engine's own fault.
    Internal,
}
