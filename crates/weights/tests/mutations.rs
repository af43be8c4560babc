//! Headers with random damage: whatever the bytes say, no panic and no large allocation.
//!
//! The ordinary run tries 2,000; `PLAYGROUND_MUTATIONS=100000` tries more.
#![expect(unsafe_code, reason = "counting allocations takes an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weights::MemorySource;
use weights::gguf::{Gguf, Step, parse, read_header};
use weights::layout::Packer;
use weights::safetensors;

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
static TURN: Mutex<()> = Mutex::new(());

const LIMIT: usize = 64 << 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

/// Numbers that break things.
const NUMBERS: [u64; 14] = [
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
fn damage(random: &mut Random, header: &[u8]) -> Vec<u8> {
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

/// Uses a header as a loader would.
fn explore(gguf: &Gguf) {
    let _ = gguf.check_supported();
    let _ = gguf.architecture();
    let _ = gguf.require_u64("llama.block_count");
    let _ = gguf.tokenizer_parts();
    for tensor in &gguf.tensors {
        assert_eq!(tensor.row_bytes() * tensor.rows(), tensor.bytes);
        if let Ok(row_len) = usize::try_from(tensor.row_len())
            && let Ok(packer) = Packer::new(tensor.kind, row_len)
        {
            assert_eq!(packer.row_bytes() as u64, tensor.row_bytes());
        }
    }
}

#[test]
fn damaged_headers_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let rounds = std::env::var("PLAYGROUND_MUTATIONS").map_or(2_000, |rounds| {
        rounds.parse().expect("PLAYGROUND_MUTATIONS is a number")
    });
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano");
    let headers: Vec<Vec<u8>> = ["nano-q4_0.gguf", "nano-q6_k.gguf", "nano-f16.gguf"]
        .iter()
        .map(|name| {
            let mut bytes = std::fs::read(folder.join(name)).expect("fixture");
            let Ok(Step::Done(gguf)) = parse(&bytes, None) else {
                panic!("{name} is a good file");
            };
            bytes.truncate(gguf.data_start as usize);
            bytes
        })
        .collect();
    let base = IN_USE.load(Ordering::Relaxed);
    LARGEST.store(0, Ordering::Relaxed);
    MOST.store(base, Ordering::Relaxed);

    let mut random = Random(0x5eed);
    let (mut good, mut wrong) = (0, 0);
    for round in 0..rounds {
        let header = &headers[round % headers.len()];
        let bytes = damage(&mut random, header);
        let size = match random.below(3) {
            0 => None,
            1 => Some(bytes.len() as u64),
            _ => Some(1 << 40),
        };
        match parse(&bytes, size) {
            Ok(Step::Done(gguf)) => {
                good += 1;
                explore(&gguf);
            }
            Ok(Step::Need(needs)) => assert!(needs > bytes.len() as u64),
            Err(error) => {
                wrong += 1;
                assert!(!error.to_string().is_empty());
            }
        }
        let whole = pollster::block_on(read_header(&mut MemorySource::new("damaged", &bytes[..])));
        if let Err(error) = whole {
            assert!(!error.to_string().is_empty());
        }
    }
    let largest = LARGEST.load(Ordering::Relaxed);
    let most = MOST.load(Ordering::Relaxed) - base;
    println!(
        "{rounds} headers: {good} parsed, {wrong} refused; largest request {largest}, at most {most} bytes in use"
    );
    assert!(largest <= LIMIT, "one allocation of {largest} bytes");
    assert!(most <= LIMIT, "{most} bytes in use");
    assert!(
        wrong > rounds / 4 && good > rounds / 100,
        "the damage is of a useful kind"
    );
}

/// Damages a safetensors header: a number in its JSON, or any byte.
fn damage_json(random: &mut Random, header: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    for _ in 0..=random.below(3) {
        let at = 9 + random.below(bytes.len() - 10);
        let digits = bytes[at..].iter().position(u8::is_ascii_digit);
        match (random.below(3), digits) {
            (0, Some(skip)) => {
                let start = at + skip;
                let run = bytes[start..].iter().take_while(|b| b.is_ascii_digit());
                let end = start + run.count();
                let number = NUMBERS[random.below(NUMBERS.len())].to_string();
                bytes.splice(start..end, number.into_bytes());
            }
            (1, _) => bytes[at] ^= 1 << random.below(8),
            _ => bytes = damage(random, &bytes),
        }
        bytes.resize(bytes.len().max(16), b' ');
    }
    bytes
}

#[test]
fn damaged_safetensors_headers_neither_panic_nor_take_memory() {
    let _turn = TURN.lock();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nano/hf");
    let file = std::fs::read(folder.join("model.safetensors")).expect("fixture");
    let header = safetensors::header_bytes(&file, None).expect("a good file") as usize;
    let size = Some(file.len() as u64);
    LARGEST.store(0, Ordering::Relaxed);

    let mut random = Random(0x5afe);
    let (mut good, mut wrong) = (0, 0);
    for _ in 0..4_000 {
        let bytes = damage_json(&mut random, &file[..8 + header]);
        let size = [None, size][random.below(2)];
        let parsed = safetensors::header_bytes(&bytes, size).and_then(|length| {
            safetensors::parse(&bytes[8..bytes.len().min(8 + length as usize)], size)
        });
        match parsed {
            Ok(header) => {
                good += 1;
                for tensor in &header.tensors {
                    assert_eq!(
                        tensor.rows() * tensor.row_len() * tensor.dtype.bytes(),
                        tensor.bytes
                    );
                }
            }
            Err(error) => {
                wrong += 1;
                assert!((10..2000).contains(&error.to_string().len()));
            }
        }
        let mut source = MemorySource::new("damaged", &bytes[..]);
        let _ = pollster::block_on(safetensors::read_header(&mut source));
    }
    let largest = LARGEST.load(Ordering::Relaxed);
    println!("{good} parsed, {wrong} refused; largest request {largest}");
    assert!(largest <= 1 << 20, "one allocation of {largest} bytes");
    assert!(wrong > 2_000 && good > 40, "the damage is of a useful kind");
}

/// A header as large as is read at all, made to take as much memory as it can.
#[test]
fn the_largest_headers_stay_within_the_limit() {
    let _turn = TURN.lock();
    let array = |element: u32, count: u64, body: &dyn Fn(u64) -> Vec<u8>| {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, b'k', 9, 0, 0, 0]);
        bytes.extend(element.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        (0..count).for_each(|index| bytes.extend(body(index)));
        bytes
    };
    let empty_strings = array(8, 4_000_000, &|_| vec![0; 8]);
    let one_string = array(8, 1, &|_| {
        [&31_000_000u64.to_le_bytes()[..], &vec![b'x'; 31_000_000]].concat()
    });
    let bytes = array(0, 32_000_000, &|index| vec![index as u8]);
    for header in [empty_strings, one_string, bytes] {
        LARGEST.store(0, Ordering::Relaxed);
        let parsed = parse(&header, Some(header.len() as u64));
        assert!(
            matches!(parsed, Ok(Step::Done(_))),
            "{:.200}",
            format!("{parsed:?}")
        );
        assert!(LARGEST.load(Ordering::Relaxed) <= LIMIT);
    }
}
