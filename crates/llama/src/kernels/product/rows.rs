//! Whole rows per invocation.

use std::fmt::Write;

use super::unit::Turn;
use super::{ALONE, Ending, Product};

impl Product {
    /// An invocation goes through its rows' columns once, a few units at a time: it reads and prepares
    /// the vectors' elements and then loops over the rows. The loop stays one, since an emulator's
    /// compiler takes long for long texts and runs out of registers.
    pub(super) fn whole_rows(&self, rows: u32, tokens: u32, units: u32) -> String {
        let turn = Turn::new(self, units, tokens);
        let mut text = self.head();
        let matrices = self.matrices();
        let last = self.rows - 1;
        let _ = writeln!(
            text,
            "@compute @workgroup_size({ALONE}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let first_row = ((group.z * groups.x + group.x) * {ALONE}u + local.x) * {rows}u;
  if (first_row > {last}u) {{ return; }}
  let first_token = group.y * {tokens}u;"
        );
        // Tokens and rows past the end repeat the last one; their results are not stored.
        for token in 0..tokens {
            let _ = writeln!(
                text,
                "  let x{token} = min(first_token + {token}u, step[0] - 1u) * {}u;",
                self.cols / 4
            );
        }
        let count = rows * tokens;
        for matrix in 0..matrices {
            let _ = writeln!(text, "  var sums{matrix}: array<f32, {count}>;");
        }
        if self.norm.is_some() {
            text.push_str("  var square = 0.0;\n");
        }
        let _ = writeln!(
            text,
            "  for (var turn = 0u; turn < {}u; turn++) {{",
            turn.count()
        );
        turn.vectors(&mut text);
        turn.places(&mut text);
        for matrix in 0..matrices {
            let _ = writeln!(
                text,
                "    for (var r = 0u; r < {rows}u; r++) {{
      let row = min(first_row + r, {last}u);"
            );
            for token in 0..tokens {
                let _ = writeln!(
                    text,
                    "      var sum{token} = sums{matrix}[r * {tokens}u + {token}u];"
                );
            }
            turn.dot(&mut text, matrix, "row");
            for token in 0..tokens {
                let _ = writeln!(
                    text,
                    "      sums{matrix}[r * {tokens}u + {token}u] = sum{token};"
                );
            }
            text.push_str("    }\n");
        }
        text.push_str("  }\n");
        let factor = self.norm_factor().map_or(String::new(), |factor| {
            let _ = writeln!(text, "  let factor = {factor};");
            " * factor".to_owned()
        });
        let step = if matches!(self.ending, Ending::Rotate(_)) {
            2
        } else {
            1
        };
        let _ = writeln!(text, "  for (var r = 0u; r < {rows}u; r += {step}u) {{");
        for token in 0..tokens {
            let value = |matrix: u32, row: u32| {
                format!("sums{matrix}[(r + {row}u) * {tokens}u + {token}u]{factor}")
            };
            text.push_str(&self.finish_all(
                &format!("first_token + {token}u"),
                "first_row + r",
                step,
                value,
            ));
        }
        text.push_str("  }\n}\n");
        text
    }
}
