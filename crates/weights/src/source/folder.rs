//! A model's files by name: a directory, picked files, a web address.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use super::{ByteSource, MemorySource, SourceError};

/// Longest name of a file in a folder, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// Files by name.
pub trait Folder {
    /// One of its files.
    type Source: ByteSource;

    /// Opens the file of this name, relative to the folder: `model-00001-of-00004.safetensors`.
    ///
    /// A folder on the web asks for nothing yet; that there is no such file then shows with the first
    /// read.
    ///
    /// # Errors
    /// One that [`SourceError::is_missing`] when there is no such file, [`SourceError::BadName`] for a
    /// name that [`is_inside`] refuses.
    fn open(&self, name: &str) -> impl Future<Output = Result<Self::Source, SourceError>>;

    /// The names of the files, where the folder can tell; `None` for a plain web address.
    fn names(&self) -> Option<Vec<String>>;

    /// What to call the folder in messages.
    fn name(&self) -> String;
}

/// Whether this is the name of a file itself: no separators, nothing hidden in it.
pub fn is_plain_name(name: &str) -> bool {
    is_inside(name) && !name.contains('/')
}

/// Whether a relative path, with `/` between its parts, names a file inside a folder: no part is
/// empty, `.` or `..`, and nothing is left for a system to understand in its own way.
pub fn is_inside(path: &str) -> bool {
    let strange = |c: char| c.is_control() || matches!(c, '\\' | ':' | '?' | '#' | '%');
    !path.is_empty()
        && path.len() <= MAX_NAME_BYTES
        && !path.contains(strange)
        && path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// [`is_inside`] as a check.
pub(crate) fn check_inside(path: &str) -> Result<(), SourceError> {
    if is_inside(path) {
        return Ok(());
    }
    let name = path.chars().take(80).collect();
    Err(SourceError::BadName { name })
}

/// The whole file of this name, of at most `limit` bytes; `None` if there is none.
///
/// # Errors
/// [`SourceError`]: of the folder or its source.
pub async fn read_small<F: Folder>(
    folder: &F,
    name: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>, SourceError> {
    // Spares a server the question. Folders inside may be unlisted.
    let unlisted = |names: Vec<String>| !names.iter().any(|known| known == name);
    if is_plain_name(name) && folder.names().is_some_and(unlisted) {
        return Ok(None);
    }
    let read = async { folder.open(name).await?.read_whole(limit).await };
    match read.await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A folder inside another.
#[derive(Clone, Copy, Debug)]
pub struct Within<'a, F> {
    folder: &'a F,
    /// With the slash at its end; empty for the folder itself.
    prefix: &'a str,
}

impl<'a, F: Folder> Within<'a, F> {
    /// The folder that `path`, with a slash at its end, names inside `folder`.
    pub fn at(folder: &'a F, path: &'a str) -> Self {
        Self::of(folder, path).0
    }

    /// The folder that `path` is in, and its name there: `q4/model.json` is `model.json` in `q4/`.
    pub fn of(folder: &'a F, path: &'a str) -> (Self, &'a str) {
        let (prefix, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        (Self { folder, prefix }, name)
    }
}

impl<F: Folder> Folder for Within<'_, F> {
    type Source = F::Source;

    async fn open(&self, name: &str) -> Result<F::Source, SourceError> {
        check_inside(name)?;
        self.folder.open(&format!("{}{name}", self.prefix)).await
    }

    fn names(&self) -> Option<Vec<String>> {
        let names = self.folder.names()?;
        let inside = names
            .iter()
            .filter_map(|name| name.strip_prefix(self.prefix))
            .map(str::to_owned);
        let inside: Vec<String> = inside.collect();
        // A directory lists only its own files, which says nothing of those inside.
        (self.prefix.is_empty() || !inside.is_empty()).then_some(inside)
    }

    fn name(&self) -> String {
        let name = self.folder.name();
        match self.prefix.trim_end_matches('/') {
            "" => name,
            prefix => format!("{name}/{prefix}"),
        }
    }
}

/// Files in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryFolder {
    name: String,
    files: BTreeMap<String, Arc<[u8]>>,
}

impl MemoryFolder {
    /// An empty folder that is called `name` in messages.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            files: BTreeMap::new(),
        }
    }

    /// Adds a file, in place of another of its name.
    pub fn insert(&mut self, name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) {
        self.files.insert(name.into(), bytes.into());
    }

    /// Takes a file out.
    pub fn remove(&mut self, name: &str) -> Option<Arc<[u8]>> {
        self.files.remove(name)
    }

    /// A file's bytes.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(|bytes| &bytes[..])
    }
}

impl Folder for MemoryFolder {
    type Source = MemorySource<Arc<[u8]>>;

    async fn open(&self, name: &str) -> Result<Self::Source, SourceError> {
        check_inside(name)?;
        let full = format!("{}/{name}", self.name);
        match self.files.get(name) {
            Some(bytes) => Ok(MemorySource::new(full, bytes.clone())),
            None => Err(SourceError::NotFound { name: full }),
        }
    }

    fn names(&self) -> Option<Vec<String>> {
        Some(self.files.keys().cloned().collect())
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in [
            "model.json",
            "a b-00001-of-00002.gguf",
            "BF16/x.gguf",
            "..x",
            "東.bin",
        ] {
            assert!(is_inside(good), "{good}");
        }
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "a/../b",
            "..",
            ".",
            "a//b",
            "a/",
            "a\\b",
            "c:x",
            "a\0",
            "a\n",
            "x?y",
            "x#y",
            "%2e%2e",
            &long,
        ] {
            assert!(!is_inside(bad), "{bad}");
        }
        assert!(is_plain_name("x.gguf") && !is_plain_name("a/x.gguf"));
    }

    #[test]
    fn folders_inside_are_folders() {
        let mut folder = MemoryFolder::new("memory");
        folder.insert("a", &b"outer"[..]);
        folder.insert("q4/a", &b"inner"[..]);
        let read = |path: &str| {
            let (within, name) = Within::of(&folder, path);
            block_on(read_small(&within, name, 9)).expect("read")
        };
        assert_eq!(read("a").as_deref(), Some(&b"outer"[..]));
        assert_eq!(read("q4/a").as_deref(), Some(&b"inner"[..]));
        assert_eq!((read("q4/b"), read("q5/a")), (None, None));
        let (within, _) = Within::of(&folder, "q4/a");
        assert_eq!(within.names(), Some(vec!["a".to_owned()]));
        assert_eq!(within.name(), "memory/q4");
        let error = block_on(within.open("../a")).expect_err("outside");
        assert!(matches!(error, SourceError::BadName { .. }));
    }

    #[test]
    fn small_files_are_read_whole_or_missed() {
        let mut folder = MemoryFolder::new("memory");
        folder.insert("a", &b"12345"[..]);
        folder.insert("empty", &b""[..]);
        let read = |name, limit| block_on(read_small(&folder, name, limit));
        assert_eq!(read("a", 5).expect("read").as_deref(), Some(&b"12345"[..]));
        assert_eq!(read("empty", 5).expect("read").as_deref(), Some(&b""[..]));
        assert_eq!(read("b", 5).expect("none"), None);
        let error = read("a", 4).expect_err("too large");
        assert!(matches!(
            error,
            SourceError::TooLarge {
                size: 5,
                limit: 4,
                ..
            }
        ));
        let missing = block_on(folder.open("b")).expect_err("none");
        assert!(missing.is_missing() && missing.to_string().contains("memory/b"));
        let bad = block_on(folder.open("../a")).expect_err("refused");
        assert!(matches!(bad, SourceError::BadName { .. }));
    }
}
