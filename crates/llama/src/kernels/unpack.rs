//! How weights come out of their [layouts](weights::layout), as WGSL text.
//!
//! Two ways. Products unpack [`UNIT`] weights with fixed places: a weight's bits are masked where they
//! lie in their word and converted as they are, a power of two too large, and the vector is divided by
//! that power instead, once for all rows. That takes no shifts, which emulators do lane by lane.
//! Everything else calls generated functions that take the weight's place as an argument.

use weights::layout::{Layout, Plane};

/// Weights that products unpack at once, where rows are long enough.
pub(crate) const UNIT: u32 = 32;

/// Whether a layout keeps scales in a stream of their own.
pub(crate) fn has_scales(layout: Layout) -> bool {
    layout.group() != 0
}

/// Whether a weight is `scale * q + minimum`, and not `scale * (q + centre)`.
pub(crate) fn has_minimum(layout: Layout) -> bool {
    use Layout::{Nested2, Nested4, Nested5, Offset4, Offset5};
    matches!(layout, Offset4 | Offset5 | Nested2 | Nested4 | Nested5)
}

/// What is added to a weight's bits before they are scaled.
pub(crate) fn centre(layout: Layout) -> f64 {
    match layout {
        Layout::Centred4 => -8.0,
        Layout::Centred5 => -16.0,
        Layout::Nested3 => -4.0,
        Layout::Nested6 => -32.0,
        _ => 0.0,
    }
}

/// Whether the weights of a plane are bits of a word, and not floats.
pub(crate) fn is_packed(plane: Plane) -> bool {
    matches!(
        plane,
        Plane::Singles | Plane::Pairs | Plane::Nibbles | Plane::Bytes
    )
}

/// Where a weight lies in a packed plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Weight of the unit.
    pub weight: u32,
    /// Lowest of its bits in the word.
    pub shift: u32,
}

/// The fields of word `word` of a unit, from the lowest bits up.
pub(crate) fn fields(plane: Plane, word: u32) -> Vec<Field> {
    let weight = |shift: u32| match plane {
        Plane::Singles => shift,
        Plane::Pairs => 16 * word + shift % 8 / 2 * 4 + shift / 8,
        Plane::Nibbles => shift % 8 / 4 * 16 + 4 * word + shift / 8,
        _ => 4 * word + shift / 8,
    };
    (0..32)
        .step_by(plane.bits())
        .map(|shift| Field {
            weight: weight(shift),
            shift,
        })
        .collect()
}

/// Bits to flip in each word, so that a field's masked bits, taken as a signed number, are the weight's
/// bits plus a constant: the uppermost field would have its top bit taken for a sign, and signed bytes
/// have signs where none is looked for.
pub(crate) fn flip(plane: Plane) -> u32 {
    match plane {
        Plane::Pairs | Plane::Nibbles => 0x8000_0000,
        Plane::Bytes => 0x0080_8080,
        _ => 0,
    }
}

impl Field {
    /// The field's number from its word; in a plane of bytes the word is [flipped](flip) already.
    pub(crate) fn value(self, plane: Plane, word: &str) -> String {
        let mask = (u32::MAX >> (32 - plane.bits())) << self.shift;
        let flipped = match plane {
            Plane::Nibbles | Plane::Pairs if self.shift + plane.bits() as u32 == 32 => {
                format!("({word} ^ {}u)", flip(plane))
            }
            _ => word.to_owned(),
        };
        format!("f32(bitcast<i32>({flipped} & {mask}u))")
    }

    /// What the masked number is to be multiplied with.
    pub(crate) fn factor(self, plane: Plane) -> f64 {
        let factor = 0.5f64.powi(self.shift as i32);
        // A single bit at the top is a sign and nothing else.
        if plane == Plane::Singles && self.shift == 31 {
            -factor
        } else {
            factor
        }
    }

    /// What is to be added to the product, see [`flip`].
    pub(crate) fn offset(self, plane: Plane) -> f64 {
        match (plane, self.shift) {
            (Plane::Pairs, 30) => 2.0,
            (Plane::Nibbles, 28) => 8.0,
            (Plane::Bytes, 0..24) => -128.0,
            _ => 0.0,
        }
    }
}

/// The function `scale{matrix}(row, group)` of a matrix whose scales are the buffer `scales{matrix}`:
/// scale and minimum of a group, the centre being part of the minimum. Nothing where there are no scales.
pub(crate) fn scale_function(layout: Layout, cols: u32, matrix: u32) -> String {
    if !has_scales(layout) {
        return String::new();
    }
    format!(
        "fn scale{matrix}(row: u32, group: u32) -> vec2<f32> {{
  let first = row * {}u;
  {}
}}
",
        layout.row_scales(cols as usize),
        scale(layout, &format!("scales{matrix}"))
    )
}

