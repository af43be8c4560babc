//! Tiles staged in workgroup memory, for many vectors at once.

use std::fmt::Write;

use super::Product;

/// Rows of a tile.
pub(super) const ROWS: u32 = 64;
/// Floats of workgroup memory, less than the 16 KiB that every adapter has.
const MEMORY: u32 = 4096;

/// Invocations of a workgroup: one per four rows and four tokens.
pub(super) fn group_size(tokens: u32) -> u32 {
    ROWS / 4 * (tokens / 4)
}

impl Product {
    /// A workgroup unpacks a tile of weights and copies a tile of the vectors, both transposed, and each
    /// invocation then multiplies four rows with four tokens.
    pub(super) fn staged_tiles(&self, tokens: u32) -> String {
        let size = group_size(tokens);
        let matrices = self.matrices();
        let (row_quads, token_quads) = (ROWS / 4, tokens / 4);
        let depth = self.depth(tokens);
        let mut text = self.head();
        for matrix in 0..matrices {
            let _ = writeln!(
                text,
                "var<workgroup> staged{matrix}: array<vec4<f32>, {}>;",
                depth * row_quads
            );
        }
        let _ = writeln!(
            text,
            "var<workgroup> vectors: array<vec4<f32>, {}>;
@compute @workgroup_size({size}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let first_row = (group.z * groups.x + group.x) * {ROWS}u;
  let first_token = group.y * {tokens}u;
  let last_token = step[0] - 1u;
  let rows_at = local.x % {row_quads}u;
  let tokens_at = local.x / {row_quads}u;",
            depth * token_quads
        );
        for matrix in 0..matrices {
            for token in 0..4 {
                let _ = writeln!(text, "  var sum{matrix}_{token} = vec4<f32>();");
            }
        }
        let _ = writeln!(
            text,
            "  for (var first = 0u; first < {}u; first += {}u) {{",
            self.cols / 4,
            depth / 4
        );
        for matrix in 0..matrices {
            let value =
                |i: u32| format!("weights{matrix}(min(row + {i}u, {}u), quad)", self.rows - 1);
            self.stage(
                &mut text,
                &format!("staged{matrix}"),
                row_quads,
                tokens,
                "row = first_row",
                value,
            );
        }
        let value = |i: u32| format!("x[min(row + {i}u, last_token) * {}u + quad]", self.cols / 4);
        self.stage(
            &mut text,
            "vectors",
            token_quads,
            tokens,
            "row = first_token",
            value,
        );
        let _ = writeln!(
            text,
            "    workgroupBarrier();
    for (var k = 0u; k < {depth}u; k++) {{
      let v = vectors[k * {token_quads}u + tokens_at];"
        );
        for matrix in 0..matrices {
            let _ = writeln!(
                text,
                "      let w{matrix} = staged{matrix}[k * {row_quads}u + rows_at];"
            );
            for (token, part) in ["x", "y", "z", "w"].iter().enumerate() {
                let _ = writeln!(text, "      sum{matrix}_{token} += w{matrix} * v.{part};");
            }
        }
        text.push_str("    }\n    workgroupBarrier();\n  }\n");
        for token in 0..4 {
            let value = |matrix: u32, row: u32| {
                format!("sum{matrix}_{token}.{}", ["x", "y", "z", "w"][row as usize])
            };
            text.push_str(&self.finish_all(
                &format!("first_token + tokens_at * 4u + {token}u"),
                "first_row + rows_at * 4u",
                4,
                value,
            ));
        }
        text.push_str("}\n");
        text
    }

    /// Columns that are staged at once.
    fn depth(&self, tokens: u32) -> u32 {
        match MEMORY / (self.matrices() * ROWS + tokens) {
            32.. => 32,
            _ => 16,
        }
    }

    /// Fills a tile `[column][row]` of the rows from `row` on, each task with four by four elements.
    /// `value` reads four columns of one row.
    fn stage(
        &self,
        text: &mut String,
        tile: &str,
        quads: u32,
        tokens: u32,
        row: &str,
        value: impl Fn(u32) -> String,
    ) {
        let (depth, size) = (self.depth(tokens), group_size(tokens));
        let tasks = quads * depth / 4;
        let _ = writeln!(
            text,
            "    for (var task = local.x; task < {tasks}u; task += {size}u) {{
      let place = task % {quads}u;
      let column = task / {quads}u;
      let {row} + place * 4u;
      let quad = first + column;
      var a = mat4x4<f32>();"
        );
        let ragged = !self.cols.is_multiple_of(depth);
        let indent = if ragged {
            let _ = writeln!(text, "      if (quad < {}u) {{", self.cols / 4);
            "  "
        } else {
            ""
        };
        for i in 0..4 {
            let _ = writeln!(text, "{indent}      a[{i}] = {};", value(i));
        }
        if ragged {
            text.push_str("      }\n");
        }
        text.push_str("      let b = transpose(a);\n");
        for i in 0..4 {
            let _ = writeln!(
                text,
                "      {tile}[(column * 4u + {i}u) * {quads}u + place] = b[{i}];"
            );
        }
        text.push_str("    }\n");
    }
}
