//! The WGSL kernels, generated for the shapes at hand.
//!
//! Shapes are constants of the text, so that the driver's compiler can unroll and fold them; what
//! changes from call to call (token count, past length, cache capacity) is read from the `step`
//! buffer. Every kernel is written for two spreads (see [`Spread`]): whole rows per invocation, or
//! lanes that share a row and reduce through workgroup memory.
//!
//! Buffers hold `f32` or `u32`; 16-bit floats travel as pairs in a `u32`, so that no optional
//! adapter feature is needed.

use std::fmt::Write;

use burn_wgpu::{KernelSource, SourceTemplate};
use cubecl::prelude::KernelId;
use weights::layout::Layout;

use crate::gpu::Spread;

/// Words of the `step` buffer, which every kernel reads.
pub(crate) const STEP_WORDS: usize = 4;
/// Invocations per workgroup where each works alone: few, so that a CPU's cores share the work.
const ROW_GROUP: u32 = 16;
/// Invocations per workgroup where lanes share rows.
const LANE_GROUP: u32 = 64;
/// Lanes that share a row where a workgroup reduces.
const LANES: u32 = 32;
/// Partial results of the first stage of the arg-max.
pub(crate) const ARGMAX_PARTS: u32 = 256;

/// What a matrix product does with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Epilogue {
    /// `y = W x`
    Store,
    /// `y = y + W x`, the residual connection.
    Add,
}

/// A kernel and the constants it is generated for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    /// Rows of an embedding table: `x[token] = table[ids[token]]`, for ids within
    /// `first .. first + rows`. Buffers: words, scales (quantized layouts), step, ids, x.
    Embed {
        layout: Layout,
        cols: u32,
        first: u32,
        rows: u32,
    },
    /// `out[token] = x[token] / rms(x[token]) * weight`, or only the last token's.
    /// Buffers: x, weight, step, out.
    Norm {
        dim: u32,
        eps_bits: u32,
        last: bool,
        spread: Spread,
    },
    /// `y[token] = epilogue(W x[token])` with `W` of `rows × cols`, written at `row_start` of rows
    /// `stride` apart. Buffers: words, scales (quantized layouts), step, x, y.
    Linear {
        layout: Layout,
        rows: u32,
        cols: u32,
        row_start: u32,
        stride: u32,
        epilogue: Epilogue,
        tile: Tile,
        spread: Spread,
    },
    /// `y[token] = silu(G x[token]) * (U x[token])`.
    /// Buffers: gate words, gate scales, up words, up scales, step, x, y.
    GateUp {
        layout: Layout,
        rows: u32,
        cols: u32,
        row_start: u32,
        stride: u32,
        tile: Tile,
        spread: Spread,
    },
    /// Rotates queries and keys, and appends keys and values to the cache.
    /// Buffers: qkv, table, step, q, keys, values.
    Rope {
        heads: u32,
        kv_heads: u32,
        head_dim: u32,
    },
    /// Causal attention of each query over the cache, with an online softmax.
    /// Buffers: q, keys, values, step, out.
    Attention {
        heads: u32,
        kv_heads: u32,
        head_dim: u32,
        spread: Spread,
    },
    /// First stage of the arg-max over the logits. Buffers: logits, parts.
    ArgmaxParts { vocab: u32 },
    /// Second stage. Buffers: parts, out.
    ArgmaxMerge,
}

/// Rows and tokens that one invocation computes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    pub rows: u32,
    pub tokens: u32,
}

impl Kernel {
    /// Invocations per workgroup.
    pub(crate) fn group_size(&self) -> u32 {
        match self {
            Self::Norm {
                spread: Spread::Rows,
                ..
            } => 1,
            Self::Attention {
                spread: Spread::Rows,
                ..
            } => 1,
            Self::Norm { .. } => 64,
            Self::Attention { .. } => LANES,
            Self::ArgmaxMerge => 1,
            Self::Linear { spread, .. } | Self::GateUp { spread, .. } => product_group(*spread),
            _ => ROW_GROUP,
        }
    }

