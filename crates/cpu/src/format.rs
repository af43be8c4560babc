//! How the weights of each block type lie in memory, and how they unpack.
//!
//! Eight rows make a panel, and a panel is a sequence of blocks: one block of the file from each of the
//! eight rows, interleaved so that a load brings four columns of all rows (see [`crate::simd`]). In
//! groups of 32 columns, vector `v` of a plane of nibbles has columns `4v..4v + 4` in the low halves and
//! `16 + 4v..` in the high halves; planes of single bits and bit pairs put those of column
//! `4k + i` in byte `i` of each row, in the order of `k`.
//!
//! A weight is `scale (code - CENTRE) - minimum`. Scales of scales are kept in single precision, since
//! they are often subnormal as halves; scales of single groups as they are in the file.

use half::f16;

use crate::simd::Simd;

/// A quantized block type.
pub trait Format {
    /// One block of the file from each of eight rows.
    type Block: Copy;
    /// Bytes of a block in the file.
    const FILE_BYTES: usize;
    /// Groups of 32 columns in a block.
    const GROUPS: usize;
    /// Whether scales and minimums belong to 16 columns and not to 32.
    const HALVES: bool;
    /// Whether there are minimums.
    const MINIMUMS: bool;
    /// What is taken away from the codes.
    const CENTRE: i32;
    /// Whether codes are signed bytes; otherwise they are below 128.
    const SIGNED: bool;

    /// Interleaves a block of each of eight rows.
    fn pack(rows: &[&[u8]; 8]) -> Self::Block;
    /// Codes of columns `4 v..` and `16 + 4 v..` of a group, for `v` from 0 to 3.
    fn codes<S: Simd>(simd: S, block: &Self::Block, group: usize, v: usize) -> [S::Bytes; 2];
    /// Scales of the first and the second 16 columns of a group.
    fn scales<S: Simd>(simd: S, block: &Self::Block, group: usize) -> [S::Floats; 2];
    /// Minimums of the first and the second 16 columns of a group.
    fn minimums<S: Simd>(simd: S, block: &Self::Block, group: usize) -> [S::Floats; 2];
}

/// 32 columns of eight rows, four bits each.
type Nibbles = [[u8; 32]; 4];
/// 32 columns of eight rows, one bit each.
type Bits = [u8; 32];
/// 32 columns of eight rows, two bits each.
type Pairs = [[u8; 32]; 2];

/// Packs the low four bits of 32 codes as row `row`.
fn pack_nibbles(codes: &[u8; 32], row: usize, to: &mut Nibbles) {
    for (v, to) in to.iter_mut().enumerate() {
        for i in 0..4 {
            to[4 * row + i] = (codes[4 * v + i] & 15) | (codes[16 + 4 * v + i] & 15) << 4;
        }
    }
}

/// Packs bit `bit` of 32 codes as row `row`.
fn pack_bits(codes: &[u8; 32], bit: u32, row: usize, to: &mut Bits) {
    for i in 0..4 {
        let bits = (0..8).map(|k| (codes[4 * k + i] >> bit & 1) << k);
        to[4 * row + i] = bits.sum();
    }
}

/// Packs bits `bit` and `bit + 1` of 32 codes as row `row`.
fn pack_pairs(codes: &[u8; 32], bit: u32, row: usize, to: &mut Pairs) {
    for (half, to) in to.iter_mut().enumerate() {
        for i in 0..4 {
            let bits = (0..4).map(|k| (codes[16 * half + 4 * k + i] >> bit & 3) << (2 * k));
            to[4 * row + i] = bits.sum();
        }
    }
}

#[inline(always)]
fn nibbles<S: Simd>(simd: S, plane: &Nibbles, v: usize) -> [S::Bytes; 2] {
    let both = simd.bytes(&plane[v]);
    let high = simd.shift_right(both, 4);
    [simd.mask(both, 15), simd.mask(high, 15)]
}

