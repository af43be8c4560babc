//! The hub's answers: a repository's commit and its files.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::digest;
use crate::json::{self, List};
use crate::source::folder::is_inside;

/// Longest answer that is read, in bytes.
pub const MAX_LISTING_BYTES: u64 = 8 << 20;
/// Most files of a repository that are looked at.
pub const MAX_FILES: usize = 20_000;
/// The hub cuts its answers at so many files.
const PAGE: usize = 1000;

/// An answer that is not what the hub sends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hub's answer cannot be read ({0}); try again later")]
pub struct ListingError(String);

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoFile {
    /// Its name, with its folders.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256, which the hub tells of large files.
    pub sha256: Option<[u8; 32]>,
}

/// The files of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The files in the order of the answer.
    pub files: Vec<RepoFile>,
    /// False where the hub may have left files out, because there are very many.
    pub complete: bool,
}

impl Listing {
    /// Reads the answer to [`super::Repo::tree_url`].
    ///
    /// # Errors
    /// [`ListingError`] when it is something else.
    pub fn parse(text: &[u8]) -> Result<Self, ListingError> {
        #[derive(Deserialize)]
        struct Entry {
            r#type: String,
            path: String,
            #[serde(default)]
            size: u64,
            #[serde(default)]
            lfs: Option<Lfs>,
        }
        #[derive(Deserialize)]
        struct Lfs {
            oid: String,
            size: u64,
        }
        let List::<Entry, MAX_FILES>(entries) = parse(text)?;
        let complete = entries.len() < PAGE;
        let files = entries
            .into_iter()
            .filter(|entry| entry.r#type == "file" && is_inside(&entry.path))
            .map(|entry| RepoFile {
                size: entry.lfs.as_ref().map_or(entry.size, |lfs| lfs.size),
                sha256: entry.lfs.and_then(|lfs| digest::parse_hex(&lfs.oid)),
                path: entry.path,
            })
            .collect();
        Ok(Self { files, complete })
    }

    /// The file of this name.
    pub fn file(&self, path: &str) -> Option<&RepoFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// What the hub says of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The commit that the revision is.
    pub commit: Option<String>,
    /// Whether its terms must be accepted before files can be read.
    pub gated: bool,
}

impl Info {
    /// Reads the answer to [`super::Repo::info_url`].
    ///
    /// # Errors
    /// [`ListingError`] when it is something else.
    pub fn parse(text: &[u8]) -> Result<Self, ListingError> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default)]
            sha: Option<String>,
            #[serde(default)]
            gated: Gated,
        }
        let raw: Raw = parse(text)?;
        let commit = |sha: &String| sha.len() == 40 && sha.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(Self {
            commit: raw.sha.filter(commit),
            gated: raw.gated.0,
        })
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, ListingError> {
    if text.len() as u64 > MAX_LISTING_BYTES {
        let what = format!("it has {} bytes", text.len());
        return Err(ListingError(what));
    }
    serde_json::from_slice(text).map_err(|error| ListingError(json::message(&error)))
}

/// False, or the name of how access is granted.
#[derive(Default)]
struct Gated(bool);

impl<'de> Deserialize<'de> for Gated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Gated;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, gated: bool) -> Result<Gated, E> {
                Ok(Gated(gated))
            }

            fn visit_str<E>(self, _: &str) -> Result<Gated, E> {
                Ok(Gated(true))
            }

            fn visit_unit<E>(self) -> Result<Gated, E> {
                Ok(Gated(false))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Gated, E> {
                Ok(Gated(false))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Gated, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Gated(false))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Gated, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Gated(false))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_sizes_and_hashes() {
        let hash = "0f".repeat(32);
        let text = format!(
            r#"[
            {{"type":"directory","oid":"a1","size":0,"path":"q4"}},
            {{"type":"file","oid":"b2","size":711,"path":"config.json"}},
            {{"type":"file","oid":"c3","size":135,"path":"q4/model.gguf",
              "lfs":{{"oid":"{hash}","size":90000000000,"pointerSize":135}},"xetHash":"d4"}},
            {{"type":"file","oid":"e5","size":3,"path":"../outside"}}]"#
        );
        let listing = Listing::parse(text.as_bytes()).expect("a good answer");
        assert!(listing.complete);
        let names: Vec<&str> = listing
            .files
            .iter()
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(names, ["config.json", "q4/model.gguf"]);
        let large = listing.file("q4/model.gguf").expect("listed");
        assert_eq!(
            (large.size, large.sha256),
            (90_000_000_000, Some([0x0f; 32]))
        );
        let small = listing.file("config.json").expect("listed");
        assert_eq!((small.size, small.sha256), (711, None));
    }

    #[test]
    fn other_answers_are_refused() {
        for text in [
            "",
            "{}",
            r#"{"error":"Not found"}"#,
            r#"[{"path":"x"}]"#,
            "[[[[",
            "<html>",
        ] {
            let error = Listing::parse(text.as_bytes()).expect_err("no listing");
            assert!(error.to_string().contains("hub"), "{error}");
        }
        let many = |count| {
            let entry = r#"{"type":"file","path":"x","size":1}"#;
            format!("[{}]", vec![entry; count].join(","))
        };
        assert!(
            !Listing::parse(many(1000).as_bytes())
                .expect("read")
                .complete
        );
        Listing::parse(many(MAX_FILES + 1).as_bytes()).expect_err("too many");
        let long = format!("[{}]", " ".repeat(MAX_LISTING_BYTES as usize));
        Listing::parse(long.as_bytes()).expect_err("too long");
    }

    #[test]
    fn the_commit_is_told() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        let info = |gated: &str| {
            let text = format!(r#"{{"id":"o/n","sha":"{sha}","gated":{gated},"siblings":[{{}}]}}"#);
            Info::parse(text.as_bytes()).expect("a good answer")
        };
        assert_eq!(info("false").commit.as_deref(), Some(sha));
        assert!(!info("false").gated && info("\"manual\"").gated && info("true").gated);
        assert!(!info("null").gated && !info("[1]").gated && !info("{}").gated);
        let odd = Info::parse(br#"{"sha":"../../x"}"#).expect("read");
        assert_eq!(odd, Info::default());
    }
}
