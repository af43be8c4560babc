//! Products of matrices and activations.
//!
//! A product goes panel by panel. For one token the codes of a panel are used as they are unpacked; for
//! more they are unpacked to a buffer first, and then multiplied by several tokens at a time, so that
//! each load of weights serves several. The arithmetic for a token is the same either way.

use std::array::from_fn;
use std::marker::PhantomData;

use crate::format::{Format, Scalar};
use crate::input::{Group, Input};
use crate::matrix::{Matrix, PANEL, with_panels};
use crate::network::Arithmetic;
use crate::simd::{Level, Simd, Task};

/// Tokens that are multiplied together.
const TILE: usize = 4;

/// Buffers of a panel.
#[derive(Debug, Default)]
pub struct Scratch {
    floats: Vec<[f32; PANEL]>,
    groups: Vec<Unpacked>,
}

impl Scratch {
    /// Room for panels of this many columns.
    ///
    /// # Errors
    /// [`model::BackendError::Memory`].
    pub fn with_capacity(cols: usize) -> Result<Self, model::BackendError> {
        let mut scratch = Self::default();
        crate::matrix::reserve(&mut scratch.floats, cols)?;
        crate::matrix::reserve(&mut scratch.groups, cols.div_ceil(32))?;
        Ok(scratch)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        size_of::<[f32; PANEL]>() * self.floats.capacity()
            + size_of::<Unpacked>() * self.groups.capacity()
    }
}

/// Multiplies the tokens of `input` by `matrix`. `out` is `tokens × rows`.
pub fn multiply(
    level: Level,
    arithmetic: Arithmetic,
    matrix: &Matrix,
    input: &mut Input,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    debug_assert_eq!(cols, input.cols());
    debug_assert_eq!(out.len() * cols, input.floats().len() * rows);
    with_panels!(
        matrix.panels(),
        blocks as Block,
        level.run(Exact {
            blocks,
            per_panel: cols,
            unpack: ScalarPanel(PhantomData::<Block>),
            floats: input.floats(),
            cols,
            rows,
            panel: &mut scratch.floats,
            out,
        }),
        match arithmetic {
            Arithmetic::Exact => level.run(Exact {
                blocks,
                per_panel: cols / (32 * Block::GROUPS),
                unpack: QuantizedPanel(PhantomData::<Block>),
                floats: input.floats(),
                cols,
                rows,
                panel: &mut scratch.floats,
                out,
            }),
            Arithmetic::Fast => level.run(Fast::<Block> {
                blocks,
                groups: input.groups(level, Block::SIGNED),
                cols,
                rows,
                unpacked: &mut scratch.groups,
                out,
            }),
        }
    );
}

/// Reads row `row` of `matrix` as it is. `out` is `cols`.
pub fn read_row(level: Level, matrix: &Matrix, row: usize, scratch: &mut Scratch, out: &mut [f32]) {
    let panel = &mut scratch.floats;
    panel.resize(matrix.cols(), [0.0; PANEL]);
    with_panels!(
        matrix.panels(),
        blocks as Block,
        level.run(Read {
            blocks: &blocks[row / PANEL * matrix.cols()..],
            unpack: ScalarPanel(PhantomData::<Block>),
            panel,
        }),
        level.run(Read {
            blocks: &blocks[row / PANEL * (matrix.cols() / (32 * Block::GROUPS))..],
            unpack: QuantizedPanel(PhantomData::<Block>),
            panel,
        })
    );
    for (out, column) in out.iter_mut().zip(panel) {
        *out = column[row % PANEL];
    }
}

/// Turns blocks of a panel into single precision.
trait Unpack {
    type Block;
    fn unpack<S: Simd>(simd: S, blocks: &[Self::Block], panel: &mut [[f32; PANEL]]);
}

struct ScalarPanel<B>(PhantomData<B>);

impl<B: Scalar> Unpack for ScalarPanel<B> {
    type Block = B;

    #[inline(always)]
    fn unpack<S: Simd>(simd: S, blocks: &[B], panel: &mut [[f32; PANEL]]) {
        for (block, column) in blocks.iter().zip(panel) {
            simd.store(B::floats(simd, block), column);
        }
    }
}

struct QuantizedPanel<F>(PhantomData<F>);

impl<F: Format> Unpack for QuantizedPanel<F> {
    type Block = F::Block;

