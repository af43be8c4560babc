//! The two enums that cross the worker boundary.
//!
//! The page posts [`Request`]s, the worker answers with [`Event`]s; both travel through
//! `serde-wasm-bindgen`. Weights never cross it. A local file crosses as the browser's own `File`
//! handle beside the request (see [`Source::Files`]), which is a reference, not a copy.

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
    /// Read a model's headers and say what loading it would take. Answered by [`Event::Checked`],
    /// [`Event::Choices`] or [`Event::Failed`].
    Check {
        /// Where the model is.
        source: Source,
        /// For whom.
        sides: Sides,
        /// How it is to be loaded.
        options: LoadOptions,
    },
    /// Load a model for one side or both; what these sides had is dropped first. Answered by
    /// [`Event::Progress`]es and [`Event::Pieces`], then [`Event::Loaded`] or [`Event::Failed`].
    Load {
        /// Where the model is.
        source: Source,
        /// For whom.
        sides: Sides,
        /// How.
        options: LoadOptions,
    },
    /// Continue a prompt. Answered by [`Event::Prompt`], [`Event::Token`]s and one
    /// [`Event::Finished`] or [`Event::Failed`].
    Generate {
        /// Chosen by the page; every answer to this request carries it.
        job: u32,
        /// Whose model is to continue. Where it had to make room for the other side's, it is read again
        /// first.
        side: Side,
        /// What to continue.
        prompt: Prompt,
        /// How the next token is chosen.
        sampling: Sampling,
        /// At most this many new tokens.
        max_tokens: u32,
        /// Ids that end the output besides those that the model itself ends with.
        #[serde(default)]
        stops: Vec<u32>,
        /// Tell with each token what the model thought of it, with this many alternatives; 0 for
        /// nothing. Costs a read of all logits per token.
        alternatives: u32,
    },
    /// Measure a side's model. Answered by [`Event::Measured`] or [`Event::Failed`].
    Measure {
        /// Whose.
        side: Side,
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Tokens to decode after it.
        decode_tokens: u32,
    },
    /// Stop a running generation or a running load as soon as possible.
    Stop,
    /// Drop the models of these sides and free their memory. Answered by [`Event::Unloaded`].
    Unload {
        /// Whose.
        sides: Sides,
    },
    /// List what is kept in this browser. Answered by [`Event::Kept`].
    List,
    /// Delete a kept model. Answered by [`Event::Kept`] or [`Event::Failed`].
    Delete {
        /// Its key, from [`Event::Kept`].
        key: String,
    },
}

/// One of the two sides of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The left one.
    A,
    /// The right one.
    B,
}

/// Which sides something is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sides {
    /// The left one.
    A,
    /// The right one.
    B,
    /// Both share it.
    Both,
}

impl Sides {
    /// Whether this side is among them.
    pub fn has(self, side: Side) -> bool {
        match self {
            Self::Both => true,
            Self::A => side == Side::A,
            Self::B => side == Side::B,
        }
    }

    /// These sides but for those; `None` when none are left.
    pub fn without(self, those: Self) -> Option<Self> {
        match (
            self.has(Side::A) && !those.has(Side::A),
            self.has(Side::B) && !those.has(Side::B),
        ) {
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::A),
            (false, true) => Some(Self::B),
            (false, false) => None,
        }
    }
}

/// How a model is to be loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadOptions {
    /// Quantize while reading, by the name of a recipe (`q4`, `q8`; see `model::convert`). `None` takes
    /// the weights as they are.
    pub recipe: Option<String>,
    /// Longest context in tokens that the session may reach.
    pub context: u32,
    /// Keep keys and values in half precision on the GPU: half the memory, and rounding errors of about
    /// one in two thousand.
    pub half_cache: bool,
    /// Keep the model in the browser's storage.
    pub keep: bool,
    /// Bytes that models may take together, where the person has set a limit.
    pub memory_limit: Option<u64>,
}

/// Where a model is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Source {
    /// An http(s) address, absolute or relative to the page: of a GGUF file, of our `model.json`, or of
    /// a `config.json` with safetensors beside it.
    Url {
        /// The address.
        url: String,
        /// An access token, sent to that origin alone.
        token: Option<Token>,
    },
    /// A repository of the Hugging Face hub.
    Hub {
        /// `owner/name`.
        repository: String,
        /// Branch, tag or commit; `None` for `main`.
        revision: Option<String>,
        /// Which of its files, where it holds several models.
        file: Option<String>,
        /// An access token for gated repositories, sent to the hub alone.
        token: Option<Token>,
    },
    /// Local files: their handles travel beside the request, as the property `files` of the posted
    /// object, an array in the order of `names`.
    Files {
        /// Names as the browser reports them; within a picked folder relative to it.
        names: Vec<String>,
    },
    /// A model kept in this browser.
    Kept {
        /// Its key, from [`Event::Kept`].
        key: String,
    },
}

