//! Choosing the next token from logits.

/// How the next token is chosen. A temperature of 0 is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this.
    pub temperature: f32,
    /// Keep the k most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of tokens whose probability reaches this; 1 keeps all.
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

    /// Chooses a token. `index` counts the tokens of a generation, so that the choice depends on
    /// nothing but the logits, the settings and the place.
    ///
    /// The filters apply in the order temperature, top-k, min-p, top-p. Logits that are not finite
    /// are never chosen unless all are.
    pub fn choose(&self, logits: &[f32], index: u64) -> u32 {
        let mut candidates: Vec<(u32, f32)> = logits
            .iter()
            .enumerate()
            .filter(|(_, logit)| logit.is_finite())
            .map(|(id, logit)| (id as u32, *logit))
            .collect();
        let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if self.is_greedy() {
            return candidates
                .iter()
                .min_by(|a, b| order(a, b))
                .map_or(0, |best| best.0);
        }
        if self.top_k > 0 && self.top_k < candidates.len() {
            candidates.select_nth_unstable_by(self.top_k - 1, order);
            candidates.truncate(self.top_k);
        }
        candidates.sort_unstable_by(order);
        let Some(best) = candidates.first().map(|first| first.1) else {
            return 0;
        };
        let weights: Vec<f64> = candidates
            .iter()
            .map(|(_, logit)| f64::from((logit - best) / self.temperature).exp())
            .collect();
        let mut kept = weights
            .partition_point(|weight| *weight >= f64::from(self.min_p))
            .max(1);
        let total: f64 = weights[..kept].iter().sum();
        let mut mass = 0.0;
        for (place, weight) in weights[..kept].iter().enumerate() {
            mass += weight;
            if mass >= f64::from(self.top_p) * total {
                kept = place + 1;
                break;
            }
        }
        let total: f64 = weights[..kept].iter().sum();
        let mut point = uniform(self.seed, index) * total;
        for (candidate, weight) in candidates[..kept].iter().zip(&weights) {
            point -= weight;
            if point < 0.0 {
                return candidate.0;
            }
        }
        candidates[kept - 1].0
    }
}

/// A number in `[0, 1)` from a counter, by SplitMix64 (Steele, Lea, Flood 2014).
fn uniform(seed: u64, index: u64) -> f64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, f32::NAN];

    #[test]
    fn greedy_takes_the_first_of_equals() {
        assert_eq!(Sampling::GREEDY.choose(&LOGITS, 0), 1);
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
        assert_eq!(seen(Sampling { top_p: 0.3, ..all }), [1]);
    }

    #[test]
    fn frequencies_follow_probabilities() {
        let sampling = Sampling {
            temperature: 1.0,
            seed: 1,
            ..Sampling::GREEDY
        };
        let logits = [0.0f32, (3.0f32).ln()];
        let ones = (0..20_000)
            .filter(|i| sampling.choose(&logits, *i) == 1)
            .count();
        assert!((ones as f64 / 20_000.0 - 0.75).abs() < 0.015, "{ones}");
    }

    #[test]
    fn same_seed_same_tokens() {
        let sampling = Sampling {
            temperature: 0.8,
            seed: 42,
            ..Sampling::GREEDY
        };
        let run = || {
            (0..50)
                .map(|i| sampling.choose(&LOGITS, i))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
