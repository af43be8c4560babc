//! The device layouts that the engine's kernels read, repacked from the file's blocks.
//!
//! A tensor becomes two streams of 32-bit words, so that kernels need neither 16-bit floats nor
//! unaligned reads: *words* hold the weights' bits, *scales* what they are multiplied with. Both are
//! row by row, and rows are packed independently, so a tensor can be packed and uploaded in any number
//! of pieces. In a `u32` that holds two or four values the first is in the low bits.
//!
//! A weight's bits lie in up to two [planes](Plane), so that every plane is read in whole words and
//! with one mask per four weights:
//!
//! | plane | bits | words per 32 weights | weight `i` of 32 |
//! |---|---|---|---|
//! | [`Plane::Singles`] | 1 | 1 | bit `i` |
//! | [`Plane::Pairs`] | 2 | 2 | bits `2 k` and up of byte `j` of word `w` are weight `16 w + 4 k + j` |
//! | [`Plane::Nibbles`] | 4 | 4 | the low halves of the 16 bytes are weights 0 to 15, the high halves 16 to 31 |
//! | [`Plane::Bytes`] | 8 | 8 | signed byte `i` |
//! | [`Plane::Halves`] | 16 | 16 | `f16` number `i` |
//! | [`Plane::BHalves`] | 16 | 16 | `bf16` number `i`, the upper half of an `f32` |
//! | [`Plane::Floats`] | 32 | 32 | `f32` number `i` |
//!
//! In *words* a row is all of its low plane and then all of its high plane, each padded with zeros to a
//! multiple of four words, so that kernels may read `vec4<u32>` whatever the length of a row is.
//!
//! | layout | from | low, high | group | *scales* | weight |
//! |---|---|---|---|---|---|
//! | [`Layout::Centred4`] | Q4_0 | nibbles | 32 | two `f16` scales per word | `d * (q - 8)` |
//! | [`Layout::Offset4`] | Q4_1 | nibbles | 32 | `d`, `m` as `f16` in a word | `d * q + m` |
//! | [`Layout::Centred5`] | Q5_0 | nibbles, singles | 32 | two `f16` scales per word | `d * (q - 16)` |
//! | [`Layout::Offset5`] | Q5_1 | nibbles, singles | 32 | `d`, `m` as `f16` in a word | `d * q + m` |
//! | [`Layout::Nested2`] | Q2_K | pairs | 16 | five words per 256 weights: `d`, `e` as `f16`; sixteen bytes with `s` in the low and `t` in the high half | `d * s * q - e * t` |
//! | [`Layout::Nested3`] | Q3_K | pairs, singles | 16 | five words per 256: `d` as `f16`; sixteen signed bytes `s` | `d * s * (q - 4)` |
//! | [`Layout::Nested4`] | Q4_K | nibbles | 32 | five words per 256: `d`, `e` as `f16`; eight bytes `s`; eight bytes `t` | `d * s * q - e * t` |
//! | [`Layout::Nested5`] | Q5_K | nibbles, singles | 32 | as Q4_K | `d * s * q - e * t` |
//! | [`Layout::Nested6`] | Q6_K | nibbles, pairs | 16 | as Q3_K | `d * s * (q - 32)` |
//! | [`Layout::Q8`] | Q8_0 | bytes | 32 | two `f16` scales per word | `d * q` |
//! | [`Layout::F16`] | F16 | halves | – | none | itself |
//! | [`Layout::BF16`] | BF16 | bhalves | – | none | itself |
//! | [`Layout::F32`] | F32 | floats | – | none | itself |
//!
//! `q` is the number that the planes make, the high plane on top. Products are formed from left to
//! right in `f32`. Where scales are two to a word, a row with an odd number of groups has a zero in the
//! last word's upper half.
//!
//! Repacking loses nothing: [`Layout::unpack_row`] gives exactly the weights that
//! [`crate::codec::dequantize`] gives for the same blocks. Memory is at most 1.06 times that of the
//! file's blocks, plus the padding of a row.

use half::{bf16, f16};

use crate::block::{BlockType, Unsupported};

mod repack;

/// How a tensor lies in GPU memory. See the [module](self).
#[expect(missing_docs, reason = "the module's table describes them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    Centred4,
    Offset4,
    Centred5,
    Offset5,
    Nested2,
    Nested3,
    Nested4,
    Nested5,
    Nested6,
    Q8,
    F16,
    BF16,
    F32,
}

/// The bits of a row's weights, or some of the bits of each. See the [module](self).
#[expect(missing_docs, reason = "the module's table describes them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plane {
    Singles,
    Pairs,
    Nibbles,
    Bytes,
    Halves,
    BHalves,
    Floats,
}

/// Weights of a block of the K types.
const SUPER: usize = 256;
/// Words of scales for [`SUPER`] weights.
const SUPER_SCALES: usize = 5;