    /// Workgroups for `tokens` tokens.
    pub(crate) fn groups(&self, tokens: u32) -> [u32; 3] {
        match self {
            Self::Embed { cols, .. } => [(cols / 4).div_ceil(ROW_GROUP), tokens, 1],
            Self::Norm { last, .. } => [if *last { 1 } else { tokens }, 1, 1],
            Self::Linear {
                rows, tile, spread, ..
            }
            | Self::GateUp {
                rows, tile, spread, ..
            } => {
                let rows_per_group = match spread {
                    Spread::Rows => ROW_GROUP * tile.rows,
                    Spread::Lanes => LANE_GROUP / LANES * tile.rows,
                };
                let groups = rows.div_ceil(rows_per_group);
                // A dimension holds at most 65,535 workgroups.
                let wide = groups.div_ceil(65_535);
                [groups.div_ceil(wide), tokens.div_ceil(tile.tokens), wide]
            }
            Self::Rope {
                heads,
                kv_heads,
                head_dim,
            } => {
                let pairs = (heads + 2 * kv_heads) * head_dim / 2;
                [pairs.div_ceil(ROW_GROUP), tokens, 1]
            }
            Self::Attention { heads, .. } => [*heads, tokens, 1],
            Self::ArgmaxParts { .. } => [ARGMAX_PARTS / ROW_GROUP, 1, 1],
            Self::ArgmaxMerge => [1, 1, 1],
        }
    }

    /// The WGSL text, with entry point `main`.
    pub(crate) fn wgsl(&self) -> String {
        match *self {
            Self::Embed {
                layout,
                cols,
                first,
                rows,
            } => embed(layout, cols, first, rows),
            Self::Norm {
                dim,
                eps_bits,
                last,
                spread,
            } => norm(dim, f32::from_bits(eps_bits), last, spread),
            Self::Linear {
                layout,
                rows,
                cols,
                row_start,
                stride,
                epilogue,
                tile,
                spread,
            } => {
                let shape = Product {
                    layout,
                    rows,
                    cols,
                    row_start,
                    stride,
                    tile,
                    spread,
                };
                shape.wgsl(1, |values| match epilogue {
                    Epilogue::Store => format!("y[at] = {};", values[0]),
                    Epilogue::Add => format!("y[at] = y[at] + {};", values[0]),
                })
            }
            Self::GateUp {
                layout,
                rows,
                cols,
                row_start,
                stride,
                tile,
                spread,
            } => {
                let shape = Product {
                    layout,
                    rows,
                    cols,
                    row_start,
                    stride,
                    tile,
                    spread,
                };
                shape.wgsl(2, |values| {
                    format!(
                        "y[at] = {0} / (1.0 + exp(-{0})) * {1};",
                        values[0], values[1]
                    )
                })
            }
            Self::Rope {
                heads,
                kv_heads,
                head_dim,
            } => rope(heads, kv_heads, head_dim),
            Self::Attention {
                heads,
                kv_heads,
                head_dim,
                spread,
            } => attention(heads, kv_heads, head_dim, spread),
            Self::ArgmaxParts { vocab } => argmax_parts(vocab),
            Self::ArgmaxMerge => argmax_merge(),
        }
    }
}

/// Invocations per workgroup of a matrix product.
fn product_group(spread: Spread) -> u32 {
    match spread {
        Spread::Rows => ROW_GROUP,
        Spread::Lanes => LANE_GROUP,
    }
}

impl KernelSource for Kernel {
    fn source(&self) -> SourceTemplate {
        SourceTemplate::new(self.wgsl())
    }

    fn id(&self) -> KernelId {
        KernelId::new::<Self>().info(self.clone())
    }

    fn lang(&self) -> &'static str {
        "wgsl"
    }
}

/// Declares storage buffers in binding order.
fn bindings(buffers: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (index, (name, element)) in buffers.iter().enumerate() {
        let _ = writeln!(
            text,
            "@group(0) @binding({index}) var<storage, read_write> {name}: array<{element}>;"
        );
    }
    text
}

