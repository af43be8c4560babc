//! Lessons as they lie in `public/lessons`: read, checked and bounded. A broken file gives a message
//! that says what is wrong and where. `public/schemas/lesson.schema.json` says the same as a schema.

use crate::document::Side;
use formats::{FrameKind, Policy, Trajectory, Value, json};

/// The version of the list and of the lessons that this page reads.
const VERSION: i64 = 1;
/// A file of more bytes is not read.
const MAX_BYTES: usize = 256 * 1024;
/// Bounds of lists: no lesson comes near them, and a page stays a page.
const MAX_LESSONS: usize = 64;
const MAX_PAGES: usize = 40;
const MAX_FRAMES: usize = 200;
const MAX_ITEMS: usize = 24;
/// Bound of a piece of text, in bytes.
const MAX_TEXT: usize = 2_000;

/// A lesson in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in addresses, and of its file.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it is about, in one sentence.
    pub about: String,
    /// How many pages it has.
    pub pages: usize,
}

/// A lesson.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// Its name in addresses.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it is about, in one sentence.
    pub about: String,
    /// The trajectories its pages show.
    pub trajectories: Vec<Source>,
    /// Its pages.
    pub pages: Vec<Sheet>,
}

/// Where a trajectory comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The lesson brings it.
    Frames(Trajectory),
    /// A file of the samples.
    Sample(String),
}

/// One page of a lesson.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Its title.
    pub title: String,
    /// Its paragraphs.
    pub text: Vec<Vec<Span>>,
    /// Which of the lesson's trajectories it shows.
    pub trajectory: Option<usize>,
    /// What stands beside the text.
    pub panels: Vec<Panel>,
    /// Whether tokens show what is trained.
    pub mask: bool,
    /// Whether the places are marked where the model takes over.
    pub starts: bool,
    /// The frame that is pinned when the page is opened in the playground.
    pub pin: Option<usize>,
    /// Looks that the page explains.
    pub key: Vec<Look>,
    /// Where quoted figures come from.
    pub source: Option<String>,
}

/// A part of a paragraph.
#[derive(Clone, Debug, PartialEq)]
pub enum Span {
    /// Plain.
    Text(String),
    /// Emphasized.
    Strong(String),
    /// As a model sees it.
    Code(String),
    /// The name of a frame kind.
    Kind(FrameKind),
    /// The id of a kind's marker.
    Marker(FrameKind),
    /// A number that is counted when the page is shown.
    Count(Count),
    /// A published figure, word for word; the page names its source.
    Quote(String),
    /// A bound of the Wilson interval, computed from quoted counts.
    Wilson(Wilson),
}

/// A number to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Of what.
    pub what: What,
    /// On which side.
    pub side: Side,
    /// Of the whole wire, or of these frames and what stands with them.
    pub frames: Option<(usize, usize)>,
    /// How text that spells a special token is encoded.
    pub policy: Policy,
}

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Tokens.
    Tokens,
    /// Tokens with a label.
    Trained,
    /// Trained tokens that the prompt supplies.
    Given,
    /// Tokens that are no content: markers, headers, turn ends, template text.
    Structure,
    /// Tokens of template text.
    Template,
    /// Tokens that no frame owns.
    Unowned,
    /// Frames of the trajectory.
    Frames,
    /// Messages of the conversation.
    Messages,
    /// Frame kinds.
    Kinds,
    /// Kinds that the runtime writes.
    RuntimeKinds,
    /// Kinds that the model writes.
    ModelKinds,
}

/// A bound of a Wilson interval in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wilson {
    /// The upper bound, else the lower one.
    pub high: bool,
    /// Successes.
    pub successes: u64,
    /// Trials.
    pub trials: u64,
}

/// A look that a page explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Filled and ruled under.
    Trained,
    /// Outlined.
    Context,
    /// Dashed and filled.
    Given,
    /// A pointed tag.
    Special,
    /// Square.
    Runtime,
    /// Round.
    Model,
    /// Dashed and hatched.
    Template,
    /// A double rule.
    Forged,
}

