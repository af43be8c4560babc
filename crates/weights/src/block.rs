//! The element and block types of GGUF tensors.

use std::fmt;

/// How a tensor's elements are stored: plain scalars, or blocks that share scales.
///
/// The names and numbers are ggml's. Types that this crate can only name (see
/// [`BlockType::is_supported`]) still have their sizes here, so that a file that uses them can be
/// listed and refused with a clear message.
#[expect(
    non_camel_case_types,
    reason = "the variants carry the format's own names"
)]
#[expect(
    missing_docs,
    reason = "a variant's name is all there is to say; sizes are in the table"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ2_XXS,
    IQ2_XS,
    IQ3_XXS,
    IQ1_S,
    IQ4_NL,
    IQ3_S,
    IQ2_S,
    IQ4_XS,
    I8,
    I16,
    I32,
    I64,
    F64,
    IQ1_M,
    BF16,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
}

struct Row {
    kind: BlockType,
    ggml_id: u32,
    name: &'static str,
    block_len: u32,
    block_bytes: u32,
}

macro_rules! table {
    ($($kind:ident $id:literal $len:literal $bytes:literal),* $(,)?) => {
        /// In the order of the enum's variants, so that a variant is its own index.
        const TABLE: &[Row] = &[$(Row {
            kind: BlockType::$kind,
            ggml_id: $id,
            name: stringify!($kind),
            block_len: $len,
            block_bytes: $bytes,
        }),*];
    };
}

table! {
    // kind, ggml id, weights per block, bytes per block
    F32 0 1 4,
    F16 1 1 2,
    Q4_0 2 32 18,
    Q4_1 3 32 20,
    Q5_0 6 32 22,
    Q5_1 7 32 24,
    Q8_0 8 32 34,
    Q8_1 9 32 36,
    Q2_K 10 256 84,
    Q3_K 11 256 110,
    Q4_K 12 256 144,
    Q5_K 13 256 176,
    Q6_K 14 256 210,
    Q8_K 15 256 292,
    IQ2_XXS 16 256 66,
    IQ2_XS 17 256 74,
    IQ3_XXS 18 256 98,
    IQ1_S 19 256 50,
    IQ4_NL 20 32 18,
    IQ3_S 21 256 110,
    IQ2_S 22 256 82,
    IQ4_XS 23 256 136,
    I8 24 1 1,
    I16 25 1 2,
    I32 26 1 4,
    I64 27 1 8,
    F64 28 1 8,
    IQ1_M 29 256 56,
    BF16 30 1 2,
    TQ1_0 34 256 54,
    TQ2_0 35 256 66,
    MXFP4 39 32 17,
    NVFP4 40 64 36,
}

impl BlockType {
    /// The type with ggml's number `id`; `None` for a number that is unused or withdrawn.
    pub fn from_ggml_id(id: u32) -> Option<Self> {
        TABLE
            .iter()
            .find(|row| row.ggml_id == id)
            .map(|row| row.kind)
    }

    /// The type that ggml calls so, such as `Q4_K`.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.kind)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// ggml's number for this type.
    pub fn ggml_id(self) -> u32 {
        self.row().ggml_id
    }

    /// ggml's name for this type, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Weights per block; 1 for scalar types. A row's length is a multiple of it.
    pub fn block_len(self) -> usize {
        self.row().block_len as usize
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.row().block_bytes as usize
    }

    /// Whether [`crate::codec::dequantize`] knows this type.
    pub fn is_supported(self) -> bool {
        use BlockType::*;
        matches!(
            self,
            F32 | F16 | BF16 | Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2_K | Q3_K | Q4_K | Q5_K | Q6_K
        )
    }

    /// The bytes that `weights` weights take, or `None` if they are no whole number of blocks or
    /// the size does not fit.
    pub fn bytes_for(self, weights: u64) -> Option<u64> {
        let row = self.row();
        if !weights.is_multiple_of(u64::from(row.block_len)) {
            return None;
        }
        (weights / u64::from(row.block_len)).checked_mul(u64::from(row.block_bytes))
    }
}

impl fmt::Display for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A block type that this crate can name but not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "weights of type {kind} are not supported here; use a file quantized as Q4_0, Q4_1, Q5_0, \
     Q5_1, Q8_0, Q2_K to Q6_K, F16, BF16 or F32"
)]
pub struct Unsupported {
    /// The type in question.
    pub kind: BlockType,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_its_own_index() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.kind as usize, index);
            assert_eq!(BlockType::from_ggml_id(row.ggml_id), Some(row.kind));
            assert_eq!(BlockType::from_name(row.name), Some(row.kind));
        }
        assert_eq!(TABLE.last().map(|row| row.kind), Some(BlockType::NVFP4));
        for withdrawn in [4, 5, 31, 32, 33, 36, 37, 38, 1000, u32::MAX] {
            assert_eq!(BlockType::from_ggml_id(withdrawn), None);
        }
    }

    #[test]
    fn sizes_need_whole_blocks() {
        assert_eq!(BlockType::Q4_1.bytes_for(576), Some(360));
        assert_eq!(BlockType::Q4_1.bytes_for(577), None);
        assert_eq!(BlockType::Q4_K.bytes_for(64), None);
        assert_eq!(BlockType::F64.bytes_for(u64::MAX), None);
    }
}
