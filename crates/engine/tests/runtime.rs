//! The engine as the page asks it, on the CPU and a small model.
#![cfg(feature = "cpu")]

use std::cell::RefCell;
use std::path::PathBuf;

use engine::protocol::{
    Event, FailureKind, LoadOptions, ModelInfo, Offer, Processor, Prompt, Residence, Sampling,
    Side, Sides, StopReason,
};
use engine::runtime::backend::Cpu;
use engine::runtime::{Engine, Order, StopFlag, Surroundings};
use model::package::{self, Package};
use weights::source::{DirFolder, FileSource, Joined};

const GREEDY: Sampling = Sampling {
    temperature: 0.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    seed: 0,
};

fn nano(name: &str) -> (Package, Joined<FileSource>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano");
    let folder = DirFolder::open(folder).expect("the fixtures");
    let opened = package::open(&folder, Some(name));
    pollster::block_on(opened).expect("a fixture")
}

fn options(context: u32) -> LoadOptions {
    LoadOptions {
        recipe: None,
        context,
        half_cache: false,
        keep: false,
        memory_limit: None,
    }
}

fn load(engine: &mut Engine<Cpu>, name: &str, sides: Sides, options: &LoadOptions) -> ModelInfo {
    let (package, mut source) = nano(name);
    let load = engine.load(package, &mut source, sides, options, &|_| {});
    pollster::block_on(load).expect("a model")
}

fn loaded(stop: &StopFlag, context: u32) -> (Engine<Cpu>, ModelInfo) {
    let mut engine = Engine::new(stop.clone());
    let info = load(
        &mut engine,
        "nano-q8_0.gguf",
        Sides::Both,
        &options(context),
    );
    (engine, info)
}

/// What a generation tells, in order.
fn generate(
    engine: &mut Engine<Cpu>,
    ids: &[u32],
    max_tokens: u32,
    alternatives: u32,
) -> Vec<Event> {
    generate_on(engine, Side::A, ids, max_tokens, alternatives)
}

