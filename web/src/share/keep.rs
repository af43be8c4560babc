//! Work that this browser keeps. Every tab writes one entry of its own, under `work.` and the tab's id, so
//! that two tabs cannot spoil one another's; a new tab starts from a copy of the newest. Nothing is sent.

use crate::share::snapshot::Snapshot;
use formats::json::{Integer, Object};
use formats::{Value, json};
use leptos::prelude::*;
use std::fmt;
use web_sys::Storage;

/// Names of entries begin so.
const PREFIX: &str = "work.";
/// Where a tab notes its id.
const TAB: &str = "tab";
const VERSION: i64 = 1;
/// How many entries stay, the tab's own among them.
const MOST: usize = 4;
/// The longest entry, in bytes. Browsers keep some five million characters per site, for all entries.
pub const LARGEST: usize = 1_000_000;

/// A tab's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tab(String);

impl Tab {
    /// One that no tab has.
    pub fn fresh() -> Self {
        let part = || (js_sys::Math::random() * f64::from(u32::MAX)) as u32;
        Self(format!("{:08x}{:08x}", part(), part()))
    }

    /// The one that this tab had before it was loaded again.
    pub fn noted() -> Option<Self> {
        session()?
            .get_item(TAB)
            .ok()
            .flatten()
            .filter(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .map(Self)
    }

    /// Remembers it as long as the tab is open.
    pub fn note(&self) {
        if let Some(session) = session() {
            // Refused: a reload then counts as a new tab.
            let _ = session.set_item(TAB, &self.0);
        }
    }

    /// The name of its entry.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }
}

/// A kept state.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name that it lies under.
    pub name: String,
    /// When it was kept, in milliseconds since 1970.
    pub saved: f64,
    /// Which load of the page wrote it.
    pub writer: String,
    /// What to call it.
    pub title: String,
    /// The state.
    pub state: Snapshot,
}

/// Why an entry is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later version of the page wrote it.
    Newer,
    /// It is damaged.
    Damaged(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer => f.write_str("a newer version of this page wrote it"),
            Self::Damaged(why) => write!(f, "it is damaged: {why}"),
        }
    }
}

impl Entry {
    /// As text.
    fn to_text(&self) -> String {
        let mut object = Object::new();
        object.insert("version".into(), VERSION.into());
        object.insert("saved".into(), Value::Float(self.saved));
        object.insert("writer".into(), self.writer.as_str().into());
        object.insert("title".into(), self.title.as_str().into());
        object.insert("state".into(), self.state.to_json());
        json::dumps(&object.into())
    }

    /// From the text under a name.
    fn from_text(name: &str, text: &str) -> Result<Self, Unreadable> {
        let damaged = |why: &str| Unreadable::Damaged(why.to_owned());
        if text.len() > 2 * LARGEST {
            return Err(damaged("it is too long"));
        }
        let value = json::loads(text).map_err(|error| damaged(&error.to_string()))?;
        match value.get("version") {
            Some(Value::Int(version)) if version.as_i64() == Some(VERSION) => {}
            Some(Value::Int(version)) if version.as_i64().is_some_and(|v| v > VERSION) => {
                return Err(Unreadable::Newer);
            }
            _ => return Err(damaged("it has no version")),
        }
        let saved = match value.get("saved") {
            Some(Value::Float(saved)) => *saved,
            Some(Value::Int(saved)) => Integer::to_f64(saved),
            _ => 0.0,
        };
        let word = |key| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let state = value
            .get("state")
            .ok_or_else(|| damaged("it has no state"))?;
        Ok(Self {
            name: name.to_owned(),
            saved: if saved.is_finite() { saved } else { 0.0 },
            writer: word("writer"),
            title: word("title"),
            state: Snapshot::from_json(state).map_err(Unreadable::Damaged)?,
        })
    }
}

fn local() -> Option<Storage> {
    window().local_storage().ok().flatten()
}

fn session() -> Option<Storage> {
    window().session_storage().ok().flatten()
}

/// The names of all entries.
fn names() -> Vec<String> {
    let Some(storage) = local() else {
        return Vec::new();
    };
    (0..storage.length().unwrap_or(0))
        .filter_map(|at| storage.key(at).ok().flatten())
        .filter(|name| name.starts_with(PREFIX))
        .collect()
}

