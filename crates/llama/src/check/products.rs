//! Products and gathers of matrices in every layout, against double precision over the reference
//! meaning of the layout.

use half::f16;
use model::BackendError;
use weights::layout::Layout;

use super::operations::{filled, filled_words, floats};
use super::{Case, Extent, Random};
use crate::gpu::Gpu;
use crate::kernels::attention::Heads;
use crate::kernels::step;
use crate::linear::{Band, Input, Linear, Norm, Output};

/// All layouts.
pub(crate) const LAYOUTS: [Layout; 13] = [
    Layout::Centred4,
    Layout::Offset4,
    Layout::Centred5,
    Layout::Offset5,
    Layout::Nested2,
    Layout::Nested3,
    Layout::Nested4,
    Layout::Nested5,
    Layout::Nested6,
    Layout::Q8,
    Layout::F16,
    Layout::BF16,
    Layout::F32,
];

/// What an error may be, as a share of what it would be if all digits of all terms were wrong.
const TOLERANCE: f64 = 1e-6;
const EPS: f32 = 1e-5;

/// All of them, on the spread of `gpu`.
pub(super) async fn all(
    gpu: &Gpu,
    extent: Extent,
    cases: &mut Vec<Case>,
) -> Result<(), BackendError> {
    let mut random = Random::new(4);
    let shapes = [
        (70, 2, 1, Uses::All),
        (33, 4, 70, Uses::Plain),
        (1, 1, 1, Uses::Plain),
        (130, 9, 1, Uses::Plain),
        (5, 3, 2, Uses::Plain),
        (66, 5, 3, Uses::All),
        (34, 6, 7, Uses::Plain),
    ];
    let shapes = match extent {
        Extent::Full => &shapes[..],
        Extent::Brief => &shapes[..2],
    };
    let rotations = match extent {
        Extent::Full => &[(1, 2, true), (3, 4, false)][..],
        Extent::Brief => &[(1, 2, true)],
    };
    for layout in LAYOUTS {
        let block = block(layout);
        for &(rows, blocks, tokens, mut uses) in shapes {
            if extent == Extent::Brief {
                uses = Uses::Plain;
            }
            let cols = (blocks * block).min(1536);
            let bands = [Band { layout, rows }];
            shape(gpu, &bands, cols, (tokens, uses), &mut random, cases).await?;
        }
        for &(tokens, past, half) in rotations {
            let bands = [Band { layout, rows: 80 }];
            rotation(
                gpu,
                &bands,
                block * 2,
                (tokens, past, half),
                &mut random,
                cases,
            )
            .await?;
        }
    }
    match extent {
        Extent::Full => mixed(gpu, &mut random, cases).await,
        // Parts are launches of the same kernels.
        Extent::Brief => Ok(()),
    }
}

/// Matrices of several parts: of different layouts, or more than a binding holds.
async fn mixed(gpu: &Gpu, random: &mut Random, cases: &mut Vec<Case>) -> Result<(), BackendError> {
    let layouts = [Layout::Nested4, Layout::Nested6, Layout::F16];
    let bands = layouts.map(|layout| Band { layout, rows: 26 });
    let small = gpu.clone().with_max_binding(8 * 512 * 2);
    for tokens in [1, 9] {
        shape(gpu, &bands, 512, (tokens, Uses::All), random, cases).await?;
        shape(&small, &bands, 512, (tokens, Uses::All), random, cases).await?;
    }
    let shares = [(Layout::Q8, 48), (Layout::Centred4, 16), (Layout::F32, 16)];
    let bands = shares.map(|(layout, rows)| Band { layout, rows });
    for (tokens, half) in [(1, true), (6, false)] {
        rotation(gpu, &bands, 96, (tokens, 3, half), random, cases).await?;
        rotation(&small, &bands, 96, (tokens, 3, half), random, cases).await?;
    }
    Ok(())
}

/// What a shape is tried for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    /// Products alone.
    Plain,
    /// All that is done with them, and gathers.
    All,
}

/// The shortest rows that kernels read.
fn block(layout: Layout) -> usize {
    match layout {
        Layout::F32 => 4,
        Layout::F16 | Layout::BF16 => 8,
        _ if layout.row_scales(32) == 0 => 256,
        _ => 32,
    }
}

