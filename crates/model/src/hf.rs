//! What `config.json` of a Hugging Face model says.

use serde_json::{Map, Value};

use crate::config::{Config, Pairing, Rope, llama3_divisors};
use crate::plan::LoadError;

/// Shape and constants of a model in the files of Hugging Face.
#[derive(Clone, Debug, PartialEq)]
pub struct HfConfig {
    /// Shape and constants, with the rotary divisors.
    pub config: Config,
    /// Whether the embeddings are the output matrix too (`tie_word_embeddings`).
    pub tied: bool,
}

/// An object of the file. A key whose value is null counts as absent, as in the `transformers` library.
struct Keys<'a> {
    object: &'a Map<String, Value>,
    /// What to put before a key in messages.
    path: &'a str,
}

impl<'a> Keys<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A value as `read` takes it; an error names the key.
    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => {
                let found: String = value.to_string().chars().take(60).collect();
                Err(LoadError::Inconsistent(format!(
                    "config.json: {}{key} should be {expected}, but it is {found}",
                    self.path
                )))
            }
        }
    }

    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, LoadError> {
        value.ok_or_else(|| {
            LoadError::Inconsistent(format!("config.json does not say {}{key}", self.path))
        })
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, LoadError> {
        self.read(key, "a number from 1 to 16777216", |value| {
            let size = usize::try_from(value.as_u64()?).ok()?;
            (1..=1 << 24).contains(&size).then_some(size)
        })
    }

    fn size(&self, key: &str) -> Result<usize, LoadError> {
        self.need(key, self.optional_size(key)?)
    }

    fn optional_positive(&self, key: &str) -> Result<Option<f64>, LoadError> {
        self.read(key, "a number above 0", |value| {
            value.as_f64().filter(|number| *number > 0.0)
        })
    }

    fn positive(&self, key: &str) -> Result<f64, LoadError> {
        self.need(key, self.optional_positive(key)?)
    }

    fn flag(&self, key: &str) -> Result<bool, LoadError> {
        let flag = self.read(key, "true or false", Value::as_bool)?;
        Ok(flag.unwrap_or(false))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, LoadError> {
        self.read(key, "text", Value::as_str)
    }

    fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, LoadError> {
        self.read(key, "an object", Value::as_object)
    }
}

/// Longest text of a `config.json`, in bytes. Real ones take some KiB.
pub const MAX_CONFIG_BYTES: u64 = 256 << 10;
/// Most values in it.
const MAX_CONFIG_VALUES: u32 = 16 << 10;

impl HfConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// [`LoadError::Unsupported`] when the model is not of type `llama` or uses something this engine
    /// lacks, [`LoadError::Inconsistent`] when a key is missing or impossible; the message names it.
    pub fn parse(json: &[u8]) -> Result<Self, LoadError> {
        if json.len() as u64 > MAX_CONFIG_BYTES {
            return Err(LoadError::Inconsistent(format!(
                "config.json has {} bytes, more than the limit of {MAX_CONFIG_BYTES}",
                json.len()
            )));
        }
        let object = weights::json::parse_small(json, MAX_CONFIG_VALUES).map_err(|error| {
            LoadError::Inconsistent(format!("config.json is not a JSON object ({error})"))
        })?;
        let keys = Keys {
            object: &object,
            path: "",
        };
        check_kind(&keys)?;
        let (dim, heads) = (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
        let mut config = Config {
            layers: keys.size("num_hidden_layers")?,
            dim,
            heads,
            kv_heads: keys.optional_size("num_key_value_heads")?.unwrap_or(heads),
            head_dim: keys.optional_size("head_dim")?.unwrap_or(dim / heads),
            ffn: keys.size("intermediate_size")?,
            vocab: keys.size("vocab_size")?,
            norm_eps: keys.positive("rms_norm_eps")? as f32,
            context: keys.size("max_position_embeddings")?,
            rope: Rope {
                theta: 1.0,
                linear: 1.0,
                divisors: None,
                pairing: Pairing::Halves,
            },
        };
        // First, because there are as many divisors as half a head is wide.
        config.check().map_err(LoadError::Unsupported)?;
        read_rope(&keys, config.head_dim, &mut config.rope)?;
        Ok(Self {
            config,
            tied: keys.flag("tie_word_embeddings")?,
        })
    }
}

/// Refuses what this engine does not run.
fn check_kind(keys: &Keys<'_>) -> Result<(), LoadError> {
    let unsupported = |message: String| Err(LoadError::Unsupported(message));
    let kind = keys.need("model_type", keys.text("model_type")?)?;
    if kind != "llama" {
        return unsupported(format!(
            "config.json: model_type is \"{kind}\"; this engine runs \"llama\""
        ));
    }
    for key in ["attention_bias", "mlp_bias"] {
        if keys.flag(key)? {
            return unsupported(format!(
                "config.json: {key} is true; this engine runs models without biases"
            ));
        }
    }
    if let Some(activation) = keys.text("hidden_act")?
        && activation != "silu"
    {
        return unsupported(format!(
            "config.json: hidden_act is \"{activation}\"; this engine knows \"silu\""
        ));
    }
    if keys.object("quantization_config")?.is_some() {
        return unsupported(
            "config.json: quantization_config is there; this engine reads safetensors files of BF16, \
             F16 or F32, and quantized models from GGUF files"
                .to_owned(),
        );
    }
    Ok(())
}

/// The rotary embedding: `rope_theta` and `rope_scaling`, or both in `rope_parameters`, where newer
/// files have them.
fn read_rope(keys: &Keys<'_>, head_dim: usize, rope: &mut Rope) -> Result<(), LoadError> {
    let newer = keys.object("rope_parameters")?;
    let (object, path) = match newer {
        Some(object) => (Some(object), "rope_parameters."),
        None => (keys.object("rope_scaling")?, "rope_scaling."),
    };
    let nothing = Map::new();
    let scaling = Keys {
        object: object.unwrap_or(&nothing),
        path,
    };
    let theta = match scaling.optional_positive("rope_theta")? {
        Some(theta) => Some(theta),
        None => keys.optional_positive("rope_theta")?,
    };
    rope.theta = theta.unwrap_or(10_000.0);
    for keys in [keys, &scaling] {
        if keys
            .optional_positive("partial_rotary_factor")?
            .unwrap_or(1.0)
            != 1.0
        {
            return Err(LoadError::Unsupported(format!(
                "config.json: {}partial_rotary_factor is not 1; this engine rotates whole heads",
                keys.path
            )));
        }
    }
    let kind = match scaling.text("rope_type")? {
        Some(kind) => Some(kind),
        None => scaling.text("type")?,
    };
    match kind {
        None | Some("default") => {}
        Some("linear") => rope.linear = scaling.positive("factor")?,
        Some("llama3") => rope.divisors = Some(read_llama3(&scaling, rope.theta, head_dim)?),
        Some(other) => {
            return Err(LoadError::Unsupported(format!(
                "config.json: {path}rope_type is \"{other}\"; this engine knows \"default\", \
                 \"linear\" and \"llama3\""
            )));
        }
    }
    Ok(())
}

fn read_llama3(scaling: &Keys<'_>, theta: f64, head_dim: usize) -> Result<Vec<f32>, LoadError> {
    let factor = scaling.positive("factor")?;
    let low = scaling.positive("low_freq_factor")?;
    let high = scaling.positive("high_freq_factor")?;
    let context = scaling.positive("original_max_position_embeddings")?;
    if high <= low {
        return Err(LoadError::Inconsistent(format!(
            "config.json: {0}high_freq_factor is {high}, not above {0}low_freq_factor, {low}",
            scaling.path
        )));
    }
    Ok(llama3_divisors(theta, head_dim, factor, low, high, context))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The `config.json` of Llama 3.2 1B, as far as it is read, with these keys changed.
    fn parse(changes: Value) -> Result<HfConfig, LoadError> {
        let mut value = json!({
            "model_type": "llama",
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "vocab_size": 128256,
            "max_position_embeddings": 131072,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192
            },
            "hidden_act": "silu",
            "attention_bias": false,
            "mlp_bias": false,
            "tie_word_embeddings": true
        });
        let changes = changes.as_object().expect("an object").clone();
        value.as_object_mut().expect("an object").extend(changes);
        HfConfig::parse(value.to_string().as_bytes())
    }

    #[test]
    fn shape_and_constants_are_read() {
        let HfConfig { config, tied } = parse(json!({})).expect("a good file");
        let divisors = llama3_divisors(500_000.0, 64, 32.0, 1.0, 4.0, 8192.0);
        let expected = Config {
            layers: 16,
            dim: 2048,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            ffn: 8192,
            vocab: 128_256,
            norm_eps: 1e-5,
            context: 131_072,
            rope: Rope {
                theta: 500_000.0,
                linear: 1.0,
                divisors: Some(divisors),
                pairing: Pairing::Halves,
            },
        };
        assert_eq!((config, tied), (expected, true));
    }

    #[test]
    fn absent_and_null_keys_have_the_usual_values() {
        let changes = json!({
            "num_key_value_heads": null, "head_dim": null, "rope_theta": null,
            "rope_scaling": null, "tie_word_embeddings": null, "attention_bias": null
        });
        let HfConfig { config, tied } = parse(changes).expect("a good file");
        assert_eq!((config.kv_heads, config.head_dim, tied), (32, 64, false));
        assert_eq!((config.rope.theta, config.rope.linear), (10_000.0, 1.0));
        assert_eq!(config.rope.divisors, None);
    }

    #[test]
    fn older_and_newer_names_of_the_rotary_embedding_mean_the_same() {
        let plain = parse(json!({})).expect("a good file");
        let llama3 = json!({
            "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192
        });
        let newer = json!({"rope_theta": null, "rope_scaling": null, "rope_parameters": llama3});
        assert_eq!(parse(newer).expect("a good file"), plain);

        let linear = json!({"rope_scaling": {"type": "linear", "factor": 4}});
        let rope = parse(linear).expect("a good file").config.rope;
        assert_eq!((rope.linear, rope.divisors), (4.0, None));
        let newer = json!({"rope_scaling": null, "rope_parameters": {"rope_type": "default", "rope_theta": 7}});
        let rope = parse(newer).expect("a good file").config.rope;
        assert_eq!((rope.theta, rope.linear, rope.divisors), (7.0, 1.0, None));
    }

    #[test]
    fn what_cannot_run_is_named() {
        for (changes, named) in [
            (json!({"model_type": "qwen2"}), "model_type is \"qwen2\""),
            (json!({"attention_bias": true}), "attention_bias"),
            (json!({"mlp_bias": true}), "mlp_bias"),
            (json!({"hidden_act": "gelu"}), "hidden_act"),
            (json!({"quantization_config": {}}), "quantization_config"),
            (
                json!({"rope_scaling": {"type": "dynamic", "factor": 2}}),
                "rope_scaling.rope_type is \"dynamic\"",
            ),
            (
                json!({"partial_rotary_factor": 0.5}),
                "partial_rotary_factor",
            ),
            (json!({"num_key_value_heads": 7}), "query heads"),
        ] {
            let error = parse(changes).expect_err(named);
            assert!(matches!(error, LoadError::Unsupported(_)), "{error}");
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_impossible_is_named() {
        let llama3 = |key: &str, value: Value| {
            let mut scaling = json!({
                "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                "original_max_position_embeddings": 8192
            });
            scaling[key] = value;
            json!({"rope_scaling": scaling})
        };
        for (changes, named) in [
            (json!({"model_type": null}), "model_type"),
            (json!({"hidden_size": null}), "hidden_size"),
            (json!({"hidden_size": "2048"}), "hidden_size"),
            (json!({"num_hidden_layers": 0}), "num_hidden_layers"),
            (json!({"num_hidden_layers": -1}), "num_hidden_layers"),
            (json!({"vocab_size": 1u64 << 40}), "vocab_size"),
            (json!({"rms_norm_eps": null}), "rms_norm_eps"),
            (json!({"rope_theta": 0}), "rope_theta"),
            (json!({"rope_scaling": "llama3"}), "rope_scaling"),
            (json!({"tie_word_embeddings": 1}), "tie_word_embeddings"),
            (llama3("factor", Value::Null), "rope_scaling.factor"),
            (llama3("factor", json!(-8)), "rope_scaling.factor"),
            (
                llama3("high_freq_factor", json!(1)),
                "rope_scaling.high_freq_factor",
            ),
            (
                llama3("original_max_position_embeddings", Value::Null),
                "original_max_position_embeddings",
            ),
        ] {
            let error = parse(changes).expect_err(named);
            assert!(matches!(error, LoadError::Inconsistent(_)), "{error}");
            assert!(error.to_string().contains(named), "{error}");
        }
        for text in ["", "[1]", "{\"model_type\":"] {
            let error = HfConfig::parse(text.as_bytes()).expect_err("no object");
            assert!(error.to_string().contains("config.json"), "{error}");
        }
    }
}
