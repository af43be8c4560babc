//! What is this text, and which frames are in it?

use super::chat;
use crate::Policy;
use crate::agenticml::{self, Reading, View};
use crate::bridge::{self, BridgeError};
use crate::frame::{Frame, FrameKind, Trajectory};
use crate::injection;
use crate::json::{self, JsonError, JsonErrorKind, Value};
use crate::message::Message;
use crate::python;
use std::fmt;

/// Longest text that is read.
pub const MAX_BYTES: usize = 8 << 20;

/// Most rows of a data set that are offered.
pub const MAX_CANDIDATES: usize = 500;

/// Most frames of one trajectory.
const MAX_FRAMES: usize = 20_000;

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// The place of a byte.
    pub(super) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }

    /// The same place when the text is a line of a longer one.
    fn in_line(self, line: usize) -> Self {
        Self {
            line: self.line + line,
            ..self
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a text, or a row of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// Where, when it is at one place.
    pub place: Option<Place>,
    /// What to do next.
    pub next: String,
}

impl Problem {
    fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            place: None,
            next: next.into(),
        }
    }

    pub(super) fn at(
        what: impl Into<String>,
        text: &str,
        byte: usize,
        next: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            place: Some(Place::of(text, byte)),
            next: next.into(),
        }
    }

    fn json(error: &JsonError) -> Self {
        let JsonError { line, column, .. } = *error;
        Self {
            what: format!("not JSON: {}", error.kind),
            place: Some(Place { line, column }),
            next: error.kind.advice().to_owned(),
        }
    }

    fn in_line(self, line: usize) -> Self {
        Self {
            place: self.place.map(|place| place.in_line(line)),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "{place}: {}. {}", self.what, self.next),
            None => write!(f, "{}. {}", self.what, self.next),
        }
    }
}

impl std::error::Error for Problem {}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Frames in JSON.
    Frames,
    /// Messages in JSON.
    Messages,
    /// A row of a data set whose frames were read.
    RowOfFrames,
    /// A row of a data set whose messages were read.
    RowOfMessages,
    /// The AgenticML wire with readable markers.
    Markers,
    /// The AgenticML wire with reserved tokens.
    Reserved,
    /// The Llama 3.1 Instruct layout.
    Chat,
}

impl Shape {
    /// What to call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Frames => "frames JSON",
            Self::Messages => "messages JSON",
            Self::RowOfFrames => "a data-set row with frames",
            Self::RowOfMessages => "a data-set row with messages",
            Self::Markers => "AgenticML wire with markers",
            Self::Reserved => "AgenticML wire with reserved tokens",
            Self::Chat => "ChatML wire, Llama 3.1 Instruct layout",
        }
    }
}

/// A trajectory that was found in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What the text was.
    pub shape: Shape,
    /// The frames.
    pub trajectory: Trajectory,
    /// What was left out or decided on the way, in sentences.
    pub notes: Vec<String>,
}

/// A row of a text, or the whole of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What it is called: its id and domain, or its line.
    pub label: String,
    /// What is in it, or why nothing is.
    pub found: Result<Found, Problem>,
}

/// What a text holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// What can be chosen; at least one.
    pub candidates: Vec<Candidate>,
    /// How many more there are than are offered.
    pub left_out: usize,
}

const FORMS: &str = "Paste frames JSON, messages JSON, rows of a data set (JSONL), or a raw wire that begins with a marker such as <|goal|> or with <|begin_of_text|>.";

/// What to say of a text of more than [`MAX_BYTES`].
pub fn too_long(bytes: usize) -> Problem {
    let megabytes = bytes as f64 / 1e6;
    Problem::new(
        format!("the text has {megabytes:.1} MB, and at most 8 MiB are read"),
        "Take out the rows that you need.",
    )
}

