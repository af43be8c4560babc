//! Python's `random.Random`: the Mersenne Twister MT19937, and what is drawn from it.

use std::collections::HashSet;

const N: usize = 624;
const M: usize = 397;

/// The generator. Equal seeds give Python's numbers.
pub struct Random {
    state: [u32; N],
    at: usize,
}

impl Random {
    /// `random.Random(seed)`. (Python takes a negative seed for its absolute value.)
    pub fn new(seed: i64) -> Self {
        let seed = seed.unsigned_abs();
        let mut key = vec![seed as u32];
        if seed > u64::from(u32::MAX) {
            key.push((seed >> 32) as u32);
        }
        let mut random = Self {
            state: [0; N],
            at: N,
        };
        random.seed(19_650_218);
        random.mix(&key);
        random
    }

    fn seed(&mut self, seed: u32) {
        self.state[0] = seed;
        for i in 1..N {
            let before = self.state[i - 1];
            let mixed = (before ^ (before >> 30)).wrapping_mul(1_812_433_253);
            self.state[i] = mixed.wrapping_add(i as u32);
        }
    }

    fn mix(&mut self, key: &[u32]) {
        let (mut i, mut j) = (1, 0);
        for _ in 0..N.max(key.len()) {
            let mixed = self.mixed(i, 1_664_525);
            self.state[i] = mixed.wrapping_add(key[j]).wrapping_add(j as u32);
            i = self.next_index(i);
            j = (j + 1) % key.len();
        }
        for _ in 1..N {
            self.state[i] = self.mixed(i, 1_566_083_941).wrapping_sub(i as u32);
            i = self.next_index(i);
        }
        self.state[0] = 0x8000_0000;
    }

    fn mixed(&self, i: usize, factor: u32) -> u32 {
        let before = self.state[i - 1];
        self.state[i] ^ (before ^ (before >> 30)).wrapping_mul(factor)
    }

    fn next_index(&mut self, i: usize) -> usize {
        if i + 1 < N {
            return i + 1;
        }
        self.state[0] = self.state[N - 1];
        1
    }

    fn next_word(&mut self) -> u32 {
        if self.at == N {
            for i in 0..N {
                let joined =
                    (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + M) % N] ^ (joined >> 1) ^ twist;
            }
            self.at = 0;
        }
        let mut word = self.state[self.at];
        self.at += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: u32) -> usize {
        let bits = 32 - limit.leading_zeros();
        loop {
            let number = self.next_word() >> (32 - bits);
            if number < limit {
                return number as usize;
            }
        }
    }

    /// `random.shuffle`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u32 + 1);
            items.swap(last, other);
        }
    }

    /// `random.sample(range(n), k)`; `k` is at most `n`.
    fn sample(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut set_size = 21.0;
        if k > 5 {
            set_size += 4f64.powf(((k as f64 * 3.0).ln() / 4f64.ln()).ceil());
        }
        if n as f64 <= set_size {
            let mut pool: Vec<usize> = (0..n).collect();
            let draws = (0..k).map(|drawn| {
                let at = self.below((n - drawn) as u32);
                let chosen = pool[at];
                pool[at] = pool[n - drawn - 1];
                chosen
            });
            return draws.collect();
        }
        let mut seen = HashSet::new();
        let mut chosen = Vec::with_capacity(k);
        while chosen.len() < k {
            let at = self.below(n as u32);
            if seen.insert(at) {
                chosen.push(at);
            }
        }
        chosen
    }
}

/// A negative number of entries to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Sample larger than population or is negative")]
pub struct SampleError;

/// The entries that a suite runs, by id: a sample, sorted as text; all of them, in their own order,
/// when no number is given or it is not below theirs.
///
/// # Errors
/// When the number is negative.
pub fn sample_entries(
    ids: &[String],
    number: Option<i64>,
    seed: i64,
) -> Result<Vec<String>, SampleError> {
    let Some(number) = number else {
        return Ok(ids.to_vec());
    };
    let number = usize::try_from(number).map_err(|_| SampleError)?;
    if number >= ids.len() {
        return Ok(ids.to_vec());
    }
    let drawn = Random::new(seed).sample(ids.len(), number);
    let mut sample: Vec<String> = drawn.into_iter().map(|at| ids[at].clone()).collect();
    sample.sort();
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_pythons() {
        // random.Random(42).getrandbits(32) three times, and so on.
        let mut random = Random::new(42);
        let words: Vec<u32> = (0..3).map(|_| random.next_word()).collect();
        assert_eq!(words, WORDS_42);
        assert_eq!(Random::new(0).next_word(), WORD_0);
        assert_eq!(Random::new(-(1 << 40) - 7).next_word(), WORD_WIDE);
        let mut items: Vec<usize> = (0..10).collect();
        Random::new(7).shuffle(&mut items);
        assert_eq!(items, SHUFFLED_7);
        assert_eq!(Random::new(3).sample(1000, 8), SAMPLED_3);
    }

    const WORDS_42: [u32; 3] = [2_746_317_213, 478_163_327, 107_420_369];
    const WORD_0: u32 = 3_626_764_237;
    const WORD_WIDE: u32 = 2_635_837_658;
    const SHUFFLED_7: [usize; 10] = [8, 3, 1, 4, 7, 0, 9, 6, 2, 5];
    const SAMPLED_3: [usize; 8] = [243, 606, 557, 133, 378, 937, 618, 485];
}
