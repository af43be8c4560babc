//! A model in another quantization, made while it is read.
//!
//! [`target`] says which type every tensor is to have and where it will lie: one after another without
//! gaps, in the order in which the source has them, named as in GGUF, projections in the order of
//! adjacent rotary pairs. [`Converted`] is the bytes of that: a [`ByteSource`] that reads the rows of
//! the source behind the bytes that are asked for and quantizes them. Nothing is kept but the last few
//! rows, so a model of any size converts in little memory, and reading on from any byte costs no more
//! than a few rows.

use weights::quantize::quantize_into;
use weights::{BlockType, ByteSource, SourceError};

use crate::config::Pairing;
use crate::made::{self, Made, Stretch};
use crate::plan::{BlockPart, LoadError, Plan, Role, Tensor};
use crate::stream;

/// Source bytes that are read and converted at once, per thread.
const CHUNK_BYTES: usize = 4 << 20;

/// Most source bytes that must be converted at once: a head of a projection whose rows are reordered.
const MAX_UNIT_BYTES: u64 = 64 << 20;

/// Which type each tensor is to have. Vectors are always F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// Q4_0, and Q6_K for the output matrix; llama.cpp's mix of that name. The smallest and fastest.
    Q4,
    /// Q4_K, and Q6_K for the output matrix; llama.cpp's Q4_K_S.
    Q4K,
    /// Q6_K.
    Q6,
    /// Q8_0.
    Q8,
    /// F16.
    F16,
    /// BF16.
    BF16,
}

impl Recipe {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Q4,
        Self::Q4K,
        Self::Q6,
        Self::Q8,
        Self::F16,
        Self::BF16,
    ];

    /// Its name, as manifests and the command line have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4 => "q4",
            Self::Q4K => "q4k",
            Self::Q6 => "q6",
            Self::Q8 => "q8",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }

    /// The recipe of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recipe| recipe.name() == name)
    }

    /// The type for a matrix with rows of `cols` weights; `head` where it is the output matrix.
    ///
    /// Where the rows are no whole number of blocks of 256, the type is the nearest one with blocks of
    /// 32, as llama.cpp has it: Q5_0 for Q4_K and Q8_0 for Q6_K. Rows that are no whole number of those
    /// are left in F16.
    pub fn kind(self, head: bool, cols: usize) -> BlockType {
        let wanted = match self {
            Self::Q4 | Self::Q4K if head => BlockType::Q6_K,
            Self::Q4 => BlockType::Q4_0,
            Self::Q4K => BlockType::Q4_K,
            Self::Q6 => BlockType::Q6_K,
            Self::Q8 => BlockType::Q8_0,
            Self::F16 => BlockType::F16,
            Self::BF16 => BlockType::BF16,
        };
        let smaller = match wanted {
            BlockType::Q4_K => BlockType::Q5_0,
            BlockType::Q6_K => BlockType::Q8_0,
            other => other,
        };
        [wanted, smaller]
            .into_iter()
            .find(|kind| cols.is_multiple_of(kind.block_len()))
            .unwrap_or(BlockType::F16)
    }
}

/// The plan with the divisors of the rotary frequencies in its configuration, where the file has them
/// as a tensor.
///
/// # Errors
/// [`LoadError`] of the source, or when the tensor holds what divides no frequency.
pub async fn resolve<S: ByteSource>(source: &mut S, plan: &Plan) -> Result<Plan, LoadError> {
    let mut plan = plan.clone();
    let is_divisors = |tensor: &&Tensor| tensor.role == Role::RopeDivisors;
    if let Some(tensor) = plan.tensors.iter().find(is_divisors) {
        let mut bytes = Vec::new();
        source
            .read(tensor.offset, &mut bytes, tensor.row_bytes())
            .await?;
        plan.config.rope.divisors = Some(stream::divisors(tensor, &bytes)?);
        plan.tensors.retain(|tensor| !is_divisors(&tensor));
    }
    Ok(plan)
}

/// The tensors of `plan` as `recipe` has them, and where they lie in the bytes of [`Converted`].
///
/// Where the embeddings are the output matrix too, they count as the output matrix. A tensor of
/// rotary divisors stays a tensor; [`resolve`] puts it into the configuration.
pub fn target(plan: &Plan, recipe: Recipe) -> Plan {
    let tied = !plan.tensors.iter().any(|tensor| tensor.role == Role::Head);
    let mut config = plan.config.clone();
    config.rope.pairing = Pairing::Adjacent;
    let mut end = 0;
    let tensors = plan.tensors.iter().map(|from| {
        let kind = match from.role {
            Role::OutputNorm | Role::RopeDivisors => BlockType::F32,
            Role::Block(_, BlockPart::AttentionNorm | BlockPart::FfnNorm) => BlockType::F32,
            Role::Embedding => recipe.kind(tied, from.cols),
            Role::Head => recipe.kind(true, from.cols),
            Role::Block(..) => recipe.kind(false, from.cols),
        };
        let tensor = Tensor {
            name: from.role.gguf_name(),
            kind,
            offset: end,
            ..from.clone()
        };
        end += tensor.bytes();
        tensor
    });
    Plan {
        tensors: tensors.collect(),
        config,
    }
}

