//! Weights of a linear layer, quantized as in the file, eight rows interleaved.

use model::BackendError;
use weights::BlockType;

use crate::format::{Bf16, F16, F32, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// Rows of a panel.
pub const PANEL: usize = 8;

/// Makes room for exactly `count` more items.
///
/// # Errors
/// [`BackendError::Memory`].
pub fn reserve<T>(items: &mut Vec<T>, count: usize) -> Result<(), BackendError> {
    items.try_reserve_exact(count).map_err(|_| {
        let megabytes = count.saturating_mul(size_of::<T>()).div_ceil(1_000_000);
        BackendError::Memory(format!("{megabytes} MB of memory could not be had"))
    })
}

/// Panels of blocks, of one block type.
#[derive(Debug)]
pub enum Panels {
    /// Single precision.
    F32(Vec<F32>),
    /// Half precision.
    F16(Vec<F16>),
    /// bfloat16.
    Bf16(Vec<Bf16>),
    /// Four bits, scale.
    Q4_0(Vec<Q4_0>),
    /// Four bits, scale and minimum.
    Q4_1(Vec<Q4_1>),
    /// Five bits, scale.
    Q5_0(Vec<Q5_0>),
    /// Five bits, scale and minimum.
    Q5_1(Vec<Q5_1>),
    /// Eight bits, scale.
    Q8_0(Vec<Q8_0>),
    /// Two bits, nested scales and minimums.
    Q2K(Vec<Q2K>),
    /// Three bits, nested scales.
    Q3K(Vec<Q3K>),
    /// Four bits, nested scales and minimums.
    Q4K(Vec<Q4K>),
    /// Five bits, nested scales and minimums.
    Q5K(Vec<Q5K>),
    /// Six bits, nested scales.
    Q6K(Vec<Q6K>),
}

/// Does something with panels of any type. The type of a block is called `$block`; the first arm is for
/// those that are a [`Scalar`], the second for those that are a [`Format`].
macro_rules! with_panels {
    ($panels:expr, $blocks:ident as $block:ident, $scalar:expr, $quantized:expr) => {{
        use $crate::format::*;
        use $crate::matrix::Panels;
        with_panels!(@arms $panels, $blocks as $block,
            [F32 F32, F16 F16, Bf16 Bf16], $scalar,
            [Q4_0 Q4_0, Q4_1 Q4_1, Q5_0 Q5_0, Q5_1 Q5_1, Q8_0 Q8_0, Q2K Q2K, Q3K Q3K, Q4K Q4K,
             Q5K Q5K, Q6K Q6K], $quantized)
    }};
    (@arms $panels:expr, $blocks:ident as $block:ident,
     [$($a:ident $at:ty),*], $scalar:expr, [$($b:ident $bt:ty),*], $quantized:expr) => {
        match $panels {
            $(Panels::$a($blocks) => { type $block = $at; $scalar })*
            $(Panels::$b($blocks) => { type $block = $bt; $quantized })*
        }
    };
}
pub(crate) use with_panels;

impl Panels {
    /// No weights of this type yet.
    fn new(kind: BlockType) -> Result<Self, BackendError> {
        Ok(match kind {
            BlockType::F32 => Self::F32(Vec::new()),
            BlockType::F16 => Self::F16(Vec::new()),
            BlockType::BF16 => Self::Bf16(Vec::new()),
            BlockType::Q4_0 => Self::Q4_0(Vec::new()),
            BlockType::Q4_1 => Self::Q4_1(Vec::new()),
            BlockType::Q5_0 => Self::Q5_0(Vec::new()),
            BlockType::Q5_1 => Self::Q5_1(Vec::new()),
            BlockType::Q8_0 => Self::Q8_0(Vec::new()),
            BlockType::Q2_K => Self::Q2K(Vec::new()),
            BlockType::Q3_K => Self::Q3K(Vec::new()),
            BlockType::Q4_K => Self::Q4K(Vec::new()),
            BlockType::Q5_K => Self::Q5K(Vec::new()),
            BlockType::Q6_K => Self::Q6K(Vec::new()),
            other => {
                let message = format!("weights of type {other} have no kernels here");
                return Err(BackendError::Fault(message));
            }
        })
    }
}

/// Blocks of eight rows that hold a matrix.
fn blocks(kind: BlockType, rows: usize, cols: usize) -> usize {
    rows.div_ceil(PANEL) * (cols / kind.block_len())
}

/// Bytes that a matrix is going to hold.
///
/// # Errors
/// [`BackendError::Fault`] for a type that has no kernels.
pub fn memory(kind: BlockType, rows: usize, cols: usize) -> Result<u64, BackendError> {
    let blocks = blocks(kind, rows, cols) as u64;
    let panels = Panels::new(kind)?;
    Ok(with_panels!(
        &panels,
        _none as _Block,
        blocks * size_of::<_Block>() as u64,
        blocks * size_of::<_Block>() as u64
    ))
}

/// Weights of a linear layer, `rows × cols`.
#[derive(Debug)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    panels: Panels,
    /// Rows that do not make a panel yet, as in the file.
    pending: Vec<u8>,
    /// Bytes of a row in the file.
    row_bytes: usize,
}

