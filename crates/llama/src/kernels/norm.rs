//! The RMS norm as a kernel of its own, for passes of several tokens.
//!
//! With one token the norm is part of the product that needs it (see [`super::product`]).

use super::{Kernel, bindings};
use crate::gpu::Spread;

/// Tokens per workgroup where an invocation takes a whole token.
const TOKENS: u32 = 4;
/// Invocations that share a token.
const LANES: u32 = 64;

/// `out[token] = x[token] / rms(x[token]) * gain`, or only the last token's, to the front of `out`.
/// Buffers: x, gain, step, out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Norm {
    pub dim: u32,
    /// Bits of the epsilon, an `f32`.
    pub eps: u32,
    pub last: bool,
    pub spread: Spread,
}

impl Norm {
    /// Workgroups for `tokens` tokens.
    pub(crate) fn groups(&self, tokens: u32) -> [u32; 3] {
        let tokens = if self.last { 1 } else { tokens };
        match self.spread {
            Spread::Rows => [tokens.div_ceil(TOKENS), 1, 1],
            Spread::Lanes => [tokens, 1, 1],
        }
    }
}

impl Kernel for Norm {
    fn group_size(&self) -> u32 {
        match self.spread {
            Spread::Rows => TOKENS,
            Spread::Lanes => LANES,
        }
    }

    fn wgsl(&self) -> String {
        let Self {
            dim, last, spread, ..
        } = *self;
        let eps = f32::from_bits(self.eps);
        let quads = dim / 4;
        let head = bindings(&[
            ("x", "vec4<f32>"),
            ("gain", "vec4<f32>"),
            ("step", "u32"),
            ("y", "vec4<f32>"),
        ]);
        // Invocations past the end repeat the last token.
        let place = match spread {
            Spread::Rows => "min(id.x, step[0] - 1u)",
            Spread::Lanes => "min(group.x, step[0] - 1u)",
        };
        let (source, sink) = if last {
            ("step[0] - 1u", "0u")
        } else {
            (place, place)
        };
        match spread {
            Spread::Rows => format!(
                "{head}
@compute @workgroup_size({TOKENS}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let source = ({source}) * {quads}u;
  let sink = ({sink}) * {quads}u;
  var sum = vec4<f32>();
  for (var i = 0u; i < {quads}u; i++) {{ let v = x[source + i]; sum += v * v; }}
  let scale = inverseSqrt((sum.x + sum.y + sum.z + sum.w) / {dim}.0 + {eps:?});
  for (var i = 0u; i < {quads}u; i++) {{ y[sink + i] = x[source + i] * scale * gain[i]; }}
}}
"
            ),
            Spread::Lanes => format!(
                "{head}
var<workgroup> sums: array<f32, {LANES}>;
@compute @workgroup_size({LANES}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let source = ({source}) * {quads}u;
  let sink = ({sink}) * {quads}u;
  let lane = local.x;
  var sum = 0.0;
  for (var i = lane; i < {quads}u; i += {LANES}u) {{ let v = x[source + i]; sum += dot(v, v); }}
  sums[lane] = sum;
  for (var half = {}u; half > 0u; half >>= 1u) {{
    workgroupBarrier();
    if (lane < half) {{ sums[lane] += sums[lane + half]; }}
  }}
  workgroupBarrier();
  let scale = inverseSqrt(sums[0] / {dim}.0 + {eps:?});
  for (var i = lane; i < {quads}u; i += {LANES}u) {{ y[sink + i] = x[source + i] * scale * gain[i]; }}
}}
",
                LANES / 2
            ),
        }
    }
}
