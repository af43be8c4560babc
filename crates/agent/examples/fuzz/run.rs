//! The driving.

use super::inputs::Numbers;
use super::targets::{TARGETS, Target};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Executions by target.
    pub executions: BTreeMap<&'static str, u64>,
    /// Bytes read.
    pub bytes: u64,
    /// Longest time of an execution in seconds, and its target.
    pub slowest: (f64, &'static str),
    /// What does not hold, or takes too long.
    pub problems: Vec<String>,
}

/// Longest time in seconds that an input of up to a few thousand bytes may take, when tried again.
const LIMIT: f64 = 0.02;
/// The same for a template, which runs until its fuel is used up.
const FUEL_LIMIT: f64 = 2.0;
/// Every so many executions, inputs that repeat a few pieces are timed at two lengths.
const GROWTH_EVERY: u64 = 20_000;
/// The two lengths in bytes.
const LENGTHS: [usize; 2] = [32 << 10, 256 << 10];

/// Runs on a thread with a stack of 1 MiB.
pub fn on_small_stack(run: impl FnOnce() -> Found + Send + 'static) -> Found {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(found)) => found,
        Ok(Err(_)) => Found {
            problems: vec!["a panic".to_owned()],
            ..Found::default()
        },
        Err(error) => Found {
            problems: vec![format!("no thread: {error}")],
            ..Found::default()
        },
    }
}

thread_local! {
    static CURRENT: RefCell<(&'static str, String)> = const { RefCell::new(("", String::new())) };
}

/// Prints the input at hand before what a panic prints.
fn tell_of_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        CURRENT.with_borrow(|(target, input)| eprintln!("{target}: {}", short(input)));
        usual(panic);
    }));
}

/// Reads so many inputs, spread over all targets.
pub fn run(executions: u64, seed: u64) -> Found {
    tell_of_panics();
    let mut found = Found::default();
    let mut numbers = Numbers::new(seed);
    for execution in 0..executions {
        let target = &TARGETS[(execution % TARGETS.len() as u64) as usize];
        let input = (target.input)(&mut numbers);
        let seconds = execute(target, &input, &mut found);
        if seconds > found.slowest.0 {
            found.slowest = (seconds, target.name);
        }
        let limit = if target.linear { LIMIT } else { FUEL_LIMIT };
        if seconds > limit && again(target, &input) > limit {
            found
                .problems
                .push(format!("{}: slow: {}", target.name, short(&input)));
        }
        if execution % GROWTH_EVERY == 0 {
            for target in TARGETS.iter().filter(|target| target.linear) {
                growth(target, &mut numbers, &mut found);
            }
        }
    }
    found
}

fn execute(target: &Target, input: &str, found: &mut Found) -> f64 {
    CURRENT.with_borrow_mut(|current| {
        current.0 = target.name;
        input.clone_into(&mut current.1);
    });
    *found.executions.entry(target.name).or_default() += 1;
    found.bytes += input.len() as u64;
    let started = Instant::now();
    let read = (target.read)(input);
    let seconds = started.elapsed().as_secs_f64();
    if let Err(problem) = read {
        found
            .problems
            .push(format!("{}: {problem}: {}", target.name, short(input)));
    }
    seconds
}

/// The best of a few times, of the processor alone: the machine has other work.
fn again(target: &Target, input: &str) -> f64 {
    let times = (0..5).map(|_| {
        let started = processor_seconds();
        let _ = (target.read)(input);
        processor_seconds() - started
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Time that this thread has had the processor; where the system does not tell, time that has passed.
/// Exact to some milliseconds.
fn processor_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat");
    let nanoseconds = told.ok().and_then(|line| {
        let first = line.split_ascii_whitespace().next()?;
        first.parse::<f64>().ok()
    });
    match nanoseconds {
        Some(nanoseconds) => nanoseconds * 1e-9,
        None => START.get_or_init(Instant::now).elapsed().as_secs_f64(),
    }
}

/// Eight times the input may take eight times the time, and some more for a cold cache. Quadratic time
/// would be sixty-four.
fn growth(target: &Target, numbers: &mut Numbers, found: &mut Found) {
    let mut unit = String::new();
    for _ in 0..=numbers.below(4) {
        unit.push_str(numbers.pick(target.pieces));
    }
    let inputs = LENGTHS.map(|length| unit.repeat(length / unit.len() + 1));
    let grows = |[short, long]: [f64; 2]| long > 24.0 * short + LIMIT;
    if !grows([&inputs[0], &inputs[1]].map(|input| execute(target, input, found))) {
        return;
    }
    let times = [&inputs[0], &inputs[1]].map(|input| again(target, input));
    if grows(times) {
        found.problems.push(format!(
            "{}: {:.1} ms become {:.1} ms: {}, repeated",
            target.name,
            times[0] * 1e3,
            times[1] * 1e3,
            short(&unit)
        ));
    }
}

fn short(input: &str) -> String {
    let shown: String = input.chars().take(2_000).collect();
    format!("{shown:?}")
}
