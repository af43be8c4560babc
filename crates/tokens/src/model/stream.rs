//! Decoding ids one by one.

use super::ModelTokenizer;

/// Decodes ids one by one and holds back characters that are not complete yet. All its texts together
/// are what [`ModelTokenizer::decode`] gives for all the ids.
#[derive(Clone, Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a ModelTokenizer,
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl<'a> StreamDecoder<'a> {
    pub(super) fn new(tokenizer: &'a ModelTokenizer) -> Self {
        Self {
            tokenizer,
            pending: Vec::new(),
        }
    }

    /// Takes a token and returns the text that is complete with it, perhaps none.
    pub fn push(&mut self, id: u32) -> String {
        self.pending.extend(self.tokenizer.piece(id));
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
