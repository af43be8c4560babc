//! Every kernel against plain arithmetic, with random operands; natively and in a browser.
//!
//! Compiled with the feature `check` only.

use model::BackendError;

use crate::gpu::Gpu;

mod operations;
mod products;

pub(crate) use operations::{filled, filled_words};
pub(crate) use products::{LAYOUTS, streams};

/// One comparison.
#[derive(Clone, Debug)]
pub struct Case {
    /// What was compared.
    pub name: String,
    /// Largest absolute error, or the number of wrong answers.
    pub error: f64,
    /// What the error must stay below.
    pub tolerance: f64,
}

impl Case {
    fn new(name: String, error: f64, tolerance: f64) -> Self {
        Self {
            name,
            error,
            tolerance,
        }
    }

    /// Whether the error is within its tolerance.
    pub fn holds(&self) -> bool {
        // An error that is not a number does not.
        self.error < self.tolerance
    }
}

/// How many shapes to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that are thought of.
    Full,
    /// Every layout and every kind of product once: where compiling a kernel takes long.
    Brief,
}

/// Runs the comparisons on the spread of `gpu`.
///
/// # Errors
/// [`BackendError`] when the GPU failed.
pub async fn all(gpu: &Gpu, extent: Extent) -> Result<Vec<Case>, BackendError> {
    let mut cases = Vec::new();
    operations::all(gpu, &mut cases).await?;
    products::all(gpu, extent, &mut cases).await?;
    Ok(cases)
}

/// Reproducible random numbers (xorshift, Marsaglia 2003).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// `count` floats between `-range` and `range`.
    pub(crate) fn floats(&mut self, count: usize, range: f32) -> Vec<f32> {
        (0..count)
            .map(|_| ((self.next() >> 40) as f32 / 8_388_608.0 - 1.0) * range)
            .collect()
    }
}
