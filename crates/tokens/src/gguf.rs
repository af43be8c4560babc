//! The tokenizer that a GGUF file carries in its metadata: byte-level BPE.
//!
//! The words that a text is cut into before merging depend on the model's pre-tokenizer
//! (`tokenizer.ggml.pre`). Text is taken as it is: where the original tokenizer would first compose
//! Unicode characters (Qwen 2), this one, like llama.cpp, does not.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::classes::{Class, class};
use crate::llama3::next_word;

/// What a GGUF file says about its tokenizer, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// `tokenizer.ggml.model`; only `gpt2` (byte-level BPE) is understood.
    pub model: String,
    /// `tokenizer.ggml.pre`: the name of the pre-tokenizer.
    pub pre: Option<String>,
    /// The token texts by id, in the byte-level alphabet.
    pub tokens: Vec<String>,
    /// Token types by id (1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte); empty if
    /// the file has none.
    pub types: Vec<i32>,
    /// Merges in order of rank, the two parts separated by a space.
    pub merges: Vec<String>,
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// End of a text, for instruct models often of a turn.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// End of a message that expects a tool's answer.
    pub eom: Option<u32>,
    /// Whether a text is to begin with `bos`.
    pub add_bos: Option<bool>,
}

/// Why a tokenizer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufTokenizerError {
    /// Another kind of tokenizer.
    #[error("its kind is \"{0}\", but only byte-level BPE (\"gpt2\") is supported")]
    Model(String),
    /// A pre-tokenizer whose rules are not known.
    #[error(
        "its pre-tokenizer is \"{0}\"; supported are llama-bpe, smollm, qwen2, gpt-2 and default"
    )]
    PreTokenizer(String),
    /// Lists contradict each other.
    #[error("{0}")]
    Inconsistent(String),
    /// A merge that cannot be done.
    #[error("merge {index} (\"{merge}\") does not join two tokens to a third")]
    Merge {
        /// Its place in the list.
        index: usize,
        /// The merge as the file has it.
        merge: String,
    },
}

/// How a text is cut into words before merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    /// GPT-2's pattern.
    Gpt2,
    /// Every digit alone, then GPT-2's pattern on what lies between them.
    DigitsThenGpt2,
    /// Llama 3's pattern, with so many digits to a word.
    Llama3 { digits: usize },
}

/// A byte-level BPE tokenizer with special tokens.
///
/// Bytes that have no token of their own are dropped in encoding, as the `tokenizers` library does.
#[derive(Debug)]
pub struct GgufTokenizer {
    words: Words,
    /// Whether a word that is a token is taken whole, without merging.
    whole_words: bool,
    pieces: Pieces,
    /// Ids of tokens that text can become, found by their bytes.
    by_bytes: ByBytes,
    byte_ids: [Option<u32>; 256],
    /// What a pair of ids becomes, and how early.
    merges: HashMap<u64, Merge, BuildHasherDefault<PairHasher>>,
    specials: Specials,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    stops: Vec<u32>,
    add_bos: bool,
}

#[derive(Clone, Copy, Debug)]
struct Merge {
    rank: u32,
    id: u32,
}

mod token_type {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
}

/// Control tokens that end a turn or a text, by the names models give them.
const STOP_NAMES: [&str; 8] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
];

