//! A model with its KV cache: prompts in, tokens out.

use crate::config::Config;
use crate::gpu::{Gpu, GpuError, Spread};
use crate::load::Loaded;
use crate::model::{Cache, Network, Workspace};
use crate::sampling::Sampling;

/// Tokens per prefill chunk. Between chunks the work so far is awaited, so that a weak GPU is never
/// given more than it finishes in time, and a request to stop is heard within about a second.
fn chunk_tokens(spread: Spread) -> usize {
    match spread {
        Spread::Rows => 16,
        Spread::Lanes => 64,
    }
}

/// Why a session could not go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The tokens do not fit.
    #[error(
        "{tokens} tokens do not fit the context of {capacity}; shorten the prompt or load the model with a longer context"
    )]
    ContextFull {
        /// Tokens that were to be held.
        tokens: usize,
        /// Tokens that can be held.
        capacity: usize,
    },
    /// An id lies outside the vocabulary.
    #[error("token id {id} lies outside the vocabulary of {vocab}")]
    UnknownId {
        /// The id.
        id: u32,
        /// Entries of the vocabulary.
        vocab: usize,
    },
    /// There is nothing to continue.
    #[error("the prompt is empty")]
    Empty,
    /// The GPU failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// A model, its KV cache, and the ids whose keys and values the cache holds.
#[derive(Debug)]
pub struct Session {
    network: Network,
    capacity: usize,
    /// Ids in the cache, in order.
    held: Vec<u32>,
}

/// What [`Session::prefill`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefill {
    /// Leading tokens whose keys and values were in the cache already.
    pub reused: usize,
    /// Whether it ran to the end; otherwise it was stopped, and the logits are not valid.
    pub complete: bool,
}

impl Session {
    /// Gives a loaded model a cache for `capacity` tokens, at most the model's own context.
    ///
    /// # Errors
    /// [`GpuError::Memory`] when the cache does not fit the adapter.
    pub async fn new(gpu: Gpu, loaded: Loaded, capacity: usize) -> Result<Self, GpuError> {
        let Loaded { model, config } = loaded;
        let capacity = capacity.clamp(1, config.context);
        let largest = (config.kv_heads * capacity * config.head_dim * 4) as u64;
        if largest > gpu.info().max_binding {
            return Err(GpuError::Memory(format!(
                "a context of {capacity} tokens needs cache buffers of {largest} bytes, but the \
                 adapter binds at most {}",
                gpu.info().max_binding
            )));
        }
        let cache = Cache::new(&gpu, &config, capacity);
        let work = Workspace::new(&gpu, &config, chunk_tokens(gpu.spread()), capacity);
        gpu.finish().await?;
        Ok(Self {
            network: Network {
                gpu,
                config,
                model,
                cache,
                work,
            },
            capacity,
            held: Vec::new(),
        })
    }

    /// Shape and constants of the model.
    pub fn config(&self) -> &Config {
        &self.network.config
    }

    /// Most tokens that the cache can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Tokens that the cache holds now.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Bytes of weights on the GPU.
    pub fn weight_bytes(&self) -> u64 {
        self.network.model.bytes()
    }

    /// Bytes of KV cache on the GPU.
    pub fn cache_bytes(&self) -> u64 {
        self.network.config.cache_bytes_per_token() * self.capacity as u64
    }

    /// The GPU it runs on.
    pub fn gpu(&self) -> &Gpu {
        &self.network.gpu
    }

    /// Leading tokens of `ids` that [`Session::prefill`] would not have to run.
    pub fn reusable(&self, ids: &[u32]) -> usize {
        let common = ids
            .iter()
            .zip(&self.held)
            .take_while(|(a, b)| a == b)
            .count();
        // The last token runs even if it is held: its logits are wanted.
        common.min(ids.len().saturating_sub(1))
    }

    /// Empties the cache.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Runs a prompt, reusing the longest prefix of it that the cache holds. Afterwards the logits
    /// are those of its last token.
    ///
    /// `go_on` is asked between chunks with the tokens done so far, and stops the work by returning
    /// false; what was done stays in the cache.
    ///
    /// # Errors
    /// See [`SessionError`]; the cache stays valid.
    pub async fn prefill(
        &mut self,
        ids: &[u32],
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Prefill, SessionError> {
        if ids.is_empty() {
            return Err(SessionError::Empty);
        }
        if ids.len() > self.capacity {
            return Err(SessionError::ContextFull {
                tokens: ids.len(),
                capacity: self.capacity,
            });
        }
        if let Some(&id) = ids
            .iter()
            .find(|id| **id as usize >= self.network.config.vocab)
        {
            return Err(SessionError::UnknownId {
                id,
                vocab: self.network.config.vocab,
            });
        }
        let reused = self.reusable(ids);
        self.held.truncate(reused);
        for chunk in ids[reused..].chunks(chunk_tokens(self.network.gpu.spread())) {
            if !go_on(self.held.len()) {
                return Ok(Prefill {
                    reused,
                    complete: false,
                });
            }
            let want = self.held.len() + chunk.len() == ids.len();
            self.run(chunk, want)?;
            if !want {
                self.wait().await?;
            }
        }
        Ok(Prefill {
            reused,
            complete: true,
        })
    }

    /// Appends one token.
    ///
    /// # Errors
    /// [`SessionError::ContextFull`] when the cache is full; see [`SessionError`].
    pub fn push(&mut self, id: u32) -> Result<(), SessionError> {
        if self.held.len() >= self.capacity {
            return Err(SessionError::ContextFull {
                tokens: self.held.len() + 1,
                capacity: self.capacity,
            });
        }
        self.run(&[id], true)
    }

    fn run(&mut self, ids: &[u32], want_logits: bool) -> Result<(), SessionError> {
        let past = self.held.len();
        self.network
            .forward(ids, past, want_logits)
            .inspect_err(|_| self.held.clear())?;
        self.held.extend_from_slice(ids);
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), SessionError> {
        self.network
            .gpu
            .finish()
            .await
            .inspect_err(|_| self.held.clear())?;
        Ok(())
    }

    /// Chooses the token after the last one. `index` counts the new tokens of a generation.
    ///
    /// # Errors
    /// [`SessionError::Gpu`] when the work so far failed; the cache is emptied then.
    pub async fn choose(&mut self, sampling: &Sampling, index: u64) -> Result<u32, SessionError> {
        if sampling.is_greedy() {
            let best = self.network.argmax().await;
            return Ok(best.inspect_err(|_| self.held.clear())?);
        }
        Ok(sampling.choose(&self.logits().await?, index))
    }

    /// Reads the logits of the last token. `vocab`.
    ///
    /// # Errors
    /// [`SessionError::Gpu`] when the work so far failed; the cache is emptied then.
    pub async fn logits(&mut self) -> Result<Vec<f32>, SessionError> {
        let read = self.network.gpu.read(&self.network.work.logits()).await;
        let words = read.inspect_err(|_| self.held.clear())?;
        Ok(words.into_iter().map(f32::from_bits).collect())
    }
}