/// The function `weights{matrix}(row, quad)` of a matrix whose words are the buffer `words{matrix}`:
/// four weights in a row. It needs the [`scale_function`].
pub(crate) fn weights_function(layout: Layout, cols: u32, matrix: u32) -> String {
    let (low, high) = layout.planes();
    let row_words = layout.row_words(cols as usize);
    let mut q = four(low, matrix, &format!("row * {row_words}u"));
    if let Some(high) = high {
        let start = layout.high_start(cols as usize);
        let top = four(high, matrix, &format!("row * {row_words}u + {start}u"));
        q = format!("{q} + {}.0 * {top}", 1 << low.bits());
    }
    let value = match layout.group() as u32 {
        0 => format!("return {q};"),
        group => format!(
            "let s = scale{matrix}(row, quad / {}u);\n  return ({q}) * s.x + s.y;",
            group / 4
        ),
    };
    format!(
        "fn word{matrix}(at: u32) -> u32 {{ return words{matrix}[at / 4u][at % 4u]; }}
fn weights{matrix}(row: u32, quad: u32) -> vec4<f32> {{
  {value}
}}
"
    )
}

/// Four weights of a plane that starts at word `start`.
fn four(plane: Plane, matrix: u32, start: &str) -> String {
    let word = |at: &str| format!("word{matrix}({start} + {at})");
    match plane {
        Plane::Singles => format!(
            "vec4<f32>((vec4<u32>({}) >> (vec4<u32>(0u, 1u, 2u, 3u) + quad % 8u * 4u)) & vec4<u32>(1u))",
            word("quad / 8u")
        ),
        Plane::Pairs => format!(
            "vec4<f32>(unpack4xU8(({} >> (quad % 4u * 2u)) & 0x03030303u))",
            word("quad / 8u * 2u + quad % 8u / 4u")
        ),
        Plane::Nibbles => format!(
            "vec4<f32>(unpack4xU8(({} >> (quad % 8u / 4u * 4u)) & 0x0f0f0f0fu))",
            word("quad / 8u * 4u + quad % 4u")
        ),
        Plane::Bytes => format!("vec4<f32>(unpack4xI8({}))", word("quad")),
        Plane::Halves => format!(
            "vec4<f32>(unpack2x16float({}), unpack2x16float({}))",
            word("quad * 2u"),
            word("quad * 2u + 1u")
        ),
        Plane::BHalves => format!(
            "bitcast<vec4<f32>>((vec2<u32>({}, {}).xxyy << vec4<u32>(16u, 0u, 16u, 0u)) & vec4<u32>(0xffff0000u))",
            word("quad * 2u"),
            word("quad * 2u + 1u")
        ),
        Plane::Floats => format!("bitcast<vec4<f32>>(words{matrix}[({start}) / 4u + quad])"),
    }
}

/// Body of the function `scale`.
fn scale(layout: Layout, scales: &str) -> String {
    let centre = centre(layout);
    let byte = |at: &str, index: &str| format!("({scales}[{at}] >> ({index} % 4u * 8u)) & 255u");
    match layout {
        Layout::Offset4 | Layout::Offset5 => {
            format!("return unpack2x16float({scales}[first + group]);")
        }
        Layout::Nested2 => format!(
            "let at = first + group / 16u * 5u;
  let outer = unpack2x16float({scales}[at]);
  let both = {};
  return outer * vec2<f32>(f32(both & 15u), -f32(both >> 4u));",
            byte("at + 1u + group % 16u / 4u", "group")
        ),
        Layout::Nested4 | Layout::Nested5 => format!(
            "let at = first + group / 8u * 5u;
  let outer = unpack2x16float({scales}[at]);
  let s = {};
  let t = {};
  return outer * vec2<f32>(f32(s), -f32(t));",
            byte("at + 1u + group % 8u / 4u", "group"),
            byte("at + 3u + group % 8u / 4u", "group")
        ),
        Layout::Nested3 | Layout::Nested6 => format!(
            "let at = first + group / 16u * 5u;
  let s = unpack2x16float({scales}[at]).x * f32(unpack4xI8({scales}[at + 1u + group % 16u / 4u])[group % 4u]);
  return vec2<f32>(s, s * {centre:?});"
        ),
        _ => format!(
            "let pair = unpack2x16float({scales}[first + group / 2u]);
  let s = select(pair.x, pair.y, group % 2u == 1u);
  return vec2<f32>(s, s * {centre:?});"
        ),
    }
}
