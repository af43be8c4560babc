//! The Llama 3.1 tokenizer, made to load at once.
//!
//! It gives the ids of the Hugging Face `tokenizer.json`, but is no general tokenizer: pattern, merge
//! rule and special names are fixed. What varies is only the vocabulary, which comes as one binary
//! asset (see [`Llama3Tokenizer::compact_from_json`]). Loading reads it into one block of bytes and one
//! hash table, with no allocation per token.

use crate::classes::{Class, class};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Number of ordinary tokens.
pub const RANKS: u32 = 128_000;
/// Number of special tokens; their ids follow the ordinary ones.
pub const SPECIALS: u32 = 256;

/// The pre-tokenizer's pattern, which [`next_word`] matches by hand.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Most digits in a word.
const DIGITS: usize = 3;

const MAGIC: [u8; 8] = *b"LLAMA31\0";
const VERSION: u32 = 1;
const HEADER: usize = 32;
/// Slots of the hash table: a power of two, half of them filled.
const SLOTS: usize = 1 << 18;
const EMPTY: u32 = u32::MAX;
/// A slot holds an id in its lower 17 bits and 15 bits of the token's hash above.
const ID_BITS: u32 = 17;

/// Why a vocabulary cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VocabularyError {
    /// Not a compact vocabulary, or damaged.
    #[error("not a compact Llama 3.1 vocabulary: {0}")]
    Compact(&'static str),
    /// A tokenizer.json that is not Llama 3.1's.
    #[error("not the Llama 3.1 tokenizer: {0}")]
    Source(String),
}

/// The Llama 3.1 tokenizer: 128,000 byte-level ranks and 256 special tokens.
#[derive(Debug)]
pub struct Llama3Tokenizer {
    /// The bytes of all tokens, special ones (their names) last.
    blob: Box<[u8]>,
    /// Where each token begins in the blob; one more than there are tokens.
    offsets: Box<[u32]>,
    /// Open addressing over the ordinary tokens.
    table: Box<[u32]>,
    longest: usize,
    longest_special: usize,
}

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its bytes; a special token's are its name. Empty for ids outside the vocabulary.
    pub bytes: &'a [u8],
    /// The name, e.g. `<|eot_id|>`, when it is a special token.
    pub special: Option<&'a str>,
}

/// A token found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub id: u32,
    /// Its length in bytes.
    pub len: usize,
}

