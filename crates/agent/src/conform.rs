//! Runs files of golden cases: what the published reference does, case by case.
//!
//! A file names its `subject`; each case has `name`, `kind`, `input` and `expected`. A case passes when
//! the answer is equal, written as JSON. Of errors the class must be equal; texts may differ, which is
//! counted.

mod case;
mod helpers;
mod loops;
mod script;
mod text;
mod tokenized;

use case::{Case, decode, field};
use formats::json::{JsonError, Value, dumps, loads};
use tokens::Llama3Tokenizer;

/// How a file went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What the cases are about.
    pub subject: String,
    /// Number of cases.
    pub total: usize,
    /// The ones that did not pass, in order.
    pub failures: Vec<Failure>,
    /// Number of cases that passed with another error text.
    pub other_texts: usize,
}

impl Report {
    /// Number of cases that passed.
    pub fn passed(&self) -> usize {
        self.total - self.failures.len()
    }
}

/// A case that did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The case.
    pub name: String,
    /// What it expects, as JSON.
    pub expected: String,
    /// The answer as JSON, or why there is none.
    pub got: String,
}

/// Why a file cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConformError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It names no subject that there are runners for; carries what it names.
    #[error("no runners for the subject \"{0}\"")]
    Subject(String),
    /// It is not built as it should be.
    #[error("not a file of golden cases: {0}")]
    Form(&'static str),
}

/// Runs a file.
///
/// # Errors
/// When the text is not a file of golden cases.
pub fn run(text: &str, tokenizer: &Llama3Tokenizer) -> Result<Report, ConformError> {
    let file = loads(text)?;
    let subject = field(&file, "subject").as_str().unwrap_or("");
    let mut report = Report {
        subject: subject.to_owned(),
        ..Report::default()
    };
    if subject == "validate_enum" {
        text::sequences(&file, &mut report).map_err(ConformError::Form)?;
        return Ok(report);
    }
    let runner: fn(&Case<'_>) -> Answer = match subject {
        "render" => text::render,
        "parse" => text::parse,
        "validate" => text::validate,
        "bridge" => text::bridge,
        "tools_obs" => text::tools_obs,
        "format_validity" => text::format_validity,
        "tokens" => tokenized::tokens,
        "chatml_render" => tokenized::chatml_render,
        "embeddings" => tokenized::embeddings,
        "step_run" => loops::step_run,
        "helpers" => helpers::helpers,
        other => return Err(ConformError::Subject(other.to_owned())),
    };
    let cases = field(&file, "cases").as_array();
    for case in cases.ok_or(ConformError::Form("there are no cases"))? {
        check(&file, case, tokenizer, runner, &mut report);
    }
    Ok(report)
}

/// What a runner says: the answer in the form of the expected value, or why there can be none.
type Answer = Result<Value, String>;

fn check(
    file: &Value,
    case: &Value,
    tokenizer: &Llama3Tokenizer,
    runner: fn(&Case<'_>) -> Answer,
    report: &mut Report,
) {
    report.total += 1;
    let name = field(case, "name").as_str().unwrap_or("(no name)");
    let written = field(case, "expected");
    let mut fail = |expected: String, got: String| {
        report.failures.push(Failure {
            name: name.to_owned(),
            expected,
            got,
        });
    };
    let (input, expected) = match (decode(field(case, "input")), decode(written)) {
        (Ok(input), Ok(expected)) => (input, expected),
        (Err(error), _) => return fail(dumps(written), format!("the input: {error}")),
        (_, Err(error)) => return fail(dumps(written), format!("the expected value: {error}")),
    };
    let case = Case {
        file,
        kind: field(case, "kind").as_str().unwrap_or(""),
        input: &input,
        expected: &expected,
        tokenizer,
    };
    let got = match runner(&case) {
        Ok(got) => got,
        Err(why) => return fail(dumps(&expected), why),
    };
    let (expected_text, got_text) = (dumps(&expected), dumps(&got));
    if expected_text == got_text {
        return;
    }
    if dumps(&without_texts(&expected)) == dumps(&without_texts(&got)) {
        report.other_texts += 1;
    } else {
        fail(expected_text, got_text);
    }
}

/// An expected value or answer without the texts of errors, and without what was logged.
fn without_texts(value: &Value) -> Value {
    let Value::Object(object) = value else {
        return value.clone();
    };
    let is_error = |object: &formats::json::Object| {
        object.contains_key("message") && object.get("error").is_some_and(|e| e.as_str().is_some())
    };
    let mut object = object.clone();
    object.shift_remove("log");
    if is_error(&object) {
        object.shift_remove("message");
    }
    for (key, member) in &mut object {
        if let Value::Object(member) = member
            && key != "ok"
            && is_error(member)
        {
            member.shift_remove("message");
        }
    }
    Value::Object(object)
}

/// Cases that may fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    subject: String,
    /// The name up to a `*`, and from there on.
    name: (String, Option<String>),
}

/// A line of an allow file that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: expected `subject: name of a case`, or a comment that begins with #")]
pub struct AllowError(pub usize);

impl Allowed {
    /// Reads an allow file: `subject: name of a case` a line, where a `*` stands for any text; empty
    /// lines and lines that begin with `#` are comments.
    ///
    /// # Errors
    /// When a line is neither.
    pub fn parse(text: &str) -> Result<Self, AllowError> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (subject, name) = line.split_once(": ").ok_or(AllowError(index + 1))?;
            let (subject, name) = (subject.to_owned(), name.trim());
            let name = match name.split_once('*') {
                Some((head, tail)) => (head.to_owned(), Some(tail.to_owned())),
                None => (name.to_owned(), None),
            };
            entries.push(Entry { subject, name });
        }
        Ok(Self { entries })
    }

    /// Whether this case may fail.
    pub fn contains(&self, subject: &str, name: &str) -> bool {
        self.entries.iter().any(|entry| {
            let (head, tail) = &entry.name;
            entry.subject == subject
                && match tail {
                    None => name == head,
                    Some(tail) => name
                        .strip_prefix(head.as_str())
                        .is_some_and(|rest| rest.ends_with(tail.as_str())),
                }
        })
    }
}
