//! A byte-level BPE vocabulary of any size.

use std::collections::HashSet;

/// Words that are one token each, with the space before them: here by construction, and in every large
/// byte-level vocabulary for English. Prompts made of them have the same length everywhere.
pub const WORDS: [&str; 18] = [
    "the", "of", "and", "to", "in", "is", "was", "for", "that", "with", "as", "on", "by", "at",
    "from", "it", "he", "his",
];

/// Control tokens, at the end of the vocabulary as in Llama 3.
pub const CONTROL: usize = 256;

/// Llama 3.1's control tokens; where it has none, one is reserved.
const NAMES: [(usize, &str); 8] = [
    (BEGIN_OF_TEXT, "<|begin_of_text|>"),
    (END_OF_TEXT, "<|end_of_text|>"),
    (4, "<|finetune_right_pad_id|>"),
    (6, "<|start_header_id|>"),
    (7, "<|end_header_id|>"),
    (END_OF_MESSAGE, "<|eom_id|>"),
    (END_OF_TURN, "<|eot_id|>"),
    (10, "<|python_tag|>"),
];

/// Places among the control tokens.
pub const BEGIN_OF_TEXT: usize = 0;
pub const END_OF_TEXT: usize = 1;
pub const END_OF_MESSAGE: usize = 8;
pub const END_OF_TURN: usize = 9;

/// Messages as Llama 3 lays them out, without its tools.
pub const TEMPLATE: &str = "{{- bos_token }}{%- for message in messages %}{{- '<|start_header_id|>' + \
    message['role'] + '<|end_header_id|>\\n\\n' + (message['content'] | trim) + '<|eot_id|>' }}\
    {%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\
    {%- endif %}";

/// The vocabulary.
pub struct Vocabulary {
    /// Texts by id, the control tokens last.
    pub tokens: Vec<String>,
    /// In the order of their rank.
    pub merges: Vec<(String, String)>,
}

impl Vocabulary {
    /// Printable ASCII: every character, [`WORDS`], then all pairs and triples as far as they fit.
    /// Whatever a model of it says is UTF-8, which not every program takes for granted.
    pub fn new(size: usize) -> Self {
        // A space and a line break as byte-level vocabularies spell them.
        let characters = ['Ġ', 'Ċ'].into_iter().chain('!'..='~').collect::<Vec<_>>();
        let mut tokens = characters.iter().map(char::to_string).collect::<Vec<_>>();
        // A word grows from its first character on; these merges come first, so that no other cuts it up.
        let words = WORDS.iter().flat_map(|word| {
            (1..=word.len()).map(|end| {
                (
                    format!("Ġ{}", &word[..end - 1]),
                    word[end - 1..end].to_owned(),
                )
            })
        });
        let characters = characters.as_slice();
        let with_each = |left: String| {
            let rights = characters.iter();
            rights.map(move |right| (left.clone(), right.to_string()))
        };
        let singles = || characters.iter().map(char::to_string);
        let pairs = singles().flat_map(with_each);
        let triples = singles()
            .flat_map(|first| singles().map(move |second| format!("{first}{second}")))
            .flat_map(with_each);
        let mut known = tokens.iter().cloned().collect::<HashSet<_>>();
        let mut merges = Vec::new();
        for (left, right) in words.chain(pairs).chain(triples) {
            if tokens.len() == size - CONTROL {
                break;
            }
            let token = format!("{left}{right}");
            if known.insert(token.clone()) {
                merges.push((left, right));
                tokens.push(token);
            }
        }
        tokens.extend(control());
        Self { tokens, merges }
    }

    /// The id of a control token, by its place among them.
    pub fn control(&self, place: usize) -> usize {
        self.tokens.len() - CONTROL + place
    }
}

/// Names of the control tokens.
fn control() -> impl Iterator<Item = String> {
    let mut reserved = 0;
    (0..CONTROL).map(move |place| {
        if let Some((_, name)) = NAMES.iter().find(|(named, _)| *named == place) {
            return (*name).to_owned();
        }
        reserved += 1;
        format!("<|reserved_special_token_{}|>", reserved - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_and_every_merge_makes_a_token() {
        for size in [1000, 32_000] {
            let Vocabulary { tokens, merges } = Vocabulary::new(size);
            let known = tokens.iter().collect::<HashSet<_>>();
            assert_eq!((tokens.len(), known.len()), (size, size));
            for (left, right) in merges {
                assert!(known.contains(&left) && known.contains(&right));
                assert!(known.contains(&format!("{left}{right}")));
            }
            for word in WORDS {
                assert!(known.contains(&format!("Ġ{word}")), "{word}");
            }
        }
    }

    #[test]
    fn control_tokens_have_llama_3s_ids() {
        let vocabulary = Vocabulary::new(128_256);
        for (id, name) in [
            (128_000, "<|begin_of_text|>"),
            (128_005, "<|reserved_special_token_2|>"),
            (128_009, "<|eot_id|>"),
            (128_011, "<|reserved_special_token_3|>"),
            (128_255, "<|reserved_special_token_247|>"),
        ] {
            assert_eq!(vocabulary.tokens[id], name);
        }
        assert_eq!(vocabulary.control(END_OF_TURN), 128_009);
    }
}
