//! Causal attention over the KV cache, with an online softmax (Milakov, Gimelshein 2018), and split
//! over the context where there are few queries for many keys (flash decoding, Dao et al. 2023).
//!
//! Keys and values lie by position: `[position][kv_heads * head_dim]`, in single precision or as pairs
//! of half floats.

use std::fmt::Write;

use super::{Kernel, ROW_GROUP, bindings};
use crate::gpu::Spread;

/// Invocations that share a query, and positions of a tile.
const LANES: u32 = 64;

/// Shape of the heads and of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Heads {
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    /// Whether the cache holds half floats.
    pub half: bool,
}

/// Each query's mix of values. Split over the context it leaves partial mixes for [`Merge`], else it
/// writes the result. Buffers: q, keys, values, step, out.
///
/// A partial mix takes `head_dim + 4` floats: the mix, the largest score, the mass, two unused.
/// Partial mixes lie as `[head][split]`, for one token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attention {
    pub shape: Heads,
    /// Whether there are several splits: the third dimension of the launch.
    pub partial: bool,
    pub spread: Spread,
}

impl Attention {
    /// Workgroups for `tokens` queries and `splits` splits.
    pub(crate) fn groups(&self, tokens: u32, splits: u32) -> [u32; 3] {
        match self.spread {
            Spread::Rows => [(self.shape.heads * tokens).div_ceil(ROW_GROUP), 1, splits],
            Spread::Lanes => [self.shape.heads, tokens, splits],
        }
    }
}

/// Into how many pieces the context of one query is split.
pub(crate) fn splits(spread: Spread, heads: usize, context: usize) -> u32 {
    let (most, least_positions) = match spread {
        // A workgroup holds all heads; more of them only share the work among cores.
        Spread::Rows => (4, 128),
        // Enough workgroups to fill a large GPU, each with a few tiles to do.
        Spread::Lanes => ((512 / heads).clamp(1, 16), 256),
    };
    (context / least_positions).clamp(1, most) as u32
}

/// Splits that [`splits`] never exceeds.
pub(crate) const MOST_SPLITS: usize = 16;

/// Floats of a partial mix.
pub(crate) fn partial_len(head_dim: usize) -> usize {
    head_dim + 4
}

/// Joins the partial mixes of one token. Buffers: partial, out. One invocation per four values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Merge {
    pub heads: u32,
    pub head_dim: u32,
    pub splits: u32,
}

impl Merge {
    /// Workgroups.
    pub(crate) fn groups(&self) -> [u32; 3] {
        [(self.heads * self.head_dim / 4).div_ceil(ROW_GROUP), 1, 1]
    }
}

impl Kernel for Merge {
    fn group_size(&self) -> u32 {
        ROW_GROUP
    }

    fn wgsl(&self) -> String {
        let quads = self.head_dim / 4;
        let splits = self.splits;
        format!(
            "{}
@compute @workgroup_size({ROW_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  if (id.x >= {}u) {{ return; }}
  let first = (id.x / {quads}u) * {splits}u * {}u;
  var top = -3.0e38;
  for (var i = 0u; i < {splits}u; i++) {{ top = max(top, partials[first + i * {}u + {quads}u].x); }}
  var sum = vec4<f32>();
  var mass = 0.0;
  for (var i = 0u; i < {splits}u; i++) {{
    let at = first + i * {}u;
    let scale = exp(partials[at + {quads}u].x - top);
    sum += partials[at + id.x % {quads}u] * scale;
    mass += partials[at + {quads}u].y * scale;
  }}
  out[id.x] = sum / mass;
}}
",
            bindings(&[("partials", "vec4<f32>"), ("out", "vec4<f32>")]),
            self.heads * quads,
            quads + 1,
            quads + 1,
            quads + 1,
        )
    }
}

impl Kernel for Attention {
    fn group_size(&self) -> u32 {
        match self.spread {
            Spread::Rows => ROW_GROUP,
            Spread::Lanes => LANES,
        }
    }

    fn wgsl(&self) -> String {
        match self.spread {
            Spread::Rows => self.rows(),
            Spread::Lanes => self.lanes(),
        }
    }
}

impl Attention {
    fn head(&self) -> String {
        let element = if self.shape.half {
            "vec2<u32>"
        } else {
            "vec4<f32>"
        };
        bindings(&[
            ("q", "vec4<f32>"),
            ("keys", element),
            ("values", element),
            ("step", "u32"),
            ("out", "vec4<f32>"),
        ])
    }

    /// Four values of a cache buffer.
    fn load(&self, buffer: &str, at: &str) -> String {
        if self.shape.half {
            format!(
                "vec4<f32>(unpack2x16float({buffer}[{at}].x), unpack2x16float({buffer}[{at}].y))"
            )
        } else {
            format!("{buffer}[{at}]")
        }
    }

    fn root(&self) -> f64 {
        1.0 / f64::from(self.shape.head_dim).sqrt()
    }

