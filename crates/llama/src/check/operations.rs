//! The kernels that are not products, each against plain arithmetic in double precision.

use cubecl::server::Handle;
use model::Sampling;

use super::{Case, Random};
use crate::gpu::{Gpu, float_handle, word_handle};
use crate::kernels::attention::{self, Attention, Heads, Merge};
use crate::kernels::copy::Copy;
use crate::kernels::norm::Norm;
use crate::kernels::sample::{self, Best, Score, Threshold, Winner};
use crate::kernels::step;
use model::BackendError;

/// All of them, on the spread of `gpu`.
pub(super) async fn all(gpu: &Gpu, cases: &mut Vec<Case>) -> Result<(), BackendError> {
    norms(gpu, cases).await?;
    copies(gpu, cases).await?;
    attentions(gpu, cases).await?;
    choices(gpu, cases).await
}

pub(crate) fn filled(gpu: &Gpu, values: &[f32]) -> Handle {
    let handle = float_handle(&gpu.floats(values.len()));
    gpu.write(&handle, 0, bytemuck::cast_slice(values));
    handle
}

pub(crate) fn filled_words(gpu: &Gpu, words: &[u32]) -> Handle {
    let handle = word_handle(&gpu.words(words.len()));
    gpu.write(&handle, 0, words);
    handle
}

pub(super) async fn floats(gpu: &Gpu, handle: &Handle) -> Result<Vec<f32>, BackendError> {
    Ok(gpu
        .read(handle)
        .await?
        .into_iter()
        .map(f32::from_bits)
        .collect())
}

fn step_of(gpu: &Gpu, tokens: usize, past: usize) -> Handle {
    let mut words = vec![0; step::ROTATIONS];
    words[..2].copy_from_slice(&[tokens as u32, past as u32]);
    filled_words(gpu, &words)
}

async fn norms(gpu: &Gpu, cases: &mut Vec<Case>) -> Result<(), BackendError> {
    let mut random = Random::new(1);
    for (dim, tokens) in [(4, 1), (260, 3), (576, 5), (2048, 17)] {
        for last in [false, true] {
            let x = random.floats(dim * tokens, 3.0);
            let gain = random.floats(dim, 2.0);
            let kernel = Norm {
                dim: dim as u32,
                eps: 1e-5f32.to_bits(),
                last,
                spread: gpu.spread(),
            };
            let out = filled(gpu, &vec![0.0; dim * tokens]);
            let groups = kernel.groups(tokens as u32);
            let buffers = [
                &filled(gpu, &x),
                &filled(gpu, &gain),
                &step_of(gpu, tokens, 0),
                &out,
            ];
            gpu.launch(kernel, groups, &buffers);
            let found = floats(gpu, &out).await?;
            let mut error = 0.0f64;
            let rows = if last { tokens - 1..tokens } else { 0..tokens };
            for (place, token) in rows.enumerate() {
                let row = &x[token * dim..][..dim];
                let squares: f64 = row.iter().map(|v| f64::from(*v).powi(2)).sum();
                let scale = 1.0 / (squares / dim as f64 + 1e-5).sqrt();
                for i in 0..dim {
                    let exact = f64::from(row[i]) * scale * f64::from(gain[i]);
                    error = error.max((f64::from(found[place * dim + i]) - exact).abs());
                }
            }
            let name = format!(
                "norm of {tokens} × {dim}{}",
                if last { ", the last" } else { "" }
            );
            cases.push(Case::new(name, error, 2e-5));
        }
    }
    Ok(())
}

async fn copies(gpu: &Gpu, cases: &mut Vec<Case>) -> Result<(), BackendError> {
    for quads in [1, 63, 64, 1000] {
        let words: Vec<u32> = (0..quads * 4).map(|i| i * 77 + 1).collect();
        let out = filled_words(gpu, &vec![9; words.len() + 8]);
        let kernel = Copy { quads };
        let groups = kernel.groups();
        gpu.launch(kernel, groups, &[&filled_words(gpu, &words), &out]);
        let found = gpu.read(&out).await?;
        let (copied, rest) = found.split_at(words.len());
        let wrong = copied.iter().zip(&words).filter(|(a, b)| a != b).count()
            + rest.iter().filter(|word| **word != 9).count();
        cases.push(Case::new(format!("copy of {quads}"), wrong as f64, 0.5));
    }
    Ok(())
}

