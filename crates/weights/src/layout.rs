//! The device layouts that the engine's kernels read, repacked from the file's blocks.
//!
//! A layout has two streams of 32-bit words, so that kernels need neither 16-bit floats nor
//! unaligned reads: *words* hold the quantized weights, *scales* what they are multiplied with.
//! Both are row by row, and rows are packed independently, so a tensor can be packed and uploaded
//! in any number of pieces. In a `u32` that holds two or four values the first is in the low bits.
//!
//! | layout | words | scales | weight |
//! |---|---|---|---|
//! | [`Layout::Q4`] | per block of 32 weights four words; the low nibbles of their 16 bytes are weights 0 to 15, the high nibbles 16 to 31 | per block one word: scale `d` and minimum `m` as `f16` | `d * q + m` |
//! | [`Layout::Q8`] | per block of 32 weights eight words of four signed bytes | per two blocks one word: both scales as `f16`; a row with an odd number of blocks is padded with zero | `d * q` |
//! | [`Layout::F16`] | two `f16` per word | none | itself |
//! | [`Layout::F32`] | one `f32` per word | none | itself |
//!
//! Repacking loses nothing: [`Layout::unpack_row`] gives exactly the weights that
//! [`crate::codec::dequantize`] gives for the same blocks.

use half::f16;

use crate::block::{BlockType, Unsupported};

/// How a tensor lies in GPU memory. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Four bits with a scale and a minimum for every 32 weights.
    Q4,
    /// Eight bits with a scale for every 32 weights.
    Q8,
    /// Half floats.
    F16,
    /// Floats.
    F32,
}

/// Weights that share a scale.
const GROUP: usize = 32;

/// Why a tensor cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// There is no layout for the type.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The length of a row does not fit the layout.
    #[error("rows of {row_len} weights cannot be packed from {kind}: not a multiple of {multiple}")]
    RowLength {
        /// The type in the file.
        kind: BlockType,
        /// Weights per row.
        row_len: usize,
        /// What the length must be a multiple of.
        multiple: usize,
    },
    /// The bytes are not a whole number of rows.
    #[error("{bytes} bytes are not a whole number of rows of {row_bytes} bytes")]
    PartialRow {
        /// Number of bytes given.
        bytes: usize,
        /// Bytes of one row.
        row_bytes: usize,
    },
    /// A block's scale is infinite, not a number, or too large for its minimum to be an `f16`.
    #[error(
        "block {block} of the rows given has the scale {scale}, which no real model has; the file is damaged"
    )]
    Scale {
        /// Index of the block in the bytes given.
        block: usize,
        /// The scale.
        scale: String,
    },
}

impl Layout {
    /// The layout for weights of type `kind`.
    pub fn for_type(kind: BlockType) -> Result<Self, Unsupported> {
        match kind {
            BlockType::Q4_0 | BlockType::Q4_1 => Ok(Self::Q4),
            BlockType::Q8_0 => Ok(Self::Q8),
            BlockType::F16 => Ok(Self::F16),
            BlockType::F32 | BlockType::BF16 => Ok(Self::F32),
            _ => Err(Unsupported { kind }),
        }
    }

    /// 32-bit words per row of `row_len` weights in the stream of words.
    pub fn row_words(self, row_len: usize) -> usize {
        match self {
            Self::Q4 => row_len / 8,
            Self::Q8 => row_len / 4,
            Self::F16 => row_len / 2,
            Self::F32 => row_len,
        }
    }

    /// 32-bit words per row of `row_len` weights in the stream of scales.
    pub fn row_scales(self, row_len: usize) -> usize {
        match self {
            Self::Q4 => row_len / GROUP,
            Self::Q8 => (row_len / GROUP).div_ceil(2),
            Self::F16 | Self::F32 => 0,
        }
    }