impl GgufTokenizer {
    /// Builds the tokenizer.
    ///
    /// # Errors
    /// When the kind or the pre-tokenizer is unknown, or when the lists contradict each other.
    pub fn new(parts: Parts) -> Result<Self, GgufTokenizerError> {
        if parts.model != "gpt2" {
            return Err(GgufTokenizerError::Model(parts.model));
        }
        let (words, whole_words) = match parts.pre.as_deref().unwrap_or("default") {
            "llama-bpe" | "llama3" | "llama-v3" => (Words::Llama3 { digits: 3 }, true),
            "qwen2" => (Words::Llama3 { digits: 1 }, false),
            "smollm" | "starcoder" | "refact" => (Words::DigitsThenGpt2, false),
            "gpt-2" | "default" => (Words::Gpt2, false),
            other => return Err(GgufTokenizerError::PreTokenizer(other.to_owned())),
        };
        let count = parts.tokens.len();
        let types = match parts.types.len() {
            0 => vec![token_type::NORMAL; count],
            len if len == count => parts.types,
            len => {
                let what = format!("there are {len} token types for {count} tokens");
                return Err(GgufTokenizerError::Inconsistent(what));
            }
        };
        let mut control: Vec<bool> = types
            .iter()
            .map(|kind| matches!(*kind, token_type::UNKNOWN | token_type::CONTROL))
            .collect();
        for id in [parts.bos, parts.eos, parts.eot, parts.eom]
            .into_iter()
            .flatten()
        {
            match control.get_mut(id as usize) {
                Some(control) => *control = true,
                None => {
                    let what = format!("a special token has the id {id} of {count} tokens");
                    return Err(GgufTokenizerError::Inconsistent(what));
                }
            }
        }

        let mut pieces = Pieces::default();
        let mut in_text = Vec::new();
        for (id, token) in parts.tokens.iter().enumerate() {
            let mapped = match types[id] {
                // These are spelled as they are.
                token_type::USER_DEFINED => None,
                _ if control[id] => None,
                _ => bytes_of(token),
            };
            match mapped {
                Some(bytes) => {
                    pieces.push(&bytes);
                    in_text.push(id as u32);
                }
                None => pieces.push(token.as_bytes()),
            }
        }
        let by_bytes = ByBytes::new(&pieces, &in_text);
        let byte_ids = std::array::from_fn(|byte| by_bytes.find(&pieces, &[byte as u8]));
        let merges = merges(&parts.merges, &pieces, &by_bytes)?;

        let listed =
            |id: &u32| control[*id as usize] || types[*id as usize] == token_type::USER_DEFINED;
        let specials = (0..count as u32).filter(listed);
        let mut stops: Vec<u32> = [parts.eos, parts.eot, parts.eom]
            .into_iter()
            .flatten()
            .collect();
        stops.extend((0..count as u32).filter(|id| {
            control[*id as usize] && STOP_NAMES.contains(&parts.tokens[*id as usize].as_str())
        }));
        let named = |name: &str| {
            let id = parts.tokens.iter().position(|token| token == name)?;
            control[id].then_some(id as u32)
        };
        Ok(Self {
            specials: Specials::new(&pieces, specials, control.clone()),
            bos: parts.bos,
            eos: parts.eos,
            eot: parts
                .eot
                .or_else(|| named("<|eot_id|>"))
                .or_else(|| named("<|im_end|>")),
            add_bos: parts.bos.is_some()
                && parts
                    .add_bos
                    .unwrap_or(words == Words::Llama3 { digits: 3 }),
            words,
            whole_words,
            pieces,
            by_bytes,
            byte_ids,
            merges,
            stops,
        })
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.pieces.len()
    }

    /// Beginning of a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// End of a text, for instruct models often of a turn.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// End of a turn, where the file or a well-known name tells it.
    pub fn eot(&self) -> Option<u32> {
        self.eot
    }

    /// Whether a text is to begin with [`Self::bos`]. [`Self::encode`] never adds it.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether generation ends with this token.
    pub fn is_stop(&self, id: u32) -> bool {
        self.stops.contains(&id)
    }

