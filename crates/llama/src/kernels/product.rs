//! Products of quantized matrices with vectors, and what is done with the results on the way out.
//!
//! Four texts: with one vector per launch, an invocation computes whole rows (`rows`) or lanes share
//! rows and add up what they found (`lanes`); with many, an invocation unpacks each weight once for a
//! few vectors (`rows` again), or a workgroup stages tiles of both operands (`tiles`).

use std::fmt::Write;

use weights::layout::{Layout, Plane};

use super::attention::Heads;
use super::unpack::{has_scales, scale_function, weights_function};
use super::{Kernel, bindings, step};

mod lanes;
mod rows;
mod tiles;
mod unit;

/// What a product does with its results, for token `t` and row `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    /// `y[t][r] = (W x)[t][r]`, in rows of the given length.
    Store(u32),
    /// `y[t][r] += (W x)[t][r]`.
    Add(u32),
    /// `y[t][r] = silu(y[t][r]) * (W x)[t][r]`.
    Gated(u32),
    /// `y[t][r] = silu((G x)[t][r]) * (U x)[t][r]` with a second matrix.
    Pair(u32),
    /// Rows are those of queries, keys and values. Pairs of the first two are rotated by their token's
    /// angles in the `step` buffer; queries are stored, keys and values appended to the cache.
    Rotate(Heads),
}

/// How the work is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plan {
    /// An invocation computes `rows` rows for `tokens` tokens, alone.
    Rows {
        rows: u32,
        tokens: u32,
        /// Units that are unpacked in one go.
        units: u32,
    },
    /// `lanes` neighbours share `rows` rows, for one token. Up to `subgroup` of them exchange sums
    /// without memory; 1 where subgroup operations are not offered.
    Lanes {
        rows: u32,
        lanes: u32,
        subgroup: u32,
    },
    /// A workgroup computes 64 rows for `tokens` tokens, a multiple of four.
    Tiles { tokens: u32 },
}

/// `W x` for the tokens that the `step` buffer tells.
/// Buffers: words, scales (quantized layouts), both again of the second matrix of a pair, step, x,
/// gain (with a norm), and y, or queries, keys and values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub layout: Layout,
    pub rows: u32,
    /// Length of rows and vectors: a multiple of four, and of eight with 16-bit floats.
    pub cols: u32,
    /// Where in the result the first row's is.
    pub row_start: u32,
    /// The epsilon's bits where `x` is to be normalized: `y = W (x * gain) / rms(x)`.
    pub norm: Option<u32>,
    pub ending: Ending,
    pub plan: Plan,
}

/// Invocations per workgroup where each works alone: one vector of an emulator, so that cores get
/// equal shares.
const ALONE: u32 = 4;
/// Invocations per workgroup where lanes share rows.
const TOGETHER: u32 = 64;

impl Product {
    /// Matrices that are multiplied at once.
    fn matrices(&self) -> u32 {
        match self.ending {
            Ending::Pair(_) => 2,
            _ => 1,
        }
    }

    /// Workgroups for `tokens` tokens.
    pub(crate) fn groups(&self, tokens: u32) -> [u32; 3] {
        let (rows, tokens_at_once) = match self.plan {
            Plan::Rows { rows, tokens, .. } => (ALONE * rows, tokens),
            Plan::Lanes { rows, lanes, .. } => (TOGETHER / lanes * rows, 1),
            Plan::Tiles { tokens } => (tiles::ROWS, tokens),
        };
        let groups = self.rows.div_ceil(rows);
        // A dimension holds at most 65,535 workgroups.
        let wide = groups.div_ceil(65_535);
        [groups.div_ceil(wide), tokens.div_ceil(tokens_at_once), wide]
    }

    /// Declarations: buffers and the functions that unpack weights.
    fn head(&self) -> String {
        let mut names = Vec::new();
        for matrix in 0..self.matrices() {
            names.push((format!("words{matrix}"), "vec4<u32>"));
            if has_scales(self.layout) {
                names.push((format!("scales{matrix}"), "u32"));
            }
        }
        let mut add = |name: &str, element| names.push((name.to_owned(), element));
        add("step", "u32");
        add("x", "vec4<f32>");
        if self.norm.is_some() {
            add("gain", "vec4<f32>");
        }
        match self.ending {
            Ending::Rotate(heads) => {
                add("queries", "f32");
                let element = if heads.half { "u32" } else { "f32" };
                add("keys", element);
                add("values", element);
            }
            _ => add("y", "f32"),
        }
        let buffers: Vec<_> = names
            .iter()
            .map(|(name, it)| (name.as_str(), *it))
            .collect();
        let mut text = bindings(&buffers);
        for matrix in 0..self.matrices() {
            text.push_str(&scale_function(self.layout, self.cols, matrix));
            if matches!(self.plan, Plan::Tiles { .. }) {
                text.push_str(&weights_function(self.layout, self.cols, matrix));
            }
        }
        text.push_str(&self.finish());
        text
    }

