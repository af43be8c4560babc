//! Format validity: whether one greedy completion of a row keeps its format, and the figures over many.
//!
//! The two checks measure different things, as in the reference: ChatML needs a stop token, AgenticML
//! does not, and an empty AgenticML completion counts as valid.

use crate::agenticml::{ParseError, Reading, View, parse};
use crate::chatml::{Generation, read_generation};
use crate::frame::{Frame, FrameError};
use crate::json::{self, JsonError, Object, Value};
use crate::message::{Conversation, Message};
use crate::validate::validate;
use crate::{Policy, python};
use indexmap::IndexMap;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The completion could be parsed.
    pub parsed: bool,
    /// It keeps the rules.
    pub valid: bool,
    /// Why it could not be parsed.
    pub parse_error: Option<String>,
    /// Which rules it breaks.
    pub errors: Vec<String>,
}

/// Why a row's frames or messages cannot be used. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RowError {
    /// The row has no such column.
    #[error("'{0}'")]
    Missing(&'static str),
    /// The column is text, but not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The column is no list; carries Python's name of its type.
    #[error("'{0}' object is not iterable")]
    NotAList(&'static str),
    /// An entry is no object; carries Python's name of its type.
    #[error("'{0}' object has no attribute 'get'")]
    NotAnObject(&'static str),
    /// A frame is not well formed.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl RowError {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::Missing(_) => "KeyError",
            Self::Json(_) => "JSONDecodeError",
            Self::NotAList(_) => "TypeError",
            Self::NotAnObject(_) => "AttributeError",
            Self::Frame(error) => error.python_class(),
        }
    }
}

/// The list in a row's column, which may also be the text of a JSON list.
fn column(row: &Value, name: &'static str) -> Result<Vec<Value>, RowError> {
    let value = match row.get(name) {
        None => return Err(RowError::Missing(name)),
        Some(Value::String(text)) => json::loads(text)?,
        Some(other) => other.clone(),
    };
    match value {
        Value::Array(items) => Ok(items),
        other => Err(RowError::NotAList(python::type_name(&other))),
    }
}