    /// The weights of one row, as the kernels must understand them; the reference for tests.
    ///
    /// `words` and `scales` are the row's own, [`Layout::row_words`] and [`Layout::row_scales`]
    /// long.
    pub fn unpack_row(self, words: &[u32], scales: &[u32], row_len: usize) -> Vec<f32> {
        let weight = |i: usize| match self {
            Self::Q4 => {
                let (block, place) = (i / GROUP, i % GROUP);
                let (byte, shift) = (place % 16, place / 16 * 4);
                let q = byte_of(words, block * 16 + byte) >> shift & 15;
                let [d, m] = halves(scales[block]);
                d * f32::from(q) + m
            }
            Self::Q8 => {
                let block = i / GROUP;
                let d = halves(scales[block / 2])[block % 2];
                d * f32::from(byte_of(words, i) as i8)
            }
            Self::F16 => halves(words[i / 2])[i % 2],
            Self::F32 => f32::from_bits(words[i]),
        };
        (0..row_len).map(weight).collect()
    }
}

fn byte_of(words: &[u32], index: usize) -> u8 {
    (words[index / 4] >> (index % 4 * 8)) as u8
}

fn halves(word: u32) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|bits| f16::from_bits(bits).to_f32())
}

/// Repacks rows of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packer {
    kind: BlockType,
    layout: Layout,
    row_len: usize,
}

impl Packer {
    /// A packer for rows of `row_len` weights of type `kind`.
    pub fn new(kind: BlockType, row_len: usize) -> Result<Self, PackError> {
        let layout = Layout::for_type(kind)?;
        let multiple = match layout {
            Layout::Q4 | Layout::Q8 => kind.block_len(),
            Layout::F16 => 2,
            Layout::F32 => 1,
        };
        if row_len == 0 || !row_len.is_multiple_of(multiple) {
            return Err(PackError::RowLength {
                kind,
                row_len,
                multiple,
            });
        }
        Ok(Self {
            kind,
            layout,
            row_len,
        })
    }

    /// The layout that comes out.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of one row in the file.
    pub fn row_bytes(&self) -> usize {
        self.row_len / self.kind.block_len() * self.kind.block_bytes()
    }

    /// Bytes of `rows` rows in the stream of words.
    pub fn words_bytes(&self, rows: usize) -> usize {
        rows * self.layout.row_words(self.row_len) * size_of::<u32>()
    }

    /// Bytes of `rows` rows in the stream of scales.
    pub fn scale_bytes(&self, rows: usize) -> usize {
        rows * self.layout.row_scales(self.row_len) * size_of::<u32>()
    }

    /// Packs whole rows and appends them to `words` and `scales`.
    ///
    /// On an error the streams are as long as they were.
    pub fn pack(
        &self,
        rows: &[u8],
        words: &mut Vec<u32>,
        scales: &mut Vec<u32>,
    ) -> Result<(), PackError> {
        let row_bytes = self.row_bytes();
        if !rows.len().is_multiple_of(row_bytes) {
            return Err(PackError::PartialRow {
                bytes: rows.len(),
                row_bytes,
            });
        }
        let count = rows.len() / row_bytes;
        let (old_words, old_scales) = (words.len(), scales.len());
        words.resize(old_words + count * self.layout.row_words(self.row_len), 0);
        scales.resize(old_scales + count * self.layout.row_scales(self.row_len), 0);
        let (new_words, new_scales) = (&mut words[old_words..], &mut scales[old_scales..]);
        let packed = match self.kind {
            BlockType::Q4_0 => q4_0(rows, new_words, new_scales),
            BlockType::Q4_1 => {
                q4_1(rows, new_words, new_scales);
                Ok(())
            }
            BlockType::Q8_0 => {
                let per_row = self.layout.row_scales(self.row_len);
                q8_0(rows, row_bytes, new_words, new_scales, per_row);
                Ok(())
            }
            BlockType::BF16 => {
                each(rows, new_words, |bytes: &[u8; 2], word: &mut [u32; 1]| {
                    // A bfloat16 is the upper half of a float.
                    *word = [u32::from(u16::from_le_bytes(*bytes)) << 16];
                });
                Ok(())
            }
            // F16 and F32 lie in the file as on the device; `new` let nothing else through.
            _ => {
                copy_words(rows, new_words);
                Ok(())
            }
        };
        if packed.is_err() {
            words.truncate(old_words);
            scales.truncate(old_scales);
        }
        packed
    }
}

