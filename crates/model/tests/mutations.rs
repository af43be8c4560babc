//! Small files of packages with random damage: whatever they say, no panic and no large allocation.
//!
//! As the tests of `weights` of this name, together with which `PLAYGROUND_MUTATIONS=1000000` damages a
//! million.
#![expect(unsafe_code, reason = "counting allocations takes an allocator")]

use model::{HfConfig, package};
use weights::source::folder::MemoryFolder;

#[path = "../../weights/tests/mutations/common.rs"]
mod common;

use common::{Memory, Random, TURN, damage_json, fixture, rounds};

#[test]
fn damaged_configurations_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let text = fixture("nano/hf/config.json");
    let memory = Memory::watch();
    let mut random = Random(0xc0f);
    let (mut good, mut wrong) = (0, 0);
    for _ in 0..rounds(7) {
        match HfConfig::parse(&damage_json(&mut random, &text, 0)) {
            Ok(hf) => {
                good += 1;
                assert_eq!(hf.config.check(), Ok(()));
                let divisors = hf.config.rope.divisors.iter().flatten();
                assert!(divisors.into_iter().all(|divisor| *divisor > 0.0));
            }
            Err(error) => {
                wrong += 1;
                assert!((10..2000).contains(&error.to_string().len()));
            }
        }
    }
    memory.conclude("configurations", good, wrong);
}

/// One file of a folder is damaged, and the folder is opened.
#[test]
fn folders_with_a_damaged_file_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let mut whole = MemoryFolder::new("memory");
    let small = [
        "config.json",
        "generation_config.json",
        "tokenizer_config.json",
    ];
    for name in ["model.safetensors", "tokenizer.json"].iter().chain(&small) {
        whole.insert(*name, fixture(&format!("nano/hf/{name}")));
    }
    whole.insert(
        "README.md",
        &b"---\nlicense: llama3.1\nbase_model:\n- a/Llama-3.1-8B\n---\n"[..],
    );
    let memory = Memory::watch();
    let mut random = Random(0xf01d);
    let (mut good, mut wrong) = (0, 0);
    for round in 0..rounds(3) {
        let mut folder = whole.clone();
        let name = [small[0], small[1], small[2], "README.md"][round % 4];
        let text = folder.get(name).expect("a file");
        let damaged = damage_json(&mut random, text, 0);
        folder.insert(name, damaged);
        match pollster::block_on(package::open(&folder, None)) {
            Ok((package, _)) => {
                good += 1;
                let vocab = package.plan.config.vocab as u32;
                assert!(package.special.eos.iter().all(|id| *id < vocab));
            }
            Err(error) => {
                wrong += 1;
                assert!((10..2000).contains(&error.to_string().len()));
            }
        }
    }
    memory.conclude("folders", good, wrong);
}
