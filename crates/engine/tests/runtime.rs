//! The engine as the page asks it, on the CPU and a small model.
#![cfg(feature = "cpu")]

use std::cell::RefCell;
use std::path::PathBuf;

use engine::protocol::{Event, FailureKind, ModelInfo, Processor, Prompt, Sampling, StopReason};
use engine::runtime::backend::Cpu;
use engine::runtime::{Engine, Order, StopFlag};
use weights::source::FileSource;

const GREEDY: Sampling = Sampling {
    temperature: 0.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    seed: 0,
};

fn nano(name: &str) -> FileSource {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano");
    FileSource::open(path.join(name)).expect("a fixture")
}

fn loaded(stop: &StopFlag, context: u32) -> (Engine<Cpu>, ModelInfo) {
    let mut engine = Engine::new(stop.clone());
    let load = engine.load(nano("nano-q8_0.gguf"), context, false, &|_| {});
    let info = pollster::block_on(load).expect("a model");
    (engine, info)
}

/// What a generation tells, in order.
fn generate(
    engine: &mut Engine<Cpu>,
    ids: &[u32],
    max_tokens: u32,
    alternatives: u32,
) -> Vec<Event> {
    let prompt = Prompt::Ids { ids: ids.to_vec() };
    let order = Order {
        job: 7,
        prompt: &prompt,
        sampling: &GREEDY,
        max_tokens,
        alternatives,
    };
    let told = RefCell::new(Vec::new());
    let emit = |event| told.borrow_mut().push(event);
    pollster::block_on(engine.generate(&order, &emit)).expect("a generation");
    told.into_inner()
}

fn tokens(events: &[Event]) -> Vec<u32> {
    let ids = events.iter().filter_map(|event| match event {
        Event::Token { id, .. } => Some(*id),
        _ => None,
    });
    ids.collect()
}

fn reused(events: &[Event]) -> u32 {
    match events.first() {
        Some(Event::Prompt { reused, .. }) => *reused,
        other => panic!("the prompt comes first, not {other:?}"),
    }
}

fn reason(events: &[Event]) -> StopReason {
    match events.last() {
        Some(Event::Finished { reason, job: 7, .. }) => *reason,
        other => panic!("the end comes last, not {other:?}"),
    }
}

#[test]
fn a_loaded_model_says_what_it_is_and_holds() {
    let (_, info) = loaded(&StopFlag::default(), 128);
    assert!(matches!(info.processor, Processor::Cpu { .. }));
    assert_eq!(info.context, 128);
    assert!(info.tensor_bytes > 0 && info.weight_bytes <= info.tensor_bytes * 11 / 10);
    // Two layers of two heads of 32 values, keys and values, four bytes each.
    assert_eq!(info.cache_bytes_per_token, 2 * 2 * 2 * 32 * 4);
}

#[test]
fn a_second_turn_runs_only_what_is_new() {
    let (mut engine, _) = loaded(&StopFlag::default(), 128);
    let first = generate(&mut engine, &[1, 2, 3, 4], 6, 0);
    let ids = tokens(&first);
    assert_eq!((reused(&first), reason(&first)), (0, StopReason::MaxTokens));
    assert_eq!(ids.len(), 6);
    let mut longer = vec![1, 2, 3, 4];
    longer.extend(&ids);
    longer.push(9);
    let second = generate(&mut engine, &longer, 3, 0);
    // The last token of the first turn was given, but never run.
    assert_eq!(reused(&second), 9);
}

#[test]
fn outlooks_come_on_request_and_change_nothing() {
    let (mut engine, _) = loaded(&StopFlag::default(), 128);
    let plain = generate(&mut engine, &[5, 6, 7], 8, 0);
    let seen = generate(&mut engine, &[5, 6, 7], 8, 4);
    assert_eq!(tokens(&plain), tokens(&seen));
    for event in &seen {
        let Event::Token { id, outlook, .. } = event else {
            continue;
        };
        let outlook = outlook.as_ref().expect("an outlook");
        assert_eq!(outlook.alternatives.len(), 4);
        // Greedy: the token is the most probable one.
        assert_eq!(outlook.alternatives[0].id, *id);
        assert_eq!(outlook.alternatives[0].probability, outlook.probability);
        assert!(outlook.entropy > 0.0);
    }
    let none = |event: &Event| {
        matches!(
            event,
            Event::Token {
                outlook: Some(_),
                ..
            }
        )
    };
    assert!(!plain.iter().any(none));
}

#[test]
fn every_end_has_its_reason() {
    let stop = StopFlag::default();
    let (mut engine, _) = loaded(&stop, 8);
    let full = generate(&mut engine, &[1, 2, 3, 4, 5], 50, 0);
    assert_eq!(reason(&full), StopReason::ContextFull);
    // Four tokens are chosen: after the prompt's five, the last one stands at the ninth place.
    assert_eq!(tokens(&full).len(), 4);
    stop.raise();
    let stopped = generate(&mut engine, &[9, 8, 7], 50, 0);
    assert_eq!(
        (reason(&stopped), tokens(&stopped).len()),
        (StopReason::Stopped, 0)
    );
    stop.lower();
    assert_eq!(tokens(&generate(&mut engine, &[9, 8, 7], 1, 0)).len(), 1);
}

#[test]
fn a_refused_request_leaves_the_engine_usable() {
    let (mut engine, _) = loaded(&StopFlag::default(), 8);
    let prompt = Prompt::Ids { ids: vec![1; 9] };
    let order = Order {
        job: 1,
        prompt: &prompt,
        sampling: &GREEDY,
        max_tokens: 1,
        alternatives: 0,
    };
    let refused = pollster::block_on(engine.generate(&order, &|_| {}));
    assert_eq!(refused.expect_err("too long").kind, FailureKind::BadRequest);
    assert_eq!(tokens(&generate(&mut engine, &[1, 2], 2, 0)).len(), 2);
    engine.unload();
    let nothing = pollster::block_on(engine.generate(&order, &|_| {}));
    assert_eq!(nothing.expect_err("no model").kind, FailureKind::BadRequest);
    assert!(!engine.lost_model());
}

#[test]
fn measures_are_of_the_asked_lengths() {
    let (mut engine, _) = loaded(&StopFlag::default(), 128);
    let measures = pollster::block_on(engine.measure(40, 20)).expect("figures");
    assert!(measures.prefill_tokens_per_second > 0.0);
    assert!(measures.decode_tokens_per_second > 0.0);
    assert!(measures.bytes_per_token > 0);
    assert_eq!(measures.launches_per_token, 0.0);
}
