//! Writes models of random weights in GGUF, for measurements: real shapes and block types, nothing to
//! download. The same shape always gives the same file.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Words that are one token each, with the space before them: here by construction, and in every large
/// byte-level vocabulary for English. Prompts made of them have the same length everywhere.
pub const WORDS: [&str; 18] = [
    "the", "of", "and", "to", "in", "is", "was", "for", "that", "with", "as", "on", "by", "at",
    "from", "it", "he", "his",
];

/// Alignment of tensor data in bytes, GGUF's default.
const ALIGNMENT: u64 = 32;

/// Widths and counts of a Llama model with an output matrix of its own.
pub struct Shape {
    /// Name of the file without extension, and of the model; the type mix is added to it.
    pub name: &'static str,
    /// Transformer blocks.
    pub layers: usize,
    /// Width of the residual stream, a multiple of 256.
    pub dim: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of the feed-forward layer, a multiple of 256.
    pub ffn: usize,
    /// Entries of the vocabulary.
    pub vocab: usize,
}

/// Of the size of small published models ("160M"): 125 million weights.
pub const SMALL: Shape = Shape {
    name: "random-160m",
    layers: 12,
    dim: 768,
    heads: 12,
    kv_heads: 4,
    ffn: 2048,
    vocab: 32_000,
};

