//! LoRA adapters of the PEFT library, merged into the weights that they were trained on.
//!
//! A low-rank adapter (Hu et al. 2021) adds `scale · B A` to a matrix: [`merge`] says which tensors of a
//! base model an adapter changes and how, [`Merged`] is the bytes of the merged model's tensors, made a
//! few rows at a time. What an adapter says is either done or refused: every one of its tensors is used
//! exactly once.
//!
//! Source: the files that PEFT writes (`adapter_config.json`, `adapter_model.safetensors`), and how its
//! `merge_and_unload` reads them.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use weights::quantize::quantize_into;
use weights::safetensors::{Dtype, Header, TensorInfo};
use weights::{ByteSource, SourceError, json};

use crate::made::{self, Made, Stretch};
use crate::plan::LoadError;

/// Longest `adapter_config.json`, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 256 << 10;
/// Most values in it.
const MAX_CONFIG_VALUES: u32 = 16 << 10;
/// Largest rank that is merged.
const MAX_RANK: u64 = 4096;
/// Most bytes of one module's two small matrices in single precision.
const MAX_FACTOR_BYTES: u64 = 512 << 20;
/// Bytes of the base model that are worked on at once, per thread.
const CHUNK_BYTES: usize = 4 << 20;
/// Before every name in an adapter.
const PREFIX: &str = "base_model.model.";
/// The tensors that share their weights in a tied model.
const EMBEDDING: &str = "model.embed_tokens";
const HEAD: &str = "lm_head";

/// What an `adapter_config.json` says, as far as merging depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// The numerator of the scale.
    alpha: f64,
    /// Other numerators for some modules.
    alpha_pattern: Vec<(Pattern, f64)>,
    /// Rank-stabilised: the scale is divided by the root of the rank (Kalajdzievski 2023).
    stabilised: bool,
}

/// A module's name or its end, as the keys of `alpha_pattern` are in nearly all adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    name: String,
    /// The whole name, not its end.
    whole: bool,
}

impl Pattern {
    /// PEFT takes any regular expression; names are what is understood here.
    fn parse(key: &str) -> Option<Self> {
        let (whole, key) = match key.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, key),
        };
        let name = key.strip_suffix('$').unwrap_or(key).replace("\\.", ".");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        (!name.is_empty() && name.chars().all(plain)).then_some(Self { name, whole })
    }

    fn matches(&self, module: &str) -> bool {
        match module.strip_suffix(self.name.as_str()) {
            Some("") => true,
            Some(before) => !self.whole && before.ends_with('.'),
            None => false,
        }
    }
}

fn wrong(what: impl std::fmt::Display) -> LoadError {
    LoadError::Inconsistent(format!("adapter_config.json: {what}"))
}

