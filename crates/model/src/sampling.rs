//! Choosing the next token from logits.
//!
//! The tokens that the filters keep are those whose logit reaches one threshold, and the choice among
//! them is made with Gumbel noise (Maddison, Tarlow, Minka 2014: the argument of the largest
//! `logit / T + G` is distributed as the softmax). Both can be computed in any order, so that GPU and
//! CPU choose the same tokens.

/// How the next token is chosen. A temperature of 0 is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this.
    pub temperature: f32,
    /// Keep the k most probable tokens, and those that equal the last of them; 0 keeps all.
    pub top_k: usize,
    /// Keep the most probable tokens until their probability reaches this, and those that equal the
    /// last of them; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens below this share of the best token's probability; 0 keeps all.
    pub min_p: f32,
    /// Seed: the same seed and settings give the same tokens.
    pub seed: u64,
}

impl Sampling {
    /// Always the most probable token.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: 0,
    };

    /// Whether the most probable token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0
    }

    /// The lowest logit that the filters keep. They apply in the order top-k, min-p, top-p, to the
    /// probabilities at this temperature; each to what the ones before it kept.
    pub fn threshold(&self, logits: &[f32]) -> f32 {
        let mut sorted: Vec<f32> = logits.iter().copied().filter(|l| l.is_finite()).collect();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let Some(&best) = sorted.first() else {
            return f32::NEG_INFINITY;
        };
        let mut threshold = f32::NEG_INFINITY;
        if self.top_k > 0 && self.top_k < sorted.len() {
            threshold = sorted[self.top_k - 1];
        }
        if self.min_p > 0.0 {
            threshold = threshold.max(best + self.temperature * self.min_p.min(1.0).ln());
        }
        if self.top_p < 1.0 {
            let kept = sorted.partition_point(|logit| *logit >= threshold);
            let weight = |logit: f32| f64::from((logit - best) / self.temperature).exp();
            let total: f64 = sorted[..kept].iter().map(|logit| weight(*logit)).sum();
            let mut mass = 0.0;
            for logit in &sorted[..kept] {
                mass += weight(*logit);
                if mass >= f64::from(self.top_p) * total {
                    threshold = *logit;
                    break;
                }
            }
        }
        threshold
    }

    /// Chooses a token. `index` counts the tokens of a generation, so that the choice depends on
    /// nothing but the logits, the settings and the place. Logits that are not finite are never
    /// chosen unless all are; among equals the lowest id wins.
    pub fn choose(&self, logits: &[f32], index: u64) -> u32 {
        let scores: Box<dyn Iterator<Item = f32>> = if self.is_greedy() {
            Box::new(logits.iter().copied())
        } else {
            let threshold = self.threshold(logits);
            let score = move |(id, logit): (usize, &f32)| {
                if *logit >= threshold {
                    logit / self.temperature + gumbel(self.seed, index, id as u32)
                } else {
                    f32::NEG_INFINITY
                }
            };
            Box::new(logits.iter().enumerate().map(score))
        };
        let mut best = (0, f32::NEG_INFINITY);
        for (id, score) in scores.enumerate() {
            if score.is_finite() && score > best.1 {
                best = (id as u32, score);
            }
        }
        best.0
    }
}

/// What a model thought of its next token, at temperature 1 and before any filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// Probability of the token that was chosen.
    pub probability: f32,
    /// Entropy of the distribution in nats.
    pub entropy: f32,
    /// The most probable tokens with their probabilities, best first.
    pub top: Vec<(u32, f32)>,
}

impl Outlook {
    /// Reads it from logits, for a chosen token, with `count` alternatives.
    pub fn new(logits: &[f32], chosen: u32, count: usize) -> Self {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: f32| f64::from(logit - best).exp();
        let total: f64 = logits.iter().map(|logit| weight(*logit)).sum();
        let probability = |id: usize| logits.get(id).map_or(0.0, |l| weight(*l) / total);
        let entropy: f64 = (0..logits.len())
            .map(probability)
            .filter(|p| *p > 0.0)
            .map(|p| -p * p.ln())
            .sum();
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let order = |a: &u32, b: &u32| {
            let (x, y) = (logits[*a as usize], logits[*b as usize]);
            y.total_cmp(&x).then(a.cmp(b))
        };
        if count < ids.len() {
            ids.select_nth_unstable_by(count, order);
            ids.truncate(count);
        }
        ids.sort_unstable_by(order);
        Self {
            probability: probability(chosen as usize) as f32,
            entropy: entropy as f32,
            top: ids
                .into_iter()
                .map(|id| (id, probability(id as usize) as f32))
                .collect(),
        }
    }
}

