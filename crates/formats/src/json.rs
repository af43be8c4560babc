//! JSON as Python's `json` module reads and writes it.
//!
//! Key order is kept, integers have any size, `NaN` and the infinities are literals, and of equal
//! keys the last value wins at the first one's place. One thing cannot be held: a `\uD800`-style
//! escape without its other half, since Rust text is Unicode; reading one is an error of its own.

use crate::python;
use indexmap::IndexMap;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt;

/// An object; keys keep their order.
pub type Object = IndexMap<String, Value>;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction and exponent, of any size.
    Int(Integer),
    /// A number with fraction or exponent, `NaN`, `Infinity` or `-Infinity`.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

impl Value {
    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if it is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The list, if it is one.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The member of this name, if it is an object that has one.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(items)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

/// For serialisers of other data models (a template engine, serde_json). Integers beyond 128 bits
/// are an error there; [`dumps`] writes them all.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => match value.as_i64() {
                Some(small) => serializer.serialize_i64(small),
                None => match value.to_string().parse::<i128>() {
                    Ok(wide) => serializer.serialize_i128(wide),
                    Err(_) => Err(serde::ser::Error::custom("integer beyond 128 bits")),
                },
            },
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, item) in object {
                    map.serialize_entry(key, item)?;
                }
                map.end()
            }
        }
    }
}

/// An integer of any size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Integer(Digits);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Digits {
    Small(i64),
    /// Canonical decimal that does not fit an `i64`.
    Large(Box<str>),
}

impl Integer {
    /// Reads decimal digits with an optional minus sign; leading zeros are dropped.
    pub fn from_decimal(text: &str) -> Option<Self> {
        let (minus, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        if let Ok(small) = text.parse() {
            return Some(Self(Digits::Small(small)));
        }
        let digits = digits.trim_start_matches('0');
        let canonical = format!("{}{digits}", if minus { "-" } else { "" });
        Some(match canonical.parse() {
            Ok(small) => Self(Digits::Small(small)),
            Err(_) => Self(Digits::Large(canonical.into())),
        })
    }

    /// The value, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Digits::Small(value) => Some(value),
            Digits::Large(_) => None,
        }
    }

    /// The nearest double; infinite when out of its range.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Digits::Small(value) => *value as f64,
            Digits::Large(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.0 == Digits::Small(0)
    }
}

impl From<i64> for Integer {
    fn from(value: i64) -> Self {
        Self(Digits::Small(value))
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Digits::Small(value) => value.fmt(f),
            Digits::Large(text) => f.write_str(text),
        }
    }
}

/// What [`dumps_with`] writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Write everything above U+007E as `\uXXXX`.
    pub ascii: bool,
    /// Spread over lines with this many spaces a level; `None` writes one line.
    pub indent: Option<usize>,
}

/// Python's `json.dumps(value, ensure_ascii=False)`: one line, separators `", "` and `": "`.
pub fn dumps(value: &Value) -> String {
    dumps_with(value, Style::default())
}

/// Python's `json.dumps(value)`: as [`dumps`], with everything outside ASCII escaped.
pub fn dumps_ascii(value: &Value) -> String {
    dumps_with(
        value,
        Style {
            ascii: true,
            indent: None,
        },
    )
}

/// Python's `json.dumps` in the given style.
pub fn dumps_with(value: &Value, style: Style) -> String {
    let mut out = String::new();
    write_value(value, style, 0, &mut out);
    out
}

fn write_value(value: &Value, style: Style, level: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Float(value) if value.is_nan() => out.push_str("NaN"),
        Value::Float(value) if value.is_infinite() => out.push_str(if *value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }),
        Value::Float(value) => python::write_float(*value, out),
        Value::String(text) => write_string(text, style.ascii, out),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                write_gap(index, style, level + 1, out);
                write_value(item, style, level + 1, out);
            }
            write_close(style, level, out);
            out.push(']');
        }
        Value::Object(object) if object.is_empty() => out.push_str("{}"),
        Value::Object(object) => {
            out.push('{');
            for (index, (key, item)) in object.iter().enumerate() {
                write_gap(index, style, level + 1, out);
                write_string(key, style.ascii, out);
                out.push_str(": ");
                write_value(item, style, level + 1, out);
            }
            write_close(style, level, out);
            out.push('}');
        }
    }
}