    #[inline(always)]
    fn unpack<S: Simd>(simd: S, blocks: &[F::Block], panel: &mut [[f32; PANEL]]) {
        let groups = panel.as_chunks_mut::<32>().0.iter_mut();
        let centre = simd.splat(F::CENTRE as f32);
        for (index, columns) in groups.enumerate() {
            let block = &blocks[index / F::GROUPS];
            let group = index % F::GROUPS;
            let scales = F::scales(simd, block, group);
            let minimums = F::minimums(simd, block, group);
            for v in 0..4 {
                let codes = F::codes(simd, block, group, v);
                for half in 0..2 {
                    for column in 0..4 {
                        let code = if F::SIGNED {
                            simd.column_signed(codes[half], column)
                        } else {
                            simd.column(codes[half], column)
                        };
                        let scaled = simd.mul(simd.sub(code, centre), scales[half]);
                        let weight = if F::MINIMUMS {
                            simd.sub(scaled, minimums[half])
                        } else {
                            scaled
                        };
                        simd.store(weight, &mut columns[16 * half + 4 * v + column as usize]);
                    }
                }
            }
        }
    }
}

/// One panel to single precision.
struct Read<'a, U: Unpack> {
    blocks: &'a [U::Block],
    unpack: U,
    panel: &'a mut [[f32; PANEL]],
}

impl<U: Unpack> Task for Read<'_, U> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let _ = self.unpack;
        U::unpack(simd, self.blocks, self.panel);
    }
}

/// A product in single precision.
struct Exact<'a, U: Unpack> {
    blocks: &'a [U::Block],
    per_panel: usize,
    unpack: U,
    floats: &'a [f32],
    cols: usize,
    rows: usize,
    panel: &'a mut Vec<[f32; PANEL]>,
    out: &'a mut [f32],
}

impl<U: Unpack> Task for Exact<'_, U> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let _ = self.unpack;
        self.panel.resize(self.cols, [0.0; PANEL]);
        let tokens = self.floats.len() / self.cols;
        let token = |token: usize| &self.floats[token * self.cols..][..self.cols];
        for (index, blocks) in self.blocks.chunks_exact(self.per_panel).enumerate() {
            U::unpack(simd, blocks, self.panel);
            let mut out = Rows::new(self.out, self.rows, index);
            let mut first = 0;
            while first + TILE <= tokens {
                let tile = from_fn(|i| token(first + i));
                let sums = float_tile::<S, TILE>(simd, self.panel, tile);
                out.write_all(simd, first, sums);
                first += TILE;
            }
            for first in first..tokens {
                let [sum] = float_tile::<S, 1>(simd, self.panel, [token(first)]);
                out.write(simd, first, sum);
            }
        }
    }
}

/// Where the results of a panel go.
struct Rows<'a> {
    out: &'a mut [f32],
    rows: usize,
    first: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn new(out: &'a mut [f32], rows: usize, panel: usize) -> Self {
        Self {
            out,
            rows,
            first: panel * PANEL,
        }
    }

    /// Sums of tokens `first..`.
    #[inline(always)]
    fn write_all<S: Simd, const T: usize>(&mut self, simd: S, first: usize, sums: [S::Floats; T]) {
        for (token, sum) in (first..).zip(sums) {
            self.write(simd, token, sum);
        }
    }

    #[inline(always)]
    fn write<S: Simd>(&mut self, simd: S, token: usize, sum: S::Floats) {
        let end = (self.first + PANEL).min(self.rows);
        let out = &mut self.out[token * self.rows..][self.first..end];
        if let Some(out) = out.first_chunk_mut::<PANEL>() {
            simd.store(sum, out);
        } else {
            let mut all = [0.0; PANEL];
            simd.store(sum, &mut all);
            out.copy_from_slice(&all[..out.len()]);
        }
    }
}

/// Multiplies a panel in single precision by `T` tokens, each of which has a number per column. Even
/// and odd columns are summed apart, which hides the latency of a sum.
#[inline(always)]
pub fn float_tile<S: Simd, const T: usize>(
    simd: S,
    panel: &[[f32; PANEL]],
    tokens: [&[f32]; T],
) -> [S::Floats; T] {
    let tokens = tokens.map(|token| &token[..panel.len()]);
    let mut sums = [[simd.splat(0.0); 2]; T];
    let (pairs, last) = panel.as_chunks::<2>();
    for (index, columns) in pairs.iter().enumerate() {
        for i in 0..2 {
            let weights = simd.load(&columns[i]);
            for (sum, token) in sums.iter_mut().zip(tokens) {
                sum[i] = simd.mul_add(weights, simd.splat(token[2 * index + i]), sum[i]);
            }
        }
    }
    if let [column] = last {
        let weights = simd.load(column);
        for (sum, token) in sums.iter_mut().zip(tokens) {
            sum[0] = simd.mul_add(weights, simd.splat(token[panel.len() - 1]), sum[0]);
        }
    }
    let mut totals = [simd.splat(0.0); T];
    for (total, [even, odd]) in totals.iter_mut().zip(sums) {
        *total = simd.add(even, odd);
    }
    totals
}

