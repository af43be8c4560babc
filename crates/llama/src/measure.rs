//! How fast products are, beside what the adapter could do at best and a plain kernel does.
//!
//! Compiled with the feature `check` only. Times are those of chains of launches that write to the same
//! buffer, one after the other, with a read at the end; all kinds of kernels take turns, and the median
//! counts. Compare figures of one run only.

use cubecl::server::Handle;
use model::BackendError;
use weights::layout::{Layout, Plane};

use crate::check::{LAYOUTS, Random, filled, filled_words, streams};
use crate::gpu::{Gpu, Spread};
use crate::kernels::unpack::{scale_function, weights_function};
use crate::kernels::{Kernel, bindings, step};
use crate::linear::{Band, Input, Linear, Output};

/// Figures of one matrix.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Its layout.
    pub layout: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// 10⁹ bytes of weights a second that are only read.
    pub read: f64,
    /// 10⁹ bytes of weights a second in a product with one vector, by a row per invocation and block
    /// by block, as one would write it down.
    pub plain: f64,
    /// The same by our kernel.
    pub ours: f64,
    /// 10⁹ operations a second of a product of single-precision matrices, by four rows times four
    /// vectors per invocation.
    pub tile: f64,
    /// The same of our product with many vectors.
    pub prefill: f64,
}

/// Vectors that prefill is measured with.
const TOKENS: usize = 64;
/// Milliseconds that one chain of launches should take.
const CHAIN: f64 = 40.0;

/// A layout and a shape to measure by default: those of SmolLM2-135M and of Llama-3.2-1B.
pub const SHAPES: [(&str, usize, usize); 12] = [
    ("Offset4", 576, 576),
    ("Offset4", 1536, 576),
    ("Offset4", 576, 1536),
    ("Offset4", 49_152, 576),
    ("Q8", 1536, 576),
    ("Centred5", 1536, 576),
    ("Nested4", 2048, 2048),
    ("Nested4", 8192, 2048),
    ("Nested4", 2048, 8192),
    ("Nested6", 2048, 8192),
    ("Centred4", 8192, 2048),
    ("BF16", 2048, 2048),
];

/// Measures products of a matrix in the layout of this name. `now` is a clock in milliseconds.
///
/// # Errors
/// [`BackendError`] when the GPU failed or there is no such layout.
pub async fn product(
    gpu: &Gpu,
    (layout, rows, cols): (&str, usize, usize),
    rounds: usize,
    now: &dyn Fn() -> f64,
) -> Result<Figures, BackendError> {
    let found = LAYOUTS.into_iter().find(|it| format!("{it:?}") == layout);
    let layout = found.ok_or_else(|| BackendError::Unavailable(format!("no layout {layout}")))?;
    let bench = Bench::new(gpu, layout, rows, cols)?;
    let kinds = [
        Kind::Read,
        Kind::Plain,
        Kind::Ours,
        Kind::Tile,
        Kind::Prefill,
    ];
    let mut counts = Vec::new();
    for kind in kinds {
        bench.time(kind, 1, now).await?;
        let once = bench.time(kind, 1, now).await?;
        counts.push((CHAIN / once.max(0.05)).ceil().clamp(2.0, 200.0) as usize);
    }
    let mut times = vec![Vec::new(); kinds.len()];
    for _ in 0..rounds {
        for ((kind, count), times) in kinds.into_iter().zip(&counts).zip(&mut times) {
            let long = bench.time(kind, count + 1, now).await?;
            let short = bench.time(kind, 1, now).await?;
            times.push((long - short) / *count as f64);
        }
    }
    let mut median = times.iter_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] * 1e6
    });
    let bytes = bench.matrix.bytes() as f64;
    let operations = (2 * rows * cols * TOKENS) as f64;
    let mut rate = |amount: f64| amount / median.next().unwrap_or(f64::NAN);
    Ok(Figures {
        layout: format!("{layout:?}"),
        rows,
        cols,
        read: rate(bytes),
        plain: rate(bytes),
        ours: rate(bytes),
        tile: rate(operations),
        prefill: rate(operations),
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Plain,
    Ours,
    Tile,
    Prefill,
}

/// Operands of all kinds.
struct Bench<'a> {
    gpu: &'a Gpu,
    matrix: Linear,
    layout: Layout,
    rows: usize,
    cols: usize,
    /// The matrix again, in buffers of our own.
    words: Handle,
    scales: Handle,
    floats: Handle,
    one: Handle,
    many: Handle,
    x: Handle,
    y: Handle,
}