impl Llama3Tokenizer {
    /// Loads the asset that [`Llama3Tokenizer::compact_from_json`] makes.
    ///
    /// # Errors
    /// When the bytes are not such an asset.
    pub fn from_compact(bytes: &[u8]) -> Result<Self, VocabularyError> {
        let bad = VocabularyError::Compact;
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(bad("it does not begin with the mark of one"));
        }
        if word(8) != Some(VERSION) {
            return Err(bad("it has another version"));
        }
        let (Some(ranks), Some(specials)) = (word(12), word(16)) else {
            return Err(bad("it is cut short"));
        };
        if (ranks, specials) != (RANKS, SPECIALS) {
            return Err(bad("it has another number of tokens"));
        }
        let body = bytes.get(HEADER..).ok_or(bad("it is cut short"))?;
        if bytes[24..32] != checksum(body).to_le_bytes() {
            return Err(bad("its checksum does not match"));
        }
        let count = (ranks + specials) as usize;
        let lengths = body.get(..count).ok_or(bad("it is cut short"))?;
        let blob = &body[count..];
        let mut offsets = Vec::with_capacity(count + 1);
        let mut offset = 0u32;
        offsets.push(0);
        for &length in lengths {
            offset += u32::from(length);
            offsets.push(offset);
        }
        if offset as usize != blob.len() {
            return Err(bad("its lengths do not add up"));
        }
        let longest = |lengths: &[u8]| lengths.iter().copied().max().unwrap_or(0).into();
        let mut tokenizer = Self {
            blob: blob.into(),
            offsets: offsets.into(),
            table: vec![EMPTY; SLOTS].into(),
            longest: longest(&lengths[..ranks as usize]),
            longest_special: longest(&lengths[ranks as usize..]),
        };
        tokenizer.fill_table();
        if (0..=255u8).any(|byte| tokenizer.rank(&[byte]).is_none()) {
            return Err(bad("it lacks a byte"));
        }
        if (RANKS..RANKS + SPECIALS).any(|id| tokenizer.bytes(id) != special_name(id).as_bytes()) {
            return Err(bad("its special tokens are named otherwise"));
        }
        Ok(tokenizer)
    }

    fn fill_table(&mut self) {
        for id in 0..RANKS {
            let hash = hash(self.bytes(id));
            let mut slot = hash as usize % SLOTS;
            while self.table[slot] != EMPTY {
                slot = (slot + 1) % SLOTS;
            }
            self.table[slot] = tag(hash) | id;
        }
    }

    /// Turns a Hugging Face `tokenizer.json` of Llama 3.1 into the compact asset. The same input
    /// always gives the same bytes.
    ///
    /// The asset: the mark `LLAMA31\0`, then little-endian u32 version, number of ordinary tokens,
    /// number of special tokens, 0, then a u64 checksum of the rest; the rest is one length byte for
    /// every token, then all their bytes.
    ///
    /// # Errors
    /// When the file is not Llama 3.1's tokenizer, names the special tokens otherwise (as the packages
    /// with Llama 3.0's names do), or merges otherwise than by rank.
    pub fn compact_from_json(tokenizer_json: &[u8]) -> Result<Vec<u8>, VocabularyError> {
        let source: Source = serde_json::from_slice(tokenizer_json)
            .map_err(|error| VocabularyError::Source(error.to_string()))?;
        let tokens = source.tokens()?;
        source.check_merges(&tokens)?;
        let mut body = Vec::new();
        for token in &tokens {
            let length = u8::try_from(token.len())
                .map_err(|_| VocabularyError::Source("a token is longer than 255 bytes".into()))?;
            body.push(length);
        }
        for token in &tokens {
            body.extend_from_slice(token);
        }
        let mut out = MAGIC.to_vec();
        for word in [VERSION, RANKS, SPECIALS, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&checksum(&body).to_le_bytes());
        out.extend_from_slice(&body);
        Ok(out)
    }

    /// Ids of a text in which special tokens are recognised wherever they are spelt, as the reference
    /// encodes. No `<|begin_of_text|>` is added.
    pub fn encode_trusted(&self, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        self.encode(text, true, &mut found);
        found.into_iter().map(|token| token.id).collect()
    }

    /// Ids of a text in which nothing is special.
    pub fn encode_plain(&self, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        self.encode(text, false, &mut found);
        found.into_iter().map(|token| token.id).collect()
    }

    /// Appends the tokens of a text; their lengths add up to the text's.
    pub(crate) fn encode(&self, text: &str, specials: bool, out: &mut Vec<Found>) {
        let mut merger = Merger::default();
        let mut start = 0;
        if specials {
            for (at, id) in self.find_specials(text) {
                self.encode_words(&text[start..at], &mut merger, out);
                let len = self.bytes(id).len();
                out.push(Found { id, len });
                start = at + len;
            }
        }
        self.encode_words(&text[start..], &mut merger, out);
    }

    /// Where a text spells special tokens, in order: byte and id.
    pub(crate) fn find_specials(&self, text: &str) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(next) = text[at..].find("<|") {
            at += next;
            // All names end with the only "|>" they have, so the first one decides.
            let window = &text.as_bytes()[at..text.len().min(at + self.longest_special)];
            let special = window
                .windows(2)
                .position(|pair| pair == b"|>")
                .and_then(|end| Some((end + 2, self.special_of(&window[..end + 2])?)));
            match special {
                Some((len, id)) => {
                    found.push((at, id));
                    at += len;
                }
                None => at += 1,
            }
        }
        found
    }

    fn encode_words(&self, text: &str, merger: &mut Merger, out: &mut Vec<Found>) {
        let mut rest = text;
        while !rest.is_empty() {
            let (word, behind) = rest.split_at(next_word(rest));
            rest = behind;
            match self.rank(word.as_bytes()) {
                Some(id) => out.push(Found {
                    id,
                    len: word.len(),
                }),
                None => merger.merge(self, word.as_bytes(), out),
            }
        }
    }

    /// The text of these ids, special tokens by name. Incomplete UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            bytes.extend_from_slice(self.bytes(id));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What an id stands for.
    pub fn piece(&self, id: u32) -> Piece<'_> {
        let bytes = self.bytes(id);
        Piece {
            bytes,
            special: if id >= RANKS {
                std::str::from_utf8(bytes).ok().filter(|n| !n.is_empty())
            } else {
                None
            },
        }
    }

    /// The id of a special token by its full name, e.g. `<|eot_id|>`.
    pub fn special_id(&self, name: &str) -> Option<u32> {
        self.special_of(name.as_bytes())
    }

    fn special_of(&self, name: &[u8]) -> Option<u32> {
        let id = match name.strip_prefix(b"<|reserved_special_token_") {
            Some(rest) => {
                let slot = std::str::from_utf8(rest.strip_suffix(b"|>")?).ok()?;
                match slot.parse().ok()? {
                    slot @ (0 | 1) => RANKS + 2 + slot,
                    2 => RANKS + 5,
                    slot if slot < SPECIALS => RANKS + 8 + slot,
                    _ => return None,
                }
            }
            None => (RANKS..RANKS + 11).find(|&id| self.bytes(id) == name)?,
        };
        // "03" and "+3" are numbers too, but no names.
        (self.bytes(id) == name).then_some(id)
    }

    /// The bytes of a token; none for ids outside the vocabulary.
    fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        match (self.offsets.get(id), self.offsets.get(id + 1)) {
            (Some(&start), Some(&end)) => &self.blob[start as usize..end as usize],
            _ => &[],
        }
    }

    /// The ordinary token with exactly these bytes.
    fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let hash = hash(bytes);
        let mut slot = hash as usize % SLOTS;
        loop {
            let entry = self.table[slot];
            if entry == EMPTY {
                return None;
            }
            let id = entry & ((1 << ID_BITS) - 1);
            if entry - id == tag(hash) && self.bytes(id) == bytes {
                return Some(id);
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

/// The name of a special token.
fn special_name(id: u32) -> String {
    match id - RANKS {
        0 => "<|begin_of_text|>".into(),
        1 => "<|end_of_text|>".into(),
        slot @ (2 | 3) => format!("<|reserved_special_token_{}|>", slot - 2),
        4 => "<|finetune_right_pad_id|>".into(),
        5 => "<|reserved_special_token_2|>".into(),
        6 => "<|start_header_id|>".into(),
        7 => "<|end_header_id|>".into(),
        8 => "<|eom_id|>".into(),
        9 => "<|eot_id|>".into(),
        10 => "<|python_tag|>".into(),
        slot => format!("<|reserved_special_token_{}|>", slot - 8),
    }
}

fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = (bytes.len() as u64).wrapping_mul(FACTOR);
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(FACTOR);
        hash ^= hash >> 29;
    };
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        mix(u64::from_le_bytes(word));
    }
    let mut word = 0;
    for &byte in chunks.remainder() {
        word = word << 8 | u64::from(byte);
    }
    mix(word);
    hash ^ hash >> 32
}

