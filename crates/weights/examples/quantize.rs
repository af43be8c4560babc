//! Speed of the codecs and error of the encoders: `cargo run --release -p weights --example quantize`.

use std::time::Instant;

use weights::BlockType;
use weights::codec::dequantize;
use weights::quantize::quantize;

/// Sums of four numbers of a linear congruential generator: nearly normal, as weights are.
fn weights(count: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count)
        .map(|_| (next() + next() + next() + next()) * 0.03)
        .collect()
}

fn main() {
    let weights = weights(1 << 20);
    let square = |values: &mut dyn Iterator<Item = f32>| {
        values.map(|value| f64::from(value).powi(2)).sum::<f64>()
    };
    let power = square(&mut weights.iter().copied());
    println!("type   M weights/s: encoded, decoded; relative RMSE");
    for id in 0..40 {
        let Some(kind) = BlockType::from_ggml_id(id).filter(|kind| kind.is_supported()) else {
            continue;
        };
        let mut bytes = Vec::new();
        let mut best = f64::MAX;
        for _ in 0..3 {
            bytes.clear();
            let start = Instant::now();
            quantize(kind, &weights, &mut bytes).expect("finite weights");
            best = best.min(start.elapsed().as_secs_f64());
        }
        let mut back = vec![0.0; weights.len()];
        let start = Instant::now();
        dequantize(kind, &bytes, &mut back).expect("whole blocks");
        let decoding = start.elapsed().as_secs_f64();
        let error = square(&mut weights.iter().zip(&back).map(|(a, b)| a - b));
        let rate = |seconds: f64| weights.len() as f64 / seconds / 1e6;
        println!(
            "{:<6} {:>10.1} {:>10.1}  {:.5}",
            kind.name(),
            rate(best),
            rate(decoding),
            (error / power).sqrt()
        );
    }
}
