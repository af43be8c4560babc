//! The engine behind the messages: one processor, a model for each side or one for both, one request at
//! a time.

use std::cell::Cell;
use std::rc::Rc;

use model::package::{Kind, Licence, Package, Special, TokenizerFile};
use model::{LoadError, Network, Sampling as Choice, Session, SessionError};
use tokens::model::{ModelTokenizer, Parts, SpecialIds};
use web_time::Instant;
use weights::ByteSource;

use self::failure::{backend_failure, internal, session_failure};
use crate::protocol::{
    Event, Failure, FailureKind, LoadOptions, Measures, ModelInfo, Preflight, Processor, Residence,
    Side, Sides, Stage,
};

pub mod backend;
mod failure;
mod generation;
mod measure;
mod pause;
mod preflight;

pub use backend::Backend;
pub use failure::{load_failure, source_failure};
pub use generation::Order;
pub use preflight::Surroundings;

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
    /// What the sides have: one that both share, or one each.
    slots: Vec<Slot<B::Network>>,
    stop: StopFlag,
    max_binding: Option<u64>,
}

/// A model for a side or both.
#[derive(Debug)]
struct Slot<N> {
    sides: Sides,
    /// Bytes that it was estimated to take, with a full context.
    bytes: u64,
    /// `None` while it is away: it made room for another, or was lost with its processor.
    model: Option<Model<N>>,
}

#[derive(Debug)]
struct Model<N> {
    session: Session<N>,
    tokenizer: ModelTokenizer,
    template: Option<String>,
    load_seconds: f64,
}

impl<B: Backend> Engine<B> {
    /// An engine that stops when `stop` is raised. The processor is opened when it is first needed.
    pub fn new(stop: StopFlag) -> Self {
        Self {
            backend: None,
            slots: Vec::new(),
            stop,
            max_binding: None,
        }
    }

