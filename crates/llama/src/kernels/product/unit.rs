//! Unpacking a few units of a row and multiplying them with as many elements of vectors.

use std::fmt::Write;

use weights::layout::{Layout, Plane};

use super::Product;
use crate::kernels::unpack::{
    Field, UNIT, centre, fields, flip, has_minimum, has_scales, is_packed,
};

/// What one turn of a product's loop takes from each row.
pub(super) struct Turn {
    layout: Layout,
    cols: u32,
    /// Weights of a turn.
    pub weights: u32,
    /// Weights per unit.
    unit: u32,
    /// Vectors.
    tokens: u32,
    norm: bool,
}

const LETTERS: [&str; 4] = ["x", "y", "z", "w"];

/// Weights per unit for rows of `cols`: fewer than [`UNIT`] only for floats, which have no blocks.
pub(super) fn unit_weights(cols: u32) -> u32 {
    let mut sizes = [UNIT, 16, 8].into_iter();
    sizes.find(|size| cols.is_multiple_of(*size)).unwrap_or(4)
}

impl Turn {
    pub(super) fn new(product: &Product, units: u32, tokens: u32) -> Self {
        let unit = unit_weights(product.cols);
        Self {
            layout: product.layout,
            cols: product.cols,
            weights: unit * units,
            unit,
            tokens,
            norm: product.norm.is_some(),
        }
    }

    /// Turns that a row takes.
    pub(super) fn count(&self) -> u32 {
        self.cols / self.weights
    }

    fn planes(&self) -> impl Iterator<Item = (Plane, Name)> {
        let (low, high) = self.layout.planes();
        std::iter::once((low, Name::Low)).chain(high.map(|plane| (plane, Name::High)))
    }

    fn quads(&self) -> u32 {
        self.weights / 4
    }

    /// Weights of a group, or of a unit where there are no scales.
    fn group(&self) -> u32 {
        match self.layout.group() as u32 {
            0 => self.unit,
            group => group,
        }
    }

    fn groups(&self) -> u32 {
        self.weights / self.group()
    }

    /// Words that a turn takes from a plane of a row.
    fn words(&self, plane: Plane) -> u32 {
        self.weights * plane.bits() as u32 / 32
    }

    /// Reads the vectors' elements of the turn, and makes of them what all rows need.
    pub(super) fn vectors(&self, text: &mut String) {
        for token in 0..self.tokens {
            for quad in 0..self.quads() {
                let at = format!("turn * {}u + {quad}u", self.quads());
                let _ = writeln!(text, "    var v{token}_{quad} = x[x{token} + {at}];");
                if self.norm {
                    let v = format!("v{token}_{quad}");
                    let _ = writeln!(text, "    square += dot({v}, {v});\n    {v} *= gain[{at}];");
                }
            }
            for (plane, name) in self.planes() {
                self.scaled(text, token, plane, name);
            }
            for group in 0..self.groups() {
                self.totals(text, token, group);
            }
        }
    }

    /// The vector's elements, multiplied as the weights of a plane should be.
    fn scaled(&self, text: &mut String, token: u32, plane: Plane, name: Name) {
        let letter = name.letter();
        for quad in 0..self.quads() {
            if !is_packed(plane) {
                let _ = writeln!(text, "    let {letter}{token}_{quad} = v{token}_{quad};");
                continue;
            }
            let factors = (0..4).map(|i| {
                let field = self.field(plane, quad * 4 + i);
                format!("{:e}", field.factor(plane) * self.place(name))
            });
            let factors: Vec<_> = factors.collect();
            let _ = writeln!(
                text,
                "    let {letter}{token}_{quad} = v{token}_{quad} * vec4<f32>({});",
                factors.join(", ")
            );
        }
    }

