//! Rows shared by neighbouring lanes.

use std::fmt::Write;

use super::unit::Turn;
use super::{Product, TOGETHER};

impl Product {
    /// Each lane takes every so many units of the rows it shares; neighbours read neighbouring words.
    /// What they found is added up, first within subgroups and then through workgroup memory.
    pub(super) fn shared_rows(&self, rows: u32, lanes: u32, subgroup: u32) -> String {
        let turn = Turn::new(self, 1, 1);
        let matrices = self.matrices();
        let last = self.rows - 1;
        let subgroup = subgroup.min(lanes);
        let mut values: Vec<String> = (0..matrices)
            .flat_map(|matrix| (0..rows).map(move |row| format!("sum{matrix}_{row}")))
            .collect();
        if self.norm.is_some() {
            values.push("square".to_owned());
        }
        let mut text = String::new();
        // Browsers want the extension named, and naga does not know its name.
        if subgroup > 1 && cfg!(target_family = "wasm") {
            text.push_str("enable subgroups;\n");
        }
        text.push_str(&self.head());
        if subgroup < lanes {
            let _ = writeln!(
                text,
                "var<workgroup> found: array<f32, {}>;",
                TOGETHER * values.len() as u32
            );
        }
        let _ = writeln!(
            text,
            "@compute @workgroup_size({TOGETHER}, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let lane = local.x % {lanes}u;
  let first_row = ((group.z * groups.x + group.x) * {}u + local.x / {lanes}u) * {rows}u;
  let token = group.y;
  let x0 = min(token, step[0] - 1u) * {}u;",
            TOGETHER / lanes,
            self.cols / 4
        );
        for value in &values {
            let _ = writeln!(text, "  var {value} = 0.0;");
        }
        for row in 0..rows {
            let _ = writeln!(text, "  let row{row} = min(first_row + {row}u, {last}u);");
        }
        let _ = writeln!(
            text,
            "  for (var turn = lane; turn < {}u; turn += {lanes}u) {{",
            turn.count()
        );
        turn.vectors(&mut text);
        turn.places(&mut text);
        for matrix in 0..matrices {
            for row in 0..rows {
                let _ = writeln!(text, "    {{\n      var sum0 = sum{matrix}_{row};");
                turn.dot(&mut text, matrix, &format!("row{row}"));
                let _ = writeln!(text, "      sum{matrix}_{row} = sum0;\n    }}");
            }
        }
        text.push_str("  }\n");
        gather(&mut text, &values, lanes, subgroup);
        let factor = self.norm_factor().map_or(String::new(), |factor| {
            let _ = writeln!(text, "  let factor = {factor};");
            " * factor".to_owned()
        });
        text.push_str("  if (lane == 0u) {\n");
        let value = |matrix: u32, row: u32| format!("sum{matrix}_{row}{factor}");
        text.push_str(&self.finish_all("token", "first_row", rows, value));
        text.push_str("  }\n}\n");
        text
    }
}

/// Adds `values` up over the lanes that share rows, for the first of them.
///
/// Subgroups are taken to be runs of neighbouring invocations, as they are on all adapters known.
fn gather(text: &mut String, values: &[String], lanes: u32, subgroup: u32) {
    let mut distance = subgroup / 2;
    while distance > 0 {
        for value in values {
            let _ = writeln!(
                text,
                "  {value} += subgroupShuffleXor({value}, {distance}u);"
            );
        }
        distance /= 2;
    }
    if subgroup == lanes {
        return;
    }
    // Memory is laid out value by value, so that neighbours write to neighbouring words.
    for (index, value) in values.iter().enumerate() {
        let _ = writeln!(
            text,
            "  found[{}u + local.x] = {value};",
            index as u32 * TOGETHER
        );
    }
    text.push_str("  workgroupBarrier();\n  if (lane == 0u) {\n");
    for (index, value) in values.iter().enumerate() {
        let start = index as u32 * TOGETHER;
        let _ = writeln!(
            text,
            "    for (var i = {subgroup}u; i < {lanes}u; i += {subgroup}u) {{ {value} += found[{start}u + local.x + i]; }}"
        );
    }
    text.push_str("  }\n");
}