impl AdapterConfig {
    /// Reads the text of an `adapter_config.json`.
    ///
    /// # Errors
    /// [`LoadError::Unsupported`] for another kind of adapter, or for settings that change what is
    /// added; [`LoadError::Inconsistent`] when something is missing or impossible.
    pub fn parse(text: &[u8]) -> Result<Self, LoadError> {
        if text.len() as u64 > MAX_CONFIG_BYTES {
            return Err(wrong(format!("it has {} bytes, too many", text.len())));
        }
        let object = json::parse_small(text, MAX_CONFIG_VALUES).map_err(wrong)?;
        let get = |key: &str| object.get(key).filter(|value| !value.is_null());
        let unsupported = |what: String| {
            Err(LoadError::Unsupported(format!(
                "adapter_config.json: {what}; merge this adapter with the library that it was trained with"
            )))
        };
        match get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                return unsupported(format!("peft_type is \"{other}\", and not \"LORA\""));
            }
            None => return Err(wrong("it does not say peft_type")),
        }
        for key in ["fan_in_fan_out", "use_dora", "lora_bias", "use_qalora"] {
            match get(key) {
                None | Some(Value::Bool(false)) => {}
                Some(_) => return unsupported(format!("{key} is set")),
            }
        }
        match get("bias").map(Value::as_str) {
            None | Some(Some("none")) => {}
            Some(_) => return unsupported("bias is not \"none\"".to_owned()),
        }
        for key in ["layer_replication", "megatron_config"] {
            if get(key).is_some() {
                return unsupported(format!("{key} is set"));
            }
        }
        let positive = |key: &str, value: Option<&Value>| {
            value
                .and_then(Value::as_f64)
                .filter(|number| *number > 0.0 && number.is_finite())
                .ok_or_else(|| wrong(format!("{key} is not a number above 0")))
        };
        positive("r", get("r"))?;
        let patterns = get("alpha_pattern").map(|value| {
            value
                .as_object()
                .ok_or_else(|| wrong("alpha_pattern is not an object"))
        });
        let mut alpha_pattern = Vec::new();
        for (key, value) in patterns.transpose()?.unwrap_or(&Map::new()) {
            let Some(pattern) = Pattern::parse(key) else {
                let key: String = key.chars().take(80).collect();
                return unsupported(format!(
                    "alpha_pattern has {key:?}, and here only names of modules are understood"
                ));
            };
            alpha_pattern.push((pattern, positive("alpha_pattern", Some(value))?));
        }
        Ok(Self {
            alpha: positive("lora_alpha", get("lora_alpha"))?,
            alpha_pattern,
            stabilised: get("use_rslora").is_some_and(|value| value == &Value::Bool(true)),
        })
    }

    /// What `B A` is multiplied with for a module of this rank. Ranks are those of the tensors, to which
    /// PEFT's `r` and `rank_pattern` led.
    fn scale(&self, module: &str, rank: u64) -> f32 {
        let patterns = self.alpha_pattern.iter();
        let found = patterns
            .filter(|(pattern, _)| pattern.matches(module))
            .map(|(_, alpha)| *alpha)
            .next();
        let alpha = found.unwrap_or(self.alpha);
        let rank = rank as f64;
        (alpha / if self.stabilised { rank.sqrt() } else { rank }) as f32
    }
}

/// `scale · B A`, which is added to a matrix.
#[derive(Clone, Debug, PartialEq)]
struct LowRank {
    /// `rank × cols`, or for embeddings `rank × rows`.
    a: TensorInfo,
    /// `rows × rank`, or for embeddings `cols × rank`.
    b: TensorInfo,
    scale: f32,
    /// The sum is added transposed, as PEFT has it for embeddings.
    transposed: bool,
}

impl LowRank {
    fn rank(&self) -> u64 {
        self.a.rows()
    }
}

/// What happens to a tensor of the base model.
#[derive(Clone, Debug, Default, PartialEq)]
struct Change {
    /// Stands in its place.
    replacement: Option<TensorInfo>,
    added: Option<LowRank>,
}

/// A tensor of the merged model.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedTensor {
    /// Its name in the merged model.
    pub name: String,
    /// How its elements are stored, as in the base model.
    pub dtype: Dtype,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Where it begins in the bytes of [`Merged`].
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    base: TensorInfo,
    change: Change,
}

impl MergedTensor {
    /// Whether the adapter changes it.
    pub fn is_changed(&self) -> bool {
        self.change != Change::default()
    }
}

/// What merging gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The tensors, one after another; those of the base model in their order, and behind them an output
    /// matrix of its own where [`Merge::unties`].
    pub tensors: Vec<MergedTensor>,
    /// In the base model the embeddings are the output matrix too, and here they are not any more,
    /// because the adapter changes only one of the two.
    pub unties: bool,
}

/// A part of a tensor's name in an adapter.
enum Part {
    A { transposed: bool },
    B { transposed: bool },
    Whole,
}

/// The module that a tensor of an adapter belongs to, and which part of it it is.
fn module_of(name: &str) -> Option<(&str, Part)> {
    let name = name.strip_prefix(PREFIX)?;
    // Older files have the adapter's name in it: `lora_A.default.weight`.
    for (marker, transposed, is_a) in [
        (".lora_A.", false, true),
        (".lora_B.", false, false),
        (".lora_embedding_A", true, true),
        (".lora_embedding_B", true, false),
    ] {
        if let Some((module, rest)) = name.rsplit_once(marker) {
            let known = matches!(
                rest,
                "" | "weight" | "default.weight" | ".default" | "default"
            );
            let part = match is_a {
                true => Part::A { transposed },
                false => Part::B { transposed },
            };
            return known.then_some((module, part));
        }
    }
    let module = name.strip_suffix(".weight")?;
    let module = module
        .strip_suffix(".modules_to_save")
        .or_else(|| module.strip_suffix(".modules_to_save.default"))
        .or_else(|| module.strip_suffix(".base_layer"))
        .unwrap_or(module);
    Some((module, Part::Whole))
}