    /// Sums over a group that rows have in common: what belongs to all weights alike, and what the
    /// offsets of centred and flipped weights amount to.
    fn totals(&self, text: &mut String, token: u32, group: u32) {
        let quads = self.group() / 4;
        let quads = group * quads..(group + 1) * quads;
        if has_minimum(self.layout) {
            let sum: Vec<_> = quads
                .clone()
                .map(|quad| format!("v{token}_{quad}"))
                .collect();
            let _ = writeln!(
                text,
                "    let total{token}_{group} = dot({}, vec4<f32>(1.0));",
                sum.join(" + ")
            );
        }
        let mut terms = Vec::new();
        for quad in quads {
            let offsets: Vec<_> = (0..4).map(|i| self.offset(quad * 4 + i)).collect();
            if offsets.iter().any(|offset| *offset != 0.0) {
                let list: Vec<_> = offsets.iter().map(|offset| format!("{offset:?}")).collect();
                terms.push(format!(
                    "dot(v{token}_{quad}, vec4<f32>({}))",
                    list.join(", ")
                ));
            }
        }
        if terms.is_empty() {
            terms.push("0.0".to_owned());
        }
        let _ = writeln!(
            text,
            "    let fixed{token}_{group} = {};",
            terms.join(" + ")
        );
    }

    /// What is added to a weight's masked bits.
    fn offset(&self, weight: u32) -> f64 {
        let planes = self.planes().filter(|(plane, _)| is_packed(*plane));
        let flipped =
            planes.map(|(plane, name)| self.field(plane, weight).offset(plane) * self.place(name));
        centre(self.layout) + flipped.sum::<f64>()
    }

    /// The value of a plane's lowest bit.
    fn place(&self, name: Name) -> f64 {
        match name {
            Name::Low => 1.0,
            Name::High => f64::from(1u32 << self.layout.planes().0.bits()),
        }
    }

    fn field(&self, plane: Plane, weight: u32) -> Field {
        let weight = weight % UNIT;
        let words = 0..plane.bits() as u32;
        let mut all = words.flat_map(|word| fields(plane, word));
        all.find(|field| field.weight == weight)
            .expect("a unit has a field for each of its weights")
    }

    /// Declares where the turn finds its words and scales in a row.
    pub(super) fn places(&self, text: &mut String) {
        for (plane, name) in self.planes() {
            let (letter, words) = (name.letter(), self.words(plane));
            let start = match name {
                Name::Low => 0,
                Name::High => self.layout.high_start(self.cols as usize) as u32 / 4,
            };
            if words % 4 == 0 {
                let _ = writeln!(
                    text,
                    "    let {letter}at = turn * {}u + {start}u;",
                    words / 4
                );
                continue;
            }
            for word in 0..words {
                let _ = writeln!(
                    text,
                    "    let {letter}quad{word} = (turn * {words}u + {word}u) / 4u + {start}u;
    let {letter}part{word} = (turn * {words}u + {word}u) % 4u;"
                );
            }
        }
        if let Some(place) = self.scale_place() {
            let _ = writeln!(text, "    let scale_at = {place};");
            if let Some((_, per_block)) = self.nested() {
                let turns = per_block / self.groups();
                let _ = writeln!(text, "    let outer_at = turn / {turns}u * 5u;");
            }
        }
    }

    /// Groups whose scales share a word, and groups per block with a scale of scales.
    fn nested(&self) -> Option<(u32, u32)> {
        match self.layout {
            Layout::Nested2 | Layout::Nested3 | Layout::Nested6 => Some((4, 16)),
            Layout::Nested4 | Layout::Nested5 => Some((4, 8)),
            _ => None,
        }
    }

    /// Where a row has the first word of a turn's scales, if their places within the words are the same
    /// in all turns; otherwise scales are got one by one.
    fn scale_place(&self) -> Option<String> {
        let groups = self.groups();
        match self.layout {
            Layout::Offset4 | Layout::Offset5 => Some(format!("turn * {groups}u")),
            Layout::Centred4 | Layout::Centred5 | Layout::Q8 => groups
                .is_multiple_of(2)
                .then(|| format!("turn * {}u", groups / 2)),
            Layout::F16 | Layout::BF16 | Layout::F32 => None,
            _ => {
                let (shared, block) = self.nested()?;
                let turns = block / groups;
                groups.is_multiple_of(shared).then(|| {
                    format!(
                        "turn / {turns}u * 5u + 1u + turn % {turns}u * {}u",
                        groups / shared
                    )
                })
            }
        }
    }

