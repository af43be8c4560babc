//! The kernels against plain double-precision arithmetic over [`weights::codec::dequantize`], on random
//! weights. In the library and not in a test, so that a module in a browser can run it too.

use weights::BlockType;

use crate::input::Input;
use crate::matrix::Matrix;
use crate::network::Arithmetic;
use crate::product::{Scratch, multiply, read_row};
use crate::simd::{LARGEST, Level};

/// What came of a kernel.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Block type, arithmetic and instruction set.
    pub name: String,
    /// The largest error as a share of what rounding explains; a kernel is right up to 1.
    pub share: f64,
}

/// Block types that have kernels, and where a block has halves.
const KINDS: [(BlockType, &[usize]); 13] = [
    (BlockType::F32, &[]),
    (BlockType::F16, &[]),
    (BlockType::BF16, &[]),
    (BlockType::Q4_0, &[0]),
    (BlockType::Q4_1, &[0, 2]),
    (BlockType::Q5_0, &[0]),
    (BlockType::Q5_1, &[0, 2]),
    (BlockType::Q8_0, &[0]),
    (BlockType::Q2_K, &[80, 82]),
    (BlockType::Q3_K, &[108]),
    (BlockType::Q4_K, &[0, 2]),
    (BlockType::Q5_K, &[0, 2]),
    (BlockType::Q6_K, &[208]),
];

/// Rows: fewer than a panel, whole panels, and more. Tokens: fewer than a tile, whole tiles, and more.
const SHAPES: [(usize, usize); 7] = [(1, 1), (8, 1), (19, 2), (7, 3), (16, 4), (9, 5), (24, 11)];

/// Xorshift (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From -1 to 1.
    fn number(&mut self) -> f32 {
        (self.word() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Rows of random blocks. Scales are from subnormal halves to about 1/4, of either sign.
fn random_rows(kind: BlockType, halves: &[usize], weights: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < weights / kind.block_len() * kind.block_bytes() {
        match kind {
            BlockType::F32 => bytes.extend(random.number().to_le_bytes()),
            BlockType::F16 => bytes.extend(half::f16::from_f32(random.number()).to_le_bytes()),
            BlockType::BF16 => bytes.extend(half::bf16::from_f32(random.number()).to_le_bytes()),
            _ => {
                let block: Vec<u8> = (0..kind.block_bytes())
                    .map(|_| random.word() as u8)
                    .collect();
                let start = bytes.len();
                bytes.extend(block);
                for at in halves {
                    let bits = random.word() as u16 & 0xB3FF;
                    bytes[start + at..][..2].copy_from_slice(&bits.to_le_bytes());
                }
            }
        }
    }
    bytes
}

/// Runs every kernel on some shapes.
///
/// # Panics
/// When there is no memory for the matrices, which take some kilobytes.
pub fn kernels() -> Vec<Outcome> {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut outcomes = Vec::new();
    for level in Level::all() {
        for (kind, halves) in KINDS {
            for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
                let mut share = 0.0f64;
                for (rows, tokens) in SHAPES {
                    // Scalars make rows of any length; 4 and 20 are no multiples of 8.
                    let widths = if kind.block_len() == 1 {
                        [4, 20, 64]
                    } else {
                        [1, 2, 3]
                    };
                    for width in widths {
                        let cols = width * kind.block_len();
                        let bytes = random_rows(kind, halves, rows * cols, &mut random);
                        let case = Case {
                            kind,
                            rows,
                            cols,
                            tokens,
                            bytes,
                        };
                        share = share.max(case.share(level, arithmetic, &mut random));
                    }
                }
                outcomes.push(Outcome {
                    name: format!("{kind}, {arithmetic:?}, {level:?}"),
                    share,
                });
            }
        }
    }
    outcomes
}

struct Case {
    kind: BlockType,
    rows: usize,
    cols: usize,
    tokens: usize,
    bytes: Vec<u8>,
}

impl Case {
    /// The largest error as a share of what is allowed.
    fn share(&self, level: Level, arithmetic: Arithmetic, random: &mut Random) -> f64 {
        let (rows, cols, tokens) = (self.rows, self.cols, self.tokens);
        let mut matrix = Matrix::new(self.kind, rows, cols).expect("memory");
        // In pieces, as they come from a file.
        let row_bytes = self.bytes.len() / rows;
        for piece in self.bytes.chunks(5 * row_bytes) {
            matrix.push_rows(piece);
        }
        assert!(matrix.is_complete());
        let mut scratch = Scratch::with_capacity(cols).expect("memory");
        let mut input = Input::default();
        for x in input.reset(tokens, cols) {
            *x = random.number() * random.number();
        }
        let activations = input.floats().to_vec();
        let mut found = vec![f32::NAN; tokens * rows];
        multiply(
            level,
            arithmetic,
            &matrix,
            &mut input,
            &mut scratch,
            &mut found,
        );

        let mut weights = vec![0.0; rows * cols];
        weights::codec::dequantize(self.kind, &self.bytes, &mut weights).expect("whole blocks");
        let mut share = 0.0f64;
        for (token, activations) in activations.chunks(cols).enumerate() {
            for (row, weights) in weights.chunks(cols).enumerate() {
                let (exact, allowed) = reference(weights, activations, arithmetic);
                let error = (f64::from(found[token * rows + row]) - exact).abs();
                share = share.max(if error.is_nan() {
                    f64::INFINITY
                } else {
                    error / allowed
                });
            }
        }
        let mut read = vec![0.0; cols];
        for (row, weights) in weights.chunks(cols).enumerate() {
            read_row(level, &matrix, row, &mut scratch, &mut read);
            for (a, b) in read.iter().zip(weights) {
                // A minimum is taken away in the same order; only a fused product may differ.
                let allowed = 1e-6 * (b.abs() + 1e-3);
                share = share.max(f64::from((a - b).abs() / allowed));
            }
        }
        share
    }
}

/// A product in double precision, and the error that rounding explains: a few units in the last place
/// of all that is summed (minimums cancel much of it), and half a step of each quantized activation.
fn reference(weights: &[f32], activations: &[f32], arithmetic: Arithmetic) -> (f64, f64) {
    let (mut exact, mut allowed) = (0.0, 1e-9);
    for (weights, activations) in weights.chunks(32).zip(activations.chunks(32)) {
        let largest = activations.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        let step = f64::from(largest) / f64::from(LARGEST);
        let heaviest = weights.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        for (weight, activation) in weights.iter().zip(activations) {
            exact += f64::from(*weight) * f64::from(*activation);
            allowed += 2e-6 * f64::from(heaviest) * f64::from(largest);
            if arithmetic == Arithmetic::Fast {
                allowed += 0.51 * step * f64::from(weight.abs());
            }
        }
    }
    (exact, allowed)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kernel_is_right() {
        for outcome in super::kernels() {
            println!("{}: {:.3}", outcome.name, outcome.share);
            assert!(outcome.share <= 1.0, "{outcome:?}");
        }
    }
}