async fn attentions(gpu: &Gpu, cases: &mut Vec<Case>) -> Result<(), BackendError> {
    let mut random = Random::new(2);
    let shapes = [
        (1, 1, 4),
        (3, 1, 8),
        (9, 3, 64),
        (4, 2, 128),
        (2, 1, 256),
        (4, 4, 20),
    ];
    for (heads, kv_heads, head_dim) in shapes {
        for (tokens, past) in [(1, 0), (1, 70), (5, 0), (3, 130), (1, 700)] {
            for half in [false, true] {
                let shape = Heads {
                    heads,
                    kv_heads,
                    head_dim,
                    half,
                };
                let error = attention(gpu, &mut random, shape, tokens, past).await?;
                let name = format!(
                    "attention of {tokens} at {past}, {heads} heads of {head_dim} over {kv_heads}{}",
                    if half { ", half precision" } else { "" }
                );
                cases.push(Case::new(name, error, 2e-5));
            }
        }
    }
    Ok(())
}

async fn attention(
    gpu: &Gpu,
    random: &mut Random,
    shape: Heads,
    tokens: usize,
    past: usize,
) -> Result<f64, BackendError> {
    let spread = gpu.spread();
    let (heads, dim) = (shape.heads as usize, shape.head_dim as usize);
    let row = shape.kv_heads as usize * dim;
    let positions = past + tokens;
    let queries = random.floats(tokens * heads * dim, 2.0);
    let mut cache = || {
        let mut values = random.floats(positions * row, 2.0);
        let words: Vec<u32> = if shape.half {
            let halves: Vec<half::f16> = values.iter().map(|v| half::f16::from_f32(*v)).collect();
            values = halves.iter().map(|v| v.to_f32()).collect();
            let pairs = halves.chunks_exact(2);
            pairs
                .map(|pair| u32::from(pair[0].to_bits()) | u32::from(pair[1].to_bits()) << 16)
                .collect()
        } else {
            values.iter().map(|v| v.to_bits()).collect()
        };
        (values, filled_words(gpu, &words))
    };
    let (keys, key_buffer) = cache();
    let (values, value_buffer) = cache();
    let out = filled(gpu, &vec![0.0; tokens * heads * dim]);
    let splits = if tokens == 1 {
        attention::splits(spread, heads, positions)
    } else {
        1
    };
    let kernel = Attention {
        shape,
        partial: splits > 1,
        spread,
    };
    let groups = kernel.groups(tokens as u32, splits);
    let query_buffer = filled(gpu, &queries);
    let step = step_of(gpu, tokens, past);
    if splits == 1 {
        let buffers = [&query_buffer, &key_buffer, &value_buffer, &step, &out];
        gpu.launch(kernel, groups, &buffers);
    } else {
        let len = heads * splits as usize * attention::partial_len(dim);
        let partial = filled(gpu, &vec![0.0; len]);
        let buffers = [&query_buffer, &key_buffer, &value_buffer, &step, &partial];
        gpu.launch(kernel, groups, &buffers);
        let merge = Merge {
            heads: shape.heads,
            head_dim: shape.head_dim,
            splits,
        };
        let groups = merge.groups();
        gpu.launch(merge, groups, &[&partial, &out]);
    }
    let found = floats(gpu, &out).await?;
    let mut error = 0.0f64;
    for token in 0..tokens {
        for head in 0..heads {
            let at = (token * heads + head) * dim;
            let column = head / (heads / shape.kv_heads as usize) * dim;
            let exact = mix(
                &queries[at..][..dim],
                (0..=past + token).map(|position| {
                    let start = position * row + column;
                    (&keys[start..][..dim], &values[start..][..dim])
                }),
            );
            for (a, b) in found[at..][..dim].iter().zip(exact) {
                error = error.max((f64::from(*a) - b).abs());
            }
        }
    }
    Ok(error)
}