/// An access token. It shows itself to nobody but serde.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
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
    /// What a checked model would take.
    Checked {
        /// The figures.
        preflight: Box<Preflight>,
    },
    /// A repository or folder holds several models: one is to be chosen, as [`Source::Hub`]'s `file`.
    Choices {
        /// The models.
        choices: Vec<ModelChoice>,
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
    /// How the pieces of a model are doing that is read piece by piece.
    Pieces {
        /// The figures.
        pieces: Pieces,
    },
    /// A model is ready.
    Loaded {
        /// For whom.
        sides: Sides,
        /// Its description.
        model: Box<ModelInfo>,
    },
    /// Where the sides' models are; told whenever that changes.
    Residence {
        /// Side A's model.
        a: Residence,
        /// Side B's model.
        b: Residence,
    },
    /// What is kept in this browser.
    Kept {
        /// Models, the one last used first.
        models: Vec<KeptModel>,
        /// The storage; `Err` says why there is none.
        storage: Result<Storage, String>,
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
    /// Models were dropped on request.
    Unloaded {
        /// Whose.
        sides: Sides,
    },
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
    /// Whether it is a special token (its name is then in `piece`).
    pub special: bool,
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

/// What loading a model would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// Name of the model.
    pub name: String,
    /// What it is, as in `GGUF, Q4_K_M`.
    pub label: String,
    /// Its licence, if it states one.
    pub licence: Option<Licence>,
    /// Parameters.
    pub parameters: u64,
    /// Bytes that are still to be fetched.
    pub download_bytes: u64,
    /// Bytes of it that are kept in this browser already.
    pub kept_bytes: u64,
    /// Bytes that it takes in storage when all of it is kept.
    pub storage_bytes: u64,
    /// Bytes of memory for weights.
    pub weight_bytes: u64,
    /// Bytes of memory for keys and values of a full context.
    pub cache_bytes: u64,
    /// Bytes of memory for everything else.
    pub workspace_bytes: u64,
    /// Bytes that the other side's model takes, where it stays.
    pub other_bytes: u64,
    /// Longest context in tokens that was asked for.
    pub context: u32,
    /// The longest context that the model was made for.
    pub model_context: u32,
    /// The largest tensor.
    pub largest: LargestTensor,
    /// Bytes of memory that there are: the person's limit, else what the browser tells of the device;
    /// `None` when it tells nothing.
    pub memory: Option<u64>,
    /// The storage; `Err` says why there is none.
    pub storage: Result<Storage, String>,
    /// Everything that speaks against it, the worst first. With a refusal, loading fails.
    pub findings: Vec<Finding>,
    /// What would fit instead, where this does not.
    pub offers: Vec<Offer>,
}

impl Preflight {
    /// Bytes of memory in all.
    pub fn total_bytes(&self) -> u64 {
        self.weight_bytes + self.cache_bytes + self.workspace_bytes
    }
}

/// The largest tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LargestTensor {
    /// Its name.
    pub name: String,
    /// Its bytes on the device.
    pub bytes: u64,
    /// Into how many bindings it is split.
    pub parts: u32,
    /// The largest binding in bytes; 0 where there are none.
    pub max_binding: u64,
}

/// Something that speaks against loading a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Whether it cannot be loaded at all.
    pub refuses: bool,
    /// What and why.
    pub message: String,
}

/// What would fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "type"
)]
pub enum Offer {
    /// A shorter context, in tokens.
    Context {
        /// Tokens.
        context: u32,
        /// Bytes of memory then.
        total_bytes: u64,
    },
    /// A smaller quantization.
    Recipe {
        /// Name of the recipe.
        recipe: String,
        /// Bytes of memory then.
        total_bytes: u64,
    },
    /// Keys and values in half precision.
    HalfCache {
        /// Bytes of memory then.
        total_bytes: u64,
    },
    /// A smaller model.
    SmallerModel,
}

/// A model among several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChoice {
    /// Its file, to name in the next request.
    pub file: String,
    /// What it is, as in `GGUF, Q4_K_M`.
    pub label: String,
    /// Its size in bytes, if known.
    pub bytes: Option<u64>,
}

/// A licence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Licence {
    /// Its name, as in `Llama 3.1 Community License`.
    pub name: String,
    /// Where its text is.
    pub link: Option<String>,
    /// What has to be shown, as in `Built with Llama`.
    pub attribution: Option<String>,
}

/// Where a side's model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Residence {
    /// It has none.
    Empty,
    /// In memory.
    Resident,
    /// It made room for the other side's and is read again when it is needed.
    Away,
}

/// How the pieces of a model are doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pieces {
    /// Pieces in all.
    pub total: u32,
    /// Pieces whose checksum was found right in this load.
    pub verified: u32,
    /// The piece whose checksum is being computed, from 0.
    pub hashing: Option<u32>,
    /// The piece that is arriving.
    pub arriving: Option<Arriving>,
    /// Pieces that are complete in the browser's storage.
    pub kept: u32,
    /// Pieces that were damaged, in storage or on the way, and read again.
    pub damaged: u32,
    /// Why what was kept of the model before was thrown away, where it was.
    pub discarded: Option<String>,
    /// Why what arrives is not kept, where it is not.
    pub not_kept: Option<String>,
    /// Bytes that came from the origin in this load.
    pub fetched: u64,
}

/// A piece on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arriving {
    /// Which, from 0.
    pub piece: u32,
    /// Bytes that are here.
    pub done: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A model in the browser's storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptModel {
    /// Names it in requests.
    pub key: String,
    /// Its name.
    pub name: String,
    /// What it is, as in `GGUF, Q4_K_M`.
    pub label: String,
    /// Where it came from.
    pub origin: String,
    /// Bytes that are here.
    pub bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Complete pieces.
    pub pieces: u32,
    /// Pieces in all.
    pub total_pieces: u32,
    /// Milliseconds since 1970 of its last use.
    pub last_used: f64,
    /// Why it cannot be used, where it is damaged or of another version of this program.
    pub trouble: Option<String>,
}

/// The browser's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Bytes that this site uses.
    pub used: u64,
    /// Bytes that the browser offers it in all.
    pub quota: u64,
    /// Whether the browser promises not to clear it on its own.
    pub persistent: bool,
}

/// A loaded model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// Name from the file's metadata, else the file name.
    pub name: String,
    /// What it is, as in `GGUF, Q4_K_M`.
    pub label: String,
    /// Licence as the model states it, if it does.
    pub licence: Option<Licence>,
    /// Key of the kept model, where it is kept whole.
    pub key: Option<String>,
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
    /// The browser's storage is full, refused or damaged.
    Storage,
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
