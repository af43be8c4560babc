//! What the matrix products reach, beside what the adapter can do: reading the same bytes and doing
//! nothing with them, a product without any trick, and a plain product in single precision.

use cubecl::server::Handle;
use model::BackendError;
use weights::layout::Layout;

use super::Random;
use super::operations::{filled, filled_words};
use super::products::streams;
use crate::gpu::Gpu;
use crate::kernels::{Kernel, bindings, step};
use crate::linear::{Band, Input, Linear, Output};

/// Rows and columns of the measured matrices: a feed-forward layer of Llama 3.2 1B.
const ROWS: usize = 8192;
const COLS: usize = 2048;
/// Tokens of the measured prefill.
const TOKENS: usize = 16;
/// Launches that are timed together. Each writes what the one before it wrote.
const CHAIN: usize = 8;
/// Repetitions, of which the median counts.
const ROUNDS: usize = 5;

/// One figure.
#[derive(Clone, Debug)]
pub struct Measure {
    /// What was measured.
    pub name: String,
    /// How fast it was, in `unit`.
    pub rate: f64,
    /// `GB/s` of weights, or `GFLOP/s`.
    pub unit: &'static str,
}

/// Measures on the spread of `gpu`. `now` gives seconds.
///
/// # Errors
/// [`BackendError`] when the GPU failed.
pub async fn all(gpu: &Gpu, now: &dyn Fn() -> f64) -> Result<Vec<Measure>, BackendError> {
    let mut random = Random::new(9);
    let mut measures = Vec::new();
    let step = |tokens: u32| {
        let mut words = vec![0; step::ROTATIONS];
        words[0] = tokens;
        filled_words(gpu, &words)
    };
    let (one, many) = (step(1), step(TOKENS as u32));
    let x = filled(gpu, &random.floats(COLS * TOKENS, 1.0));
    let y = filled(gpu, &vec![0.0; ROWS * TOKENS]);
    for layout in [
        Layout::Offset4,
        Layout::Centred4,
        Layout::Nested4,
        Layout::Nested6,
        Layout::Q8,
        Layout::F16,
    ] {
        let (words, scales) = streams(&mut random, layout, ROWS, COLS);
        let linear = Linear::allocate(gpu, &[Band { layout, rows: ROWS }], COLS)?;
        linear.write(gpu, 0, ROWS, &words, &scales);
        let gigabytes = linear.bytes() as f64 / 1e9;
        let raw = filled_words(gpu, &words);
        let spans = [64, 256, 1024, 4096];
        let read_bytes = words.len() as f64 * 4e-9;
        let mut read = 0.0f64;
        for span in spans {
            for group in [16, 64] {
                let kernel = Read {
                    quads: words.len() as u32 / 4,
                    span,
                    group,
                };
                let sink = filled_words(gpu, &vec![0; kernel.invocations() as usize]);
                let seconds = time(gpu, now, &sink, || {
                    gpu.launch(kernel.clone(), kernel.groups(), &[&raw, &sink]);
                });
                read = read.max(read_bytes / seconds.await?);
            }
        }
        push(
            &mut measures,
            format!("{layout:?}: reading the words"),
            read,
            "GB/s",
        );
        if layout == Layout::Offset4 {
            let scale_buffer = filled_words(gpu, &scales);
            let kernel = Naive {
                rows: ROWS as u32,
                cols: COLS as u32,
            };
            let seconds = time(gpu, now, &y, || {
                let groups = [kernel.rows.div_ceil(64), 1, 1];
                gpu.launch(kernel.clone(), groups, &[&raw, &scale_buffer, &x, &y]);
            });
            let rate = gigabytes / seconds.await?;
            push(
                &mut measures,
                format!("{layout:?}: a row per invocation, no tricks"),
                rate,
                "GB/s",
            );
        }
        for (tokens, step) in [(1, &one), (TOKENS, &many)] {
            let input = Input {
                step,
                x: &x,
                norm: None,
            };
            let seconds = time(gpu, now, &y, || {
                linear.forward(gpu, &input, &Output::Store(&y), tokens);
            })
            .await?;
            if tokens == 1 {
                let rate = gigabytes / seconds;
                push(
                    &mut measures,
                    format!("{layout:?}: product, 1 token"),
                    rate,
                    "GB/s",
                );
            } else {
                let rate = (2 * ROWS * COLS * tokens) as f64 / 1e9 / seconds;
                let name = format!("{layout:?}: product, {tokens} tokens");
                push(&mut measures, name, rate, "GFLOP/s");
            }
        }
    }
    let weights = filled(gpu, &random.floats(2048 * COLS, 1.0));
    let kernel = Plain { cols: COLS as u32 };
    let seconds = time(gpu, now, &y, || {
        let groups = [2048 / 4 / 16, TOKENS as u32 / 4, 1];
        gpu.launch(kernel.clone(), groups, &[&weights, &x, &y]);
    });
    let rate = (2 * 2048 * COLS * TOKENS) as f64 / 1e9 / seconds.await?;
    let name = "single precision, 4 × 4 tiles in registers".to_owned();
    push(&mut measures, name, rate, "GFLOP/s");
    Ok(measures)
}