    /// Lowers what the processor binds at once, so that a small model is split as a large one is.
    pub fn limit_binding(&mut self, bytes: u64) {
        self.max_binding = Some(bytes);
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
            let opened = B::open(self.max_binding)
                .await
                .map_err(|error| backend_failure(&error))?;
            self.backend = Some(opened);
        }
        self.backend
            .as_ref()
            .ok_or_else(|| internal("the processor vanished"))
    }

    /// Where a side's model is. One that is [`Residence::Away`] has to be loaded again.
    pub fn residence(&self, side: Side) -> Residence {
        match self.slots.iter().find(|slot| slot.sides.has(side)) {
            None => Residence::Empty,
            Some(slot) if slot.model.is_some() => Residence::Resident,
            Some(_) => Residence::Away,
        }
    }

    fn tell_residence(&self, emit: &dyn Fn(Event)) {
        emit(Event::Residence {
            a: self.residence(Side::A),
            b: self.residence(Side::B),
        });
    }

    /// Passes a failure on. If the processor is gone, so is all that was on it.
    fn suffer(&mut self, failure: Failure) -> Failure {
        if failure.kind == FailureKind::Device {
            for slot in &mut self.slots {
                slot.model = None;
            }
            self.backend = None;
        }
        failure
    }

    /// Drops what these sides have.
    pub fn unload(&mut self, sides: Sides) {
        self.slots
            .retain_mut(|slot| match slot.sides.without(sides) {
                Some(left) => {
                    slot.sides = left;
                    true
                }
                None => false,
            });
    }

    /// What loading a model would take, for these sides beside what the other has.
    ///
    /// # Errors
    /// A failure where the model cannot run here at all.
    pub async fn preflight(
        &mut self,
        package: &Package,
        sides: Sides,
        options: &LoadOptions,
        around: Surroundings,
    ) -> Result<Preflight, Failure> {
        let other = self.others(sides).map(|slot| slot.bytes).sum();
        let backend = self.open().await?;
        preflight::preflight(backend, package, options, other, around)
    }

    /// What stays when these sides get another model.
    fn others(&self, sides: Sides) -> impl Iterator<Item = &Slot<B::Network>> {
        let stays = move |slot: &&Slot<B::Network>| slot.sides.without(sides).is_some();
        self.slots.iter().filter(stays)
    }

    /// Loads a model for these sides, whose models are dropped before. The model of the other side stays
    /// where both fit, and goes away otherwise: where the two exceed the limit that was set, or where
    /// memory turns out not to be enough.
    ///
    /// The plan of `package` says where in `source` its tensors are.
    ///
    /// # Errors
    /// A failure that says what to do. The engine stays usable, without a model on these sides.
    pub async fn load(
        &mut self,
        package: Package,
        source: &mut impl ByteSource,
        sides: Sides,
        options: &LoadOptions,
        emit: &dyn Fn(Event),
    ) -> Result<ModelInfo, Failure> {
        let start = Instant::now();
        emit(progress(Stage::Device, 0, 0, start));
        self.unload(sides);
        let loaded = self.try_load(package, source, options, start, emit).await;
        let loaded = loaded.map_err(|failure| self.suffer(failure));
        let info = loaded.map(|(model, bytes, info)| {
            self.slots.push(Slot {
                sides,
                bytes,
                model: Some(model),
            });
            info
        });
        self.tell_residence(emit);
        info
    }

    async fn try_load(
        &mut self,
        package: Package,
        source: &mut impl ByteSource,
        options: &LoadOptions,
        start: Instant,
        emit: &dyn Fn(Event),
    ) -> Result<(Model<B::Network>, u64, ModelInfo), Failure> {
        let label = label(&package, options);
        let Package {
            name,
            licence,
            plan,
            tokenizer,
            template,
            special,
            parameters,
            types,
            ..
        } = package;
        let tokenizer = build_tokenizer(tokenizer, special)?;
        if tokenizer.vocab_size() > plan.config.vocab {
            return Err(load_failure(&LoadError::Inconsistent(format!(
                "the tokenizer has {} entries, but the embedding table only {}",
                tokenizer.vocab_size(),
                plan.config.vocab
            ))));
        }
        let backend = self.open().await?;
        let estimate = backend
            .estimate(&plan, options.half_cache)
            .map_err(|error| load_failure(&error))?;
        if let Some(finding) = preflight::refusals(&estimate, options).first() {
            return Err(Failure {
                kind: FailureKind::Memory,
                message: format!("{name} cannot be loaded so. {}", finding.message),
                advice:
                    "Choose a shorter context, a smaller quantization or a smaller model, or raise \
                         the limit."
                        .to_owned(),
            });
        }
        let bytes = preflight::total(&estimate, options.context);
        let beside: u64 = self.resident().map(|slot| slot.bytes).sum();
        if options
            .memory_limit
            .is_some_and(|limit| bytes + beside > limit)
        {
            self.send_away();
        }

        let stop = self.stop.clone();
        let total = plan.end();
        emit(progress(Stage::Weights, 0, total, start));
        let network = loop {
            let backend = self.open().await?;
            let loading = backend.load(source, &plan, options.half_cache, |done| {
                emit(progress(Stage::Weights, done.min(total), total, start));
                !stop.is_raised()
            });
            match loading.await {
                Ok(network) => break network,
                // Once more with all the memory that there is.
                Err(LoadError::Backend(model::BackendError::Memory(_))) if self.send_away() => {
                    self.tell_residence(emit);
                }
                Err(error) => return Err(load_failure(&error)),
            }
        };
        emit(progress(Stage::Kernels, total, total, start));
        let half_cache = B::half_cache(&network);
        let mut session = Session::new(network, options.context as usize);
        warm_up(&mut session)
            .await
            .map_err(|error| session_failure(&error))?;
        let memory = session.network().memory();
        let load_seconds = start.elapsed().as_secs_f64();
        let info = ModelInfo {
            name,
            label,
            licence: licence.map(Into::into),
            key: None,
            parameters,
            types,
            vocabulary: tokenizer.vocab_size() as u32,
            context: session.capacity() as u32,
            tensor_bytes: plan.tensor_bytes(),
            weight_bytes: memory.weights,
            cache_bytes_per_token: memory.cache_per_token,
            half_cache,
            chat_template: template.is_some(),
            seconds: load_seconds,
            wasm_bytes: wasm_bytes(),
            processor: self.open().await?.processor(),
        };
        let model = Model {
            session,
            tokenizer,
            template,
            load_seconds,
        };
        Ok((model, bytes, info))
    }

    fn resident(&self) -> impl Iterator<Item = &Slot<B::Network>> {
        self.slots.iter().filter(|slot| slot.model.is_some())
    }

    /// Frees the memory of all models; says whether there were any.
    fn send_away(&mut self) -> bool {
        let any = self.resident().next().is_some();
        for slot in &mut self.slots {
            slot.model = None;
        }
        any
    }

    fn model(&mut self, side: Side) -> Result<&mut Model<B::Network>, Failure> {
        let slot = self.slots.iter_mut().find(|slot| slot.sides.has(side));
        slot.and_then(|slot| slot.model.as_mut())
            .ok_or_else(no_model)
    }

    /// Continues a prompt, telling of each token as it comes.
    ///
    /// # Errors
    /// A failure that says what to do. The engine stays usable; it keeps its models unless the processor
    /// was lost.
    pub async fn generate(
        &mut self,
        order: &Order<'_>,
        emit: &dyn Fn(Event),
    ) -> Result<(), Failure> {
        let stop = self.stop.clone();
        let model = self.model(order.side)?;
        let generated = model.generate(order, &stop, emit).await;
        generated.map_err(|failure| {
            let failure = self.suffer(failure);
            if failure.kind == FailureKind::Device {
                self.tell_residence(emit);
            }
            failure
        })
    }

    /// Measures a side's model: after one run to warm up, a prompt of pseudo-random ids and greedy
    /// tokens after it. Stop tokens do not end it.
    ///
    /// # Errors
    /// A failure that says what to do, as of [`Engine::generate`].
    pub async fn measure(
        &mut self,
        side: Side,
        prompt_tokens: u32,
        decode_tokens: u32,
    ) -> Result<Measures, Failure> {
        let slot = self.slots.iter_mut().find(|slot| slot.sides.has(side));
        let model = slot.and_then(|slot| slot.model.as_mut());
        let (Some(model), Some(backend)) = (model, self.backend.as_ref()) else {
            return Err(no_model());
        };
        let measured = measure::measure(model, backend, prompt_tokens, decode_tokens).await;
        measured.map_err(|error| self.suffer(session_failure(&error)))
    }
}