    /// One invocation per query.
    fn rows(&self) -> String {
        let Heads {
            heads,
            kv_heads,
            head_dim,
            ..
        } = self.shape;
        let quads = head_dim / 4;
        let root = self.root();
        let mut text = self.head();
        let _ = writeln!(
            text,
            "@compute @workgroup_size({ROW_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
  let token = id.x / {heads}u;
  let head = id.x % {heads}u;
  if (token >= step[0]) {{ return; }}
  let length = step[1] + token + 1u;
  let first = length * id.z / groups.z;
  let end = length * (id.z + 1u) / groups.z;
  let query = id.x * {quads}u;
  let column = (head / {}u) * {quads}u;
  var m = -3.0e38;
  var l = 0.0;",
            heads / kv_heads
        );
        for i in 0..quads {
            let _ = writeln!(
                text,
                "  let q{i} = q[query + {i}u] * {root:?};\n  var a{i} = vec4<f32>();"
            );
        }
        let _ = writeln!(
            text,
            "  for (var position = first; position < end; position++) {{
    let at = position * {}u + column;
    var s = 0.0;",
            kv_heads * quads
        );
        for i in 0..quads {
            let key = self.load("keys", &format!("at + {i}u"));
            let _ = writeln!(text, "    s += dot(q{i}, {key});");
        }
        text.push_str("    if (s > m) {\n      let c = exp(m - s);\n      l *= c;\n");
        for i in 0..quads {
            let _ = writeln!(text, "      a{i} *= c;");
        }
        text.push_str("      m = s;\n    }\n    let p = exp(s - m);\n    l += p;\n");
        for i in 0..quads {
            let value = self.load("values", &format!("at + {i}u"));
            let _ = writeln!(text, "    a{i} += p * {value};");
        }
        text.push_str("  }\n");
        if self.partial {
            let _ = writeln!(
                text,
                "  let sink = (head * groups.z + id.z) * {}u;\n  out[sink + {quads}u] = vec4<f32>(m, l, 0.0, 0.0);",
                quads + 1
            );
            for i in 0..quads {
                let _ = writeln!(text, "  out[sink + {i}u] = a{i};");
            }
        } else {
            for i in 0..quads {
                let _ = writeln!(text, "  out[query + {i}u] = a{i} / l;");
            }
        }
        text.push_str("}\n");
        text
    }

    /// A workgroup per query: by tiles, each lane scores one position, and then mixes four values over
    /// a share of the tile's positions.
    fn lanes(&self) -> String {
        let Heads {
            heads,
            kv_heads,
            head_dim,
            ..
        } = self.shape;
        let quads = head_dim / 4;
        let shares = LANES / quads;
        let stride = kv_heads * quads;
        let root = self.root();
        let key = self.load("keys", "at + i");
        let value = self.load("values", &format!("(tile + i) * {stride}u + column + quad"));
        let finish = if self.partial {
            format!(
                "let sink = (head * groups.z + group.z) * {}u;
    out[sink + quad] = sum;
    if (lane == 0u) {{ out[sink + {quads}u] = vec4<f32>(m, l, 0.0, 0.0); }}",
                quads + 1
            )
        } else {
            "out[query + quad] = sum / l;".to_owned()
        };
        format!(
            "{}
var<workgroup> bounds: vec2<u32>;
var<workgroup> queries: array<vec4<f32>, {quads}>;
var<workgroup> scores: array<f32, {LANES}>;
var<workgroup> mixes: array<vec4<f32>, {LANES}>;
@compute @workgroup_size({LANES}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let head = group.x;
  let token = group.y;
  let lane = local.x;
  let query = (token * {heads}u + head) * {quads}u;
  let column = (head / {}u) * {quads}u;
  if (lane == 0u) {{
    let length = step[1] + token + 1u;
    bounds = vec2<u32>(length * group.z / groups.z, length * (group.z + 1u) / groups.z);
  }}
  for (var i = lane; i < {quads}u; i += {LANES}u) {{ queries[i] = q[query + i] * {root:?}; }}
  let span = workgroupUniformLoad(&bounds);
  let quad = lane % {quads}u;
  let part = lane / {quads}u;
  var m = -3.0e38;
  var l = 0.0;
  var mix = vec4<f32>();
  for (var tile = span.x; tile < span.y; tile += {LANES}u) {{
    let count = min({LANES}u, span.y - tile);
    var s = -3.0e38;
    if (lane < count) {{
      let at = (tile + lane) * {stride}u + column;
      s = 0.0;
      for (var i = 0u; i < {quads}u; i++) {{ s += dot(queries[i], {key}); }}
    }}
    scores[lane] = s;
    workgroupBarrier();
    var top = m;
    for (var i = 0u; i < count; i++) {{ top = max(top, scores[i]); }}
    workgroupBarrier();
    if (lane < count) {{ scores[lane] = exp(s - top); }}
    workgroupBarrier();
    let c = exp(m - top);
    m = top;
    l *= c;
    mix *= c;
    for (var i = 0u; i < count; i++) {{ l += scores[i]; }}
    if (part < {shares}u) {{
      for (var i = part; i < count; i += {shares}u) {{ mix += scores[i] * {value}; }}
    }}
    workgroupBarrier();
  }}
  mixes[lane] = mix;
  workgroupBarrier();
  if (part == 0u) {{
    var sum = mixes[quad];
    for (var i = 1u; i < {shares}u; i++) {{ sum += mixes[i * {quads}u + quad]; }}
    {finish}
  }}
}}
",
            self.head(),
            heads / kv_heads,
        )
    }
}