    /// Whether this is a control token and not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.specials.control.get(id as usize) == Some(&true)
    }

    /// The ids of a text.
    ///
    /// With `parse_special` the names of special tokens in the text become these tokens; without, all
    /// of it is plain text, whatever it spells.
    pub fn encode(&self, text: &str, parse_special: bool) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut merger = Merger::default();
        let mut start = 0;
        if parse_special {
            for (at, id) in self.specials.find(&self.pieces, text) {
                self.encode_plain(&text[start..at], &mut merger, &mut ids);
                ids.push(id);
                start = at + self.piece(id).len();
            }
        }
        self.encode_plain(&text[start..], &mut merger, &mut ids);
        ids
    }

    fn encode_plain(&self, text: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        let is_number = |c: char| class(c) == Class::Number;
        let mut rest = text;
        while !rest.is_empty() {
            let len = match self.words {
                Words::Llama3 { digits } => next_word(rest, digits),
                Words::Gpt2 => gpt2_word(rest),
                Words::DigitsThenGpt2 => match rest.chars().next() {
                    Some(first) if is_number(first) => first.len_utf8(),
                    _ => gpt2_word(&rest[..rest.find(is_number).unwrap_or(rest.len())]),
                },
            };
            let (word, behind) = rest.split_at(len);
            rest = behind;
            let whole = self
                .by_bytes
                .find(&self.pieces, word.as_bytes())
                .filter(|_| self.whole_words);
            match whole {
                Some(id) => ids.push(id),
                None => merger.merge(self, word.as_bytes(), ids),
            }
        }
    }

    /// The bytes a token stands for; special tokens stand for their names. Empty for an id out of
    /// range.
    pub fn piece(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// [`Self::piece`] as text; parts of characters become U+FFFD.
    pub fn piece_text(&self, id: u32) -> String {
        String::from_utf8_lossy(self.piece(id)).into_owned()
    }

    /// The text of these ids, special tokens by name, nothing added or tidied up. Bytes that are not
    /// UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.piece(*id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A decoder for ids that come one by one.
    pub fn stream(&self) -> StreamDecoder<'_> {
        StreamDecoder {
            tokenizer: self,
            pending: Vec::new(),
        }
    }
}

/// Decodes ids one by one and holds back characters that are not complete yet. All its texts together
/// are what [`GgufTokenizer::decode`] gives for all the ids.
#[derive(Clone, Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a GgufTokenizer,
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl StreamDecoder<'_> {
    /// Takes a token and returns the text that is complete with it, perhaps none.
    pub fn push(&mut self, id: u32) -> String {
        self.pending.extend_from_slice(self.tokenizer.piece(id));
        let mut text = String::new();
        let mut used = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = used + invalid.len() == self.pending.len();
            let unfinished = at_end
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if !invalid.is_empty() && !unfinished {
                text.push(char::REPLACEMENT_CHARACTER);
                used += invalid.len();
            }
        }
        self.pending.drain(..used);
        text
    }

    /// What was held back, with U+FFFD for characters that never became complete. The decoder may be
    /// used again.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

/// The byte that a character of the byte-level alphabet stands for: printable characters of Latin-1
/// stand for themselves, the others follow from U+0100 on in their order.
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match c {
        '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}' => code,
        '\u{100}'..='\u{120}' => code - 0x100,
        '\u{121}'..='\u{142}' => code - 0x121 + 0x7f,
        '\u{143}' => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

/// The bytes of all tokens in one piece of memory.
#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Pieces {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).and_then(|before| self.ends.get(before));
        match self.ends.get(id) {
            Some(end) => &self.bytes[start.copied().unwrap_or(0)..*end],
            None => &[],
        }
    }
}

/// A hash table from bytes to ids that keeps the bytes in [`Pieces`].
#[derive(Debug)]
struct ByBytes {
    /// A power of two of places, at most half of them taken.
    places: Vec<Option<u32>>,
}

impl ByBytes {
    fn new(pieces: &Pieces, ids: &[u32]) -> Self {
        let mut table = Self {
            places: vec![None; (ids.len() * 2).next_power_of_two().max(2)],
        };
        for id in ids {
            let place = table.place(pieces, pieces.get(*id));
            // Of equal tokens the first counts.
            table.places[place].get_or_insert(*id);
        }
        table
    }

    /// The place where `bytes` are or would be.
    fn place(&self, pieces: &Pieces, bytes: &[u8]) -> usize {
        let mask = self.places.len() - 1;
        // FNV-1a, its better high half folded down.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut place = (hash ^ hash >> 32) as usize & mask;
        while self.places[place].is_some_and(|id| pieces.get(id) != bytes) {
            place = (place + 1) & mask;
        }
        place
    }