/// How far a load is.
fn progress(stage: Stage, done: u64, total: u64, start: Instant) -> Event {
    Event::Progress {
        stage,
        done,
        total,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// What a model is, as in `GGUF, Q4_K_M`.
pub fn label(package: &Package, options: &LoadOptions) -> String {
    let kind = match package.kind {
        Kind::Gguf => "GGUF",
        Kind::Safetensors => "safetensors",
        Kind::Shards => "shards",
    };
    match &options.recipe {
        Some(recipe) => format!("{kind}, quantized to {recipe}"),
        None => format!("{kind}, {}", package.quantization),
    }
}

/// The tokenizer of a package: what `model` reads and `tokens` takes; the two rooms do not know each other.
///
/// # Errors
/// A failure of kind [`FailureKind::Unsupported`].
pub fn build_tokenizer(file: TokenizerFile, special: Special) -> Result<ModelTokenizer, Failure> {
    let built = match file {
        TokenizerFile::Gguf(parts) => ModelTokenizer::from_gguf(Parts {
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
        }),
        TokenizerFile::Json(json) => {
            let special = SpecialIds {
                bos: special.bos,
                eos: special.eos,
                add_bos: special.add_bos,
            };
            ModelTokenizer::from_json(&json, &special)
        }
    };
    built.map_err(|error| Failure {
        kind: FailureKind::Unsupported,
        message: format!("the tokenizer of this model cannot be used: {error}"),
        advice: "Try another file of the same model.".to_owned(),
    })
}

impl From<Licence> for crate::protocol::Licence {
    fn from(licence: Licence) -> Self {
        Self {
            name: licence.name,
            link: licence.link,
            attribution: licence.attribution,
        }
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
