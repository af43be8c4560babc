//! Weight-only quantized matrices and their products.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use cubecl::server::Handle;
use weights::layout::Layout;

use crate::gpu::{Gpu, GpuError, Spread, word_handle};
use crate::kernels::{Epilogue, Kernel, Tile, has_scales};

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

impl Linear {
    /// Allocates the bands, one under the other.
    pub(crate) fn allocate(gpu: &Gpu, bands: &[Band], cols: usize) -> Result<Self, GpuError> {
        let mut spans: Vec<(Layout, usize)> = Vec::new();
        for band in bands {
            let limit = (gpu.info().max_binding as usize / 4) / band.layout.row_words(cols);
            if limit == 0 {
                return Err(GpuError::Memory(format!(
                    "one row of {cols} weights exceeds the adapter's largest binding of {} bytes",
                    gpu.info().max_binding
                )));
            }
            let mut left = band.rows;
            if let Some((layout, rows)) = spans.last_mut()
                && *layout == band.layout
                && *rows + left <= limit
            {
                *rows += left;
                left = 0;
            }
            while left > 0 {
                let rows = left.min(limit);
                spans.push((band.layout, rows));
                left -= rows;
            }
        }
        let mut first = 0;
        let parts = spans
            .into_iter()
            .map(|(layout, rows)| {
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

    /// Bytes on the GPU.
    pub fn bytes(&self) -> u64 {
        self.parts
            .iter()
            .map(|part| {
                let row = part.layout.row_words(self.cols) + part.layout.row_scales(self.cols);
                (part.rows * row * 4) as u64
            })
            .sum()
    }

    /// Writes packed rows, starting at `row`. All of them must be in the layout of their band.
    pub(crate) fn write(&self, gpu: &Gpu, row: usize, count: usize, words: &[u32], scales: &[u32]) {
        for part in &self.parts {
            let (from, to) = (
                row.max(part.first),
                (row + count).min(part.first + part.rows),
            );
            if from >= to {
                continue;
            }
            let slice = |per_row: usize| (from - row) * per_row..(to - row) * per_row;
            let per_row = part.layout.row_words(self.cols);
            gpu.write(
                &word_handle(&part.words),
                (from - part.first) * per_row,
                &words[slice(per_row)],
            );
            if let Some(stream) = &part.scales {
                let per_row = part.layout.row_scales(self.cols);
                gpu.write(
                    &word_handle(stream),
                    (from - part.first) * per_row,
                    &scales[slice(per_row)],
                );
            }
        }
    }

    /// `y[token] = W x[token]`, or added to `y`, for `tokens` tokens.
    pub(crate) fn forward(
        &self,
        gpu: &Gpu,
        step: &Handle,
        x: &Handle,
        y: &Handle,
        tokens: usize,
        epilogue: Epilogue,
    ) {
        for part in &self.parts {
            let kernel = Kernel::Linear {
                layout: part.layout,
                rows: part.rows as u32,
                cols: self.cols as u32,
                row_start: part.first as u32,
                stride: self.rows as u32,
                epilogue,
                tile: tile(gpu.spread(), tokens),
                spread: gpu.spread(),
            };
            let streams = part.streams();
            let mut buffers: Vec<&Handle> = streams.iter().collect();
            buffers.extend([step, x, y]);
            let groups = kernel.groups(tokens as u32);
            gpu.launch(kernel, groups, &buffers);
        }
    }

    /// `y[token] = silu(gate x[token]) * (up x[token])` in one launch a part.
    ///
    /// Both matrices must be of one shape and one sequence of parts, see [`Linear::pairs_with`].
    pub(crate) fn gate_up(
        gate: &Self,
        up: &Self,
        gpu: &Gpu,
        step: &Handle,
        x: &Handle,
        y: &Handle,
        tokens: usize,
    ) {
        for (left, right) in gate.parts.iter().zip(&up.parts) {
            let kernel = Kernel::GateUp {
                layout: left.layout,
                rows: left.rows as u32,
                cols: gate.cols as u32,
                row_start: left.first as u32,
                stride: gate.rows as u32,
                tile: tile(gpu.spread(), tokens),
                spread: gpu.spread(),
            };
            let (left, right) = (left.streams(), right.streams());
            let mut buffers: Vec<&Handle> = left.iter().chain(&right).collect();
            buffers.extend([step, x, y]);
            let groups = kernel.groups(tokens as u32);
            gpu.launch(kernel, groups, &buffers);
        }
    }

    /// Whether [`Linear::gate_up`] can take the two together.
    pub(crate) fn pairs_with(&self, other: &Self) -> bool {
        self.cols == other.cols
            && self.parts.len() == other.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(a, b)| a.layout == b.layout && a.rows == b.rows)
    }

    /// `x[token] = W[ids[token]]`: the matrix as an embedding table.
    pub(crate) fn gather(&self, gpu: &Gpu, step: &Handle, ids: &Handle, x: &Handle, tokens: usize) {
        for part in &self.parts {
            let kernel = Kernel::Embed {
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
}

impl Part {
    /// Buffers of the weights in binding order.
    fn streams(&self) -> Vec<Handle> {
        let mut all = vec![word_handle(&self.words)];
        all.extend(self.scales.as_ref().map(word_handle));
        all
    }
}

/// Rows and tokens per invocation: enough rows to reuse each loaded activation, and in prefill
/// enough tokens to reuse each unpacked weight, within the registers (or workgroup memory) at hand.
fn tile(spread: Spread, tokens: usize) -> Tile {
    let (rows, most) = match spread {
        Spread::Rows => (4, 8),
        Spread::Lanes => (2, 4),
    };
    Tile {
        rows,
        tokens: if tokens == 1 { 1 } else { most },
    }
}