/// Single bits, moved to bit 4.
#[inline(always)]
fn fifth_bits<S: Simd>(simd: S, plane: &Bits, v: usize) -> [S::Bytes; 2] {
    let all = simd.bytes(plane);
    let low = simd.shift_left(all, 4 - v as u32);
    let high = simd.shift_right(all, v as u32);
    [simd.mask(low, 16), simd.mask(high, 16)]
}

/// Single bits, moved to bit 2.
#[inline(always)]
fn third_bits<S: Simd>(simd: S, plane: &Bits, v: usize) -> [S::Bytes; 2] {
    let all = simd.bytes(plane);
    let low = if v < 2 {
        simd.shift_left(all, 2 - v as u32)
    } else {
        simd.shift_right(all, v as u32 - 2)
    };
    let high = simd.shift_right(all, 2 + v as u32);
    [simd.mask(low, 4), simd.mask(high, 4)]
}

/// Bit pairs, moved to bit 0.
#[inline(always)]
fn low_pairs<S: Simd>(simd: S, plane: &Pairs, v: usize) -> [S::Bytes; 2] {
    let low = simd.shift_right(simd.bytes(&plane[0]), 2 * v as u32);
    let high = simd.shift_right(simd.bytes(&plane[1]), 2 * v as u32);
    [simd.mask(low, 3), simd.mask(high, 3)]
}

/// Bit pairs, moved to bit 4.
#[inline(always)]
fn high_pairs<S: Simd>(simd: S, plane: &Pairs, v: usize) -> [S::Bytes; 2] {
    let mut pairs = [simd.bytes(&plane[0]), simd.bytes(&plane[1])];
    for pair in &mut pairs {
        let moved = if v < 2 {
            simd.shift_left(*pair, 4 - 2 * v as u32)
        } else {
            simd.shift_right(*pair, 2 * v as u32 - 4)
        };
        *pair = simd.mask(moved, 0x30);
    }
    pairs
}

#[inline(always)]
fn join<S: Simd>(simd: S, a: [S::Bytes; 2], b: [S::Bytes; 2]) -> [S::Bytes; 2] {
    [simd.or(a[0], b[0]), simd.or(a[1], b[1])]
}

/// The half at byte `at`, as its bits.
fn half_bits(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The half at byte `at`.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_bits(half_bits(block, at)).to_f32()
}

/// 16 bytes of nibbles in the order of the types with blocks of 32.
fn file_nibbles(packed: &[u8]) -> [u8; 32] {
    std::array::from_fn(|i| packed[i % 16] >> (i / 16 * 4) & 15)
}

/// As [`file_nibbles`], with a fifth bit from a word.
fn file_five_bits(packed: &[u8], high: &[u8]) -> [u8; 32] {
    let nibbles = file_nibbles(packed);
    std::array::from_fn(|i| nibbles[i] | (high[i / 8] >> (i % 8) & 1) << 4)
}

/// Group `group` of the nibbles of Q4_K and Q5_K: a run of 64 weights has 32 bytes, the first group in
/// the low halves.
fn k_nibbles(packed: &[u8], group: usize) -> [u8; 32] {
    let run = &packed[group / 2 * 32..][..32];
    std::array::from_fn(|i| run[i] >> (group % 2 * 4) & 15)
}

/// Group `group` of the bit pairs of the K types: a run of 128 weights has 32 bytes.
fn k_pairs(packed: &[u8], group: usize) -> [u8; 32] {
    let run = &packed[group / 4 * 32..][..32];
    std::array::from_fn(|i| run[i] >> (group % 4 * 2) & 3)
}

/// The eight 6-bit scales and minimums of Q4_K and Q5_K in 12 bytes.
fn six_bit_scales(packed: &[u8], j: usize) -> [u8; 2] {
    if j < 4 {
        [packed[j] & 63, packed[4 + j] & 63]
    } else {
        let last = packed[4 + j];
        [
            last & 15 | packed[j - 4] >> 6 << 4,
            last >> 4 | packed[j] >> 6 << 4,
        ]
    }
}

