//! The engine behind the messages: one processor, at most one model, one request at a time.

use std::cell::Cell;
use std::rc::Rc;

use formats::template::{ChatTemplate, TemplateInput};
use model::{LoadError, Network, Plan, Sampling as Choice, Session, SessionError};
use tokens::gguf::{GgufTokenizer, Parts};
use web_time::Instant;
use weights::ByteSource;
use weights::gguf::{Gguf, TokenizerParts, read_header};

use self::failure::{backend_failure, internal, load_failure, session_failure};
use self::pause::Pauses;
use crate::protocol::{
    Alternative, Event, Failure, FailureKind, Measures, ModelInfo, Outlook, Processor, Prompt,
    Sampling, Stage, Stats, StopReason,
};

pub mod backend;
mod failure;
mod pause;

pub use backend::Backend;

/// The date that chat templates are given: the constant that Llama 3.1's own template falls back
/// on, so that the same conversation always gives the same tokens.
const TEMPLATE_DATE: &str = "26 Jul 2024";

/// A request to stop, shared between the engine and whoever hears the page.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Rc<Cell<bool>>);

impl StopFlag {
    /// Asks the running request to stop.
    pub fn raise(&self) {
        self.0.set(true);
    }

    /// Forgets an earlier request to stop.
    pub fn lower(&self) {
        self.0.set(false);
    }

    /// Whether a stop was asked for.
    pub fn is_raised(&self) -> bool {
        self.0.get()
    }
}

/// The engine on a processor.
#[derive(Debug)]
pub struct Engine<B: Backend> {
    backend: Option<B>,
    model: Option<Model<B::Network>>,
    /// Whether the model was lost with the processor, and not dropped on request.
    lost: bool,
    stop: StopFlag,
}

#[derive(Debug)]
struct Model<N> {
    session: Session<N>,
    tokenizer: GgufTokenizer,
    template: Option<String>,
    load_seconds: f64,
}

impl<B: Backend> Engine<B> {
    /// An engine that stops when `stop` is raised. The processor is opened when it is first needed.
    pub fn new(stop: StopFlag) -> Self {
        Self {
            backend: None,
            model: None,
            lost: false,
            stop,
        }
    }

    /// As [`Engine::new`], on a processor that is open already.
    pub fn on(backend: B, stop: StopFlag) -> Self {
        Self {
            backend: Some(backend),
            ..Self::new(stop)
        }
    }

    /// Gets the processor ready, once.
    ///
    /// # Errors
    /// A failure of kind [`FailureKind::NoGpu`].
    pub async fn probe(&mut self) -> Result<Processor, Failure> {
        Ok(self.open().await?.processor())
    }

    async fn open(&mut self) -> Result<&B, Failure> {
        if self.backend.is_none() {
            let opened = B::open().await.map_err(|error| backend_failure(&error))?;
            self.backend = Some(opened);
        }
        self.backend
            .as_ref()
            .ok_or_else(|| internal("the processor vanished"))
    }

    /// Whether the model was lost with its processor: loading it again is all that is needed.
    pub fn lost_model(&self) -> bool {
        self.lost
    }

    /// Passes a failure on. If the processor is gone, so is all that was on it.
    fn suffer(&mut self, failure: Failure) -> Failure {
        if failure.kind == FailureKind::Device {
            self.lost |= self.model.take().is_some();
            self.backend = None;
        }
        failure
    }

    /// Drops the model.
    pub fn unload(&mut self) {
        self.model = None;
        self.lost = false;
    }

    /// Loads a model from a GGUF file, dropping the one before it. Its cache is kept in half precision
    /// if asked and if the processor can.
    ///
    /// # Errors
    /// A failure that says what to do. The engine stays usable, without a model.
    pub async fn load(
        &mut self,
        source: impl ByteSource,
        context: u32,
        half_cache: bool,
        emit: &dyn Fn(Event),
    ) -> Result<ModelInfo, Failure> {
        self.model = None;
        let loaded = self.try_load(source, context, half_cache, emit).await;
        let (model, info) = loaded.map_err(|failure| self.suffer(failure))?;
        self.model = Some(model);
        self.lost = false;
        Ok(info)
    }

