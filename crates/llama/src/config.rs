//! Shape and constants of a Llama model.

/// Shape and constants of a Llama model, independent of the file they come from.
#[derive(Clone, Debug, PartialEq)]
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

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies (10,000 in Llama 2, 500,000 in Llama 3).
    pub theta: f64,
    /// Positions are divided by this (linear scaling); 1 for none.
    pub linear: f64,
    /// One divisor per frequency, as `rope_freqs.weight` of a GGUF stores the Llama 3 scaling.
    pub divisors: Option<Vec<f32>>,
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

    /// Cosine and sine of every pair at positions `0..positions`, interleaved, in single precision.
    /// Angles are formed in double precision: at 100,000 positions an `f32` angle is off by 0.01.
    pub fn table(&self, head_dim: usize, positions: usize) -> Vec<f32> {
        let frequencies = self.frequencies(head_dim);
        let mut table = Vec::with_capacity(positions * head_dim);
        for position in 0..positions {
            for frequency in &frequencies {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                table.push(cos as f32);
                table.push(sin as f32);
            }
        }
        table
    }
}

impl Config {
    /// Rows of the fused query, key and value projection.
    pub fn qkv_rows(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Bytes of KV cache per token.
    pub fn cache_bytes_per_token(&self) -> u64 {
        (self.layers * 2 * self.kv_heads * self.head_dim * 4) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values: the published rule of Llama 3.1 evaluated in double precision.
    fn llama3_divisors(theta: f64, head_dim: usize, factor: f64, original: f64) -> Vec<f32> {
        let (low, high) = (1.0, 4.0);
        (0..head_dim / 2)
            .map(|pair| {
                let frequency = theta.powf(-2.0 * pair as f64 / head_dim as f64);
                let wavelength = std::f64::consts::TAU / frequency;
                if wavelength < original / high {
                    1.0
                } else if wavelength > original / low {
                    factor as f32
                } else {
                    let smooth = (original / wavelength - low) / (high - low);
                    (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
                }
            })
            .collect()
    }

    #[test]
    fn divisors_slow_only_the_long_waves() {
        for factor in [8.0, 32.0] {
            let rope = Rope {
                theta: 500_000.0,
                linear: 1.0,
                divisors: Some(llama3_divisors(500_000.0, 128, factor, 8192.0)),
            };
            let plain = Rope {
                divisors: None,
                ..rope.clone()
            };
            let (scaled, plain) = (rope.frequencies(128), plain.frequencies(128));
            assert_eq!(scaled[0], plain[0]);
            assert!((plain[63] / scaled[63] - factor).abs() < 1e-9);
        }
    }

    #[test]
    fn table_matches_double_precision_far_out() {
        let rope = Rope {
            theta: 500_000.0,
            linear: 1.0,
            divisors: None,
        };
        let positions = 8193;
        let table = rope.table(64, positions);
        for position in [0, 1, 8191, 8192] {
            for (pair, frequency) in rope.frequencies(64).iter().enumerate() {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                let at = (position * 32 + pair) * 2;
                assert!((f64::from(table[at]) - cos).abs() < 1e-7);
                assert!((f64::from(table[at + 1]) - sin).abs() < 1e-7);
            }
        }
    }
}