    /// The function `finish(token, row, a, b)`, which disposes of the results of one row: `a`, and `b`
    /// of the second matrix; or of two rows, where pairs are rotated.
    fn finish(&self) -> String {
        let start = self.row_start;
        let (stride, action) = match self.ending {
            Ending::Store(stride) => (stride, "y[at] = a;"),
            Ending::Add(stride) => (stride, "y[at] = y[at] + a;"),
            Ending::Gated(stride) => (stride, "y[at] = y[at] / (1.0 + exp(-y[at])) * a;"),
            Ending::Pair(stride) => (stride, "y[at] = a / (1.0 + exp(-a)) * b;"),
            Ending::Rotate(heads) => return self.rotate(heads),
        };
        let last = self.rows - 1;
        format!(
            "fn finish(token: u32, row: u32, a: f32, b: f32) {{
  if (row > {last}u || token >= step[0]) {{ return; }}
  let at = token * {stride}u + row + {start}u;
  {action}
}}
"
        )
    }

    fn rotate(&self, heads: Heads) -> String {
        let queries = heads.heads * heads.head_dim;
        let keys = heads.kv_heads * heads.head_dim;
        let append = |buffer: &str, a: &str, b: &str| {
            if heads.half {
                format!("{buffer}[at / 2u] = pack2x16float(vec2<f32>({a}, {b}));")
            } else {
                format!("{buffer}[at] = {a};\n    {buffer}[at + 1u] = {b};")
            }
        };
        format!(
            "fn finish(token: u32, row: u32, a: f32, b: f32) {{
  if (row >= {rows}u || token >= step[0]) {{ return; }}
  let place = row + {start}u;
  let position = (step[1] + token) * {keys}u;
  if (place >= {before_values}u) {{
    let at = position + place - {before_values}u;
    {values}
    return;
  }}
  let angle = {table}u + token * {head_dim}u + place % {head_dim}u;
  let c = bitcast<f32>(step[angle]);
  let s = bitcast<f32>(step[angle + 1u]);
  let p = a * c - b * s;
  let q = a * s + b * c;
  if (place < {queries}u) {{
    let at = token * {queries}u + place;
    queries[at] = p;
    queries[at + 1u] = q;
  }} else {{
    let at = position + place - {queries}u;
    {keys_appended}
  }}
}}
",
            rows = self.rows,
            start = self.row_start,
            before_values = queries + keys,
            table = step::ROTATIONS,
            head_dim = heads.head_dim,
            values = append("values", "a", "b"),
            keys_appended = append("keys", "p", "q"),
        )
    }

    /// Calls of `finish` for the rows `first_row ..` of one token, where `value` names the result of a
    /// row of a matrix.
    fn finish_all(
        &self,
        token: &str,
        first_row: &str,
        rows: u32,
        value: impl Fn(u32, u32) -> String,
    ) -> String {
        let mut text = String::new();
        let mut call = |row, a: &str, b: &str| {
            let _ = writeln!(text, "  finish({token}, {first_row} + {row}u, {a}, {b});");
        };
        match self.ending {
            Ending::Rotate(_) => {
                for row in (0..rows).step_by(2) {
                    call(row, &value(0, row), &value(0, row + 1));
                }
            }
            Ending::Pair(_) => (0..rows).for_each(|row| call(row, &value(0, row), &value(1, row))),
            _ => (0..rows).for_each(|row| call(row, &value(0, row), "0.0")),
        }
        text
    }

    /// The factor that results are multiplied with, after `square` has become the sum of squares.
    fn norm_factor(&self) -> Option<String> {
        let eps = f32::from_bits(self.norm?);
        Some(format!("inverseSqrt(square / {}.0 + {eps:?})", self.cols))
    }
}

impl Kernel for Product {
    fn group_size(&self) -> u32 {
        match self.plan {
            Plan::Rows { .. } => ALONE,
            Plan::Lanes { .. } => TOGETHER,
            Plan::Tiles { tokens } => tiles::group_size(tokens),
        }
    }

    fn wgsl(&self) -> String {
        match self.plan {
            Plan::Rows {
                rows,
                tokens,
                units,
            } => self.whole_rows(rows, tokens, units),
            Plan::Lanes {
                rows,
                lanes,
                subgroup,
            } => self.shared_rows(rows, lanes, subgroup),
            Plan::Tiles { tokens } => self.staged_tiles(tokens),
        }
    }
}

/// The plan for whole rows per invocation, by measurement on SwiftShader (`examples/kernels.rs`).
pub(crate) fn alone(layout: Layout, rows: u32, cols: u32, tokens: u32) -> Plan {
    // Rows share what is read of a vector, but eight invocations of four lanes should have some.
    let rows = (rows / 32).next_multiple_of(2).clamp(2, 64);
    let tokens = tokens.next_power_of_two().min(4);
    // Scales and sums are read once for all units of a turn; with too many of them, the vectors' elements
    // no longer stay near.
    let sizes: &[u32] = match layout.planes() {
        (Plane::Floats, _) => &[1],
        (Plane::Halves | Plane::BHalves, _) => &[2, 1],
        _ if tokens > 1 => &[2, 1],
        (_, Some(_)) => &[4, 2, 1],
        _ => &[4, 6, 5, 3, 2, 1],
    };
    let units = cols / unit::unit_weights(cols);
    let fits = sizes.iter().find(|size| units.is_multiple_of(**size));
    Plan::Rows {
        rows,
        tokens,
        units: fits.copied().unwrap_or(1),
    }
}

/// The plan for lanes that share rows.
pub(crate) fn together(cols: u32, subgroup: Option<u32>) -> Plan {
    // As many lanes as find work in most turns.
    let units = cols / unit::unit_weights(cols);
    let idle = |lanes: &u32| units.next_multiple_of(*lanes) * 4 > units * 5;
    let lanes = [32, 16, 8].into_iter().find(|lanes| !idle(lanes));
    Plan::Lanes {
        rows: 2,
        lanes: lanes.unwrap_or(8),
        subgroup: subgroup.map_or(1, |size| size.clamp(1, 32)),
    }
}

/// The plan for staged tiles.
pub(crate) fn staged(tokens: u32) -> Plan {
    Plan::Tiles {
        tokens: if tokens > 32 { 64 } else { 32 },
    }
}
