//! The bench and the kernels' checks as a WebAssembly module, for
//! `node crates/cpu/examples/wasm/bench.mjs`. Natively this is empty.
#![cfg(target_arch = "wasm32")]
#![expect(
    unsafe_code,
    reason = "functions that JavaScript calls have unmangled names"
)]

#[path = "../bench/synthetic.rs"]
mod synthetic;

use std::cell::RefCell;

use cpu::{Arithmetic, CpuNetwork};
use model::{Network, Plan};
use pollster::block_on;
use weights::MemorySource;

thread_local! {
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static NETWORK: RefCell<Option<CpuNetwork>> = const { RefCell::new(None) };
}

/// Runs the kernels' checks. Returns the largest error as a share of what is allowed.
#[unsafe(no_mangle)]
extern "C" fn check() -> f64 {
    let shares = cpu::check::kernels()
        .into_iter()
        .map(|outcome| outcome.share);
    shares.fold(0.0, f64::max)
}

/// Makes room for a file of this many bytes and says where.
#[unsafe(no_mangle)]
extern "C" fn room(bytes: usize) -> *mut u8 {
    FILE.with_borrow_mut(|file| {
        file.resize(bytes, 0);
        file.as_mut_ptr()
    })
}

/// Loads the file, or random weights where there is none. Returns the bytes of the weights.
#[unsafe(no_mangle)]
extern "C" fn load(exact: bool) -> f64 {
    let file = FILE.take();
    let arithmetic = if exact {
        Arithmetic::Exact
    } else {
        Arithmetic::Fast
    };
    let network = block_on(async {
        if file.is_empty() {
            let plan = synthetic::plan(synthetic::shape_160m());
            let mut source = synthetic::RandomSource::new(plan.clone());
            return cpu::load(&mut source, &plan, arithmetic, |_| true)
                .await
                .expect("weights");
        }
        let mut source = MemorySource::new("model", file);
        let header = weights::gguf::read_header(&mut source)
            .await
            .expect("a header");
        let plan = Plan::from_gguf(&header).expect("a plan");
        cpu::load(&mut source, &plan, arithmetic, |_| true)
            .await
            .expect("weights")
    });
    let bytes = network.memory().weights as f64;
    NETWORK.set(Some(network));
    bytes
}

/// Runs `tokens` tokens from position `past` on, in chunks of `chunk`. Returns the sum of the logits.
#[unsafe(no_mangle)]
extern "C" fn run(past: usize, tokens: usize, chunk: usize) -> f64 {
    NETWORK.with_borrow_mut(|network| {
        let network = network.as_mut().expect("a model");
        let vocab = network.config().vocab as u32;
        let ids: Vec<u32> = (past..past + tokens)
            .map(|i| (i as u32 * 7919 + 13) % vocab)
            .collect();
        for (index, ids) in ids.chunks(chunk).enumerate() {
            let past = past + index * chunk;
            block_on(network.run(ids, past, past + ids.len() == past + tokens || chunk == 1))
                .expect("a run");
        }
        let logits = block_on(network.logits()).expect("logits");
        logits.iter().map(|logit| f64::from(*logit)).sum()
    })
}
