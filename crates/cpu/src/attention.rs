//! Attention of some tokens to all before them and themselves.

use std::array::from_fn;

use crate::cache::{Cache, Lanes};
use crate::math::softmax;
use crate::product::float_tile;
use crate::simd::{Simd, Task};

/// Queries that are answered together.
const TILE: usize = 4;

/// Scores of the queries that are answered together.
pub type Scores = [Vec<Lanes>; TILE];

/// Attention over a layer's cache, which holds the tokens' own keys and values already.
pub struct Attention<'a> {
    /// Keys and values.
    pub cache: &'a Cache,
    /// Position of the first token.
    pub past: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rotated queries, divided by the root of the head's width. `tokens × heads head_dim`.
    pub queries: &'a [f32],
    /// Buffers.
    pub scores: &'a mut Scores,
    /// `tokens × heads head_dim`.
    pub out: &'a mut [f32],
}

impl Task for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let tokens = self.queries.len() / (self.heads * self.head_dim);
        let queries = tokens * (self.heads / self.kv_heads);
        for kv_head in 0..self.kv_heads {
            let mut first = 0;
            while first + TILE <= queries {
                self.answer::<S, TILE>(simd, kv_head, first);
                first += TILE;
            }
            for first in first..queries {
                self.answer::<S, 1>(simd, kv_head, first);
            }
        }
    }
}

impl Attention<'_> {
    /// Answers queries `first..first + T` of those that share `kv_head`, in the order of the tokens.
    #[inline(always)]
    fn answer<S: Simd, const T: usize>(&mut self, simd: S, kv_head: usize, first: usize) {
        let (width, group) = (self.head_dim, self.heads / self.kv_heads);
        let token = |i: usize| (first + i) / group;
        // Where a query and its answer are.
        let at = |i: usize| {
            token(i) * self.heads * width + (kv_head * group + (first + i) % group) * width
        };
        let seen: [usize; T] = from_fn(|i| self.past + token(i) + 1);
        let most = seen[T - 1];
        let queries: [&[f32]; T] = from_fn(|i| &self.queries[at(i)..][..width]);
        for scores in &mut self.scores[..T] {
            scores.resize(most.div_ceil(8), [0.0; 8]);
        }
        for tile in 0..most.div_ceil(8) {
            let products = float_tile(simd, self.cache.keys(kv_head, tile), queries);
            for (scores, product) in self.scores.iter_mut().zip(products) {
                simd.store(product, &mut scores[tile]);
            }
        }
        let mut totals = [0.0; T];
        for (i, total) in totals.iter_mut().enumerate() {
            *total = softmax(simd, &mut self.scores[i], seen[i]);
        }
        let shares: [&[f32]; T] = from_fn(|i| self.scores[i].as_flattened());
        for run in 0..width.div_ceil(8) {
            let sums = float_tile(simd, self.cache.values(kv_head, run, most), shares);
            for (i, sum) in sums.into_iter().enumerate() {
                let mut lanes = [0.0; 8];
                simd.store(simd.mul(sum, simd.splat(1.0 / totals[i])), &mut lanes);
                let to = &mut self.out[at(i)..][..width];
                let to = &mut to[8 * run..width.min(8 * run + 8)];
                to.copy_from_slice(&lanes[..to.len()]);
            }
        }
    }
}