fn checksum(bytes: &[u8]) -> u64 {
    hash(bytes)
}

/// The part of a hash that a slot keeps; never that of [`EMPTY`] together with a real id.
fn tag(hash: u64) -> u32 {
    ((hash >> 40) as u32) << ID_BITS
}

/// Length in bytes of the first match of [`PATTERN`] in a text that is not empty. The alternatives are
/// tried in the pattern's order; together they match every character.
fn next_word(text: &str) -> usize {
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return 0;
    };
    if first == '\''
        && let Some(len) = contraction(chars.as_str())
    {
        return 1 + len;
    }
    let after_first = first.len_utf8();
    let class_of_first = class(first);
    let class_of_second = chars.next().map(class);
    let rest = &text[after_first..];
    match class_of_first {
        Class::Letter => return after_first + run(rest, |c| c == Class::Letter),
        Class::Number => {
            let digits = rest
                .chars()
                .take(DIGITS - 1)
                .take_while(|c| class(*c) == Class::Number);
            return after_first + digits.map(char::len_utf8).sum::<usize>();
        }
        Class::Space | Class::Other if class_of_second == Some(Class::Letter) => {
            return after_first + run(rest, |c| c == Class::Letter);
        }
        Class::Other => return others(text),
        Class::Space if first == ' ' && class_of_second == Some(Class::Other) => {
            return after_first + others(rest);
        }
        Class::Space | Class::Newline => {}
    }
    // White space: up to the last line break in it; else all of it at the end of the text; else all but
    // the last character, which then goes with what follows, if it is not the only one.
    let mut end = 0;
    let mut behind_newline = 0;
    let mut last = 0;
    for c in text.chars() {
        match class(c) {
            Class::Newline => behind_newline = end + c.len_utf8(),
            Class::Space => {}
            _ => break,
        }
        last = end;
        end += c.len_utf8();
    }
    match behind_newline {
        0 if end == text.len() || last == 0 => end,
        0 => last,
        behind => behind,
    }
}

/// Length of ` ?[^\s\p{L}\p{N}]+[\r\n]*` behind its optional space.
fn others(text: &str) -> usize {
    let marks = run(text, |c| c == Class::Other);
    marks + run(&text[marks..], |c| c == Class::Newline)
}

