//! Device layouts for the types whose weights have odd numbers of bits or scales of scales.
//!
//! As in [`crate::layout`] a tensor becomes two streams of 32-bit words, *words* and *scales*, row by
//! row. A weight's bits lie in up to two planes, so that every plane is read in whole words and one
//! mask per four weights:
//!
//! * *nibbles* (four bits): per 32 weights four words; the low halves of their 16 bytes are weights 0
//!   to 15, the high halves 16 to 31.
//! * *pairs* (two bits): per 32 weights two words; bits `2 k` and up of byte `j` of word `w` are weight
//!   `16 w + 4 k + j`.
//! * *singles* (one bit): per 32 weights one word; bit `i` is weight `i`.
//!
//! In *words* a row is all of its low plane and then all of its high plane, each padded with zeros to a
//! multiple of four words, so that kernels may read `vec4<u32>`.
//!
//! | layout | from | low, high | group | *scales* | weight |
//! |---|---|---|---|---|---|
//! | [`PlaneLayout::Centred4`] | Q4_0 | nibbles | 32 | two `f16` scales per word | `d * (q - 8)` |
//! | [`PlaneLayout::Centred5`] | Q5_0 | nibbles, singles | 32 | two `f16` scales per word | `d * (q - 16)` |
//! | [`PlaneLayout::Offset5`] | Q5_1 | nibbles, singles | 32 | `d`, `m` as `f16` in a word | `d * q + m` |
//! | [`PlaneLayout::Nested2`] | Q2_K | pairs | 16 | five words per 256 weights: `d`, `e` as `f16`; sixteen bytes with `s` in the low and `t` in the high half | `d * s * q - e * t` |
//! | [`PlaneLayout::Nested3`] | Q3_K | pairs, singles | 16 | five words per 256: `d` as `f16`; sixteen signed bytes `s` | `d * s * (q - 4)` |
//! | [`PlaneLayout::Nested4`] | Q4_K | nibbles | 32 | five words per 256: `d`, `e` as `f16`; eight bytes `s`; eight bytes `t` | `d * s * q - e * t` |
//! | [`PlaneLayout::Nested5`] | Q5_K | nibbles, singles | 32 | as Q4_K | `d * s * q - e * t` |
//! | [`PlaneLayout::Nested6`] | Q6_K | nibbles, pairs | 16 | as Q3_K | `d * s * (q - 32)` |
//!
//! `q` is the number that the planes make, the high plane on top. Products are formed from left to
//! right in `f32`. Nothing is lost: [`PlaneLayout::unpack_row`] gives exactly the weights that
//! [`crate::codec::dequantize`] gives. Memory is at most 1.06 times that of the file's blocks, plus the
//! padding of a row.

use half::f16;

use crate::block::{BlockType, Unsupported};
use crate::codec::{q3_k_scales, scales_and_mins};
use crate::layout::PackError;

/// How a tensor lies in GPU memory. See the [module](self).
#[expect(missing_docs, reason = "the module's table describes them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlaneLayout {
    Centred4,
    Centred5,
    Offset5,
    Nested2,
    Nested3,
    Nested4,
    Nested5,
    Nested6,
}

/// Weights of a block of the K types.
const SUPER: usize = 256;
/// Words of scales for [`SUPER`] weights.
const SUPER_SCALES: usize = 5;

/// The bits of a weight in one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plane {
    Nibbles,
    Pairs,
    Singles,
}

impl Plane {
    /// Words for 32 weights.
    const fn words(self) -> usize {
        match self {
            Self::Nibbles => 4,
            Self::Pairs => 2,
            Self::Singles => 1,
        }
    }

    /// Bits per weight.
    const fn bits(self) -> u32 {
        self.words() as u32
    }

    /// Words for a row, padded.
    fn row_words(self, row_len: usize) -> usize {
        (row_len / 32 * self.words()).next_multiple_of(4)
    }