/// Whether a layout keeps scales in a stream of their own.
pub(crate) fn has_scales(layout: Layout) -> bool {
    matches!(layout, Layout::Q4 | Layout::Q8)
}

/// Weights per `vec4<u32>` of the words stream.
fn per_quad(layout: Layout) -> u32 {
    match layout {
        Layout::Q4 => 32,
        Layout::Q8 => 16,
        Layout::F16 => 8,
        Layout::F32 => 4,
    }
}

/// The four weights `4 * part .. 4 * part + 4` of one `vec4<u32>`, before scaling.
/// `part` counts over the weights of the quad.
fn unpack(layout: Layout, quad: &str, part: u32) -> String {
    let lane = |word: u32| ["x", "y", "z", "w"][word as usize];
    match layout {
        // Low nibbles hold the first half of the block, high nibbles the second, as in GGUF.
        Layout::Q4 if part < 4 => {
            format!("vec4<f32>(unpack4xU8({quad}.{} & 0x0f0f0f0fu))", lane(part))
        }
        Layout::Q4 => {
            format!(
                "vec4<f32>(unpack4xU8(({quad}.{} >> 4u) & 0x0f0f0f0fu))",
                lane(part - 4)
            )
        }
        Layout::Q8 => format!("vec4<f32>(unpack4xI8({quad}.{}))", lane(part)),
        Layout::F16 => format!(
            "vec4<f32>(unpack2x16float({quad}.{}), unpack2x16float({quad}.{}))",
            lane(2 * part),
            lane(2 * part + 1)
        ),
        Layout::F32 => format!("bitcast<vec4<f32>>({quad})"),
    }
}

/// Expression of scale and minimum of block `block` of row `row`: `vec2(scale, minimum)` for Q4,
/// a plain scale for Q8.
fn scale(layout: Layout, scales: &str, row: &str, block: &str, blocks: u32) -> String {
    match layout {
        Layout::Q4 => format!("unpack2x16float({scales}[{row} * {blocks}u + {block}])"),
        Layout::Q8 => format!(
            "unpack2x16float({scales}[{row} * {}u + ({block} >> 1u)])[{block} & 1u]",
            blocks.div_ceil(2)
        ),
        Layout::F16 | Layout::F32 => "1.0".to_owned(),
    }
}

fn embed(layout: Layout, cols: u32, first: u32, rows: u32) -> String {
    let mut buffers = vec![("words", "vec4<u32>")];
    if has_scales(layout) {
        buffers.push(("scales", "u32"));
    }
    buffers.extend([("step", "u32"), ("ids", "u32"), ("x", "vec4<f32>")]);
    let per = per_quad(layout);
    let quads = cols / per;
    let parts = per / 4;
    let blocks = cols / 32;
    let mut cases = String::new();
    for part in 0..parts {
        let _ = writeln!(
            cases,
            "    case {part}u: {{ value = {}; }}",
            unpack(layout, "quad", part)
        );
    }
    let scaling = match layout {
        Layout::Q4 => format!(
            "let s = {}; value = value * s.x + s.y;",
            scale(layout, "scales", "row", "(column / 32u)", blocks)
        ),
        Layout::Q8 => format!(
            "value = value * {};",
            scale(layout, "scales", "row", "(column / 32u)", blocks)
        ),
        Layout::F16 | Layout::F32 => String::new(),
    };
    format!(
        "{}
@compute @workgroup_size({ROW_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let group = id.x;
  let token = id.y;
  if (group >= {}u || token >= step[0]) {{ return; }}
  let row = ids[token] - {first}u;
  if (row >= {rows}u) {{ return; }}
  let column = group * 4u;
  let quad = words[row * {quads}u + column / {per}u];
  var value = vec4<f32>();
  switch ((column % {per}u) / 4u) {{
{cases}    default: {{ }}
  }}
  {scaling}
  x[token * {}u + group] = value;
}}
",
        bindings(&buffers),
        cols / 4,
        cols / 4
    )
}

