//! Models in GGUF, in the block types of llama.cpp's files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::random::{Half, Random, Rows, f16};
use super::vocabulary::{self, Vocabulary};
use super::{Part, Shape, Slowing, timed};

/// Alignment of tensor data in bytes, GGUF's default.
const ALIGNMENT: u64 = 32;
/// Bytes that are made before they are written, about.
const CHUNK: usize = 4 << 20;

/// Which block types a file uses, named as llama.cpp names its files.
#[expect(non_camel_case_types, reason = "the names are llama.cpp's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Q4_K, and Q6_K for the output and for half of the value and down projections.
    Q4_K_M,
    /// Q4_0, and Q6_K for the output.
    Q4_0,
    /// F16.
    F16,
}

impl Mix {
    /// As in file names.
    fn name(self) -> &'static str {
        match self {
            Self::Q4_K_M => "Q4_K_M",
            Self::Q4_0 => "Q4_0",
            Self::F16 => "F16",
        }
    }

    /// llama.cpp's number for `general.file_type`.
    fn file_type(self) -> u32 {
        match self {
            Self::Q4_K_M => 15,
            Self::Q4_0 => 2,
            Self::F16 => 1,
        }
    }

    /// The type that llama.cpp's quantization gives a matrix.
    fn kind(self, part: Part, layer: Option<usize>, shape: &Shape) -> Kind {
        let wide = match (part, layer) {
            (Part::Output, _) => true,
            // The output too, then.
            (Part::Embedding, _) => shape.tied,
            (Part::Value | Part::Down, Some(layer)) => {
                self == Self::Q4_K_M && more_bits(layer, shape.layers)
            }
            _ => false,
        };
        match self {
            Self::F16 => Kind::F16,
            _ if wide => Kind::Q6_K,
            Self::Q4_K_M => Kind::Q4_K,
            Self::Q4_0 => Kind::Q4_0,
        }
    }
}

/// llama.cpp's `use_more_bits`: the first and the last eighth, and every third between them.
fn more_bits(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// How a tensor is stored.
#[expect(non_camel_case_types, reason = "the names are ggml's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F32,
    F16,
    Q4_0,
    Q4_K,
    Q6_K,
}

impl Kind {
    /// ggml's number, weights per block and bytes per block.
    fn layout(self) -> (u32, usize, usize) {
        match self {
            Self::F32 => (0, 1, 4),
            Self::F16 => (1, 1, 2),
            Self::Q4_0 => (2, 32, 18),
            Self::Q4_K => (12, 256, 144),
            Self::Q6_K => (14, 256, 210),
        }
    }
}

/// What a tensor holds.
enum Data {
    /// These numbers, in single precision.
    Numbers(Vec<f32>),
    /// Random weights. `heads` is how many heads the rows belong to, where their order is that of the
    /// rotary embedding.
    Random { stream: u64, heads: Option<usize> },
}

struct Tensor {
    name: String,
    kind: Kind,
    /// Weights per row, and rows where it is a matrix.
    dims: Vec<usize>,
    data: Data,
}

impl Tensor {
    fn rows(&self) -> usize {
        self.dims.get(1).copied().unwrap_or(1)
    }

    fn row_bytes(&self) -> usize {
        let (_, weights, bytes) = self.kind.layout();
        self.dims[0] / weights * bytes
    }

    fn bytes(&self) -> u64 {
        (self.row_bytes() * self.rows()) as u64
    }
}

/// The model of this shape in `folder`; written unless it is already there.
pub fn model(folder: &Path, shape: &Shape, mix: Mix) -> Result<PathBuf> {
    let path = folder.join(format!("{}.{}.gguf", shape.name, mix.name()));
    let tensors = tensors(shape, mix);
    let header = header(shape, mix, &tensors);
    let bytes = tensors.iter().fold(header.len() as u64, |end, tensor| {
        aligned(end + tensor.bytes())
    });
    if is_current(&path, &header, bytes) {
        return Ok(path);
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    // Written beside the goal and then moved, so that a half file is never taken for the model.
    let fresh = path.with_extension("new");
    timed(&path, bytes, || {
        Ok(write(File::create(&fresh)?, &header, &tensors)?)
    })?;
    fs::rename(&fresh, &path).with_context(|| format!("moving the model to {}", path.display()))?;
    Ok(path)
}

/// Whether the file is of this length and begins with this header.
fn is_current(path: &Path, header: &[u8], bytes: u64) -> bool {
    let mut found = vec![0; header.len()];
    fs::metadata(path).is_ok_and(|data| data.len() == bytes)
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut found).is_ok())
        && found == header
}