/// Runs through pieces of fixed size, so that their inner loops need no bounds checks.
fn each<const FROM: usize, const TO: usize>(
    from: &[u8],
    to: &mut [u32],
    mut piece: impl FnMut(&[u8; FROM], &mut [u32; TO]),
) {
    let (from, _) = from.as_chunks::<FROM>();
    let (to, _) = to.as_chunks_mut::<TO>();
    for (from, to) in from.iter().zip(to) {
        piece(from, to);
    }
}

fn copy_words(from: &[u8], to: &mut [u32]) {
    each(from, to, |bytes: &[u8; 4], word: &mut [u32; 1]| {
        *word = [u32::from_le_bytes(*bytes)];
    });
}

/// The last `4 * WORDS` bytes of a block as words.
fn tail<const BLOCK: usize, const WORDS: usize>(block: &[u8; BLOCK]) -> [u32; WORDS] {
    let start = BLOCK - 4 * WORDS;
    std::array::from_fn(|i| {
        let at = start + 4 * i;
        u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
    })
}

/// The nibbles stay as they are. A weight is `d * (q - 8)`, so the minimum is `-8 d`: the same
/// mantissa with a larger exponent, exact as an `f16` unless it overflows.
fn q4_0(rows: &[u8], words: &mut [u32], scales: &mut [u32]) -> Result<(), PackError> {
    let mut overflow = None;
    let mut scales = scales.iter_mut().enumerate();
    each(rows, words, |block: &[u8; 18], words: &mut [u32; 4]| {
        *words = tail(block);
        let Some((index, scale)) = scales.next() else {
            return;
        };
        let d = u16::from_le_bytes([block[0], block[1]]);
        let m = times_minus_eight(d);
        if m & 0x7c00 == 0x7c00 {
            overflow.get_or_insert((index, f16::from_bits(d)));
        }
        *scale = u32::from(d) | u32::from(m) << 16;
    });
    match overflow {
        None => Ok(()),
        Some((block, scale)) => Err(PackError::Scale {
            block,
            scale: scale.to_string(),
        }),
    }
}

/// `-8` times an `f16`, as bits.
fn times_minus_eight(bits: u16) -> u16 {
    f16::from_f32(f16::from_bits(bits).to_f32() * -8.0).to_bits()
}

/// Scale, minimum and nibbles stay as they are.
fn q4_1(rows: &[u8], words: &mut [u32], scales: &mut [u32]) {
    let mut scales = scales.iter_mut();
    each(rows, words, |block: &[u8; 20], words: &mut [u32; 4]| {
        *words = tail(block);
        if let Some(scale) = scales.next() {
            *scale = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        }
    });
}