fn norm(dim: u32, eps: f32, last: bool, spread: Spread) -> String {
    let quads = dim / 4;
    let head = bindings(&[
        ("x", "vec4<f32>"),
        ("weight", "vec4<f32>"),
        ("step", "u32"),
        ("y", "vec4<f32>"),
    ]);
    let (origin, place) = if last {
        ("(step[0] - 1u)", "0u")
    } else {
        ("min(group.x, step[0] - 1u)", "group.x")
    };
    match spread {
        Spread::Rows => format!(
            "{head}
@compute @workgroup_size(1, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>) {{
  let source = {origin} * {quads}u;
  let sink = {place} * {quads}u;
  var sum = vec4<f32>();
  for (var i = 0u; i < {quads}u; i++) {{ let v = x[source + i]; sum += v * v; }}
  let scale = inverseSqrt((sum.x + sum.y + sum.z + sum.w) / {dim}.0 + {eps:?});
  for (var i = 0u; i < {quads}u; i++) {{ y[sink + i] = x[source + i] * scale * weight[i]; }}
}}
"
        ),
        Spread::Lanes => format!(
            "{head}
var<workgroup> sums: array<f32, 64>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let source = {origin} * {quads}u;
  let sink = {place} * {quads}u;
  let lane = local.x;
  var sum = 0.0;
  for (var i = lane; i < {quads}u; i += 64u) {{ let v = x[source + i]; sum += dot(v, v); }}
  sums[lane] = sum;
  for (var half = 32u; half > 0u; half >>= 1u) {{
    workgroupBarrier();
    if (lane < half) {{ sums[lane] += sums[lane + half]; }}
  }}
  workgroupBarrier();
  let scale = inverseSqrt(sums[0] / {dim}.0 + {eps:?});
  for (var i = lane; i < {quads}u; i += 64u) {{ y[sink + i] = x[source + i] * scale * weight[i]; }}
}}
"
        ),
    }
}

/// The common part of the matrix products: one or two matrices times the same vectors.
struct Product {
    layout: Layout,
    rows: u32,
    cols: u32,
    row_start: u32,
    stride: u32,
    tile: Tile,
    spread: Spread,
}

