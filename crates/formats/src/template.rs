//! A model's own chat template, rendered as the `transformers` library renders it.
//!
//! Templates come with model files, so they are foreign code: they run in minijinja, which gives them
//! no access to anything but their input, with a bound on the work they may do.
//!
//! Where Jinja in Python and minijinja differ, Python's way is restored: `tojson` writes what
//! `json.dumps(..., ensure_ascii=False)` writes, values print as Python's `str()` prints them, strings
//! count as sequences, and strings, lists and dictionaries have Python's methods. What stays different:
//! tuples print as lists, and text cannot be formatted with `%`.

use std::fmt;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value as Item};
use minijinja_contrib::pycompat;
use serde_json::{Map, Value as Json};

use crate::json::{self, Integer, Object, Style, Value};
use crate::python;

/// Units of work a template may do: instructions, and one for every 64 bytes it makes. Real templates
/// take some hundred per message.
const FUEL: u64 = 5_000_000;
/// Longest text a template may write, in bytes.
const MAX_OUTPUT: usize = 16 << 20;
/// Longest template, in bytes.
const MAX_SOURCE: usize = 1 << 20;
/// How deep macros may call each other.
const MAX_CALLS: usize = 64;
/// Deepest nesting of values that are printed or dumped.
const MAX_DEPTH: usize = 128;

/// What a template is given besides the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateInput {
    /// The name of the token that begins a text; empty for none.
    pub bos_token: String,
    /// The name of the token that ends a text; empty for none.
    pub eos_token: String,
    /// Whether to end with the beginning of an assistant's turn.
    pub add_generation_prompt: bool,
    /// The date that `strftime_now` tells, as `26 Jul 2024` or `2024-07-26`, so that nothing depends on
    /// the clock. It is midnight.
    pub date: String,
    /// Descriptions of tools (a list of JSON schemas).
    pub tools: Option<Json>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// The template cannot be parsed.
    Syntax,
    /// The template itself refused the messages with `raise_exception`.
    Refused,
    /// The template does too much work or writes too much.
    Limit,
    /// The template failed while it ran.
    Render,
    /// The messages or the date are not of the expected form.
    Input,
}

/// A template that cannot be used, or not for these messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// What went wrong.
    pub kind: TemplateErrorKind,
    /// The line of the template, counted from 1, where it is known.
    pub line: Option<usize>,
    /// The reason; for [`TemplateErrorKind::Refused`] the template's own words.
    pub message: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} of the chat template: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for TemplateError {}

/// `raise_exception` was called.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        let line = error.line();
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(source) = cause {
            if let Some(Refused(message)) = source.downcast_ref() {
                return Self {
                    kind: TemplateErrorKind::Refused,
                    line,
                    message: message.clone(),
                };
            }
            cause = source.source();
        }
        let kind = match error.kind() {
            ErrorKind::SyntaxError => TemplateErrorKind::Syntax,
            ErrorKind::OutOfFuel | ErrorKind::WriteFailure => TemplateErrorKind::Limit,
            _ => TemplateErrorKind::Render,
        };
        let message = match (kind, error.detail()) {
            (TemplateErrorKind::Limit, _) => {
                "the template does too much work or writes too much".to_owned()
            }
            (_, Some(detail)) => format!("{}: {detail}", error.kind()),
            (_, None) => error.kind().to_string(),
        };
        Self {
            kind,
            line,
            message,
        }
    }
}

fn input_error(message: impl Into<String>) -> TemplateError {
    TemplateError {
        kind: TemplateErrorKind::Input,
        line: None,
        message: message.into(),
    }
}