/// Index of the first entry whose `key` is one of these names.
fn target(items: &[Value], key: &str, names: &[&str]) -> Result<Option<usize>, RowError> {
    for (index, item) in items.iter().enumerate() {
        let object = item
            .as_object()
            .ok_or(RowError::NotAnObject(python::type_name(item)))?;
        let name = object.get(key).and_then(Value::as_str);
        if name.is_some_and(|name| names.contains(&name)) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

const MODEL_FRAMES: [&str; 4] = ["belief", "plan", "think", "action"];

/// The frames that prompt for the first model turn: those before the first belief, plan, think or
/// action. `None` when there is no such turn.
///
/// # Errors
/// When the row's `frames` are missing or not well formed.
pub fn prompt_frames(row: &Value) -> Result<Option<Vec<Frame>>, RowError> {
    let frames = column(row, "frames")?;
    let Some(cut) = target(&frames, "type", &MODEL_FRAMES)? else {
        return Ok(None);
    };
    Ok(Some(read_frames(&frames[..cut])?))
}

fn read_frames(frames: &[Value]) -> Result<Vec<Frame>, RowError> {
    let frames: Result<_, FrameError> = frames.iter().map(Frame::from_json).collect();
    Ok(frames?)
}

/// The messages that prompt for the first assistant message. `None` when there is none.
///
/// # Errors
/// When the row's `messages` are missing or not well formed.
pub fn prompt_messages(row: &Value) -> Result<Option<Conversation>, RowError> {
    let messages = column(row, "messages")?;
    let Some(cut) = target(&messages, "role", &["assistant"])? else {
        return Ok(None);
    };
    let messages = messages[..cut].iter().filter_map(|message| {
        let fields = message.as_object()?.clone();
        Some(Message { fields })
    });
    Ok(Some(Conversation::new(messages.collect())))
}

/// Whether a row has a model turn to compare with. A column that is missing, unreadable or no list has
/// none.
///
/// # Errors
/// When an entry is no object.
pub fn has_target(row: &Value, chatml: bool) -> Result<bool, RowError> {
    let (name, key, names): (_, _, &[&str]) = if chatml {
        ("messages", "role", &["assistant"])
    } else {
        ("frames", "type", &MODEL_FRAMES)
    };
    match column(row, name) {
        Ok(items) => Ok(target(&items, key, names)?.is_some()),
        Err(_) => Ok(false),
    }
}

/// Checks an AgenticML completion of a row: it is parsed leniently and must keep the rules behind the
/// row's prompt frames (all frames, when there is no model turn). Broken payloads, a missing `end` and
/// invented results do not count.
///
/// # Errors
/// When the row's `frames` are missing or not well formed.
pub fn check_agenticml(row: &Value, text: &str, policy: Policy) -> Result<Outcome, RowError> {
    let frames = column(row, "frames")?;
    let cut = target(&frames, "type", &MODEL_FRAMES)?.unwrap_or(frames.len());
    let mut frames = read_frames(&frames[..cut])?;
    let reading = Reading {
        view: View::Reserved,
        strict: false,
        policy,
    };
    match parse(text, &reading) {
        Ok(parsed) => frames.extend(parsed.into_iter().map(|p| p.frame)),
        Err(error) => return Ok(unparsed(&error)),
    }
    let errors = match validate(&frames, true) {
        Ok(violations) => violations.iter().map(ToString::to_string).collect(),
        Err(error) => vec![format!("validator crashed: {error}")],
    };
    Ok(Outcome {
        parsed: true,
        valid: errors.is_empty(),
        parse_error: None,
        errors,
    })
}

fn unparsed(error: &ParseError) -> Outcome {
    Outcome {
        parse_error: Some(format!("parse failure: {error}")),
        ..Outcome::default()
    }
}

/// Checks a ChatML completion: it must hold an end of turn and be a call with a `name` or a text.
pub fn check_chatml(text: &str) -> Outcome {
    if !["<|eot_id|>", "<|eom_id|>"]
        .iter()
        .any(|t| text.contains(t))
    {
        return Outcome {
            parse_error: Some("missing stop token".to_owned()),
            errors: vec!["no stop token emitted".to_owned()],
            ..Outcome::default()
        };
    }
    let read = read_generation(text);
    let errors = match &read {
        Generation::Failed(_) => vec![read.stop_reason()],
        Generation::Call(call) if !call.contains_key("name") => {
            vec!["tool call missing 'name' field".to_owned()]
        }
        Generation::Call(_) | Generation::Text(_) => Vec::new(),
    };
    Outcome {
        parsed: true,
        valid: errors.is_empty(),
        parse_error: None,
        errors,
    }
}

/// Figures over many checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteMetrics {
    /// Share of completions that could be parsed; 0 of none.
    pub parse_rate: f64,
    /// Share of completions that keep the rules; 0 of none.
    pub valid_rate: f64,
    /// Counts by domain, in the order of appearance.
    pub by_domain: IndexMap<String, DomainCounts>,
    /// The ten most frequent failures, most frequent first; equal ones in the order of appearance.
    pub top_failures: Vec<(String, usize)>,
}

/// Counts of one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainCounts {
    /// All.
    pub n: usize,
    /// Those that could be parsed.
    pub parsed: usize,
    /// Those that keep the rules.
    pub valid: usize,
}

/// Sums up checks, each with its domain.
pub fn suite_metrics(checks: &[(String, Outcome)]) -> SuiteMetrics {
    if checks.is_empty() {
        return SuiteMetrics::default();
    }
    let mut by_domain: IndexMap<String, DomainCounts> = IndexMap::new();
    let mut failures: IndexMap<String, usize> = IndexMap::new();
    let key = |stage: &str, text: &str| {
        let head: String = text
            .split(':')
            .next()
            .unwrap_or("")
            .chars()
            .take(50)
            .collect();
        format!("{stage}: {head}")
    };
    for (domain, check) in checks {
        let counts = by_domain.entry(domain.clone()).or_default();
        counts.n += 1;
        counts.parsed += usize::from(check.parsed);
        counts.valid += usize::from(check.valid);
        if let Some(error) = &check.parse_error {
            *failures.entry(key("parse", error)).or_default() += 1;
        }
        for error in &check.errors {
            *failures.entry(key("validation", error)).or_default() += 1;
        }
    }
    let mut top_failures: Vec<(String, usize)> = failures.into_iter().collect();
    top_failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    top_failures.truncate(10);
    let share = |count: usize| count as f64 / checks.len() as f64;
    SuiteMetrics {
        parse_rate: share(by_domain.values().map(|c| c.parsed).sum()),
        valid_rate: share(by_domain.values().map(|c| c.valid).sum()),
        by_domain,
        top_failures,
    }
}

/// What one task cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskCost {
    /// Whether it succeeded, when that is known.
    pub success: Option<bool>,
    /// Tokens of its prompts.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Tokens in all; 0 stands for prompt and generated together.
    pub total_tokens: u64,
    /// Seconds of inference.
    pub inference_sec: f64,
    /// Seconds of wall time.
    pub total_sec: f64,
}