/// Why a tensor cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// There is no layout for the type.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The length of a row does not fit the type.
    #[error("rows of {row_len} weights cannot be packed from {kind}: not a multiple of {multiple}")]
    RowLength {
        /// The type in the file.
        kind: BlockType,
        /// Weights per row.
        row_len: usize,
        /// What the length must be a multiple of, and not zero.
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
}

impl Plane {
    /// Bits per weight, which is also the number of words for 32 weights.
    pub const fn bits(self) -> usize {
        match self {
            Self::Singles => 1,
            Self::Pairs => 2,
            Self::Nibbles => 4,
            Self::Bytes => 8,
            Self::Halves | Self::BHalves => 16,
            Self::Floats => 32,
        }
    }

    /// Words for a row of `row_len` weights, padded to a multiple of four.
    pub fn row_words(self, row_len: usize) -> usize {
        (row_len * self.bits()).div_ceil(32).next_multiple_of(4)
    }

    /// The bits of weight `i` of a row, in the low bits.
    fn get(self, plane: &[u32], i: usize) -> u32 {
        let (block, i) = (i / 32, i % 32);
        let (word, shift) = match self {
            Self::Singles => (0, i),
            Self::Pairs => (i / 16, i % 4 * 8 + i % 16 / 4 * 2),
            Self::Nibbles => (i % 16 / 4, i % 4 * 8 + i / 16 * 4),
            Self::Bytes => (i / 4, i % 4 * 8),
            Self::Halves | Self::BHalves => (i / 2, i % 2 * 16),
            Self::Floats => (i, 0),
        };
        plane[block * self.bits() + word] >> shift & (u32::MAX >> (32 - self.bits()))
    }
}

impl Layout {
    /// The layout for weights of type `kind`.
    pub fn for_type(kind: BlockType) -> Result<Self, Unsupported> {
        match kind {
            BlockType::Q4_0 => Ok(Self::Centred4),
            BlockType::Q4_1 => Ok(Self::Offset4),
            BlockType::Q5_0 => Ok(Self::Centred5),
            BlockType::Q5_1 => Ok(Self::Offset5),
            BlockType::Q8_0 => Ok(Self::Q8),
            BlockType::Q2_K => Ok(Self::Nested2),
            BlockType::Q3_K => Ok(Self::Nested3),
            BlockType::Q4_K => Ok(Self::Nested4),
            BlockType::Q5_K => Ok(Self::Nested5),
            BlockType::Q6_K => Ok(Self::Nested6),
            BlockType::F16 => Ok(Self::F16),
            BlockType::BF16 => Ok(Self::BF16),
            BlockType::F32 => Ok(Self::F32),
            _ => Err(Unsupported { kind }),
        }
    }

    /// The planes of a row: low and, where a weight's bits do not fit one, high.
    pub const fn planes(self) -> (Plane, Option<Plane>) {
        match self {
            Self::Centred4 | Self::Offset4 | Self::Nested4 => (Plane::Nibbles, None),
            Self::Centred5 | Self::Offset5 | Self::Nested5 => {
                (Plane::Nibbles, Some(Plane::Singles))
            }
            Self::Nested2 => (Plane::Pairs, None),
            Self::Nested3 => (Plane::Pairs, Some(Plane::Singles)),
            Self::Nested6 => (Plane::Nibbles, Some(Plane::Pairs)),
            Self::Q8 => (Plane::Bytes, None),
            Self::F16 => (Plane::Halves, None),
            Self::BF16 => (Plane::BHalves, None),
            Self::F32 => (Plane::Floats, None),
        }
    }

    /// Weights that share a scale; 0 where there are no scales.
    pub const fn group(self) -> usize {
        match self {
            Self::Nested2 | Self::Nested3 | Self::Nested6 => 16,
            Self::Centred4 | Self::Offset4 | Self::Centred5 | Self::Offset5 => 32,
            Self::Nested4 | Self::Nested5 | Self::Q8 => 32,
            Self::F16 | Self::BF16 | Self::F32 => 0,
        }
    }

    /// 32-bit words per row of `row_len` weights in the stream of words; a multiple of four.
    pub fn row_words(self, row_len: usize) -> usize {
        self.high_start(row_len) + self.planes().1.map_or(0, |high| high.row_words(row_len))
    }

    /// Where in a row's words its high plane begins, if it has one; a multiple of four.
    pub fn high_start(self, row_len: usize) -> usize {
        self.planes().0.row_words(row_len)
    }