/// A chat template, parsed.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TemplateErrorKind::Syntax`] with the line, or [`TemplateErrorKind::Limit`] for one of more than
    /// 1 MiB.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError {
                kind: TemplateErrorKind::Limit,
                line: None,
                message: format!("the chat template is longer than {MAX_SOURCE} bytes"),
            });
        }
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?;
        environment.set_syntax(syntax);
        environment.set_recursion_limit(MAX_CALLS);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(method);
        environment.set_formatter(|out, _, item| match item.as_str() {
            Some(text) => out.write_str(text).map_err(Error::from),
            None => out.write_str(&python_str(item)?).map_err(Error::from),
        });
        environment.add_filter("tojson", tojson);
        environment.add_filter("string", |item: &Item| match item.as_str() {
            Some(_) => Ok(item.clone()),
            None => python_str(item).map(Item::from),
        });
        environment.add_test("sequence", |item: &Item| {
            matches!(
                item.kind(),
                ValueKind::String | ValueKind::Seq | ValueKind::Map
            )
        });
        environment.add_test("iterable", |item: &Item| {
            matches!(
                item.kind(),
                ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable
            )
        });
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<Item, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, "raise_exception")
                    .with_source(Refused(message)))
            },
        );
        environment.add_template_owned(NAME, without_generation_tags(source))?;
        Ok(Self { environment })
    }

    /// The text of `messages`, a list of objects such as `{"role": "user", "content": "Hi"}`.
    ///
    /// As in `transformers`, members of a message that are null count as missing, and an empty list is
    /// an error.
    ///
    /// # Errors
    /// See [`TemplateErrorKind`].
    pub fn render(&self, messages: &Json, input: &TemplateInput) -> Result<String, TemplateError> {
        self.render_with(messages, input, &Map::new())
    }

    /// [`Self::render`] with further variables for the template, such as Llama 3.1's `date_string`.
    ///
    /// # Errors
    /// See [`TemplateErrorKind`].
    pub fn render_with(
        &self,
        messages: &Json,
        input: &TemplateInput,
        variables: &Map<String, Json>,
    ) -> Result<String, TemplateError> {
        let date = Date::parse(&input.date)
            .ok_or_else(|| input_error(format!("\"{}\" is not a date", input.date)))?;
        let mut context = Map::new();
        context.insert("messages".to_owned(), prepared(messages)?);
        context.insert("tools".to_owned(), input.tools.clone().unwrap_or_default());
        context.insert("documents".to_owned(), Json::Null);
        context.insert(
            "add_generation_prompt".to_owned(),
            input.add_generation_prompt.into(),
        );
        for (name, token) in [
            ("bos_token", &input.bos_token),
            ("eos_token", &input.eos_token),
        ] {
            if !token.is_empty() {
                context.insert(name.to_owned(), token.as_str().into());
            }
        }
        context.extend(variables.clone());

        let mut environment = self.environment.clone();
        environment.add_function("strftime_now", move |format: &str| date.strftime(format));
        let template = environment.get_template(NAME)?;
        let mut output = Limited(Vec::new());
        template.render_captured_to(Item::from(Serde(&context)), &mut output)?;
        String::from_utf8(output.0).map_err(|error| input_error(error.to_string()))
    }
}

/// Messages as `transformers` passes them on.
fn prepared(messages: &Json) -> Result<Json, TemplateError> {
    let Json::Array(messages) = messages else {
        return Err(input_error("the messages are not a list"));
    };
    if messages.is_empty() {
        return Err(input_error("there are no messages"));
    }
    let present = |message: &Json| match message {
        Json::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(name, value)| (name.clone(), value.clone()));
            Ok(Json::Object(members.collect()))
        }
        _ => Err(input_error("a message is not an object")),
    };
    messages.iter().map(present).collect()
}