/// The softmax mix of values by the scores of their keys.
fn mix<'a>(query: &[f32], cache: impl Iterator<Item = (&'a [f32], &'a [f32])>) -> Vec<f64> {
    let root = (query.len() as f64).sqrt();
    let scored: Vec<(f64, &[f32])> = cache
        .map(|(key, value)| {
            let products = query.iter().zip(key);
            let score: f64 = products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            (score / root, value)
        })
        .collect();
    let best = scored.iter().map(|it| it.0).fold(f64::MIN, f64::max);
    let mass: f64 = scored.iter().map(|it| (it.0 - best).exp()).sum();
    let mut sum = vec![0.0; query.len()];
    for (score, value) in scored {
        let weight = (score - best).exp() / mass;
        for (sum, value) in sum.iter_mut().zip(value) {
            *sum += weight * f64::from(*value);
        }
    }
    sum
}

/// Choices of the GPU that differ from the reference's, for several sizes of vocabulary.
async fn choices(gpu: &Gpu, cases: &mut Vec<Case>) -> Result<(), BackendError> {
    let mut random = Random::new(3);
    let base = Sampling {
        temperature: 1.3,
        seed: 0x0123_4567_89ab_cdef,
        ..Sampling::GREEDY
    };
    let settings = [
        Sampling::GREEDY,
        base,
        Sampling { top_k: 3, ..base },
        Sampling { top_p: 0.7, ..base },
        Sampling { min_p: 0.1, ..base },
        Sampling {
            top_k: 40,
            top_p: 0.95,
            min_p: 0.02,
            ..base
        },
    ];
    for vocab in [1, 5, 1023, 1025, 49_152] {
        let mut logits = random.floats(vocab, 12.0);
        // Equals, and what a broken model may give.
        if vocab > 5 {
            logits[2] = 13.0;
            logits[vocab - 1] = 13.0;
            logits[0] = f32::NAN;
            logits[3] = f32::INFINITY;
        }
        let logit_buffer = filled(gpu, &logits);
        let mut wrong = 0;
        let rounds = 8;
        for sampling in settings {
            for index in 0..rounds {
                let found = choice(gpu, &logit_buffer, vocab, &sampling, index).await?;
                wrong += usize::from(found != sampling.choose(&logits, index));
            }
        }
        // A difference in the last digit of a logarithm can decide between two tokens.
        cases.push(Case::new(
            format!("choices among {vocab}"),
            wrong as f64,
            1.5,
        ));
    }
    Ok(())
}

async fn choice(
    gpu: &Gpu,
    logits: &Handle,
    vocab: usize,
    sampling: &Sampling,
    index: u64,
) -> Result<u32, BackendError> {
    let spread = gpu.spread();
    let draw = filled_words(gpu, &sample::draw(sampling, index));
    let candidates = filled_words(gpu, &vec![0; vocab * 2]);
    let threshold = filled_words(gpu, &[0]);
    let parts = filled_words(gpu, &vec![0; sample::PARTS as usize * 2]);
    let chosen = filled_words(gpu, &[0]);
    let size = vocab as u32;
    let kernel = Threshold { vocab: size };
    gpu.launch(kernel, [1, 1, 1], &[logits, &draw, &candidates, &threshold]);
    let score = if sampling.is_greedy() {
        Score::Greedy
    } else {
        Score::Filtered
    };
    let kernel = Best {
        vocab: size,
        score,
        spread,
    };
    let groups = kernel.groups();
    match score {
        Score::Greedy => gpu.launch(kernel, groups, &[logits, &parts]),
        _ => gpu.launch(kernel, groups, &[logits, &parts, &draw, &threshold]),
    }
    gpu.launch(Winner { spread }, [1, 1, 1], &[&parts, &draw, &chosen]);
    let chosen = gpu.read(&chosen).await?;
    let advanced = gpu.read(&draw).await?[6];
    // A wrong index would be a wrong choice next time.
    Ok(if advanced == index as u32 + 1 {
        chosen[0]
    } else {
        u32::MAX
    })
}
