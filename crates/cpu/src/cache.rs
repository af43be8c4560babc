//! Keys and values of the tokens so far, in single precision.

use std::array::from_fn;

use model::BackendError;

use crate::matrix::reserve;

/// Eight numbers side by side.
pub type Lanes = [f32; 8];

/// Tokens by which a cache grows.
const STEP: usize = 256;

/// Keys and values of one layer.
///
/// Keys of eight positions are interleaved, so that a query meets eight at once: per head and eight
/// positions, `head_dim` vectors. Values have eight elements of a head side by side: per head and eight
/// elements, a vector per position.
#[derive(Debug)]
pub struct Cache {
    kv_heads: usize,
    head_dim: usize,
    capacity: usize,
    keys: Vec<Lanes>,
    values: Vec<Lanes>,
}

impl Cache {
    /// An empty cache.
    pub fn new(kv_heads: usize, head_dim: usize) -> Self {
        Self {
            kv_heads,
            head_dim,
            capacity: 0,
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        size_of::<Lanes>() * (self.keys.capacity() + self.values.capacity())
    }

    /// Bytes for each token of capacity.
    pub fn memory_per_token(&self) -> usize {
        4 * self.kv_heads * (self.head_dim + self.head_dim.next_multiple_of(8))
    }

    /// Vectors that eight elements of a value fill.
    fn runs(&self) -> usize {
        self.head_dim.div_ceil(8)
    }

    /// Makes room for `tokens` tokens and keeps what there is.
    ///
    /// # Errors
    /// [`BackendError::Memory`]; the cache is as it was.
    pub fn reserve(&mut self, tokens: usize) -> Result<(), BackendError> {
        if tokens <= self.capacity {
            return Ok(());
        }
        let capacity = tokens.next_multiple_of(STEP);
        let (old, new) = (self.capacity / 8, capacity / 8);
        let keys = grown(
            &self.keys,
            self.kv_heads,
            old * self.head_dim,
            new * self.head_dim,
        )?;
        let runs = self.kv_heads * self.runs();
        self.values = grown(&self.values, runs, self.capacity, capacity)?;
        self.keys = keys;
        self.capacity = capacity;
        Ok(())
    }

    /// Writes keys and values, `tokens × kv_heads head_dim` each, at positions `past..`.
    pub fn write(&mut self, keys: &[f32], values: &[f32], past: usize) {
        let (head_dim, runs, capacity) = (self.head_dim, self.runs(), self.capacity);
        let width = self.kv_heads * head_dim;
        let tokens = keys.chunks_exact(width).zip(values.chunks_exact(width));
        for (position, (keys, values)) in (past..).zip(tokens) {
            for head in 0..self.kv_heads {
                let tile = (head * capacity / 8 + position / 8) * head_dim;
                let to = &mut self.keys[tile..][..head_dim];
                for (to, key) in to.iter_mut().zip(&keys[head * head_dim..]) {
                    to[position % 8] = *key;
                }
                let values = &values[head * head_dim..][..head_dim];
                for (run, values) in values.chunks(8).enumerate() {
                    let to = &mut self.values[(head * runs + run) * capacity + position];
                    *to = from_fn(|i| values.get(i).copied().unwrap_or(0.0));
                }
            }
        }
    }

    /// Keys of a head at positions `8 tile..`. `head_dim`.
    #[inline(always)]
    pub fn keys(&self, head: usize, tile: usize) -> &[Lanes] {
        let first = (head * self.capacity / 8 + tile) * self.head_dim;
        &self.keys[first..][..self.head_dim]
    }

    /// Elements `8 run..` of the values of a head at positions `..count`. `count`.
    #[inline(always)]
    pub fn values(&self, head: usize, run: usize, count: usize) -> &[Lanes] {
        let first = (head * self.runs() + run) * self.capacity;
        &self.values[first..][..count]
    }
}

/// A copy in which each of `runs` equal runs has grown from `old` to `new` vectors.
fn grown(from: &[Lanes], runs: usize, old: usize, new: usize) -> Result<Vec<Lanes>, BackendError> {
    let mut to = Vec::new();
    reserve(&mut to, runs * new)?;
    for run in 0..runs {
        to.extend_from_slice(&from[run * old..][..old]);
        to.resize((run + 1) * new, [0.0; 8]);
    }
    Ok(to)
}
