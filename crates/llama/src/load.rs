//! From a GGUF file to a model on the GPU, tensor by tensor.

use std::collections::HashMap;

use burn::tensor::Tensor;
use weights::gguf::{Gguf, GgufError, HeaderError, TensorInfo};
use weights::layout::Packer;
use weights::{BlockType, ByteSource, SourceError};

use crate::config::{Config, Rope};
use crate::gpu::{Gpu, GpuError, float_handle};
use crate::linear::{Band, Linear};
use crate::model::{Block, Llama};

/// Bytes of a file that are held at once while loading.
const CHUNK_BYTES: usize = 4 << 20;
/// Bytes written to the GPU before waiting for it: writes are queued by the browser, and a queue
/// without bound would hold the whole model a second time.
const IN_FLIGHT_BYTES: usize = 64 << 20;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The header lacks something or says something impossible.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The header could not be read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The file is well formed but of a kind that this engine does not run.
    #[error("{0}")]
    Unsupported(String),
    /// The file contradicts itself.
    #[error("{0}")]
    Inconsistent(String),
    /// The GPU failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Loading was stopped on request.
    #[error("loading was stopped")]
    Stopped,
}

/// Reads shape and constants from a header, apart from the rotary divisors, which are a tensor.
///
/// # Errors
/// [`LoadError::Unsupported`] when the architecture is not `llama` or uses something this engine
/// lacks, [`LoadError::Inconsistent`] when the figures do not fit together.
pub fn config(gguf: &Gguf) -> Result<Config, LoadError> {
    let architecture = gguf.architecture()?;
    if architecture != "llama" {
        return Err(LoadError::Unsupported(format!(
            "this file holds a model of architecture \"{architecture}\"; this engine runs \"llama\""
        )));
    }
    let size = |key: &str| -> Result<usize, LoadError> {
        let value = gguf.require_u64(key)?;
        match usize::try_from(value) {
            Ok(value) if (1..=1 << 24).contains(&value) => Ok(value),
            _ => Err(LoadError::Inconsistent(format!(
                "{key} is {value}, which cannot be"
            ))),
        }
    };
    let dim = size("llama.embedding_length")?;
    let heads = size("llama.attention.head_count")?;
    let kv_heads = match gguf.optional_u64("llama.attention.head_count_kv")? {
        Some(_) => size("llama.attention.head_count_kv")?,
        None => heads,
    };
    let head_dim = match gguf.optional_u64("llama.attention.key_length")? {
        Some(_) => size("llama.attention.key_length")?,
        None => dim / heads,
    };
    let rotated = match gguf.optional_u64("llama.rope.dimension_count")? {
        Some(_) => size("llama.rope.dimension_count")?,
        None => head_dim,
    };
    let experts = gguf.optional_u64("llama.expert_count")?.unwrap_or(0);
    if experts > 0 {
        return Err(LoadError::Unsupported(format!(
            "this model is a mixture of {experts} experts; this engine runs dense models"
        )));
    }
    let linear = match gguf.optional_str("llama.rope.scaling.type")? {
        None | Some("none") => 1.0,
        Some("linear") => gguf.require_f64("llama.rope.scaling.factor")?,
        Some(other) => {
            return Err(LoadError::Unsupported(format!(
                "this model scales positions by \"{other}\"; this engine knows \"linear\" and the \
                 Llama 3 frequencies"
            )));
        }
    };
    let table = gguf.tensor("token_embd.weight").ok_or_else(|| {
        LoadError::Inconsistent("the file has no tensor token_embd.weight".into())
    })?;
    let config = Config {
        layers: size("llama.block_count")?,
        dim,
        heads,
        kv_heads,
        head_dim,
        ffn: size("llama.feed_forward_length")?,
        vocab: usize::try_from(table.rows()).unwrap_or(usize::MAX),
        norm_eps: gguf.require_f64("llama.attention.layer_norm_rms_epsilon")? as f32,
        context: size("llama.context_length")?,
        rope: Rope {
            theta: gguf
                .optional_f64("llama.rope.freq_base")?
                .unwrap_or(10_000.0),
            linear,
            divisors: None,
        },
    };
    let sound = [
        (
            config.heads.is_multiple_of(config.kv_heads),
            "query heads are no multiple of key heads",
        ),
        (
            config.head_dim.is_multiple_of(4) && config.head_dim <= 256,
            "the head width is not a multiple of 4 up to 256",
        ),
        (
            rotated == config.head_dim,
            "only a part of each head is rotated",
        ),
        (
            config.dim.is_multiple_of(4) && config.ffn.is_multiple_of(4),
            "widths are not multiples of 4",
        ),
        (config.vocab <= 1 << 24, "the vocabulary is too large"),
        (
            config.rope.theta > 0.0 && config.rope.linear > 0.0,
            "the rotary base is not positive",
        ),
    ];
    match sound.iter().find(|(holds, _)| !holds) {
        Some((_, fault)) => Err(LoadError::Unsupported(format!(
            "this model cannot run here: {fault}"
        ))),
        None => Ok(config),
    }
}

