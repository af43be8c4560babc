//! SHA-256 of files and how it is written.

use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A hash in 64 hexadecimal digits, in lower case.
pub fn hex(hash: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    hash.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The hash in 64 hexadecimal digits, of either case; `None` for any other text.
pub fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_and_read() {
        // The hash of no bytes, from FIPS 180-4's examples.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&sha256(b"")), empty);
        assert_eq!(parse_hex(empty), Some(sha256(b"")));
        assert_eq!(parse_hex(&empty.to_uppercase()), Some(sha256(b"")));
        assert_eq!(parse_hex(&empty[1..]), None);
        assert_eq!(parse_hex(&empty.replace('e', "g")), None);
        assert_eq!(parse_hex(&"é".repeat(32)), None);
    }
}