/// Blocks of 32 with a scale in half precision, and perhaps a minimum and fifth bits.
macro_rules! small {
    ($name:ident, $file:literal, $centre:literal, minimum $minimum:literal, high $high:literal, codes $at:literal) => {
        #[doc = concat!("The block type of this name; ", $file, " bytes in the file.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            scales: [u16; 8],
            minimums: [[u16; 8]; $minimum],
            high: [Bits; $high],
            low: Nibbles,
        }

        impl Format for $name {
            type Block = Self;
            const FILE_BYTES: usize = $file;
            const GROUPS: usize = 1;
            const HALVES: bool = false;
            const MINIMUMS: bool = $minimum == 1;
            const CENTRE: i32 = $centre;
            const SIGNED: bool = false;

            fn pack(rows: &[&[u8]; 8]) -> Self {
                let minimums = rows.map(|row| half_bits(row, 2));
                let mut block = Self {
                    scales: rows.map(|row| half_bits(row, 0)),
                    minimums: [minimums; $minimum],
                    high: [[0; 32]; $high],
                    low: [[0; 32]; 4],
                };
                for (row, file) in rows.iter().enumerate() {
                    let codes = if $high == 1 {
                        file_five_bits(&file[$at..], &file[$at - 4..])
                    } else {
                        file_nibbles(&file[$at..])
                    };
                    pack_nibbles(&codes, row, &mut block.low);
                    for high in &mut block.high {
                        pack_bits(&codes, 4, row, high);
                    }
                }
                block
            }

            #[inline(always)]
            fn codes<S: Simd>(simd: S, block: &Self, _: usize, v: usize) -> [S::Bytes; 2] {
                let mut codes = nibbles(simd, &block.low, v);
                for high in &block.high {
                    codes = join(simd, codes, fifth_bits(simd, high, v));
                }
                codes
            }

            #[inline(always)]
            fn scales<S: Simd>(simd: S, block: &Self, _: usize) -> [S::Floats; 2] {
                [simd.halves(&block.scales); 2]
            }

            #[inline(always)]
            fn minimums<S: Simd>(simd: S, block: &Self, _: usize) -> [S::Floats; 2] {
                let mut minimum = simd.splat(0.0);
                for stored in &block.minimums {
                    // The file adds it.
                    minimum = simd.sub(minimum, simd.halves(stored));
                }
                [minimum; 2]
            }
        }
    };
}

small!(Q4_0, 18, 8, minimum 0, high 0, codes 2);
small!(Q4_1, 20, 0, minimum 1, high 0, codes 4);
small!(Q5_0, 22, 16, minimum 0, high 1, codes 6);
small!(Q5_1, 24, 0, minimum 1, high 1, codes 8);

/// The block type of this name: 32 signed bytes and a scale.
#[derive(Clone, Copy, Debug)]
pub struct Q8_0 {
    scales: [u16; 8],
    codes: [[u8; 32]; 8],
}

impl Format for Q8_0 {
    type Block = Self;
    const FILE_BYTES: usize = 34;
    const GROUPS: usize = 1;
    const HALVES: bool = false;
    const MINIMUMS: bool = false;
    const CENTRE: i32 = 0;
    const SIGNED: bool = true;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        Self {
            scales: rows.map(|row| half_bits(row, 0)),
            codes: std::array::from_fn(|v| {
                std::array::from_fn(|byte| rows[byte / 4][2 + 4 * v + byte % 4])
            }),
        }
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, block: &Self, _: usize, v: usize) -> [S::Bytes; 2] {
        [simd.bytes(&block.codes[v]), simd.bytes(&block.codes[4 + v])]
    }

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &Self, _: usize) -> [S::Floats; 2] {
        [simd.halves(&block.scales); 2]
    }

    #[inline(always)]
    fn minimums<S: Simd>(simd: S, _: &Self, _: usize) -> [S::Floats; 2] {
        [simd.splat(0.0); 2]
    }
}