fn q8_0(rows: &[u8], row_bytes: usize, words: &mut [u32], scales: &mut [u32], per_row: usize) {
    each(rows, words, |block: &[u8; 34], words: &mut [u32; 8]| {
        *words = tail(block);
    });
    for (row, scales) in rows
        .chunks_exact(row_bytes)
        .zip(scales.chunks_exact_mut(per_row))
    {
        let (blocks, _) = row.as_chunks::<34>();
        for (pair, scale) in blocks.chunks(2).zip(scales) {
            let half = |block: &[u8; 34]| u32::from(u16::from_le_bytes([block[0], block[1]]));
            *scale = half(&pair[0]) | pair.get(1).map_or(0, half) << 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dequantize;

    /// Packs and unpacks `bytes` and compares with the reference, weight by weight.
    fn check(kind: BlockType, row_len: usize, bytes: &[u8]) {
        let packer = Packer::new(kind, row_len).expect("a layout");
        let layout = packer.layout();
        let rows = bytes.len() / packer.row_bytes();
        let mut expected = vec![0.0; rows * row_len];
        dequantize(kind, bytes, &mut expected).expect("sizes");
        let (mut words, mut scales) = (vec![7], vec![8]);
        packer
            .pack(bytes, &mut words, &mut scales)
            .expect("whole rows");
        assert_eq!((words[0], scales[0]), (7, 8), "appended");
        let (words, scales) = (&words[1..], &scales[1..]);
        assert_eq!(size_of_val(words), packer.words_bytes(rows));
        assert_eq!(size_of_val(scales), packer.scale_bytes(rows));
        let (w, s) = (layout.row_words(row_len), layout.row_scales(row_len));
        for row in 0..rows {
            let unpacked =
                layout.unpack_row(&words[row * w..][..w], &scales[row * s..][..s], row_len);
            let expected = &expected[row * row_len..][..row_len];
            let equal = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
            assert!(
                unpacked.iter().zip(expected).all(equal),
                "{kind}, row {row}"
            );
        }
    }

    fn random_bytes(count: usize, mut state: u64) -> Vec<u8> {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn packing_loses_nothing() {
        let cases = [
            (BlockType::Q4_0, vec![32, 96, 576]),
            (BlockType::Q4_1, vec![32, 96, 576]),
            (BlockType::Q8_0, vec![32, 64, 96, 576]),
            (BlockType::F16, vec![2, 6, 64]),
            (BlockType::BF16, vec![1, 3, 64]),
            (BlockType::F32, vec![1, 3, 64]),
        ];
        for (kind, row_lens) in cases {
            for row_len in row_lens {
                for rows in [0, 1, 2, 7] {
                    let packer = Packer::new(kind, row_len).expect("a layout");
                    let mut bytes = random_bytes(rows * packer.row_bytes(), 1 + row_len as u64);
                    if kind == BlockType::Q4_0 {
                        // Scales small enough for their minimum; the rest is the next test's.
                        for block in bytes.chunks_exact_mut(18) {
                            block[1] &= 0xbf;
                        }
                    }
                    check(kind, row_len, &bytes);
                }
            }
        }
    }

    #[test]
    fn every_scale_of_q4_0_is_exact_or_refused() {
        for bits in 0..=u16::MAX {
            let d = f16::from_bits(bits);
            let mut block = [0u8; 18];
            block[..2].copy_from_slice(&bits.to_le_bytes());
            for (i, byte) in block[2..].iter_mut().enumerate() {
                *byte = (i | (15 - i) << 4) as u8;
            }
            // 65504 is the largest f16.
            if d.is_finite() && d.to_f32().abs() * 8.0 <= 65504.0 {
                check(BlockType::Q4_0, 32, &block);
            } else {
                let packer = Packer::new(BlockType::Q4_0, 32).expect("a layout");
                let (mut words, mut scales) = (vec![], vec![]);
                let two = [[0; 18], block].concat();
                let error = packer
                    .pack(&two, &mut words, &mut scales)
                    .expect_err("overflow");
                assert!(
                    matches!(error, PackError::Scale { block: 1, .. }),
                    "{error}"
                );
                assert!(words.is_empty() && scales.is_empty());
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = Packer::new(BlockType::IQ4_XS, 256).expect_err("no layout");
        assert!(matches!(error, PackError::Unsupported(_)));
        for (kind, row_len) in [
            (BlockType::Q4_1, 48),
            (BlockType::F16, 3),
            (BlockType::F32, 0),
        ] {
            let error = Packer::new(kind, row_len).expect_err("row length");
            assert!(matches!(error, PackError::RowLength { .. }), "{error}");
        }
        let packer = Packer::new(BlockType::Q8_0, 64).expect("a layout");
        let error = packer
            .pack(&[0; 34], &mut vec![], &mut vec![])
            .expect_err("half a row");
        assert!(matches!(
            error,
            PackError::PartialRow {
                bytes: 34,
                row_bytes: 68
            }
        ));
    }
}