fn write_gap(index: usize, style: Style, level: usize, out: &mut String) {
    match style.indent {
        Some(width) => {
            out.push_str(if index > 0 { ",\n" } else { "\n" });
            out.extend(std::iter::repeat_n(' ', width * level));
        }
        None if index > 0 => out.push_str(", "),
        None => {}
    }
}

fn write_close(style: Style, level: usize, out: &mut String) {
    if let Some(width) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width * level));
    }
}

/// Writes text as a JSON string.
pub(crate) fn write_string(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        write_char(c, ascii, out);
    }
    out.push('"');
}

/// Writes one character as it stands within a JSON string.
pub(crate) fn write_char(c: char, ascii: bool, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        ' '..='~' => out.push(c),
        c if ascii => {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
        c => out.push(c),
    }
}

/// Deepest nesting of lists and objects that [`loads`] accepts. Python 3.11 gives up a little below
/// its recursion limit of 1000.
pub const MAX_DEPTH: usize = 960;

/// Most digits of an integer that [`loads`] accepts, as Python does by default.
pub const MAX_DIGITS: usize = 4300;

/// Why a text is not JSON. The texts are Python's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// No value where one must be.
    ExpectedValue,
    /// Something after the value.
    ExtraData,
    /// An object's key must be a string.
    ExpectedKey,
    /// `,` or the closing bracket is missing.
    ExpectedComma,
    /// `:` is missing.
    ExpectedColon,
    /// A string does not end; the place is its beginning.
    Unterminated,
    /// A raw control character in a string.
    ControlCharacter,
    /// A backslash before something that cannot be escaped.
    BadEscape,
    /// `\u` without four hexadecimal digits.
    BadUnicodeEscape,
    /// The text begins with U+FEFF.
    ByteOrderMark,
    /// Half of a surrogate pair. Python would keep it.
    UnpairedSurrogate,
    /// Nested deeper than [`MAX_DEPTH`]. Python raises `RecursionError` (and names an object instead of
    /// an array where one is too deep).
    TooDeep,
    /// An integer longer than [`MAX_DIGITS`]; carries its length. Python raises a plain `ValueError`.
    TooManyDigits(usize),
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpectedValue => "Expecting value",
            Self::ExtraData => "Extra data",
            Self::ExpectedKey => "Expecting property name enclosed in double quotes",
            Self::ExpectedComma => "Expecting ',' delimiter",
            Self::ExpectedColon => "Expecting ':' delimiter",
            Self::Unterminated => "Unterminated string starting at",
            Self::ControlCharacter => "Invalid control character at",
            Self::BadEscape => "Invalid \\escape",
            Self::BadUnicodeEscape => "Invalid \\uXXXX escape",
            Self::ByteOrderMark => "Unexpected UTF-8 BOM (decode using utf-8-sig)",
            Self::UnpairedSurrogate => "Unpaired surrogate escape",
            Self::TooDeep => {
                "maximum recursion depth exceeded while decoding a JSON array from a unicode string"
            }
            Self::TooManyDigits(digits) => {
                return write!(
                    f,
                    "Exceeds the limit ({MAX_DIGITS} digits) for integer string conversion: value \
                     has {digits} digits; use sys.set_int_max_str_digits() to increase the limit"
                );
            }
        })
    }
}

impl JsonErrorKind {
    /// What to do about it, in a sentence.
    pub fn advice(self) -> &'static str {
        match self {
            Self::ExpectedValue => {
                "Put a value here: text in double quotes, a number, true, false, null, a list or an object."
            }
            Self::ExtraData => {
                "The value ends before this place: remove what follows, or add the bracket that is missing before."
            }
            Self::ExpectedKey => "Put a key in double quotes here, or remove the comma before.",
            Self::ExpectedComma => "Put a comma here, or close the bracket.",
            Self::ExpectedColon => "Put a colon between key and value.",
            Self::Unterminated => {
                "Close the text that begins here with a double quote; within it a quote is \\\"."
            }
            Self::ControlCharacter => "A line break within text is written \\n, a tab \\t.",
            Self::BadEscape => {
                "A backslash is written \\\\; after one only \" \\ / b f n r t and u may stand."
            }
            Self::BadUnicodeEscape => "Behind \\u stand four hexadecimal digits.",
            Self::ByteOrderMark => "Remove the invisible mark at the beginning.",
            Self::UnpairedSurrogate => "Write the character itself, or both halves of the pair.",
            Self::TooDeep => "Nest less deeply.",
            Self::TooManyDigits(_) => "Write the number as text.",
        }
    }
}