/// Blocks of 256 with scales and minimums for groups of 32, and perhaps fifth bits.
macro_rules! k_with_minimums {
    ($name:ident, $file:literal, high $high:literal, codes $at:literal) => {
        #[doc = concat!("The block type of this name; ", $file, " bytes in the file.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            scale: [f32; 8],
            minimum: [f32; 8],
            scales: [[u8; 8]; 8],
            minimums: [[u8; 8]; 8],
            groups: [([Bits; $high], Nibbles); 8],
        }

        impl Format for $name {
            type Block = Self;
            const FILE_BYTES: usize = $file;
            const GROUPS: usize = 8;
            const HALVES: bool = false;
            const MINIMUMS: bool = true;
            const CENTRE: i32 = 0;
            const SIGNED: bool = false;

            fn pack(rows: &[&[u8]; 8]) -> Self {
                let mut block = Self {
                    scale: rows.map(|row| half(row, 0)),
                    minimum: rows.map(|row| half(row, 2)),
                    scales: [[0; 8]; 8],
                    minimums: [[0; 8]; 8],
                    groups: [([[0; 32]; $high], [[0; 32]; 4]); 8],
                };
                for (row, file) in rows.iter().enumerate() {
                    for group in 0..8 {
                        let [scale, minimum] = six_bit_scales(&file[4..16], group);
                        block.scales[group][row] = scale;
                        block.minimums[group][row] = minimum;
                        let mut codes = k_nibbles(&file[$at..], group);
                        let (high, low) = &mut block.groups[group];
                        pack_nibbles(&codes, row, low);
                        for high in high {
                            codes = std::array::from_fn(|i| file[16 + i] >> group & 1);
                            pack_bits(&codes, 0, row, high);
                        }
                    }
                }
                block
            }

            #[inline(always)]
            fn codes<S: Simd>(simd: S, block: &Self, group: usize, v: usize) -> [S::Bytes; 2] {
                let (high, low) = &block.groups[group];
                let mut codes = nibbles(simd, low, v);
                for high in high {
                    codes = join(simd, codes, fifth_bits(simd, high, v));
                }
                codes
            }

            #[inline(always)]
            fn scales<S: Simd>(simd: S, block: &Self, group: usize) -> [S::Floats; 2] {
                let scale = simd.load(&block.scale);
                [simd.mul(scale, simd.unsigned(&block.scales[group])); 2]
            }

            #[inline(always)]
            fn minimums<S: Simd>(simd: S, block: &Self, group: usize) -> [S::Floats; 2] {
                let minimum = simd.load(&block.minimum);
                [simd.mul(minimum, simd.unsigned(&block.minimums[group])); 2]
            }
        }
    };
}

k_with_minimums!(Q4K, 144, high 0, codes 16);
k_with_minimums!(Q5K, 176, high 1, codes 48);

/// Signed scales of groups of 16, times one scale.
#[inline(always)]
fn signed_scales<S: Simd>(
    simd: S,
    scale: &[f32; 8],
    scales: &[[i8; 8]; 16],
    group: usize,
) -> [S::Floats; 2] {
    let scale = simd.load(scale);
    let [first, second] = [&scales[2 * group], &scales[2 * group + 1]];
    [
        simd.mul(scale, simd.signed(first)),
        simd.mul(scale, simd.signed(second)),
    ]
}

/// The block type of this name: six bits around 32, 16 signed scales.
#[derive(Clone, Copy, Debug)]
pub struct Q6K {
    scale: [f32; 8],
    scales: [[i8; 8]; 16],
    groups: [(Pairs, Nibbles); 8],
}