/// What stands beside the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Panel {
    /// Tokens of frames on a side.
    Wire {
        /// On which side.
        side: Side,
        /// First and last frame.
        frames: (usize, usize),
        /// How text that spells a special token is encoded.
        policy: Policy,
    },
    /// Frames (A) or messages (B).
    Units {
        /// Of which side.
        side: Side,
        /// First and last frame.
        frames: (usize, usize),
    },
    /// Frames and the messages they become.
    Facing,
    /// The kinds, and what each is for.
    Kinds(Vec<(FrameKind, String)>),
    /// The kinds with their reserved tokens.
    Markers,
    /// A text as a model wrote it, and what the side's reader makes of it.
    Reading {
        /// Whose reader.
        side: Side,
        /// The text.
        text: String,
        /// Whether markers that the model may not write are refused.
        strict: bool,
    },
    /// What the validator says of the trajectory.
    Findings,
    /// A table of words.
    Table {
        /// What it shows.
        caption: String,
        /// Whether its figures are published ones.
        quoted: bool,
        /// Heads of its columns.
        columns: Vec<String>,
        /// Its rows, each as long as `columns`.
        rows: Vec<Vec<String>>,
    },
    /// Published rates with intervals computed from their counts.
    Rates {
        /// What was measured.
        caption: String,
        /// One rate an arm.
        rows: Vec<Rate>,
    },
    /// The places of figures that have not been computed.
    NotRun(Vec<String>),
}

/// A published rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Which arm.
    pub side: Side,
    /// The rate as published.
    pub quoted: String,
    /// Successes.
    pub successes: u64,
    /// Trials.
    pub trials: u64,
}

/// Reads the list of lessons.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read_list(text: &str) -> Result<Vec<Entry>, String> {
    let root = loads(text)?;
    let root = At::root(&root);
    root.head("agenticml-lessons")?;
    let entry = |at: At<'_>| {
        Ok(Entry {
            id: at.get("id")?.id()?,
            title: at.get("title")?.text()?,
            about: at.get("about")?.text()?,
            pages: at.get("pages")?.number(MAX_PAGES)?,
        })
    };
    root.get("lessons")?
        .list(MAX_LESSONS)?
        .into_iter()
        .map(entry)
        .collect()
}

/// Reads a lesson.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(text: &str) -> Result<Lesson, String> {
    let root = loads(text)?;
    let root = At::root(&root);
    root.head("agenticml-lesson")?;
    let mut names = Vec::new();
    let mut trajectories = Vec::new();
    if let Some(list) = root.maybe("trajectories") {
        for (name, at) in list.members(MAX_ITEMS)? {
            names.push(name);
            trajectories.push(at.source()?);
        }
    }
    let pages = root.get("pages")?.list(MAX_PAGES)?;
    if pages.is_empty() {
        return Err("pages: there is none".to_owned());
    }
    Ok(Lesson {
        id: root.get("id")?.id()?,
        title: root.get("title")?.text()?,
        about: root.get("about")?.text()?,
        pages: pages
            .into_iter()
            .map(|at| at.sheet(&names, &trajectories))
            .collect::<Result<_, _>>()?,
        trajectories,
    })
}

fn loads(text: &str) -> Result<Value, String> {
    if text.len() > MAX_BYTES {
        return Err(format!(
            "the file has {} bytes; at most {MAX_BYTES} are read",
            text.len()
        ));
    }
    json::loads(text).map_err(|error| format!("it is not JSON: {error}"))
}