/// A text that is not JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Where, in bytes.
    pub byte: usize,
    /// Where, in characters (code points), as Python counts.
    pub position: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: line {} column {} (char {})",
            self.kind, self.line, self.column, self.position
        )
    }
}

impl std::error::Error for JsonError {}

/// Python's `json.loads`.
///
/// # Errors
/// When the text is not JSON in Python's sense, is nested too deep, or has half a surrogate pair.
pub fn loads(text: &str) -> Result<Value, JsonError> {
    Reader::new(text)
        .document()
        .map_err(|failure| failure.locate(text))
}

/// Reads the value that a text begins with, and says how many bytes it takes.
///
/// # Errors
/// As [`loads`], but what follows the value does not matter.
pub fn loads_prefix(text: &str) -> Result<(Value, usize), JsonError> {
    let mut reader = Reader::new(text);
    match reader.value() {
        Ok(value) => Ok((value, reader.at)),
        Err(failure) => Err(failure.locate(text)),
    }
}

struct Failure(JsonErrorKind, usize);

impl Failure {
    fn locate(self, text: &str) -> JsonError {
        let Self(kind, byte) = self;
        let byte = byte.min(text.len());
        let before = &text[..byte];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        JsonError {
            kind,
            byte,
            position: before.chars().count(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            text,
            at: 0,
            depth: 0,
        }
    }

    fn document(&mut self) -> Result<Value, Failure> {
        if self.text.starts_with('\u{feff}') {
            return Err(Failure(JsonErrorKind::ByteOrderMark, 0));
        }
        self.skip_space();
        let value = self.value()?;
        self.skip_space();
        if self.at < self.bytes.len() {
            return Err(Failure(JsonErrorKind::ExtraData, self.at));
        }
        Ok(value)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Failure> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(Failure(JsonErrorKind::ExpectedValue, self.at))
        }
    }