impl Matrix {
    /// A matrix whose rows are still to come, with room for them.
    ///
    /// # Errors
    /// [`BackendError::Memory`]; [`BackendError::Fault`] for a type that has no kernels.
    pub fn new(kind: BlockType, rows: usize, cols: usize) -> Result<Self, BackendError> {
        let mut panels = Panels::new(kind)?;
        let blocks = blocks(kind, rows, cols);
        with_panels!(
            &mut panels,
            all as _Block,
            reserve(all, blocks)?,
            reserve(all, blocks)?
        );
        Ok(Self {
            rows,
            cols,
            panels,
            pending: Vec::new(),
            row_bytes: cols / kind.block_len() * kind.block_bytes(),
        })
    }

    /// Takes the next rows, as blocks of the file. After the last row the last panel is filled up with
    /// rows of zeros.
    pub fn push_rows(&mut self, mut bytes: &[u8]) {
        let full = PANEL * self.row_bytes;
        if !self.pending.is_empty() {
            let missing = (full - self.pending.len()).min(bytes.len());
            self.pending.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.pending.len() == full {
                let pending = std::mem::take(&mut self.pending);
                self.push_panel(&pending);
            }
        }
        let panels = bytes.chunks_exact(full);
        self.pending.extend_from_slice(panels.remainder());
        for panel in panels {
            self.push_panel(panel);
        }
        let held = self.held_rows();
        if held < self.rows && held + self.pending.len() / self.row_bytes == self.rows {
            let mut last = std::mem::take(&mut self.pending);
            last.resize(full, 0);
            self.push_panel(&last);
        }
    }

    fn push_panel(&mut self, bytes: &[u8]) {
        let mut rows = [bytes; PANEL];
        for (index, row) in rows.iter_mut().enumerate() {
            *row = &bytes[index * self.row_bytes..][..self.row_bytes];
        }
        with_panels!(
            &mut self.panels,
            all as Block,
            all.extend(
                rows_of_blocks(rows, <Block as Scalar>::FILE_BYTES)
                    .map(|rows| <Block as Scalar>::pack(&rows))
            ),
            all.extend(rows_of_blocks(rows, Block::FILE_BYTES).map(|rows| Block::pack(&rows)))
        );
    }

    /// Rows in whole panels.
    fn held_rows(&self) -> usize {
        let blocks = with_panels!(
            &self.panels,
            all as _Block,
            all.len(),
            all.len() * 32 * _Block::GROUPS
        );
        blocks / self.cols * PANEL
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Weights per row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The weights.
    pub fn panels(&self) -> &Panels {
        &self.panels
    }

    /// Whether all rows have come.
    pub fn is_complete(&self) -> bool {
        self.held_rows() >= self.rows
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        with_panels!(
            &self.panels,
            all as _Block,
            all.capacity() * size_of::<_Block>(),
            all.capacity() * size_of::<_Block>()
        )
    }
}

/// Block after block of eight rows.
fn rows_of_blocks(rows: [&[u8]; PANEL], bytes: usize) -> impl Iterator<Item = [&[u8]; PANEL]> {
    let blocks = rows[0].len() / bytes;
    (0..blocks).map(move |block| rows.map(|row| &row[block * bytes..][..bytes]))
}