/// Standard Gumbel noise for one token at one place.
///
/// A uniform `x` becomes the exponential `-ln(1 - x)`, whose logarithm is the noise. Small `x`, which
/// decide the largest noise, go through a series, since a logarithm near 1 loses all its digits in
/// single precision.
pub fn gumbel(seed: u64, index: u64, id: u32) -> f32 {
    let bits = pcg4d([seed as u32, (seed >> 32) as u32, index as u32, id])[0];
    let x = ((bits >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0);
    let exponential = if x < 0.02 {
        x * (1.0 + x * (0.5 + x * (1.0 / 3.0 + x * 0.25)))
    } else {
        -(1.0 - x).ln()
    };
    -exponential.ln()
}

/// A hash of four words (Jarzynski, Olano 2020: Hash Functions for GPU Rendering, pcg4d).
fn pcg4d(v: [u32; 4]) -> [u32; 4] {
    let mut v = v.map(|x| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let mix = |v: &mut [u32; 4]| {
        for (to, a, b) in [(0, 1, 3), (1, 2, 0), (2, 0, 1), (3, 1, 2)] {
            v[to] = v[to].wrapping_add(v[a].wrapping_mul(v[b]));
        }
    };
    mix(&mut v);
    v = v.map(|x| x ^ (x >> 16));
    mix(&mut v);
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, f32::NAN];

    #[test]
    fn greedy_takes_the_first_of_equals() {
        assert_eq!(Sampling::GREEDY.choose(&LOGITS, 0), 1);
        assert_eq!(Sampling::GREEDY.choose(&[f32::NAN; 3], 0), 0);
    }

    #[test]
    fn filters_keep_what_they_say() {
        let all = Sampling {
            temperature: 1.0,
            seed: 7,
            ..Sampling::GREEDY
        };
        let seen = |sampling: Sampling| {
            let mut ids: Vec<u32> = (0..2000).map(|i| sampling.choose(&LOGITS, i)).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(seen(all), [0, 1, 2, 3]);
        assert_eq!(seen(Sampling { top_k: 2, ..all }), [1, 3]);
        assert_eq!(seen(Sampling { min_p: 0.3, ..all }), [1, 2, 3]);
        assert_eq!(seen(Sampling { top_p: 0.3, ..all }), [1, 3]);
        let sharp = Sampling {
            temperature: 0.05,
            top_p: 0.99,
            ..all
        };
        assert_eq!(seen(sharp), [1, 3]);
    }

    #[test]
    fn frequencies_follow_probabilities() {
        let sampling = Sampling {
            temperature: 1.0,
            seed: 1,
            ..Sampling::GREEDY
        };
        let logits = [0.0f32, (3.0f32).ln(), (6.0f32).ln()];
        let mut counts = [0.0f64; 3];
        for i in 0..30_000 {
            counts[sampling.choose(&logits, i) as usize] += 1.0 / 30_000.0;
        }
        for (count, expected) in counts.iter().zip([0.1, 0.3, 0.6]) {
            assert!((count - expected).abs() < 0.012, "{counts:?}");
        }
    }

    #[test]
    fn noise_is_gumbel_noise() {
        // Mean: Euler's constant; variance: pi² / 6.
        let n = 100_000;
        let noise: Vec<f64> = (0..n).map(|i| f64::from(gumbel(3, i, 5))).collect();
        let mean = noise.iter().sum::<f64>() / n as f64;
        let variance = noise.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((mean - 0.577_216).abs() < 0.02, "{mean}");
        assert!((variance - 1.644_934).abs() < 0.05, "{variance}");
    }

    #[test]
    fn seed_place_and_nothing_else_decide() {
        let sampling = Sampling {
            temperature: 0.8,
            seed: 42,
            ..Sampling::GREEDY
        };
        let logits: Vec<f32> = (0..50).map(|i| (i % 7) as f32 * 0.1).collect();
        let run = |sampling: Sampling| -> Vec<u32> {
            (0..50).map(|i| sampling.choose(&logits, i)).collect()
        };
        assert_eq!(run(sampling), run(sampling));
        let other = Sampling {
            seed: 42 + (1 << 32),
            ..sampling
        };
        assert_ne!(run(sampling), run(other));
    }

    #[test]
    fn the_outlook_is_the_softmax() {
        let outlook = Outlook::new(&[0.0, (3.0f32).ln(), 0.0, 0.0], 2, 2);
        assert!((outlook.probability - 1.0 / 6.0).abs() < 1e-6);
        let entropy = 0.5 * 2.0f32.ln() + 0.5 * 6.0f32.ln();
        assert!((outlook.entropy - entropy).abs() < 1e-5);
        assert_eq!(outlook.top[0].0, 1);
        assert_eq!(outlook.top[1].0, 0);
        assert!((outlook.top[0].1 - 0.5).abs() < 1e-6);
    }
}
