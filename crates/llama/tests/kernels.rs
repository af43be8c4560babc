//! Every kernel against plain arithmetic, on the adapter at hand and on both spreads.

use llama::check::Extent;
use llama::{Gpu, Spread};

fn check(gpu: &Gpu) {
    let cases = pollster::block_on(llama::check::all(gpu, Extent::Full)).expect("a working GPU");
    let wrong: Vec<_> = cases.iter().filter(|case| !case.holds()).collect();
    println!("{} cases, {} wrong", cases.len(), wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn kernels_agree_with_plain_arithmetic() {
    let gpu = pollster::block_on(Gpu::open()).expect("a Vulkan adapter");
    check(&gpu.clone().with_spread(Spread::Rows));
    check(&gpu.clone().with_spread(Spread::Lanes).without_subgroups());
    if gpu.subgroups().is_some() {
        check(&gpu.with_spread(Spread::Lanes));
    }
}