impl Product {
    /// `finish` gets the expressions of the finished dot products, one a matrix, for the element
    /// `at` of `y`.
    fn wgsl(&self, matrices: u32, finish: impl Fn(&[String]) -> String) -> String {
        let Self {
            layout,
            rows,
            cols,
            row_start,
            stride,
            tile,
            spread,
        } = *self;
        let scaled = has_scales(layout);
        let invocations = product_group(spread);
        let mut names = Vec::new();
        for matrix in 0..matrices {
            names.push((format!("words{matrix}"), "vec4<u32>"));
            if scaled {
                names.push((format!("scales{matrix}"), "u32"));
            }
        }
        names.push(("step".to_owned(), "u32"));
        names.push(("x".to_owned(), "vec4<f32>"));
        names.push(("y".to_owned(), "f32"));
        let buffers: Vec<_> = names
            .iter()
            .map(|(name, element)| (name.as_str(), *element))
            .collect();
        let mut text = bindings(&buffers);

        // One turn of the loop covers one quantization block, or one quad where there are none.
        let per = per_quad(layout);
        let span = if scaled { 32 } else { per };
        let turns = cols / span;
        let quads_per_turn = span / per;
        let quads_per_row = cols / per;
        let cells = || {
            (0..matrices).flat_map(move |m| {
                (0..tile.rows).flat_map(move |r| (0..tile.tokens).map(move |t| (m, r, t)))
            })
        };

        if spread == Spread::Lanes {
            let slots = invocations * matrices * tile.rows * tile.tokens;
            let _ = writeln!(text, "var<workgroup> sums: array<f32, {slots}>;");
        }
        let _ = writeln!(
            text,
            "@compute @workgroup_size({invocations}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let block_of_rows = group.z * groups.x + group.x;
  let tokens = step[0];
  let first_token = group.y * {}u;",
            tile.tokens
        );
        let (first_row, start, step) = match spread {
            Spread::Rows => (
                format!(
                    "(block_of_rows * {invocations}u + local.x) * {}u",
                    tile.rows
                ),
                "0u".to_owned(),
                1,
            ),
            Spread::Lanes => (
                format!(
                    "(block_of_rows * {}u + local.x / {LANES}u) * {}u",
                    invocations / LANES,
                    tile.rows
                ),
                format!("local.x % {LANES}u"),
                LANES,
            ),
        };
        let _ = writeln!(text, "  let first_row = {first_row};");
        if spread == Spread::Rows {
            let _ = writeln!(text, "  if (first_row >= {rows}u) {{ return; }}");
        }
        // Rows and tokens past the end repeat the last one; their results are not stored.
        for r in 0..tile.rows {
            let _ = writeln!(text, "  let row{r} = min(first_row + {r}u, {}u);", rows - 1);
        }
        for t in 0..tile.tokens {
            let _ = writeln!(
                text,
                "  let x{t} = min(first_token + {t}u, tokens - 1u) * {}u;",
                cols / 4
            );
        }
        for (m, r, t) in cells() {
            let _ = writeln!(text, "  var sum{m}_{r}_{t} = 0.0;");
        }
        let _ = writeln!(
            text,
            "  for (var turn = {start}; turn < {turns}u; turn += {step}u) {{"
        );
        if scaled {
            for (m, r, t) in cells() {
                let _ = writeln!(text, "    var part{m}_{r}_{t} = 0.0;");
            }
        }
        let minimum = layout == Layout::Q4;
        if minimum {
            for t in 0..tile.tokens {
                let _ = writeln!(text, "    var total{t} = vec4<f32>();");
            }
        }
        for quad in 0..quads_per_turn {
            for m in 0..matrices {
                for r in 0..tile.rows {
                    let _ = writeln!(
                        text,
                        "    let w{m}_{r}_{quad} = words{m}[row{r} * {quads_per_row}u + turn * {quads_per_turn}u + {quad}u];"
                    );
                }
            }
            for part in 0..per / 4 {
                let _ = writeln!(text, "    {{");
                for t in 0..tile.tokens {
                    let at = quad * (per / 4) + part;
                    let _ = writeln!(
                        text,
                        "      let v{t} = x[x{t} + turn * {}u + {at}u];",
                        span / 4
                    );
                    if minimum {
                        let _ = writeln!(text, "      total{t} += v{t};");
                    }
                }
                for m in 0..matrices {
                    for r in 0..tile.rows {
                        let unpacked = unpack(layout, &format!("w{m}_{r}_{quad}"), part);
                        let _ = writeln!(text, "      let q{m}_{r} = {unpacked};");
                        for t in 0..tile.tokens {
                            let into = if scaled { "part" } else { "sum" };
                            let _ =
                                writeln!(text, "      {into}{m}_{r}_{t} += dot(q{m}_{r}, v{t});");
                        }
                    }
                }
                let _ = writeln!(text, "    }}");
            }
        }
        if minimum {
            for t in 0..tile.tokens {
                let _ = writeln!(
                    text,
                    "    let all{t} = total{t}.x + total{t}.y + total{t}.z + total{t}.w;"
                );
            }
        }
        if scaled {
            for m in 0..matrices {
                for r in 0..tile.rows {
                    let expression = scale(
                        layout,
                        &format!("scales{m}"),
                        &format!("row{r}"),
                        "turn",
                        cols / 32,
                    );
                    let _ = writeln!(text, "    let s{m}_{r} = {expression};");
                    for t in 0..tile.tokens {
                        let value = if minimum {
                            format!("s{m}_{r}.x * part{m}_{r}_{t} + s{m}_{r}.y * all{t}")
                        } else {
                            format!("s{m}_{r} * part{m}_{r}_{t}")
                        };
                        let _ = writeln!(text, "    sum{m}_{r}_{t} += {value};");
                    }
                }
            }
        }
        let _ = writeln!(text, "  }}");

        let per_lane = matrices * tile.rows * tile.tokens;
        let slot = |m: u32, r: u32, t: u32| (m * tile.rows + r) * tile.tokens + t;
        if spread == Spread::Lanes {
            for (m, r, t) in cells() {
                let _ = writeln!(
                    text,
                    "  sums[local.x * {per_lane}u + {}u] = sum{m}_{r}_{t};",
                    slot(m, r, t)
                );
            }
            let _ = writeln!(
                text,
                "  let lane = local.x % {LANES}u;
  for (var half = {}u; half > 0u; half >>= 1u) {{
    workgroupBarrier();
    if (lane < half) {{
      for (var i = 0u; i < {per_lane}u; i++) {{ sums[local.x * {per_lane}u + i] += sums[(local.x + half) * {per_lane}u + i]; }}
    }}
  }}
  if (lane != 0u) {{ return; }}",
                LANES / 2
            );
        }
        for r in 0..tile.rows {
            for t in 0..tile.tokens {
                let values: Vec<_> = (0..matrices)
                    .map(|m| match spread {
                        Spread::Rows => format!("sum{m}_{r}_{t}"),
                        Spread::Lanes => {
                            format!("sums[local.x * {per_lane}u + {}u]", slot(m, r, t))
                        }
                    })
                    .collect();
                let _ = writeln!(
                    text,
                    "  if (first_row + {r}u < {rows}u && first_token + {t}u < tokens) {{
    let at = (first_token + {t}u) * {stride}u + {row_start}u + first_row + {r}u;
    {}
  }}",
                    finish(&values)
                );
            }
        }
        text.push_str("}\n");
        text
    }
}