/// A tensor on both sides.
#[derive(Clone, Debug)]
struct Part {
    from: Tensor,
    to: Tensor,
    /// Rows of a head whose rotary halves become neighbours.
    head: Option<usize>,
    /// Rows that are converted at once: whole heads where those are reordered.
    step: usize,
}

/// The bytes of a converted model.
///
/// Which bytes come out depends on source and plans alone, not on how they are read nor on the number
/// of threads. A weight that is infinite or not a number gives an error that names its tensor, unless
/// its tensor has the wanted type already: such a tensor's bytes are passed on as they are.
#[derive(Debug)]
pub struct Converted<S> {
    source: S,
    parts: Vec<Part>,
    size: u64,
    threads: usize,
    /// Rows of the source.
    input: Vec<u8>,
    /// The rows converted last.
    output: Stretch,
}

impl<S: ByteSource> Converted<S> {
    /// The bytes of `target`, made from those of `plan` in `source` on up to `threads` threads (in a
    /// browser, always one).
    ///
    /// # Errors
    /// [`LoadError::Inconsistent`] when the plans are not of one model, or `target` is not laid out as
    /// [`target`] does; [`LoadError::Unsupported`] when a row is too large to be converted.
    pub fn new(source: S, plan: &Plan, target: &Plan, threads: usize) -> Result<Self, LoadError> {
        let threads = if cfg!(target_arch = "wasm32") {
            1
        } else {
            threads.clamp(1, 64)
        };
        let mut parts = Vec::with_capacity(target.tensors.len());
        let mut end = 0;
        for to in &target.tensors {
            let inconsistent = |what: &str| {
                let name = &to.name;
                LoadError::Inconsistent(format!("{name} cannot be converted: {what}"))
            };
            let from = plan.tensors.iter().find(|from| from.role == to.role);
            let from = from.ok_or_else(|| inconsistent("the source has no such tensor"))?;
            if (from.rows, from.cols) != (to.rows, to.cols) {
                return Err(inconsistent("its shape would change"));
            }
            if to.offset != end {
                return Err(inconsistent("it does not follow the one before it"));
            }
            for kind in [from.kind, to.kind] {
                if !kind.is_supported() || !to.cols.is_multiple_of(kind.block_len()) {
                    return Err(inconsistent(&format!("its rows do not fit type {kind}")));
                }
            }
            let reorder = plan.config.rope.pairing != target.config.rope.pairing;
            let head = plan.config.head_dim;
            let head = (reorder && to.role.is_rotated()).then_some(head);
            if head.is_some_and(|head| !to.rows.is_multiple_of(head)) {
                return Err(inconsistent("its rows are no whole heads"));
            }
            let unit = head.unwrap_or(1);
            if (unit as u64).saturating_mul(from.row_bytes() as u64) > MAX_UNIT_BYTES {
                let message = format!("{} has rows too large to convert", from.name);
                return Err(LoadError::Unsupported(message));
            }
            end += to.bytes();
            parts.push(Part {
                from: from.clone(),
                to: to.clone(),
                head,
                step: 0,
            });
        }
        if plan.config.rope.pairing == Pairing::Adjacent
            && target.config.rope.pairing == Pairing::Halves
        {
            return Err(LoadError::Inconsistent(
                "rotary pairs are only ever made adjacent".to_owned(),
            ));
        }
        let converted = Self {
            source,
            parts,
            size: end,
            threads,
            input: Vec::new(),
            output: Stretch::default(),
        };
        Ok(converted.at_once(threads * CHUNK_BYTES))
    }

    /// Converts about `bytes` bytes of the source at once, at least a row or, where rows are reordered, a
    /// head: less memory, and more work where reading jumps less than that.
    #[must_use]
    pub fn at_once(mut self, bytes: usize) -> Self {
        for part in &mut self.parts {
            let unit = part.head.unwrap_or(1);
            part.step = (bytes / part.from.row_bytes().max(1) / unit).max(1) * unit;
        }
        self.output.bytes.clear();
        self
    }

    /// What is converted.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// What is converted.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }
}

impl<S: ByteSource> Made for Converted<S> {
    fn stretch(&self) -> &Stretch {
        &self.output
    }