/// A random matrix, and what it means.
struct Matrix {
    linear: Linear,
    weights: Vec<Vec<f32>>,
}

impl Matrix {
    fn new(
        gpu: &Gpu,
        bands: &[Band],
        cols: usize,
        random: &mut Random,
    ) -> Result<Self, BackendError> {
        let linear = Linear::allocate(gpu, bands, cols)?;
        let mut weights = Vec::new();
        for band in bands {
            let (words, scales) = streams(random, band.layout, band.rows, cols);
            linear.write(gpu, weights.len(), band.rows, &words, &scales);
            let (w, s) = (band.layout.row_words(cols), band.layout.row_scales(cols));
            for row in 0..band.rows {
                let (words, scales) = (&words[row * w..][..w], &scales[row * s..][..s]);
                weights.push(band.layout.unpack_row(words, scales, cols));
            }
        }
        Ok(Self { linear, weights })
    }

    /// Products with `x`, and what bounds their error.
    fn times(&self, x: &[f64]) -> Vec<(f64, f64)> {
        let size: f64 = x.iter().map(|x| x.abs()).sum();
        let product = |row: &Vec<f32>| {
            let terms = row.iter().zip(x).map(|(w, x)| f64::from(*w) * x);
            let largest = row.iter().fold(0.0f32, |most, w| most.max(w.abs()));
            (terms.sum(), f64::from(largest) * size)
        };
        self.weights.iter().map(product).collect()
    }
}

/// Random words and scales of a layout.
pub(crate) fn streams(
    random: &mut Random,
    layout: Layout,
    rows: usize,
    cols: usize,
) -> (Vec<u32>, Vec<u32>) {
    let pair = |random: &mut Random, range: f32| {
        let halves = random.floats(2, range);
        let bits = |x: f32| u32::from(f16::from_f32(x).to_bits());
        bits(halves[0]) | bits(halves[1]) << 16
    };
    let words = (0..rows * layout.row_words(cols)).map(|_| match layout {
        Layout::F32 => random.floats(1, 1.0)[0].to_bits(),
        Layout::F16 => pair(random, 1.0),
        Layout::BF16 => {
            let two = random.floats(2, 1.0);
            two[0].to_bits() >> 16 | two[1].to_bits() & 0xffff_0000
        }
        _ => (random.next() >> 32) as u32,
    });
    let words = words.collect();
    let nested = layout.row_scales(256) == 5;
    let scales = (0..rows * layout.row_scales(cols)).map(|i| match layout {
        // Scales of scales are small, and below the smallest normal half float at times.
        _ if nested && i % 5 == 0 => pair(random, 0.0005),
        Layout::Nested4 | Layout::Nested5 => (random.next() >> 32) as u32 & 0x3f3f_3f3f,
        _ if nested => (random.next() >> 32) as u32,
        _ => pair(random, 0.05),
    });
    let scales = scales.collect();
    (words, scales)
}

/// `step` for `tokens` tokens at `past`, with the angles given.
fn step_of(gpu: &Gpu, tokens: usize, past: usize, angles: &[f32]) -> cubecl::server::Handle {
    let mut words = vec![0; step::ROTATIONS];
    words[..2].copy_from_slice(&[tokens as u32, past as u32]);
    words.extend(angles.iter().map(|x| x.to_bits()));
    filled_words(gpu, &words)
}