/// Which block types a file uses, named as llama.cpp names its files.
#[expect(non_camel_case_types, reason = "the names are llama.cpp's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Q4_K, and Q6_K for the output and for half of the value and down projections.
    Q4_K_M,
    /// Q4_0, and Q6_K for the output.
    Q4_0,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Q4_K_M, Self::Q4_0];

    /// As in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4_K_M => "Q4_K_M",
            Self::Q4_0 => "Q4_0",
        }
    }

    /// llama.cpp's number for `general.file_type`.
    fn file_type(self) -> u32 {
        match self {
            Self::Q4_K_M => 15,
            Self::Q4_0 => 2,
        }
    }

    /// The type that llama.cpp's quantization gives a matrix; `layer` is `None` outside the blocks.
    fn kind(self, name: &str, layer: Option<usize>, layers: usize) -> Kind {
        let wide = match (name, layer) {
            ("output", None) => true,
            ("attn_v" | "ffn_down", Some(layer)) => {
                self == Self::Q4_K_M && more_bits(layer, layers)
            }
            _ => false,
        };
        match self {
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
    Q4_0,
    Q4_K,
    Q6_K,
}

impl Kind {
    /// ggml's number, weights per block and bytes per block.
    fn layout(self) -> (u32, usize, usize) {
        match self {
            Self::F32 => (0, 1, 4),
            Self::Q4_0 => (2, 32, 18),
            Self::Q4_K => (12, 256, 144),
            Self::Q6_K => (14, 256, 210),
        }
    }
}

struct Tensor {
    name: String,
    kind: Kind,
    /// Weights per row, and rows where it is a matrix.
    dims: Vec<usize>,
}

impl Tensor {
    fn bytes(&self) -> u64 {
        let (_, weights, bytes) = self.kind.layout();
        (self.dims.iter().product::<usize>() / weights * bytes) as u64
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
    eprintln!(
        "Writing {} ({} MB of random weights).",
        path.display(),
        bytes / 1_000_000
    );
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    // Written beside the goal and then moved, so that a half file is never taken for the model.
    let fresh = path.with_extension("new");
    let file = File::create(&fresh).with_context(|| format!("creating {}", fresh.display()))?;
    write(BufWriter::new(file), &header, &tensors)
        .with_context(|| format!("writing {}", fresh.display()))?;
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
    for (index, tensor) in tensors.iter().enumerate() {
        let data = weights(tensor, &mut Random(index as u64));
        out.write_all(&data)?;
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
    let kv = shape.dim / shape.heads * shape.kv_heads;
    let matrix = |name: &str, layer: Option<usize>, rows: usize, cols: usize| Tensor {
        name: match layer {
            Some(layer) => format!("blk.{layer}.{name}.weight"),
            None => format!("{name}.weight"),
        },
        kind: mix.kind(name, layer, shape.layers),
        dims: vec![cols, rows],
    };
    let norm = |name: String| Tensor {
        name: format!("{name}.weight"),
        kind: Kind::F32,
        dims: vec![shape.dim],
    };
    let mut all = vec![
        matrix("token_embd", None, shape.vocab, shape.dim),
        norm("output_norm".into()),
        matrix("output", None, shape.vocab, shape.dim),
    ];
    for layer in 0..shape.layers {
        let matrix = |name: &str, rows: usize, cols: usize| matrix(name, Some(layer), rows, cols);
        all.extend([
            norm(format!("blk.{layer}.attn_norm")),
            matrix("attn_q", shape.dim, shape.dim),
            matrix("attn_k", kv, shape.dim),
            matrix("attn_v", kv, shape.dim),
            matrix("attn_output", shape.dim, shape.dim),
            norm(format!("blk.{layer}.ffn_norm")),
            matrix("ffn_gate", shape.ffn, shape.dim),
            matrix("ffn_up", shape.ffn, shape.dim),
            matrix("ffn_down", shape.dim, shape.ffn),
        ]);
    }
    all
}

/// Everything before the tensors' data, padded to the alignment.
fn header(shape: &Shape, mix: Mix, tensors: &[Tensor]) -> Vec<u8> {
    let vocabulary = vocabulary(shape.vocab);
    let mut meta = Metadata::default();
    meta.text("general.architecture", "llama");
    meta.text("general.name", &format!("{} {}", shape.name, mix.name()));
    meta.u32("general.file_type", mix.file_type());
    meta.u32("general.quantization_version", 2);
    meta.u32("llama.context_length", 2048);
    meta.u32("llama.vocab_size", shape.vocab as u32);
    meta.u32("llama.embedding_length", shape.dim as u32);
    meta.u32("llama.block_count", shape.layers as u32);
    meta.u32("llama.feed_forward_length", shape.ffn as u32);
    meta.u32("llama.attention.head_count", shape.heads as u32);
    meta.u32("llama.attention.head_count_kv", shape.kv_heads as u32);
    meta.u32(
        "llama.rope.dimension_count",
        (shape.dim / shape.heads) as u32,
    );
    meta.f32("llama.rope.freq_base", 10_000.0);
    meta.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
    meta.text("tokenizer.ggml.model", "gpt2");
    meta.text("tokenizer.ggml.pre", "gpt-2");
    meta.texts("tokenizer.ggml.tokens", &vocabulary.tokens);
    meta.i32s("tokenizer.ggml.token_type", &vocabulary.types);
    meta.texts("tokenizer.ggml.merges", &vocabulary.merges);
    meta.u32("tokenizer.ggml.bos_token_id", 0);
    meta.u32("tokenizer.ggml.eos_token_id", 1);
    meta.truth("tokenizer.ggml.add_bos_token", false);

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

/// A byte-level BPE vocabulary.
struct Vocabulary {
    tokens: Vec<String>,
    /// ggml's numbers: 1 is text, 3 a control token.
    types: Vec<i32>,
    merges: Vec<String>,
}

/// Two control tokens and printable ASCII: every character, [`WORDS`], then all pairs and triples as far
/// as they fit. Whatever such a model says is UTF-8, which not every program takes for granted.
fn vocabulary(size: usize) -> Vocabulary {
    // A space and a line break as byte-level vocabularies spell them.
    let characters = ['Ġ', 'Ċ'].into_iter().chain('!'..='~').collect::<Vec<_>>();
    let mut tokens = vec!["<|begin_of_text|>".to_owned(), "<|end_of_text|>".to_owned()];
    let types = (0..size).map(|id| if id < 2 { 3 } else { 1 }).collect();
    tokens.extend(characters.iter().map(char::to_string));
    // A word grows from its first character on; these merges come first, so that no other cuts it up.
    let words = WORDS.iter().flat_map(|word| {
        (1..=word.len()).map(|end| {
            (
                format!("Ġ{}", &word[..end - 1]),
                word[end - 1..end].to_owned(),
            )
        })
    });
    let characters = characters.as_slice();
    let with_each = |left: String| {
        let rights = characters.iter();
        rights.map(move |right| (left.clone(), right.to_string()))
    };
    let singles = || characters.iter().map(char::to_string);
    let pairs = singles().flat_map(with_each);
    let triples = singles()
        .flat_map(|first| singles().map(move |second| format!("{first}{second}")))
        .flat_map(with_each);
    let mut known = tokens.iter().cloned().collect::<HashSet<_>>();
    let mut merges = Vec::new();
    for (left, right) in words.chain(pairs).chain(triples) {
        if tokens.len() == size {
            break;
        }
        let token = format!("{left}{right}");
        if known.insert(token.clone()) {
            merges.push(format!("{left} {right}"));
            tokens.push(token);
        }
    }
    Vocabulary {
        tokens,
        types,
        merges,
    }
}

/// The data of a tensor. Gains are 1. Matrices have mean 0 and a standard deviation of one over the root
/// of the row's length, so that activations keep their size.
fn weights(tensor: &Tensor, random: &mut Random) -> Vec<u8> {
    if tensor.kind == Kind::F32 {
        return tensor
            .dims
            .iter()
            .flat_map(|len| vec![1f32; *len])
            .flat_map(f32::to_le_bytes)
            .collect();
    }
    let (_, _, block_bytes) = tensor.kind.layout();
    let mut data = vec![0; tensor.bytes() as usize];
    let (words, _) = data.as_chunks_mut::<8>();
    words
        .iter_mut()
        .for_each(|word| *word = random.next().to_le_bytes());
    let deviation = 1.0 / (tensor.dims[0] as f32).sqrt();
    for block in data.chunks_exact_mut(block_bytes) {
        match tensor.kind {
            Kind::F32 => {}
            Kind::Q4_0 => q4_0(block, deviation),
            Kind::Q4_K => q4_k(block, deviation),
            Kind::Q6_K => q6_k(block, deviation),
        }
    }
    data
}

/// The standard deviation of a number of four random bits.
const OF_FOUR_BITS: f32 = 4.61;

/// The scale, of either sign: the bits mean -8 to 7.
fn q4_0(block: &mut [u8], deviation: f32) {
    let sign = u16::from(block[0] & 1) << 15;
    put_half(&mut block[..2], half(deviation / OF_FOUR_BITS) | sign);
}

/// The scales, and minimums that are 7.5 of them: the middle of four bits. Scales of groups are 32 to 63.
fn q4_k(block: &mut [u8], deviation: f32) {
    let scale = deviation / (OF_FOUR_BITS * 47.5);
    put_half(&mut block[0..2], half(scale));
    put_half(&mut block[2..4], half(7.5 * scale));
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
    put_half(&mut block[208..210], half(deviation / (18.5 * 95.5)));
}

fn put_half(out: &mut [u8], bits: u16) {
    out.copy_from_slice(&bits.to_le_bytes());
}

/// The bits of the half float nearest to a positive number below 1.
fn half(value: f32) -> u16 {
    // Below 2^-14 halves are multiples of 2^-24; above, an f32's exponent and mantissa cut to ten bits.
    if value < 2f32.powi(-14) {
        return (value * 2f32.powi(24)).round() as u16;
    }
    let bits = value.to_bits() + (1 << 12);
    ((bits >> 13) - ((127 - 15) << 10)) as u16
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::Plan;
    use weights::BlockType;
    use weights::codec::dequantize;
    use weights::gguf::{self, Gguf, MetaArray, MetaValue, Step};

    use super::*;

    const TINY: Shape = Shape {
        name: "tiny",
        layers: 3,
        dim: 256,
        heads: 4,
        kv_heads: 2,
        ffn: 512,
        vocab: 1000,
    };

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
        for mix in Mix::ALL {
            let file = file(&TINY, mix);
            assert!(file.len().is_multiple_of(ALIGNMENT as usize));
            let plan = Plan::from_gguf(&read(&file)).unwrap();
            assert_eq!((plan.config.layers, plan.config.dim), (3, 256));
            assert_eq!((plan.config.heads, plan.config.kv_heads), (4, 2));
            assert_eq!((plan.config.ffn, plan.config.vocab), (512, 1000));
            assert_eq!(plan.tensors.len(), 3 + 9 * 3);
            assert_eq!(file.len() as u64, plan.end());
        }
    }

    #[test]
    fn weights_have_the_wanted_mean_and_deviation() {
        for mix in Mix::ALL {
            let file = file(&TINY, mix);
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
        let kinds = |mix| {
            let mut kinds = BTreeMap::new();
            for tensor in tensors(&SMALL, mix) {
                *kinds.entry(tensor.kind.layout().0).or_insert(0) += 1;
            }
            kinds
        };
        let id = |kind: BlockType| kind.ggml_id();
        let (q4_k, q6_k) = (id(BlockType::Q4_K), id(BlockType::Q6_K));
        let norms = (id(BlockType::F32), 25);
        // Value and down projections of blocks 0, 3, 6, 9, 10 and 11, and the output.
        assert_eq!(
            kinds(Mix::Q4_K_M),
            BTreeMap::from([norms, (q4_k, 86 - 13), (q6_k, 13)])
        );
        assert_eq!(
            kinds(Mix::Q4_0),
            BTreeMap::from([norms, (id(BlockType::Q4_0), 85), (q6_k, 1)])
        );
        for kind in [Kind::F32, Kind::Q4_0, Kind::Q4_K, Kind::Q6_K] {
            let (id, weights, bytes) = kind.layout();
            let known = BlockType::from_ggml_id(id).unwrap();
            assert_eq!((known.block_len(), known.block_bytes()), (weights, bytes));
        }
    }

    #[test]
    fn the_vocabulary_is_full_and_every_merge_makes_a_token() {
        let file = file(&TINY, Mix::Q4_0);
        let gguf = read(&file);
        let list = |key: &str| match gguf.get(key) {
            Some(MetaValue::Array(MetaArray::Str(list))) => list.to_strings().unwrap(),
            other => panic!("{key} is {other:?}"),
        };
        let tokens = list("tokenizer.ggml.tokens");
        let known = tokens.iter().collect::<HashSet<_>>();
        assert_eq!((tokens.len(), known.len()), (TINY.vocab, TINY.vocab));
        for merge in list("tokenizer.ggml.merges") {
            let (left, right) = merge.split_once(' ').unwrap();
            let made = format!("{left}{right}");
            assert!(known.contains(&left.to_owned()) && known.contains(&right.to_owned()));
            assert!(known.contains(&made), "{made}");
        }
        for word in WORDS {
            assert!(known.contains(&format!("Ġ{word}")), "{word}");
        }
    }

    #[test]
    fn a_file_is_written_once_and_again_when_it_is_another() {
        let folder = std::env::temp_dir().join(format!("xtask-gguf-{}", std::process::id()));
        let path = model(&folder, &TINY, Mix::Q4_0).unwrap();
        let expected = file(&TINY, Mix::Q4_0);
        assert!(fs::read(&path).unwrap() == expected);
        // Only header and length are looked at.
        let mut other = expected.clone();
        *other.last_mut().unwrap() ^= 1;
        fs::write(&path, &other).unwrap();
        model(&folder, &TINY, Mix::Q4_0).unwrap();
        assert!(fs::read(&path).unwrap() == other);
        other[40] ^= 1;
        fs::write(&path, &other).unwrap();
        model(&folder, &TINY, Mix::Q4_0).unwrap();
        assert!(fs::read(&path).unwrap() == expected);
        fs::remove_dir_all(folder).unwrap();
    }
}