    fn value(&mut self) -> Result<Value, Failure> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'N') => self.word("NaN", Value::Float(f64::NAN)),
            Some(b'I') => self.word("Infinity", Value::Float(f64::INFINITY)),
            Some(b'-') if self.bytes[self.at..].starts_with(b"-Infinity") => {
                self.word("-Infinity", Value::Float(f64::NEG_INFINITY))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(Failure(JsonErrorKind::ExpectedValue, self.at)),
        }
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, Failure>,
    ) -> Result<Value, Failure> {
        if self.depth == MAX_DEPTH {
            return Err(Failure(JsonErrorKind::TooDeep, self.at));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_space();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, Failure> {
        let mut object = Object::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(object));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(Failure(JsonErrorKind::ExpectedKey, self.at));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(Failure(JsonErrorKind::ExpectedColon, self.at));
            }
            self.at += 1;
            self.skip_space();
            let value = self.value()?;
            object.insert(key, value);
            self.skip_space();
            match self.peek() {
                Some(b'}') => break,
                Some(b',') => self.at += 1,
                _ => return Err(Failure(JsonErrorKind::ExpectedComma, self.at)),
            }
            self.skip_space();
        }
        self.at += 1;
        Ok(Value::Object(object))
    }

    fn array(&mut self) -> Result<Value, Failure> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b']') => break,
                Some(b',') => self.at += 1,
                _ => return Err(Failure(JsonErrorKind::ExpectedComma, self.at)),
            }
            self.skip_space();
        }
        self.at += 1;
        Ok(Value::Array(items))
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Value, Failure> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(Failure(JsonErrorKind::ExpectedValue, start)),
        }
        let mut float = false;
        if self.peek() == Some(b'.')
            && self
                .bytes
                .get(self.at + 1)
                .is_some_and(|b| b.is_ascii_digit())
        {
            float = true;
            self.at += 1;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            let mark = self.at;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            let first = self.at;
            self.digits();
            if self.at > first {
                float = true;
            } else {
                self.at = mark;
            }
        }
        let text = &self.text[start..self.at];
        if float {
            // Rust reads the same double as Python, with overflow to infinity.
            return Ok(Value::Float(text.parse().unwrap_or(f64::NAN)));
        }
        let digits = text.trim_start_matches('-').len();
        if digits > MAX_DIGITS {
            return Err(Failure(JsonErrorKind::TooManyDigits(digits), start));
        }
        Integer::from_decimal(text)
            .map(Value::Int)
            .ok_or(Failure(JsonErrorKind::ExpectedValue, start))
    }

    /// Reads a string; stands on its opening quote.
    fn string(&mut self) -> Result<String, Failure> {
        let begin = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let chunk = self.at;
            loop {
                match self.peek() {
                    None => return Err(Failure(JsonErrorKind::Unterminated, begin)),
                    Some(b'"' | b'\\') => break,
                    Some(0..=0x1f) => {
                        return Err(Failure(JsonErrorKind::ControlCharacter, self.at));
                    }
                    Some(_) => self.at += 1,
                }
            }
            out.push_str(&self.text[chunk..self.at]);
            let escape = self.at;
            self.at += 1;
            if self.bytes[escape] == b'"' {
                return Ok(out);
            }
            let Some(c) = self.peek() else {
                return Err(Failure(JsonErrorKind::Unterminated, begin));
            };
            self.at += 1;
            out.push(match c {
                b'"' => '"',
                b'\\' => '\\',
                b'/' => '/',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode_escape(escape)?,
                _ => return Err(Failure(JsonErrorKind::BadEscape, escape)),
            });
        }
    }

    /// Four hexadecimal digits; Python also wants at least one character behind them.
    fn hex(&mut self) -> Result<u32, Failure> {
        let bad = Failure(JsonErrorKind::BadUnicodeEscape, self.at - 1);
        match self.bytes.get(self.at..self.at + 5) {
            Some(five) => {
                let mut code = 0;
                for byte in &five[..4] {
                    let Some(digit) = char::from(*byte).to_digit(16) else {
                        return Err(bad);
                    };
                    code = code * 16 + digit;
                }
                self.at += 4;
                Ok(code)
            }
            None => Err(bad),
        }
    }

    /// Reads behind `\u`, with the second half of a pair.
    fn unicode_escape(&mut self, escape: usize) -> Result<char, Failure> {
        let unpaired = Failure(JsonErrorKind::UnpairedSurrogate, escape);
        let high = self.hex()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high).ok_or(unpaired);
        }
        if self.bytes[self.at..].starts_with(b"\\u") && self.bytes.len() > self.at + 6 {
            self.at += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(code).ok_or(unpaired);
            }
        }
        Err(unpaired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<(JsonErrorKind, usize)> {
        loads(text).err().map(|e| (e.kind, e.position))
    }

    #[test]
    fn failures_are_pythons() {
        use JsonErrorKind::*;
        for (text, expected) in [
            ("", (ExpectedValue, 0)),
            ("  ", (ExpectedValue, 2)),
            ("{", (ExpectedKey, 1)),
            ("{\"a\"", (ExpectedColon, 4)),
            ("{\"a\":", (ExpectedValue, 5)),
            ("{\"a\":1,}", (ExpectedKey, 7)),
            ("[1,]", (ExpectedValue, 3)),
            ("[1", (ExpectedComma, 2)),
            ("\"é\\x\"", (BadEscape, 2)),
            ("\"\\u12", (BadUnicodeEscape, 2)),
            ("\"a\nb\"", (ControlCharacter, 2)),
            ("é", (ExpectedValue, 0)),
            ("-", (ExpectedValue, 0)),
            ("1.", (ExtraData, 1)),
            ("01", (ExtraData, 1)),
            ("\"\\ud83d\"", (UnpairedSurrogate, 1)),
        ] {
            assert_eq!(kind(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_keep_their_kind_and_size() {
        for (text, printed) in [
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1e400", "Infinity"),
            ("-Infinity", "-Infinity"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("1E5", "100000.0"),
        ] {
            assert_eq!(loads(text).map(|v| dumps(&v)).as_deref(), Ok(printed));
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(loads(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(
            kind(&deep(100_000)).map(|k| k.0),
            Some(JsonErrorKind::TooDeep)
        );
    }
}
