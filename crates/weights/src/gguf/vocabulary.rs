//! A GGUF file that holds a tokenizer and no tensors, as llama.cpp has them for its tests.

use super::TokenizerParts;
use super::parser::value_type;

/// The file of a tokenizer. [`super::Gguf::tokenizer_parts`] gives the same parts again.
pub fn write_vocabulary(parts: &TokenizerParts) -> Vec<u8> {
    let mut file = Writer::default();
    file.text("general.architecture", "llama");
    file.text("general.type", "vocab");
    file.text("tokenizer.ggml.model", &parts.model);
    if let Some(pre) = &parts.pre {
        file.text("tokenizer.ggml.pre", pre);
    }
    file.texts("tokenizer.ggml.tokens", parts.tokens.iter());
    if !parts.types.is_empty() {
        let types = parts.types.iter().map(|kind| kind.to_le_bytes());
        file.numbers("tokenizer.ggml.token_type", value_type::I32, types);
    }
    if !parts.scores.is_empty() {
        let scores = parts.scores.iter().map(|score| score.to_le_bytes());
        file.numbers("tokenizer.ggml.scores", value_type::F32, scores);
    }
    if !parts.merges.is_empty() {
        file.texts("tokenizer.ggml.merges", parts.merges.iter());
    }
    for (name, id) in [
        ("bos", parts.bos),
        ("eos", parts.eos),
        ("eot", parts.eot),
        ("eom", parts.eom),
        ("unknown", parts.unknown),
        ("padding", parts.padding),
    ] {
        if let Some(id) = id {
            file.key(&format!("tokenizer.ggml.{name}_token_id"), value_type::U32);
            file.bytes.extend(id.to_le_bytes());
        }
    }
    for (name, flag) in [("bos", parts.add_bos), ("eos", parts.add_eos)] {
        if let Some(flag) = flag {
            file.key(
                &format!("tokenizer.ggml.add_{name}_token"),
                value_type::BOOL,
            );
            file.bytes.push(flag.into());
        }
    }
    if let Some(template) = &parts.chat_template {
        file.text("tokenizer.chat_template", template);
    }
    if !parts.chat_templates.is_empty() {
        let names = parts.chat_templates.iter().map(|(name, _)| name);
        file.texts("tokenizer.chat_templates", names);
        for (name, template) in &parts.chat_templates {
            file.text(&format!("tokenizer.chat_template.{name}"), template);
        }
    }
    file.finish()
}

/// Metadata entries, one after another.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    count: u64,
}

impl Writer {
    fn string(&mut self, text: &str) {
        self.bytes.extend((text.len() as u64).to_le_bytes());
        self.bytes.extend(text.as_bytes());
    }

    fn key(&mut self, key: &str, kind: u32) {
        self.string(key);
        self.bytes.extend(kind.to_le_bytes());
        self.count += 1;
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key, value_type::STR);
        self.string(text);
    }

    fn array(&mut self, key: &str, kind: u32, len: usize) {
        self.key(key, value_type::ARRAY);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((len as u64).to_le_bytes());
    }

    fn texts<'a>(&mut self, key: &str, texts: impl ExactSizeIterator<Item = &'a String>) {
        self.array(key, value_type::STR, texts.len());
        for text in texts {
            self.string(text);
        }
    }

    fn numbers(&mut self, key: &str, kind: u32, numbers: impl ExactSizeIterator<Item = [u8; 4]>) {
        self.array(key, kind, numbers.len());
        self.bytes.extend(numbers.flatten());
    }

    fn finish(self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        // No tensors.
        file.extend(0u64.to_le_bytes());
        file.extend(self.count.to_le_bytes());
        file.extend(self.bytes);
        file
    }
}