fn rope(heads: u32, kv_heads: u32, head_dim: u32) -> String {
    let half = head_dim / 2;
    let all = heads + 2 * kv_heads;
    format!(
        "{}
@compute @workgroup_size({ROW_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let token = id.y;
  if (id.x >= {}u || token >= step[0]) {{ return; }}
  let head = id.x / {half}u;
  let pair = id.x % {half}u;
  let position = step[1] + token;
  let value = qkv[(token * {all}u + head) * {half}u + pair];
  if (head >= {}u) {{
    let slot = (head - {}u) * step[2] + position;
    values[slot * {half}u + pair] = value;
    return;
  }}
  let turn = table[position * {half}u + pair];
  let rotated = vec2<f32>(value.x * turn.x - value.y * turn.y, value.x * turn.y + value.y * turn.x);
  if (head < {heads}u) {{
    q[(token * {heads}u + head) * {half}u + pair] = rotated;
  }} else {{
    let slot = (head - {heads}u) * step[2] + position;
    keys[slot * {half}u + pair] = rotated;
  }}
}}
",
        bindings(&[
            ("qkv", "vec2<f32>"),
            ("table", "vec2<f32>"),
            ("step", "u32"),
            ("q", "vec2<f32>"),
            ("keys", "vec2<f32>"),
            ("values", "vec2<f32>"),
        ]),
        all * half,
        heads + kv_heads,
        heads + kv_heads,
    )
}