#[derive(Default)]
struct Parts {
    a: Option<(TensorInfo, bool)>,
    b: Option<(TensorInfo, bool)>,
    whole: Option<TensorInfo>,
}

/// How the tensors of `adapter` change those of `base`, whose embeddings are the output matrix too where
/// `tied`.
///
/// # Errors
/// [`LoadError::Inconsistent`] when a tensor of the adapter belongs to none of the base model, has no
/// counterpart or another shape: all such tensors are listed. [`LoadError::Unsupported`] for ranks and
/// types that are not merged here.
pub fn merge(
    config: &AdapterConfig,
    adapter: &Header,
    base: &Header,
    tied: bool,
) -> Result<Merge, LoadError> {
    let mut modules = BTreeMap::<&str, Parts>::new();
    let mut unused = Vec::new();
    for tensor in &adapter.tensors {
        let Some((module, part)) = module_of(&tensor.name) else {
            unused.push(tensor.name.as_str());
            continue;
        };
        let parts = modules.entry(module).or_default();
        let taken = match part {
            Part::A { transposed } => parts.a.replace((tensor.clone(), transposed)).is_some(),
            Part::B { transposed } => parts.b.replace((tensor.clone(), transposed)).is_some(),
            Part::Whole => parts.whole.replace(tensor.clone()).is_some(),
        };
        if taken {
            unused.push(tensor.name.as_str());
        }
    }

    let find = |module: &str| base.tensor(&format!("{module}.weight"));
    // The tied output matrix is in the base model under the embeddings' name.
    let embedding = find(EMBEDDING);
    let tied = tied || find(HEAD).is_none();
    let mut changes = HashMap::<&str, Change>::new();
    for (module, parts) in &modules {
        let target = match (*module == HEAD && tied, find(module)) {
            (true, _) => embedding,
            (false, target) => target,
        };
        let target = target.filter(|target| target.shape.len() == 2 || parts.a.is_none());
        match target {
            Some(target) => {
                changes.insert(module, change(config, module, parts, target)?);
            }
            None => {
                let (a, b) = (parts.a.as_ref(), parts.b.as_ref());
                let factors = a.into_iter().chain(b).map(|(tensor, _)| tensor);
                unused.extend(
                    factors
                        .chain(&parts.whole)
                        .map(|tensor| tensor.name.as_str()),
                );
            }
        }
    }
    if !unused.is_empty() {
        return Err(not_used(&mut unused));
    }
    if changes.is_empty() {
        return Err(LoadError::Inconsistent(
            "the adapter has no tensors".to_owned(),
        ));
    }
    let unties = tied && (changes.contains_key(HEAD) || changes.contains_key(EMBEDDING));
    layout(base, &mut changes, tied, unties)
}

/// An error that lists the tensors of an adapter that cannot be used.
fn not_used(names: &mut [&str]) -> LoadError {
    /// So many are listed.
    const SHOWN: usize = 20;
    names.sort_unstable();
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| name.chars().take(200).collect())
        .collect();
    let more = match names.len() {
        0..=SHOWN => String::new(),
        count => format!(", and {} more", count - SHOWN),
    };
    LoadError::Inconsistent(format!(
        "the base model has nothing that {} tensors of the adapter belong to: {}{more}; is this the base \
         model that the adapter was trained on?",
        names.len(),
        shown.join(", ")
    ))
}

