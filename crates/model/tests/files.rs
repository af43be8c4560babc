//! Plans of real files, and their tensors as they come out of the stream.

use std::collections::HashMap;
use std::path::PathBuf;

use model::config::llama3_divisors;
use model::plan::BlockPart;
use model::{Config, HfConfig, LoadError, Pairing, Plan, Role, Rope, Sink, Tensor, stream};
use pollster::block_on;
use weights::safetensors::{self, Dtype};
use weights::{BlockType, MemorySource, gguf};

fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    std::fs::read(folder.join(name)).expect("fixture")
}

fn gguf_plan(bytes: &[u8]) -> Plan {
    let mut source = MemorySource::new("file", bytes);
    let header = block_on(gguf::read_header(&mut source)).expect("a good header");
    Plan::from_gguf(&header).expect("a model that runs here")
}

/// Header and configuration of the nano model of Hugging Face.
fn nano_hf() -> (Vec<u8>, safetensors::Header, HfConfig) {
    let bytes = fixture("nano/hf/model.safetensors");
    let mut source = MemorySource::new("file", &bytes);
    let header = block_on(safetensors::read_header(&mut source)).expect("a good header");
    let config = HfConfig::parse(&fixture("nano/hf/config.json")).expect("a good config");
    (bytes, header, config)
}

/// Keeps every tensor's bytes.
#[derive(Default)]
struct Recorder {
    tensors: HashMap<Role, (Tensor, Vec<u8>)>,
    /// Rows of each piece.
    pieces: Vec<usize>,
}

impl Sink for Recorder {
    async fn rows(&mut self, tensor: &Tensor, first: usize, bytes: &[u8]) -> Result<(), LoadError> {
        let entry = self.tensors.entry(tensor.role);
        let (_, held) = entry.or_insert_with(|| (tensor.clone(), Vec::new()));
        assert_eq!(held.len(), first * tensor.row_bytes(), "rows in order");
        assert!(bytes.len().is_multiple_of(tensor.row_bytes()));
        self.pieces.push(bytes.len() / tensor.row_bytes());
        held.extend(bytes);
        Ok(())
    }
}

impl Recorder {
    /// Streams a whole file.
    fn record(bytes: &[u8], plan: &Plan) -> (Self, Config) {
        let mut recorder = Self::default();
        let mut source = MemorySource::new("file", bytes);
        let mut reached = 0;
        let config = block_on(stream(&mut source, plan, &mut recorder, |offset| {
            assert!(offset >= reached && offset <= bytes.len() as u64);
            reached = offset;
            true
        }));
        assert_eq!(reached, bytes.len() as u64);
        for (tensor, held) in recorder.tensors.values() {
            assert_eq!(
                held.len() as u64,
                tensor.bytes(),
                "all rows of {}",
                tensor.name
            );
        }
        (recorder, config.expect("a good file"))
    }

    fn floats(&self, role: Role) -> Vec<f32> {
        let (tensor, bytes) = &self.tensors[&role];
        tensor.floats(bytes).expect("a type that is read")
    }
}

fn roles(layers: usize) -> Vec<Role> {
    let blocks = (0..layers).flat_map(|index| BlockPart::ALL.map(|part| Role::Block(index, part)));
    [Role::Embedding, Role::OutputNorm]
        .into_iter()
        .chain(blocks)
        .collect()
}

const NANO: [&str; 11] = [
    "f16", "q2_k", "q3_k_m", "q4_0", "q4_1", "q4_k_m", "q5_0", "q5_1", "q5_k_m", "q6_k", "q8_0",
];

/// What the nano files say, apart from the divisors.
fn nano_config(pairing: Pairing) -> Config {
    Config {
        layers: 2,
        dim: 256,
        heads: 8,
        kv_heads: 2,
        head_dim: 32,
        ffn: 256,
        vocab: 640,
        norm_eps: 1e-5,
        context: 4096,
        rope: Rope {
            theta: 500_000.0,
            linear: 1.0,
            divisors: None,
            pairing,
        },
    }
}

/// How far `values` are from `reference`, as a share of its size.
fn distance(values: &[f32], reference: &[f32]) -> f64 {
    assert_eq!(values.len(), reference.len());
    let square = |value: f32| f64::from(value).powi(2);
    let error: f64 = values
        .iter()
        .zip(reference)
        .map(|(a, b)| square(a - b))
        .sum();
    let size: f64 = reference.iter().map(|value| square(*value)).sum();
    (error / size).sqrt()
}