/// A product of quantized weights and quantized activations.
struct Fast<'a, F: Format> {
    blocks: &'a [F::Block],
    groups: &'a [Group],
    cols: usize,
    rows: usize,
    unpacked: &'a mut Vec<Unpacked>,
    out: &'a mut [f32],
}

impl<F: Format> Task for Fast<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let per_token = self.cols / 32;
        let tokens = self.groups.len() / per_token;
        let panels = self.blocks.chunks_exact(per_token / F::GROUPS);
        if tokens == 1 {
            for (index, blocks) in panels.enumerate() {
                let [sum] = tile::<S, Direct<F>, 1>(simd, blocks, [self.groups]);
                Rows::new(self.out, self.rows, index).write(simd, 0, sum);
            }
            return;
        }
        self.unpacked.resize(per_token, Unpacked::EMPTY);
        for (index, blocks) in panels.enumerate() {
            unpack::<S, F>(simd, blocks, self.unpacked);
            let mut out = Rows::new(self.out, self.rows, index);
            let mut first = 0;
            while first < tokens {
                let groups = &self.groups[first * per_token..];
                let tile = S::TILE.min(tokens - first);
                match tile {
                    4 => buffered::<S, F, 4>(simd, self.unpacked, groups, first, &mut out),
                    3 => buffered::<S, F, 3>(simd, self.unpacked, groups, first, &mut out),
                    2 => buffered::<S, F, 2>(simd, self.unpacked, groups, first, &mut out),
                    _ => buffered::<S, F, 1>(simd, self.unpacked, groups, first, &mut out),
                }
                first += tile;
            }
        }
    }
}

/// Multiplies an unpacked panel by the first `T` tokens of `groups`, which are tokens `first..`.
#[inline(always)]
fn buffered<S: Simd, F: Format, const T: usize>(
    simd: S,
    panel: &[Unpacked],
    groups: &[Group],
    first: usize,
    out: &mut Rows<'_>,
) {
    let tokens = from_fn(|i| &groups[i * panel.len()..][..panel.len()]);
    let sums = tile::<S, Buffered<F>, T>(simd, panel, tokens);
    out.write_all(simd, first, sums);
}

/// Multiplies a panel by `T` tokens.
#[inline(always)]
fn tile<S: Simd, D: Dots, const T: usize>(
    simd: S,
    blocks: &[D::Block],
    tokens: [&[Group]; T],
) -> [S::Floats; T] {
    let tokens = tokens.map(|token| &token[..blocks.len() * D::GROUPS]);
    let mut totals = [simd.splat(0.0); T];
    for (index, block) in blocks.iter().enumerate() {
        for group in 0..D::GROUPS {
            let mut groups = [&Group::EMPTY; T];
            for (to, token) in groups.iter_mut().zip(tokens) {
                *to = &token[index * D::GROUPS + group];
            }
            add_group::<S, D, T>(simd, block, group, groups, &mut totals);
        }
    }
    totals
}

/// Adds the products of 32 columns to `totals`.
#[inline(always)]
fn add_group<S: Simd, D: Dots, const T: usize>(
    simd: S,
    block: &D::Block,
    group: usize,
    tokens: [&Group; T],
    totals: &mut [S::Floats; T],
) {
    let mut sums = [[simd.sums(0); 2]; T];
    if D::Format::CENTRE != 0 {
        for (sums, token) in sums.iter_mut().zip(tokens) {
            let [first, second] = token.sums;
            if D::Format::HALVES {
                sums[0] = simd.sums(-D::Format::CENTRE * first);
                sums[1] = simd.sums(-D::Format::CENTRE * second);
            } else {
                sums[0] = simd.sums(-D::Format::CENTRE * (first + second));
            }
        }
    }
    for v in 0..4 {
        let codes = D::wide(simd, block, group, v);
        for (half, codes) in codes.into_iter().enumerate() {
            // Groups with one scale need one sum.
            let sum = if D::Format::HALVES { half } else { 0 };
            for (sums, token) in sums.iter_mut().zip(tokens) {
                let [first, second] = &token.quads;
                let quad = [&first[4 * half + v], &second[4 * half + v]];
                sums[sum] = simd.dot(sums[sum], codes, quad, D::Format::SIGNED);
            }
        }
    }
    let halves = if D::Format::HALVES { 2 } else { 1 };
    let scales = D::scales(simd, block, group);
    for half in 0..halves {
        for t in 0..T {
            let scale = simd.mul(scales[half], simd.splat(tokens[t].scale));
            let sum = simd.to_floats(sums[t][half]);
            totals[t] = simd.mul_add(sum, scale, totals[t]);
        }
    }
    if D::Format::MINIMUMS {
        let minimums = D::minimums(simd, block, group);
        for half in 0..halves {
            for t in 0..T {
                let [first, second] = tokens[t].totals;
                let total = if D::Format::HALVES {
                    [first, second][half]
                } else {
                    first + second
                };
                totals[t] = simd.mul_add(minimums[half], simd.splat(-total), totals[t]);
            }
        }
    }
}