    /// Weight `i` of a row's plane.
    fn get(self, plane: &[u32], i: usize) -> u32 {
        let (block, i) = (i / 32, i % 32);
        let (word, shift) = match self {
            Self::Nibbles => (i % 16 / 4, i % 4 * 8 + i / 16 * 4),
            Self::Pairs => (i / 16, i % 4 * 8 + i % 16 / 4 * 2),
            Self::Singles => (0, i),
        };
        plane[block * self.words() + word] >> shift & ((1 << self.bits()) - 1)
    }
}

impl PlaneLayout {
    /// The layout for weights of type `kind`.
    pub fn for_type(kind: BlockType) -> Result<Self, Unsupported> {
        match kind {
            BlockType::Q4_0 => Ok(Self::Centred4),
            BlockType::Q5_0 => Ok(Self::Centred5),
            BlockType::Q5_1 => Ok(Self::Offset5),
            BlockType::Q2_K => Ok(Self::Nested2),
            BlockType::Q3_K => Ok(Self::Nested3),
            BlockType::Q4_K => Ok(Self::Nested4),
            BlockType::Q5_K => Ok(Self::Nested5),
            BlockType::Q6_K => Ok(Self::Nested6),
            _ => Err(Unsupported { kind }),
        }
    }

    fn planes(self) -> (Plane, Option<Plane>) {
        match self {
            Self::Centred4 | Self::Nested4 => (Plane::Nibbles, None),
            Self::Centred5 | Self::Offset5 | Self::Nested5 => {
                (Plane::Nibbles, Some(Plane::Singles))
            }
            Self::Nested2 => (Plane::Pairs, None),
            Self::Nested3 => (Plane::Pairs, Some(Plane::Singles)),
            Self::Nested6 => (Plane::Nibbles, Some(Plane::Pairs)),
        }
    }

    /// 32-bit words per row of `row_len` weights in the stream of words.
    pub fn row_words(self, row_len: usize) -> usize {
        self.high_start(row_len) + self.planes().1.map_or(0, |high| high.row_words(row_len))
    }

    /// Where in a row's words its high plane begins.
    pub fn high_start(self, row_len: usize) -> usize {
        self.planes().0.row_words(row_len)
    }

    /// 32-bit words per row of `row_len` weights in the stream of scales.
    pub fn row_scales(self, row_len: usize) -> usize {
        match self {
            Self::Centred4 | Self::Centred5 => (row_len / 32).div_ceil(2),
            Self::Offset5 => row_len / 32,
            _ => row_len / SUPER * SUPER_SCALES,
        }
    }

    /// The weights of one row, as kernels must understand them; the reference for tests.
    ///
    /// `words` and `scales` are the row's own, [`Self::row_words`] and [`Self::row_scales`] long.
    pub fn unpack_row(self, words: &[u32], scales: &[u32], row_len: usize) -> Vec<f32> {
        let (low, high) = self.planes();
        let (low_plane, high_plane) = words.split_at(self.high_start(row_len));
        let weight = |i: usize| {
            let top = high.map_or(0, |high| high.get(high_plane, i) << low.bits());
            let q = (low.get(low_plane, i) | top) as f32;
            let super_scales = || &scales[i / SUPER * SUPER_SCALES..][..SUPER_SCALES];
            // Of the bytes behind the first word of a super-block's scales.
            let byte = |index: usize| (super_scales()[1 + index / 4] >> (index % 4 * 8)) as u8;
            let group = i % SUPER / 16;
            match self {
                Self::Centred4 => halves(scales[i / 64])[i / 32 % 2] * (q - 8.0),
                Self::Centred5 => halves(scales[i / 64])[i / 32 % 2] * (q - 16.0),
                Self::Offset5 => {
                    let [d, m] = halves(scales[i / 32]);
                    d * q + m
                }
                Self::Nested2 => {
                    let [d, e] = halves(super_scales()[0]);
                    let both = byte(group);
                    d * f32::from(both & 15) * q - e * f32::from(both >> 4)
                }
                Self::Nested3 => {
                    let [d, _] = halves(super_scales()[0]);
                    d * f32::from(byte(group) as i8) * (q - 4.0)
                }
                Self::Nested4 | Self::Nested5 => {
                    let [d, e] = halves(super_scales()[0]);
                    let (s, t) = (byte(group / 2), byte(8 + group / 2));
                    d * f32::from(s) * q - e * f32::from(t)
                }
                Self::Nested6 => {
                    let [d, _] = halves(super_scales()[0]);
                    d * f32::from(byte(group) as i8) * (q - 32.0)
                }
            }
        };
        (0..row_len).map(weight).collect()
    }
}