impl<'a> Bench<'a> {
    fn new(gpu: &'a Gpu, layout: Layout, rows: usize, cols: usize) -> Result<Self, BackendError> {
        let mut random = Random::new(5);
        let (words, scales) = streams(&mut random, layout, rows, cols);
        let matrix = Linear::allocate(gpu, &[Band { layout, rows }], cols)?;
        matrix.write(gpu, 0, rows, &words, &scales);
        let step = |tokens: u32| {
            let mut words = vec![0; step::ROTATIONS];
            words[0] = tokens;
            filled_words(gpu, &words)
        };
        Ok(Self {
            gpu,
            matrix,
            layout,
            rows,
            cols,
            words: filled_words(gpu, &words),
            scales: filled_words(gpu, if scales.is_empty() { &[0] } else { &scales }),
            // A share of the rows is enough for a rate.
            floats: filled(gpu, &random.floats(rows.min(1024) * cols, 1.0)),
            one: step(1),
            many: step(TOKENS as u32),
            x: filled(gpu, &random.floats(TOKENS * cols, 1.0)),
            y: filled(gpu, &vec![0.0; (TOKENS * rows).max(1 << 18)]),
        })
    }

    /// Milliseconds of `count` launches.
    async fn time(
        &self,
        kind: Kind,
        count: usize,
        now: &dyn Fn() -> f64,
    ) -> Result<f64, BackendError> {
        let start = now();
        for _ in 0..count {
            self.launch(kind);
        }
        let y = self.y.clone();
        let unused = y.size_in_used() - 16;
        self.gpu.read(&y.offset_end(unused)).await?;
        let time = now() - start;
        // What tiles and readers leave out is made up for.
        Ok(match kind {
            Kind::Tile => time * self.rows as f64 / self.rows.min(1024) as f64,
            Kind::Read => {
                let read: f64 = self.reads().iter().map(|(kernel, _)| kernel.bytes()).sum();
                time * self.matrix.bytes() as f64 / read
            }
            _ => time,
        })
    }

    fn reads(&self) -> Vec<(Read, &Handle)> {
        let buffers = [&self.words, &self.scales].into_iter();
        let quads = |buffer: &Handle| (buffer.size_in_used() / 16) as u32;
        buffers
            .filter(|buffer| quads(buffer) >= READ_GROUP * READ_AT_ONCE)
            .map(|buffer| (Read::new(quads(buffer), self.gpu.spread()), buffer))
            .collect()
    }

    fn launch(&self, kind: Kind) {
        let Self { gpu, x, y, .. } = self;
        let (rows, cols) = (self.rows as u32, self.cols as u32);
        let input = |step| Input {
            step,
            x,
            norm: None,
        };
        match kind {
            Kind::Ours => {
                let output = Output::Store(y);
                self.matrix.forward(gpu, &input(&self.one), &output, 1);
            }
            Kind::Prefill => {
                let output = Output::Store(y);
                self.matrix
                    .forward(gpu, &input(&self.many), &output, TOKENS);
            }
            Kind::Read => {
                for (kernel, buffer) in self.reads() {
                    let groups = [kernel.readers / READ_GROUP, 1, 1];
                    gpu.launch(kernel, groups, &[buffer, y]);
                }
            }
            Kind::Plain => {
                let kernel = Plain {
                    layout: self.layout,
                    rows,
                    cols,
                };
                let mut buffers = vec![&self.words];
                if self.layout.group() != 0 {
                    buffers.push(&self.scales);
                }
                buffers.extend([x, y]);
                gpu.launch(kernel, [rows.div_ceil(64), 1, 1], &buffers);
            }
            Kind::Tile => {
                let rows = rows.min(1024);
                let kernel = Tile { rows, cols };
                let groups = [rows.div_ceil(16), TOKENS as u32 / 16, 1];
                gpu.launch(kernel, groups, &[&self.floats, x, y]);
            }
        }
    }
}

/// Invocations of a workgroup that reads.
const READ_GROUP: u32 = 16;
/// Quads that an invocation reads at once.
const READ_AT_ONCE: u32 = 8;

/// Reads a buffer: each invocation a piece of its own where it works alone, neighbours neighbouring
/// quads on a GPU. Buffers: words, y.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Read {
    readers: u32,
    turns: u32,
    spread: Spread,
}

impl Read {
    /// Whole turns of all readers; what is left over is not read.
    fn new(quads: u32, spread: Spread) -> Self {
        let readers = match spread {
            Spread::Rows => (quads / 64).clamp(READ_GROUP, 4096),
            Spread::Lanes => (quads / READ_AT_ONCE).clamp(READ_GROUP, 1 << 18),
        };
        let readers = readers / READ_GROUP * READ_GROUP;
        Self {
            readers,
            turns: (quads / readers / READ_AT_ONCE).max(1),
            spread,
        }
    }

    fn bytes(&self) -> f64 {
        f64::from(self.readers) * f64::from(self.turns * READ_AT_ONCE * 16)
    }
}

impl Kernel for Read {
    fn group_size(&self) -> u32 {
        READ_GROUP
    }