/// Finds out what a text is and reads it.
///
/// # Errors
/// When it is nothing that can be read: what is wrong, where, and what to do.
pub fn read(text: &str) -> Result<Read, Problem> {
    if text.len() > MAX_BYTES {
        return Err(too_long(text.len()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let stripped = python::strip_start(text);
    let start = text.len() - stripped.len();
    if stripped.is_empty() {
        return Err(Problem::new("there is no text", FORMS));
    }
    if stripped.starts_with(['{', '[']) {
        return json_text(text);
    }
    if chat::is_wire(stripped) {
        return one(chat_wire(text, start));
    }
    if stripped.starts_with("<|") {
        return one(agenticml_wire(text, start));
    }
    let late = chat::late_start(text).or_else(|| {
        let at = FrameKind::ALL
            .iter()
            .flat_map(|kind| [text.find(kind.alias()), text.find(kind.reserved())])
            .flatten()
            .min()?;
        Some(Place::of(text, at))
    });
    let next = match late {
        Some(place) => {
            format!(
                "The first marker is at {place}. A wire begins with it: remove what stands before."
            )
        }
        None => FORMS.to_owned(),
    };
    Err(Problem::at(
        "neither JSON nor a wire begins here",
        text,
        start,
        next,
    ))
}

fn one(found: Result<Found, Problem>) -> Result<Read, Problem> {
    let found = found?;
    Ok(Read {
        candidates: vec![Candidate {
            label: found.shape.title().to_owned(),
            found: Ok(found),
        }],
        left_out: 0,
    })
}

/// What a JSON value looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Frame,
    Message,
    Row,
    Other,
}

fn looks(value: &Value) -> Looks {
    let has = |key| value.get(key).is_some();
    if has("frames") || has("messages") {
        Looks::Row
    } else if has("type") {
        Looks::Frame
    } else if has("role") {
        Looks::Message
    } else {
        Looks::Other
    }
}

/// One JSON document, or one on each line.
fn json_text(text: &str) -> Result<Read, Problem> {
    let error = match json::loads(text) {
        Ok(value) => return document(text, &value),
        Err(error) => error,
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let several = lines.next().is_some();
    let first_is_whole = json::loads(first).is_ok();
    let second_begins = error.kind == JsonErrorKind::ExtraData;
    if several && (first_is_whole || (second_begins && first.trim_end().ends_with('}'))) {
        return lines_of(text);
    }
    Err(Problem::json(&error))
}

/// A value, and where its entries stand in a text.
struct Source<'a> {
    text: &'a str,
    /// The lines before the text.
    line: usize,
}

impl Source<'_> {
    /// The place of an entry of the list that the text is, or has under a key.
    fn place(&self, key: Option<&str>, index: usize) -> Option<Place> {
        let byte = entry(self.text, key, index)?;
        Some(Place::of(self.text, byte).in_line(self.line))
    }
}

fn document(text: &str, value: &Value) -> Result<Read, Problem> {
    let source = Source { text, line: 0 };
    let list = match value {
        Value::Array(list) => list,
        single => {
            let found = match looks(single) {
                Looks::Row => row(single, &source, false)?,
                Looks::Frame => frames(std::slice::from_ref(single), None, &source)?,
                Looks::Message => messages(std::slice::from_ref(single), None, &source)?,
                Looks::Other => return Err(no_columns(single)),
            };
            return one(Ok(found));
        }
    };
    if list.is_empty() {
        return Err(Problem::new(
            "the list is empty",
            "Paste a list with frames or messages.",
        ));
    }
    match list.iter().map(looks).find(|looks| *looks != Looks::Other) {
        Some(Looks::Row) => {
            let rows = list.iter().enumerate().map(|(at, entry)| {
                let found = row(entry, &Source { text: "", line: 0 }, true);
                candidate(entry, format!("row {}", at + 1), found)
            });
            rows_of(rows, list.len())
        }
        Some(Looks::Message) => one(messages(list, None, &source)),
        _ => one(frames(list, None, &source)),
    }
}

fn no_columns(value: &Value) -> Problem {
    let keys: Vec<String> = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys().take(6))
        .map(|key| format!("\"{}\"", key.chars().take(24).collect::<String>()))
        .collect();
    let what = if keys.is_empty() {
        "the object is empty".to_owned()
    } else {
        format!(
            "the object has neither \"frames\" nor \"messages\"; it has {}",
            keys.join(", ")
        )
    };
    Problem::new(
        what,
        "Put the list of frames under \"frames\", or of messages under \"messages\".",
    )
}

fn rows_of(rows: impl Iterator<Item = Candidate>, count: usize) -> Result<Read, Problem> {
    let candidates: Vec<Candidate> = rows.take(MAX_CANDIDATES).collect();
    if let Some(Err(problem)) = candidates.first().map(|first| &first.found)
        && candidates.iter().all(|candidate| candidate.found.is_err())
    {
        return Err(problem.clone());
    }
    Ok(Read {
        left_out: count.saturating_sub(candidates.len()),
        candidates,
    })
}