    async fn make(&mut self, offset: u64) -> Result<(), SourceError> {
        let index = self.parts.partition_point(|part| part.to.offset <= offset) - 1;
        let part = &self.parts[index];
        let row = ((offset - part.to.offset) / part.to.row_bytes() as u64) as usize;
        let first = row / part.step * part.step;
        let count = part.step.min(part.to.rows - first);
        self.input.clear();
        // Void until everything is there.
        self.output.bytes.clear();
        let (row_bytes, out_bytes) = (part.from.row_bytes(), part.to.row_bytes());
        let start = part.from.offset + first as u64 * row_bytes as u64;
        self.source
            .read(start, &mut self.input, count * row_bytes)
            .await?;
        self.output.bytes.resize(count * out_bytes, 0);
        if let Err((row, error)) = convert(part, &self.input, &mut self.output.bytes, self.threads)
        {
            self.output.bytes.clear();
            return Err(SourceError::Io {
                name: self.source.name(),
                detail: format!(
                    "tensor {}, row {}: {error}",
                    part.from.name,
                    first as u64 + row
                ),
            });
        }
        self.output.start = part.to.offset + first as u64 * out_bytes as u64;
        Ok(())
    }
}

impl<S: ByteSource> ByteSource for Converted<S> {
    fn name(&self) -> String {
        self.source.name()
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
        self.source.rest();
    }
}

type RowError = (u64, weights::codec::CodecError);

/// Converts whole rows, on several threads. An error comes with the number of its row, the first one.
fn convert(part: &Part, input: &[u8], output: &mut [u8], threads: usize) -> Result<(), RowError> {
    let row_bytes = part.to.row_bytes();
    let rows = output.len() / row_bytes;
    // Starting a thread takes as long as converting some ten thousand weights.
    let useful = (rows * part.to.cols).div_ceil(1 << 17);
    let threads = threads.min(useful).max(1);
    if threads == 1 {
        return convert_rows(part, input, 0, output);
    }
    let share = rows.div_ceil(threads);
    std::thread::scope(|scope| {
        let shares = output.chunks_mut(share * row_bytes).enumerate();
        let started: Vec<_> = shares
            .map(|(index, output)| {
                scope.spawn(move || convert_rows(part, input, index * share, output))
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

/// Converts the rows from `first` on that `output` holds; `input` holds all rows of the chunk.
fn convert_rows(
    part: &Part,
    input: &[u8],
    first: usize,
    output: &mut [u8],
) -> Result<(), RowError> {
    let (from, to) = (&part.from, &part.to);
    let row_bytes = from.row_bytes();
    let mut weights = vec![0.0; to.cols];
    for (index, output) in output.chunks_exact_mut(to.row_bytes()).enumerate() {
        let row = first + index;
        let row = part.head.map_or(row, |head| before_pairing(row, head));
        let input = &input[row * row_bytes..][..row_bytes];
        if from.kind == to.kind {
            output.copy_from_slice(input);
            continue;
        }
        weights::codec::dequantize(from.kind, input, &mut weights)
            .and_then(|()| quantize_into(to.kind, &weights, output))
            .map_err(|error| (row as u64, error))?;
    }
    Ok(())
}

/// Which row becomes row `row` when rotary halves of heads become neighbours.
fn before_pairing(row: usize, head: usize) -> usize {
    let (start, place) = (row / head * head, row % head);
    start + place / 2 + place % 2 * (head / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_neighbours() {
        let order: Vec<usize> = (0..16).map(|row| before_pairing(row, 8)).collect();
        assert_eq!(
            order,
            [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]
        );
    }

    #[test]
    fn types_fall_back_where_rows_are_short() {
        for (recipe, head, cols, kind) in [
            (Recipe::Q4, false, 2048, BlockType::Q4_0),
            (Recipe::Q4, true, 2048, BlockType::Q6_K),
            (Recipe::Q4, true, 576, BlockType::Q8_0),
            (Recipe::Q4, false, 40, BlockType::F16),
            (Recipe::Q4K, false, 4096, BlockType::Q4_K),
            (Recipe::Q4K, false, 576, BlockType::Q5_0),
            (Recipe::Q6, false, 576, BlockType::Q8_0),
            (Recipe::Q6, true, 256, BlockType::Q6_K),
            (Recipe::Q8, false, 576, BlockType::Q8_0),
            (Recipe::F16, false, 33, BlockType::F16),
            (Recipe::BF16, true, 33, BlockType::BF16),
        ] {
            assert_eq!(recipe.kind(head, cols), kind, "{recipe:?} {head} {cols}");
        }
        for recipe in Recipe::ALL {
            assert_eq!(Recipe::from_name(recipe.name()), Some(recipe));
        }
        assert_eq!(Recipe::from_name("q5"), None);
    }
}
