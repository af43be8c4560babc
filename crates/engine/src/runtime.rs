//! The engine behind the messages: one GPU, at most one model, one request at a time.

use std::cell::Cell;
use std::rc::Rc;

use formats::template::{ChatTemplate, TemplateInput};
use llama::{Gpu, GpuError, LoadError, Sampling as Choice, Session, SessionError};
use tokens::gguf::{GgufTokenizer, Parts};
use web_time::Instant;
use weights::gguf::{Gguf, HeaderError, TokenizerParts, read_header};
use weights::{ByteSource, SourceError};

use crate::protocol::{
    Adapter, Event, Failure, FailureKind, ModelInfo, Prompt, Sampling, Stage, Stats, StopReason,
};

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

/// The engine.
#[derive(Debug, Default)]
pub struct Engine {
    gpu: Option<Gpu>,
    model: Option<Model>,
    stop: StopFlag,
}

#[derive(Debug)]
struct Model {
    session: Session,
    tokenizer: GgufTokenizer,
    template: Option<String>,
}

impl Engine {
    /// An engine that stops when `stop` is raised.
    pub fn new(stop: StopFlag) -> Self {
        Self {
            gpu: None,
            model: None,
            stop,
        }
    }

    /// Finds the GPU, once.
    ///
    /// # Errors
    /// A failure of kind [`FailureKind::NoGpu`].
    pub async fn probe(&mut self) -> Result<Adapter, Failure> {
        if self.gpu.is_none() {
            self.gpu = Some(Gpu::open().await.map_err(|error| gpu_failure(&error))?);
        }
        self.gpu
            .as_ref()
            .map(adapter)
            .ok_or_else(|| internal("the GPU vanished"))
    }

    /// Drops the model.
    pub fn unload(&mut self) {
        self.model = None;
    }

    /// Loads a model from a GGUF file, dropping the one before it.
    ///
    /// # Errors
    /// A failure that says what to do. The engine stays usable, without a model.
    pub async fn load(
        &mut self,
        mut source: impl ByteSource,
        context: u32,
        emit: &dyn Fn(Event),
    ) -> Result<ModelInfo, Failure> {
        let start = Instant::now();
        self.model = None;
        let report = |stage, done, total| {
            emit(Event::Progress {
                stage,
                done,
                total,
                seconds: start.elapsed().as_secs_f64(),
            });
        };
        report(Stage::Device, 0, 0);
        self.probe().await?;
        let gpu = self
            .gpu
            .clone()
            .ok_or_else(|| internal("the GPU vanished"))?;
        report(Stage::Header, 0, source.size().unwrap_or(0));
        let mut header = read_header(&mut source)
            .await
            .map_err(|error| load_failure(&error.into()))?;
        if self.stop.is_raised() {
            return Err(load_failure(&LoadError::Stopped));
        }
        llama::load::config(&header).map_err(|error| load_failure(&error))?;
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

        let total = header
            .tensors
            .iter()
            .map(|tensor| tensor.end())
            .max()
            .unwrap_or(0);
        let loaded = llama::load(&gpu, &mut source, &header, |done| {
            report(Stage::Weights, done.min(total), total);
            !self.stop.is_raised()
        })
        .await
        .map_err(|error| load_failure(&error))?;
        if tokenizer.vocab_size() > loaded.config.vocab {
            return Err(load_failure(&LoadError::Inconsistent(format!(
                "the tokenizer has {} entries, but the embedding table only {}",
                tokenizer.vocab_size(),
                loaded.config.vocab
            ))));
        }
        report(Stage::Kernels, total, total);
        let mut session = Session::new(gpu.clone(), loaded, context as usize)
            .await
            .map_err(|error| gpu_failure(&error))?;
        warm_up(&mut session)
            .await
            .map_err(|error| session_failure(&error))?;
        let info = describe(
            &header,
            &session,
            &tokenizer,
            &source.name(),
            template.is_some(),
            &gpu,
            start,
        );
        self.model = Some(Model {
            session,
            tokenizer,
            template,
        });
        Ok(info)
    }

    /// Continues a prompt, telling of each token as it comes.
    ///
    /// # Errors
    /// A failure that says what to do. The engine stays usable and keeps its model.
    pub async fn generate(
        &mut self,
        job: u32,
        prompt: &Prompt,
        sampling: &Sampling,
        max_tokens: u32,
        emit: &dyn Fn(Event),
    ) -> Result<(), Failure> {
        let stop = self.stop.clone();
        let Some(model) = self.model.as_mut() else {
            return Err(Failure {
                kind: FailureKind::BadRequest,
                message: "no model is loaded".to_owned(),
                advice: "Load a model, then generate.".to_owned(),
            });
        };
        let start = Instant::now();
        let ids = model.encode(prompt)?;
        let tokenizer = &model.tokenizer;
        let session = &mut model.session;
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
        let prefill = session
            .prefill(&ids, |_| !stop.is_raised())
            .await
            .map_err(|error| session_failure(&error))?;
        if !prefill.complete || max_tokens == 0 {
            let reason = if prefill.complete {
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
            let id = session
                .choose(&choice, u64::from(stats.new_tokens))
                .await
                .map_err(|error| session_failure(&error))?;
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
            });
            if tokenizer.is_stop(id) {
                break StopReason::StopToken;
            }
            if stats.new_tokens >= max_tokens {
                break StopReason::MaxTokens;
            }
            if stop.is_raised() {
                break StopReason::Stopped;
            }
            if session.len() >= session.capacity() {
                break StopReason::ContextFull;
            }
            session.push(id).map_err(|error| session_failure(&error))?;
        };
        finish(reason, stats);
        Ok(())
    }
}