/// A value and where it stands.
struct At<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> At<'a> {
    fn root(value: &'a Value) -> Self {
        Self {
            value,
            path: String::new(),
        }
    }

    fn wrong<T>(&self, what: impl std::fmt::Display) -> Result<T, String> {
        let place = if self.path.is_empty() {
            "the file"
        } else {
            &self.path
        };
        Err(format!("{place}: {what}"))
    }

    /// Format and version.
    fn head(&self, format: &str) -> Result<(), String> {
        let found = self.get("format")?.text()?;
        if found != format {
            return self.wrong(format!("its format is \"{found}\", not \"{format}\""));
        }
        match self.get("version")?.value {
            Value::Int(version) if version.as_i64() == Some(VERSION) => Ok(()),
            version => self.wrong(format!(
                "it is version {}; this page reads version {VERSION}",
                json::dumps(version)
            )),
        }
    }

    fn maybe(&self, key: &str) -> Option<At<'a>> {
        let path = match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        Some(At {
            value: self.value.get(key)?,
            path,
        })
    }

    fn get(&self, key: &str) -> Result<At<'a>, String> {
        match self.maybe(key) {
            Some(at) => Ok(at),
            None => self.wrong(format!("\"{key}\" is missing")),
        }
    }

    fn list(&self, limit: usize) -> Result<Vec<At<'a>>, String> {
        let Some(items) = self.value.as_array() else {
            return self.wrong("a list is expected");
        };
        if items.len() > limit {
            return self.wrong(format!("{} items; at most {limit} are read", items.len()));
        }
        let at = |(at, value)| At {
            value,
            path: format!("{}[{at}]", self.path),
        };
        Ok(items.iter().enumerate().map(at).collect())
    }

    fn members(&self, limit: usize) -> Result<Vec<(&'a str, At<'a>)>, String> {
        let Some(object) = self.value.as_object() else {
            return self.wrong("an object is expected");
        };
        if object.len() > limit {
            return self.wrong(format!(
                "{} members; at most {limit} are read",
                object.len()
            ));
        }
        let at = |(key, value): (&'a String, _)| {
            let path = format!("{}.{key}", self.path);
            (key.as_str(), At { value, path })
        };
        Ok(object.iter().map(at).collect())
    }

    fn text(&self) -> Result<String, String> {
        match self.value.as_str() {
            Some("") => self.wrong("it is empty"),
            Some(text) if text.len() > MAX_TEXT => self.wrong(format!(
                "{} bytes of text; at most {MAX_TEXT} are read",
                text.len()
            )),
            Some(text) => Ok(text.to_owned()),
            None => self.wrong("a text is expected"),
        }
    }

    /// A name that is safe in addresses and file names.
    fn id(&self) -> Result<String, String> {
        let text = self.text()?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.chars().all(plain) {
            Ok(text)
        } else {
            self.wrong("small letters, digits and hyphens are expected")
        }
    }

    fn number(&self, limit: usize) -> Result<usize, String> {
        let number = match self.value {
            Value::Int(number) => number.as_i64().and_then(|n| usize::try_from(n).ok()),
            _ => None,
        };
        match number {
            Some(number) if number <= limit => Ok(number),
            _ => self.wrong(format!("a whole number up to {limit} is expected")),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        match self.maybe(key).map(|at| (at.value, at)) {
            None => Ok(false),
            Some((Value::Bool(flag), _)) => Ok(*flag),
            Some((_, at)) => at.wrong("true or false is expected"),
        }
    }

    fn side(&self) -> Result<Side, String> {
        match self.value.as_str() {
            Some("A") => Ok(Side::A),
            Some("B") => Ok(Side::B),
            _ => self.wrong("\"A\" or \"B\" is expected"),
        }
    }

    fn policy(&self) -> Result<Policy, String> {
        match self.maybe("policy").map(|at| (at.value.as_str(), at)) {
            None | Some((Some("safe"), _)) => Ok(Policy::Safe),
            Some((Some("reference"), _)) => Ok(Policy::Reference),
            Some((_, at)) => at.wrong("\"safe\" or \"reference\" is expected"),
        }
    }

    fn kind(&self) -> Result<FrameKind, String> {
        match self.value.as_str().and_then(FrameKind::from_name) {
            Some(kind) => Ok(kind),
            None => self.wrong("the name of a frame kind is expected"),
        }
    }

    /// First and last frame.
    fn frames(&self) -> Result<(usize, usize), String> {
        let ends = self.list(2)?;
        match &ends[..] {
            [first, last] => {
                let (first, last) = (first.number(MAX_FRAMES)?, last.number(MAX_FRAMES)?);
                if first > last {
                    return self.wrong("the first frame comes after the last");
                }
                Ok((first, last))
            }
            _ => self.wrong("a first and a last frame are expected"),
        }
    }

    fn source(&self) -> Result<Source, String> {
        if let Some(sample) = self.maybe("sample") {
            let file = sample.text()?;
            // Only a name in the folder itself.
            if file.contains(['/', '\\', ':']) || file.starts_with('.') {
                return sample.wrong("the name of a sample's file is expected");
            }
            return Ok(Source::Sample(file));
        }
        self.get("frames")?.list(MAX_FRAMES)?;
        match Trajectory::from_json(self.value) {
            Ok(trajectory) => Ok(Source::Frames(trajectory)),
            Err(error) => self.wrong(error),
        }
    }

    fn sheet(&self, names: &[&str], sources: &[Source]) -> Result<Sheet, String> {
        let trajectory = match self.maybe("trajectory") {
            None => None,
            Some(at) => {
                let name = at.text()?;
                match names.iter().position(|known| *known == name) {
                    Some(found) => Some(found),
                    None => return at.wrong(format!("there is no trajectory \"{name}\"")),
                }
            }
        };
        let text = self
            .get("text")?
            .list(MAX_ITEMS)?
            .iter()
            .map(|paragraph| {
                let spans = paragraph.list(MAX_ITEMS)?;
                spans.iter().map(At::span).collect::<Result<_, _>>()
            })
            .collect::<Result<Vec<Vec<_>>, _>>()?;
        let panels = self
            .get("panels")?
            .list(MAX_ITEMS)?
            .iter()
            .map(At::panel)
            .collect::<Result<Vec<_>, _>>()?;
        let pin = self
            .maybe("pin")
            .map(|at| at.number(MAX_FRAMES))
            .transpose()?;
        let key = match self.maybe("key") {
            None => Vec::new(),
            Some(at) => at
                .list(MAX_ITEMS)?
                .iter()
                .map(At::look)
                .collect::<Result<_, _>>()?,
        };
        let sheet = Sheet {
            title: self.get("title")?.text()?,
            text,
            trajectory,
            panels,
            mask: self.flag("mask")?,
            starts: self.flag("starts")?,
            pin,
            key,
            source: self.maybe("source").map(|at| at.text()).transpose()?,
        };
        if sheet.trajectory.is_none() && sheet.needs_trajectory() {
            return self.wrong("it shows or counts a trajectory and names none");
        }
        // How long a sample is shows when it is there; see `fits`.
        if let Some(Source::Frames(trajectory)) = sheet.trajectory.map(|at| &sources[at]) {
            sheet.fits(trajectory).or_else(|error| self.wrong(error))?;
        }
        Ok(sheet)
    }

    fn span(&self) -> Result<Span, String> {
        if self.value.as_str().is_some() {
            return Ok(Span::Text(self.text()?));
        }
        let members = self.members(MAX_ITEMS)?;
        let Some((name, at)) = members.first() else {
            return self.wrong("it is empty");
        };
        match *name {
            "strong" => Ok(Span::Strong(at.text()?)),
            "code" => Ok(Span::Code(at.text()?)),
            "kind" => Ok(Span::Kind(at.kind()?)),
            "marker" => Ok(Span::Marker(at.kind()?)),
            "quote" => Ok(Span::Quote(at.text()?)),
            "count" => Ok(Span::Count(Count {
                what: at.what()?,
                side: self.maybe("side").map_or(Ok(Side::A), |at| at.side())?,
                frames: self.maybe("frames").map(|at| at.frames()).transpose()?,
                policy: self.policy()?,
            })),
            "wilson" => {
                let (successes, trials) = self.counts()?;
                Ok(Span::Wilson(Wilson {
                    high: match at.value.as_str() {
                        Some("low") => false,
                        Some("high") => true,
                        _ => return at.wrong("\"low\" or \"high\" is expected"),
                    },
                    successes,
                    trials,
                }))
            }
            name => self.wrong(format!("\"{name}\" is no kind of span")),
        }
    }

    fn what(&self) -> Result<What, String> {
        Ok(match self.value.as_str() {
            Some("tokens") => What::Tokens,
            Some("trained") => What::Trained,
            Some("given") => What::Given,
            Some("structure") => What::Structure,
            Some("template") => What::Template,
            Some("unowned") => What::Unowned,
            Some("frames") => What::Frames,
            Some("messages") => What::Messages,
            Some("kinds") => What::Kinds,
            Some("runtime-kinds") => What::RuntimeKinds,
            Some("model-kinds") => What::ModelKinds,
            _ => return self.wrong("nothing of this name can be counted"),
        })
    }

    fn look(&self) -> Result<Look, String> {
        Ok(match self.value.as_str() {
            Some("trained") => Look::Trained,
            Some("context") => Look::Context,
            Some("given") => Look::Given,
            Some("special") => Look::Special,
            Some("runtime") => Look::Runtime,
            Some("model") => Look::Model,
            Some("template") => Look::Template,
            Some("forged") => Look::Forged,
            _ => return self.wrong("no look has this name"),
        })
    }

    /// `k` of `n`.
    fn counts(&self) -> Result<(u64, u64), String> {
        let (k, n) = (self.get("k")?, self.get("n")?);
        let trials = n.number(1_000_000)?;
        if trials == 0 {
            return n.wrong("it is 0");
        }
        let successes = k.number(trials)?;
        Ok((successes as u64, trials as u64))
    }

    fn texts(&self, limit: usize) -> Result<Vec<String>, String> {
        self.list(limit)?.iter().map(At::text).collect()
    }

    fn panel(&self) -> Result<Panel, String> {
        let show = self.get("show")?;
        Ok(match show.text()?.as_str() {
            "wire" => Panel::Wire {
                side: self.get("side")?.side()?,
                frames: self.get("frames")?.frames()?,
                policy: self.policy()?,
            },
            "units" => Panel::Units {
                side: self.get("side")?.side()?,
                frames: self.get("frames")?.frames()?,
            },
            "facing" => Panel::Facing,
            "kinds" => {
                let words = self.get("about")?;
                let kinds = FrameKind::ALL
                    .into_iter()
                    .map(|kind| Ok((kind, words.get(kind.name())?.text()?)));
                Panel::Kinds(kinds.collect::<Result<_, String>>()?)
            }
            "markers" => Panel::Markers,
            "reading" => Panel::Reading {
                side: self.get("side")?.side()?,
                text: self.get("text")?.text()?,
                strict: self.flag("strict")?,
            },
            "findings" => Panel::Findings,
            "table" => {
                let columns = self.get("columns")?.texts(MAX_ITEMS)?;
                let mut rows = Vec::new();
                for at in self.get("rows")?.list(MAX_ITEMS)? {
                    let row = at.texts(MAX_ITEMS)?;
                    if row.len() != columns.len() {
                        return at.wrong(format!(
                            "it has {} of {} cells",
                            row.len(),
                            columns.len()
                        ));
                    }
                    rows.push(row);
                }
                Panel::Table {
                    caption: self.get("caption")?.text()?,
                    quoted: self.flag("quoted")?,
                    columns,
                    rows,
                }
            }
            "rates" => {
                let rate = |at: &At<'_>| {
                    let (successes, trials) = at.counts()?;
                    Ok(Rate {
                        side: at.get("side")?.side()?,
                        quoted: at.get("quoted")?.text()?,
                        successes,
                        trials,
                    })
                };
                Panel::Rates {
                    caption: self.get("caption")?.text()?,
                    rows: self
                        .get("rows")?
                        .list(MAX_ITEMS)?
                        .iter()
                        .map(rate)
                        .collect::<Result<_, String>>()?,
                }
            }
            "not-run" => Panel::NotRun(self.get("measures")?.texts(MAX_ITEMS)?),
            other => return show.wrong(format!("there is no panel \"{other}\"")),
        })
    }
}