    fn wgsl(&self) -> String {
        let Self {
            readers,
            turns,
            spread,
        } = *self;
        let (start, next) = match spread {
            Spread::Rows => (format!("id.x * {}u", turns * READ_AT_ONCE), 1),
            Spread::Lanes => ("id.x".to_owned(), readers),
        };
        let mut reads = String::new();
        for i in 0..READ_AT_ONCE {
            reads.push_str(&format!("    all |= words[at + {}u];\n", i * next));
        }
        format!(
            "{}
@compute @workgroup_size({READ_GROUP}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  var all = vec4<u32>();
  var at = {start};
  for (var turn = 0u; turn < {turns}u; turn++) {{
{reads}    at += {}u;
  }}
  y[id.x] = all.x | all.y | all.z | all.w;
}}
",
            bindings(&[("words", "vec4<u32>"), ("y", "u32")]),
            READ_AT_ONCE * next,
        )
    }
}

/// `y = W x`, a row per invocation. Buffers: words, scales (quantized layouts), x, y.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Plain {
    layout: Layout,
    rows: u32,
    cols: u32,
}

impl Plain {
    /// One block of 32 nibbles or bytes, unpacked four by four; other layouts take the function that
    /// embeddings use.
    fn block(&self) -> String {
        let row_quads = self.layout.row_words(self.cols as usize) / 4;
        let part = |quad: usize, word: usize, value: &str, at: usize| {
            let letter = ["x", "y", "z", "w"][word];
            let value = value.replace("word", &format!("w{quad}.{letter}"));
            format!("    sum += dot(vec4<f32>({value}) * s.x + s.y, x[block * 8u + {at}u]);\n")
        };
        let mut text = "    let s = scale0(row, block);\n".to_owned();
        match self.layout.planes() {
            (Plane::Nibbles, None) => {
                text.push_str(&format!(
                    "    let w0 = words0[row * {row_quads}u + block];\n"
                ));
                for word in 0..4 {
                    text.push_str(&part(0, word, "unpack4xU8(word & 0x0f0f0f0fu)", word));
                    let high = "unpack4xU8((word >> 4u) & 0x0f0f0f0fu)";
                    text.push_str(&part(0, word, high, word + 4));
                }
            }
            (Plane::Bytes, None) => {
                for quad in 0..2 {
                    text.push_str(&format!(
                        "    let w{quad} = words0[row * {row_quads}u + block * 2u + {quad}u];\n"
                    ));
                    for word in 0..4 {
                        text.push_str(&part(quad, word, "unpack4xI8(word)", quad * 4 + word));
                    }
                }
            }
            _ => {
                return "    for (var i = 0u; i < 8u; i++) {
      sum += dot(weights0(row, block * 8u + i), x[block * 8u + i]);
    }
"
                .to_owned();
            }
        }
        text
    }
}

impl Kernel for Plain {
    fn group_size(&self) -> u32 {
        64
    }

    fn wgsl(&self) -> String {
        let mut buffers = vec![("words0", "vec4<u32>")];
        if self.layout.group() != 0 {
            buffers.push(("scales0", "u32"));
        }
        buffers.extend([("x", "vec4<f32>"), ("y", "f32")]);
        format!(
            "{}{}{}
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let row = id.x;
  if (row >= {}u) {{ return; }}
  var sum = 0.0;
  for (var block = 0u; block < {}u; block++) {{
{}  }}
  y[row] = sum;
}}
",
            bindings(&buffers),
            scale_function(self.layout, self.cols, 0),
            weights_function(self.layout, self.cols, 0),
            self.rows,
            self.cols / 32,
            self.block(),
        )
    }
}

/// `y = W x` in single precision, four rows times four vectors per invocation.
/// Buffers: weights, x, y.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tile {
    rows: u32,
    cols: u32,
}

impl Kernel for Tile {
    fn group_size(&self) -> u32 {
        16
    }

    fn wgsl(&self) -> String {
        let quads = self.cols / 4;
        let mut text = format!(
            "{}
@compute @workgroup_size(16, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{
  let row = min(group.x * 16u + local.x % 4u * 4u, {}u);
  let token = group.y * 16u + local.x / 4u * 4u;
",
            bindings(&[("w", "vec4<f32>"), ("x", "vec4<f32>"), ("y", "f32")]),
            self.rows - 4
        );
        let cells = || (0..4).flat_map(|r| (0..4).map(move |t| (r, t)));
        for (r, t) in cells() {
            text.push_str(&format!("  var s{r}{t} = 0.0;\n"));
        }
        text.push_str(&format!("  for (var k = 0u; k < {quads}u; k++) {{\n"));
        for i in 0..4 {
            text.push_str(&format!(
                "    let w{i} = w[(row + {i}u) * {quads}u + k];\n    let x{i} = x[(token + {i}u) * {quads}u + k];\n"
            ));
        }
        for (r, t) in cells() {
            text.push_str(&format!("    s{r}{t} += dot(w{r}, x{t});\n"));
        }
        text.push_str("  }\n");
        for (r, t) in cells() {
            text.push_str(&format!(
                "  y[(token + {t}u) * {}u + row + {r}u] = s{r}{t};\n",
                self.rows
            ));
        }
        text.push_str("}\n");
        text
    }
}