/// Takes bytes up to a limit.
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `{% generation %}` marks what a model is trained on; for rendering it means nothing. Both its tags
/// become a condition that holds, on the same lines.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let inner = tag.trim_start_matches(['-', '+']).trim_start();
        let replacement = [("generation", "if true"), ("endgeneration", "endif")]
            .into_iter()
            .find_map(|(name, replacement)| {
                let behind = inner.strip_prefix(name)?;
                let end = behind.trim_start().trim_start_matches(['-', '+']);
                end.starts_with("%}").then_some((behind, replacement))
            });
        if let Some((behind, replacement)) = replacement {
            out.push_str(&tag[..tag.len() - inner.len()]);
            out.push_str(replacement);
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

/// A template's value as a JSON value of Python's kind.
fn to_value(item: &Item, depth: usize) -> Result<Value, Error> {
    let wrong = |what: String| Err(Error::new(ErrorKind::BadSerialization, what));
    if depth > MAX_DEPTH {
        return wrong("the value is nested too deeply".to_owned());
    }
    Ok(match item.kind() {
        ValueKind::Undefined => {
            return wrong("Object of type Undefined is not JSON serializable".to_owned());
        }
        ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(item.is_true()),
        ValueKind::Number if item.is_integer() => match Integer::from_decimal(&item.to_string()) {
            Some(integer) => Value::Int(integer),
            None => return wrong(format!("{item} is not a number")),
        },
        ValueKind::Number => match f64::try_from(item.clone()) {
            Ok(float) => Value::Float(float),
            Err(error) => return Err(error),
        },
        ValueKind::String => Value::String(item.to_string()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = item.try_iter()?.map(|item| to_value(&item, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let mut object = Object::new();
            for key in item.try_iter()? {
                let value = to_value(&item.get_item(&key)?, depth + 1)?;
                let name = match to_value(&key, depth + 1)? {
                    Value::String(name) => name,
                    other => json::dumps(&other),
                };
                object.insert(name, value);
            }
            Value::Object(object)
        }
        kind => return wrong(format!("Object of type {kind} is not JSON serializable")),
    })
}

/// What Python's `str()` gives. Objects of the template engine itself print as it likes.
fn python_str(item: &Item) -> Result<String, Error> {
    match item.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Seq | ValueKind::Map => {
            to_value(item, 0).map(|value| python::str(&value))
        }
        _ => Ok(item.to_string()),
    }
}

/// `json.dumps(item, ensure_ascii=False)` with the options that `transformers` lets through.
fn tojson(item: &Item, options: Kwargs) -> Result<Item, Error> {
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let indent: Option<usize> = options.get("indent")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    options.assert_all_used()?;
    let mut value = to_value(item, 0)?;
    if sort_keys == Some(true) {
        sort(&mut value);
    }
    let style = Style {
        ascii: ascii == Some(true),
        indent,
    };
    match separators.as_deref() {
        None => Ok(json::dumps_with(&value, style).into()),
        Some([item, key]) => {
            let mut out = String::new();
            write_separated(&value, style, (item, key), 0, &mut out);
            Ok(out.into())
        }
        Some(_) => Err(Error::new(
            ErrorKind::InvalidOperation,
            "separators must be two strings",
        )),
    }
}

fn sort(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort),
        Value::Object(object) => {
            object.sort_keys();
            object.values_mut().for_each(sort);
        }
        _ => {}
    }
}

/// As [`json::dumps_with`], with other separators between items and behind keys.
fn write_separated(
    value: &Value,
    style: Style,
    separators: (&str, &str),
    level: usize,
    out: &mut String,
) {
    let gap = |level: usize, out: &mut String| {
        if let Some(width) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * level));
        }
    };
    let (brackets, count) = match value {
        Value::Array(items) => (('[', ']'), items.len()),
        Value::Object(object) => (('{', '}'), object.len()),
        _ => return out.push_str(&json::dumps_with(value, style)),
    };
    out.push(brackets.0);
    for index in 0..count {
        if index > 0 {
            out.push_str(separators.0);
        }
        gap(level + 1, out);
        let item = match value {
            Value::Object(object) => object.get_index(index).map(|(key, item)| {
                out.push_str(&json::dumps_with(&Value::String(key.clone()), style));
                out.push_str(separators.1);
                item
            }),
            Value::Array(items) => items.get(index),
            _ => None,
        };
        if let Some(item) = item {
            write_separated(item, style, separators, level + 1, out);
        }
    }
    if count > 0 {
        gap(level, out);
    }
    out.push(brackets.1);
}

