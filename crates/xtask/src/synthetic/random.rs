//! Random numbers, and rows of random weights.

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(u64);

impl Random {
    /// The numbers of a place in a stream. Places are independent, so that rows can be made in any order.
    pub fn at(stream: u64, place: u64) -> Self {
        Self(Self(stream << 32 | place).next())
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// How a weight is stored in 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE 754 half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
}

/// Bits of a random number that choose a weight.
const CHOICE_BITS: u32 = 12;

/// Makes rows of weights from a table: evenly spread, with mean 0 and a standard deviation of one over the
/// root of the row's length, so that activations keep their size. All are exact in BF16, and in F16 but for
/// the smallest, so that both precisions give the same model.
pub struct Rows {
    table: Vec<u16>,
    stream: u64,
    cols: usize,
}

impl Rows {
    /// Rows of `cols` weights, a multiple of four.
    pub fn new(stream: u64, cols: usize, half: Half) -> Self {
        let count = 1 << CHOICE_BITS;
        // Even spread from -1 to 1 has a deviation of one over the root of three.
        let width = (3.0 / cols as f64).sqrt();
        let table = (0..count)
            .map(|choice| {
                let place = (2 * choice + 1 - count) as f64 / f64::from(count);
                let bits = bf16((place * width) as f32);
                match half {
                    Half::Bf16 => bits,
                    Half::F16 => f16(f32::from_bits(u32::from(bits) << 16)),
                }
            })
            .collect();
        Self {
            table,
            stream,
            cols,
        }
    }

    /// Appends a row.
    pub fn append(&self, row: usize, out: &mut Vec<u8>) {
        let mut random = Random::at(self.stream, row as u64);
        for _ in 0..self.cols / 4 {
            let bits = random.next();
            let weight = |part: u32| {
                let choice = bits >> (16 * part) & ((1 << CHOICE_BITS) - 1);
                u64::from(self.table[choice as usize]) << (16 * part)
            };
            let four = weight(0) | weight(1) | weight(2) | weight(3);
            out.extend_from_slice(&four.to_le_bytes());
        }
    }
}

/// The nearest number whose lower half is zero; its upper half.
fn bf16(value: f32) -> u16 {
    ((value.to_bits() + (1 << 15)) >> 16) as u16
}

/// The bits of the half float nearest to a number between -1 and 1.
pub fn f16(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let size = value.abs();
    // Below 2^-14 halves are multiples of 2^-24; above, an f32's exponent and mantissa cut to ten bits.
    if size < 2f32.powi(-14) {
        return sign | (size * 2f32.powi(24)).round() as u16;
    }
    let bits = size.to_bits() + (1 << 12);
    sign | ((bits >> 13) - ((127 - 15) << 10)) as u16
}

#[cfg(test)]
mod tests {
    use weights::BlockType;
    use weights::codec::dequantize;

    use super::*;

    fn row(half: Half, kind: BlockType) -> Vec<f32> {
        let mut bytes = Vec::new();
        Rows::new(3, 4096, half).append(7, &mut bytes);
        let mut values = vec![0.0; 4096];
        dequantize(kind, &bytes, &mut values).unwrap();
        values
    }

    #[test]
    fn both_precisions_give_the_same_weights() {
        let (f16, bf16) = (
            row(Half::F16, BlockType::F16),
            row(Half::Bf16, BlockType::BF16),
        );
        for (one, other) in f16.iter().zip(&bf16) {
            assert!((one - other).abs() <= 2f32.powi(-25), "{one} {other}");
        }
        let square = f16.iter().map(|value| value * value).sum::<f32>();
        assert!((0.9..1.1).contains(&square), "{square}");
        let mean = f16.iter().sum::<f32>() / 4096.0;
        assert!(mean.abs() < 1e-3, "{mean}");
    }
}
