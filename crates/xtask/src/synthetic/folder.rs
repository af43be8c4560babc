//! Models as folders of Hugging Face: safetensors of BF16 with everything that belongs to them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::random::{Half, Rows};
use super::vocabulary::{self, Vocabulary};
use super::{Part, Shape, Slowing, Tensor, timed};

/// Bytes that are made before they are written, about.
const CHUNK: usize = 4 << 20;

/// How words are cut out of a text before merging: Llama 3's rule.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A file of the folder: its name, its header, and the tensors that follow.
struct Shard {
    name: String,
    header: Vec<u8>,
    tensors: Vec<Tensor>,
}

impl Shard {
    fn bytes(&self) -> u64 {
        self.header.len() as u64 + self.tensors.iter().map(bytes).sum::<u64>()
    }
}

fn bytes(tensor: &Tensor) -> u64 {
    2 * (tensor.rows * tensor.cols) as u64
}

/// The model of this shape in a folder below `folder`; written unless it is already there.
pub fn model(folder: &Path, shape: &Shape) -> Result<PathBuf> {
    let path = folder.join(shape.name);
    let shards = shards(shape);
    let texts = texts(shape, &shards);
    if is_current(&path, &shards, &texts) {
        return Ok(path);
    }
    // Written beside the goal and then moved, so that a half folder is never taken for the model.
    let fresh = path.with_extension("new");
    for old in [&fresh, &path] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("removing {}", old.display()))?;
        }
    }
    fs::create_dir_all(&fresh).with_context(|| format!("creating {}", fresh.display()))?;
    timed(&path, shards.iter().map(Shard::bytes).sum(), || {
        for (name, text) in &texts {
            fs::write(fresh.join(name), text)?;
        }
        for shard in &shards {
            write(File::create(fresh.join(&shard.name))?, shard)?;
        }
        Ok(())
    })?;
    fs::rename(&fresh, &path).with_context(|| format!("moving the model to {}", path.display()))?;
    Ok(path)
}

/// Whether the folder has these texts, and files of these lengths.
fn is_current(path: &Path, shards: &[Shard], texts: &BTreeMap<&str, String>) -> bool {
    texts
        .iter()
        .all(|(name, text)| fs::read_to_string(path.join(name)).is_ok_and(|found| found == *text))
        && shards.iter().all(|shard| {
            fs::metadata(path.join(&shard.name)).is_ok_and(|data| data.len() == shard.bytes())
        })
}

fn write(mut out: impl Write, shard: &Shard) -> std::io::Result<()> {
    out.write_all(&shard.header)?;
    let mut chunk = Vec::new();
    for tensor in &shard.tensors {
        if tensor.part.is_none() {
            // Gains are 1.
            out.write_all(&[0x80, 0x3f].repeat(tensor.cols))?;
            continue;
        }
        let maker = Rows::new(tensor.stream, tensor.cols, Half::Bf16);
        let rows_at_once = (CHUNK / (2 * tensor.cols)).max(1);
        let mut rows = 0..tensor.rows;
        while !rows.is_empty() {
            chunk.clear();
            for row in rows.by_ref().take(rows_at_once) {
                maker.append(row, &mut chunk);
            }
            out.write_all(&chunk)?;
        }
    }
    out.flush()
}

/// The tensors, distributed in order among as few files as hold them.
fn shards(shape: &Shape) -> Vec<Shard> {
    let mut groups = Vec::<Vec<Tensor>>::new();
    let mut held = shape.file_bytes;
    for tensor in shape.tensors() {
        held += bytes(&tensor);
        match groups.last_mut().filter(|_| held <= shape.file_bytes) {
            Some(group) => group.push(tensor),
            None => {
                held = bytes(&tensor);
                groups.push(vec![tensor]);
            }
        }
    }
    let count = groups.len();
    let shard = |(index, tensors): (usize, Vec<Tensor>)| Shard {
        name: if count == 1 {
            "model.safetensors".to_owned()
        } else {
            format!("model-{:05}-of-{count:05}.safetensors", index + 1)
        },
        header: header(&tensors),
        tensors,
    };
    groups.into_iter().enumerate().map(shard).collect()
}

