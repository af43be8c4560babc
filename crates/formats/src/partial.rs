//! JSON that is still being written: how far it is, what comes next, and how it could end.

use crate::json::{self, JsonError, MAX_DEPTH, Value};
use crate::python;

/// How far a JSON text is.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// It is JSON. (A number at its end might still go on; that is [`Progress::Begun`].)
    Whole,
    /// It may still become JSON.
    Begun(Begun),
    /// Nothing that follows makes it JSON; carries what [`json::loads`] says.
    Broken(JsonError),
}

/// JSON that has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Begun {
    /// What is being written, or must come next.
    pub due: Due,
    /// The quote and brackets that are still open, in the order in which they will be closed.
    pub open: String,
    /// A text that ends it: behind what is there it makes JSON.
    pub ending: String,
    /// What the string says so far that is being written, if it is a value and not a key.
    pub string: Option<String>,
}

/// What comes next in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A value.
    Value,
    /// A value, or the end of the list.
    ValueOrEnd,
    /// The rest of a string that is a value.
    String,
    /// The rest of a number.
    Number,
    /// The rest of this word.
    Word(&'static str),
    /// A key.
    Key,
    /// A key, or the end of the object.
    KeyOrEnd,
    /// The rest of a key.
    KeyText,
    /// The colon behind a key.
    Colon,
    /// A comma, or the end of the list or object.
    CommaOrEnd,
}

const WORDS: [&str; 6] = ["null", "true", "false", "NaN", "Infinity", "-Infinity"];

/// How far this text is on its way to JSON. White space around it does not count, as in a frame's payload.
pub fn progress(text: &str) -> Progress {
    let text = python::strip_start(text);
    let mut scan = Scan {
        text,
        at: 0,
        open: Vec::new(),
    };
    match scan.run() {
        Ok(None) => Progress::Whole,
        Ok(Some(stop)) => {
            let mut open: String = if matches!(stop.due, Due::String | Due::KeyText) {
                "\"".to_owned()
            } else {
                String::new()
            };
            let mut ending = stop.ending;
            for bracket in scan.open.iter().rev() {
                let close = if *bracket == b'{' { '}' } else { ']' };
                open.push(close);
                ending.push(close);
            }
            Progress::Begun(Begun {
                due: stop.due,
                open,
                ending,
                string: stop.string,
            })
        }
        // The scan and `loads` refuse the same texts; a property of the tests.
        Err(Refused) => match json::loads(text) {
            Err(error) => Progress::Broken(error),
            Ok(_) => Progress::Whole,
        },
    }
}

/// Nothing that follows helps.
struct Refused;

/// Where the text ends although the JSON does not.
struct Stop {
    due: Due,
    /// Ends what is being written, brackets aside.
    ending: String,
    string: Option<String>,
}

impl Stop {
    fn new(due: Due, ending: &str) -> Self {
        Self {
            due,
            ending: ending.to_owned(),
            string: None,
        }
    }
}

enum Place {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    After,
}