    /// Adds the products of a row with the vectors to the variables `sum0`, `sum1` and so on.
    pub(super) fn dot(&self, text: &mut String, matrix: u32, row: &str) {
        let row_quads = self.layout.row_words(self.cols as usize) / 4;
        let _ = writeln!(text, "      let quads = {row} * {row_quads}u;");
        self.read_scales(text, matrix, row);
        let per_unit = self.unit / self.group();
        for unit in 0..self.weights / self.unit {
            self.read_words(text, matrix, unit);
            for group in unit * per_unit..(unit + 1) * per_unit {
                self.dot_group(text, group);
            }
        }
    }

    /// Reads the words that `unit` is the first to need: as late as possible, so that few are kept.
    fn read_words(&self, text: &mut String, matrix: u32, unit: u32) {
        for (plane, name) in self.planes() {
            let letter = name.letter();
            let per_unit = self.unit * plane.bits() as u32 / 32;
            let flipped = match plane {
                Plane::Bytes => format!(" ^ vec4<u32>({}u)", flip(plane)),
                _ => String::new(),
            };
            for word in unit * per_unit..(unit + 1) * per_unit {
                if !self.words(plane).is_multiple_of(4) {
                    // Fewer than four words a turn, or an odd number: each by itself.
                    let _ = writeln!(
                        text,
                        "      let {letter}s{word} = words{matrix}[quads + {letter}quad{word}][{letter}part{word}];"
                    );
                } else if word % 4 == 0 {
                    let quad = word / 4;
                    let _ = writeln!(
                        text,
                        "      let {letter}w{quad} = words{matrix}[quads + {letter}at + {quad}u]{flipped};"
                    );
                }
            }
        }
    }

    fn word(&self, plane: Plane, name: Name, word: u32) -> String {
        let letter = name.letter();
        if self.words(plane).is_multiple_of(4) {
            format!("{letter}w{}.{}", word / 4, LETTERS[word as usize % 4])
        } else {
            format!("{letter}s{word}")
        }
    }

    /// Declares scale `a` and minimum `b` of each group.
    fn read_scales(&self, text: &mut String, matrix: u32, row: &str) {
        if !has_scales(self.layout) {
            return;
        }
        let groups = self.groups();
        if self.scale_place().is_none() {
            for group in 0..groups {
                let _ = writeln!(
                    text,
                    "      let ab{group} = scale{matrix}({row}, turn * {groups}u + {group}u);
      let a{group} = ab{group}.x;
      let b{group} = ab{group}.y;"
                );
            }
            return;
        }
        let row_scales = self.layout.row_scales(self.cols as usize);
        let _ = writeln!(text, "      let scales = {row} * {row_scales}u;");
        let at = |index: u32| format!("scales{matrix}[scales + scale_at + {index}u]");
        match self.layout {
            Layout::Offset4 | Layout::Offset5 => {
                for group in 0..groups {
                    let _ = writeln!(
                        text,
                        "      let ab{group} = unpack2x16float({});
      let a{group} = ab{group}.x;
      let b{group} = ab{group}.y;",
                        at(group)
                    );
                }
            }
            Layout::Centred4 | Layout::Centred5 | Layout::Q8 => {
                for pair in 0..groups / 2 {
                    let _ = writeln!(
                        text,
                        "      let pair{pair} = unpack2x16float({});
      let a{} = pair{pair}.x;
      let a{} = pair{pair}.y;",
                        at(pair),
                        pair * 2,
                        pair * 2 + 1
                    );
                }
            }
            _ => self.read_nested(text, matrix, at),
        }
    }

