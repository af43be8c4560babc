//! What damages headers, and what counts the memory that reading them takes. Also for the tests of
//! `model`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, remembering the largest request and the most memory in use.
struct Counting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        let before = IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        MOST.fetch_max(before + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The tests share the counters, so they take turns.
pub static TURN: Mutex<()> = Mutex::new(());

/// The most that one request, and all memory in use, may take, in bytes.
pub const LIMIT: usize = 64 << 20;

/// How many headers a test damages that has so many of a hundred: of 20,000, or of
/// `PLAYGROUND_MUTATIONS`.
pub fn rounds(share: usize) -> usize {
    let all: usize = std::env::var("PLAYGROUND_MUTATIONS").map_or(20_000, |rounds| {
        rounds.parse().expect("PLAYGROUND_MUTATIONS is a number")
    });
    all * share / 100
}

/// A fixture of the repository.
pub fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Memory from now on.
pub struct Memory {
    base: usize,
}

impl Memory {
    pub fn watch() -> Self {
        let base = IN_USE.load(Ordering::Relaxed);
        LARGEST.store(0, Ordering::Relaxed);
        MOST.store(base, Ordering::Relaxed);
        Self { base }
    }

    /// The largest request.
    pub fn largest(&self) -> usize {
        LARGEST.load(Ordering::Relaxed)
    }

    /// The most that was in use.
    pub fn most(&self) -> usize {
        MOST.load(Ordering::Relaxed).saturating_sub(self.base)
    }

    /// Prints what was done and holds it to the limit.
    pub fn conclude(&self, what: &str, good: usize, wrong: usize) {
        let (largest, most) = (self.largest(), self.most());
        println!(
            "{} {what}: {good} read, {wrong} refused; largest request {largest}, at most {most} bytes in use",
            good + wrong
        );
        assert!(
            largest <= LIMIT,
            "{what}: one allocation of {largest} bytes"
        );
        assert!(most <= LIMIT, "{what}: {most} bytes in use");
        let rounds = good + wrong;
        assert!(
            wrong > rounds / 4 && good > rounds / 100,
            "{what}: the damage is of a useful kind"
        );
    }
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

/// Numbers that break things.
pub const NUMBERS: [u64; 14] = [
    0,
    1,
    7,
    12,
    0xff,
    0xffff,
    1 << 16,
    1 << 20,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    u64::MAX - 31,
    u64::MAX,
];

/// Damages a header in one to four places, mostly where the numbers are.
pub fn damage(random: &mut Random, header: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    for _ in 0..=random.below(4) {
        // The vocabulary is most of a header; half of the damage goes to the ends.
        let len = bytes.len();
        let at = match random.below(4) {
            0 => random.below(len.min(1500)),
            1 => len - 1 - random.below(len.min(1500)),
            _ => random.below(len),
        };
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at.max(1)),
            3 => drop(bytes.drain(at..(at + 1 + random.below(40)).min(len))),
            4 => {
                let piece = bytes[at..(at + 1 + random.below(200)).min(len)].to_vec();
                bytes.splice(at..at, piece);
            }
            5 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = [4, 8][random.below(2)].min(len - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            _ => {
                // A length or a count, where one is.
                let place = [4, 8, 16, 24][random.below(4)].min(len - 1);
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = 8.min(len - place);
                bytes[place..place + width].copy_from_slice(&number[..width]);
            }
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

/// Words that break things.
const WORDS: [&str; 12] = [
    "\"../x\"",
    "\"\"",
    "null",
    "-1",
    "1e400",
    "[]",
    "{}",
    "[[[[[[[[",
    "true",
    "\"Q4_0\"",
    "0.5",
    "\"\\u0000\"",
];

/// Damages JSON: a number, a value, or any byte. The first `skip` bytes stay.
pub fn damage_json(random: &mut Random, text: &[u8], skip: usize) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(3) {
        let at = skip + random.below(bytes.len().saturating_sub(skip + 1));
        let digits = bytes[at..].iter().position(u8::is_ascii_digit);
        let colon = bytes[at..].iter().position(|byte| *byte == b':');
        match (random.below(4), digits, colon) {
            (0, Some(digits), _) => {
                let start = at + digits;
                let run = bytes[start..].iter().take_while(|b| b.is_ascii_digit());
                let end = start + run.count();
                let number = NUMBERS[random.below(NUMBERS.len())].to_string();
                bytes.splice(start..end, number.into_bytes());
            }
            (1, _, _) => bytes[at] ^= 1 << random.below(8),
            (2, _, Some(colon)) => {
                let start = at + colon + 1;
                let run = bytes[start..].iter().take_while(|b| !b",]}".contains(b));
                let end = start + run.count();
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(start..end, word.bytes());
            }
            _ => bytes = damage(random, &bytes),
        }
        bytes.resize(bytes.len().max(16), b' ');
    }
    bytes
}