fn halves(word: u32) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|bits| f16::from_bits(bits).to_f32())
}

/// Repacks rows of one tensor into a [`PlaneLayout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanePacker {
    kind: BlockType,
    layout: PlaneLayout,
    row_len: usize,
}

impl PlanePacker {
    /// A packer for rows of `row_len` weights of type `kind`.
    pub fn new(kind: BlockType, row_len: usize) -> Result<Self, PackError> {
        let layout = PlaneLayout::for_type(kind)?;
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
    pub fn layout(&self) -> PlaneLayout {
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
        let row_words = self.layout.row_words(self.row_len);
        let row_scales = self.layout.row_scales(self.row_len);
        let (old_words, old_scales) = (words.len(), scales.len());
        words.resize(old_words + count * row_words, 0);
        scales.resize(old_scales + count * row_scales, 0);
        let rows = rows
            .chunks_exact(row_bytes)
            .zip(words[old_words..].chunks_exact_mut(row_words))
            .zip(scales[old_scales..].chunks_exact_mut(row_scales));
        for ((row, words), scales) in rows {
            let (low, high) = words.split_at_mut(self.layout.high_start(self.row_len));
            match self.kind {
                BlockType::Q4_0 => q4_0(row, low, scales),
                BlockType::Q5_0 => q5_0(row, low, high, scales),
                BlockType::Q5_1 => q5_1(row, low, high, scales),
                BlockType::Q2_K => q2_k(row, low, scales),
                BlockType::Q3_K => q3_k(row, low, high, scales),
                BlockType::Q4_K => q4_k(row, low, scales),
                BlockType::Q5_K => q5_k(row, low, high, scales),
                // `new` let nothing else through.
                _ => q6_k(row, low, high, scales),
            }
        }
        Ok(())
    }
}

/// The word at byte `at` of a block.
fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

fn half(block: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// `N` words from byte `at` on.
fn words_at<const N: usize>(block: &[u8], at: usize) -> [u32; N] {
    std::array::from_fn(|i| word(block, at + 4 * i))
}

/// Scales that stand alone, two to a word.
fn paired_scales<const BYTES: usize>(blocks: &[[u8; BYTES]], scales: &mut [u32]) {
    for (pair, scale) in blocks.chunks(2).zip(scales) {
        *scale = half(&pair[0], 0) | pair.get(1).map_or(0, |block| half(block, 0)) << 16;
    }
}

/// The file has nibbles and single bits in the order of the planes.
fn q4_0(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<18>();
    for (block, low) in blocks.iter().zip(low.as_chunks_mut::<4>().0) {
        *low = words_at(block, 2);
    }
    paired_scales(blocks, scales);
}

fn q5_0(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<22>();
    for ((block, low), high) in blocks.iter().zip(low.as_chunks_mut::<4>().0).zip(high) {
        *low = words_at(block, 6);
        *high = word(block, 2);
    }
    paired_scales(blocks, scales);
}

fn q5_1(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let (blocks, _) = row.as_chunks::<24>();
    let outputs = low.as_chunks_mut::<4>().0.iter_mut().zip(high).zip(scales);
    for (block, ((low, high), scale)) in blocks.iter().zip(outputs) {
        *low = words_at(block, 8);
        *high = word(block, 4);
        *scale = word(block, 0);
    }
}

/// Four bit pairs of bytes in a row to one word of the pairs plane.
///
/// The K types keep the pairs of 128 weights in 32 bytes: weight `32 run + b` is pair `run` of byte `b`.
/// A word of the plane has 16 weights of one run: pair `k` of its bytes comes from bytes `4 k` to
/// `4 k + 3` of the sixteen.
fn pairs(bytes: &[u32; 4], run: u32) -> u32 {
    let pair = |k: usize| (bytes[k] >> (2 * run) & 0x0303_0303) << (2 * k);
    pair(0) | pair(1) | pair(2) | pair(3)
}

/// The pairs of 256 weights from 64 bytes at `at`, as sixteen words.
fn all_pairs(block: &[u8], at: usize, out: &mut [u32; 16]) {
    for half in 0..2 {
        for side in 0..2 {
            let bytes = words_at(block, at + 32 * half + 16 * side);
            for run in 0..4 {
                out[8 * half + 2 * run + side] = pairs(&bytes, run as u32);
            }
        }
    }
}

/// Bit `bit` of each of 32 bytes, as one word.
fn singles(bytes: &[u32; 8], bit: u32) -> u32 {
    let mut out = 0;
    for (i, four) in bytes.iter().enumerate() {
        // The four bits gathered into the top nibble: byte `j` moves to bit `28 + j`.
        let bits = (four >> bit & 0x0101_0101).wrapping_mul(0x1020_4080) >> 28;
        out |= bits << (4 * i);
    }
    out
}

/// The single bits of 256 weights from 32 bytes at `at`: bit `j` of byte `i` is weight `32 j + i`.
fn all_singles(block: &[u8], at: usize, out: &mut [u32; 8]) {
    let bytes = words_at(block, at);
    for (bit, out) in (0..).zip(out) {
        *out = singles(&bytes, bit);
    }
}

/// The nibbles of 64 weights from 32 bytes: the first 32 weights are the low halves. In the plane,
/// weights 0 to 15 of 32 are low halves and 16 to 31 high ones.
fn nibbles_of_64(bytes: &[u32; 8], first: &mut [u32; 4], second: &mut [u32; 4]) {
    const LOW: u32 = 0x0f0f_0f0f;
    for i in 0..4 {
        first[i] = bytes[i] & LOW | (bytes[i + 4] & LOW) << 4;
        second[i] = bytes[i] >> 4 & LOW | bytes[i + 4] & !LOW;
    }
}

/// The nibbles of 256 weights from 128 bytes at `at`, as 32 words.
fn all_nibbles(block: &[u8], at: usize, out: &mut [u32; 32]) {
    let (groups, _) = out.as_chunks_mut::<4>();
    for (run, pair) in groups.chunks_exact_mut(2).enumerate() {
        if let [first, second] = pair {
            nibbles_of_64(&words_at(block, at + 32 * run), first, second);
        }
    }
}

fn q2_k(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<16>().0.iter_mut();
    let outputs = outputs.zip(scales.as_chunks_mut::<5>().0);
    for (block, (low, scales)) in row.as_chunks::<84>().0.iter().zip(outputs) {
        all_pairs(block, 16, low);
        let [a, b, c, d] = words_at(block, 0);
        *scales = [word(block, 80), a, b, c, d];
    }
}

fn q3_k(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<16>().0.iter_mut();
    let outputs = outputs
        .zip(high.as_chunks_mut::<8>().0)
        .zip(scales.as_chunks_mut::<5>().0);
    for (block, ((low, high), scales)) in row.as_chunks::<110>().0.iter().zip(outputs) {
        all_pairs(block, 32, low);
        all_singles(block, 0, high);
        let mut packed = [0; 12];
        packed.copy_from_slice(&block[96..108]);
        let bytes = q3_k_scales(&packed).map(|scale| scale as u8);
        let [a, b, c, d] = words_at(&bytes, 0);
        *scales = [half(block, 108), a, b, c, d];
    }
}

/// Scale of scales and scale of minimums, then eight scales and eight minimums, each in a byte.
fn scales_with_mins(block: &[u8]) -> [u32; 5] {
    let mut packed = [0; 12];
    packed.copy_from_slice(&block[4..16]);
    let (scales, mins) = scales_and_mins(&packed);
    let [a, b] = words_at(&scales, 0);
    let [c, d] = words_at(&mins, 0);
    [word(block, 0), a, b, c, d]
}

fn q4_k(row: &[u8], low: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<32>().0.iter_mut();
    let outputs = outputs.zip(scales.as_chunks_mut::<5>().0);
    for (block, (low, scales)) in row.as_chunks::<144>().0.iter().zip(outputs) {
        all_nibbles(block, 16, low);
        *scales = scales_with_mins(block);
    }
}

fn q5_k(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<32>().0.iter_mut();
    let outputs = outputs
        .zip(high.as_chunks_mut::<8>().0)
        .zip(scales.as_chunks_mut::<5>().0);
    for (block, ((low, high), scales)) in row.as_chunks::<176>().0.iter().zip(outputs) {
        all_nibbles(block, 48, low);
        all_singles(block, 16, high);
        *scales = scales_with_mins(block);
    }
}

/// The nibbles of 128 weights are in 64 bytes, the first 64 weights in the low halves.
fn q6_k(row: &[u8], low: &mut [u32], high: &mut [u32], scales: &mut [u32]) {
    let outputs = low.as_chunks_mut::<32>().0.iter_mut();
    let outputs = outputs
        .zip(high.as_chunks_mut::<16>().0)
        .zip(scales.as_chunks_mut::<5>().0);
    for (block, ((low, high), scales)) in row.as_chunks::<210>().0.iter().zip(outputs) {
        let (groups, _) = low.as_chunks_mut::<4>();
        for half in 0..2 {
            for side in 0..2 {
                let bytes = words_at(block, 64 * half + 32 * side);
                let (mut first, mut second) = ([0; 4], [0; 4]);
                nibbles_of_64(&bytes, &mut first, &mut second);
                groups[4 * half + side] = first;
                groups[4 * half + 2 + side] = second;
            }
        }
        all_pairs(block, 128, high);
        let [a, b, c, d] = words_at(block, 192);
        *scales = [half(block, 208), a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dequantize;

    const KINDS: [BlockType; 8] = [
        BlockType::Q4_0,
        BlockType::Q5_0,
        BlockType::Q5_1,
        BlockType::Q2_K,
        BlockType::Q3_K,
        BlockType::Q4_K,
        BlockType::Q5_K,
        BlockType::Q6_K,
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

    #[test]
    fn packing_loses_nothing() {
        for kind in KINDS {
            for blocks in [1, 2, 3, 5, 18] {
                let row_len = blocks * kind.block_len();
                let packer = PlanePacker::new(kind, row_len).expect("a layout");
                let layout = packer.layout();
                let rows = 7;
                let bytes = random_bytes(rows * packer.row_bytes(), blocks as u64);
                let mut expected = vec![0.0; rows * row_len];
                dequantize(kind, &bytes, &mut expected).expect("sizes");
                let (mut words, mut scales) = (vec![7], vec![8]);
                let packed = packer.pack(&bytes, &mut words, &mut scales);
                packed.expect("whole rows");
                assert_eq!((words[0], scales[0]), (7, 8), "appended");
                let (words, scales) = (&words[1..], &scales[1..]);
                assert_eq!(size_of_val(words), packer.words_bytes(rows));
                assert_eq!(size_of_val(scales), packer.scale_bytes(rows));
                let (w, s) = (layout.row_words(row_len), layout.row_scales(row_len));
                for row in 0..rows {
                    let words = &words[row * w..][..w];
                    let scales = &scales[row * s..][..s];
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
        }
    }

    #[test]
    fn memory_stays_close_to_the_files() {
        for kind in KINDS {
            let packer = PlanePacker::new(kind, 2048).expect("a layout");
            let used = packer.words_bytes(1) + packer.scale_bytes(1);
            let ratio = used as f64 / packer.row_bytes() as f64;
            let limit = if kind == BlockType::Q4_0 { 1.0 } else { 1.06 };
            assert!(ratio <= limit, "{kind}: {ratio}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = PlanePacker::new(BlockType::F32, 256).expect_err("no layout");
        assert!(matches!(error, PackError::Unsupported(_)));
        let error = PlanePacker::new(BlockType::Q4_K, 320).expect_err("row length");
        assert!(matches!(error, PackError::RowLength { multiple: 256, .. }));
        let packer = PlanePacker::new(BlockType::Q6_K, 256).expect("a layout");
        let error = packer.pack(&[0; 211], &mut vec![], &mut vec![]);
        assert!(matches!(error, Err(PackError::PartialRow { .. })));
    }
}
