//! Text in a link's fragment: deflate, then base64url, behind a version. Pure, and bounded both ways.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// What this page writes.
const VERSION: u32 = 1;
/// The longest payload in characters. Chat programs and mail cut longer links, or refuse them.
pub const LONGEST: usize = 32_000;
/// The most text that a payload may hold, in bytes: a few bytes can swell to gigabytes.
const LARGEST: usize = 4 << 20;
/// How hard to look for a shorter form; more gains nothing worth the time.
const LEVEL: u8 = 9;

/// Why a link is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A later version of the page wrote it.
    Newer,
    /// Something is missing or changed.
    Damaged,
    /// It is longer, or holds more, than this page ever writes.
    TooLarge,
    /// It holds no state.
    Content(String),
}

impl Refused {
    /// In words, with what to do.
    pub fn words(&self) -> String {
        match self {
            Self::Newer => "This link was made by a newer version of this page. Load the page again; if it says the same, ask for a new link.".into(),
            Self::Damaged => "This link is damaged: a part of it is missing or changed, as happens where mail breaks long lines. Ask for it again.".into(),
            Self::TooLarge => "This link holds more than this page writes into one, so it is not followed.".into(),
            Self::Content(what) => format!("This link holds no state of the page: {what}."),
        }
    }
}

/// The payload with its version. It may be longer than [`LONGEST`]: whoever offers it says so.
pub fn pack(text: &str) -> String {
    let packed = URL_SAFE_NO_PAD.encode(compress_to_vec(text.as_bytes(), LEVEL));
    format!("{VERSION}.{packed}")
}

/// The text in a payload with its version.
///
/// # Errors
/// Why there is none.
pub fn unpack(payload: &str) -> Result<String, Refused> {
    let (version, packed) = payload.split_once('.').ok_or(Refused::Damaged)?;
    match version.parse::<u32>() {
        Ok(VERSION) => {}
        Ok(later) if later > VERSION => return Err(Refused::Newer),
        _ => return Err(Refused::Damaged),
    }
    if packed.len() > LONGEST {
        return Err(Refused::TooLarge);
    }
    let packed = URL_SAFE_NO_PAD
        .decode(packed)
        .map_err(|_| Refused::Damaged)?;
    let bytes = decompress_to_vec_with_limit(&packed, LARGEST).map_err(|error| {
        if error.output.len() >= LARGEST {
            Refused::TooLarge
        } else {
            Refused::Damaged
        }
    })?;
    String::from_utf8(bytes).map_err(|_| Refused::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_text_comes_back(text in "\\PC{0,400}") {
            prop_assert_eq!(unpack(&pack(&text)), Ok(text));
        }

        #[test]
        fn a_payload_needs_no_escaping(text in any::<String>()) {
            let payload = pack(&text);
            prop_assert!(payload.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)));
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600), text in any::<String>()) {
            let _ = unpack(&format!("1.{}", URL_SAFE_NO_PAD.encode(bytes)));
            let _ = unpack(&text);
        }

        #[test]
        fn a_cut_link_is_refused(text in "[a-z ]{20,200}", share in 0.0..1.0) {
            let payload = pack(&text);
            let cut = 2 + ((payload.len() - 2) as f64 * share) as usize;
            prop_assert!(unpack(&payload[..cut]).is_err());
        }
    }

    #[test]
    fn bombs_are_not_unpacked() {
        let bomb = pack(&"a".repeat(LARGEST + 1));
        assert!(bomb.len() < LONGEST);
        assert_eq!(unpack(&bomb), Err(Refused::TooLarge));
        assert!(unpack(&pack(&"a".repeat(LARGEST - 1))).is_ok());
    }

    #[test]
    fn versions() {
        assert_eq!(unpack("2.abc"), Err(Refused::Newer));
        for damaged in ["", "1", "0.abc", "x.abc", "-1.abc", "1.", "1.%%%"] {
            assert_eq!(unpack(damaged), Err(Refused::Damaged), "{damaged}");
        }
        let long = format!("1.{}", "A".repeat(LONGEST + 1));
        assert_eq!(unpack(&long), Err(Refused::TooLarge));
    }
}