    /// 32-bit words per row of `row_len` weights in the stream of scales.
    pub fn row_scales(self, row_len: usize) -> usize {
        match self {
            Self::Centred4 | Self::Centred5 | Self::Q8 => (row_len / 32).div_ceil(2),
            Self::Offset4 | Self::Offset5 => row_len / 32,
            Self::Nested2 | Self::Nested3 | Self::Nested4 | Self::Nested5 | Self::Nested6 => {
                row_len / SUPER * SUPER_SCALES
            }
            Self::F16 | Self::BF16 | Self::F32 => 0,
        }
    }

    /// The weights of one row, as kernels must understand them; the reference for tests.
    ///
    /// `words` and `scales` are the row's own, [`Layout::row_words`] and [`Layout::row_scales`]
    /// long.
    pub fn unpack_row(self, words: &[u32], scales: &[u32], row_len: usize) -> Vec<f32> {
        let (low, high) = self.planes();
        let (low_plane, high_plane) = words.split_at(self.high_start(row_len));
        let weight = |i: usize| {
            let top = high.map_or(0, |high| high.get(high_plane, i) << low.bits());
            self.weight(low.get(low_plane, i) | top, scales, i)
        };
        (0..row_len).map(weight).collect()
    }

    /// Weight `i` of a row from its bits and the row's scales.
    fn weight(self, bits: u32, scales: &[u32], i: usize) -> f32 {
        let q = bits as f32;
        // Scales two to a word; a pair per group; a pair and bytes per 256 weights.
        let single = || halves(scales[i / 64])[i / 32 % 2];
        let pair = || halves(scales[i / 32]);
        let nested = || &scales[i / SUPER * SUPER_SCALES..][..SUPER_SCALES];
        let outer = || halves(nested()[0]);
        let byte = |index: usize| (nested()[1 + index / 4] >> (index % 4 * 8)) as u8;
        let sixteenth = i % SUPER / 16;
        match self {
            Self::Centred4 => single() * (q - 8.0),
            Self::Centred5 => single() * (q - 16.0),
            Self::Offset4 | Self::Offset5 => {
                let [d, m] = pair();
                d * q + m
            }
            Self::Nested2 => {
                let [d, e] = outer();
                let both = byte(sixteenth);
                d * f32::from(both & 15) * q - e * f32::from(both >> 4)
            }
            Self::Nested3 => outer()[0] * f32::from(byte(sixteenth) as i8) * (q - 4.0),
            Self::Nested4 | Self::Nested5 => {
                let [d, e] = outer();
                let (s, t) = (byte(sixteenth / 2), byte(8 + sixteenth / 2));
                d * f32::from(s) * q - e * f32::from(t)
            }
            Self::Nested6 => outer()[0] * f32::from(byte(sixteenth) as i8) * (q - 32.0),
            Self::Q8 => single() * f32::from(bits as i8),
            Self::F16 => f16::from_bits(bits as u16).to_f32(),
            Self::BF16 => bf16::from_bits(bits as u16).to_f32(),
            Self::F32 => f32::from_bits(bits),
        }
    }
}

fn halves(word: u32) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|bits| f16::from_bits(bits).to_f32())
}

/// Repacks rows of one tensor into their [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packer {
    kind: BlockType,
    layout: Layout,
    row_len: usize,
}

impl Packer {
    /// A packer for rows of `row_len` weights of type `kind`.
    ///
    /// # Errors
    /// [`PackError::Unsupported`] where the type has no layout, [`PackError::RowLength`] where a row is
    /// not a whole number of blocks.
    pub fn new(kind: BlockType, row_len: usize) -> Result<Self, PackError> {
        let layout = Layout::for_type(kind)?;
        let multiple = kind.block_len();
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
    /// # Errors
    /// [`PackError::PartialRow`]; the streams are as they were.
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
        let row_words = self.layout.row_words(self.row_len);
        let row_scales = self.layout.row_scales(self.row_len);
        let (old_words, old_scales) = (words.len(), scales.len());
        words.resize(old_words + count * row_words, 0);
        scales.resize(old_scales + count * row_scales, 0);
        let mut scales = &mut scales[old_scales..];
        let rows = rows
            .chunks_exact(row_bytes)
            .zip(words[old_words..].chunks_exact_mut(row_words));
        for (row, words) in rows {
            // Not in chunks: some layouts have no scales.
            let (row_scales, rest) = std::mem::take(&mut scales).split_at_mut(row_scales);
            scales = rest;
            self.pack_row(row, words, row_scales);
        }
        Ok(())
    }

