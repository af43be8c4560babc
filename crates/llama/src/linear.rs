//! Matrices kept quantized on the GPU, and their products.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use cubecl::server::Handle;
use model::BackendError;
use weights::layout::{Layout, Plane};

use crate::gpu::{Gpu, Spread, word_handle};
use crate::kernels::attention::Heads;
use crate::kernels::embed::Embed;
use crate::kernels::product::{self, Ending, Plan, Product};
use crate::kernels::unpack::has_scales;

/// A matrix of `rows × cols`, kept quantized on the GPU.
///
/// Rows that share a device layout lie in one part, so that stacked projections (query, key and
/// value) are one launch; a part never exceeds the adapter's largest binding.
#[derive(Module, Debug)]
pub struct Linear {
    parts: Vec<Part>,
    #[module(skip)]
    rows: usize,
    #[module(skip)]
    cols: usize,
}

/// Consecutive rows in one device layout.
#[derive(Module, Debug)]
struct Part {
    words: Tensor<1, Int>,
    scales: Option<Tensor<1, Int>>,
    #[module(skip)]
    layout: Layout,
    #[module(skip)]
    first: usize,
    #[module(skip)]
    rows: usize,
}

/// Rows to be stacked into one [`Linear`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    pub layout: Layout,
    pub rows: usize,
}

/// The vectors that a matrix is multiplied with.
pub(crate) struct Input<'a> {
    /// What this pass is about, see [`crate::kernels::step`].
    pub step: &'a Handle,
    /// `[token][cols]` floats.
    pub x: &'a Handle,
    /// The norm to be applied to `x`, for one token only.
    pub norm: Option<Norm<'a>>,
}

/// An RMS norm.
pub(crate) struct Norm<'a> {
    pub gain: &'a Handle,
    pub eps: f32,
}