/// A group of 32 columns of a panel, prepared for dot products.
#[derive(Clone, Copy, Debug)]
pub struct Unpacked {
    codes: [[[u8; 64]; 2]; 4],
    scales: [[f32; PANEL]; 2],
    minimums: [[f32; PANEL]; 2],
}

impl Unpacked {
    const EMPTY: Self = Self {
        codes: [[[0; 64]; 2]; 4],
        scales: [[0.0; PANEL]; 2],
        minimums: [[0.0; PANEL]; 2],
    };
}

#[inline(always)]
fn unpack<S: Simd, F: Format>(simd: S, blocks: &[F::Block], to: &mut [Unpacked]) {
    for (index, to) in to.iter_mut().enumerate() {
        let block = &blocks[index / F::GROUPS];
        let group = index % F::GROUPS;
        for (v, to) in to.codes.iter_mut().enumerate() {
            let codes = Direct::<F>::wide(simd, block, group, v);
            simd.store_wide(codes[0], &mut to[0]);
            simd.store_wide(codes[1], &mut to[1]);
        }
        let halves = if F::HALVES { 2 } else { 1 };
        let scales = F::scales(simd, block, group);
        for (scale, to) in scales.into_iter().zip(&mut to.scales[..halves]) {
            simd.store(scale, to);
        }
        if F::MINIMUMS {
            let minimums = F::minimums(simd, block, group);
            for (minimum, to) in minimums.into_iter().zip(&mut to.minimums[..halves]) {
                simd.store(minimum, to);
            }
        }
    }
}

/// Weights that are ready for dot products, or become so as they are asked for.
trait Dots {
    /// What they are.
    type Format: Format;
    /// What they are taken from.
    type Block;
    /// Groups of 32 columns in a block.
    const GROUPS: usize;

    /// Codes of columns `4 v..` and `16 + 4 v..` of a group.
    fn wide<S: Simd>(simd: S, block: &Self::Block, group: usize, v: usize) -> [S::Wide; 2];
    /// Scales of the first and the second 16 columns of a group.
    fn scales<S: Simd>(simd: S, block: &Self::Block, group: usize) -> [S::Floats; 2];
    /// Minimums of the first and the second 16 columns of a group.
    fn minimums<S: Simd>(simd: S, block: &Self::Block, group: usize) -> [S::Floats; 2];
}

/// Straight from the weights.
struct Direct<F>(PhantomData<F>);

impl<F: Format> Dots for Direct<F> {
    type Format = F;
    type Block = F::Block;
    const GROUPS: usize = F::GROUPS;

    #[inline(always)]
    fn wide<S: Simd>(simd: S, block: &F::Block, group: usize, v: usize) -> [S::Wide; 2] {
        let [first, second] = F::codes(simd, block, group, v);
        [simd.widen(first, F::SIGNED), simd.widen(second, F::SIGNED)]
    }

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &F::Block, group: usize) -> [S::Floats; 2] {
        F::scales(simd, block, group)
    }

    #[inline(always)]
    fn minimums<S: Simd>(simd: S, block: &F::Block, group: usize) -> [S::Floats; 2] {
        F::minimums(simd, block, group)
    }
}

/// From a buffer.
struct Buffered<F>(PhantomData<F>);

impl<F: Format> Dots for Buffered<F> {
    type Format = F;
    type Block = Unpacked;
    const GROUPS: usize = 1;

    #[inline(always)]
    fn wide<S: Simd>(simd: S, block: &Unpacked, _: usize, v: usize) -> [S::Wide; 2] {
        let [first, second] = &block.codes[v];
        [simd.load_wide(first), simd.load_wide(second)]
    }

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &Unpacked, _: usize) -> [S::Floats; 2] {
        [simd.load(&block.scales[0]), simd.load(&block.scales[1])]
    }

    #[inline(always)]
    fn minimums<S: Simd>(simd: S, block: &Unpacked, _: usize) -> [S::Floats; 2] {
        [simd.load(&block.minimums[0]), simd.load(&block.minimums[1])]
    }
}