/// How a string or number goes on.
enum Run {
    Done,
    Stops(Stop),
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    open: Vec<u8>,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn run(&mut self) -> Result<Option<Stop>, Refused> {
        let mut place = Place::Value;
        loop {
            while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
                self.at += 1;
            }
            let whole = matches!(place, Place::After) && self.open.is_empty();
            if whole {
                let rest = python::strip(&self.text[self.at..]);
                return if rest.is_empty() {
                    Ok(None)
                } else {
                    Err(Refused)
                };
            }
            let Some(byte) = self.peek() else {
                return Ok(Some(Self::missing(&place, self.open.last())));
            };
            place = match (place, byte) {
                (Place::ValueOrEnd, b']') | (Place::KeyOrEnd, b'}') => self.close(),
                (Place::Value | Place::ValueOrEnd, b'{') => self.nest(byte, Place::KeyOrEnd)?,
                (Place::Value | Place::ValueOrEnd, b'[') => self.nest(byte, Place::ValueOrEnd)?,
                (Place::Value | Place::ValueOrEnd, b'"') => match self.string(true)? {
                    Run::Done => Place::After,
                    Run::Stops(stop) => return Ok(Some(stop)),
                },
                (Place::Value | Place::ValueOrEnd, _) => match self.scalar()? {
                    Run::Done => Place::After,
                    Run::Stops(stop) => return Ok(Some(stop)),
                },
                (Place::Key | Place::KeyOrEnd, b'"') => match self.string(false)? {
                    Run::Done => Place::Colon,
                    Run::Stops(mut stop) => {
                        stop.ending.push_str(": null");
                        return Ok(Some(stop));
                    }
                },
                (Place::Colon, b':') => self.step(Place::Value),
                (Place::After, b',') => {
                    let next = if self.open.last() == Some(&b'{') {
                        Place::Key
                    } else {
                        Place::Value
                    };
                    self.step(next)
                }
                (Place::After, b'}') if self.open.last() == Some(&b'{') => self.close(),
                (Place::After, b']') if self.open.last() == Some(&b'[') => self.close(),
                _ => return Err(Refused),
            };
        }
    }

    /// What is due where the text ends between two parts.
    fn missing(place: &Place, inside: Option<&u8>) -> Stop {
        match place {
            Place::Value => Stop::new(Due::Value, "null"),
            Place::ValueOrEnd => Stop::new(Due::ValueOrEnd, ""),
            Place::Key => Stop::new(Due::Key, "\"\": null"),
            Place::KeyOrEnd => Stop::new(Due::KeyOrEnd, ""),
            Place::Colon => Stop::new(Due::Colon, ": null"),
            Place::After => {
                debug_assert!(inside.is_some(), "a whole text was told before");
                Stop::new(Due::CommaOrEnd, "")
            }
        }
    }

    fn step(&mut self, place: Place) -> Place {
        self.at += 1;
        place
    }

    fn close(&mut self) -> Place {
        self.open.pop();
        self.step(Place::After)
    }

    fn nest(&mut self, bracket: u8, place: Place) -> Result<Place, Refused> {
        if self.open.len() == MAX_DEPTH {
            return Err(Refused);
        }
        self.open.push(bracket);
        Ok(self.step(place))
    }

    fn scalar(&mut self) -> Result<Run, Refused> {
        let rest = &self.text[self.at..];
        for word in WORDS {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(Run::Done);
            }
            // A lone minus sign is more often a number's.
            if word.starts_with(rest) && rest != "-" {
                return Ok(Run::Stops(Stop::new(Due::Word(word), &word[rest.len()..])));
            }
        }
        self.number()
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    /// Fraction and exponent count only with a digit in them; without, they are no part of the number,
    /// and nothing else may stand there.
    fn number(&mut self) -> Result<Run, Refused> {
        let stops = |ending: &str| Ok(Run::Stops(Stop::new(Due::Number, ending)));
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            None => return stops("0"),
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => {
                self.digits();
            }
            Some(_) => return Err(Refused),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            match (self.digits(), self.peek()) {
                (0, None) => return stops("0"),
                (0, Some(_)) => return Err(Refused),
                _ => {}
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            match (self.digits(), self.peek()) {
                (0, None) => return stops("0"),
                (0, Some(_)) => return Err(Refused),
                _ => {}
            }
        }
        match self.peek() {
            None => stops(""),
            Some(_) => Ok(Run::Done),
        }
    }

    fn string(&mut self, value: bool) -> Result<Run, Refused> {
        let text = self.text;
        let start = self.at;
        self.at += 1;
        // Half of a surrogate pair was read and the other half is due.
        let mut half = false;
        // Up to here it can be read.
        let mut sure;
        loop {
            if !half {
                sure = self.at;
            } else {
                sure = self.at - 6;
            }
            let stops = |ending: &str| {
                let said = format!("{}\"", &text[start..sure]);
                let string = match json::loads(&said) {
                    Ok(Value::String(said)) if value => Some(said),
                    _ => None,
                };
                let due = if value { Due::String } else { Due::KeyText };
                let ending = format!("{ending}\"");
                Ok(Run::Stops(Stop {
                    due,
                    ending,
                    string,
                }))
            };
            match self.peek() {
                None => return stops(if half { "\\udc00" } else { "" }),
                Some(b'\\') => {}
                Some(_) if half => return Err(Refused),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Run::Done);
                }
                Some(0..=0x1f) => return Err(Refused),
                Some(_) => {
                    self.at += 1;
                    continue;
                }
            }
            self.at += 1;
            match self.peek() {
                None => return stops(if half { "udc00" } else { "\\" }),
                Some(b'u') => self.at += 1,
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') if !half => {
                    self.at += 1;
                    continue;
                }
                Some(_) => return Err(Refused),
            }
            let from = self.at;
            while self.at < from + 4 && self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                self.at += 1;
            }
            let digits = text[from..self.at].to_ascii_lowercase();
            let short = digits.len() < 4;
            if short && self.peek().is_some() {
                return Err(Refused);
            }
            // The pattern `dc00` or `d800` filled up as far as it goes.
            let filled = |pattern: &str| format!("{digits}{}", &pattern[digits.len().min(4)..]);
            let unit = |digits: &str| u32::from_str_radix(digits, 16).unwrap_or_default();
            let low = unit(&filled("dc00"));
            if half {
                if !(0xdc00..=0xdfff).contains(&low) {
                    return Err(Refused);
                }
                if short {
                    return stops(&"dc00"[digits.len()..]);
                }
                half = false;
                continue;
            }
            let code = unit(&filled("0000"));
            match code {
                0xd800..=0xdbff if short => {
                    return stops(&format!("{}\\udc00", &"0000"[digits.len()..]));
                }
                0xd800..=0xdbff => half = true,
                0xdc00..=0xdfff => return Err(Refused),
                _ if short => return stops(&"0000"[digits.len()..]),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{dumps, dumps_ascii, loads};
    use proptest::prelude::*;

    fn begun(text: &str) -> Begun {
        match progress(text) {
            Progress::Begun(begun) => begun,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_comes_next() {
        for (text, due, open) in [
            ("", Due::Value, ""),
            ("{", Due::KeyOrEnd, "}"),
            ("{\"to", Due::KeyText, "\"}"),
            ("{\"tool\"", Due::Colon, "}"),
            ("{\"tool\": ", Due::Value, "}"),
            ("{\"tool\": \"ut", Due::String, "\"}"),
            ("{\"tool\": [1", Due::Number, "]}"),
            ("{\"tool\": [1 ", Due::CommaOrEnd, "]}"),
            ("{\"tool\": [", Due::ValueOrEnd, "]}"),
            ("[tr", Due::Word("true"), "]"),
            ("[{}, ", Due::Value, "]"),
            ("{\"a\": 1,", Due::Key, "}"),
        ] {
            let found = begun(text);
            assert_eq!((found.due, found.open.as_str()), (due, open), "{text}");
        }
        let said = begun("{\"parameters\": \"{\\\"path\\\": \\\"ma").string;
        assert_eq!(said.as_deref(), Some("{\"path\": \"ma"));
        assert_eq!(begun("\"a\\ud83d\\u").string.as_deref(), Some("a"));
    }

    #[test]
    fn what_never_ends_well_is_broken() {
        for text in [
            "x",
            "{a",
            "{\"a\" 1",
            "[1}",
            "[01",
            "1.x",
            "\"\\x",
            "\"\\udc",
            "\"\\ud83da",
            "{} {",
            "\"\n",
            "tru1",
            "[,",
            "\"\\ud83d\\u1",
        ] {
            assert!(matches!(progress(text), Progress::Broken(_)), "{text}");
        }
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert!(matches!(progress(&deep), Progress::Broken(_)));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9f64).prop_map(Value::from),
            Just(Value::Float(f64::NEG_INFINITY)),
            any::<String>().prop_map(Value::from),
            "[😀𝄞\\\\\"\n]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Every beginning of JSON can be ended, by what is said to end it.
        #[test]
        fn beginnings_end(value in any_json(), ascii in any::<bool>()) {
            let text = if ascii { dumps_ascii(&value) } else { dumps(&value) };
            for (end, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let beginning = &text[..end];
                match progress(beginning) {
                    Progress::Whole => prop_assert!(loads(beginning).is_ok(), "{}", beginning),
                    Progress::Begun(begun) => {
                        let ended = format!("{beginning}{}", begun.ending);
                        prop_assert!(loads(&ended).is_ok(), "{} + {}", beginning, begun.ending);
                    }
                    Progress::Broken(error) => prop_assert!(false, "{}: {}", beginning, error),
                }
            }
        }

        /// What is told of any text agrees with `loads`.
        #[test]
        fn agrees_with_loads(text in "[\\[\\]{}\",:\\\\uden0-9a .\\-]{0,12}") {
            let read = loads(python::strip(&text));
            match progress(&text) {
                Progress::Whole => prop_assert!(read.is_ok()),
                Progress::Broken(_) => prop_assert!(read.is_err()),
                Progress::Begun(begun) => {
                    let ended = format!("{}{}", python::strip_start(&text), begun.ending);
                    prop_assert!(loads(&ended).is_ok(), "{}", ended);
                }
            }
        }
    }
}
