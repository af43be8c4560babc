//! What matrices are multiplied by: activations of some tokens, as they are and quantized.

use model::BackendError;

use crate::simd::{LARGEST, Level, Quad, ROUND, Simd, Task};

/// 32 neighbouring activations of a token as integers with a scale.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The numbers, four by four. The two parts of a [`Quad`] lie apart, since compilers join loads of
    /// neighbours, only to take them apart again.
    pub quads: [[i32; 8]; 2],
    /// What a dot product of quads is to be multiplied by.
    pub scale: f32,
    /// Sums of the first and the second 16 numbers.
    pub sums: [i32; 2],
    /// The same sums as activations.
    pub totals: [f32; 2],
}

impl Group {
    /// Zeros.
    pub const EMPTY: Self = Self {
        quads: [[0; 8]; 2],
        scale: 0.0,
        sums: [0; 2],
        totals: [0.0; 2],
    };
}

/// Activations of some tokens, `tokens × cols`.
#[derive(Debug, Default)]
pub struct Input {
    floats: Vec<f32>,
    cols: usize,
    groups: Vec<Group>,
    /// For which dot product the groups are made; `None` before they are.
    signed: Option<bool>,
}

impl Input {
    /// Room for this many activations and their groups.
    ///
    /// # Errors
    /// [`BackendError::Memory`].
    pub fn with_capacity(activations: usize) -> Result<Self, BackendError> {
        let mut input = Self::default();
        crate::matrix::reserve(&mut input.floats, activations)?;
        crate::matrix::reserve(&mut input.groups, activations / 32)?;
        Ok(input)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        4 * self.floats.capacity() + size_of::<Group>() * self.groups.capacity()
    }

    /// Activations of `tokens` tokens, to be written. `tokens × cols`.
    pub fn reset(&mut self, tokens: usize, cols: usize) -> &mut [f32] {
        self.cols = cols;
        self.signed = None;
        self.floats.resize(tokens * cols, 0.0);
        &mut self.floats
    }

    /// Activations per token.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The activations.
    pub fn floats(&self) -> &[f32] {
        &self.floats
    }

    /// The activations in groups of 32, for [`Simd::dot`] with this `signed`. `cols` is a
    /// multiple of 32.
    pub fn groups(&mut self, level: Level, signed: bool) -> &[Group] {
        if self.signed != Some(signed) {
            self.groups.resize(self.floats.len() / 32, Group::EMPTY);
            level.run(Quantize {
                floats: &self.floats,
                groups: &mut self.groups,
                signed,
            });
            self.signed = Some(signed);
        }
        &self.groups
    }
}

struct Quantize<'a> {
    floats: &'a [f32],
    groups: &'a mut [Group],
    signed: bool,
}

impl Task for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        const MOST: f32 = LARGEST as f32;
        for (floats, group) in self.floats.as_chunks::<32>().0.iter().zip(self.groups) {
            let (floats, _) = floats.as_chunks::<8>();
            let mut sizes = simd.splat(0.0);
            for x in floats {
                sizes = simd.max(sizes, simd.abs(simd.load(x)));
            }
            let mut largest = [0.0; 8];
            simd.store(sizes, &mut largest);
            let largest = largest
                .iter()
                .fold(0.0, |a: f32, b| if *b > a { *b } else { a });
            let inverse = if largest > 0.0 { MOST / largest } else { 0.0 };
            let scale = largest / MOST;
            let mut codes = [0; 32];
            for (codes, x) in codes.as_chunks_mut::<8>().0.iter_mut().zip(floats) {
                let rounded = simd.add(
                    simd.mul(simd.load(x), simd.splat(inverse)),
                    simd.splat(ROUND),
                );
                let mut bits = [0.0; 8];
                simd.store(rounded, &mut bits);
                // The low bits are the integer; finite numbers stay within the largest.
                *codes = bits.map(|x| i32::from(x.to_bits() as i16));
            }
            for (index, codes) in codes.as_chunks::<4>().0.iter().enumerate() {
                let quad: Quad = simd.quad(*codes, self.signed);
                group.quads[0][index] = quad[0];
                group.quads[1][index] = quad[1];
            }
            let sums = [0, 1].map(|half| codes[16 * half..][..16].iter().sum::<i32>());
            group.scale = scale;
            group.sums = sums;
            group.totals = sums.map(|sum| scale * sum as f32);
        }
    }
}