    async fn try_load(
        &mut self,
        mut source: impl ByteSource,
        context: u32,
        half_cache: bool,
        emit: &dyn Fn(Event),
    ) -> Result<(Model<B::Network>, ModelInfo), Failure> {
        let start = Instant::now();
        let report = |stage, done, total| {
            emit(Event::Progress {
                stage,
                done,
                total,
                seconds: start.elapsed().as_secs_f64(),
            });
        };
        report(Stage::Device, 0, 0);
        let stop = self.stop.clone();
        let backend = self.open().await?;
        report(Stage::Header, 0, source.size().unwrap_or(0));
        let mut header = read_header(&mut source)
            .await
            .map_err(|error| load_failure(&error.into()))?;
        if stop.is_raised() {
            return Err(load_failure(&LoadError::Stopped));
        }
        let plan = Plan::from_gguf(&header).map_err(|error| load_failure(&error))?;
        let parts = header
            .tokenizer_parts()
            .map_err(|error| load_failure(&error.into()))?;
        let template = parts.chat_template.clone();
        let tokenizer = GgufTokenizer::new(tokenizer_parts(parts)).map_err(|error| Failure {
            kind: FailureKind::Unsupported,
            message: format!("the tokenizer of this file cannot be used: {error}"),
            advice: "Try another GGUF of the same model.".to_owned(),
        })?;
        // The vocabulary is the bulk of the header and lives on in the tokenizer.
        header
            .metadata
            .retain(|key, _| !key.starts_with("tokenizer.ggml."));
        if tokenizer.vocab_size() > plan.config.vocab {
            return Err(load_failure(&LoadError::Inconsistent(format!(
                "the tokenizer has {} entries, but the embedding table only {}",
                tokenizer.vocab_size(),
                plan.config.vocab
            ))));
        }

        let total = plan.end();
        let network = backend
            .load(&mut source, &plan, half_cache, |done| {
                report(Stage::Weights, done.min(total), total);
                !stop.is_raised()
            })
            .await
            .map_err(|error| load_failure(&error))?;
        report(Stage::Kernels, total, total);
        let half_cache = B::half_cache(&network);
        let mut session = Session::new(network, context as usize);
        warm_up(&mut session)
            .await
            .map_err(|error| session_failure(&error))?;
        let memory = session.network().memory();
        let text = |key: &str| {
            let value = header.metadata.get(key).and_then(|value| value.as_str());
            value.map(str::to_owned)
        };
        let load_seconds = start.elapsed().as_secs_f64();
        let info = ModelInfo {
            name: text("general.name").unwrap_or_else(|| source.name()),
            licence: text("general.license.name").or_else(|| text("general.license")),
            parameters: header.tensors.iter().map(|tensor| tensor.weights()).sum(),
            types: types(&header),
            vocabulary: tokenizer.vocab_size() as u32,
            context: session.capacity() as u32,
            tensor_bytes: plan.tensor_bytes(),
            weight_bytes: memory.weights,
            cache_bytes_per_token: memory.cache_per_token,
            half_cache,
            chat_template: template.is_some(),
            seconds: load_seconds,
            wasm_bytes: wasm_bytes(),
            processor: backend.processor(),
        };
        let model = Model {
            session,
            tokenizer,
            template,
            load_seconds,
        };
        Ok((model, info))
    }

    /// Continues a prompt, telling of each token as it comes.
    ///
    /// # Errors
    /// A failure that says what to do. The engine stays usable; it keeps its model unless the processor
    /// was lost.
    pub async fn generate(
        &mut self,
        order: &Order<'_>,
        emit: &dyn Fn(Event),
    ) -> Result<(), Failure> {
        let stop = self.stop.clone();
        let Some(model) = self.model.as_mut() else {
            return Err(no_model());
        };
        let generated = model.generate(order, &stop, emit).await;
        generated.map_err(|failure| self.suffer(failure))
    }

    /// Measures the loaded model: after one run to warm up, a prompt of pseudo-random ids and greedy
    /// tokens after it. Stop tokens do not end it.
    ///
    /// # Errors
    /// A failure that says what to do, as of [`Engine::generate`].
    pub async fn measure(
        &mut self,
        prompt_tokens: u32,
        decode_tokens: u32,
    ) -> Result<Measures, Failure> {
        let (Some(model), Some(backend)) = (self.model.as_mut(), self.backend.as_ref()) else {
            return Err(no_model());
        };
        let measured = measure(model, backend, prompt_tokens, decode_tokens).await;
        measured.map_err(|error| self.suffer(session_failure(&error)))
    }
}

/// What to generate; see [`crate::protocol::Request::Generate`].
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Carried by every answer.
    pub job: u32,
    /// What to continue.
    pub prompt: &'a Prompt,
    /// How the next token is chosen.
    pub sampling: &'a Sampling,
    /// At most this many new tokens.
    pub max_tokens: u32,
    /// Alternatives to tell with each token; 0 for no outlook.
    pub alternatives: u32,
}

