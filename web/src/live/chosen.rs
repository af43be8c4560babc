//! Models as people name them: an address, a repository, files picked or dropped, one that is kept.

use engine::protocol::{ModelChoice, Source, Token};
use js_sys::Reflect;
use std::cell::RefCell;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    DataTransfer, File, FileList, FileSystemDirectoryEntry, FileSystemEntry, FileSystemFileEntry,
};

/// Where the hub is.
const HUB: &str = "huggingface.co";
/// More files than any model has; a folder with more of them is not one.
const MOST_FILES: usize = 4096;
/// How deep a folder is searched.
const DEPTH: usize = 3;

/// A model that was asked for; enough to ask again.
#[derive(Clone)]
pub struct Chosen {
    /// Where it is.
    pub source: Source,
    /// Handles, for files of this machine.
    pub files: Vec<File>,
    /// What to call it until it says its own name.
    pub name: String,
}

impl Chosen {
    /// One that needs no files.
    pub fn new(source: Source) -> Self {
        let name = match &source {
            Source::Url { url, .. } => url.clone(),
            Source::Hub {
                repository, file, ..
            } => match file {
                Some(file) => format!("{repository}, {file}"),
                None => repository.clone(),
            },
            Source::Files { names } => names.join(", "),
            Source::Kept { key } => key.clone(),
        };
        Self {
            source,
            files: Vec::new(),
            name,
        }
    }

    /// Whether its weights may come in 16 or 32 bits: what is no GGUF file and none of our packages.
    pub fn may_be_dense(&self) -> bool {
        let ready = |name: &str| {
            let path = name.split(['?', '#']).next().unwrap_or_default();
            path.ends_with(".gguf") || path.ends_with("model.json")
        };
        match &self.source {
            Source::Url { url, .. } => !ready(url),
            Source::Hub { file, .. } => !file.as_deref().is_some_and(ready),
            Source::Files { names } => !names.iter().any(|name| ready(name)),
            Source::Kept { .. } => false,
        }
    }

    /// Whether its bytes come over the network.
    pub fn is_remote(&self) -> bool {
        matches!(self.source, Source::Url { .. } | Source::Hub { .. })
    }

    /// Narrowed to one of the models it holds.
    pub fn with(&self, choice: &ModelChoice) -> Self {
        let mut chosen = self.clone();
        match &mut chosen.source {
            Source::Hub { file, .. } => *file = Some(choice.file.clone()),
            Source::Files { names } => {
                // A file that is a model by itself, or all that lies in the same folder.
                let folder = choice
                    .file
                    .rsplit_once('/')
                    .map_or(String::new(), |(folder, _)| format!("{folder}/"));
                let alone = choice.file.ends_with(".gguf");
                let (kept, files) = names
                    .iter()
                    .zip(&self.files)
                    .filter(|(name, _)| {
                        if alone {
                            **name == choice.file
                        } else {
                            name.starts_with(&folder)
                        }
                    })
                    .map(|(name, file)| {
                        let name = if alone { name } else { &name[folder.len()..] };
                        (name.to_owned(), file.clone())
                    })
                    .unzip();
                *names = kept;
                chosen.files = files;
            }
            Source::Url { .. } | Source::Kept { .. } => {}
        }
        chosen.name = format!("{}, {}", self.name, choice.file);
        chosen
    }
}