/// What the tensors of one module do to its matrix.
fn change(
    config: &AdapterConfig,
    module: &str,
    parts: &Parts,
    target: &TensorInfo,
) -> Result<Change, LoadError> {
    let inconsistent = |what: String| Err(LoadError::Inconsistent(format!("{module}: {what}")));
    let unsupported = |what: String| Err(LoadError::Unsupported(format!("{module}: {what}")));
    let factors = parts.a.iter().chain(&parts.b).map(|(tensor, _)| tensor);
    for tensor in factors.chain(&parts.whole).chain([target]) {
        if tensor.dtype.block_type().is_none() {
            return unsupported(format!(
                "{} is of type {}; BF16, F16 and F32 are merged",
                tensor.name, tensor.dtype
            ));
        }
    }
    if let Some(whole) = &parts.whole
        && whole.shape != target.shape
    {
        return inconsistent(format!(
            "{} has the shape {:?}, but the base model's {:?}; a vocabulary that was made larger cannot \
             be merged here",
            whole.name, whole.shape, target.shape
        ));
    }
    let added = match (&parts.a, &parts.b) {
        (None, None) => None,
        (Some((a, transposed)), Some((b, same))) if transposed == same => {
            let (rows, cols) = (target.rows(), target.row_len());
            let rank = a.rows();
            let (outer, inner) = if *transposed {
                (cols, rows)
            } else {
                (rows, cols)
            };
            if a.shape != [rank, inner] || b.shape != [outer, rank] {
                return inconsistent(format!(
                    "the shapes {:?} and {:?} do not fit the matrix of {rows} × {cols}",
                    a.shape, b.shape
                ));
            }
            if rank == 0 || rank > MAX_RANK {
                return unsupported(format!(
                    "its rank is {rank}; ranks up to {MAX_RANK} are merged"
                ));
            }
            // Both are within the file, so there is no overflow.
            if (rows + cols) * rank * 4 > MAX_FACTOR_BYTES {
                return unsupported("its matrices are too large to be merged".to_owned());
            }
            Some(LowRank {
                a: a.clone(),
                b: b.clone(),
                scale: config.scale(module, rank),
                transposed: *transposed,
            })
        }
        (Some((tensor, _)), _) | (None, Some((tensor, _))) => {
            return inconsistent(format!("{} has no counterpart", tensor.name));
        }
    };
    Ok(Change {
        replacement: parts.whole.clone(),
        added,
    })
}

/// The merged tensors one after another.
fn layout(
    base: &Header,
    changes: &mut HashMap<&str, Change>,
    tied: bool,
    unties: bool,
) -> Result<Merge, LoadError> {
    let mut end = 0u64;
    let mut tensors = Vec::with_capacity(base.tensors.len() + 1);
    let mut add = |name: String, base: &TensorInfo, change: Change| {
        let tensor = MergedTensor {
            name,
            dtype: base.dtype,
            shape: base.shape.clone(),
            offset: end,
            bytes: base.bytes,
            base: base.clone(),
            change,
        };
        end = end.checked_add(base.bytes).ok_or_else(|| {
            LoadError::Inconsistent("the base model is larger than can be".to_owned())
        })?;
        tensors.push(tensor);
        Ok::<(), LoadError>(())
    };
    let head = format!("{HEAD}.weight");
    for tensor in &base.tensors {
        // A tied model may hold an output matrix that is not used.
        if tied && tensor.name == head {
            continue;
        }
        let module = tensor.name.strip_suffix(".weight").unwrap_or_default();
        let change = changes.remove(module).unwrap_or_default();
        add(tensor.name.clone(), tensor, change)?;
    }
    if unties && let Some(embedding) = base.tensor(&format!("{EMBEDDING}.weight")) {
        add(head, embedding, changes.remove(HEAD).unwrap_or_default())?;
    }
    Ok(Merge { tensors, unties })
}

/// The small matrices of a module in single precision, ready to be added row by row.
struct Factors {
    /// Which tensor they belong to, by its place.
    index: usize,
    rank: usize,
    /// `rank × cols`: what rows are made of.
    rows: Vec<f32>,
    /// `rows × rank`: how much of each a row takes, with the scale.
    amounts: Vec<f32>,
}

/// The bytes of the merged model's tensors, one after another.
///
/// Sums are formed in single precision and rounded once to the type of the base model. Which bytes come
/// out does not depend on how they are read nor on the number of threads.
pub struct Merged<S, A> {
    base: S,
    adapter: A,
    tensors: Vec<MergedTensor>,
    size: u64,
    threads: usize,
    /// Bytes of the base model that are worked on at once.
    chunk: u64,
    factors: Option<Factors>,
    input: Vec<u8>,
    output: Stretch,
}