fn generate_on(
    engine: &mut Engine<Cpu>,
    side: Side,
    ids: &[u32],
    max_tokens: u32,
    alternatives: u32,
) -> Vec<Event> {
    let prompt = Prompt::Ids { ids: ids.to_vec() };
    let order = Order {
        job: 7,
        side,
        prompt: &prompt,
        sampling: &GREEDY,
        max_tokens,
        stops: &[],
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
fn a_generation_ends_at_the_ids_that_were_named() {
    let (mut engine, _) = loaded(&StopFlag::default(), 64);
    let all = tokens(&generate(&mut engine, &[1, 2], 6, 0));
    let prompt = Prompt::Ids { ids: vec![1, 2] };
    let stops = [all[2]];
    let order = Order {
        job: 1,
        side: Side::A,
        prompt: &prompt,
        sampling: &GREEDY,
        max_tokens: 6,
        stops: &stops,
        alternatives: 0,
    };
    let told = RefCell::new(Vec::new());
    let emit = |event| told.borrow_mut().push(event);
    pollster::block_on(engine.generate(&order, &emit)).expect("a generation");
    let told = told.into_inner();
    let end = all
        .iter()
        .position(|id| *id == all[2])
        .expect("it is there");
    assert_eq!(tokens(&told), all[..=end]);
    assert!(matches!(
        told.last(),
        Some(Event::Finished {
            reason: StopReason::StopToken,
            ..
        })
    ));
}

#[test]
fn a_refused_request_leaves_the_engine_usable() {
    let (mut engine, _) = loaded(&StopFlag::default(), 8);
    let prompt = Prompt::Ids { ids: vec![1; 9] };
    let order = Order {
        job: 1,
        side: Side::A,
        prompt: &prompt,
        sampling: &GREEDY,
        max_tokens: 1,
        stops: &[],
        alternatives: 0,
    };
    let refused = pollster::block_on(engine.generate(&order, &|_| {}));
    assert_eq!(refused.expect_err("too long").kind, FailureKind::BadRequest);
    assert_eq!(tokens(&generate(&mut engine, &[1, 2], 2, 0)).len(), 2);
    engine.unload(Sides::Both);
    let nothing = pollster::block_on(engine.generate(&order, &|_| {}));
    assert_eq!(nothing.expect_err("no model").kind, FailureKind::BadRequest);
    assert_eq!(engine.residence(Side::A), Residence::Empty);
}

#[test]
fn measures_are_of_the_asked_lengths() {
    let (mut engine, _) = loaded(&StopFlag::default(), 128);
    let measures = pollster::block_on(engine.measure(Side::A, 40, 20)).expect("figures");
    assert!(measures.prefill_tokens_per_second > 0.0);
    assert!(measures.decode_tokens_per_second > 0.0);
    assert!(measures.bytes_per_token > 0);
    assert_eq!(measures.launches_per_token, 0.0);
}

#[test]
fn sides_have_models_of_their_own_and_keep_them() {
    let mut engine = Engine::new(StopFlag::default());
    load(&mut engine, "nano-q8_0.gguf", Sides::Both, &options(64));
    let eight_bits = tokens(&generate_on(&mut engine, Side::A, &[1, 2, 3], 8, 0));
    load(&mut engine, "nano-q2_k.gguf", Sides::B, &options(64));
    assert_eq!(
        [Side::A, Side::B].map(|side| engine.residence(side)),
        [Residence::Resident; 2]
    );
    let again = tokens(&generate_on(&mut engine, Side::A, &[1, 2, 3], 8, 0));
    assert_eq!(eight_bits, again);
    let two_bits = tokens(&generate_on(&mut engine, Side::B, &[1, 2, 3], 8, 0));
    assert_ne!(eight_bits, two_bits);
    engine.unload(Sides::A);
    assert_eq!(engine.residence(Side::A), Residence::Empty);
    assert_eq!(
        two_bits,
        tokens(&generate_on(&mut engine, Side::B, &[1, 2, 3], 8, 0))
    );
}

#[test]
fn models_that_do_not_fit_together_take_turns() {
    let mut engine = Engine::new(StopFlag::default());
    load(&mut engine, "nano-q8_0.gguf", Sides::A, &options(64));
    let (package, mut source) = nano("nano-f16.gguf");
    let small = options(64);
    let check = engine.preflight(&package, Sides::B, &small, around());
    let alone = pollster::block_on(check).expect("figures").total_bytes();
    let limited = LoadOptions {
        memory_limit: Some(alone),
        ..options(64)
    };
    let check = engine.preflight(&package, Sides::B, &limited, around());
    let findings = pollster::block_on(check).expect("figures").findings;
    assert!(
        findings
            .iter()
            .any(|it| !it.refuses && it.message.contains("turns"))
    );
    let told = RefCell::new(Vec::new());
    let emit = |event| told.borrow_mut().push(event);
    let second = engine.load(package, &mut source, Sides::B, &limited, &emit);
    pollster::block_on(second).expect("a model");
    let away = Event::Residence {
        a: Residence::Away,
        b: Residence::Resident,
    };
    assert!(told.borrow().contains(&away));
    // And back.
    load(&mut engine, "nano-q8_0.gguf", Sides::A, &limited);
    assert_eq!(engine.residence(Side::A), Residence::Resident);
    assert_eq!(engine.residence(Side::B), Residence::Away);
}

#[test]
fn what_a_check_refuses_is_not_loaded() {
    let mut engine = Engine::<Cpu>::new(StopFlag::default());
    load(&mut engine, "nano-q8_0.gguf", Sides::A, &options(64));
    let (package, mut source) = nano("nano-f16.gguf");
    let limited = LoadOptions {
        memory_limit: Some(1000),
        ..options(64)
    };
    let refused = engine.load(package, &mut source, Sides::B, &limited, &|_| {});
    let failure = pollster::block_on(refused).expect_err("too large");
    assert_eq!(failure.kind, FailureKind::Memory);
    assert_eq!(engine.residence(Side::A), Residence::Resident);
    assert_eq!(engine.residence(Side::B), Residence::Empty);
}

fn around() -> Surroundings {
    Surroundings {
        download_bytes: 1,
        kept_bytes: 0,
        storage_bytes: 1,
        storage: Err("this is a test".to_owned()),
        device_memory: None,
        recipes: Vec::new(),
    }
}

#[test]
fn a_check_foretells_what_the_model_takes() {
    let mut engine = Engine::<Cpu>::new(StopFlag::default());
    let (package, _) = nano("nano-q4_k_m.gguf");
    let hundred = options(100);
    let check = engine.preflight(&package, Sides::A, &hundred, around());
    let check = pollster::block_on(check).expect("figures");
    let info = load(&mut engine, "nano-q4_k_m.gguf", Sides::A, &options(100));
    assert_eq!(check.weight_bytes, info.weight_bytes);
    assert_eq!(check.cache_bytes, 100 * info.cache_bytes_per_token);
    assert_eq!((check.name, check.label), (info.name, info.label));
    assert!(check.findings.is_empty() && check.offers.is_empty());
    // The other side would come on top of it.
    let check = engine.preflight(&package, Sides::B, &hundred, around());
    assert!(pollster::block_on(check).expect("figures").other_bytes > info.weight_bytes);
}

#[test]
fn a_check_refuses_with_reasons_and_offers_what_would_fit() {
    let mut engine = Engine::<Cpu>::new(StopFlag::default());
    let (package, _) = nano("nano-f16.gguf");
    let mut check = |context, memory_limit| {
        let options = LoadOptions {
            memory_limit,
            keep: true,
            ..options(context)
        };
        pollster::block_on(engine.preflight(&package, Sides::A, &options, around()))
            .expect("figures")
    };
    let fits = check(512, None);
    // It cannot be kept, which refuses nothing.
    assert!(fits.findings.iter().all(|finding| !finding.refuses));
    assert_eq!(fits.findings.len(), 1);
    let limit = fits.total_bytes() + 1;
    let short = check(4096, Some(limit));
    assert!(short.findings[0].refuses && short.findings[0].message.contains("limit"));
    assert!(
        matches!(short.offers[..], [Offer::Context { context: 512, total_bytes }] if total_bytes <= limit)
    );
    assert_eq!(check(512, Some(1000)).offers, [Offer::SmallerModel]);
}
