//! The WGSL kernels, generated for the shapes at hand.
//!
//! Shapes are constants of the text, so that the driver's compiler can unroll and fold them; what
//! changes from call to call lies in the `step` buffer ([`step`]). Kernels whose work is large are
//! written for each [`Spread`]: whole rows per invocation, or lanes that share a row.
//!
//! Buffers hold `f32` or `u32`; 16-bit floats travel as pairs in a `u32`, so that no optional
//! adapter feature is needed. At most eight storage buffers are bound, which every WebGPU adapter
//! allows.

use std::fmt::{Debug, Write};
use std::hash::Hash;

use burn_wgpu::{KernelSource, SourceTemplate};
use cubecl::prelude::KernelId;

pub(crate) mod attention;
pub(crate) mod copy;
pub(crate) mod embed;
pub(crate) mod norm;
pub(crate) mod product;
pub(crate) mod sample;
pub(crate) mod step;
pub(crate) mod unpack;

/// Invocations per workgroup where each works alone: few, so that a CPU's cores share the work.
pub(crate) const ROW_GROUP: u32 = 16;

/// A kernel: a WGSL text with entry point `main` for the constants in `self`, which are its identity.
pub(crate) trait Kernel: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// Invocations per workgroup, in one dimension.
    fn group_size(&self) -> u32;

    /// The text.
    fn wgsl(&self) -> String;
}

/// Hands a [`Kernel`] to burn.
#[derive(Clone, Debug)]
pub(crate) struct Source<K>(pub K);

impl<K: Kernel> KernelSource for Source<K> {
    fn source(&self) -> SourceTemplate {
        SourceTemplate::new(self.0.wgsl())
    }

    fn id(&self) -> KernelId {
        KernelId::new::<K>().info(self.0.clone())
    }

    fn lang(&self) -> &'static str {
        "wgsl"
    }
}

/// Declares storage buffers in binding order.
pub(crate) fn bindings(buffers: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (index, (name, element)) in buffers.iter().enumerate() {
        let _ = writeln!(
            text,
            "@group(0) @binding({index}) var<storage, read_write> {name}: array<{element}>;"
        );
    }
    text
}