fn run(text: &str, wanted: impl Fn(Class) -> bool) -> usize {
    text.char_indices()
        .find(|(_, c)| !wanted(class(*c)))
        .map_or(text.len(), |(at, _)| at)
}

/// Length of what follows the apostrophe of an English contraction. Case does not matter, and U+017F
/// is a small s to the pattern.
fn contraction(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let first = chars.next()?;
    match first.to_ascii_lowercase() {
        's' | '\u{17f}' | 't' | 'm' | 'd' => Some(first.len_utf8()),
        'r' | 'v' => chars
            .next()
            .filter(|c| c.eq_ignore_ascii_case(&'e'))
            .map(|_| 2),
        'l' => chars
            .next()
            .filter(|c| c.eq_ignore_ascii_case(&'l'))
            .map(|_| 2),
        _ => None,
    }
}

/// A pair that may be merged, best first: the rank of what it becomes, then the ranks of its parts
/// (the order in which `tokenizer.json` lists the merges), then its place.
type Candidate = Reverse<(u32, u32, u32, u32)>;

/// Merges the bytes of a word into tokens; keeps its buffers from word to word.
#[derive(Default)]
struct Merger {
    parts: Vec<Part>,
    queue: BinaryHeap<Candidate>,
}

#[derive(Clone, Copy)]
struct Part {
    id: u32,
    /// First byte; the next part's first byte is where it ends.
    start: u32,
    previous: u32,
    next: u32,
    merged: bool,
}

const NONE: u32 = u32::MAX;

impl Merger {
    fn merge(&mut self, tokenizer: &Llama3Tokenizer, word: &[u8], out: &mut Vec<Found>) {
        let count = word.len() as u32;
        self.parts.clear();
        self.queue.clear();
        for at in 0..count {
            let byte = &word[at as usize..=at as usize];
            self.parts.push(Part {
                // Every byte is a token: checked on loading.
                id: tokenizer.rank(byte).unwrap_or(NONE),
                start: at,
                previous: at.checked_sub(1).unwrap_or(NONE),
                next: if at + 1 < count { at + 1 } else { NONE },
                merged: false,
            });
        }
        for at in 0..count {
            self.offer(tokenizer, word, at);
        }
        while let Some(Reverse((rank, _, _, at))) = self.queue.pop() {
            let part = self.parts[at as usize];
            // The pair may have changed since it was queued.
            if part.merged || self.joined(tokenizer, word, at) != Some(rank) {
                continue;
            }
            let right = self.parts[part.next as usize];
            self.parts[part.next as usize].merged = true;
            self.parts[at as usize].id = rank;
            self.parts[at as usize].next = right.next;
            if right.next != NONE {
                self.parts[right.next as usize].previous = at;
            }
            if part.previous != NONE {
                self.offer(tokenizer, word, part.previous);
            }
            self.offer(tokenizer, word, at);
        }
        let mut at = 0;
        while at != NONE {
            let part = self.parts[at as usize];
            out.push(Found {
                id: part.id,
                len: self.end(&part, word) - part.start as usize,
            });
            at = part.next;
        }
    }

    fn end(&self, part: &Part, word: &[u8]) -> usize {
        match part.next {
            NONE => word.len(),
            next => self.parts[next as usize].start as usize,
        }
    }

    /// What the part at this place and its neighbour become, if anything.
    fn joined(&self, tokenizer: &Llama3Tokenizer, word: &[u8], at: u32) -> Option<u32> {
        let part = &self.parts[at as usize];
        if part.next == NONE {
            return None;
        }
        let end = self.end(&self.parts[part.next as usize], word);
        tokenizer.rank(&word[part.start as usize..end])
    }

    fn offer(&mut self, tokenizer: &Llama3Tokenizer, word: &[u8], at: u32) {
        if let Some(rank) = self.joined(tokenizer, word, at) {
            let part = self.parts[at as usize];
            let right = self.parts[part.next as usize].id;
            self.queue.push(Reverse((rank, part.id, right, at)));
        }
    }
}

/// What of a `tokenizer.json` matters here.
#[derive(Deserialize)]
struct Source {
    normalizer: Option<serde_json::Value>,
    pre_tokenizer: serde_json::Value,
    added_tokens: Vec<AddedToken>,
    model: Model,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
    special: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    single_word: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(default)]
    byte_fallback: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Joined(String),
}