impl<N: Network> Model<N> {
    async fn generate(
        &mut self,
        order: &Order<'_>,
        stop: &StopFlag,
        emit: &dyn Fn(Event),
    ) -> Result<(), Failure> {
        let Order {
            job,
            sampling,
            max_tokens,
            ..
        } = *order;
        let start = Instant::now();
        let ids = self.encode(order.prompt)?;
        let Self {
            session, tokenizer, ..
        } = self;
        let pieces = ids.iter().map(|id| tokenizer.piece_text(*id)).collect();
        emit(Event::Prompt {
            job,
            ids: ids.clone(),
            pieces,
            reused: session.reusable(&ids) as u32,
        });
        let choice = Choice {
            temperature: sampling.temperature,
            top_k: sampling.top_k as usize,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: sampling.seed,
        };
        let mut stats = Stats {
            prompt_tokens: ids.len() as u32,
            ..Stats::default()
        };
        let finish = |reason, stats: Stats| emit(Event::Finished { job, reason, stats });
        let failed = |error: SessionError| session_failure(&error);
        let mut pauses = Pauses::new();
        let complete = loop {
            // One chunk at a time: what was done stays in the cache.
            let mut chunks = 1..=1;
            let prefill = session
                .prefill(&ids, |_| chunks.next().is_some() && !stop.is_raised())
                .await
                .map_err(failed)?;
            if prefill.complete || stop.is_raised() {
                break prefill.complete;
            }
            pauses.breathe().await;
        };
        if !complete || max_tokens == 0 {
            let reason = if complete {
                StopReason::MaxTokens
            } else {
                StopReason::Stopped
            };
            finish(reason, stats);
            return Ok(());
        }
        let mut decoder = tokenizer.stream();
        let mut first = None;
        let reason = loop {
            let index = u64::from(stats.new_tokens);
            let (id, outlook) = if order.alternatives > 0 {
                let count = order.alternatives as usize;
                let next = session.next_with_outlook(&choice, index, count).await;
                let (id, outlook) = next.map_err(failed)?;
                (id, Some(told(tokenizer, &outlook)))
            } else {
                let more = stats.new_tokens + 1 < max_tokens;
                let next = session.next(&choice, index, more).await;
                (next.map_err(failed)?, None)
            };
            let now = Instant::now();
            let since_first = first.map_or(0.0, |first: Instant| (now - first).as_secs_f64());
            if first.is_none() {
                first = Some(now);
                stats.first_token_seconds = (now - start).as_secs_f64();
            }
            if since_first > 0.0 {
                stats.tokens_per_second = f64::from(stats.new_tokens) / since_first;
            }
            stats.new_tokens += 1;
            let special = tokenizer.is_special(id);
            let text = if special {
                // A special token ends any unfinished character before it.
                decoder.finish() + &tokenizer.piece_text(id)
            } else {
                decoder.push(id)
            };
            emit(Event::Token {
                job,
                id,
                text,
                special,
                rate: stats.tokens_per_second,
                outlook,
            });
            if tokenizer.is_stop(id) {
                break StopReason::StopToken;
            }
            if stats.new_tokens >= max_tokens {
                break StopReason::MaxTokens;
            }
            pauses.breathe().await;
            if stop.is_raised() {
                break StopReason::Stopped;
            }
            if ids.len() + stats.new_tokens as usize > session.capacity() {
                break StopReason::ContextFull;
            }
        };
        finish(reason, stats);
        Ok(())
    }

    fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, Failure> {
        let refuse = |message: String, advice: &str| Failure {
            kind: FailureKind::BadRequest,
            message,
            advice: advice.to_owned(),
        };
        match prompt {
            Prompt::Ids { ids } => Ok(ids.clone()),
            Prompt::Text { text } => self.tokenize(text),
            Prompt::Messages { json } => {
                let Some(source) = &self.template else {
                    return Err(refuse(
                        "this model file carries no chat template".to_owned(),
                        "Write the prompt as plain text instead.",
                    ));
                };
                let messages: serde_json::Value = serde_json::from_str(json).map_err(|error| {
                    refuse(
                        format!("the messages are not valid JSON: {error}"),
                        "Mend the JSON.",
                    )
                })?;
                let name =
                    |id: Option<u32>| id.map_or(String::new(), |id| self.tokenizer.piece_text(id));
                let input = TemplateInput {
                    bos_token: name(self.tokenizer.bos()),
                    eos_token: name(self.tokenizer.eos()),
                    add_generation_prompt: true,
                    date: TEMPLATE_DATE.to_owned(),
                    tools: None,
                };
                let text = ChatTemplate::new(source)
                    .and_then(|template| template.render(&messages, &input))
                    .map_err(|error| {
                        refuse(
                            format!("the model's own chat template refused the messages: {error}"),
                            "Change the messages (many templates want user and assistant in turn), \
                             or write the prompt as plain text.",
                        )
                    })?;
                // The template writes BOS itself where the model wants one.
                self.tokenize(&text)
            }
        }
    }

