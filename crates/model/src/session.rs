//! Prompts in, tokens out: which tokens the cache of a [`Network`] holds, and what has to be run.

use crate::network::{BackendError, Network};
use crate::sampling::{Outlook, Sampling};

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
    /// The processor failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// A network and the ids whose keys and values its cache holds.
#[derive(Debug)]
pub struct Session<N> {
    network: N,
    capacity: usize,
    /// Ids in the cache, in order.
    held: Vec<u32>,
    /// Whether the latest logits are those of the last held token.
    fresh: bool,
    /// The last token that [`Session::next`] gave, where the network has not run it.
    given: Option<u32>,
    /// A token that the network chose ahead and [`Session::next`] has not given.
    ahead: Option<(Sampling, u64)>,
}

/// What [`Session::prefill`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefill {
    /// Leading tokens whose keys and values were in the cache already.
    pub reused: usize,
    /// Tokens that were run.
    pub run: usize,
    /// Whether it ran to the end; otherwise it was stopped, and nothing can be chosen.
    pub complete: bool,
}

impl<N: Network> Session<N> {
    /// A session of at most `capacity` tokens, and at most the model's own context. The cache grows as
    /// it is needed.
    pub fn new(network: N, capacity: usize) -> Self {
        let capacity = capacity.clamp(1, network.config().context);
        Self {
            network,
            capacity,
            held: Vec::new(),
            fresh: false,
            given: None,
            ahead: None,
        }
    }

    /// What runs the model.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// Most tokens that the session may hold.
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

    /// Leading tokens of `ids` that [`Session::prefill`] would not have to run.
    pub fn reusable(&self, ids: &[u32]) -> usize {
        let pairs = ids.iter().zip(&self.held);
        let common = pairs.take_while(|(a, b)| a == b).count();
        // The last token runs even if it is held, unless its logits are at hand: they are wanted.
        if common == ids.len() && common == self.held.len() && self.fresh {
            common
        } else {
            common.min(ids.len().saturating_sub(1))
        }
    }

