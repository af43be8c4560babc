//! A report as a line of JSON.

use agent::conform::{ConformError, Failure, run};
use formats::json::{Object, Value, dumps};
use tokens::Llama3Tokenizer;

/// Runs a file of golden cases and writes down all that there is to say about it.
///
/// # Errors
/// When the text is no such file.
pub fn line(file: &str, tokenizer: &Llama3Tokenizer) -> Result<String, ConformError> {
    let report = run(file, tokenizer)?;
    let failure = |failure: &Failure| {
        let members = [
            ("name", &failure.name),
            ("expected", &failure.expected),
            ("got", &failure.got),
        ];
        let members = members.map(|(key, text)| (key.to_owned(), text.as_str().into()));
        Value::Object(Object::from_iter(members))
    };
    let failures = report.failures.iter().map(failure).collect();
    let number = |n: usize| Value::from(n as i64);
    let report = Object::from_iter([
        ("subject".to_owned(), report.subject.as_str().into()),
        ("passed".to_owned(), number(report.passed())),
        ("total".to_owned(), number(report.total)),
        ("other_texts".to_owned(), number(report.other_texts)),
        ("failures".to_owned(), Value::Array(failures)),
    ]);
    Ok(dumps(&report.into()))
}
