//! Copying a buffer into a larger one.

use super::{Kernel, bindings};

const GROUP: u32 = 64;
/// Workgroups that one dimension may hold.
const WIDEST: u32 = 65_535;

/// `out[i] = x[i]` for the first `quads` groups of four words; `x` is at least as long.
/// Buffers: x, out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Copy {
    pub quads: u32,
}

impl Copy {
    /// Workgroups.
    pub(crate) fn groups(&self) -> [u32; 3] {
        let groups = self.quads.div_ceil(GROUP);
        let rows = groups.div_ceil(WIDEST);
        [groups.div_ceil(rows), rows, 1]
    }
}

impl Kernel for Copy {
    fn group_size(&self) -> u32 {
        GROUP
    }

    fn wgsl(&self) -> String {
        let [width, _, _] = self.groups();
        format!(
            "{}
@compute @workgroup_size({GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.y * {}u + id.x;
  if (i < {}u) {{ out[i] = x[i]; }}
}}
",
            bindings(&[("x", "vec4<u32>"), ("out", "vec4<u32>")]),
            width * GROUP,
            self.quads
        )
    }
}