impl Source {
    /// The bytes of all tokens by id, after checking that this is the expected tokenizer.
    fn tokens(&self) -> Result<Vec<Vec<u8>>, VocabularyError> {
        let wrong = |what: String| Err(VocabularyError::Source(what));
        if self.model.kind != "BPE" || !self.model.ignore_merges || self.model.byte_fallback {
            return wrong("its model is not byte-level BPE with ignore_merges".into());
        }
        if self.normalizer.is_some() {
            return wrong("it normalises its input".into());
        }
        let steps = &self.pre_tokenizer["pretokenizers"];
        if steps[0]["pattern"]["Regex"] != PATTERN
            || steps[0]["behavior"] != "Isolated"
            || steps[0]["invert"] != false
            || steps[1]["type"] != "ByteLevel"
            || steps[1]["add_prefix_space"] != false
            || steps[1]["use_regex"] != false
        {
            return wrong("it splits text into words otherwise".into());
        }
        let mut tokens = vec![Vec::new(); (RANKS + SPECIALS) as usize];
        let byte_of = byte_level();
        for (text, &id) in &self.model.vocab {
            if id >= RANKS {
                return wrong(format!("rank {id} of {text:?} is beyond {RANKS}"));
            }
            let bytes: Option<Vec<u8>> = text.chars().map(|c| byte_of.get(&c).copied()).collect();
            match bytes {
                Some(bytes) => tokens[id as usize] = bytes,
                None => return wrong(format!("{text:?} is not byte-level text")),
            }
        }
        if self.added_tokens.len() != SPECIALS as usize {
            return wrong(format!(
                "it has {} added tokens, not {SPECIALS}",
                self.added_tokens.len()
            ));
        }
        for (token, id) in self.added_tokens.iter().zip(RANKS..) {
            let expected = special_name(id);
            if token.id != id || token.content != expected {
                return wrong(format!(
                    "id {} is {}, expected {id} to be {expected}",
                    token.id, token.content
                ));
            }
            if !token.special
                || token.lstrip
                || token.rstrip
                || token.normalized
                || token.single_word
            {
                return wrong(format!("{} has unexpected settings", token.content));
            }
            tokens[id as usize] = token.content.clone().into_bytes();
        }
        if let Some(id) = tokens.iter().position(Vec::is_empty) {
            return wrong(format!("rank {id} is missing"));
        }
        Ok(tokens)
    }

    /// Merging by the rank of the result is right only if the listed merges are exactly all splits of
    /// all tokens, ordered by the rank of the result, then of the parts.
    fn check_merges(&self, tokens: &[Vec<u8>]) -> Result<(), VocabularyError> {
        let wrong = || VocabularyError::Source("its merges do not follow from its ranks".into());
        let byte_of = byte_level();
        let bytes = |text: &str| -> Option<Vec<u8>> {
            text.chars().map(|c| byte_of.get(&c).copied()).collect()
        };
        let rank_of: HashMap<&[u8], u32> = tokens[..RANKS as usize]
            .iter()
            .zip(0..)
            .map(|(token, id)| (token.as_slice(), id))
            .collect();
        let mut merges = self.model.merges.iter();
        for token in &tokens[..RANKS as usize] {
            let mut splits: Vec<(u32, u32)> = (1..token.len())
                .filter_map(|at| {
                    let (left, right) = token.split_at(at);
                    Some((*rank_of.get(left)?, *rank_of.get(right)?))
                })
                .collect();
            splits.sort_unstable();
            for (left, right) in splits {
                let listed = match merges.next().ok_or_else(wrong)? {
                    Merge::Pair(left, right) => Some((left.as_str(), right.as_str())),
                    Merge::Joined(pair) => pair.split_once(' '),
                };
                let (l, r) = listed.ok_or_else(wrong)?;
                if bytes(l).as_ref() != tokens.get(left as usize)
                    || bytes(r).as_ref() != tokens.get(right as usize)
                {
                    return Err(wrong());
                }
            }
        }
        match merges.next() {
            None => Ok(()),
            Some(_) => Err(wrong()),
        }
    }
}

/// The characters that stand for bytes in byte-level vocabularies: printable Latin-1 stands for itself,
/// the other bytes for the characters from U+0100 on.
fn byte_level() -> HashMap<char, u8> {
    let mut next = 0x100;
    (0..=255u8)
        .filter_map(|byte| {
            let code = match byte {
                b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => u32::from(byte),
                _ => {
                    next += 1;
                    next - 1
                }
            };
            Some((char::from_u32(code)?, byte))
        })
        .collect()
}