/// Python's methods: those of minijinja's own collection, and some that it lacks.
fn method(state: &mut State, item: &Item, name: &str, args: &[Item]) -> Result<Item, Error> {
    let text = item.as_str();
    let argument = match args {
        [argument] => argument.as_str(),
        _ => None,
    };
    match (text, name, argument) {
        (Some(text), "partition", Some(separator)) if !separator.is_empty() => {
            let (before, middle, behind) = match text.split_once(separator) {
                Some((before, behind)) => (before, separator, behind),
                None => (text, "", ""),
            };
            Ok([before, middle, behind].map(Item::from).to_vec().into())
        }
        (Some(text), "rpartition", Some(separator)) if !separator.is_empty() => {
            let (before, middle, behind) = match text.rsplit_once(separator) {
                Some((before, behind)) => (before, separator, behind),
                None => ("", "", text),
            };
            Ok([before, middle, behind].map(Item::from).to_vec().into())
        }
        (Some(text), "removeprefix", Some(prefix)) => {
            Ok(text.strip_prefix(prefix).unwrap_or(text).into())
        }
        (Some(text), "removesuffix", Some(suffix)) => {
            Ok(text.strip_suffix(suffix).unwrap_or(text).into())
        }
        _ => pycompat::unknown_method_callback(state, item, name, args),
    }
}

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: u32,
    /// 1 to 12.
    month: u32,
    /// 1 to 31.
    day: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

impl Date {
    /// Reads `26 Jul 2024`, `26 July 2024` and `2024-07-26`.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let date = match words[..] {
            [day, month, year] => Self {
                day: day.parse().ok()?,
                month: 1 + MONTHS
                    .iter()
                    .position(|name| *name == month || name[..3] == *month)?
                    as u32,
                year: year.parse().ok()?,
            },
            [date] => {
                let mut numbers = date.split('-').map(|number| number.parse().ok());
                let date = Self {
                    year: numbers.next()??,
                    month: numbers.next()??,
                    day: numbers.next()??,
                };
                numbers.next().is_none().then_some(date)?
            }
            _ => return None,
        };
        let known = (1..=9999).contains(&date.year) && (1..=12).contains(&date.month);
        (known && (1..=date.days_in(date.month)).contains(&date.day)).then_some(date)
    }

    fn days_in(self, month: u32) -> u32 {
        let leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Day of the year, from 1.
    fn day_of_year(self) -> u32 {
        (1..self.month)
            .map(|month| self.days_in(month))
            .sum::<u32>()
            + self.day
    }

    /// Day of the week, 0 for Monday. The first of January of the year 1 was a Monday.
    fn weekday(self) -> usize {
        let years = self.year - 1;
        let days = years * 365 + years / 4 - years / 100 + years / 400 + self.day_of_year() - 1;
        (days % 7) as usize
    }

    /// Python's `strftime` for midnight of this day.
    fn strftime(self, format: &str) -> Result<String, Error> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = chars.next();
            let bare = directive == Some('-');
            if bare {
                directive = chars.next();
            }
            let number = |value: u32, width: usize| match bare {
                true => value.to_string(),
                false => format!("{value:0width$}"),
            };
            let month = MONTHS[self.month as usize - 1];
            let weekday = DAYS[self.weekday()];
            match directive {
                Some('d') => out.push_str(&number(self.day, 2)),
                Some('e') if bare => out.push_str(&self.day.to_string()),
                Some('e') => out.push_str(&format!("{:2}", self.day)),
                Some('m') => out.push_str(&number(self.month, 2)),
                Some('y') => out.push_str(&number(self.year % 100, 2)),
                Some('Y') => out.push_str(&self.year.to_string()),
                Some('j') => out.push_str(&number(self.day_of_year(), 3)),
                Some('H' | 'M' | 'S') => out.push_str(&number(0, 2)),
                Some('I') => out.push_str(&number(12, 2)),
                Some('f') => out.push_str("000000"),
                Some('p') => out.push_str("AM"),
                Some('b' | 'h') => out.push_str(&month[..3]),
                Some('B') => out.push_str(month),
                Some('a') => out.push_str(&weekday[..3]),
                Some('A') => out.push_str(weekday),
                Some('w') => out.push_str(&((self.weekday() + 1) % 7).to_string()),
                Some('u') => out.push_str(&(self.weekday() + 1).to_string()),
                Some('F') => out.push_str(&self.strftime("%Y-%m-%d")?),
                Some('T') => out.push_str("00:00:00"),
                Some('Z' | 'z') => {}
                Some('%') => out.push('%'),
                other => {
                    return Err(Error::new(
                        ErrorKind::InvalidOperation,
                        format!("strftime_now does not know %{}", other.unwrap_or(' ')),
                    ));
                }
            }
        }
        Ok(out)
    }
}
