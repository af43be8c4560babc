//! Choosing a token on the GPU: the same rule as [`model::Sampling::choose`].
//!
//! The settings lie in a buffer of their own, `draw`, of which the last kernel advances the index, so
//! that a token can be chosen without the host writing anything:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | bits of the temperature (`f32`) |
//! | 1 | top-k; 0 keeps all |
//! | 2 | bits of top-p (`f32`) |
//! | 3 | bits of min-p (`f32`) |
//! | 4, 5 | seed, low word first |
//! | 6 | index of the token in its generation |

use model::Sampling;

use super::{Kernel, bindings};
use crate::gpu::Spread;

/// Words of the settings.
pub(crate) const DRAW_WORDS: usize = 8;
/// Best tokens that [`Best`] leaves for [`Winner`].
pub(crate) const PARTS: u32 = 1024;
/// Invocations of the workgroup that has the whole vocabulary.
const WIDE: u32 = 256;
/// Invocations of the workgroups that share the vocabulary.
const GROUP: u32 = 64;

/// The settings as the kernels read them.
pub(crate) fn draw(sampling: &Sampling, index: u64) -> [u32; DRAW_WORDS] {
    [
        sampling.temperature.to_bits(),
        u32::try_from(sampling.top_k).unwrap_or(u32::MAX),
        sampling.top_p.to_bits(),
        sampling.min_p.to_bits(),
        sampling.seed as u32,
        (sampling.seed >> 32) as u32,
        index as u32,
        0,
    ]
}

/// The lowest logit that the filters keep, by bisection over the bits of the logits, which is exact.
/// Buffers: logits, draw, candidates (two words per entry of the vocabulary), threshold (one word).
///
/// One workgroup does it all, on a CPU too: there a single invocation would need more turns of its
/// loops than some drivers allow. Each invocation first gathers its own candidates: tokens so far below
/// the best that no noise lifts them are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Threshold {
    pub vocab: u32,
}

impl Kernel for Threshold {
    fn group_size(&self) -> u32 {
        WIDE
    }

    fn wgsl(&self) -> String {
        let vocab = self.vocab;
        let share = vocab.div_ceil(WIDE);
        let join = |kind: &str, name: &str, operator: &str| {
            format!(
                "var<workgroup> {name}_of: array<{kind}, {WIDE}>;
fn {name}(lane: u32, value: {kind}) -> {kind} {{
  workgroupBarrier();
  {name}_of[lane] = value;
  for (var half = {}u; half > 0u; half >>= 1u) {{
    workgroupBarrier();
    if (lane < half) {{ let a = {name}_of[lane]; let b = {name}_of[lane + half]; {name}_of[lane] = {operator}; }}
  }}
  workgroupBarrier();
  return {name}_of[0];
}}
",
                WIDE / 2
            )
        };
        format!(
            "{}
{KEYS}
{}{}{}
@compute @workgroup_size({WIDE}, 1, 1)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {{
  let lane = local.x;
  let start = min(lane * {share}u, {vocab}u);
  let end = min(start + {share}u, {vocab}u);
  var top = 0u;
  for (var i = start; i < end; i++) {{
    let bits = logits[i];
    if (finite(bits)) {{ top = max(top, key(bits)); }}
  }}
  let best = value(most(lane, top));
  let temperature = bitcast<f32>(draw[0]);
  let reach = best - {REACH:?} * temperature;
  var count = 0u;
  for (var i = start; i < end; i++) {{
    let bits = logits[i];
    let logit = bitcast<f32>(bits);
    if (finite(bits) && logit >= reach) {{
      candidates[start + count] = vec2<u32>(key(bits), bitcast<u32>(exp((logit - best) / temperature)));
      count++;
    }}
  }}
  let stop = start + count;
  let wanted = select(draw[1], 0xffffffffu, draw[1] == 0u);
  var lowest = 0u;
  for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {{
    let trial = lowest | bit;
    var above = 0u;
    for (var i = start; i < stop; i++) {{ above += select(0u, 1u, candidates[i].x >= trial); }}
    if (total(lane, above) >= wanted) {{ lowest = trial; }}
  }}
  let min_p = bitcast<f32>(draw[3]);
  if (min_p > 0.0) {{ lowest = max(lowest, key(bitcast<u32>(best + temperature * log(min(min_p, 1.0))))); }}
  var kept = 0.0;
  for (var i = start; i < stop; i++) {{ kept += select(0.0, bitcast<f32>(candidates[i].y), candidates[i].x >= lowest); }}
  let top_p = bitcast<f32>(draw[2]);
  let enough = top_p * mass(lane, kept);
  var nucleus = 0u;
  for (var bit = 0x80000000u; bit > 0u; bit >>= 1u) {{
    let trial = nucleus | bit;
    let bound = max(trial, lowest);
    var held = 0.0;
    for (var i = start; i < stop; i++) {{ held += select(0.0, bitcast<f32>(candidates[i].y), candidates[i].x >= bound); }}
    if (mass(lane, held) >= enough) {{ nucleus = trial; }}
  }}
  if (lane == 0u) {{
    let bound = select(lowest, max(lowest, nucleus), top_p < 1.0);
    threshold[0] = select(bitcast<u32>(value(bound)), bitcast<u32>(-3.4e38), bound == 0u);
  }}
}}
",
            bindings(&[
                ("logits", "u32"),
                ("draw", "u32"),
                ("candidates", "vec2<u32>"),
                ("threshold", "u32"),
            ]),
            join("u32", "most", "max(a, b)"),
            join("u32", "total", "a + b"),
            join("f32", "mass", "a + b"),
        )
    }
}