    fn pack_row(&self, row: &[u8], words: &mut [u32], scales: &mut [u32]) {
        let (low, high) = words.split_at_mut(self.layout.high_start(self.row_len));
        match self.layout {
            Layout::Centred4 => repack::q4_0(row, low, scales),
            Layout::Offset4 => repack::q4_1(row, low, scales),
            Layout::Centred5 => repack::q5_0(row, low, high, scales),
            Layout::Offset5 => repack::q5_1(row, low, high, scales),
            Layout::Nested2 => repack::q2_k(row, low, scales),
            Layout::Nested3 => repack::q3_k(row, low, high, scales),
            Layout::Nested4 => repack::q4_k(row, low, scales),
            Layout::Nested5 => repack::q5_k(row, low, high, scales),
            Layout::Nested6 => repack::q6_k(row, low, high, scales),
            Layout::Q8 => repack::q8_0(row, low, scales),
            Layout::F16 | Layout::BF16 | Layout::F32 => repack::floats(row, low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dequantize;

    /// Every type with a layout, and the most that it takes of the file's bytes.
    const KINDS: [(BlockType, f64); 13] = [
        (BlockType::Q4_0, 1.0),
        (BlockType::Q4_1, 1.0),
        (BlockType::Q5_0, 1.0),
        (BlockType::Q5_1, 1.0),
        (BlockType::Q8_0, 1.0),
        (BlockType::Q2_K, 1.0),
        (BlockType::Q3_K, 1.06),
        (BlockType::Q4_K, 1.03),
        (BlockType::Q5_K, 1.03),
        (BlockType::Q6_K, 1.01),
        (BlockType::F16, 1.0),
        (BlockType::BF16, 1.0),
        (BlockType::F32, 1.0),
    ];

    fn random_bytes(count: usize, mut state: u64) -> Vec<u8> {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..count).map(|_| next()).collect()
    }

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
        assert!(w.is_multiple_of(4) && layout.high_start(row_len).is_multiple_of(4));
        for row in 0..rows {
            let (words, scales) = (&words[row * w..][..w], &scales[row * s..][..s]);
            let unpacked = layout.unpack_row(words, scales, row_len);
            let expected = &expected[row * row_len..][..row_len];
            // Random scales may be infinite or not numbers; those count as equal.
            let equal = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
            assert!(
                unpacked.iter().zip(expected).all(equal),
                "{kind}, row {row}"
            );
        }
    }

    #[test]
    fn packing_loses_nothing() {
        for (kind, _) in KINDS {
            for blocks in [1, 2, 3, 5, 18] {
                for rows in [0, 1, 2, 7] {
                    let row_len = blocks * kind.block_len();
                    let bytes = rows * blocks * kind.block_bytes();
                    check(kind, row_len, &random_bytes(bytes, blocks as u64));
                }
            }
        }
    }

    #[test]
    fn every_scale_of_q4_0_is_exact() {
        for bits in 0..=u16::MAX {
            let mut block = [0u8; 18];
            block[..2].copy_from_slice(&bits.to_le_bytes());
            for (i, byte) in block[2..].iter_mut().enumerate() {
                *byte = (i | (15 - i) << 4) as u8;
            }
            check(BlockType::Q4_0, 32, &block);
        }
    }

    #[test]
    fn planes_and_groups_are_those_of_the_table() {
        for (kind, _) in KINDS {
            let layout = Layout::for_type(kind).expect("a layout");
            let (low, high) = layout.planes();
            let bits = low.bits() + high.map_or(0, Plane::bits);
            let name: String = kind.name().chars().filter(char::is_ascii_digit).collect();
            // The first digits of a type's name are its bits: Q5_1, Q3_K, F16.
            assert!(name.starts_with(&bits.to_string()), "{kind}: {bits} bits");
            assert_eq!(layout.group() == 0, layout.row_scales(1024) == 0);
        }
    }

    #[test]
    fn memory_stays_close_to_the_files() {
        for (kind, limit) in KINDS {
            let packer = Packer::new(kind, 2048).expect("a layout");
            let used = packer.words_bytes(1) + packer.scale_bytes(1);
            let ratio = used as f64 / packer.row_bytes() as f64;
            assert!(ratio <= limit, "{kind}: {ratio}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = Packer::new(BlockType::IQ4_XS, 256).expect_err("no layout");
        assert!(matches!(error, PackError::Unsupported(_)));
        for (kind, row_len) in [
            (BlockType::Q4_1, 48),
            (BlockType::Q4_K, 320),
            (BlockType::F32, 0),
        ] {
            let error = Packer::new(kind, row_len).expect_err("row length");
            assert!(matches!(error, PackError::RowLength { .. }), "{error}");
        }
        for (kind, row_len, bytes) in [(BlockType::Q8_0, 64, 34), (BlockType::Q6_K, 256, 211)] {
            let packer = Packer::new(kind, row_len).expect("a layout");
            let (mut words, mut scales) = (vec![], vec![]);
            let error = packer
                .pack(&vec![0; bytes], &mut words, &mut scales)
                .expect_err("no whole rows");
            assert!(matches!(error, PackError::PartialRow { .. }), "{error}");
            assert!(words.is_empty() && scales.is_empty());
        }
    }
}