/// Vectors, normalized where `gain` is given.
fn vectors(x: &[f32], cols: usize, gain: Option<&[f32]>) -> Vec<Vec<f64>> {
    x.chunks_exact(cols)
        .map(|x| {
            let squares: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
            let scale = 1.0 / (squares / cols as f64 + f64::from(EPS)).sqrt();
            let value = |(i, x): (usize, &f32)| match gain {
                Some(gain) => f64::from(*x) * f64::from(gain[i]) * scale,
                None => f64::from(*x),
            };
            x.iter().enumerate().map(value).collect()
        })
        .collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn name(bands: &[Band], cols: usize, what: &str) -> String {
    let bands: Vec<_> = bands
        .iter()
        .map(|band| format!("{:?} {}", band.layout, band.rows))
        .collect();
    format!("{} × {cols}, {what}", bands.join(" + "))
}

/// Largest of the errors, each as a share of its bound.
fn worst(found: &[f32], exact: impl Iterator<Item = (f64, f64)>) -> f64 {
    let shares = found.iter().zip(exact).map(|(found, (exact, bound))| {
        let error = (f64::from(*found) - exact).abs() / bound.max(1e-3);
        if error.is_nan() { f64::INFINITY } else { error }
    });
    shares.fold(0.0, f64::max)
}

/// What a matrix of one shape can do for `tokens` tokens, except rotations.
async fn shape(
    gpu: &Gpu,
    bands: &[Band],
    cols: usize,
    (tokens, uses): (usize, Uses),
    random: &mut Random,
    cases: &mut Vec<Case>,
) -> Result<(), BackendError> {
    let matrix = Matrix::new(gpu, bands, cols, random)?;
    let second = Matrix::new(gpu, bands, cols, random)?;
    let rows = matrix.linear.rows();
    let x = random.floats(tokens * cols, 2.0);
    let gain = random.floats(cols, 2.0);
    let before = random.floats(tokens * rows, 4.0);
    let step = step_of(gpu, tokens, 0, &[]);
    let (x_buffer, gain_buffer) = (filled(gpu, &x), filled(gpu, &gain));
    let input = |normalized: bool| Input {
        step: &step,
        x: &x_buffer,
        norm: normalized.then_some(Norm {
            gain: &gain_buffer,
            eps: EPS,
        }),
    };
    let mut add = |what: &str, found: &[f32], exact: Vec<(f64, f64)>| {
        let error = worst(found, exact.into_iter());
        let name = name(bands, cols, &format!("{what}, {tokens} tokens"));
        cases.push(Case::new(name, error, TOLERANCE));
    };
    let products = |matrix: &Matrix, gain: Option<&[f32]>| -> Vec<(f64, f64)> {
        let all = vectors(&x, cols, gain);
        all.iter().flat_map(|x| matrix.times(x)).collect()
    };
    let plain = products(&matrix, None);
    let with_before = |join: fn(f64, f64) -> (f64, f64)| -> Vec<(f64, f64)> {
        let pairs = plain.iter().zip(&before);
        pairs
            .map(|((product, bound), before)| {
                let (value, factor) = join(*product, f64::from(*before));
                (value, bound * factor.max(1.0) + value.abs())
            })
            .collect()
    };

    for normalized in [false, true] {
        // A norm is part of products for one token only.
        if normalized && tokens > 1 || uses == Uses::Plain && normalized != (tokens == 1) {
            continue;
        }
        let gain = normalized.then_some(gain.as_slice());
        let y = filled(gpu, &before);
        let output = Output::Store(&y);
        matrix
            .linear
            .forward(gpu, &input(normalized), &output, tokens);
        let what = if normalized { "normalized" } else { "plain" };
        add(what, &floats(gpu, &y).await?, products(&matrix, gain));
        if uses == Uses::Plain {
            return Ok(());
        }

        let y = filled(gpu, &before);
        Linear::gate_up(
            &matrix.linear,
            &second.linear,
            gpu,
            &input(normalized),
            &y,
            tokens,
        );
        let pairs = products(&matrix, gain)
            .into_iter()
            .zip(products(&second, gain));
        let exact = pairs.map(|((a, a_bound), (b, b_bound))| {
            (
                silu(a) * b,
                a_bound * b.abs() * 1.2 + silu(a).abs() * b_bound + b_bound,
            )
        });
        add(
            &format!("gate and up, {what}"),
            &floats(gpu, &y).await?,
            exact.collect(),
        );
    }

    let y = filled(gpu, &before);
    matrix
        .linear
        .forward(gpu, &input(false), &Output::Add(&y), tokens);
    add(
        "added",
        &floats(gpu, &y).await?,
        with_before(|product, before| (before + product, 1.0)),
    );
    let y = filled(gpu, &before);
    matrix
        .linear
        .forward(gpu, &input(false), &Output::Gated(&y), tokens);
    add(
        "gated",
        &floats(gpu, &y).await?,
        with_before(|product, before| (silu(before) * product, silu(before).abs())),
    );

    let ids: Vec<u32> = (0..tokens)
        .map(|_| (random.next() % rows as u64) as u32)
        .collect();
    let y = filled(gpu, &vec![7.0; tokens * cols]);
    matrix
        .linear
        .gather(gpu, &step, &filled_words(gpu, &ids), &y, tokens);
    let exact = ids.iter().flat_map(|id| {
        let row = &matrix.weights[*id as usize];
        let largest = row.iter().fold(0.0f32, |most, w| most.max(w.abs()));
        row.iter().map(move |w| (f64::from(*w), f64::from(largest)))
    });
    add("gathered", &floats(gpu, &y).await?, exact.collect());
    Ok(())
}

/// Queries, keys and values of `tokens` tokens after `past` others, of heads as long as 16 rows: three
/// for queries, one each for keys and values.
async fn rotation(
    gpu: &Gpu,
    bands: &[Band],
    cols: usize,
    (tokens, past, half): (usize, usize, bool),
    random: &mut Random,
    cases: &mut Vec<Case>,
) -> Result<(), BackendError> {
    const DIM: usize = 16;
    const QUERIES: usize = 3 * DIM;
    let shape = Heads {
        heads: 3,
        kv_heads: 1,
        head_dim: DIM as u32,
        half,
    };
    let matrix = Matrix::new(gpu, bands, cols, random)?;
    let x = random.floats(tokens * cols, 1.0);
    let angles: Vec<f32> = random
        .floats(tokens * DIM / 2, 3.0)
        .iter()
        .flat_map(|angle| [angle.cos(), angle.sin()])
        .collect();
    let step = step_of(gpu, tokens, past, &angles);
    let queries = filled(gpu, &vec![0.0; tokens * QUERIES]);
    let cache_len = (past + tokens) * DIM;
    let cache = || filled_words(gpu, &vec![0; if half { cache_len / 2 } else { cache_len }]);
    let (keys, values) = (cache(), cache());
    let x_buffer = filled(gpu, &x);
    let gain = random.floats(cols, 2.0);
    let gain_buffer = filled(gpu, &gain);
    let normalized = tokens == 1;
    let input = Input {
        step: &step,
        x: &x_buffer,
        norm: normalized.then_some(Norm {
            gain: &gain_buffer,
            eps: EPS,
        }),
    };
    let output = Output::Rotate {
        queries: &queries,
        keys: &keys,
        values: &values,
        shape,
    };
    matrix.linear.forward(gpu, &input, &output, tokens);

    let mut exact = vec![(0.0, 1.0); tokens * QUERIES + 2 * cache_len];
    let (key_start, value_start) = (tokens * QUERIES, tokens * QUERIES + cache_len);
    let all = vectors(&x, cols, normalized.then_some(gain.as_slice()));
    for (token, x) in all.iter().enumerate() {
        let products = matrix.times(x);
        for row in (0..QUERIES + 2 * DIM).step_by(2) {
            let ((a, a_bound), (b, b_bound)) = (products[row], products[row + 1]);
            let angle = token * DIM + row % DIM;
            let (c, s) = (f64::from(angles[angle]), f64::from(angles[angle + 1]));
            let rotated = [a * c - b * s, a * s + b * c];
            let position = (past + token) * DIM + row % DIM;
            let (at, pair) = match row {
                0..QUERIES => (token * QUERIES + row, rotated),
                _ if row < QUERIES + DIM => (key_start + position, rotated),
                _ => (value_start + position, [a, b]),
            };
            // Half floats have eleven digits.
            let rounding = if half && row >= QUERIES { 1e3 } else { 1.0 };
            for (i, value) in pair.into_iter().enumerate() {
                exact[at + i] = (value, (a_bound + b_bound) * rounding);
            }
        }
    }
    let mut found = floats(gpu, &queries).await?;
    for cache in [keys, values] {
        let words = gpu.read(&cache).await?;
        if half {
            let halves = words
                .iter()
                .flat_map(|word| [*word as u16, (word >> 16) as u16]);
            found.extend(halves.map(|bits| f16::from_bits(bits).to_f32()));
        } else {
            found.extend(words.into_iter().map(f32::from_bits));
        }
    }
    let precision = if half { ", half precision" } else { "" };
    let what = format!("rotated{precision}, {tokens} tokens at {past}");
    let error = worst(&found, exact.into_iter());
    cases.push(Case::new(name(bands, cols, &what), error, TOLERANCE));
    Ok(())
}