fn write(mut out: impl Write, header: &[u8], tensors: &[Tensor]) -> std::io::Result<()> {
    out.write_all(header)?;
    let mut chunk = Vec::new();
    for tensor in tensors {
        let maker = Maker::new(tensor);
        let rows_at_once = (CHUNK / tensor.row_bytes()).max(1);
        let mut rows = 0..tensor.rows();
        while !rows.is_empty() {
            chunk.clear();
            for row in rows.by_ref().take(rows_at_once) {
                maker.append(row, &mut chunk);
            }
            out.write_all(&chunk)?;
        }
        let padding = aligned(tensor.bytes()) - tensor.bytes();
        out.write_all(&vec![0; padding as usize])?;
    }
    out.flush()
}

fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// All tensors in the order of the file.
fn tensors(shape: &Shape, mix: Mix) -> Vec<Tensor> {
    let mut all = Vec::new();
    for tensor in shape.tensors() {
        let name = match (tensor.part, tensor.layer) {
            (None, None) => "output_norm",
            (None, Some(_)) if tensor.second => "ffn_norm",
            (None, Some(_)) => "attn_norm",
            (Some(Part::Embedding), _) => "token_embd",
            (Some(Part::Output), _) => "output",
            (Some(Part::Query), _) => "attn_q",
            (Some(Part::Key), _) => "attn_k",
            (Some(Part::Value), _) => "attn_v",
            (Some(Part::AttentionOutput), _) => "attn_output",
            (Some(Part::Gate), _) => "ffn_gate",
            (Some(Part::Up), _) => "ffn_up",
            (Some(Part::Down), _) => "ffn_down",
        };
        let name = match tensor.layer {
            Some(layer) => format!("blk.{layer}.{name}.weight"),
            None => format!("{name}.weight"),
        };
        all.push(match tensor.part {
            None => numbers(name, vec![1.0; tensor.cols]),
            Some(part) => Tensor {
                name,
                kind: mix.kind(part, tensor.layer, shape),
                dims: vec![tensor.cols, tensor.rows],
                data: Data::Random {
                    stream: tensor.stream,
                    heads: match part {
                        Part::Query => Some(shape.heads),
                        Part::Key => Some(shape.kv_heads),
                        _ => None,
                    },
                },
            },
        });
    }
    if let Some(slowing) = &shape.slowing {
        all.push(numbers(
            "rope_freqs.weight".into(),
            divisors(shape, slowing),
        ));
    }
    all
}

fn numbers(name: String, numbers: Vec<f32>) -> Tensor {
    Tensor {
        name,
        kind: Kind::F32,
        dims: vec![numbers.len()],
        data: Data::Numbers(numbers),
    }
}

