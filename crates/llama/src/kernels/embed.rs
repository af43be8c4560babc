//! Embedding: rows of a quantized table.

use weights::layout::Layout;

use super::unpack::{has_scales, scale_function, weights_function};
use super::{Kernel, ROW_GROUP, bindings};

/// `x[token] = table[ids[token]]`, for ids within `first .. first + rows`.
/// Buffers: words, scales (quantized layouts), step, ids, x. One invocation per four values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Embed {
    pub layout: Layout,
    pub cols: u32,
    /// First row of the table that the buffers hold.
    pub first: u32,
    /// Rows that they hold.
    pub rows: u32,
}

impl Embed {
    /// Workgroups for `tokens` tokens.
    pub(crate) fn groups(&self, tokens: u32) -> [u32; 3] {
        [(self.cols / 4).div_ceil(ROW_GROUP), tokens, 1]
    }
}

impl Kernel for Embed {
    fn group_size(&self) -> u32 {
        ROW_GROUP
    }

    fn wgsl(&self) -> String {
        let Self {
            layout,
            cols,
            first,
            rows,
        } = *self;
        let mut buffers = vec![("words0", "vec4<u32>")];
        if has_scales(layout) {
            buffers.push(("scales0", "u32"));
        }
        buffers.extend([("step", "u32"), ("ids", "u32"), ("x", "vec4<f32>")]);
        format!(
            "{}{}{}
@compute @workgroup_size({ROW_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  if (id.x >= {quads}u || id.y >= step[0]) {{ return; }}
  let row = ids[id.y] - {first}u;
  if (row >= {rows}u) {{ return; }}
  x[id.y * {quads}u + id.x] = weights0(row, id.x);
}}
",
            bindings(&buffers),
            scale_function(layout, cols, 0),
            weights_function(layout, cols, 0),
            quads = cols / 4,
        )
    }
}