impl Format for Q6K {
    type Block = Self;
    const FILE_BYTES: usize = 210;
    const GROUPS: usize = 8;
    const HALVES: bool = true;
    const MINIMUMS: bool = false;
    const CENTRE: i32 = 32;
    const SIGNED: bool = false;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        let mut block = Self {
            scale: rows.map(|row| half(row, 208)),
            scales: [[0; 8]; 16],
            groups: [([[0; 32]; 2], [[0; 32]; 4]); 8],
        };
        for (row, file) in rows.iter().enumerate() {
            for (scales, scale) in block.scales.iter_mut().zip(&file[192..208]) {
                scales[row] = *scale as i8;
            }
            for (group, (high, low)) in block.groups.iter_mut().enumerate() {
                // Half a block has 64 bytes of nibbles, its first 64 weights in the low halves.
                let run = &file[group / 4 * 64 + group % 2 * 32..][..32];
                let shift = group / 2 % 2 * 4;
                pack_nibbles(&std::array::from_fn(|i| run[i] >> shift & 15), row, low);
                pack_pairs(&k_pairs(&file[128..192], group), 0, row, high);
            }
        }
        block
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, block: &Self, group: usize, v: usize) -> [S::Bytes; 2] {
        let (high, low) = &block.groups[group];
        join(simd, nibbles(simd, low, v), high_pairs(simd, high, v))
    }

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &Self, group: usize) -> [S::Floats; 2] {
        signed_scales(simd, &block.scale, &block.scales, group)
    }

    #[inline(always)]
    fn minimums<S: Simd>(simd: S, _: &Self, _: usize) -> [S::Floats; 2] {
        [simd.splat(0.0); 2]
    }
}

/// The block type of this name: three bits around 4, 16 signed scales.
#[derive(Clone, Copy, Debug)]
pub struct Q3K {
    scale: [f32; 8],
    scales: [[i8; 8]; 16],
    groups: [(Bits, Pairs); 8],
}

/// Scale `j` of the sixteen 6-bit scales of Q3_K in 12 bytes: low four bits in the first eight bytes,
/// high two bits in the last four; around 32.
fn q3_scale(packed: &[u8], j: usize) -> i8 {
    let low = packed[j % 8] >> (j / 8 * 4) & 15;
    let high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
    (low | high << 4) as i8 - 32
}

impl Format for Q3K {
    type Block = Self;
    const FILE_BYTES: usize = 110;
    const GROUPS: usize = 8;
    const HALVES: bool = true;
    const MINIMUMS: bool = false;
    const CENTRE: i32 = 4;
    const SIGNED: bool = false;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        let mut block = Self {
            scale: rows.map(|row| half(row, 108)),
            scales: [[0; 8]; 16],
            groups: [([0; 32], [[0; 32]; 2]); 8],
        };
        for (row, file) in rows.iter().enumerate() {
            for (j, scales) in block.scales.iter_mut().enumerate() {
                scales[row] = q3_scale(&file[96..108], j);
            }
            for (group, (high, low)) in block.groups.iter_mut().enumerate() {
                pack_pairs(&k_pairs(&file[32..96], group), 0, row, low);
                let third = std::array::from_fn(|i| file[i] >> group & 1);
                pack_bits(&third, 0, row, high);
            }
        }
        block
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, block: &Self, group: usize, v: usize) -> [S::Bytes; 2] {
        let (high, low) = &block.groups[group];
        join(simd, low_pairs(simd, low, v), third_bits(simd, high, v))
    }

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &Self, group: usize) -> [S::Floats; 2] {
        signed_scales(simd, &block.scale, &block.scales, group)
    }

    #[inline(always)]
    fn minimums<S: Simd>(simd: S, _: &Self, _: usize) -> [S::Floats; 2] {
        [simd.splat(0.0); 2]
    }
}

/// The block type of this name: two bits, 16 scales and minimums.
#[derive(Clone, Copy, Debug)]
pub struct Q2K {
    scale: [f32; 8],
    minimum: [f32; 8],
    /// Scale in the low half, minimum in the high half.
    scales: [[u8; 8]; 16],
    groups: [Pairs; 8],
}