/// The numbers by which rotary frequencies are divided: 1 for short waves, the factor for long ones.
fn divisors(shape: &Shape, slowing: &Slowing) -> Vec<f32> {
    let [low, high] = Slowing::BOUNDS;
    (0..shape.head_dim / 2)
        .map(|pair| {
            let frequency = shape.theta.powf(-2.0 * pair as f64 / shape.head_dim as f64);
            let waves = slowing.original as f64 * frequency / std::f64::consts::TAU;
            let kept = ((waves - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / (kept + (1.0 - kept) / slowing.factor)) as f32
        })
        .collect()
}

/// Everything before the tensors' data, padded to the alignment.
fn header(shape: &Shape, mix: Mix, tensors: &[Tensor]) -> Vec<u8> {
    let vocabulary = Vocabulary::new(shape.vocab);
    let control = |place| vocabulary.control(place) as u32;
    let first_control = control(0) as usize;
    let types = (0..shape.vocab)
        .map(|id| if id < first_control { TEXT } else { CONTROL })
        .collect::<Vec<_>>();
    let merges = vocabulary.merges.iter();
    let merges = merges
        .map(|(left, right)| format!("{left} {right}"))
        .collect::<Vec<_>>();
    let mut meta = Metadata::default();
    meta.text("general.architecture", "llama");
    meta.text("general.name", &format!("{} {}", shape.name, mix.name()));
    meta.u32("general.file_type", mix.file_type());
    meta.u32("general.quantization_version", 2);
    meta.u32("llama.context_length", shape.context as u32);
    meta.u32("llama.vocab_size", shape.vocab as u32);
    meta.u32("llama.embedding_length", shape.dim as u32);
    meta.u32("llama.block_count", shape.layers as u32);
    meta.u32("llama.feed_forward_length", shape.ffn as u32);
    meta.u32("llama.attention.head_count", shape.heads as u32);
    meta.u32("llama.attention.head_count_kv", shape.kv_heads as u32);
    meta.u32("llama.attention.key_length", shape.head_dim as u32);
    meta.u32("llama.attention.value_length", shape.head_dim as u32);
    meta.u32("llama.rope.dimension_count", shape.head_dim as u32);
    meta.f32("llama.rope.freq_base", shape.theta as f32);
    meta.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    meta.text("tokenizer.ggml.model", "gpt2");
    meta.text("tokenizer.ggml.pre", "llama-bpe");
    meta.texts("tokenizer.ggml.tokens", &vocabulary.tokens);
    meta.i32s("tokenizer.ggml.token_type", &types);
    meta.texts("tokenizer.ggml.merges", &merges);
    meta.u32(
        "tokenizer.ggml.bos_token_id",
        control(vocabulary::BEGIN_OF_TEXT),
    );
    meta.u32(
        "tokenizer.ggml.eos_token_id",
        control(vocabulary::END_OF_TURN),
    );
    meta.truth("tokenizer.ggml.add_bos_token", shape.add_bos);
    meta.text("tokenizer.chat_template", vocabulary::TEMPLATE);

    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend(meta.count.to_le_bytes());
    out.extend(meta.bytes);
    let mut offset = 0;
    for tensor in tensors {
        put_text(&mut out, &tensor.name);
        out.extend((tensor.dims.len() as u32).to_le_bytes());
        for dim in &tensor.dims {
            out.extend((*dim as u64).to_le_bytes());
        }
        out.extend(tensor.kind.layout().0.to_le_bytes());
        out.extend(u64::to_le_bytes(offset));
        offset += aligned(tensor.bytes());
    }
    out.resize(aligned(out.len() as u64) as usize, 0);
    out
}

/// ggml's numbers for kinds of tokens.
const TEXT: i32 = 1;
const CONTROL: i32 = 3;

/// Metadata entries as GGUF writes them.
#[derive(Default)]
struct Metadata {
    bytes: Vec<u8>,
    count: u64,
}

impl Metadata {
    /// A key and the number of its value's type.
    fn key(&mut self, key: &str, kind: u32) -> &mut Vec<u8> {
        self.count += 1;
        put_text(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
        &mut self.bytes
    }

    /// The key of a list, the number of its elements' type and its length.
    fn list(&mut self, key: &str, kind: u32, len: usize) -> &mut Vec<u8> {
        let bytes = self.key(key, 9);
        bytes.extend(kind.to_le_bytes());
        bytes.extend((len as u64).to_le_bytes());
        bytes
    }

    fn u32(&mut self, key: &str, value: u32) {
        self.key(key, 4).extend(value.to_le_bytes());
    }

    fn f32(&mut self, key: &str, value: f32) {
        self.key(key, 6).extend(value.to_le_bytes());
    }

    fn truth(&mut self, key: &str, value: bool) {
        self.key(key, 7).push(value.into());
    }

    fn text(&mut self, key: &str, value: &str) {
        put_text(self.key(key, 8), value);
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        let bytes = self.list(key, 8, values.len());
        values.iter().for_each(|value| put_text(bytes, value));
    }

    fn i32s(&mut self, key: &str, values: &[i32]) {
        let bytes = self.list(key, 5, values.len());
        values
            .iter()
            .for_each(|value| bytes.extend(value.to_le_bytes()));
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Makes the rows of a tensor. Matrices have mean 0 and a standard deviation of one over the root of the
/// row's length, so that activations keep their size.
struct Maker<'a> {
    tensor: &'a Tensor,
    /// The rows, where they are in half precision.
    halves: Option<Rows>,
}

impl<'a> Maker<'a> {
    fn new(tensor: &'a Tensor) -> Self {
        let halves = match (&tensor.data, tensor.kind) {
            (Data::Random { stream, .. }, Kind::F16) => {
                Some(Rows::new(*stream, tensor.dims[0], Half::F16))
            }
            _ => None,
        };
        Self { tensor, halves }
    }

    fn append(&self, row: usize, out: &mut Vec<u8>) {
        let (stream, heads) = match &self.tensor.data {
            Data::Numbers(numbers) => {
                return out.extend(numbers.iter().flat_map(|it| it.to_le_bytes()));
            }
            Data::Random { stream, heads } => (*stream, *heads),
        };
        if let Some(rows) = &self.halves {
            let row = match heads {
                Some(heads) => from_halves(row, self.tensor.rows() / heads),
                None => row,
            };
            return rows.append(row, out);
        }
        let start = out.len();
        out.resize(start + self.tensor.row_bytes(), 0);
        let data = &mut out[start..];
        let mut random = Random::at(stream, row as u64);
        for word in data.chunks_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes()[..word.len()]);
        }
        let (_, _, block_bytes) = self.tensor.kind.layout();
        let deviation = 1.0 / (self.tensor.dims[0] as f32).sqrt();
        for block in data.chunks_exact_mut(block_bytes) {
            match self.tensor.kind {
                Kind::F32 | Kind::F16 => {}
                Kind::Q4_0 => q4_0(block, deviation),
                Kind::Q4_K => q4_k(block, deviation),
                Kind::Q6_K => q6_k(block, deviation),
            }
        }
    }
}

/// Where Hugging Face has the row that GGUF has here: rotated pairs are the halves of a head there, and
/// neighbours here.
fn from_halves(row: usize, head_dim: usize) -> usize {
    let (head, at) = (row / head_dim, row % head_dim);
    head * head_dim + at % 2 * (head_dim / 2) + at / 2
}

/// The standard deviation of a number of four random bits.
const OF_FOUR_BITS: f32 = 4.61;

/// The scale, of either sign: the bits mean -8 to 7.
fn q4_0(block: &mut [u8], deviation: f32) {
    let sign = u16::from(block[0] & 1) << 15;
    put_f16(&mut block[..2], f16(deviation / OF_FOUR_BITS) | sign);
}

/// The scales, and minimums that are 7.5 of them: the middle of four bits. Scales of groups are 32 to 63.
fn q4_k(block: &mut [u8], deviation: f32) {
    let scale = deviation / (OF_FOUR_BITS * 47.5);
    put_f16(&mut block[0..2], f16(scale));
    put_f16(&mut block[2..4], f16(7.5 * scale));
    // Low six bits of four scales, low six bits of four minimums, low nibbles of the other four of each;
    // the spare bits are their high ones. A minimum's number is its scale's.
    for group in 0..4 {
        let (first, last) = (32 | block[4 + group] & 31, 32 | block[12 + group] & 31);
        block[4 + group] = first | last >> 4 << 6;
        block[8 + group] = first | last >> 4 << 6;
        block[12 + group] = last & 15 | last << 4;
    }
}

/// The scale, and groups' scales of either sign, 64 to 127: the six bits mean -32 to 31.
fn q6_k(block: &mut [u8], deviation: f32) {
    for scale in &mut block[192..208] {
        let size = 64 | *scale & 63;
        *scale = if *scale & 64 == 0 {
            size
        } else {
            size.wrapping_neg()
        };
    }
    put_f16(&mut block[208..210], f16(deviation / (18.5 * 95.5)));
}

fn put_f16(out: &mut [u8], bits: u16) {
    out.copy_from_slice(&bits.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::Plan;
    use model::config::llama3_divisors;
    use weights::BlockType;
    use weights::codec::dequantize;
    use weights::gguf::{self, Gguf, Step};

    use super::super::{NANO, ONE, SMALL};
    use super::*;

    const MIXES: [Mix; 3] = [Mix::Q4_K_M, Mix::Q4_0, Mix::F16];

    fn file(shape: &Shape, mix: Mix) -> Vec<u8> {
        let tensors = tensors(shape, mix);
        let mut out = Vec::new();
        write(&mut out, &header(shape, mix, &tensors), &tensors).unwrap();
        out
    }

    fn read(file: &[u8]) -> Gguf {
        match gguf::parse(file, Some(file.len() as u64)).unwrap() {
            Step::Done(gguf) => gguf,
            Step::Need(bytes) => panic!("the header needs {bytes} bytes"),
        }
    }

    #[test]
    fn the_engine_takes_it_for_a_model_of_its_shape() {
        for mix in MIXES {
            let file = file(&NANO, mix);
            assert!(file.len().is_multiple_of(ALIGNMENT as usize));
            let plan = Plan::from_gguf(&read(&file)).unwrap();
            assert_eq!((plan.config.layers, plan.config.dim), (8, 256));
            assert_eq!((plan.config.heads, plan.config.kv_heads), (8, 2));
            assert_eq!((plan.config.head_dim, plan.config.context), (32, 4096));
            assert_eq!((plan.config.ffn, plan.config.vocab), (768, 2304));
            assert_eq!(plan.tensors.len(), 3 + 9 * 8 + 1);
            let end = aligned(plan.end());
            assert_eq!(file.len() as u64, end);
        }
    }

    #[test]
    fn its_rotary_numbers_are_those_of_the_configuration() {
        let slowing = ONE.slowing.as_ref().unwrap();
        let expected = llama3_divisors(500_000.0, 64, 32.0, 1.0, 4.0, 8192.0);
        assert_eq!(divisors(&ONE, slowing), expected);
        let tensors = tensors(&ONE, Mix::F16);
        let mut bytes = Vec::new();
        Maker::new(tensors.last().unwrap()).append(0, &mut bytes);
        let mut values = [0.0; 32];
        dequantize(BlockType::F32, &bytes, &mut values).unwrap();
        assert_eq!(values, *expected);
    }

    #[test]
    fn weights_have_the_wanted_mean_and_deviation() {
        for mix in MIXES {
            let file = file(&NANO, mix);
            let gguf = read(&file);
            for tensor in gguf.tensors.iter().filter(|tensor| tensor.dims.len() == 2) {
                let bytes = &file[tensor.offset as usize..tensor.end() as usize];
                let mut values = vec![0.0; tensor.weights() as usize];
                dequantize(tensor.kind, bytes, &mut values).unwrap();
                let count = values.len() as f32;
                let mean = values.iter().sum::<f32>() / count;
                let square = values.iter().map(|value| value * value).sum::<f32>() / count;
                let wanted = 1.0 / (tensor.row_len() as f32).sqrt();
                let (name, kind) = (&tensor.name, tensor.kind);
                assert!(mean.abs() < 0.05 * wanted, "{name} ({kind}): mean {mean}");
                let deviation = square.sqrt() / wanted;
                assert!(
                    (0.9..1.1).contains(&deviation),
                    "{name} ({kind}): {deviation} of the deviation"
                );
            }
        }
    }

    #[test]
    fn types_are_mixed_as_llama_cpp_mixes_them() {
        let kinds = |shape, mix| {
            let mut kinds = BTreeMap::new();
            for tensor in tensors(shape, mix) {
                *kinds.entry(tensor.kind.layout().0).or_insert(0) += 1;
            }
            kinds
        };
        let id = |kind: BlockType| kind.ggml_id();
        let (q4_k, q6_k) = (id(BlockType::Q4_K), id(BlockType::Q6_K));
        let norms = (id(BlockType::F32), 25);
        // Value and down projections of blocks 0, 3, 6, 9, 10 and 11, and the output.
        assert_eq!(
            kinds(&SMALL, Mix::Q4_K_M),
            BTreeMap::from([norms, (q4_k, 86 - 13), (q6_k, 13)])
        );
        assert_eq!(
            kinds(&SMALL, Mix::Q4_0),
            BTreeMap::from([norms, (id(BlockType::Q4_0), 85), (q6_k, 1)])
        );
        // As the published file of Llama 3.2 1B has them: gains and rotary numbers, and the embeddings in Q6_K.
        assert_eq!(
            kinds(&ONE, Mix::Q4_K_M),
            BTreeMap::from([(id(BlockType::F32), 34), (q4_k, 96), (q6_k, 17)])
        );
        for kind in [Kind::F32, Kind::F16, Kind::Q4_0, Kind::Q4_K, Kind::Q6_K] {
            let (id, weights, bytes) = kind.layout();
            let known = BlockType::from_ggml_id(id).unwrap();
            assert_eq!((known.block_len(), known.block_bytes()), (weights, bytes));
        }
    }

    #[test]
    fn a_file_is_written_once_and_again_when_it_is_another() {
        let folder = std::env::temp_dir().join(format!("xtask-gguf-{}", std::process::id()));
        let path = model(&folder, &NANO, Mix::Q4_0).unwrap();
        let expected = file(&NANO, Mix::Q4_0);
        assert!(fs::read(&path).unwrap() == expected);
        // Only header and length are looked at.
        let mut other = expected.clone();
        *other.last_mut().unwrap() ^= 1;
        fs::write(&path, &other).unwrap();
        model(&folder, &NANO, Mix::Q4_0).unwrap();
        assert!(fs::read(&path).unwrap() == other);
        other[40] ^= 1;
        fs::write(&path, &other).unwrap();
        model(&folder, &NANO, Mix::Q4_0).unwrap();
        assert!(fs::read(&path).unwrap() == expected);
        fs::remove_dir_all(folder).unwrap();
    }
}