impl<S: ByteSource, A: ByteSource> Merged<S, A> {
    /// The bytes of `merge`, from the sources whose headers it was made of, with up to `threads` threads.
    pub fn new(base: S, adapter: A, merge: &Merge, threads: usize) -> Self {
        let threads = if cfg!(target_arch = "wasm32") {
            1
        } else {
            threads.clamp(1, 64)
        };
        Self {
            base,
            adapter,
            tensors: merge.tensors.clone(),
            size: merge
                .tensors
                .last()
                .map_or(0, |tensor| tensor.offset + tensor.bytes),
            threads,
            chunk: (threads * CHUNK_BYTES) as u64,
            factors: None,
            input: Vec::new(),
            output: Stretch::default(),
        }
    }

    /// Works on about `bytes` bytes of the base model at once, at least a row.
    #[must_use]
    pub fn at_once(mut self, bytes: u64) -> Self {
        self.chunk = bytes.max(1);
        self
    }

    /// Reads the small matrices of a tensor, unless they are there.
    async fn load_factors(&mut self, index: usize) -> Result<(), SourceError> {
        if self
            .factors
            .as_ref()
            .is_some_and(|factors| factors.index == index)
        {
            return Ok(());
        }
        self.factors = None;
        let Some(added) = self.tensors[index].change.added.clone() else {
            return Ok(());
        };
        // Read and checked by `change`: the types are known and the sizes bounded.
        let (a, b) = (self.floats(&added.a).await?, self.floats(&added.b).await?);
        let rank = added.rank() as usize;
        let (rows, mut amounts) = if added.transposed {
            // A holds amounts, and B rows, both the other way round.
            (turned(&b, rank), turned(&a, added.a.row_len() as usize))
        } else {
            (a, b)
        };
        for amount in &mut amounts {
            *amount *= added.scale;
        }
        self.factors = Some(Factors {
            index,
            rank,
            rows,
            amounts,
        });
        Ok(())
    }

    /// A tensor of the adapter.
    async fn floats(&mut self, tensor: &TensorInfo) -> Result<Vec<f32>, SourceError> {
        let mut bytes = Vec::new();
        self.adapter
            .read(tensor.offset, &mut bytes, tensor.bytes as usize)
            .await?;
        let mut floats = vec![0.0; (tensor.bytes / tensor.dtype.bytes()) as usize];
        let kind = tensor.dtype.block_type();
        let read = kind.map(|kind| weights::codec::dequantize(kind, &bytes, &mut floats));
        match read {
            Some(Ok(())) if floats.iter().all(|x| x.is_finite()) => Ok(floats),
            _ => Err(SourceError::Io {
                name: self.adapter.name(),
                detail: format!(
                    "tensor {} holds infinite weights or what is not a number; the adapter is damaged",
                    tensor.name
                ),
            }),
        }
    }

    fn failed(&self, index: usize, detail: String) -> SourceError {
        SourceError::Io {
            name: self.base.name(),
            detail: format!("tensor {}: {detail}", self.tensors[index].name),
        }
    }
}

/// A matrix with rows of `cols` elements, the other way round.
fn turned(matrix: &[f32], cols: usize) -> Vec<f32> {
    let rows = matrix.len() / cols.max(1);
    let mut turned = Vec::with_capacity(matrix.len());
    for col in 0..cols {
        turned.extend((0..rows).map(|row| matrix[row * cols + col]));
    }
    turned
}

/// What is done with rows of a tensor.
struct Work<'a> {
    factors: Option<&'a Factors>,
    from: weights::BlockType,
    to: weights::BlockType,
    cols: usize,
}

