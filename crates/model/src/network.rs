//! What a processor must offer to run a model.

use crate::config::Config;
use crate::sampling::Sampling;

/// Why a processor could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// There is no usable processor of this kind; the message says why.
    #[error("no usable GPU: {0}")]
    Unavailable(String),
    /// An allocation failed or is larger than the processor allows.
    #[error("there is no room: {0}")]
    Memory(String),
    /// The device was lost or rejected work; the message is the driver's.
    #[error("the processor stopped: {0}")]
    Fault(String),
}

/// Memory that a loaded model holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights.
    pub weights: u64,
    /// Keys and values, as far as the cache has grown.
    pub cache: u64,
    /// Bytes of cache per token.
    pub cache_per_token: u64,
    /// Buffers to work in.
    pub workspace: u64,
}

/// What a model would take on a processor, before it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of cache per token.
    pub cache_per_token: u64,
    /// Bytes of buffers to work in.
    pub workspace: u64,
    /// The largest tensor's name.
    pub largest: String,
    /// Its bytes.
    pub largest_bytes: u64,
    /// Into how many buffers it is split.
    pub largest_parts: u32,
    /// Most tokens of context that the processor has room for in one buffer; `None` without such a limit.
    pub most_tokens: Option<u64>,
    /// Most bytes of weights, cache and workspace together, where the processor has such a limit.
    pub most_bytes: Option<u64>,
}

/// A model on a processor, with its KV cache.
///
/// Work is asked for in order and may be queued; only [`Network::chosen`], [`Network::logits`] and
/// [`Network::wait`] need its results. A caller keeps track of positions; running at position `past`
/// makes the cache entries from `past` on void and fills them anew.
#[expect(
    async_fn_in_trait,
    reason = "everything here runs on one thread; no future is sent to another"
)]
pub trait Network {
    /// Shape and constants.
    fn config(&self) -> &Config;

    /// Most tokens of one [`Network::run`].
    fn chunk_tokens(&self) -> usize;

    /// Whether a token should be run before it is known on this side, which hides the wait for it. A
    /// processor that works while it is called gains nothing by that.
    fn runs_ahead(&self) -> bool;

    /// Memory held now.
    fn memory(&self) -> Memory;

    /// Makes room for `tokens` tokens in the cache, keeping what it holds.
    async fn reserve(&mut self, tokens: usize) -> Result<(), BackendError>;

    /// Runs `ids` at positions `past..`, and computes the logits of the last of them if asked.
    async fn run(
        &mut self,
        ids: &[u32],
        past: usize,
        want_logits: bool,
    ) -> Result<(), BackendError>;

    /// Runs the token of the latest [`Network::choose`] at position `past` and computes its logits.
    async fn run_chosen(&mut self, past: usize) -> Result<(), BackendError>;

    /// Chooses a token by the latest logits. `index` counts the tokens of a generation.
    async fn choose(&mut self, sampling: &Sampling, index: u64) -> Result<(), BackendError>;

    /// The oldest chosen token that was not fetched yet.
    async fn chosen(&mut self) -> Result<u32, BackendError>;

    /// Forgets tokens that were chosen and not fetched.
    fn forget_chosen(&mut self);

    /// The latest logits. `vocab`.
    async fn logits(&mut self) -> Result<Vec<f32>, BackendError>;

    /// Waits until all queued work is done.
    async fn wait(&mut self) -> Result<(), BackendError>;
}