fn attention(heads: u32, kv_heads: u32, head_dim: u32, spread: Spread) -> String {
    let quads = head_dim / 4;
    let shared = heads / kv_heads;
    let root = 1.0 / f64::from(head_dim).sqrt();
    let (lanes, start) = match spread {
        Spread::Rows => (1, "0u"),
        Spread::Lanes => (LANES, "local.x"),
    };
    let mut text = bindings(&[
        ("q", "vec4<f32>"),
        ("keys", "vec4<f32>"),
        ("values", "vec4<f32>"),
        ("step", "u32"),
        ("out", "vec4<f32>"),
    ]);
    if lanes > 1 {
        let _ = writeln!(
            text,
            "var<workgroup> best: array<f32, {lanes}>;
var<workgroup> mass: array<f32, {lanes}>;
var<workgroup> mixed: array<vec4<f32>, {lanes}>;"
        );
    }
    let _ = writeln!(
        text,
        "@compute @workgroup_size({lanes}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let head = group.x;
  let token = group.y;
  let length = step[1] + token + 1u;
  let query = (token * {heads}u + head) * {quads}u;
  let cache = (head / {shared}u) * step[2];
  var m = -3.0e38;
  var l = 0.0;"
    );
    for i in 0..quads {
        let _ = writeln!(
            text,
            "  let q{i} = q[query + {i}u] * {root:?};\n  var a{i} = vec4<f32>();"
        );
    }
    let _ = writeln!(
        text,
        "  for (var position = {start}; position < length; position += {lanes}u) {{
    let at = (cache + position) * {quads}u;
    var s = 0.0;"
    );
    for i in 0..quads {
        let _ = writeln!(text, "    s += dot(q{i}, keys[at + {i}u]);");
    }
    let _ = writeln!(
        text,
        "    if (s > m) {{\n      let c = exp(m - s);\n      l *= c;"
    );
    for i in 0..quads {
        let _ = writeln!(text, "      a{i} *= c;");
    }
    let _ = writeln!(
        text,
        "      m = s;\n    }}\n    let p = exp(s - m);\n    l += p;"
    );
    for i in 0..quads {
        let _ = writeln!(text, "    a{i} += p * values[at + {i}u];");
    }
    let _ = writeln!(text, "  }}");
    if lanes == 1 {
        for i in 0..quads {
            let _ = writeln!(text, "  out[query + {i}u] = a{i} / l;");
        }
    } else {
        let _ = writeln!(
            text,
            "  let lane = local.x;
  best[lane] = m;
  mass[lane] = l;
  workgroupBarrier();
  var top = m;
  for (var i = 0u; i < {lanes}u; i++) {{ top = max(top, best[i]); }}
  var total = 0.0;
  for (var i = 0u; i < {lanes}u; i++) {{ total += mass[i] * exp(best[i] - top); }}
  let share = exp(m - top) / total;"
        );
        for i in 0..quads {
            let _ = writeln!(
                text,
                "  mixed[lane] = a{i} * share;
  for (var half = {}u; half > 0u; half >>= 1u) {{
    workgroupBarrier();
    if (lane < half) {{ mixed[lane] += mixed[lane + half]; }}
  }}
  if (lane == 0u) {{ out[query + {i}u] = mixed[0]; }}
  workgroupBarrier();",
                lanes / 2
            );
        }
    }
    text.push_str("}\n");
    text
}

fn argmax_parts(vocab: u32) -> String {
    let chunk = vocab.div_ceil(ARGMAX_PARTS);
    format!(
        "{}
@compute @workgroup_size({ROW_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let start = id.x * {chunk}u;
  let end = min(start + {chunk}u, {vocab}u);
  var best = -3.4e38;
  var index = start;
  for (var i = start; i < end; i++) {{
    let value = logits[i];
    if (value > best) {{ best = value; index = i; }}
  }}
  parts[id.x] = vec2<u32>(bitcast<u32>(best), index);
}}
",
        bindings(&[("logits", "f32"), ("parts", "vec2<u32>")])
    )
}

fn argmax_merge() -> String {
    format!(
        "{}
@compute @workgroup_size(1, 1, 1)
fn main() {{
  var best = bitcast<f32>(parts[0].x);
  var index = parts[0].y;
  for (var i = 1u; i < {ARGMAX_PARTS}u; i++) {{
    let value = bitcast<f32>(parts[i].x);
    if (value > best) {{ best = value; index = parts[i].y; }}
  }}
  out[0] = index;
}}
",
        bindings(&[("parts", "vec2<u32>"), ("out", "u32")])
    )
}
