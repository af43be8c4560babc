//! Measures products on the adapter at hand and prints the figures as JSON.
//!
//! `cargo build --release -p llama -p engine -p cli --features llama/check --examples`, then
//! `target/release/examples/kernels`; the other packages so that burn is built once for all of them.
//! Without arguments the shapes of two models; or one: `Nested4 8192 2048`. With `--lanes` as on a GPU.

use std::time::Instant;

use llama::{Gpu, Spread, measure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut gpu = pollster::block_on(Gpu::open())?;
    if arguments.first().is_some_and(|first| first == "--lanes") {
        arguments.remove(0);
        gpu = gpu.with_spread(Spread::Lanes);
    }
    let mut shapes = measure::SHAPES.to_vec();
    if let [layout, rows, cols] = arguments.as_slice() {
        shapes = vec![(layout.as_str(), rows.parse()?, cols.parse()?)];
    }
    let start = Instant::now();
    let now = || start.elapsed().as_secs_f64() * 1e3;
    for shape in shapes {
        let figures = pollster::block_on(measure::product(&gpu, shape, 5, &now))?;
        let ratios = serde_json::json!({
            "ours/plain": round(figures.ours / figures.plain),
            "ours/read": round(figures.ours / figures.read),
            "prefill/tile": round(figures.prefill / figures.tile),
        });
        let line = serde_json::json!({
            "adapter": gpu.info().name,
            "layout": figures.layout,
            "rows": figures.rows,
            "cols": figures.cols,
            "read GB/s": round(figures.read),
            "plain GB/s": round(figures.plain),
            "ours GB/s": round(figures.ours),
            "tile GFLOP/s": round(figures.tile),
            "prefill GFLOP/s": round(figures.prefill),
            "ratios": ratios,
        });
        println!("{line}");
    }
    Ok(())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