impl Model {
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

/// Runs every kernel once, so that the first generation does not wait for the driver's compiler.
async fn warm_up(session: &mut Session) -> Result<(), SessionError> {
    let tokens = session.capacity().min(4);
    session.prefill(&vec![0; tokens], |_| true).await?;
    if session.len() < session.capacity() {
        session.push(0)?;
    }
    session.choose(&Choice::GREEDY, 0).await?;
    session.clear();
    Ok(())
}

fn adapter(gpu: &Gpu) -> Adapter {
    let info = gpu.info();
    Adapter {
        name: info.name.clone(),
        software: info.software,
        max_binding: info.max_binding,
        max_buffer: info.max_buffer,
    }
}

fn describe(
    header: &Gguf,
    session: &Session,
    tokenizer: &GgufTokenizer,
    file: &str,
    chat_template: bool,
    gpu: &Gpu,
    start: Instant,
) -> ModelInfo {
    let text = |key: &str| {
        header
            .metadata
            .get(key)
            .and_then(|value| value.as_str())
            .map(str::to_owned)
    };
    let mut types: Vec<(String, u32)> = Vec::new();
    for tensor in &header.tensors {
        let name = tensor.kind.name();
        match types.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => types.push((name.to_owned(), 1)),
        }
    }
    types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ModelInfo {
        name: text("general.name").unwrap_or_else(|| file.to_owned()),
        licence: text("general.license.name").or_else(|| text("general.license")),
        parameters: header.tensors.iter().map(|tensor| tensor.weights()).sum(),
        types,
        vocabulary: tokenizer.vocab_size() as u32,
        context: session.capacity() as u32,
        weight_bytes: session.weight_bytes(),
        cache_bytes: session.cache_bytes(),
        chat_template,
        seconds: start.elapsed().as_secs_f64(),
        wasm_bytes: wasm_bytes(),
        adapter: adapter(gpu),
    }
}

/// Size of the wasm memory in bytes. It never shrinks, so this is its peak. 0 natively.
fn wasm_bytes() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return core::arch::wasm32::memory_size(0) as u64 * 65_536;
    #[cfg(not(target_arch = "wasm32"))]
    0
}

fn internal(message: &str) -> Failure {
    Failure {
        kind: FailureKind::Internal,
        message: message.to_owned(),
        advice: "This is a fault of the engine; reload the page and report it.".to_owned(),
    }
}

fn gpu_failure(error: &GpuError) -> Failure {
    let (kind, advice) = match error {
        GpuError::Unavailable(_) => (
            FailureKind::NoGpu,
            "Use a browser with WebGPU (Chrome or Edge 113+, Safari 26+, Firefox 141+ on Windows) \
             and check that hardware acceleration is on. Everything but generation works without it.",
        ),
        GpuError::Memory(_) => (
            FailureKind::Memory,
            "Close other tabs that use the GPU, choose a shorter context, or load a smaller file.",
        ),
        GpuError::Fault(_) => (
            FailureKind::Device,
            "Load the model again. If it happens again, reload the page.",
        ),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

fn load_failure(error: &LoadError) -> Failure {
    let (kind, advice) = match error {
        LoadError::Gpu(error) => return gpu_failure(error),
        LoadError::Source(source) | LoadError::Header(HeaderError::Source(source)) => {
            return source_failure(source);
        }
        LoadError::Gguf(_)
        | LoadError::Header(HeaderError::Gguf { .. })
        | LoadError::Inconsistent(_) => (
            FailureKind::BadFile,
            "Check that the whole file was downloaded and that it is a GGUF model.",
        ),
        LoadError::Unsupported(_) => (
            FailureKind::Unsupported,
            "Load a GGUF of a Llama-architecture model in Q4_0, Q4_1, Q8_0, F16 or F32.",
        ),
        LoadError::Stopped => (FailureKind::BadRequest, "Press Load to start again."),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

fn source_failure(error: &SourceError) -> Failure {
    let (kind, advice) = match error {
        SourceError::PastEnd { .. } => (
            FailureKind::BadFile,
            "The file is cut short; download it again.",
        ),
        SourceError::WebPage { .. } => (
            FailureKind::BadFile,
            "Use the address of the file itself, not of a page about it.",
        ),
        _ => (
            FailureKind::Network,
            "Check the address and the connection, then press Load again.",
        ),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

fn session_failure(error: &SessionError) -> Failure {
    let advice = match error {
        SessionError::Gpu(error) => return gpu_failure(error),
        SessionError::ContextFull { .. } => "Shorten the prompt, or load with a longer context.",
        SessionError::UnknownId { .. } => "Use ids of this model's own tokenizer.",
        SessionError::Empty => "Write a prompt.",
    };
    Failure {
        kind: FailureKind::BadRequest,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}