/// The header of a file of these tensors, with its length before it.
fn header(tensors: &[Tensor]) -> Vec<u8> {
    let mut entries = Map::new();
    entries.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut start = 0;
    for tensor in tensors {
        let dims = match tensor.part {
            Some(_) => vec![tensor.rows, tensor.cols],
            None => vec![tensor.cols],
        };
        let end = start + bytes(tensor);
        entries.insert(
            name(tensor),
            json!({ "dtype": "BF16", "shape": dims, "data_offsets": [start, end] }),
        );
        start = end;
    }
    let mut text = Value::Object(entries).to_string();
    // The data begins at a multiple of eight.
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.into_bytes());
    out
}

/// A tensor's name there.
fn name(tensor: &Tensor) -> String {
    let name = match (tensor.part, tensor.layer) {
        (None, None) => "model.norm",
        (None, Some(_)) if tensor.second => "post_attention_layernorm",
        (None, Some(_)) => "input_layernorm",
        (Some(Part::Embedding), _) => "model.embed_tokens",
        (Some(Part::Output), _) => "lm_head",
        (Some(Part::Query), _) => "self_attn.q_proj",
        (Some(Part::Key), _) => "self_attn.k_proj",
        (Some(Part::Value), _) => "self_attn.v_proj",
        (Some(Part::AttentionOutput), _) => "self_attn.o_proj",
        (Some(Part::Gate), _) => "mlp.gate_proj",
        (Some(Part::Up), _) => "mlp.up_proj",
        (Some(Part::Down), _) => "mlp.down_proj",
    };
    match tensor.layer {
        Some(layer) => format!("model.layers.{layer}.{name}.weight"),
        None => format!("{name}.weight"),
    }
}

/// The other files, by name.
fn texts(shape: &Shape, shards: &[Shard]) -> BTreeMap<&'static str, String> {
    let vocabulary = Vocabulary::new(shape.vocab);
    let mut texts = BTreeMap::from([
        ("config.json", pretty(&config(shape, &vocabulary))),
        ("generation_config.json", pretty(&generation(&vocabulary))),
        ("tokenizer.json", tokenizer(shape, &vocabulary).to_string()),
        ("tokenizer_config.json", pretty(&chat(shape))),
    ]);
    if shards.len() > 1 {
        let weight_map = shards.iter().flat_map(|shard| {
            let tensors = shard.tensors.iter();
            tensors.map(|tensor| (name(tensor), Value::from(shard.name.as_str())))
        });
        let total = shape.tensors().iter().map(bytes).sum::<u64>();
        let index = json!({
            "metadata": { "total_size": total },
            "weight_map": weight_map.collect::<Map<_, _>>(),
        });
        texts.insert("model.safetensors.index.json", pretty(&index));
    }
    texts
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Ids of the tokens that end a text, a message and a turn.
fn ends(vocabulary: &Vocabulary) -> [usize; 3] {
    [
        vocabulary::END_OF_TEXT,
        vocabulary::END_OF_MESSAGE,
        vocabulary::END_OF_TURN,
    ]
    .map(|place| vocabulary.control(place))
}

fn config(shape: &Shape, vocabulary: &Vocabulary) -> Value {
    let [low, high] = Slowing::BOUNDS;
    let scaling = shape.slowing.as_ref().map(|slowing| {
        json!({
            "factor": slowing.factor,
            "high_freq_factor": high,
            "low_freq_factor": low,
            "original_max_position_embeddings": slowing.original,
            "rope_type": "llama3",
        })
    });
    json!({
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": false,
        "attention_dropout": 0.0,
        "bos_token_id": vocabulary.control(vocabulary::BEGIN_OF_TEXT),
        "eos_token_id": ends(vocabulary),
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.dim,
        "initializer_range": 0.02,
        "intermediate_size": shape.ffn,
        "max_position_embeddings": shape.context,
        "mlp_bias": false,
        "model_type": "llama",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-5,
        "rope_scaling": scaling,
        "rope_theta": shape.theta,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": "bfloat16",
        "use_cache": true,
        "vocab_size": shape.vocab,
    })
}

