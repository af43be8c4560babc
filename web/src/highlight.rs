//! Colouring of JSON text: which parts are keys, strings, and the rest. It never fails and never
//! loses a character, so text that is not JSON is shown as it is.

/// What a part of JSON text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A string before a colon.
    Key,
    /// Another string.
    Text,
    /// Punctuation, numbers, words, space.
    Rest,
}

/// Cuts JSON text into classed parts; put together they are the text.
pub fn classes(text: &str) -> Vec<(Class, &str)> {
    let mut parts = Vec::new();
    let mut rest = 0;
    let mut at = 0;
    while let Some(open) = text[at..].find('"').map(|i| at + i) {
        let mut escaped = false;
        let end = text[open + 1..]
            .char_indices()
            .find(|&(_, c)| {
                let closes = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            })
            .map_or(text.len(), |(i, _)| open + 1 + i + 1);
        if rest < open {
            parts.push((Class::Rest, &text[rest..open]));
        }
        let class = if text[end..].trim_start().starts_with(':') {
            Class::Key
        } else {
            Class::Text
        };
        parts.push((class, &text[open..end]));
        at = end;
        rest = end;
    }
    if rest < text.len() {
        parts.push((Class::Rest, &text[rest..]));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_strings() {
        assert_eq!(
            classes(r#"{"a": "b\"c", "n": 1}"#),
            [
                (Class::Rest, "{"),
                (Class::Key, "\"a\""),
                (Class::Rest, ": "),
                (Class::Text, r#""b\"c""#),
                (Class::Rest, ", "),
                (Class::Key, "\"n\""),
                (Class::Rest, ": 1}"),
            ]
        );
    }

    #[test]
    fn nothing_is_lost() {
        for text in [
            "",
            "\"",
            "{\"é\\",
            "no json",
            "\"a\\\\\":\"",
            "{\"ü\":\"\u{1f600}",
        ] {
            let joined: String = classes(text).into_iter().map(|(_, part)| part).collect();
            assert_eq!(joined, text);
        }
    }
}
