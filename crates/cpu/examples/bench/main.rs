//! Tokens per second of the CPU engine.
//!
//!     cargo run --release -p cpu --example bench -- [MODEL.gguf] [--exact] [--prompt N] [--decode N]
//!
//! Without a model, random weights in the shape of a 160M model stored as Q4_K_M. Prints prefill and
//! decode in tokens per second, and per second of processor time.

#[cfg(not(target_arch = "wasm32"))]
mod synthetic;

#[cfg(target_arch = "wasm32")]
fn main() {}

#[cfg(not(target_arch = "wasm32"))]
fn main() {
    native::main();
}

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::time::Instant;

    use cpu::{Arithmetic, CpuNetwork};
    use model::{Network, Plan};
    use pollster::block_on;
    use weights::source::FileSource;

    use crate::synthetic;

    /// Seconds of processor time of this process; 0 where the system does not say.
    fn processor_seconds() -> f64 {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks.filter_map(|x| x.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    fn measure(name: &str, tokens: usize, work: impl FnOnce()) {
        let (wall, processor) = (Instant::now(), processor_seconds());
        work();
        let wall = wall.elapsed().as_secs_f64();
        let processor = processor_seconds() - processor;
        let tokens = tokens as f64;
        println!(
            "{name}: {:.1} tok/s, {:.1} per CPU second",
            tokens / wall,
            tokens / processor
        );
    }

    pub fn main() {
        let mut path = None;
        let (mut arithmetic, mut prompt, mut decode) = (Arithmetic::Fast, 128, 64);
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || {
                arguments
                    .next()
                    .and_then(|x| x.parse().ok())
                    .expect("a number")
            };
            match argument.as_str() {
                "--exact" => arithmetic = Arithmetic::Exact,
                "--prompt" => prompt = number(),
                "--decode" => decode = number(),
                _ => path = Some(argument),
            }
        }
        let start = Instant::now();
        let mut network = load(path, arithmetic);
        println!(
            "loaded in {:.2} s, {:?}",
            start.elapsed().as_secs_f64(),
            network.memory()
        );
        let vocab = network.config().vocab as u32;
        let ids: Vec<u32> = (0..prompt + decode)
            .map(|i| (i as u32 * 7919 + 13) % vocab)
            .collect();
        for _ in 0..3 {
            measure("prefill", prompt, || {
                block_on(network.run(&ids[..prompt], 0, true)).expect("a run");
            });
            measure("decode", decode, || {
                for past in prompt..prompt + decode {
                    block_on(network.run(&ids[past..=past], past, true)).expect("a run");
                }
            });
        }
    }

    fn load(path: Option<String>, arithmetic: Arithmetic) -> CpuNetwork {
        block_on(async {
            let Some(path) = path else {
                let plan = synthetic::plan(synthetic::shape_160m());
                let mut source = synthetic::RandomSource::new(plan.clone());
                return cpu::load(&mut source, &plan, arithmetic, |_| true)
                    .await
                    .expect("weights");
            };
            let mut source = FileSource::open(path).expect("a file");
            let header = weights::gguf::read_header(&mut source)
                .await
                .expect("a header");
            let plan = Plan::from_gguf(&header).expect("a plan");
            cpu::load(&mut source, &plan, arithmetic, |_| true)
                .await
                .expect("weights")
        })
    }
}