fn candidate(value: &Value, otherwise: String, found: Result<Found, Problem>) -> Candidate {
    let word = |key: &str| match value.get(key) {
        Some(Value::String(text)) if !text.is_empty() => {
            Some(text.chars().take(60).collect::<String>())
        }
        Some(Value::Int(number)) => Some(number.to_string()),
        _ => None,
    };
    let name = word("id").or_else(|| word("title")).unwrap_or(otherwise);
    let label = match word("domain") {
        Some(domain) => format!("{name}, {domain}"),
        None => name,
    };
    Candidate { label, found }
}

/// JSON Lines: rows, or the frames or messages of one trajectory.
fn lines_of(text: &str) -> Result<Read, Problem> {
    let filled: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    let first = filled.iter().find_map(|(_, line)| json::loads(line).ok());
    match first.as_ref().map(looks) {
        Some(kind @ (Looks::Frame | Looks::Message)) => {
            let mut list = Vec::new();
            for (at, line) in &filled {
                list.push(json::loads(line).map_err(|error| Problem::json(&error).in_line(*at))?);
            }
            let source = Source { text: "", line: 0 };
            let found = match kind {
                Looks::Frame => frames(&list, None, &source),
                _ => messages(&list, None, &source),
            };
            return one(found.map_err(|problem| problem.in_line(0)));
        }
        Some(Looks::Row) => {}
        _ => {
            return Err(first
                .as_ref()
                .map_or_else(|| Problem::new("no line is JSON", FORMS), no_columns));
        }
    }
    let rows = filled.iter().map(|&(at, line)| {
        let otherwise = format!("line {}", at + 1);
        match json::loads(line) {
            Ok(value) => {
                let found = row(
                    &value,
                    &Source {
                        text: line,
                        line: at,
                    },
                    true,
                );
                candidate(&value, otherwise, found)
            }
            Err(error) => Candidate {
                label: otherwise,
                found: Err(Problem::json(&error).in_line(at)),
            },
        }
    });
    rows_of(rows, filled.len())
}

/// A row of a data set: `frames` or `messages`, as a list or as JSON within a string.
fn row(value: &Value, source: &Source<'_>, of_many: bool) -> Result<Found, Problem> {
    let filled = |key: &str| {
        let column = value.get(key)?;
        let empty = match column {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        (!empty).then_some(column)
    };
    let (key, column) = match (filled("frames"), filled("messages")) {
        (Some(frames), _) => ("frames", frames),
        (None, Some(messages)) => ("messages", messages),
        _ => {
            return Err(
                match value.get("frames").or_else(|| value.get("messages")) {
                    Some(_) => Problem::new(
                        "the row is empty",
                        "Choose one that has frames or messages.",
                    ),
                    None => no_columns(value),
                },
            );
        }
    };
    let parsed;
    let list = match column {
        Value::Array(list) => list,
        Value::String(text) => {
            parsed = json::loads(text).map_err(|error| {
                let problem = Problem::json(&error);
                Problem {
                    what: format!("the text under \"{key}\" is {}", problem.what),
                    place: source.place_of_row(),
                    next: format!(
                        "Counted within that text it is line {}, column {}. {}",
                        error.line, error.column, problem.next
                    ),
                }
            })?;
            match &parsed {
                Value::Array(list) => list,
                other => return Err(not_a_list(key, other, source)),
            }
        }
        other => return Err(not_a_list(key, other, source)),
    };
    let within = Some(key);
    let mut found = if key == "frames" {
        frames(list, within, source)?
    } else {
        messages(list, within, source)?
    };
    let is_row = of_many || ["id", "domain"].iter().any(|key| value.get(key).is_some());
    if is_row || matches!(column, Value::String(_)) {
        found.shape = match found.shape {
            Shape::Frames => Shape::RowOfFrames,
            _ => Shape::RowOfMessages,
        };
    }
    if key == "frames" && filled("messages").is_some() {
        let note = "Frames and messages are both there; the frames were taken, and messages follow from them.";
        found.notes.push(note.to_owned());
    }
    Ok(found)
}

impl Source<'_> {
    fn place_of_row(&self) -> Option<Place> {
        (!self.text.is_empty()).then(|| Place::of(self.text, 0).in_line(self.line))
    }
}