    fn read_nested(&self, text: &mut String, matrix: u32, at: impl Fn(u32) -> String) {
        let _ = writeln!(
            text,
            "      let outer = unpack2x16float(scales{matrix}[scales + outer_at]);"
        );
        for word in 0..self.groups() / 4 {
            let _ = writeln!(text, "      let s{word} = {};", at(word));
            // In the layouts with eight groups per block minimums follow two words later.
            if matches!(self.layout, Layout::Nested4 | Layout::Nested5) {
                let _ = writeln!(text, "      let t{word} = {};", at(word + 2));
            }
        }
        for group in 0..self.groups() {
            let (word, shift) = (group / 4, group % 4 * 8);
            let factor = |shift: u32| 0.5f64.powi(shift as i32);
            let masked = |name: &str, mask: u32, shift: u32| {
                format!(
                    "f32(bitcast<i32>({name}{word} & {}u)) * {:e}",
                    mask << shift,
                    factor(shift)
                )
            };
            let (a, b) = match self.layout {
                // The upper half of the uppermost byte is taken for signed.
                Layout::Nested2 if shift == 24 => (
                    masked("s", 15, shift),
                    Some(format!(
                        "f32(bitcast<i32>((s{word} ^ 2147483648u) & 4026531840u)) * {:e} + 8.0",
                        factor(28)
                    )),
                ),
                Layout::Nested2 => (masked("s", 15, shift), Some(masked("s", 15, shift + 4))),
                // Six bits: never negative.
                Layout::Nested4 | Layout::Nested5 => {
                    (masked("s", 63, shift), Some(masked("t", 63, shift)))
                }
                _ if shift == 24 => (masked("s", 255, shift), None),
                _ => (
                    format!(
                        "f32(bitcast<i32>((s{word} ^ {}u) & {}u)) * {:e} - 128.0",
                        128u32 << shift,
                        255u32 << shift,
                        factor(shift)
                    ),
                    None,
                ),
            };
            let _ = writeln!(text, "      let a{group} = outer.x * ({a});");
            if let Some(b) = b {
                let _ = writeln!(text, "      let b{group} = -outer.y * ({b});");
            }
        }
    }

    fn dot_group(&self, text: &mut String, group: u32) {
        text.push_str("      {\n");
        for token in 0..self.tokens {
            let _ = writeln!(text, "        var p{token} = fixed{token}_{group};");
        }
        for (plane, name) in self.planes() {
            let letter = name.letter();
            for (weight, value) in self.values(plane, name, group) {
                let (quad, part) = (weight / 4, LETTERS[weight as usize % 4]);
                if self.tokens == 1 {
                    let _ = writeln!(text, "        p0 += {value} * {letter}0_{quad}.{part};");
                    continue;
                }
                let _ = writeln!(text, "        {{\n          let f = {value};");
                for token in 0..self.tokens {
                    let _ = writeln!(
                        text,
                        "          p{token} += f * {letter}{token}_{quad}.{part};"
                    );
                }
                text.push_str("        }\n");
            }
        }
        for token in 0..self.tokens {
            let value = if !has_scales(self.layout) {
                format!("p{token}")
            } else if has_minimum(self.layout) {
                format!("a{group} * p{token} + b{group} * total{token}_{group}")
            } else {
                format!("a{group} * p{token}")
            };
            let _ = writeln!(text, "        sum{token} += {value};");
        }
        text.push_str("      }\n");
    }

    /// The weights of a group in one plane, each with its place in the turn, word by word.
    fn values(&self, plane: Plane, name: Name, group: u32) -> Vec<(u32, String)> {
        let weights = group * self.group()..(group + 1) * self.group();
        let per_unit = self.unit * plane.bits() as u32 / 32;
        let mut all = Vec::new();
        for word in 0..self.words(plane) {
            let unit = word / per_unit * self.unit;
            let text = self.word(plane, name, word);
            if is_packed(plane) {
                for field in fields(plane, word % per_unit) {
                    all.push((unit + field.weight, field.value(plane, &text)));
                }
                continue;
            }
            match plane {
                Plane::Halves => {
                    for half in 0..2 {
                        let part = LETTERS[half as usize];
                        all.push((word * 2 + half, format!("unpack2x16float({text}).{part}")));
                    }
                }
                Plane::BHalves => {
                    // A product, as shifts are dear where this text runs alone.
                    all.push((word * 2, format!("bitcast<f32>({text} * 65536u)")));
                    all.push((word * 2 + 1, format!("bitcast<f32>({text} & 0xffff0000u)")));
                }
                _ => all.push((word, format!("bitcast<f32>({text})"))),
            }
        }
        all.retain(|(weight, _)| weights.contains(weight));
        all
    }
}

/// Which of the planes.
#[derive(Clone, Copy, Debug)]
enum Name {
    Low,
    High,
}

impl Name {
    fn letter(self) -> &'static str {
        match self {
            Self::Low => "l",
            Self::High => "h",
        }
    }
}