impl Work<'_> {
    /// On several threads, rows from `first` on.
    fn run(
        &self,
        input: &[u8],
        output: &mut [u8],
        first: usize,
        threads: usize,
    ) -> Result<(), weights::codec::CodecError> {
        let (from_bytes, to_bytes) = (
            self.cols * self.from.block_bytes(),
            self.cols * self.to.block_bytes(),
        );
        if threads == 1 {
            return self.rows(input, output, first);
        }
        let share = (output.len() / to_bytes).div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let shares = output.chunks_mut(share * to_bytes).enumerate();
            let started: Vec<_> = shares
                .map(|(index, output)| {
                    let rows = index * share;
                    let input = &input[rows * from_bytes..];
                    scope.spawn(move || self.rows(input, output, first + rows))
                })
                .collect();
            started
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })
    }

    fn rows(
        &self,
        input: &[u8],
        output: &mut [u8],
        first: usize,
    ) -> Result<(), weights::codec::CodecError> {
        let mut row = vec![0.0; self.cols];
        let mut sum = vec![0.0; self.cols];
        let inputs = input.chunks_exact(self.cols * self.from.block_bytes());
        let outputs = output.chunks_exact_mut(self.cols * self.to.block_bytes());
        for (index, (input, output)) in inputs.zip(outputs).enumerate() {
            weights::codec::dequantize(self.from, input, &mut row)?;
            if let Some(factors) = self.factors {
                let amounts = &factors.amounts[(first + index) * factors.rank..][..factors.rank];
                let parts = factors.rows.chunks_exact(self.cols);
                // Added up on its own first: a sum onto the weights would lose small parts one by one.
                sum.fill(0.0);
                for (amount, part) in amounts.iter().zip(parts) {
                    for (sum, part) in sum.iter_mut().zip(part) {
                        *sum += amount * part;
                    }
                }
                for (weight, sum) in row.iter_mut().zip(&sum) {
                    *weight += sum;
                }
            }
            quantize_into(self.to, &row, output)?;
        }
        Ok(())
    }
}

impl<S: ByteSource, A: ByteSource> Made for Merged<S, A> {
    fn stretch(&self) -> &Stretch {
        &self.output
    }

    async fn make(&mut self, offset: u64) -> Result<(), SourceError> {
        // Tensors without bytes hold none: the last one that begins here does.
        let index = self
            .tensors
            .partition_point(|tensor| tensor.offset <= offset)
            - 1;
        let tensor = &self.tensors[index];
        let place = offset - tensor.offset;
        self.output.bytes.clear();
        let chunk = self.chunk;
        if !tensor.is_changed() {
            let first = place / chunk * chunk;
            let len = chunk.min(tensor.bytes - first) as usize;
            self.base
                .read(tensor.base.offset + first, &mut self.output.bytes, len)
                .await?;
            self.output.start = tensor.offset + first;
            return Ok(());
        }
        let Some(kind) = tensor.dtype.block_type() else {
            return Err(self.failed(index, "is of a type that cannot be merged".to_owned()));
        };
        let cols = tensor.base.row_len() as usize;
        let row_bytes = cols as u64 * tensor.dtype.bytes();
        let step = (chunk / row_bytes.max(1)).max(1);
        let first = place / row_bytes / step * step;
        let rows = step.min(tensor.base.rows() - first) as usize;

        // What the sum is added to.
        let replacement = tensor.change.replacement.clone();
        self.input.clear();
        let from = match &replacement {
            Some(other) => {
                let row_bytes = cols as u64 * other.dtype.bytes();
                let (at, len) = (other.offset + first * row_bytes, rows * row_bytes as usize);
                self.adapter.read(at, &mut self.input, len).await?;
                other.dtype.block_type().unwrap_or(kind)
            }
            None => {
                let (at, len) = (
                    tensor.base.offset + first * row_bytes,
                    rows * row_bytes as usize,
                );
                self.base.read(at, &mut self.input, len).await?;
                kind
            }
        };
        self.load_factors(index).await?;
        self.output.bytes.resize(rows * row_bytes as usize, 0);
        let factors = self
            .factors
            .as_ref()
            .filter(|factors| factors.index == index);
        let work = Work {
            factors,
            from,
            to: kind,
            cols,
        };
        let done = work.run(
            &self.input,
            &mut self.output.bytes,
            first as usize,
            self.threads,
        );
        if let Err(error) = done {
            self.output.bytes.clear();
            return Err(self.failed(index, error.to_string()));
        }
        self.output.start = self.tensors[index].offset + first * row_bytes;
        Ok(())
    }
}

impl<S: ByteSource, A: ByteSource> ByteSource for Merged<S, A> {
    fn name(&self) -> String {
        self.base.name()
    }

    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    async fn read(
        &mut self,
        offset: u64,
        buf: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), SourceError> {
        made::read(self, offset, buf, len).await
    }