    /// Forgets all tokens.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    fn truncate(&mut self, len: usize) {
        self.held.truncate(len);
        self.fresh = false;
        self.given = None;
        self.ahead = None;
        self.network.forget_chosen();
    }

    /// Runs a prompt, reusing the longest prefix of it that the cache holds. Afterwards
    /// [`Session::next`] and [`Session::logits`] speak of the token after it.
    ///
    /// `go_on` is asked between chunks with the tokens done so far, and stops the work by returning
    /// false; what was done stays in the cache.
    ///
    /// # Errors
    /// See [`SessionError`]; the session stays usable.
    pub async fn prefill(
        &mut self,
        ids: &[u32],
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Prefill, SessionError> {
        self.check(ids)?;
        let reused = self.reusable(ids);
        let mut done = Prefill {
            reused,
            run: 0,
            complete: true,
        };
        if reused == ids.len() {
            self.given = None;
            if self.ahead.take().is_some() {
                self.network.forget_chosen();
            }
            return Ok(done);
        }
        self.truncate(reused);
        self.reserve(ids.len()).await?;
        for chunk in ids[reused..].chunks(self.network.chunk_tokens()) {
            if !go_on(self.held.len()) {
                done.complete = false;
                return Ok(done);
            }
            let last = self.held.len() + chunk.len() == ids.len();
            self.run(chunk, last).await?;
            done.run += chunk.len();
            if !last {
                // So that a weak GPU is never given more than it finishes in time, and a request to
                // stop is heard.
                let waited = self.network.wait().await;
                self.survive(waited)?;
            }
        }
        Ok(done)
    }

    fn check(&self, ids: &[u32]) -> Result<(), SessionError> {
        if ids.is_empty() {
            return Err(SessionError::Empty);
        }
        if ids.len() > self.capacity {
            return Err(SessionError::ContextFull {
                tokens: ids.len(),
                capacity: self.capacity,
            });
        }
        ids.iter().try_for_each(|id| self.check_id(*id))
    }

    fn check_id(&self, id: u32) -> Result<(), SessionError> {
        let vocab = self.network.config().vocab;
        if (id as usize) < vocab {
            Ok(())
        } else {
            Err(SessionError::UnknownId { id, vocab })
        }
    }

    /// Chooses the token after the last one and gives it. `index` counts the tokens of a generation;
    /// `more` says that another will be asked for, with the same settings and the next index, so that
    /// the network may begin with it.
    ///
    /// A given token is run when the next one is asked for. [`Session::len`] counts it once it is run.
    ///
    /// # Errors
    /// [`SessionError::ContextFull`] when the token given before does not fit, [`SessionError::Empty`]
    /// when there are no logits to choose by; see [`SessionError`].
    pub async fn next(
        &mut self,
        sampling: &Sampling,
        index: u64,
        more: bool,
    ) -> Result<u32, SessionError> {
        if self.ahead.take() != Some((*sampling, index)) {
            self.network.forget_chosen();
            self.catch_up().await?;
            let chosen = self.network.choose(sampling, index).await;
            self.survive(chosen)?;
        }
        // Without room for one more this token can still be given; the next call tells.
        if more && self.network.runs_ahead() && self.make_room(1).await.is_ok() {
            let run = self.network.run_chosen(self.held.len()).await;
            self.survive(run)?;
            let chosen = self.network.choose(sampling, index + 1).await;
            self.survive(chosen)?;
            let id = self.network.chosen().await;
            let id = self.survive(id)?;
            self.held.push(id);
            self.ahead = Some((*sampling, index + 1));
            return Ok(id);
        }
        let id = self.network.chosen().await;
        let id = self.survive(id)?;
        self.given = Some(id);
        Ok(id)
    }

    /// Runs the token given last, if it was not run, so that the logits are those after it.
    async fn catch_up(&mut self) -> Result<(), SessionError> {
        if let Some(id) = self.given {
            self.make_room(1).await?;
            self.given = None;
            self.run(&[id], true).await?;
        }
        if self.fresh {
            Ok(())
        } else {
            Err(SessionError::Empty)
        }
    }

    /// Appends one token, after the token that [`Session::next`] gave last where there is one.
    ///
    /// # Errors
    /// [`SessionError::ContextFull`] when the cache is full; see [`SessionError`].
    pub async fn push(&mut self, id: u32) -> Result<(), SessionError> {
        self.check_id(id)?;
        self.make_room(1 + usize::from(self.given.is_some()))
            .await?;
        self.ahead = None;
        self.network.forget_chosen();
        if let Some(given) = self.given.take() {
            self.run(&[given], false).await?;
        }
        self.run(&[id], true).await
    }

    /// Makes room for `more` tokens after the held ones.
    async fn make_room(&mut self, more: usize) -> Result<(), SessionError> {
        let tokens = self.held.len() + more;
        if tokens > self.capacity {
            return Err(SessionError::ContextFull {
                tokens,
                capacity: self.capacity,
            });
        }
        self.reserve(tokens).await
    }

    /// The logits by which the next token is chosen. `vocab`.
    ///
    /// # Errors
    /// [`SessionError::Empty`] when there are none; [`SessionError::Backend`] when the work failed.
    pub async fn logits(&mut self) -> Result<Vec<f32>, SessionError> {
        if self.ahead.is_none() {
            self.catch_up().await?;
        }
        let logits = self.network.logits().await;
        self.survive(logits)
    }

    /// As [`Session::next`] with no more to come, and what the model thought of it: its probability and
    /// `count` alternatives. Costs a read of all logits.
    ///
    /// # Errors
    /// See [`Session::next`].
    pub async fn next_with_outlook(
        &mut self,
        sampling: &Sampling,
        index: u64,
        count: usize,
    ) -> Result<(u32, Outlook), SessionError> {
        let logits = self.logits().await?;
        let id = self.next(sampling, index, false).await?;
        Ok((id, Outlook::new(&logits, id, count)))
    }

    async fn reserve(&mut self, tokens: usize) -> Result<(), SessionError> {
        // A failed growth leaves the cache as it was, so nothing is forgotten here.
        Ok(self.network.reserve(tokens).await?)
    }

    async fn run(&mut self, ids: &[u32], want_logits: bool) -> Result<(), SessionError> {
        let run = self.network.run(ids, self.held.len(), want_logits).await;
        self.survive(run)?;
        self.held.extend_from_slice(ids);
        self.fresh = want_logits;
        Ok(())
    }

    /// After a failure nothing is known of the cache.
    fn survive<T>(&mut self, result: Result<T, BackendError>) -> Result<T, SessionError> {
        if result.is_err() {
            self.truncate(0);
        }
        Ok(result?)
    }
}