    fn tokenize(&self, text: &str) -> Result<Vec<u32>, Failure> {
        self.tokenizer
            .encode(text, true)
            .map_err(|error| internal(&error.to_string()))
    }
}

/// What `weights` reads and `tokens` takes; the two rooms do not know each other.
fn tokenizer_parts(parts: TokenizerParts) -> Parts {
    Parts {
        model: parts.model,
        pre: parts.pre,
        tokens: parts.tokens,
        types: parts.types,
        merges: parts.merges,
        bos: parts.bos,
        eos: parts.eos,
        eot: parts.eot,
        eom: parts.eom,
        add_bos: parts.add_bos,
    }
}

/// Runs every kernel of a greedy generation once, so that the first one does not wait for the driver's
/// compiler.
async fn warm_up<N: Network>(session: &mut Session<N>) -> Result<(), SessionError> {
    let tokens = session.capacity().min(4);
    session.prefill(&vec![0; tokens], |_| true).await?;
    session.next(&Choice::GREEDY, 0, true).await?;
    session.clear();
    Ok(())
}

/// An outlook with the texts of its tokens.
fn told(tokenizer: &GgufTokenizer, outlook: &model::sampling::Outlook) -> Outlook {
    Outlook {
        probability: outlook.probability,
        entropy: outlook.entropy,
        alternatives: outlook
            .top
            .iter()
            .map(|&(id, probability)| Alternative {
                id,
                piece: tokenizer.piece_text(id),
                probability,
            })
            .collect(),
    }
}

async fn measure<B: Backend>(
    model: &mut Model<B::Network>,
    backend: &B,
    prompt_tokens: u32,
    decode_tokens: u32,
) -> Result<Measures, SessionError> {
    let session = &mut model.session;
    let vocab = session.network().config().vocab as u32;
    let decode = u64::from(decode_tokens.max(1));
    // Any ids do; a multiplicative walk visits rows of the embedding all over the table.
    let mut prompt: Vec<u32> = (0..prompt_tokens.max(1))
        .map(|i| i.wrapping_mul(2_654_435_761) % vocab)
        .collect();
    let mut run = async |prompt: &[u32], decode: u64| {
        let start = Instant::now();
        session.prefill(prompt, |_| true).await?;
        session.next(&Choice::GREEDY, 0, true).await?;
        let first = start.elapsed().as_secs_f64();
        let before = backend.counts();
        let start = Instant::now();
        for index in 1..=decode {
            session.next(&Choice::GREEDY, index, true).await?;
        }
        let rest = start.elapsed().as_secs_f64();
        let (launches, submits) = backend.counts();
        Ok::<_, SessionError>((first, rest, launches - before.0, submits - before.1))
    };
    run(&prompt, 2).await?;
    // Another first token, so that nothing of the warm-up is reused.
    prompt[0] = (prompt[0] + 1) % vocab;
    let (prefill, rest, launches, submits) = run(&prompt, decode).await?;
    if let Some(last) = prompt.last_mut() {
        *last = (*last + 1) % vocab;
    }
    let (first_token, ..) = run(&prompt, 1).await?;
    let measures = Measures {
        load_ms: model.load_seconds * 1e3,
        prefill_tokens_per_second: prompt.len() as f64 / prefill,
        decode_tokens_per_second: decode as f64 / rest,
        first_token_ms: first_token * 1e3,
        launches_per_token: launches as f64 / decode as f64,
        submits_per_token: submits as f64 / decode as f64,
        bytes_per_token: B::bytes_per_token(model.session.network()),
        wasm_bytes: wasm_bytes(),
    };
    model.session.clear();
    Ok(measures)
}

/// How many tensors there are of each type, the most frequent first.
fn types(header: &Gguf) -> Vec<(String, u32)> {
    let mut types: Vec<(String, u32)> = Vec::new();
    for tensor in &header.tensors {
        let name = tensor.kind.name();
        match types.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => types.push((name.to_owned(), 1)),
        }
    }
    types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    types
}

fn no_model() -> Failure {
    Failure {
        kind: FailureKind::BadRequest,
        message: "no model is loaded".to_owned(),
        advice: "Load a model, then generate.".to_owned(),
    }
}

/// Size of the wasm memory in bytes. It never shrinks, so this is its peak. 0 natively.
fn wasm_bytes() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return core::arch::wasm32::memory_size(0) as u64 * 65_536;
    #[cfg(not(target_arch = "wasm32"))]
    0
}