/// Noise never makes up for a difference of this much in `logit / temperature`: it lies between -2.9
/// and 16.7.
const REACH: f32 = 20.0;

/// Words that are ordered as the floats whose bits they are made of.
const KEYS: &str = "fn finite(bits: u32) -> bool { return (bits & 0x7f800000u) != 0x7f800000u; }
fn key(bits: u32) -> u32 { return select(bits ^ 0x80000000u, ~bits, bits >= 0x80000000u); }
fn value(key: u32) -> f32 { return bitcast<f32>(select(~key, key ^ 0x80000000u, key >= 0x80000000u)); }";

/// How [`Best`] scores a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Score {
    /// By its logit.
    Greedy,
    /// By its logit with noise.
    Noisy,
    /// By its logit with noise, if it reaches the threshold.
    Filtered,
}

/// The best tokens, each of a share of the vocabulary.
/// Buffers: logits, parts; with noise also draw; filtered also threshold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Best {
    pub vocab: u32,
    pub score: Score,
    pub spread: Spread,
}

impl Best {
    /// Workgroups.
    pub(crate) fn groups(&self) -> [u32; 3] {
        [PARTS / GROUP, 1, 1]
    }
}

impl Kernel for Best {
    fn group_size(&self) -> u32 {
        GROUP
    }

    fn wgsl(&self) -> String {
        let vocab = self.vocab;
        let mut buffers = vec![("logits", "u32"), ("parts", "vec2<u32>")];
        let mut settings = "";
        let mut keep = "finite(bits)";
        let mut score = "bitcast<f32>(bits)";
        if self.score != Score::Greedy {
            buffers.push(("draw", "u32"));
            settings = "let temperature = bitcast<f32>(draw[0]);
  let seed = vec3<u32>(draw[4], draw[5], draw[6]);";
            score = "bitcast<f32>(bits) / temperature + gumbel(seed, i)";
        }
        if self.score == Score::Filtered {
            buffers.push(("threshold", "f32"));
            keep = "finite(bits) && bitcast<f32>(bits) >= threshold[0]";
        }
        let (start, end, stride) = match self.spread {
            // A share of neighbours, for the caches of a CPU.
            Spread::Rows => {
                let share = vocab.div_ceil(PARTS);
                (
                    format!("id.x * {share}u"),
                    format!("min((id.x + 1u) * {share}u, {vocab}u)"),
                    1,
                )
            }
            // Neighbours to neighbouring lanes.
            Spread::Lanes => ("id.x".to_owned(), format!("{vocab}u"), PARTS),
        };
        format!(
            "{}
{KEYS}
{NOISE}
@compute @workgroup_size({GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  {settings}
  var best = -3.4e38;
  var index = 0xffffffffu;
  for (var i = {start}; i < {end}; i += {stride}u) {{
    let bits = logits[i];
    if ({keep}) {{
      let score = {score};
      if (score > best) {{ best = score; index = i; }}
    }}
  }}
  parts[id.x] = vec2<u32>(bitcast<u32>(best), index);
}}
",
            bindings(&buffers)
        )
    }
}

/// [`model::sampling::gumbel`].
const NOISE: &str = "fn gumbel(seed: vec3<u32>, id: u32) -> f32 {
  var v = vec4<u32>(seed, id) * 1664525u + 1013904223u;
  v.x += v.y * v.w; v.y += v.z * v.x; v.z += v.x * v.y; v.w += v.y * v.z;
  v ^= v >> vec4<u32>(16u);
  v.x += v.y * v.w; v.y += v.z * v.x; v.z += v.x * v.y; v.w += v.y * v.z;
  let x = (f32(v.x >> 9u) + 0.5) * (1.0 / 8388608.0);
  var e = x * (1.0 + x * (0.5 + x * (1.0 / 3.0 + x * 0.25)));
  if (x >= 0.02) { e = -log(1.0 - x); }
  return -log(e);
}";

/// The best of the best; among equals the lowest id. Advances the index of `draw`.
/// Buffers: parts, draw, chosen (one word).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Winner {
    pub spread: Spread,
}

impl Kernel for Winner {
    fn group_size(&self) -> u32 {
        match self.spread {
            Spread::Rows => 1,
            Spread::Lanes => GROUP,
        }
    }

    fn wgsl(&self) -> String {
        let lanes = self.group_size();
        let (shared, join) = if lanes == 1 {
            (String::new(), String::new())
        } else {
            (
                format!("var<workgroup> bests: array<vec2<u32>, {lanes}>;"),
                format!(
                    "bests[lane] = vec2<u32>(bitcast<u32>(best), index);
  workgroupBarrier();
  if (lane == 0u) {{
    for (var i = 1u; i < {lanes}u; i++) {{
      let part = bests[i];
      let score = bitcast<f32>(part.x);
      if (score > best || (score == best && part.y < index)) {{ best = score; index = part.y; }}
    }}
  }}"
                ),
            )
        };
        format!(
            "{}
{shared}
@compute @workgroup_size({lanes}, 1, 1)
fn main(@builtin(local_invocation_id) local: vec3<u32>) {{
  let lane = local.x;
  var best = -3.4e38;
  var index = 0xffffffffu;
  for (var i = lane; i < {PARTS}u; i += {lanes}u) {{
    let part = parts[i];
    let score = bitcast<f32>(part.x);
    if (score > best || (score == best && part.y < index)) {{ best = score; index = part.y; }}
  }}
  {join}
  if (lane == 0u) {{
    chosen[0] = select(index, 0u, index == 0xffffffffu);
    draw[6] += 1u;
  }}
}}
",
            bindings(&[("parts", "vec2<u32>"), ("draw", "u32"), ("chosen", "u32"),])
        )
    }
}
