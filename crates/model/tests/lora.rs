//! Merging against plain sums, on small made-up models.

use std::collections::BTreeMap;

use half::bf16;
use model::lora::{AdapterConfig, Merge, Merged, merge};
use pollster::block_on;
use weights::safetensors::{Header, read_header};
use weights::{ByteSource, MemorySource};

/// A matrix.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f32>,
}

impl Matrix {
    /// Made-up numbers that BF16 holds exactly.
    fn new(rows: usize, cols: usize, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bf16::from_f32((state >> 40) as f32 / (1 << 24) as f32 - 0.5).to_f32()
        };
        Self {
            rows,
            cols,
            values: (0..rows * cols).map(|_| next()).collect(),
        }
    }

    /// `self + scale * left right`, in double precision.
    fn plus(&self, scale: f64, left: &Self, right: &Self) -> Self {
        assert_eq!(
            (left.rows, right.cols, left.cols),
            (self.rows, self.cols, right.rows)
        );
        let mut sum = self.clone();
        for row in 0..self.rows {
            for col in 0..self.cols {
                let products = (0..left.cols).map(|k| {
                    f64::from(left.values[row * left.cols + k])
                        * f64::from(right.values[k * right.cols + col])
                });
                let value = &mut sum.values[row * self.cols + col];
                *value = (f64::from(*value) + scale * products.sum::<f64>()) as f32;
            }
        }
        sum
    }

    fn turned(&self) -> Self {
        let at = |i: usize| self.values[i % self.rows * self.cols + i / self.rows];
        Self {
            rows: self.cols,
            cols: self.rows,
            values: (0..self.values.len()).map(at).collect(),
        }
    }
}