    fn rest(&mut self) {
        self.base.rest();
        self.adapter.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_are_understood() {
        for (name, module, kind) in [
            (
                "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                "model.layers.0.self_attn.q_proj",
                'A',
            ),
            (
                "base_model.model.lm_head.lora_B.default.weight",
                "lm_head",
                'B',
            ),
            (
                "base_model.model.model.embed_tokens.lora_embedding_A",
                "model.embed_tokens",
                'A',
            ),
            (
                "base_model.model.model.embed_tokens.lora_embedding_B.default",
                "model.embed_tokens",
                'B',
            ),
            ("base_model.model.lm_head.weight", "lm_head", 'W'),
            (
                "base_model.model.lm_head.modules_to_save.weight",
                "lm_head",
                'W',
            ),
            (
                "base_model.model.model.embed_tokens.base_layer.weight",
                "model.embed_tokens",
                'W',
            ),
        ] {
            let (found, part) = module_of(name).expect(name);
            let found_kind = match part {
                Part::A { .. } => 'A',
                Part::B { .. } => 'B',
                Part::Whole => 'W',
            };
            assert_eq!((found, found_kind), (module, kind), "{name}");
        }
        for name in [
            "model.layers.0.self_attn.q_proj.lora_A.weight",
            "base_model.model.lm_head.lora_magnitude_vector",
            "base_model.model.lm_head.lora_A.bias",
            "",
        ] {
            assert!(module_of(name).is_none(), "{name}");
        }
    }

    fn config(changes: Value) -> Result<AdapterConfig, LoadError> {
        let mut config = serde_json::json!({
            "peft_type": "LORA", "r": 8, "lora_alpha": 16, "bias": "none", "fan_in_fan_out": false,
            "target_modules": ["q_proj"], "use_rslora": false, "alpha_pattern": {}, "rank_pattern": {},
            "modules_to_save": null, "layer_replication": null, "use_dora": false
        });
        let changes = changes.as_object().expect("an object").clone();
        config.as_object_mut().expect("an object").extend(changes);
        AdapterConfig::parse(config.to_string().as_bytes())
    }

    #[test]
    fn scales_follow_the_settings() {
        let plain = config(serde_json::json!({})).expect("a good file");
        assert_eq!(plain.scale("model.layers.0.self_attn.q_proj", 8), 2.0);
        assert_eq!(plain.scale("model.layers.0.self_attn.q_proj", 4), 4.0);
        let stabilised = config(serde_json::json!({"use_rslora": true})).expect("a good file");
        assert_eq!(stabilised.scale("lm_head", 64), 2.0);
        let patterns = config(serde_json::json!({"alpha_pattern": {
            "layers.1.mlp.up_proj": 32, "^lm_head": 8, "k_proj": 4
        }}))
        .expect("a good file");
        for (module, alpha) in [
            ("model.layers.1.mlp.up_proj", 32.0),
            ("model.layers.11.mlp.up_proj", 16.0),
            ("lm_head", 8.0),
            ("model.lm_head", 16.0),
            ("model.layers.3.self_attn.k_proj", 4.0),
            ("model.layers.3.self_attn.vk_proj", 16.0),
        ] {
            assert_eq!(patterns.scale(module, 1), alpha, "{module}");
        }
    }

    #[test]
    fn other_adapters_are_refused() {
        for (changes, named) in [
            (serde_json::json!({"peft_type": "IA3"}), "IA3"),
            (serde_json::json!({"peft_type": null}), "peft_type"),
            (
                serde_json::json!({"fan_in_fan_out": true}),
                "fan_in_fan_out",
            ),
            (serde_json::json!({"use_dora": true}), "use_dora"),
            (serde_json::json!({"bias": "all"}), "bias"),
            (
                serde_json::json!({"layer_replication": [[0, 4]]}),
                "layer_replication",
            ),
            (serde_json::json!({"r": 0}), "r is not"),
            (serde_json::json!({"lora_alpha": "x"}), "lora_alpha"),
            (
                serde_json::json!({"alpha_pattern": {"layers\\.[0-9]+": 2}}),
                "alpha_pattern",
            ),
            (
                serde_json::json!({"alpha_pattern": {"q_proj": 0}}),
                "alpha_pattern",
            ),
        ] {
            let error = config(changes).expect_err(named).to_string();
            assert!(error.contains(named), "{error}");
        }
        AdapterConfig::parse(b"[]").expect_err("no object");
    }
}