impl TaskCost {
    fn total(&self) -> f64 {
        let total = match self.total_tokens {
            0 => self.prompt_tokens + self.generated_tokens,
            total => total,
        };
        total as f64
    }
}

/// Costs over many tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// Number of tasks; never 0.
    pub n: usize,
    /// Mean tokens in all.
    pub avg_total_tokens: f64,
    /// Mean tokens generated.
    pub avg_generated_tokens: f64,
    /// Mean seconds of wall time.
    pub avg_wall_sec: f64,
    /// Mean seconds of inference.
    pub avg_inference_sec: f64,
    /// Mean tokens in all of the tasks that succeeded.
    pub tokens_per_success: Option<f64>,
    /// Mean seconds of wall time of the tasks that succeeded.
    pub sec_per_success: Option<f64>,
    /// Number of tasks that succeeded.
    pub n_success: usize,
    /// Share of successes among tasks whose success is known.
    pub success_rate: Option<f64>,
}

/// Sums up costs; `None` of no tasks.
pub fn efficiency(tasks: &[TaskCost]) -> Option<Efficiency> {
    let won: Vec<&TaskCost> = tasks.iter().filter(|t| t.success == Some(true)).collect();
    let judged = tasks.iter().filter(|t| t.success.is_some()).count();
    let all: Vec<&TaskCost> = tasks.iter().collect();
    Some(Efficiency {
        n: tasks.len(),
        avg_total_tokens: mean(&all, TaskCost::total)?,
        avg_generated_tokens: mean(&all, |t| t.generated_tokens as f64)?,
        avg_wall_sec: mean(&all, |t| t.total_sec)?,
        avg_inference_sec: mean(&all, |t| t.inference_sec)?,
        tokens_per_success: mean(&won, TaskCost::total),
        sec_per_success: mean(&won, |t| t.total_sec),
        n_success: won.len(),
        success_rate: (judged > 0).then(|| won.len() as f64 / judged as f64),
    })
}

fn mean(tasks: &[&TaskCost], figure: impl Fn(&TaskCost) -> f64) -> Option<f64> {
    let sum: f64 = tasks.iter().map(|task| figure(task)).sum();
    (!tasks.is_empty()).then(|| sum / tasks.len() as f64)
}

impl SuiteMetrics {
    /// The figures as the reference writes them.
    pub fn to_json(&self) -> Value {
        let count = |n: usize| Value::from(n as i64);
        let mut object = Object::new();
        if self.by_domain.is_empty() {
            object.insert("n".into(), count(0));
        }
        object.insert("parse_rate".into(), self.parse_rate.into());
        object.insert("valid_rate".into(), self.valid_rate.into());
        if !self.by_domain.is_empty() {
            let domains = self.by_domain.iter().map(|(domain, counts)| {
                let counts = Object::from_iter([
                    ("n".to_owned(), count(counts.n)),
                    ("parsed".to_owned(), count(counts.parsed)),
                    ("valid".to_owned(), count(counts.valid)),
                ]);
                (domain.clone(), Value::Object(counts))
            });
            let failures = self
                .top_failures
                .iter()
                .map(|(key, n)| (key.clone(), count(*n)));
            object.insert("by_domain".into(), Object::from_iter(domains).into());
            object.insert("top_failures".into(), Object::from_iter(failures).into());
        }
        Value::Object(object)
    }
}

impl Efficiency {
    /// The figures as the reference writes them.
    pub fn to_json(&self) -> Value {
        let maybe = |figure: Option<f64>| figure.map_or(Value::Null, Value::Float);
        Value::Object(Object::from_iter([
            ("n".to_owned(), Value::from(self.n as i64)),
            ("avg_total_tokens".to_owned(), self.avg_total_tokens.into()),
            (
                "avg_generated_tokens".to_owned(),
                self.avg_generated_tokens.into(),
            ),
            ("avg_wall_sec".to_owned(), self.avg_wall_sec.into()),
            (
                "avg_inference_sec".to_owned(),
                self.avg_inference_sec.into(),
            ),
            (
                "tokens_per_success".to_owned(),
                maybe(self.tokens_per_success),
            ),
            ("sec_per_success".to_owned(), maybe(self.sec_per_success)),
            ("n_success".to_owned(), Value::from(self.n_success as i64)),
            ("success_rate".to_owned(), maybe(self.success_rate)),
        ]))
    }
}