fn not_a_list(key: &str, value: &Value, source: &Source<'_>) -> Problem {
    Problem {
        what: format!(
            "\"{key}\" is not a list but of type {}",
            python::type_name(value)
        ),
        place: source.place_of_row(),
        next: format!("Put a list under \"{key}\"."),
    }
}

fn frames(list: &[Value], key: Option<&str>, source: &Source<'_>) -> Result<Found, Problem> {
    if list.len() > MAX_FRAMES {
        return Err(Problem::new(
            format!(
                "there are {} frames, and at most {MAX_FRAMES} are read",
                list.len()
            ),
            "Cut the list.",
        ));
    }
    let mut frames = Vec::new();
    for (at, entry) in list.iter().enumerate() {
        frames.push(Frame::from_json(entry).map_err(|error| Problem {
            what: format!("frame {at}: {error}"),
            place: source.place(key, at),
            next: format!(
                "A frame is {{\"type\": ..., \"content\": ...}}; its type is one of {}.",
                names()
            ),
        })?);
    }
    Ok(Found {
        shape: Shape::Frames,
        trajectory: Trajectory { frames },
        notes: Vec::new(),
    })
}

fn names() -> String {
    let names: Vec<&str> = FrameKind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

fn messages(list: &[Value], key: Option<&str>, source: &Source<'_>) -> Result<Found, Problem> {
    let mut messages = Vec::new();
    for (at, entry) in list.iter().enumerate() {
        match entry {
            Value::Object(fields) if fields.contains_key("role") => messages.push(Message {
                fields: fields.clone(),
            }),
            _ => {
                return Err(Problem {
                    what: format!("message {at} has no role"),
                    place: source.place(key, at),
                    next: "A message is {\"role\": ..., \"content\": ...}; its role is system, user, assistant or tool.".to_owned(),
                });
            }
        }
    }
    bridged(&messages, Shape::Messages, |at| source.place(key, at))
}

/// Frames of messages, with what the bridge does not carry.
fn bridged(
    messages: &[Message],
    shape: Shape,
    place: impl Fn(usize) -> Option<Place>,
) -> Result<Found, Problem> {
    let trajectory = bridge::frames(messages).map_err(|error| {
        let at = refused(messages);
        Problem {
            what: format!("message {at}: {error}"),
            place: place(at),
            next: advice(&error).to_owned(),
        }
    })?;
    if trajectory.frames.is_empty() {
        return Err(Problem::new(
            "no message becomes a frame",
            "Messages of the roles system, user, assistant and tool do.",
        ));
    }
    Ok(Found {
        shape,
        notes: losses(messages, &trajectory),
        trajectory,
    })
}

/// The first message at which the bridge fails; what fails a prefix fails all longer ones.
fn refused(messages: &[Message]) -> usize {
    let (mut good, mut bad) = (0, messages.len());
    while good + 1 < bad {
        let middle = (good + bad) / 2;
        if bridge::frames(&messages[..middle]).is_ok() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

fn advice(error: &BridgeError) -> &'static str {
    match error {
        BridgeError::Json(_) | BridgeError::NotAMapping(_) => {
            "The arguments of a call are a JSON object, or one within a string."
        }
        BridgeError::NotAContainer(_) => {
            "The content of a tool message is a JSON object or list, or plain text; put a bare number, true, false or null into {\"value\": ...}."
        }
        _ => "The arguments of a call are a JSON object.",
    }
}

/// What frames do not say of these messages, in sentences.
fn losses(messages: &[Message], trajectory: &Trajectory) -> Vec<String> {
    let mut notes = Vec::new();
    let mut push = |which: Vec<usize>, says: &str| {
        if !which.is_empty() {
            notes.push(format!("{} {says}", numbered(&which)));
        }
    };
    let all = |test: &dyn Fn(&Message) -> bool| -> Vec<usize> {
        (0..messages.len())
            .filter(|at| test(&messages[*at]))
            .collect()
    };
    let known = ["system", "user", "assistant", "tool"];
    push(
        all(&|message| !known.contains(&message.role())),
        "left out: no frame stands for this role.",
    );
    push(
        all(&|message| {
            message.role() == "assistant"
                && message.text().trim().is_empty()
                && message.tool_calls().is_empty()
        }),
        "left out: an assistant message with neither text nor call.",
    );
    push(
        all(&|message| {
            let content = message.content();
            message.role() != "tool" && content.is_some_and(|content| content.as_str().is_none())
        }),
        "with content that is not text: it was written as Python prints it.",
    );
    push(
        all(&|message| {
            message.role() == "assistant"
                && !message.tool_calls().is_empty()
                && !message.text().trim().is_empty()
        }),
        "with text beside a call: the text became a think frame.",
    );
    push(
        all(&|message| {
            message.role() == "assistant"
                && message.tool_calls().is_empty()
                && !message.text().trim().is_empty()
        }),
        "became an answer action: a message does not say whether it was answer or fail.",
    );
    let fields = ["role", "content", "tool_calls", "tool_call_id"];
    push(
        all(&|message| {
            message
                .fields
                .keys()
                .any(|key| !fields.contains(&key.as_str()))
        }),
        "with keys that frames do not have (such as name): they were left out.",
    );
    if messages
        .iter()
        .any(|message| message.tool_call_id().is_some())
    {
        notes.push(
            "Ids of calls were left out: results pair with actions by their order.".to_owned(),
        );
    }
    let split = trajectory
        .frames
        .iter()
        .any(|frame| frame.kind == FrameKind::Obs);
    if split {
        notes.push(
            "The system text was cut into goal and obs where it begins to speak of tools."
                .to_owned(),
        );
    }
    if trajectory
        .frames
        .iter()
        .any(|frame| frame.kind.owner() == crate::Owner::Model)
    {
        notes.push(
            "Messages do not say where a model's turn ends: there are no end frames.".to_owned(),
        );
    }
    notes
}

/// `Message 3`, `Messages 3, 5 and 2 more`.
fn numbered(which: &[usize]) -> String {
    let shown: Vec<String> = which.iter().take(4).map(usize::to_string).collect();
    let more = which.len() - shown.len();
    let list = shown.join(", ");
    match (which.len(), more) {
        (1, _) => format!("Message {list}"),
        (_, 0) => format!("Messages {list}"),
        _ => format!("Messages {list} and {more} more"),
    }
}

/// Puts an `end` frame behind every turn of the model that lacks one.
pub fn close_turns(trajectory: &mut Trajectory) {
    let frames = std::mem::take(&mut trajectory.frames);
    let mut open = false;
    for frame in frames {
        if open && !frame.kind.opens_model_turn() && frame.kind != FrameKind::End {
            trajectory
                .frames
                .push(Frame::new(FrameKind::End, Value::Null));
        }
        open = frame.kind.opens_model_turn();
        trajectory.frames.push(frame);
    }
    if open {
        trajectory
            .frames
            .push(Frame::new(FrameKind::End, Value::Null));
    }
}

fn chat_wire(text: &str, start: usize) -> Result<Found, Problem> {
    let (messages, mut notes) = chat::messages(&text[start..]).map_err(|problem| {
        let lines = text[..start].matches('\n').count();
        problem.in_line(lines)
    })?;
    if messages.is_empty() {
        return Err(Problem::new(
            "the wire has no turn but the template's own",
            "Add turns, each from <|start_header_id|> to <|eot_id|>.",
        ));
    }
    let mut found = bridged(&messages, Shape::Chat, |_| None)?;
    notes.push("The template's own lines were left out. A raw wire cannot say which markers content only spells: all were read as markers, and an answer that looks like a call as a call.".to_owned());
    notes.append(&mut found.notes);
    found.notes = notes;
    Ok(found)
}

fn agenticml_wire(text: &str, start: usize) -> Result<Found, Problem> {
    let readable = FrameKind::ALL
        .iter()
        .any(|kind| text[start..].starts_with(kind.alias()));
    let (view, shape) = if readable {
        (View::Markers, Shape::Markers)
    } else {
        (View::Reserved, Shape::Reserved)
    };
    let reading = Reading {
        view,
        strict: false,
        policy: Policy::Safe,
    };
    let parsed = agenticml::parse(text, &reading).map_err(|_| {
        let end = text[start..]
            .find("|>")
            .map_or(text.len(), |at| start + at + 2);
        let name: String = text[start..end].chars().take(40).collect();
        Problem::at(
            format!("{name} is no frame marker"),
            text,
            start,
            format!(
                "A wire begins with one of {}, or their reserved tokens 0 to 10.",
                names()
            ),
        )
    })?;
    if parsed.len() > MAX_FRAMES {
        return Err(Problem::new(
            format!(
                "there are {} frames, and at most {MAX_FRAMES} are read",
                parsed.len()
            ),
            "Cut the text.",
        ));
    }
    let mut notes = Vec::new();
    for (at, frame) in parsed.iter().enumerate() {
        let Some(error) = &frame.error else { continue };
        if notes.len() == 8 {
            notes.push("More frames have content that could not be read.".to_owned());
            break;
        }
        notes.push(format!(
            "Frame {at}, {}, at {}: {error}. The frame is kept without content.",
            frame.frame.kind.name(),
            Place::of(text, frame.body.start),
        ));
    }
    if parsed.iter().any(|frame| spells_token(&frame.raw)) {
        notes.push("Other control tokens stand in the content. They are kept as text.".to_owned());
    }
    notes.push("A raw wire cannot say which markers content only spells: all were read as frame boundaries.".to_owned());
    let frames = parsed.into_iter().map(|frame| frame.frame).collect();
    Ok(Found {
        shape,
        trajectory: Trajectory { frames },
        notes,
    })
}

/// Whether a text spells a special token of the model.
fn spells_token(text: &str) -> bool {
    text.match_indices("<|").any(|(at, _)| {
        let rest = &text[at..];
        rest.find("|>")
            .is_some_and(|end| injection::is_special_token(&rest[..end + 2]))
    })
}

/// The byte at which an entry of a list begins: of the list that a text is, or that its object has under
/// a key.
fn entry(text: &str, key: Option<&str>, index: usize) -> Option<usize> {
    let blank = |at: usize| -> usize {
        let rest = &text[at..];
        at + rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len()
    };
    let after = |at: usize, sign: u8| -> Option<usize> {
        let at = blank(at);
        (text.as_bytes().get(at) == Some(&sign)).then(|| blank(at + 1))
    };
    let value = |at: usize| json::loads_prefix(&text[at..]).ok();
    let mut at = blank(0);
    if let Some(key) = key {
        at = after(at, b'{')?;
        loop {
            let (name, length) = value(at)?;
            at = after(at + length, b':')?;
            if name.as_str() == Some(key) {
                break;
            }
            let (_, length) = value(at)?;
            at = after(at + length, b',')?;
        }
    }
    at = after(at, b'[')?;
    for _ in 0..index {
        let (_, length) = value(at)?;
        at = after(at + length, b',')?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Found {
        let read = read(text).expect("it can be read");
        assert_eq!(read.candidates.len(), 1);
        read.candidates[0].found.clone().expect("frames")
    }

    fn kinds(found: &Found) -> Vec<&'static str> {
        let frames = &found.trajectory.frames;
        frames.iter().map(|frame| frame.kind.name()).collect()
    }

    #[test]
    fn each_form_is_recognised() {
        let frames = r#"[{"type": "goal", "content": "g"}, {"type": "mission", "content": "m"}]"#;
        let messages = r#"[{"role": "system", "content": "g"}, {"role": "user", "content": "m"}]"#;
        let quoted = |list: &str| json::dumps(&Value::from(list));
        let cases = [
            (frames.to_owned(), Shape::Frames),
            (format!("\u{feff} {{\"frames\": {frames}, \"title\": \"t\"}}"), Shape::Frames),
            (messages.to_owned(), Shape::Messages),
            (format!("{{\"messages\": {messages}}}"), Shape::Messages),
            (format!("{{\"id\": \"a\", \"frames\": {frames}}}"), Shape::RowOfFrames),
            (format!("{{\"frames\": {}}}", quoted(frames)), Shape::RowOfFrames),
            (format!("{{\"id\": 3, \"messages\": {}}}", quoted(messages)), Shape::RowOfMessages),
            ("<|goal|>g\n<|mission|>m".to_owned(), Shape::Markers),
            ("<|reserved_special_token_0|>g<|reserved_special_token_1|>m".to_owned(), Shape::Reserved),
            ("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\ng<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nm<|eot_id|>".to_owned(), Shape::Chat),
        ];
        for (text, shape) in cases {
            let found = found(&text);
            assert_eq!(found.shape, shape, "{text}");
            assert_eq!(kinds(&found), ["goal", "mission"], "{text}");
            assert_eq!(found.trajectory.frames[1].content, "m".into());
        }
    }

    #[test]
    fn rows_are_offered_with_their_names() {
        let text = "{\"id\": \"one\", \"domain\": \"coding\", \"frames\": [{\"type\": \"goal\", \"content\": \"a\"}]}\n\n{\"frames\": [}\n{\"frames\": \"[{\\\"type\\\": \\\"nope\\\"}]\"}\n";
        let read = read(text).expect("rows");
        let labels: Vec<&str> = read.candidates.iter().map(|c| c.label.as_str()).collect();
        assert_eq!(labels, ["one, coding", "line 3", "line 4"]);
        let problem = read.candidates[1].found.clone().expect_err("bad JSON");
        assert_eq!(
            problem.place,
            Some(Place {
                line: 3,
                column: 13
            })
        );
        let problem = read.candidates[2].found.clone().expect_err("bad kind");
        assert!(problem.what.contains("unknown frame type"), "{problem}");
        let many: String = (0..MAX_CANDIDATES + 7)
            .map(|_| "{\"frames\": [{\"type\": \"goal\", \"content\": \"a\"}]}\n")
            .collect();
        let read = super::read(&many).expect("rows");
        assert_eq!((read.candidates.len(), read.left_out), (MAX_CANDIDATES, 7));
    }

    #[test]
    fn lines_may_be_the_frames_of_one_trajectory() {
        let text = "{\"type\": \"goal\", \"content\": \"g\"}\n{\"type\": \"mission\", \"content\": \"m\"}\n";
        assert_eq!(kinds(&found(text)), ["goal", "mission"]);
    }

    #[test]
    fn problems_say_what_and_where_and_what_next() {
        let problem = |text: &str| read(text).expect_err("a problem");
        let place = |text: &str| problem(text).place.map(|place| (place.line, place.column));
        assert_eq!(
            place("{\"frames\": [\n  {\"type\" \"goal\"}]}"),
            Some((2, 11))
        );
        assert_eq!(
            place("{\"a\": 1,\n \"frames\": [{\"type\": \"goal\"},\n  {\"type\": \"gaol\"}]}"),
            Some((3, 3))
        );
        assert_eq!(
            place("\n [{\"role\": \"user\", \"content\": \"m\"}, 3]"),
            Some((2, 37))
        );
        assert_eq!(place("see:\n<|goal|>g"), Some((1, 1)));
        assert!(problem("see:\n<|goal|>g").next.contains("line 2, column 1"));
        assert_eq!(place("<|eot_id|>x"), Some((1, 1)));
        assert!(problem("<|eot_id|>x").what.contains("<|eot_id|>"));
        assert_eq!(
            place("<|start_header_id|>user<|end_header_id|>\n\nm<|eot_id|>\nloose"),
            Some((4, 1))
        );
        let arguments = r#"[{"role": "user", "content": "m"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]"#;
        assert_eq!(place(arguments), Some((2, 13)));
        for text in [
            "",
            " \n",
            "[]",
            "{}",
            "{\"frames\": []}",
            "{\"frames\": 3}",
            "hello",
            "[1]",
        ] {
            assert!(!problem(text).next.is_empty(), "{text}");
        }
        assert!(problem(&" ".repeat(MAX_BYTES + 1)).what.contains("8 MiB"));
    }

    #[test]
    fn what_the_bridge_does_not_carry_is_said() {
        let text = r#"[{"role": "developer", "content": "d"}, {"role": "user", "content": "m", "name": "n"},
            {"role": "assistant", "content": "t", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
            {"role": "tool", "tool_call_id": "c", "content": "{\"a\": 1}"}, {"role": "assistant", "content": "done"}]"#;
        let found = found(text);
        assert_eq!(
            kinds(&found),
            ["mission", "think", "action", "result", "action"]
        );
        for (message, says) in [(0, "role"), (1, "name"), (2, "think"), (4, "answer")] {
            let said = |note: &String| {
                note.starts_with(&format!("Message {message} ")) && note.contains(says)
            };
            assert!(
                found.notes.iter().any(said),
                "{message} {says}: {:?}",
                found.notes
            );
        }
        let mut closed = found.trajectory.clone();
        close_turns(&mut closed);
        let kinds: Vec<_> = closed
            .frames
            .iter()
            .map(|frame| frame.kind.name())
            .collect();
        assert_eq!(
            kinds,
            [
                "mission", "think", "action", "end", "result", "action", "end"
            ]
        );
    }
}