fn generation(vocabulary: &Vocabulary) -> Value {
    json!({
        "bos_token_id": vocabulary.control(vocabulary::BEGIN_OF_TEXT),
        "do_sample": true,
        "eos_token_id": ends(vocabulary),
        "temperature": 0.6,
        "top_p": 0.9,
    })
}

fn chat(shape: &Shape) -> Value {
    json!({
        "bos_token": "<|begin_of_text|>",
        "chat_template": vocabulary::TEMPLATE,
        "clean_up_tokenization_spaces": true,
        "eos_token": "<|eot_id|>",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": shape.context,
        "tokenizer_class": "PreTrainedTokenizerFast",
    })
}

fn tokenizer(shape: &Shape, vocabulary: &Vocabulary) -> Value {
    let first_control = vocabulary.control(0);
    let byte_level = |prefix_space: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": true, "use_regex": false,
        })
    };
    let added = vocabulary.tokens.iter().enumerate().skip(first_control);
    let added = added.map(|(id, content)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    let texts = vocabulary.tokens[..first_control].iter().enumerate();
    let begin = "<|begin_of_text|>";
    let sequence = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    let special = json!({ "SpecialToken": { "id": begin, "type_id": 0 } });
    let template = json!({
        "type": "TemplateProcessing",
        "single": [special, sequence("A")],
        "pair": [special, sequence("A"), special, sequence("B")],
        "special_tokens": {
            begin: {
                "id": begin,
                "ids": [vocabulary.control(vocabulary::BEGIN_OF_TEXT)],
                "tokens": [begin],
            },
        },
    });
    let post_processor = if shape.add_bos {
        json!({ "type": "Sequence", "processors": [byte_level(true), template] })
    } else {
        byte_level(true)
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                { "type": "Split", "pattern": { "Regex": WORDS }, "behavior": "Isolated", "invert": false },
                byte_level(false),
            ],
        },
        "post_processor": post_processor,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": true,
            "vocab": texts.map(|(id, text)| (text.clone(), id.into())).collect::<Map<_, _>>(),
            "merges": vocabulary.merges.iter().map(|(left, right)| format!("{left} {right}")).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use model::hf::HfConfig;

    use super::super::{EIGHT, NANO, ONE, gguf, gguf::Mix};
    use super::*;

    #[test]
    fn files_are_distributed_as_the_published_ones() {
        let gigabytes = |shape| {
            let sizes = shards(shape)
                .iter()
                .map(|it| it.bytes())
                .collect::<Vec<_>>();
            sizes
                .into_iter()
                .map(|bytes| format!("{:.2}", bytes as f64 / 1e9))
                .collect::<Vec<_>>()
        };
        assert_eq!(gigabytes(&EIGHT), ["4.98", "5.00", "4.92", "1.17"]);
        assert_eq!(gigabytes(&ONE), ["2.47"]);
        assert_eq!(shards(&NANO).len(), 4);
    }

    #[test]
    fn its_configuration_is_that_of_the_gguf_file() {
        let folder = std::env::temp_dir().join(format!("xtask-folder-{}", std::process::id()));
        let path = model(&folder, &NANO).unwrap();
        let text = fs::read(path.join("config.json")).unwrap();
        let hf = HfConfig::parse(&text).unwrap();
        let file = fs::read(gguf::model(&folder, &NANO, Mix::F16).unwrap()).unwrap();
        let weights::gguf::Step::Done(gguf) = weights::gguf::parse(&file, None).unwrap() else {
            panic!("the header is cut short");
        };
        let mut of_gguf = model::Plan::from_gguf(&gguf).unwrap().config;
        of_gguf.rope.pairing = model::config::Pairing::Halves;
        // A tensor of its own there.
        of_gguf.rope.divisors = hf.config.rope.divisors.clone();
        assert_eq!((hf.config, hf.tied), (of_gguf, false));
        // Once is enough.
        let written = |path: &Path| {
            fs::metadata(path.join("config.json"))
                .unwrap()
                .modified()
                .unwrap()
        };
        let before = written(&path);
        assert_eq!(written(&model(&folder, &NANO).unwrap()), before);
        fs::remove_dir_all(folder).unwrap();
    }
}