#[test]
fn gguf_files_of_all_types_give_their_tensors() {
    let reference = fixture("nano/nano-f16.gguf");
    let (reference, _) = Recorder::record(&reference, &gguf_plan(&reference));
    for name in NANO {
        let bytes = fixture(&format!("nano/nano-{name}.gguf"));
        let plan = gguf_plan(&bytes);
        assert_eq!(plan.config, nano_config(Pairing::Adjacent), "{name}");
        // With the divisors; there is no output matrix.
        assert_eq!(plan.tensors.len(), roles(2).len() + 1, "{name}");
        assert!(plan.tensors.is_sorted_by_key(|tensor| tensor.offset));
        assert!(plan.tensor_bytes() <= plan.end() && plan.end() <= bytes.len() as u64);
        let (recorder, config) = Recorder::record(&bytes, &plan);
        let divisors = config.rope.divisors.expect("divisors");
        assert_eq!(divisors.len(), 16);
        assert_eq!((divisors[0], divisors[15]), (1.0, 8.0));
        assert_eq!(recorder.tensors.len(), roles(2).len());
        for role in roles(2) {
            let (tensor, held) = &recorder.tensors[&role];
            let start = tensor.offset as usize;
            assert_eq!(held, &bytes[start..start + held.len()], "{}", tensor.name);
            assert_eq!((tensor.rows, tensor.cols), role.shape(&plan.config));
            // Two bits keep two thirds of a random weight; other tensors have nothing in common.
            let distance = distance(&recorder.floats(role), &reference.floats(role));
            assert!(distance < 0.4, "{name}, {}: {distance}", tensor.name);
        }
    }
}

/// Half of the rows of the query and key projections lie elsewhere in a safetensors file.
#[test]
fn a_safetensors_file_gives_what_its_gguf_file_gives() {
    let (bytes, header, hf) = nano_hf();
    assert!(hf.tied);
    let plan = Plan::from_safetensors(&header, &hf).expect("a model that runs here");
    let divisors = hf.config.rope.divisors.clone().expect("divisors");
    let mut expected = nano_config(Pairing::Halves);
    expected.rope.divisors = Some(divisors.clone());
    assert_eq!(plan.config, expected);
    assert_eq!(plan.tensors.len(), roles(2).len());
    assert!(
        plan.tensors
            .iter()
            .all(|tensor| tensor.kind == BlockType::BF16)
    );
    assert_eq!(plan.end(), bytes.len() as u64);
    let (recorder, config) = Recorder::record(&bytes, &plan);
    assert_eq!(config, expected);

    let gguf = fixture("nano/nano-f16.gguf");
    let (reference, config) = Recorder::record(&gguf, &gguf_plan(&gguf));
    assert_eq!(config.rope.divisors, Some(divisors));
    for role in roles(2) {
        let (values, expected) = (recorder.floats(role), reference.floats(role));
        assert_eq!(values.len(), expected.len());
        for (i, (a, b)) in values.iter().zip(&expected).enumerate() {
            // Half a unit in the last place of a bfloat16, or a step of the smallest halves.
            assert!(
                (a - b).abs() <= b.abs() / 256.0 + 6e-8,
                "{role:?} {i}: {a} and {b}"
            );
        }
        if role.is_rotated() {
            let (tensor, _) = &recorder.tensors[&role];
            let unsorted = &bytes[tensor.offset as usize..][..tensor.bytes() as usize];
            let unsorted = tensor.floats(unsorted).expect("a type that is read");
            assert!(
                distance(&unsorted, &expected) > 0.5,
                "the test tells orders apart"
            );
        }
    }
}

#[test]
fn the_divisors_of_llama_3_2_come_from_the_file() {
    let bytes = fixture("tinyrope/tinyrope-q4_k_m.gguf");
    let plan = gguf_plan(&bytes);
    let config = &plan.config;
    assert_eq!((config.layers, config.heads, config.kv_heads), (4, 8, 4));
    assert_eq!((config.ffn, config.vocab), (768, 2048));
    assert_eq!(config.rope.theta, 500_000.0);
    let (recorder, config) = Recorder::record(&bytes, &plan);
    assert_eq!(recorder.tensors.len(), roles(4).len());
    // Made for an original context of 64, so that a short prompt shows the scaling.
    let expected = llama3_divisors(500_000.0, config.head_dim, 32.0, 1.0, 4.0, 64.0);
    assert_eq!(config.rope.divisors, Some(expected));
}

