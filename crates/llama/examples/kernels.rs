//! Prints what the matrix products reach on the adapter at hand, beside what it can do.
//!
//! `cargo run -p llama -p engine -p cli --features llama/check --example kernels` (the other packages so
//! that burn is not built again), or with `lanes` for the spread of real GPUs.

use std::time::Instant;

use llama::{Gpu, Spread};

fn main() {
    let spread = match std::env::args().nth(1).as_deref() {
        Some("lanes") => Some(Spread::Lanes),
        Some("rows") => Some(Spread::Rows),
        _ => None,
    };
    pollster::block_on(async {
        let mut gpu = Gpu::open().await.expect("an adapter");
        if let Some(spread) = spread {
            gpu = gpu.with_spread(spread);
        }
        println!("{}, {:?}", gpu.info().name, gpu.spread());
        let start = Instant::now();
        let now = || start.elapsed().as_secs_f64();
        let measures = llama::check::measure::all(&gpu, &now).await;
        for measure in measures.expect("a working GPU") {
            println!(
                "{:<52} {:>8.3} {}",
                measure.name, measure.rate, measure.unit
            );
        }
    });
}