impl Sheet {
    /// Whether anything on the page is about a trajectory.
    fn needs_trajectory(&self) -> bool {
        let counts = |span: &Span| match span {
            Span::Count(count) => !matches!(
                count.what,
                What::Kinds | What::RuntimeKinds | What::ModelKinds
            ),
            _ => false,
        };
        self.pin.is_some()
            || self.text.iter().flatten().any(counts)
            || self.panels.iter().any(|panel| {
                matches!(
                    panel,
                    Panel::Wire { .. } | Panel::Units { .. } | Panel::Facing | Panel::Findings
                )
            })
    }

    /// Whether a trajectory has the frames that the page names.
    ///
    /// # Errors
    /// When it has not.
    pub fn fits(&self, trajectory: &Trajectory) -> Result<(), String> {
        let in_panels = self.panels.iter().filter_map(|panel| match panel {
            Panel::Wire { frames, .. } | Panel::Units { frames, .. } => Some(frames.1),
            _ => None,
        });
        let in_text = self.text.iter().flatten().filter_map(|span| match span {
            Span::Count(count) => count.frames.map(|(_, last)| last),
            _ => None,
        });
        let have = trajectory.frames.len();
        match in_panels.chain(in_text).chain(self.pin).max() {
            Some(last) if last >= have => Err(format!(
                "it names frame {last}; the last of its trajectory is {}",
                have.saturating_sub(1)
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::agenticml::{self, Reading, View};
    use formats::chatml::{self, Generation, read_generation};
    use formats::validate::validate;
    use formats::{Frame, bridge};
    use std::fs;
    use std::path::PathBuf;

    fn public(folder: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../public")
            .join(folder)
    }

    fn text(folder: &str, file: &str) -> String {
        fs::read_to_string(public(folder).join(file)).expect(file)
    }

    fn list() -> Vec<Entry> {
        read_list(&text("lessons", "index.json")).expect("the list")
    }

    fn lesson(id: &str) -> Lesson {
        read(&text("lessons", &format!("{id}.json"))).expect(id)
    }

    fn trajectory(source: &Source) -> Trajectory {
        match source {
            Source::Frames(trajectory) => trajectory.clone(),
            Source::Sample(file) => Trajectory::parse(&text("samples", file)).expect(file),
        }
    }

    /// Every page with its trajectory, under a name for messages.
    fn sheets() -> Vec<(String, Sheet, Option<Trajectory>)> {
        let of = |entry: Entry| {
            let lesson = lesson(&entry.id);
            let sources = lesson.trajectories;
            let page = move |(at, sheet): (usize, Sheet)| {
                let shown = sheet.trajectory.map(|at| trajectory(&sources[at]));
                (format!("{}/{}", entry.id, at + 1), sheet, shown)
            };
            lesson
                .pages
                .into_iter()
                .enumerate()
                .map(page)
                .collect::<Vec<_>>()
        };
        list().into_iter().flat_map(of).collect()
    }

    #[test]
    fn the_list_names_every_file_and_says_what_the_file_says() {
        let list = list();
        assert_eq!(list.len(), 8);
        for entry in &list {
            let lesson = lesson(&entry.id);
            let said = (&lesson.id, &lesson.title, &lesson.about, lesson.pages.len());
            assert_eq!(said, (&entry.id, &entry.title, &entry.about, entry.pages));
            assert!((4..=6).contains(&entry.pages), "{}", entry.id);
        }
        let files = fs::read_dir(public("lessons")).expect("the folder").count();
        assert_eq!(files, list.len() + 1, "a file is not listed");
    }

    #[test]
    fn pages_show_frames_that_are_there_and_keep_the_rules() {
        for (page, sheet, trajectory) in sheets() {
            let Some(trajectory) = trajectory else {
                continue;
            };
            sheet.fits(&trajectory).expect(&page);
            let findings = validate(&trajectory.frames, false).expect(&page);
            // One page is about what the validator finds.
            assert_eq!(findings.is_empty(), page != "faults/6", "{page}");
        }
    }

    #[test]
    fn texts_are_short_and_type_no_figure() {
        for (page, sheet, _) in sheets() {
            let mut sentences = 0;
            let mut length = 0;
            for span in sheet.text.iter().flatten() {
                let (Span::Text(text) | Span::Strong(text)) = span else {
                    continue;
                };
                length += text.chars().count();
                // Names that hold a figure.
                let plain = text.replace("Llama 3.1", "Llama");
                assert!(
                    !plain.contains(|c: char| c.is_ascii_digit()),
                    "{page}: {text}"
                );
                let ends = plain.trim_end().matches(['.', '?', '!']).count();
                sentences += ends;
            }
            assert!(
                (1..=3).contains(&sentences),
                "{page} has {sentences} sentences"
            );
            assert!(length <= 360, "{page} has {length} characters");
        }
    }

    #[test]
    fn published_figures_have_a_source_and_agree_with_their_counts() {
        for (page, sheet, _) in sheets() {
            let in_text = sheet
                .text
                .iter()
                .flatten()
                .any(|span| matches!(span, Span::Quote(_)));
            let in_panels = sheet.panels.iter().any(|panel| {
                matches!(
                    panel,
                    Panel::Rates { .. } | Panel::Table { quoted: true, .. }
                )
            });
            assert!(sheet.source.is_some() || !(in_text || in_panels), "{page}");
            for panel in &sheet.panels {
                let Panel::Rates { rows, .. } = panel else {
                    continue;
                };
                for rate in rows {
                    let said: f64 = rate.quoted.trim_end_matches(" %").parse().expect(&page);
                    let counted = rate.successes as f64 * 100.0 / rate.trials as f64;
                    assert!(
                        (said - counted).abs() < 0.05,
                        "{page}: {said} is not {counted}"
                    );
                }
            }
        }
        // The text says that the intervals lie apart.
        let ends = |k, n| agent::suite::wilson(k, n).expect("an interval");
        assert!(ends(2, 45).1 < ends(27, 45).0);
    }

    fn shown(page: &str) -> (Sheet, Option<Trajectory>) {
        let found = sheets().into_iter().find(|(name, ..)| name == page);
        let (_, sheet, trajectory) = found.expect(page);
        (sheet, trajectory)
    }

    /// What the reader of side A makes of a page's text.
    fn read_a(page: &str) -> Result<Vec<(FrameKind, bool)>, String> {
        let (sheet, _) = shown(page);
        let texts = sheet.panels.iter().find_map(|panel| match panel {
            Panel::Reading {
                side: Side::A,
                text,
                strict,
            } => Some((text.clone(), *strict)),
            _ => None,
        });
        let (text, strict) = texts.expect(page);
        let reading = Reading {
            view: View::Reserved,
            strict,
            policy: Policy::Safe,
        };
        agenticml::parse(&text, &reading)
            .map(|frames| {
                frames
                    .iter()
                    .map(|it| (it.frame.kind, it.error.is_some()))
                    .collect()
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn readings_come_out_as_the_text_says() {
        use FrameKind::{Action, Belief, End, Result};
        let refused = read_a("owners/4").expect_err("refused");
        assert_eq!(
            refused,
            "runtime-owned marker '<|result|>' found in model output"
        );
        let good = vec![(Action, false), (Result, false), (Belief, false)];
        assert_eq!(read_a("owners/5"), Ok(good));
        let on = vec![
            (Action, false),
            (Result, false),
            (Action, false),
            (End, false),
        ];
        assert_eq!(read_a("stopping/3"), Ok(on));
        for page in ["stopping/4", "stopping/5", "faults/4"] {
            assert_eq!(read_a(page), Ok(vec![(Action, true)]), "{page}");
        }
        assert_eq!(
            read_a("faults/3"),
            Ok(vec![(Action, true), (End, false), (End, false)])
        );
        for page in ["stopping/5", "faults/4"] {
            let (sheet, _) = shown(page);
            let text = sheet.panels.iter().find_map(|panel| match panel {
                Panel::Reading {
                    side: Side::B,
                    text,
                    ..
                } => Some(read_generation(text)),
                _ => None,
            });
            assert!(matches!(text, Some(Generation::Text(_))), "{page}");
        }
    }

    #[test]
    fn messages_come_out_as_the_text_says() {
        // A thought in front of a call is in the messages, and not on side B's wire.
        let (_, trajectory) = shown("wires/5");
        let conversation = bridge::messages(&trajectory.expect("a trajectory")).expect("messages");
        let thought = "A product of two numbers";
        assert!(
            conversation
                .messages
                .iter()
                .any(|message| message.text().contains(thought))
        );
        let wire = chatml::render(&conversation, &chatml::Options::default()).expect("a wire");
        assert!(!wire.text().contains(thought));

        // One call: its result names it. A batch: the first result names the second call.
        let ids = |page: &str| {
            let (_, trajectory) = shown(page);
            let conversation = bridge::messages(&trajectory.expect(page)).expect(page);
            let calls: Vec<String> = conversation
                .messages
                .iter()
                .flat_map(|message| message.tool_calls())
                .filter_map(|call| call.id.map(str::to_owned))
                .collect();
            let answers: Vec<String> = conversation
                .messages
                .iter()
                .filter_map(|message| message.tool_call_id().map(str::to_owned))
                .collect();
            (calls, answers)
        };
        let (calls, answers) = ids("loop/2");
        assert_eq!(calls, answers);
        let (calls, answers) = ids("loop/4");
        assert_eq!(answers[0], calls[1]);
        assert!(!calls.contains(&answers[1]));
    }

    #[test]
    fn only_model_kinds_open_a_trained_stretch() {
        let (_, trajectory) = shown("training/3");
        let wire =
            agenticml::render(&trajectory.expect("a trajectory"), View::Reserved).expect("a wire");
        for segment in &wire.segments {
            assert_eq!(segment.trained, segment.owner == formats::Owner::Model);
        }
    }

    #[test]
    fn a_broken_file_says_what_is_wrong_and_where() {
        let good = text("lessons", "training.json");
        let broken = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            read(&good.replacen(from, to, 1)).expect_err(to)
        };
        let says = [
            (
                "\"version\": 1",
                "\"version\": 2",
                "the file: it is version 2; this page reads version 1",
            ),
            (
                "agenticml-lesson\"",
                "other\"",
                "the file: its format is \"other\", not \"agenticml-lesson\"",
            ),
            (
                "\"side\": \"A\"",
                "\"side\": \"C\"",
                "pages[0].text[0][1].side: \"A\" or \"B\" is expected",
            ),
            (
                "\"count\": \"trained\"",
                "\"count\": \"joy\"",
                "pages[0].text[0][1].count: nothing of this name can be counted",
            ),
            (
                "\"show\": \"wire\"",
                "\"show\": \"film\"",
                "pages[0].panels[0].show: there is no panel \"film\"",
            ),
            (
                "\"frames\": [2, 8]",
                "\"frames\": [8, 2]",
                "pages[0].panels[0].frames: the first frame comes after the last",
            ),
            (
                "\"trajectory\": \"lines\"",
                "\"trajectory\": \"x\"",
                "pages[0].trajectory: there is no trajectory \"x\"",
            ),
            (
                "lines-in-main-py.json",
                "../presets.json",
                "trajectories.lines.sample: the name of a sample's file is expected",
            ),
        ];
        for (from, to, message) in says {
            assert_eq!(broken(from, to), message);
        }
        assert!(
            read("{")
                .expect_err("broken")
                .starts_with("it is not JSON: ")
        );
        assert!(
            read(&" ".repeat(MAX_BYTES + 1))
                .expect_err("long")
                .contains("at most")
        );
        assert!(read_list("[]").is_err());
    }

    #[test]
    fn a_page_names_no_frame_beyond_its_trajectory() {
        let (sheet, _) = shown("training/1");
        let short = Trajectory {
            frames: vec![Frame::new(FrameKind::Goal, "x"); 3],
        };
        assert_eq!(
            sheet.fits(&short),
            Err("it names frame 8; the last of its trajectory is 2".to_owned())
        );
    }

    /// The names that the schema lists are those that the reader knows.
    #[test]
    fn the_schema_lists_what_is_read() {
        let schema = json::loads(&text("schemas", "lesson.schema.json")).expect("a schema");
        let defs = schema.get("$defs").expect("definitions");
        let names = |value: Option<&Value>| -> Vec<Value> {
            value.and_then(Value::as_array).expect("a list").to_vec()
        };
        let page = defs
            .get("page")
            .and_then(|page| page.get("properties"))
            .expect("a page");
        let key = page
            .get("key")
            .and_then(|key| key.get("items"))
            .expect("a key");
        for look in names(key.get("enum")) {
            At::root(&look).look().expect("a look");
        }
        let spans = names(defs.get("span").and_then(|span| span.get("oneOf")));
        let counts = spans
            .iter()
            .find_map(|span| span.get("properties")?.get("count"));
        for what in names(counts.and_then(|count| count.get("enum"))) {
            At::root(&what).what().expect("a count");
        }
        for kind in names(defs.get("kind").and_then(|kind| kind.get("enum"))) {
            At::root(&kind).kind().expect("a kind");
        }
    }
}