    fn find(&self, pieces: &Pieces, bytes: &[u8]) -> Option<u32> {
        self.places[self.place(pieces, bytes)]
    }
}

/// Spreads a pair of ids; nobody gains from making these collide.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, pair: u64) {
        let mixed = (self.0 ^ pair).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

fn merges(
    list: &[String],
    pieces: &Pieces,
    by_bytes: &ByBytes,
) -> Result<HashMap<u64, Merge, BuildHasherDefault<PairHasher>>, GgufTokenizerError> {
    let mut merges = HashMap::with_capacity_and_hasher(list.len(), BuildHasherDefault::default());
    for (index, merge) in list.iter().enumerate() {
        let join = || {
            let (left, right) = merge.split_once(' ')?;
            let (left, right) = (bytes_of(left)?, bytes_of(right)?);
            let id = |bytes: &[u8]| by_bytes.find(pieces, bytes);
            let key = pair(id(&left)?, id(&right)?);
            let joined = id(&[left, right].concat())?;
            Some((key, joined))
        };
        let Some((key, id)) = join() else {
            return Err(GgufTokenizerError::Merge {
                index,
                merge: merge.clone(),
            });
        };
        let rank = index as u32;
        merges.entry(key).or_insert(Merge { rank, id });
    }
    Ok(merges)
}

/// Tokens that are recognised by name.
#[derive(Debug)]
struct Specials {
    /// Ids by the first byte of the name, longest names first.
    by_first: HashMap<u8, Vec<u32>>,
    /// By id: whether the token is no text.
    control: Vec<bool>,
}

impl Specials {
    fn new(pieces: &Pieces, ids: impl Iterator<Item = u32>, control: Vec<bool>) -> Self {
        let mut by_first: HashMap<u8, Vec<u32>> = HashMap::new();
        for id in ids {
            if let Some(first) = pieces.get(id).first() {
                by_first.entry(*first).or_default().push(id);
            }
        }
        for ids in by_first.values_mut() {
            ids.sort_by_key(|id| Reverse(pieces.get(*id).len()));
        }
        Self { by_first, control }
    }

    /// Where a text spells special tokens, in order: byte and id. Of several that begin at one place
    /// the longest counts.
    fn find(&self, pieces: &Pieces, text: &str) -> Vec<(usize, u32)> {
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let here = self.by_first.get(&bytes[at]).and_then(|ids| {
                ids.iter()
                    .find(|id| bytes[at..].starts_with(pieces.get(**id)))
            });
            match here {
                Some(id) => {
                    found.push((at, *id));
                    at += pieces.get(*id).len();
                }
                None => at += 1,
            }
        }
        found
    }
}

/// Length of the first match of GPT-2's pattern in a text that is not empty:
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
fn gpt2_word(text: &str) -> usize {
    /// Newlines are not told from other white space here.
    fn kind(c: char) -> Class {
        match class(c) {
            Class::Newline => Class::Space,
            other => other,
        }
    }
    let run = |text: &str, wanted: Class| text.find(|c| kind(c) != wanted).unwrap_or(text.len());

    let contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    if let Some(found) = contractions.iter().find(|word| text.starts_with(**word)) {
        return found.len();
    }
    let (space, rest) = match text.strip_prefix(' ') {
        Some(rest) => (1, rest),
        None => (0, text),
    };
    if let Some(first) = rest
        .chars()
        .next()
        .map(kind)
        .filter(|kind| *kind != Class::Space)
    {
        return space + run(rest, first);
    }
    // White space: all of it at the end of the text, else all but the last character, which goes with
    // what follows if it is a space, if it is not the only one.
    let end = run(text, Class::Space);
    if end == text.len() {
        return end;
    }
    match text[..end].char_indices().next_back() {
        None | Some((0, _)) => end,
        Some((last, _)) => last,
    }
}

