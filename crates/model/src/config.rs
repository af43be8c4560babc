//! Shape and constants of a Llama model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Shape and constants of a Llama model, independent of the file they come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Transformer blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub dim: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads (grouped-query attention); divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Width of the feed-forward layer.
    pub ffn: usize,
    /// Entries of the vocabulary.
    pub vocab: usize,
    /// Epsilon of the RMS norms.
    pub norm_eps: f32,
    /// Longest context the model was made for, in tokens.
    pub context: usize,
    /// Rotary embedding.
    pub rope: Rope,
}

/// Rotary position embedding (Su et al. 2021).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rope {
    /// Base of the frequencies (10,000 in Llama 2, 500,000 in Llama 3).
    pub theta: f64,
    /// Positions are divided by this (linear scaling); 1 for none.
    pub linear: f64,
    /// One divisor per frequency, as `rope_freqs.weight` of a GGUF stores the Llama 3 scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divisors: Option<Vec<f32>>,
    /// Which elements of a head the file rotates together.
    pub pairing: Pairing,
}

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pairing {
    /// Neighbours, as GGUF stores Llama's projections.
    Adjacent,
    /// Element `i` and `i + head_dim / 2`, as Hugging Face stores them.
    Halves,
}

/// The divisors of Llama 3.1 and 3.2: frequencies whose wave is longer than the original context are
/// slowed by `factor`, short waves not at all, with a smooth passage between.
///
/// Source: the published inference code of Llama 3.1 and `rope_scaling` of its configuration
/// (`rope_type` "llama3").
pub fn llama3_divisors(
    theta: f64,
    head_dim: usize,
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    original_context: f64,
) -> Vec<f32> {
    (0..head_dim / 2)
        .map(|pair| {
            let frequency = theta.powf(-2.0 * pair as f64 / head_dim as f64);
            let waves = original_context * frequency / std::f64::consts::TAU;
            let smooth = (waves - low_freq_factor) / (high_freq_factor - low_freq_factor);
            let smooth = smooth.clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        })
        .collect()
}

impl Rope {
    /// Angular frequency of each of the `head_dim / 2` pairs, in radians per position.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f64> {
        (0..head_dim / 2)
            .map(|pair| {
                let plain = self.theta.powf(-2.0 * pair as f64 / head_dim as f64);
                let divisor = self
                    .divisors
                    .as_ref()
                    .and_then(|all| all.get(pair))
                    .map_or(1.0, |divisor| f64::from(*divisor));
                plain / divisor / self.linear
            })
            .collect()
    }
}

/// Appends cosine and sine of every frequency at these positions, interleaved, in single precision.
///
/// Angles are formed in double precision: at 100,000 positions an `f32` angle is off by 0.01.
pub fn rotations(frequencies: &[f64], positions: std::ops::Range<usize>, table: &mut Vec<f32>) {
    for position in positions {
        for frequency in frequencies {
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            table.push(cos as f32);
            table.push(sin as f32);
        }
    }
}

/// Largest figure of a shape.
const MAX_SIZE: usize = 1 << 24;
/// Most layers.
const MAX_LAYERS: usize = 1 << 10;
/// Largest width of a layer.
const MAX_WIDTH: usize = 1 << 20;