/// The entry under a name, if there is one.
pub fn read(name: &str) -> Option<Result<Entry, Unreadable>> {
    let text = local()?.get_item(name).ok().flatten()?;
    Some(Entry::from_text(name, &text))
}

/// All entries that can be read, newest first, and why others cannot. Damaged ones are removed: nothing can
/// be done with them, and they would be reported at every visit.
pub fn all() -> (Vec<Entry>, Option<Unreadable>) {
    let mut entries = Vec::new();
    let mut trouble = None;
    for name in names() {
        match read(&name) {
            Some(Ok(entry)) => entries.push(entry),
            Some(Err(why)) => {
                if matches!(why, Unreadable::Damaged(_)) {
                    forget(&name);
                }
                trouble = Some(why);
            }
            None => {}
        }
    }
    entries.sort_by(|a, b| b.saved.total_cmp(&a.saved));
    (entries, trouble)
}

/// Keeps an entry, and lets the oldest others go.
///
/// # Errors
/// Why it is not kept.
pub fn write(entry: &Entry) -> Result<(), String> {
    let text = entry.to_text();
    if text.len() > LARGEST {
        return Err(format!(
            "it is larger than what is kept ({})",
            crate::words::bytes(LARGEST as u64)
        ));
    }
    let storage = local().ok_or("this browser keeps nothing for this page")?;
    let put = || storage.set_item(&entry.name, &text);
    if put().is_err() {
        // The storage may be full of older work. The newest of it still goes last.
        let (entries, _) = all();
        let mut others = entries
            .iter()
            .rev()
            .filter(|other| other.name != entry.name);
        loop {
            let Some(oldest) = others.next() else {
                return Err("the browser's storage for this page is full or refused".into());
            };
            forget(&oldest.name);
            if put().is_ok() {
                break;
            }
        }
    }
    for name in surplus(&entry.name, &all().0) {
        forget(&name);
    }
    Ok(())
}

/// Which entries are too many: all but the own one and the newest others. The list is newest first.
fn surplus(own: &str, entries: &[Entry]) -> Vec<String> {
    entries
        .iter()
        .filter(|entry| entry.name != own)
        .skip(MOST - 1)
        .map(|entry| entry.name.clone())
        .collect()
}

/// Removes an entry.
pub fn forget(name: &str) {
    if let Some(storage) = local() {
        let _ = storage.remove_item(name);
    }
}

/// Removes all of them.
pub fn forget_all() {
    for name in names() {
        forget(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::snapshot::{Shown, Work};
    use proptest::prelude::*;

    fn entry(name: &str, saved: f64) -> Entry {
        Entry {
            name: name.into(),
            saved,
            writer: "w".into(),
            title: "Lines".into(),
            state: Snapshot {
                work: Work::Sample("lines-in-main-py.json".into()),
                sides: [Shown::default(); 2],
                readable: true,
                pin: Some(3),
                drawing: None,
            },
        }
    }

    #[test]
    fn an_entry_comes_back() {
        let kept = entry("work.a", 1_764_557_000_123.0);
        assert_eq!(Entry::from_text("work.a", &kept.to_text()), Ok(kept));
    }

    #[test]
    fn the_own_and_the_newest_stay() {
        let list = ["e", "d", "c", "own", "b", "a"]
            .iter()
            .enumerate()
            .map(|(at, name)| entry(name, -(at as f64)))
            .collect::<Vec<_>>();
        assert_eq!(surplus("own", &list), ["b", "a"]);
        assert_eq!(surplus("none", &list), ["own", "b", "a"]);
    }

    #[test]
    fn damage_and_the_future_are_told_apart() {
        let text = entry("work.a", 1.0).to_text();
        let later = text.replacen("\"version\": 1", "\"version\": 7", 1);
        assert_ne!(text, later);
        assert_eq!(Entry::from_text("work.a", &later), Err(Unreadable::Newer));
        for bad in ["", "{", "null", "{}", &text[..text.len() - 3]] {
            assert!(matches!(
                Entry::from_text("work.a", bad),
                Err(Unreadable::Damaged(_))
            ));
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in any::<String>()) {
            let _ = Entry::from_text("work.a", &text);
        }
    }
}
