//! Making whitespace visible: a piece of text cut into plain runs and marks.

/// A part of a piece of text as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Shown as it is.
    Plain(String),
    /// Whitespace or a control character, shown by its mark.
    Mark(String),
}

impl Part {
    /// What is shown.
    pub fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Mark(text) => text,
        }
    }

    /// Whether it stands for something that would not be seen.
    pub fn is_mark(&self) -> bool {
        matches!(self, Self::Mark(_))
    }
}

/// The mark of a character that would not be seen, if it is one.
fn mark(c: char) -> Option<String> {
    Some(match c {
        ' ' => "·".into(),
        '\n' => "↵".into(),
        '\t' => "⇥".into(),
        '\r' => "␍".into(),
        '\u{a0}' => "⍽".into(),
        // Control and format characters (joiners, direction marks, the byte order mark) act on
        // their surroundings; their number shows them and keeps them from acting.
        '\u{0}'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => {
            format!("U+{:04X}", u32::from(c))
        }
        _ => return None,
    })
}

/// Cuts text into runs of plain characters and runs of marks.
pub fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for c in text.chars() {
        match (mark(c), parts.last_mut()) {
            (Some(m), Some(Part::Mark(last))) => last.push_str(&m),
            (Some(m), _) => parts.push(Part::Mark(m)),
            (None, Some(Part::Plain(last))) => last.push(c),
            (None, _) => parts.push(Part::Plain(c.into())),
        }
    }
    parts
}

/// Bytes in hexadecimal, as `20 7B 22`.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The first `limit` characters of a text on one line, with `…` when something was left off.
pub fn one_line(text: &str, limit: usize) -> String {
    let mut line: String = text
        .chars()
        .take(limit)
        .map(|c| if c == '\n' { '↵' } else { c })
        .collect();
    if text.chars().nth(limit).is_some() {
        line.push('…');
    }
    line
}

/// Lines and bytes that a long text shows at first.
const LINES: usize = 24;
const BYTES: usize = 4_000;

/// Where a long text is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Bytes that are shown: whole lines, as far as there are.
    pub end: usize,
    /// Lines of the whole text.
    pub lines: usize,
}

/// Where to fold a text, if it is so long that its end is far from its beginning.
pub fn fold(text: &str) -> Option<Fold> {
    let lines = text.bytes().filter(|&byte| byte == b'\n').count() + 1;
    // Folding hides a good part or nothing.
    if lines <= LINES + LINES / 2 && text.len() <= BYTES + BYTES / 2 {
        return None;
    }
    let end = text
        .match_indices('\n')
        .nth(LINES - 1)
        .map_or(text.len(), |(at, _)| at + 1);
    let end = if end > BYTES {
        let limit = text.floor_char_boundary(BYTES);
        text[..limit].rfind('\n').map_or(limit, |at| at + 1)
    } else {
        end
    };
    Some(Fold { end, lines })
}

/// Characters before a byte position (which must be a character boundary or past the end).
pub fn chars_before(text: &str, byte: usize) -> usize {
    text.char_indices().take_while(|(at, _)| *at < byte).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_becomes_marks_and_the_rest_stays() {
        assert_eq!(
            parts(" a\n\n\tb"),
            [
                Part::Mark("·".into()),
                Part::Plain("a".into()),
                Part::Mark("↵↵⇥".into()),
                Part::Plain("b".into())
            ]
        );
        assert_eq!(parts(""), []);
    }

    #[test]
    fn long_texts_are_folded_at_a_line() {
        assert_eq!(fold("short"), None);
        assert_eq!(fold(&"line\n".repeat(30)), None);
        let long = "line\n".repeat(99);
        assert_eq!(
            fold(&long),
            Some(Fold {
                end: 24 * 5,
                lines: 100
            })
        );
        let wide = fold(&"é".repeat(9_000)).expect("folded");
        assert_eq!((wide.end, wide.lines), (4_000, 1));
        let both = format!("{}\n{}", "a".repeat(3_000), "b".repeat(9_000));
        assert_eq!(fold(&both).map(|fold| fold.end), Some(3_001));
    }

    #[test]
    fn direction_marks_cannot_act() {
        assert_eq!(parts("\u{202e}"), [Part::Mark("U+202E".into())]);
        assert_eq!(parts("ש"), [Part::Plain("ש".into())]);
    }

    #[test]
    fn positions_count_characters() {
        assert_eq!(chars_before("aé€b", 6), 3);
        assert_eq!(chars_before("abc", 0), 0);
        assert_eq!(one_line("a\nbc", 3), "a↵b…");
        assert_eq!(hex(&[0x20, 0x7b]), "20 7B");
    }
}
