//! Models on the Hugging Face hub: a repository's name becomes the addresses of its files.
//!
//! The hub answers two questions with JSON: which commit a revision is, and which files it has, with
//! sizes and hashes. Files are read at that commit, so that they do not change while they are read.
//! Large files are kept elsewhere; the hub sends browsers on, with an address that needs no token.

use std::fmt;

mod choices;
mod listing;

#[cfg(target_arch = "wasm32")]
mod web;

pub use choices::{Choice, ChoiceKind, quantization_of};
pub use listing::{Info, Listing, ListingError, MAX_FILES, MAX_LISTING_BYTES, RepoFile};
#[cfg(target_arch = "wasm32")]
pub use web::{Hub, HubError, open};

/// The hub's origin.
pub const HOST: &str = "https://huggingface.co";

/// The revision that is meant where none is named.
const MAIN: &str = "main";
/// Longest part of a name, and longest revision, in bytes. The hub's own limit is 96.
const MAX_PART: usize = 128;

/// A model's repository at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    /// Who it belongs to.
    pub owner: String,
    /// Its name.
    pub name: String,
    /// A branch, a tag or a commit.
    pub revision: String,
}

/// What a person may paste: a repository, or a file of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The repository.
    pub repo: Repo,
    /// A file or folder in it, where the address names one.
    pub path: Option<String>,
}

impl Address {
    /// Reads `owner/name`, `owner/name@revision`, or the address of a page of the hub: of the repository,
    /// or of a file or folder in it. `None` for anything else: names of files, other sites, data sets.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(['?', '#']).unwrap_or(text.len());
        let plain = text[..end].trim_end_matches('/');
        let on_hub = ["https://", "http://", ""].iter().find_map(|scheme| {
            let rest = plain.strip_prefix(scheme)?;
            let rest = rest.strip_prefix("www.").unwrap_or(rest);
            ["huggingface.co/", "hf.co/"]
                .iter()
                .find_map(|host| rest.strip_prefix(host))
        });
        match on_hub {
            Some(path) => Self::of_page(path),
            None => {
                let path = plain.strip_prefix("hf://").unwrap_or(plain);
                let (id, revision) = path.split_once('@').unwrap_or((path, MAIN));
                let (owner, name) = id.split_once('/')?;
                let is_file = [".gguf", ".safetensors", ".json", ".bin"]
                    .iter()
                    .any(|ending| name.ends_with(ending));
                let repo = Repo::new(owner, name, revision)?;
                (!is_file).then_some(Self { repo, path: None })
            }
        }
    }

    fn of_page(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let (owner, name) = (parts.next()?, parts.next()?);
        let (revision, path) = match parts.next() {
            Some("tree" | "blob" | "resolve" | "raw") => {
                let revision = parts.next()?;
                (revision, parts.collect::<Vec<_>>().join("/"))
            }
            // The repository itself, or another of its pages.
            None | Some("discussions" | "commits" | "settings") => (MAIN, String::new()),
            Some(_) => return None,
        };
        // A slash in a branch's name is written so.
        let revision = revision.replace("%2F", "/");
        let path = path.replace("%20", " ");
        Some(Self {
            repo: Repo::new(owner, name, &revision)?,
            path: crate::source::folder::is_inside(&path).then_some(path),
        })
    }
}

impl Repo {
    /// A repository; `None` when these cannot be its names.
    pub fn new(owner: &str, name: &str, revision: &str) -> Option<Self> {
        // Owners that are kinds of repositories.
        let kinds = ["datasets", "spaces", "models", "docs", "api", "collections"];
        let sound = is_name(owner) && is_name(name) && is_revision(revision);
        (sound && !kinds.contains(&owner)).then(|| Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
            revision: revision.to_owned(),
        })
    }

    /// `owner/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The page where its terms can be accepted.
    pub fn page(&self, host: &str) -> String {
        format!("{host}/{}", self.id())
    }

    /// Where the hub answers with [`Info`].
    pub fn info_url(&self, host: &str) -> String {
        format!(
            "{host}/api/models/{}/revision/{}",
            self.id(),
            self.escaped()
        )
    }

    /// Where the hub answers with a [`Listing`].
    pub fn tree_url(&self, host: &str) -> String {
        format!(
            "{host}/api/models/{}/tree/{}?recursive=true",
            self.id(),
            self.escaped()
        )
    }

    /// The folder of its files.
    pub fn files_url(&self, host: &str) -> String {
        format!("{host}/{}/resolve/{}", self.id(), self.escaped())
    }

    fn escaped(&self) -> String {
        self.revision.replace('/', "%2F")
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id())?;
        match self.revision.as_str() {
            MAIN => Ok(()),
            revision => write!(f, "@{revision}"),
        }
    }
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_PART).contains(&name.len())
        && name.chars().all(letter)
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
        && !name.contains("..")
}

fn is_revision(revision: &str) -> bool {
    revision.len() <= MAX_PART && revision.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Option<String>)> {
        let Address { repo, path } = Address::parse(text)?;
        Some((repo.to_string(), path))
    }

    #[test]
    fn names_and_pages_are_read() {
        for (text, repo, path) in [
            ("owner/name", "owner/name", None),
            (" owner/name@v1.0 ", "owner/name@v1.0", None),
            ("owner/name@refs/pr/1", "owner/name@refs/pr/1", None),
            ("hf://owner/name", "owner/name", None),
            ("https://huggingface.co/owner/name", "owner/name", None),
            ("https://huggingface.co/owner/name/", "owner/name", None),
            ("huggingface.co/owner/name?library=x", "owner/name", None),
            ("https://hf.co/owner/name/tree/main", "owner/name", None),
            (
                "https://huggingface.co/owner/name/tree/refs%2Fpr%2F1/q4",
                "owner/name@refs/pr/1",
                Some("q4"),
            ),
            (
                "https://huggingface.co/owner/name/blob/main/sub/x-Q4_K_M.gguf",
                "owner/name",
                Some("sub/x-Q4_K_M.gguf"),
            ),
            (
                "https://huggingface.co/owner/name/resolve/abc123/x.gguf?download=true",
                "owner/name@abc123",
                Some("x.gguf"),
            ),
            (
                "https://huggingface.co/owner/name/discussions/3",
                "owner/name",
                None,
            ),
        ] {
            let expected = (repo.to_owned(), path.map(str::to_owned));
            assert_eq!(parsed(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "name",
            "/name",
            "owner/",
            "a/b/c",
            "models/x.gguf",
            "./x/y",
            "../x",
            "a b/c",
            "https://example.org/owner/name",
            "https://huggingface.co/owner",
            "https://huggingface.co/datasets/owner/name",
            "datasets/x",
            "owner/na..me",
            "owner/name@",
            "owner/name@a b",
            "owner/name@../x",
            "owner/name@a//b",
            "https://huggingface.co/owner/name/tree",
            "https://huggingface.co.evil.org/a/b",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_those_of_the_hub() {
        let repo = Repo::new("owner", "name", "refs/pr/1").expect("good names");
        assert_eq!(
            repo.tree_url(HOST),
            "https://huggingface.co/api/models/owner/name/tree/refs%2Fpr%2F1?recursive=true"
        );
        assert_eq!(
            repo.info_url(HOST),
            "https://huggingface.co/api/models/owner/name/revision/refs%2Fpr%2F1"
        );
        assert_eq!(
            repo.files_url(HOST),
            "https://huggingface.co/owner/name/resolve/refs%2Fpr%2F1"
        );
        assert_eq!(
            repo.page("http://localhost:9"),
            "http://localhost:9/owner/name"
        );
    }
}