/// Where a tensor of the file goes.
enum Target {
    /// Rows of a matrix, from a row on.
    Rows(Linear, usize),
    /// A vector of floats.
    Floats(Box<Tensor<1>>),
    /// The rotary divisors, which stay on the host.
    Divisors,
}

/// A loaded model.
#[derive(Debug)]
pub struct Loaded {
    /// The weights on the GPU.
    pub model: Llama,
    /// Shape and constants, rotary divisors included.
    pub config: Config,
}

/// Loads the weights of `gguf` from `source`, reading tensors in file order, at most a few MiB at a
/// time.
///
/// `progress` is called with the bytes read so far and returns whether to go on.
///
/// # Errors
/// See [`LoadError`]. What was allocated is freed.
pub async fn load(
    gpu: &Gpu,
    source: &mut impl ByteSource,
    gguf: &Gguf,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Loaded, LoadError> {
    let mut config = config(gguf)?;
    gguf.check_supported()?;
    let (model, mut targets) = allocate(gpu, gguf, &config)?;
    gpu.finish().await?;

    let mut order: Vec<&TensorInfo> = gguf.tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    let mut bytes = Vec::new();
    let (mut words, mut scales) = (Vec::new(), Vec::new());
    let mut in_flight = 0;
    for tensor in order {
        let Some(target) = targets.remove(tensor.name.as_str()) else {
            continue;
        };
        match target {
            Target::Rows(linear, first) => {
                let packer = packer(tensor)?;
                let row_bytes = tensor.row_bytes() as usize;
                let rows = tensor.rows() as usize;
                let step = (CHUNK_BYTES / row_bytes).max(1);
                for row in (0..rows).step_by(step) {
                    let count = step.min(rows - row);
                    let offset = tensor.offset + (row * row_bytes) as u64;
                    bytes.clear();
                    source.read(offset, &mut bytes, count * row_bytes).await?;
                    words.clear();
                    scales.clear();
                    packer
                        .pack(&bytes, &mut words, &mut scales)
                        .map_err(|error| {
                            LoadError::Inconsistent(format!("{}: {error}", tensor.name))
                        })?;
                    linear.write(gpu, first + row, count, &words, &scales);
                    // Until then burn keeps the bytes on this side.
                    gpu.submit()?;
                    in_flight += bytes.len();
                    if in_flight >= IN_FLIGHT_BYTES {
                        gpu.finish().await?;
                        in_flight = 0;
                    }
                    if !progress(offset + bytes.len() as u64) {
                        return Err(LoadError::Stopped);
                    }
                }
            }
            Target::Floats(vector) => {
                let values = read_floats(source, tensor, &mut bytes).await?;
                gpu.write(&float_handle(&vector), 0, bytemuck::cast_slice(&values));
            }
            Target::Divisors => {
                config.rope.divisors = Some(read_floats(source, tensor, &mut bytes).await?);
            }
        }
        gpu.check()?;
    }
    if let Some(missing) = targets.keys().next() {
        return Err(LoadError::Inconsistent(format!(
            "the file has no tensor {missing}"
        )));
    }
    // The writes of a whole model are queued at most; wait so that a failure shows here.
    gpu.finish().await?;
    progress(source.size().unwrap_or_default());
    Ok(Loaded { model, config })
}

async fn read_floats(
    source: &mut impl ByteSource,
    tensor: &TensorInfo,
    bytes: &mut Vec<u8>,
) -> Result<Vec<f32>, LoadError> {
    bytes.clear();
    source
        .read(tensor.offset, bytes, tensor.bytes as usize)
        .await?;
    let mut values = vec![0.0; tensor.weights() as usize];
    weights::codec::dequantize(tensor.kind, bytes, &mut values)
        .map_err(|error| LoadError::Inconsistent(format!("{}: {error}", tensor.name)))?;
    Ok(values)
}

fn packer(tensor: &TensorInfo) -> Result<Packer, LoadError> {
    Packer::new(tensor.kind, tensor.row_len() as usize)
        .map_err(|error| LoadError::Unsupported(format!("{}: {error}", tensor.name)))
}

/// Allocates all matrices and vectors, and says which tensor of the file goes where.
fn allocate(
    gpu: &Gpu,
    gguf: &Gguf,
    config: &Config,
) -> Result<(Llama, HashMap<String, Target>), LoadError> {
    let mut targets = HashMap::new();
    let find = |name: &str, rows: usize, cols: usize| -> Result<&TensorInfo, LoadError> {
        let tensor = gguf
            .tensor(name)
            .ok_or_else(|| LoadError::Inconsistent(format!("the file has no tensor {name}")))?;
        if (tensor.rows(), tensor.row_len()) != (rows as u64, cols as u64) {
            return Err(LoadError::Inconsistent(format!(
                "{name} is {} × {}, but the header's figures ask for {rows} × {cols}",
                tensor.rows(),
                tensor.row_len()
            )));
        }
        Ok(tensor)
    };
    let mut matrix = |names: &[(String, usize)], cols: usize| -> Result<Linear, LoadError> {
        let mut bands = Vec::new();
        for (name, rows) in names {
            let layout = packer(find(name, *rows, cols)?)?.layout();
            bands.push(Band {
                layout,
                rows: *rows,
            });
        }
        let linear = Linear::allocate(gpu, &bands, cols)?;
        let mut first = 0;
        for (name, rows) in names {
            targets.insert(name.clone(), Target::Rows(linear.clone(), first));
            first += rows;
        }
        Ok(linear)
    };
    let (q_rows, kv_rows) = (
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let embedding = matrix(&[("token_embd.weight".into(), config.vocab)], config.dim)?;
    let head = match gguf.tensor("output.weight") {
        Some(_) => Some(matrix(
            &[("output.weight".into(), config.vocab)],
            config.dim,
        )?),
        None => None,
    };
    let mut matrices = Vec::new();
    for index in 0..config.layers {
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        let qkv = matrix(
            &[
                (name("attn_q"), q_rows),
                (name("attn_k"), kv_rows),
                (name("attn_v"), kv_rows),
            ],
            config.dim,
        )?;
        let output = matrix(&[(name("attn_output"), config.dim)], q_rows)?;
        let gate = matrix(&[(name("ffn_gate"), config.ffn)], config.dim)?;
        let up = matrix(&[(name("ffn_up"), config.ffn)], config.dim)?;
        let down = matrix(&[(name("ffn_down"), config.dim)], config.ffn)?;
        if !gate.pairs_with(&up) {
            return Err(LoadError::Unsupported(format!(
                "block {index} stores its gate and up projections in different types"
            )));
        }
        matrices.push((qkv, output, gate, up, down));
    }
    let mut vector = |name: String| -> Result<Tensor<1>, LoadError> {
        find(&name, 1, config.dim)?;
        let floats = gpu.floats(config.dim);
        targets.insert(name, Target::Floats(Box::new(floats.clone())));
        Ok(floats)
    };
    let mut blocks = Vec::new();
    for (index, (qkv, output, gate, up, down)) in matrices.into_iter().enumerate() {
        blocks.push(Block {
            attention_norm: vector(format!("blk.{index}.attn_norm.weight"))?,
            qkv,
            output,
            ffn_norm: vector(format!("blk.{index}.ffn_norm.weight"))?,
            gate,
            up,
            down,
        });
    }
    let norm = vector("output_norm.weight".into())?;
    if let Some(tensor) = gguf.tensor("rope_freqs.weight") {
        if tensor.weights() as usize != config.head_dim / 2 || tensor.kind != BlockType::F32 {
            return Err(LoadError::Inconsistent(format!(
                "rope_freqs.weight has {} values of type {}, but {} of type F32 are expected",
                tensor.weights(),
                tensor.kind,
                config.head_dim / 2
            )));
        }
        targets.insert("rope_freqs.weight".into(), Target::Divisors);
    }
    Ok((
        Llama {
            embedding,
            blocks,
            norm,
            head,
        },
        targets,
    ))
}
