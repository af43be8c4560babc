//! The byte-level alphabet: a printable character for every byte, so that tokens are text.

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

/// The bytes that a text in this alphabet stands for; `None` if it has other characters.
pub(super) fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
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
}