fn push(measures: &mut Vec<Measure>, name: String, rate: f64, unit: &'static str) {
    measures.push(Measure { name, rate, unit });
}

/// Seconds of one launch: the median of several chains, each ended by a read of what it wrote.
async fn time(
    gpu: &Gpu,
    now: &dyn Fn() -> f64,
    result: &Handle,
    launch: impl Fn(),
) -> Result<f64, BackendError> {
    let mut seconds = Vec::new();
    for round in 0..=ROUNDS {
        gpu.finish().await?;
        let start = now();
        for _ in 0..CHAIN {
            launch();
        }
        gpu.read(result).await?;
        // The first compiles.
        if round > 0 {
            seconds.push((now() - start) / CHAIN as f64);
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Each invocation reads `span` neighbouring groups of four words. Buffers: words, out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Read {
    quads: u32,
    span: u32,
    group: u32,
}

impl Read {
    fn invocations(&self) -> u32 {
        self.quads.div_ceil(self.span)
    }

    fn groups(&self) -> [u32; 3] {
        [self.invocations().div_ceil(self.group), 1, 1]
    }
}

impl Kernel for Read {
    fn group_size(&self) -> u32 {
        self.group
    }

    fn wgsl(&self) -> String {
        format!(
            "{}
@compute @workgroup_size({}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  if (id.x >= {}u) {{ return; }}
  let end = min((id.x + 1u) * {span}u, {}u);
  var sum = vec4<u32>();
  for (var i = id.x * {span}u; i < end; i++) {{ sum ^= words[i]; }}
  out[id.x] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}}
",
            bindings(&[("words", "vec4<u32>"), ("out", "u32")]),
            self.group,
            self.invocations(),
            self.quads,
            span = self.span,
        )
    }
}

/// A product in [`Layout::Offset4`] as one would write it first. Buffers: words, scales, x, y.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Naive {
    rows: u32,
    cols: u32,
}

impl Kernel for Naive {
    fn group_size(&self) -> u32 {
        64
    }

    fn wgsl(&self) -> String {
        format!(
            "{}
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let row = id.x;
  if (row >= {}u) {{ return; }}
  var sum = 0.0;
  for (var block = 0u; block < {blocks}u; block++) {{
    let scale = unpack2x16float(scales[row * {blocks}u + block]);
    for (var w = 0u; w < 4u; w++) {{
      let word = words[(row * {blocks}u + block) * 4u + w];
      for (var j = 0u; j < 4u; j++) {{
        let low = f32((word >> (j * 8u)) & 15u);
        let high = f32((word >> (j * 8u + 4u)) & 15u);
        let column = block * 32u + w * 4u + j;
        sum += (low * scale.x + scale.y) * x[column];
        sum += (high * scale.x + scale.y) * x[column + 16u];
      }}
    }}
  }}
  y[row] = sum;
}}
",
            bindings(&[
                ("words", "u32"),
                ("scales", "u32"),
                ("x", "f32"),
                ("y", "f32")
            ]),
            self.rows,
            blocks = self.cols / 32,
        )
    }
}

/// Four rows times four tokens per invocation, weights in single precision. Buffers: weights, x, y.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Plain {
    cols: u32,
}

impl Kernel for Plain {
    fn group_size(&self) -> u32 {
        16
    }

    fn wgsl(&self) -> String {
        let quads = self.cols / 4;
        let each = |text: &dyn Fn(u32, u32) -> String| -> String {
            (0..4)
                .flat_map(|r| (0..4).map(move |t| (r, t)))
                .map(|(r, t)| text(r, t))
                .collect()
        };
        format!(
            "{}
@compute @workgroup_size(16, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let row = id.x * 4u;
  let token = id.y * 4u;
  {}
  for (var i = 0u; i < {quads}u; i++) {{
    {}{}
    {}
  }}
  {}
}}
",
            bindings(&[("weights", "vec4<f32>"), ("x", "vec4<f32>"), ("y", "f32")]),
            each(&|r, t| format!("var s{r}_{t} = 0.0; ")),
            (0..4)
                .map(|r| format!("let w{r} = weights[(row + {r}u) * {quads}u + i]; "))
                .collect::<String>(),
            (0..4)
                .map(|t| format!("let v{t} = x[(token + {t}u) * {quads}u + i]; "))
                .collect::<String>(),
            each(&|r, t| format!("s{r}_{t} += dot(w{r}, v{t}); ")),
            each(&|r, t| format!("y[(token + {t}u) * 2048u + row + {r}u] = s{r}_{t}; ")),
        )
    }
}