/// Where products go.
pub(crate) enum Output<'a> {
    /// `y = W x`.
    Store(&'a Handle),
    /// `y += W x`, the residual connection.
    Add(&'a Handle),
    /// `y = silu(y) * (W x)`, after a [`Output::Store`] of the gate.
    Gated(&'a Handle),
    /// Rows are those of queries, keys and values; see [`Ending::Rotate`]. Queries are
    /// `[token][heads * head_dim]`, keys and values lie as [`crate::kernels::attention`] reads them.
    Rotate {
        queries: &'a Handle,
        keys: &'a Handle,
        values: &'a Handle,
        shape: Heads,
    },
}

impl Linear {
    /// Allocates the bands, one under the other.
    ///
    /// # Errors
    /// [`BackendError::Memory`] where two rows are more than the adapter binds,
    /// [`BackendError::Unavailable`] where kernels cannot read rows of this length.
    pub(crate) fn allocate(gpu: &Gpu, bands: &[Band], cols: usize) -> Result<Self, BackendError> {
        let mut spans: Vec<Band> = Vec::new();
        for band in bands {
            let limit = most_rows(gpu, band.layout, cols)?;
            let mut left = band.rows;
            if let Some(last) = spans.last_mut()
                && last.layout == band.layout
                && last.rows + left <= limit
            {
                last.rows += left;
                left = 0;
            }
            while left > 0 {
                let rows = left.min(limit);
                spans.push(Band {
                    layout: band.layout,
                    rows,
                });
                left -= rows;
            }
        }
        let mut first = 0;
        let parts = spans
            .into_iter()
            .map(|Band { layout, rows }| {
                let part = Part {
                    words: gpu.words(rows * layout.row_words(cols)),
                    scales: has_scales(layout).then(|| gpu.words(rows * layout.row_scales(cols))),
                    layout,
                    first,
                    rows,
                };
                first += rows;
                part
            })
            .collect();
        Ok(Self {
            parts,
            rows: first,
            cols,
        })
    }

    /// Rows, the length of a product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes on the GPU.
    pub fn bytes(&self) -> u64 {
        let bytes = |part: &Part| {
            let row = part.layout.row_words(self.cols) + part.layout.row_scales(self.cols);
            (part.rows * row * 4) as u64
        };
        self.parts.iter().map(bytes).sum()
    }

    /// Writes packed rows, starting at `row`. All of them must be in the layout of their band.
    pub(crate) fn write(&self, gpu: &Gpu, row: usize, count: usize, words: &[u32], scales: &[u32]) {
        for part in &self.parts {
            let start = row.max(part.first);
            let end = (row + count).min(part.first + part.rows);
            if start >= end {
                continue;
            }
            let put = |stream: &Tensor<1, Int>, per_row: usize, data: &[u32]| {
                let data = &data[(start - row) * per_row..(end - row) * per_row];
                let at = (start - part.first) * per_row;
                gpu.write(&word_handle(stream), at, data);
            };
            put(&part.words, part.layout.row_words(self.cols), words);
            if let Some(stream) = &part.scales {
                put(stream, part.layout.row_scales(self.cols), scales);
            }
        }
    }

    /// Multiplies with `tokens` vectors, one launch a part.
    pub(crate) fn forward(&self, gpu: &Gpu, input: &Input, output: &Output, tokens: usize) {
        let stride = self.rows as u32;
        let (ending, sinks) = match output {
            Output::Store(y) => (Ending::Store(stride), vec![*y]),
            Output::Add(y) => (Ending::Add(stride), vec![*y]),
            Output::Gated(y) => (Ending::Gated(stride), vec![*y]),
            Output::Rotate {
                queries,
                keys,
                values,
                shape,
            } => (Ending::Rotate(*shape), vec![*queries, *keys, *values]),
        };
        for part in &self.parts {
            self.launch(gpu, &[part], input, ending, &sinks, tokens);
        }
    }

    /// `y = silu(gate x) * (up x)`, one launch a part.
    ///
    /// Both matrices must be of one shape and one sequence of parts, see [`Linear::pairs_with`].
    pub(crate) fn gate_up(
        gate: &Self,
        up: &Self,
        gpu: &Gpu,
        input: &Input,
        y: &Handle,
        tokens: usize,
    ) {
        let ending = Ending::Pair(gate.rows as u32);
        for (left, right) in gate.parts.iter().zip(&up.parts) {
            gate.launch(gpu, &[left, right], input, ending, &[y], tokens);
        }
    }

    /// Whether [`Linear::gate_up`] can take the two together.
    pub(crate) fn pairs_with(&self, other: &Self) -> bool {
        let same = |(a, b): (&Part, &Part)| a.layout == b.layout && a.rows == b.rows;
        self.cols == other.cols
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(same)
    }

    /// `x[token] = W[ids[token]]`: the matrix as an embedding table.
    pub(crate) fn gather(&self, gpu: &Gpu, step: &Handle, ids: &Handle, x: &Handle, tokens: usize) {
        for part in &self.parts {
            let kernel = Embed {
                layout: part.layout,
                cols: self.cols as u32,
                first: part.first as u32,
                rows: part.rows as u32,
            };
            let streams = part.streams();
            let mut buffers: Vec<&Handle> = streams.iter().collect();
            buffers.extend([step, ids, x]);
            let groups = kernel.groups(tokens as u32);
            gpu.launch(kernel, groups, &buffers);
        }
    }

    /// Multiplies one part, or those of a pair.
    fn launch(
        &self,
        gpu: &Gpu,
        parts: &[&Part],
        input: &Input,
        ending: Ending,
        sinks: &[&Handle],
        tokens: usize,
    ) {
        debug_assert!(
            input.norm.is_none() || tokens == 1,
            "a norm is part of a product for one token only"
        );
        let part = parts[0];
        let kernel = Product {
            layout: part.layout,
            rows: part.rows as u32,
            cols: self.cols as u32,
            row_start: part.first as u32,
            norm: input.norm.as_ref().map(|norm| norm.eps.to_bits()),
            ending,
            plan: plan(gpu, part, self.cols, tokens),
        };
        let streams: Vec<Handle> = parts.iter().flat_map(|part| part.streams()).collect();
        let mut buffers: Vec<&Handle> = streams.iter().collect();
        buffers.extend([input.step, input.x]);
        buffers.extend(input.norm.as_ref().map(|norm| norm.gain));
        buffers.extend(sinks);
        let groups = kernel.groups(tokens as u32);
        gpu.launch(kernel, groups, &buffers);
    }
}

impl Part {
    /// Buffers of the weights in binding order.
    fn streams(&self) -> Vec<Handle> {
        let mut all = vec![word_handle(&self.words)];
        all.extend(self.scales.as_ref().map(word_handle));
        all
    }
}

/// Rows of a layout that one binding holds: an even number, so that no pair of rows that are rotated
/// together is torn apart.
pub(crate) fn most_rows(gpu: &Gpu, layout: Layout, cols: usize) -> Result<usize, BackendError> {
    let multiple = match layout.planes().0 {
        Plane::Halves | Plane::BHalves => 8,
        _ => 4,
    };
    if !cols.is_multiple_of(multiple) {
        return Err(BackendError::Unavailable(format!(
            "matrices with rows of {cols} weights cannot be multiplied: not a multiple of {multiple}"
        )));
    }
    let limit = gpu.info().max_binding;
    let rows = (limit / 4) as usize / layout.row_words(cols) / 2 * 2;
    if rows == 0 {
        return Err(BackendError::Memory(format!(
            "two rows of {cols} weights exceed the adapter's largest binding of {limit} bytes"
        )));
    }
    Ok(rows)
}

/// How a product is laid out on the adapter at hand.
fn plan(gpu: &Gpu, part: &Part, cols: usize, tokens: usize) -> Plan {
    match gpu.spread() {
        Spread::Rows => product::alone(part.layout, part.rows as u32, cols as u32, tokens as u32),
        Spread::Lanes if tokens == 1 => product::together(cols as u32, gpu.subgroups()),
        Spread::Lanes => product::staged(tokens as u32),
    }
}