/// Scales of two groups of 16, which are four bits from bit `shift` on, times one scale.
#[inline(always)]
fn two_scales<S: Simd>(
    simd: S,
    scale: &[f32; 8],
    scales: &[[u8; 8]; 16],
    group: usize,
    shift: u32,
) -> [S::Floats; 2] {
    let scale = simd.load(scale);
    let mut both = [scale; 2];
    for (half, to) in both.iter_mut().enumerate() {
        // Eight bytes at once.
        let packed = u64::from_le_bytes(scales[2 * group + half]) >> shift;
        let codes = packed & 0x0F0F_0F0F_0F0F_0F0F;
        *to = simd.mul(scale, simd.unsigned(&codes.to_le_bytes()));
    }
    both
}

impl Format for Q2K {
    type Block = Self;
    const FILE_BYTES: usize = 84;
    const GROUPS: usize = 8;
    const HALVES: bool = true;
    const MINIMUMS: bool = true;
    const CENTRE: i32 = 0;
    const SIGNED: bool = false;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        let mut block = Self {
            scale: rows.map(|row| half(row, 80)),
            minimum: rows.map(|row| half(row, 82)),
            scales: [[0; 8]; 16],
            groups: [[[0; 32]; 2]; 8],
        };
        for (row, file) in rows.iter().enumerate() {
            for (scales, scale) in block.scales.iter_mut().zip(&file[..16]) {
                scales[row] = *scale;
            }
            for (group, low) in block.groups.iter_mut().enumerate() {
                pack_pairs(&k_pairs(&file[16..80], group), 0, row, low);
            }
        }
        block
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, block: &Self, group: usize, v: usize) -> [S::Bytes; 2] {
        low_pairs(simd, &block.groups[group], v)
    }

    #[inline(always)]
    fn scales<S: Simd>(simd: S, block: &Self, group: usize) -> [S::Floats; 2] {
        two_scales(simd, &block.scale, &block.scales, group, 0)
    }

    #[inline(always)]
    fn minimums<S: Simd>(simd: S, block: &Self, group: usize) -> [S::Floats; 2] {
        two_scales(simd, &block.minimum, &block.scales, group, 4)
    }
}

/// Weights that are numbers; eight rows of one column are a block.
pub trait Scalar: Copy {
    /// Bytes of a weight in the file.
    const FILE_BYTES: usize;
    /// Interleaves a weight of each of eight rows.
    fn pack(rows: &[&[u8]; 8]) -> Self;
    /// As single precision.
    fn floats<S: Simd>(simd: S, block: &Self) -> S::Floats;
}

/// Eight rows of a column in single precision.
pub type F32 = [f32; 8];

impl Scalar for F32 {
    const FILE_BYTES: usize = 4;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        rows.map(|row| f32::from_le_bytes([row[0], row[1], row[2], row[3]]))
    }

    #[inline(always)]
    fn floats<S: Simd>(simd: S, block: &Self) -> S::Floats {
        simd.load(block)
    }
}

/// Eight rows of a column in half precision.
#[derive(Clone, Copy, Debug)]
pub struct F16([u16; 8]);

impl Scalar for F16 {
    const FILE_BYTES: usize = 2;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        Self(rows.map(|row| half_bits(row, 0)))
    }

    #[inline(always)]
    fn floats<S: Simd>(simd: S, block: &Self) -> S::Floats {
        simd.halves(&block.0)
    }
}

/// Eight rows of a column in bfloat16.
#[derive(Clone, Copy, Debug)]
pub struct Bf16([u16; 8]);

impl Scalar for Bf16 {
    const FILE_BYTES: usize = 2;

    fn pack(rows: &[&[u8]; 8]) -> Self {
        Self(rows.map(|row| half_bits(row, 0)))
    }

    #[inline(always)]
    fn floats<S: Simd>(simd: S, block: &Self) -> S::Floats {
        simd.bfloats(&block.0)
    }
}