impl Config {
    /// The figures as JSON, for the manifest of a package of shards.
    pub fn to_json(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(object)) => object,
            // Numbers and lists of them are always an object of JSON.
            _ => Map::new(),
        }
    }

    /// Reads figures that [`Config::to_json`] wrote, and checks them.
    ///
    /// # Errors
    /// What is wrong with them, with the names of the figures.
    pub fn from_json(json: &Map<String, Value>) -> Result<Self, String> {
        let config = Self::deserialize(json).map_err(|error| {
            let error: String = error.to_string().chars().take(200).collect();
            format!("the model's figures cannot be read ({error})")
        })?;
        for (name, size) in [
            ("layers", config.layers),
            ("dim", config.dim),
            ("heads", config.heads),
            ("kv_heads", config.kv_heads),
            ("head_dim", config.head_dim),
            ("ffn", config.ffn),
            ("vocab", config.vocab),
            ("context", config.context),
        ] {
            if !(1..=MAX_SIZE).contains(&size) {
                return Err(format!("{name} is {size}, which cannot be"));
            }
        }
        let positive = |number: f64| number.is_finite() && number > 0.0;
        let rope = &config.rope;
        for (name, number) in [
            ("norm_eps", config.norm_eps.into()),
            ("rope.theta", rope.theta),
            ("rope.linear", rope.linear),
        ] {
            if !positive(number) {
                return Err(format!("{name} is {number}, which cannot be"));
            }
        }
        if let Some(divisors) = &rope.divisors
            && (divisors.len() != config.head_dim / 2
                || !divisors.iter().all(|divisor| positive((*divisor).into())))
        {
            return Err(format!(
                "rope.divisors are not {} numbers above 0",
                config.head_dim / 2
            ));
        }
        config.check()?;
        Ok(config)
    }

    /// Whether this engine can run a model of this shape; otherwise why not.
    pub fn check(&self) -> Result<(), String> {
        let positive = |number: f64| number.is_finite() && number > 0.0;
        let sound = [
            (
                self.heads.is_multiple_of(self.kv_heads),
                "query heads are no multiple of key heads",
            ),
            (
                self.head_dim.is_multiple_of(4) && (4..=256).contains(&self.head_dim),
                "the head width is not a multiple of 4 up to 256",
            ),
            (
                self.dim.is_multiple_of(4) && self.ffn.is_multiple_of(4),
                "widths are not multiples of 4",
            ),
            (self.vocab <= MAX_SIZE, "the vocabulary is too large"),
            // Ten times what any model has. Products of these figures fit 32 bits.
            (
                self.layers <= MAX_LAYERS
                    && self.dim <= MAX_WIDTH
                    && self.ffn <= MAX_WIDTH
                    && self
                        .heads
                        .checked_mul(self.head_dim)
                        .is_some_and(|width| width <= MAX_WIDTH),
                "it has too many layers, or too wide ones",
            ),
            (
                positive(self.rope.theta) && positive(self.rope.linear),
                "the rotary base is not positive",
            ),
            (
                self.norm_eps >= 0.0 && self.norm_eps.is_finite(),
                "the epsilon of its norms is no number",
            ),
        ];
        match sound.iter().find(|(holds, _)| !holds) {
            Some((_, fault)) => Err(format!("this model cannot run here: {fault}")),
            None => Ok(()),
        }
    }

    /// Rows of the stacked query, key and value projection.
    pub fn qkv_rows(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Values that the KV cache holds per token: keys and values of all layers.
    pub fn cache_values_per_token(&self) -> usize {
        self.layers * 2 * self.kv_heads * self.head_dim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn llama3(factor: f64, head_dim: usize) -> Rope {
        Rope {
            theta: 500_000.0,
            linear: 1.0,
            divisors: Some(llama3_divisors(
                500_000.0, head_dim, factor, 1.0, 4.0, 8192.0,
            )),
            pairing: Pairing::Adjacent,
        }
    }

    /// The published rule, written as it is published: three cases by wavelength.
    fn published(pair: usize, head_dim: usize, factor: f64) -> f64 {
        let frequency = 500_000f64.powf(-2.0 * pair as f64 / head_dim as f64);
        let wavelength = std::f64::consts::TAU / frequency;
        if wavelength < 8192.0 / 4.0 {
            frequency
        } else if wavelength > 8192.0 / 1.0 {
            frequency / factor
        } else {
            let smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    }

    /// Llama 3.1 8B (factor 8, heads of 128) and Llama 3.2 1B (factor 32, heads of 64), up to the last
    /// position of their context.
    #[test]
    fn rotations_match_double_precision_to_the_end_of_the_context() {
        for (factor, head_dim) in [(8.0, 128), (32.0, 64)] {
            let frequencies = llama3(factor, head_dim).frequencies(head_dim);
            for position in [0usize, 1, 8191, 8192, 131_071] {
                let mut table = Vec::new();
                rotations(&frequencies, position..position + 1, &mut table);
                assert_eq!(table.len(), head_dim);
                for pair in 0..head_dim / 2 {
                    let exact = published(pair, head_dim, factor);
                    // Divisors are single precision, as the files store them.
                    assert!((frequencies[pair] / exact - 1.0).abs() < 1e-7);
                    let (sin, cos) = (position as f64 * exact).sin_cos();
                    // What a relative error of 6e-8 in the divisor can move an angle by.
                    let tolerance = 1e-7 + 6.1e-8 * position as f64 * exact;
                    assert!((f64::from(table[2 * pair]) - cos).abs() < tolerance);
                    assert!((f64::from(table[2 * pair + 1]) - sin).abs() < tolerance);
                    // And the table itself adds no error but its own rounding.
                    let (sin, cos) = (position as f64 * frequencies[pair]).sin_cos();
                    assert!((f64::from(table[2 * pair]) - cos).abs() < 6e-8);
                    assert!((f64::from(table[2 * pair + 1]) - sin).abs() < 6e-8);
                }
            }
        }
    }

    #[test]
    fn figures_are_written_and_read() {
        let config = Config {
            layers: 16,
            dim: 2048,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            ffn: 8192,
            vocab: 128_256,
            norm_eps: 1e-5,
            context: 131_072,
            rope: llama3(32.0, 64),
        };
        let json = config.to_json();
        assert_eq!(json["rope"]["pairing"], "adjacent");
        // Through text: single precision survives decimal digits.
        let text = serde_json::to_string(&json).expect("JSON");
        let json: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(Config::from_json(&json), Ok(config.clone()));
        for (key, value) in [
            ("layers", Value::from(0)),
            ("vocab", Value::from(1u64 << 40)),
            ("kv_heads", Value::from(7)),
            ("layers", Value::from(1025)),
            ("heads", Value::from(1 << 15)),
            ("dim", Value::from(1 << 21)),
            ("norm_eps", Value::from(-1.0)),
            ("norm_eps", Value::from(1e300)),
            ("head_dim", Value::from(32)),
            ("rope", Value::Null),
        ] {
            let mut json = json.clone();
            json.insert(key.to_owned(), value);
            let error = Config::from_json(&json).expect_err(key);
            assert!(error.len() > 10, "{error}");
        }
    }

    #[test]
    fn only_the_long_waves_are_slowed() {
        for factor in [8.0, 32.0] {
            let scaled = llama3(factor, 128).frequencies(128);
            assert_eq!(scaled[0], 1.0);
            let plain = 500_000f64.powf(-126.0 / 128.0);
            assert!((plain / scaled[63] - factor).abs() < 1e-6);
        }
    }
}