/// Merges the bytes of a word into tokens; keeps its buffers from word to word.
#[derive(Default)]
struct Merger {
    parts: Vec<Part>,
    /// Merges that may be done, earliest rank first, then leftmost.
    queue: BinaryHeap<Reverse<(u32, u32)>>,
}

#[derive(Clone, Copy)]
struct Part {
    id: u32,
    previous: u32,
    next: u32,
    merged: bool,
}

const NONE: u32 = u32::MAX;

impl Merger {
    fn merge(&mut self, tokenizer: &GgufTokenizer, word: &[u8], ids: &mut Vec<u32>) {
        self.parts.clear();
        self.queue.clear();
        for id in word
            .iter()
            .filter_map(|byte| tokenizer.byte_ids[usize::from(*byte)])
        {
            let at = self.parts.len() as u32;
            self.parts.push(Part {
                id,
                previous: at.checked_sub(1).unwrap_or(NONE),
                next: at + 1,
                merged: false,
            });
        }
        match self.parts.last_mut() {
            Some(last) => last.next = NONE,
            None => return,
        }
        for at in 0..self.parts.len() as u32 {
            self.offer(tokenizer, at);
        }
        while let Some(Reverse((rank, at))) = self.queue.pop() {
            let part = self.parts[at as usize];
            // The pair may have changed since it was queued.
            let Some(merge) = self
                .joined(tokenizer, at)
                .filter(|merge| merge.rank == rank)
            else {
                continue;
            };
            let right = self.parts[part.next as usize];
            self.parts[part.next as usize].merged = true;
            self.parts[at as usize].id = merge.id;
            self.parts[at as usize].next = right.next;
            if right.next != NONE {
                self.parts[right.next as usize].previous = at;
            }
            if part.previous != NONE {
                self.offer(tokenizer, part.previous);
            }
            self.offer(tokenizer, at);
        }
        let mut at = 0;
        while at != NONE {
            let part = self.parts[at as usize];
            ids.push(part.id);
            at = part.next;
        }
    }

    /// What the part at this place and its neighbour become, if anything.
    fn joined(&self, tokenizer: &GgufTokenizer, at: u32) -> Option<Merge> {
        let part = self.parts[at as usize];
        if part.merged || part.next == NONE {
            return None;
        }
        let right = self.parts[part.next as usize];
        tokenizer.merges.get(&pair(part.id, right.id)).copied()
    }

    fn offer(&mut self, tokenizer: &GgufTokenizer, at: u32) {
        if let Some(merge) = self.joined(tokenizer, at) {
            self.queue.push(Reverse((merge.rank, at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_level_alphabet_names_every_byte_once() {
        let mut names: Vec<(u8, char)> = ('\0'..='\u{200}')
            .filter_map(|c| Some((byte_of(c)?, c)))
            .collect();
        names.sort_unstable();
        assert_eq!(names.len(), 256);
        assert!(
            names
                .iter()
                .zip(0..=255)
                .all(|((byte, _), expected)| *byte == expected)
        );
        assert_eq!(bytes_of("Ġa").as_deref(), Some(&b" a"[..]));
        assert_eq!(bytes_of("Ċ").as_deref(), Some(&b"\n"[..]));
        assert_eq!(bytes_of("a b"), None);
    }

    #[test]
    fn gpt2_words() {
        let split = |mut rest: &str| {
            let mut words = Vec::new();
            while !rest.is_empty() {
                let (word, behind) = rest.split_at(gpt2_word(rest));
                words.push(word.to_owned());
                rest = behind;
            }
            words
        };
        assert_eq!(split("Don't  stop"), ["Don", "'t", " ", " stop"]);
        assert_eq!(
            split("a1 22  !? \n\n b"),
            ["a", "1", " 22", " ", " !?", " \n\n", " b"]
        );
        assert_eq!(split("x\n\ny \t"), ["x", "\n", "\n", "y", " \t"]);
        assert_eq!(split(" 's 'S"), [" '", "s", " '", "S"]);
    }
}