#[test]
fn the_output_matrix_is_used_where_the_configuration_says_so() {
    let (_, mut header, mut hf) = nano_hf();
    let mut head = header
        .tensor("model.embed_tokens.weight")
        .expect("embeddings")
        .clone();
    head.name = "lm_head.weight".to_owned();
    header.tensors.push(head);
    let heads = |header: &safetensors::Header, hf: &HfConfig| {
        let plan = Plan::from_safetensors(header, hf)?;
        Ok::<_, LoadError>(plan.tensors.iter().filter(|t| t.role == Role::Head).count())
    };
    assert_eq!(heads(&header, &hf).expect("tied"), 0);
    hf.tied = false;
    assert_eq!(heads(&header, &hf).expect("two matrices"), 1);
    header.tensors.pop();
    let error = heads(&header, &hf).expect_err("no output matrix");
    assert!(error.to_string().contains("lm_head.weight"), "{error}");
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let (_, good, hf) = nano_hf();
    let name = "model.layers.1.self_attn.k_proj.weight";
    let place = good.tensors.iter().position(|tensor| tensor.name == name);
    let place = place.expect("a key projection");
    let error = |change: &dyn Fn(&mut safetensors::TensorInfo)| {
        let mut header = good.clone();
        change(&mut header.tensors[place]);
        Plan::from_safetensors(&header, &hf).expect_err("a wrong tensor")
    };
    let cases = [
        (error(&|tensor| tensor.name = "other".to_owned()), name),
        (error(&|tensor| tensor.shape = vec![256, 64]), "256 × 64"),
        (error(&|tensor| tensor.shape = vec![u64::MAX, 256]), name),
        (error(&|tensor| tensor.shape = vec![]), name),
        (error(&|tensor| tensor.dtype = Dtype::F8_E4M3), "F8_E4M3"),
        (
            error(&|tensor| tensor.name = name.replace("weight", "bias")),
            "bias",
        ),
    ];
    for (error, named) in cases {
        assert!(error.to_string().contains(named), "{error}");
        assert!(matches!(
            error,
            LoadError::Inconsistent(_) | LoadError::Unsupported(_)
        ));
    }
    let mut hf = hf.clone();
    hf.config.layers = 3;
    let error = Plan::from_safetensors(&good, &hf).expect_err("a layer too many");
    assert!(error.to_string().contains("model.layers.2."), "{error}");
}

/// A projection of 24 MiB in a file of Hugging Face, of which a piece holds 4 MiB.
fn long_projection() -> (Vec<u8>, Plan) {
    let (rows, cols, head_dim) = (24, 1 << 18, 4);
    let mut config = nano_config(Pairing::Halves);
    (config.head_dim, config.heads) = (head_dim, rows / head_dim);
    let tensor = Tensor {
        name: "model.layers.0.self_attn.q_proj.weight".to_owned(),
        role: Role::Block(0, BlockPart::Query),
        kind: BlockType::F32,
        rows,
        cols,
        offset: 0,
    };
    // Every row holds its number.
    let bytes = (0..rows as u8)
        .flat_map(|row| vec![row; 4 * cols])
        .collect();
    let tensors = vec![tensor];
    (bytes, Plan { config, tensors })
}

#[test]
fn long_tensors_come_in_pieces_of_whole_heads() {
    let (bytes, plan) = long_projection();
    let (recorder, _) = Recorder::record(&bytes, &plan);
    assert_eq!(recorder.pieces, [4; 6]);
    let (tensor, held) = &recorder.tensors[&Role::Block(0, BlockPart::Query)];
    let rows: Vec<u8> = held.chunks(tensor.row_bytes()).map(|row| row[9]).collect();
    let expected: Vec<u8> = (0..6)
        .flat_map(|h| [0, 2, 1, 3].map(|row| 4 * h + row))
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn reading_stops_when_it_is_told_to() {
    let (bytes, plan) = long_projection();
    let mut recorder = Recorder::default();
    let mut source = MemorySource::new("file", bytes);
    let stopped = block_on(stream(&mut source, &plan, &mut recorder, |offset| {
        offset < 12 << 20
    }));
    assert!(matches!(stopped, Err(LoadError::Stopped)));
    assert_eq!(recorder.pieces.len(), 3);
}

#[test]
fn divisors_that_divide_nothing_are_refused() {
    let mut bytes = fixture("nano/nano-q8_0.gguf");
    let plan = gguf_plan(&bytes);
    let divisors = plan.tensors.iter().find(|t| t.role == Role::RopeDivisors);
    let start = divisors.expect("divisors").offset as usize;
    for wrong in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        bytes[start + 8..start + 12].copy_from_slice(&wrong.to_le_bytes());
        let mut source = MemorySource::new("file", &bytes);
        let error = block_on(stream(&mut source, &plan, &mut Recorder::default(), |_| {
            true
        }));
        let error = error.expect_err("a wrong divisor");
        assert!(error.to_string().contains("rope_freqs.weight"), "{error}");
    }
}