/// A safetensors file in memory.
fn file(dtype: &str, tensors: &[(&str, &Matrix)]) -> (MemorySource<Vec<u8>>, Header) {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, matrix) in tensors {
        let start = data.len();
        for value in &matrix.values {
            match dtype {
                "BF16" => data.extend(bf16::from_f32(*value).to_le_bytes()),
                _ => data.extend(value.to_le_bytes()),
            }
        }
        let shape = match matrix.rows {
            1 => vec![matrix.cols],
            rows => vec![rows, matrix.cols],
        };
        header.insert(
            (*name).to_owned(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    let mut source = MemorySource::new("memory", bytes);
    let header = block_on(read_header(&mut source)).expect("a good file");
    (source, header)
}

fn config(more: serde_json::Value) -> AdapterConfig {
    let mut config = serde_json::json!({"peft_type": "LORA", "r": 4, "lora_alpha": 6});
    let more = more.as_object().expect("an object").clone();
    config.as_object_mut().expect("an object").extend(more);
    AdapterConfig::parse(config.to_string().as_bytes()).expect("a good file")
}

const Q: &str = "model.layers.0.self_attn.q_proj.weight";
const UP: &str = "model.layers.0.mlp.up_proj.weight";
const NORM: &str = "model.norm.weight";
const EMBEDDING: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

struct Base {
    q: Matrix,
    up: Matrix,
    norm: Matrix,
    embedding: Matrix,
    head: Matrix,
}

impl Base {
    fn new() -> Self {
        Self {
            q: Matrix::new(48, 32, 1),
            up: Matrix::new(80, 32, 2),
            norm: Matrix::new(1, 32, 3),
            embedding: Matrix::new(100, 32, 4),
            head: Matrix::new(100, 32, 5),
        }
    }

    fn tied(&self, dtype: &str) -> (MemorySource<Vec<u8>>, Header) {
        file(
            dtype,
            &[
                (EMBEDDING, &self.embedding),
                (Q, &self.q),
                (NORM, &self.norm),
                (UP, &self.up),
            ],
        )
    }

    fn untied(&self, dtype: &str) -> (MemorySource<Vec<u8>>, Header) {
        let tensors = [
            (HEAD, &self.head),
            (EMBEDDING, &self.embedding),
            (Q, &self.q),
            (NORM, &self.norm),
            (UP, &self.up),
        ];
        file(dtype, &tensors)
    }
}

fn in_adapter(module: &str, part: &str) -> String {
    format!(
        "base_model.model.{}.{part}",
        module.trim_end_matches(".weight")
    )
}

/// All merged tensors, read with several threads and in pieces, which must be the same bytes.
fn values(
    base: &MemorySource<Vec<u8>>,
    adapter: &MemorySource<Vec<u8>>,
    merge: &Merge,
) -> BTreeMap<String, Vec<f32>> {
    let mut merged = Merged::new(base.clone(), adapter.clone(), merge, 3);
    let size = merged.size().expect("a size");
    let mut bytes = Vec::new();
    block_on(merged.read(0, &mut bytes, size as usize)).expect("all bytes");
    let mut other = Merged::new(base.clone(), adapter.clone(), merge, 1).at_once(1000);
    let mut pieces = vec![0; bytes.len()];
    for at in (0..size).step_by(777).collect::<Vec<_>>().into_iter().rev() {
        let mut piece = Vec::new();
        let len = (size - at).min(777) as usize;
        block_on(other.read(at, &mut piece, len)).expect("inside");
        pieces[at as usize..][..len].copy_from_slice(&piece);
    }
    assert!(pieces == bytes, "bytes depend on how they are read");
    let values = merge.tensors.iter().map(|tensor| {
        let bytes = &bytes[tensor.offset as usize..][..tensor.bytes as usize];
        let mut values = vec![0.0; bytes.len() / tensor.dtype.bytes() as usize];
        let kind = tensor.dtype.block_type().expect("floats");
        weights::codec::dequantize(kind, bytes, &mut values).expect("sizes");
        (tensor.name.clone(), values)
    });
    values.collect()
}

fn assert_close(found: &[f32], expected: &Matrix, step: f32) {
    assert_eq!(found.len(), expected.values.len());
    for (found, expected) in found.iter().zip(&expected.values) {
        let most = step * expected.abs().max(0.05);
        assert!(
            (found - expected).abs() <= most,
            "{found} and not {expected}"
        );
    }
}

#[test]
fn sums_are_those_of_plain_arithmetic() {
    let base = Base::new();
    let (q_a, q_b) = (Matrix::new(4, 32, 10), Matrix::new(48, 4, 11));
    // A module of another rank.
    let (up_a, up_b) = (Matrix::new(2, 32, 12), Matrix::new(80, 2, 13));
    for (dtype, step) in [("F32", 1e-5), ("BF16", 1.0 / 256.0)] {
        for (settings, q_scale, up_scale) in [
            (serde_json::json!({}), 6.0 / 4.0, 6.0 / 2.0),
            (
                serde_json::json!({"use_rslora": true}),
                3.0,
                6.0 / 2f64.sqrt(),
            ),
            (
                serde_json::json!({"alpha_pattern": {"mlp.up_proj": 5}, "rank_pattern": {"mlp.up_proj": 2}}),
                1.5,
                2.5,
            ),
        ] {
            let (source, header) = base.untied(dtype);
            let names = [
                in_adapter(Q, "lora_A.weight"),
                in_adapter(Q, "lora_B.weight"),
                in_adapter(UP, "lora_A.weight"),
                in_adapter(UP, "lora_B.weight"),
            ];
            let (adapter, adapter_header) = file(
                "F32",
                &[
                    (&names[0], &q_a),
                    (&names[1], &q_b),
                    (&names[2], &up_a),
                    (&names[3], &up_b),
                ],
            );
            let merge = merge(&config(settings), &adapter_header, &header, false).expect("it fits");
            assert!(!merge.unties);
            let values = values(&source, &adapter, &merge);
            assert_close(&values[Q], &base.q.plus(q_scale, &q_b, &q_a), step);
            assert_close(&values[UP], &base.up.plus(up_scale, &up_b, &up_a), step);
            for (name, same) in [
                (HEAD, &base.head),
                (EMBEDDING, &base.embedding),
                (NORM, &base.norm),
            ] {
                assert!(values[name] == same.values, "{name} is changed");
            }
        }
    }
}

#[test]
fn a_tied_model_gets_an_output_matrix_of_its_own() {
    let base = Base::new();
    let (a, b) = (Matrix::new(4, 32, 20), Matrix::new(100, 4, 21));
    let (adapter, adapter_header) = file(
        "BF16",
        &[
            (&in_adapter(HEAD, "lora_A.weight"), &a),
            (&in_adapter(HEAD, "lora_B.weight"), &b),
        ],
    );
    let (source, header) = base.tied("F32");
    let merge = merge(
        &config(serde_json::json!({})),
        &adapter_header,
        &header,
        true,
    )
    .expect("it fits");
    assert!(merge.unties);
    assert_eq!(merge.tensors.last().expect("tensors").name, HEAD);
    let values = values(&source, &adapter, &merge);
    assert!(values[EMBEDDING] == base.embedding.values);
    assert_close(&values[HEAD], &base.embedding.plus(1.5, &b, &a), 1e-5);
}

#[test]
fn embeddings_are_added_the_other_way_round() {
    let base = Base::new();
    // As PEFT has them: rank × vocabulary, width × rank.
    let (a, b) = (Matrix::new(4, 100, 30), Matrix::new(32, 4, 31));
    let (adapter, adapter_header) = file(
        "F32",
        &[
            (&in_adapter(EMBEDDING, "lora_embedding_A"), &a),
            (&in_adapter(EMBEDDING, "lora_embedding_B"), &b),
        ],
    );
    let expected = base.embedding.plus(1.5, &a.turned(), &b.turned());
    let (source, header) = base.untied("F32");
    let untied = merge(
        &config(serde_json::json!({})),
        &adapter_header,
        &header,
        false,
    )
    .expect("it fits");
    let found = values(&source, &adapter, &untied);
    assert_close(&found[EMBEDDING], &expected, 1e-5);
    assert!(found[HEAD] == base.head.values);
    // The output matrix of a tied model stays what it was.
    let (source, header) = base.tied("F32");
    let tied = merge(
        &config(serde_json::json!({})),
        &adapter_header,
        &header,
        true,
    )
    .expect("it fits");
    assert!(tied.unties);
    let found = values(&source, &adapter, &tied);
    assert_close(&found[EMBEDDING], &expected, 1e-5);
    assert!(found[HEAD] == base.embedding.values);
}

#[test]
fn saved_modules_take_the_place_of_the_base_models() {
    let base = Base::new();
    let (norm, head) = (Matrix::new(1, 32, 40), Matrix::new(100, 32, 41));
    for infix in ["", "modules_to_save."] {
        let (adapter, adapter_header) = file(
            "F32",
            &[
                (&in_adapter(NORM, &format!("{infix}weight")), &norm),
                (&in_adapter(HEAD, &format!("{infix}weight")), &head),
            ],
        );
        let (source, header) = base.untied("BF16");
        let merge = merge(
            &config(serde_json::json!({})),
            &adapter_header,
            &header,
            false,
        )
        .expect("it fits");
        let values = values(&source, &adapter, &merge);
        assert!(values[NORM] == norm.values && values[HEAD] == head.values);
        assert!(values[Q] == base.q.values);
    }
}

#[test]
fn every_tensor_of_the_adapter_is_used_once() {
    let base = Base::new();
    let (_, header) = base.tied("F32");
    let (a, b) = (Matrix::new(4, 32, 50), Matrix::new(48, 4, 51));
    let good = [
        in_adapter(Q, "lora_A.weight"),
        in_adapter(Q, "lora_B.weight"),
    ];
    let attempt = |more: &[(&str, &Matrix)]| {
        let mut tensors = vec![(good[0].as_str(), &a), (good[1].as_str(), &b)];
        tensors.extend(more);
        let (_, adapter) = file("F32", &tensors);
        merge(&config(serde_json::json!({})), &adapter, &header, true)
    };
    attempt(&[]).expect("it fits");
    for (name, part) in [
        ("model.layers.7.self_attn.q_proj.weight", "lora_A.weight"),
        (Q, "lora_magnitude_vector"),
        (Q, "lora_A.other.weight"),
        (Q, "bias"),
        (NORM, "lora_A.weight"),
    ] {
        let name = in_adapter(name, part);
        let error = attempt(&[(&name, &a)]).expect_err(&name).to_string();
        assert!(error.contains(&name), "{error}");
        assert!(!error.contains(&good[0]), "{error}");
    }
    // The same part by an older and by a newer name.
    let twice = in_adapter(Q, "lora_A.default.weight");
    let error = attempt(&[(&twice, &a)]).expect_err("twice").to_string();
    assert!(error.contains("lora_A"), "{error}");
    let alone = in_adapter(UP, "lora_A.weight");
    let error = attempt(&[(&alone, &a)]).expect_err("alone").to_string();
    assert!(error.contains("counterpart"), "{error}");
    // Shapes.
    let wrong = Matrix::new(48, 3, 52);
    let (_, adapter) = file("F32", &[(&good[0], &a), (&good[1], &wrong)]);
    let error =
        merge(&config(serde_json::json!({})), &adapter, &header, true).expect_err("another rank");
    assert!(error.to_string().contains("do not fit"), "{error}");
}

#[test]
fn damaged_adapters_are_told() {
    let base = Base::new();
    let (a, mut b) = (Matrix::new(4, 32, 60), Matrix::new(48, 4, 61));
    b.values[5] = f32::NAN;
    let name = in_adapter(Q, "lora_B.weight");
    let (adapter, adapter_header) =
        file("F32", &[(&in_adapter(Q, "lora_A.weight"), &a), (&name, &b)]);
    let (source, header) = base.tied("F32");
    let merge = merge(
        &config(serde_json::json!({})),
        &adapter_header,
        &header,
        true,
    )
    .expect("it fits");
    let mut merged = Merged::new(source, adapter, &merge, 1);
    let size = merged.size().expect("a size") as usize;
    let error = block_on(merged.read(0, &mut Vec::new(), size)).expect_err("not a number");
    assert!(error.to_string().contains(&name), "{error}");
}