/// What a line of text names: `owner/name` on the hub, or else an address.
///
/// # Errors
/// Where it can be neither: what to write.
pub fn address(text: &str, token: Option<Token>) -> Result<Source, String> {
    let text = text.trim();
    if let Some(path) = ["https://", "http://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
    {
        let hub = path
            .strip_prefix(HUB)
            .and_then(|path| path.strip_prefix('/'))
            .and_then(|path| hub(path, token.clone()));
        return Ok(hub.unwrap_or_else(|| Source::Url {
            url: text.to_owned(),
            token,
        }));
    }
    let (repository, revision) = match text.split_once('@') {
        Some((repository, revision)) => (repository, Some(revision.to_owned())),
        None => (text, None),
    };
    if is_repository(repository) && revision.as_deref() != Some("") {
        return Ok(Source::Hub {
            repository: repository.to_owned(),
            revision,
            file: None,
            token,
        });
    }
    if text.contains('/') || text.contains('.') {
        Ok(Source::Url {
            url: text.to_owned(),
            token,
        })
    } else {
        Err(format!(
            "“{text}” is neither an address nor a repository: write https://… or owner/name"
        ))
    }
}

/// A page of the hub: of a repository, or of a file in it.
fn hub(path: &str, token: Option<Token>) -> Option<Source> {
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    let mut parts = path.splitn(3, '/');
    let repository = format!("{}/{}", parts.next()?, parts.next()?);
    if !is_repository(&repository) {
        return None;
    }
    let (revision, file) = match parts.next() {
        None => (None, None),
        Some(rest) => {
            let (what, rest) = rest.split_once('/')?;
            let (revision, file) = match rest.split_once('/') {
                Some((revision, file)) => (revision, Some(file.to_owned())),
                None => (rest, None),
            };
            match (what, &file) {
                ("tree", None) | ("blob" | "resolve", Some(_)) => {}
                _ => return None,
            }
            (Some(revision.to_owned()), file)
        }
    };
    Some(Source::Hub {
        repository,
        revision,
        file,
        token,
    })
}

/// Whether a text has the form of a repository's name.
fn is_repository(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 96
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let file = [".gguf", ".json", ".safetensors"];
    text.split_once('/')
        .is_some_and(|(owner, name)| part(owner) && part(name))
        && !file.iter().any(|end| text.ends_with(end))
}

/// Files of this machine with their names.
type Picked = Vec<(String, File)>;

/// A model from files; `None` when there are none.
fn picked(files: Picked, folder: Option<String>) -> Option<Chosen> {
    let (names, files): (Vec<_>, Vec<_>) = files.into_iter().unzip();
    let name = match (folder, &names[..]) {
        (_, []) => return None,
        (Some(folder), _) => folder,
        (None, [name]) => name.clone(),
        (None, [name, rest @ ..]) => format!("{name} and {} more", rest.len()),
    };
    Some(Chosen {
        source: Source::Files { names },
        files,
        name,
    })
}

impl Chosen {
    /// What a file picker was given: files, or a folder.
    pub fn from_list(list: Option<FileList>) -> Option<Self> {
        let list = list?;
        let mut folder = None;
        let files = (0..list.length())
            .filter_map(|at| list.item(at))
            .take(MOST_FILES)
            .map(|file| {
                let path = Reflect::get(&file, &"webkitRelativePath".into())
                    .ok()
                    .and_then(|path| path.as_string())
                    .unwrap_or_default();
                match path.split_once('/') {
                    Some((top, rest)) => {
                        folder = Some(top.to_owned());
                        (rest.to_owned(), file)
                    }
                    None => (file.name(), file),
                }
            })
            .collect();
        picked(files, folder)
    }
}

/// What was dropped: files, or folders with what is in them. The browser shows the list only until the
/// event is over, so the entries are taken at once and read afterwards.
pub fn dropped(data: &DataTransfer) -> impl Future<Output = Option<Chosen>> + use<> {
    let items = data.items();
    let entries: Vec<FileSystemEntry> = (0..items.length())
        .filter_map(|at| items.get(at)?.webkit_get_as_entry().ok()?)
        .collect();
    let plain = Chosen::from_list(data.files());
    async move {
        let folders: Vec<_> = entries
            .iter()
            .filter(|entry| entry.is_directory())
            .collect();
        if folders.is_empty() {
            return plain;
        }
        let only = (entries.len() == 1).then(|| entries[0].name());
        let mut found = Vec::new();
        for entry in &entries {
            let below = if only.is_some() {
                String::new()
            } else {
                entry.name()
            };
            walk(entry, below, &mut found).await;
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        picked(found, only)
    }
}

/// Adds the files at and below an entry. `name` is what the entry itself is called.
async fn walk(entry: &FileSystemEntry, name: String, found: &mut Picked) {
    let mut open = vec![(entry.clone(), name, 0)];
    while let Some((entry, name, depth)) = open.pop() {
        if found.len() >= MOST_FILES {
            return;
        }
        if entry.is_file() {
            if let Some(file) = file_of(entry.unchecked_ref()).await {
                found.push((name, file));
            }
        } else if entry.is_directory() && depth < DEPTH {
            for inner in entries_of(entry.unchecked_ref()).await {
                let name = if name.is_empty() {
                    inner.name()
                } else {
                    format!("{name}/{}", inner.name())
                };
                open.push((inner, name, depth + 1));
            }
        }
    }
}

/// What an interface calls when it is done, and when it failed.
type Calls = [Closure<dyn FnMut(JsValue)>; 2];

/// A promise from an interface that calls one of two functions.
async fn called_back(call: impl Fn(&js_sys::Function, &js_sys::Function)) -> Option<JsValue> {
    let keep: RefCell<Option<Calls>> = RefCell::default();
    let promise = js_sys::Promise::new(&mut |resolve, reject| {
        let pass = |to: js_sys::Function| {
            Closure::<dyn FnMut(JsValue)>::new(move |value: JsValue| {
                drop(to.call1(&JsValue::UNDEFINED, &value));
            })
        };
        let both = [pass(resolve), pass(reject)];
        call(
            both[0].as_ref().unchecked_ref(),
            both[1].as_ref().unchecked_ref(),
        );
        *keep.borrow_mut() = Some(both);
    });
    let answer = JsFuture::from(promise).await.ok();
    drop(keep);
    answer
}

async fn file_of(entry: &FileSystemFileEntry) -> Option<File> {
    let file = called_back(|done, failed| entry.file_with_callback_and_callback(done, failed));
    file.await?.dyn_into().ok()
}

async fn entries_of(folder: &FileSystemDirectoryEntry) -> Vec<FileSystemEntry> {
    let reader = folder.create_reader();
    let mut all = Vec::new();
    // Browsers give a part at a time, and nothing at the end.
    while all.len() < MOST_FILES {
        let part = called_back(|done, failed| {
            if reader
                .read_entries_with_callback_and_callback(done, failed)
                .is_err()
            {
                // Nothing was called back, so this ends the wait.
                let _ = failed.call0(&JsValue::UNDEFINED);
            }
        });
        match part.await.map(|part| js_sys::Array::from(&part)) {
            Some(part) if part.length() > 0 => {
                all.extend(part.iter().map(JsCast::unchecked_into::<FileSystemEntry>));
            }
            _ => break,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub_of(text: &str) -> Option<(String, Option<String>, Option<String>)> {
        match address(text, None) {
            Ok(Source::Hub {
                repository,
                revision,
                file,
                ..
            }) => Some((repository, revision, file)),
            _ => None,
        }
    }

    fn is_url(text: &str) -> bool {
        matches!(address(text, None), Ok(Source::Url { url, .. }) if url == text.trim())
    }

    #[test]
    fn what_a_line_names() {
        let hub = |repository: &str, revision: Option<&str>, file: Option<&str>| {
            Some((
                repository.to_owned(),
                revision.map(str::to_owned),
                file.map(str::to_owned),
            ))
        };
        assert_eq!(
            hub_of(" owner/na-me_1.0 "),
            hub("owner/na-me_1.0", None, None)
        );
        assert_eq!(
            hub_of("owner/name@dev"),
            hub("owner/name", Some("dev"), None)
        );
        assert_eq!(
            hub_of("https://huggingface.co/owner/name/"),
            hub("owner/name", None, None)
        );
        assert_eq!(
            hub_of("https://huggingface.co/owner/name/tree/main"),
            hub("owner/name", Some("main"), None)
        );
        assert_eq!(
            hub_of("https://huggingface.co/owner/name/resolve/main/a/b.gguf?download=true"),
            hub("owner/name", Some("main"), Some("a/b.gguf"))
        );
        assert!(is_url("https://example.org/owner/name"));
        assert!(is_url("https://huggingface.co.example.org/owner/name"));
        assert!(is_url("https://huggingface.co/owner/name/raw/main/x"));
        assert!(is_url("/models/x.gguf"));
        assert!(is_url("models/x.gguf"));
        assert!(is_url("x.gguf"));
        assert!(address("something", None).is_err());
        assert!(address("", None).is_err());
    }

    #[test]
    fn a_token_goes_along() {
        let token = Some(Token("secret".to_owned()));
        let source = address("owner/name", token.clone()).unwrap();
        assert!(matches!(&source, Source::Hub { token: sent, .. } if *sent == token));
        assert!(!format!("{source:?}").contains("secret"));
    }

    #[test]
    fn only_what_may_be_dense_is_quantized() {
        let dense = |text: &str| Chosen::new(address(text, None).unwrap()).may_be_dense();
        assert!(dense("owner/name"));
        assert!(dense("https://example.org/m/config.json"));
        assert!(!dense("https://example.org/m/model.json"));
        assert!(!dense("https://example.org/x.gguf?download=true"));
    }
}
