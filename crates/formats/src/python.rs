//! The few Python behaviours that the reference's texts depend on.

use crate::json::Value;

/// Python's `str.isspace` for one character. Differs from [`char::is_whitespace`] in U+001C to
/// U+001F.
pub fn is_space(c: char) -> bool {
    matches!(c, '\u{1c}'..='\u{1f}') || c.is_whitespace()
}

/// Python's `str.strip`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python's `str.lstrip`.
pub fn strip_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// Python's `str.rstrip`.
pub fn strip_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Python's `bool(value)`.
pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Int(i) => !i.is_zero(),
        Value::Float(f) => *f != 0.0,
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
    }
}

/// Python's name of the value's type.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Python's `str(value)`.
pub fn str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// Python's `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

fn write_repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::Float(f) => write_float(*f, out),
        Value::String(text) => write_repr_str(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            out.push('{');
            for (index, (key, item)) in object.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr_str(key, out);
                out.push_str(": ");
                write_repr(item, out);
            }
            out.push('}');
        }
    }
}

/// Python's `repr` of a string.
pub fn repr_str(text: &str) -> String {
    let mut out = String::new();
    write_repr_str(text, &mut out);
    out
}

fn write_repr_str(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push(quote);
}

/// Python's `str.isprintable` for one character. The standard library's table behind
/// `str::escape_debug` has the same definition (all but C* and Z*, and the space); a character that
/// is not first is escaped by it exactly when it is not printable.
fn is_printable(c: char) -> bool {
    let mut buffer = [0; 8];
    buffer[0] = b'a';
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let Ok(pair) = std::str::from_utf8(&buffer[..len]) else {
        return false;
    };
    matches!(c, '\'' | '"' | '\\') || pair.escape_debug().nth(1) != Some('\\')
}

/// Python's `repr(float)`: the shortest digits that read back, with an exponent below 1e-4 and from
/// 1e16 on.
pub fn float_repr(value: f64) -> String {
    let mut out = String::new();
    write_float(value, &mut out);
    out
}

pub(crate) fn write_float(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("nan");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "inf" } else { "-inf" });
        return;
    }
    // Rust's `{:e}` yields the shortest digits as d.ddde±x; only the layout differs.
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.push_str(sign);
    if !(-4..16).contains(&exponent) {
        out.push_str(&digits[..1]);
        if digits.len() > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        out.push('e');
        out.push(if exponent < 0 { '-' } else { '+' });
        out.push_str(&format!("{:02}", exponent.abs()));
    } else if exponent < 0 {
        out.push_str("0.");
        for _ in 1..-exponent {
            out.push('0');
        }
        out.push_str(&digits);
    } else {
        let point = exponent as usize + 1;
        if digits.len() <= point {
            out.push_str(&digits);
            for _ in digits.len()..point {
                out.push('0');
            }
            out.push_str(".0");
        } else {
            out.push_str(&digits[..point]);
            out.push('.');
            out.push_str(&digits[point..]);
        }
    }
}

/// Python's `float(text)`; `None` where it raises. Beside ASCII numbers it takes decimal digits of any
/// script, single underscores between digits, and `inf`, `infinity` and `nan` in any case.
pub fn parse_float(text: &str) -> Option<f64> {
    let mut ascii = String::with_capacity(text.len());
    for c in strip(text).chars() {
        ascii.push(match decimal_digit(c) {
            Some(digit) => digit,
            None if c.is_ascii() => c.to_ascii_lowercase(),
            None => return None,
        });
    }
    let bytes = ascii.as_bytes();
    let digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(|byte| byte.is_ascii_digit())
    };
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'_' && !(digit(at.checked_sub(1)) && digit(at.checked_add(1))) {
            return None;
        }
    }
    let plain = ascii.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let known = matches!(unsigned, "inf" | "infinity" | "nan")
        || unsigned.starts_with(|c: char| c == '.' || c.is_ascii_digit());
    // Rust's grammar for what begins with a digit or point is Python's.
    if known { plain.parse().ok() } else { None }
}

/// The ASCII digit with the value of a decimal digit of any script.
fn decimal_digit(c: char) -> Option<char> {
    if c.is_ascii() {
        return c.is_ascii_digit().then_some(c);
    }
    let code = u32::from(c);
    let behind = ZEROS.partition_point(|&zero| zero <= code);
    let value = code - ZEROS.get(behind.checked_sub(1)?)?;
    char::from_digit(value, 10)
}

/// The zeros of Unicode 14 (Python 3.11) beyond ASCII; each is followed by its one to nine.
#[rustfmt::skip]
const ZEROS: [u32; 65] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66,
    0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810,
    0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0,
    0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0,
    0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
    0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec,
    0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (value, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (123_456_789.123, "123456789.123"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_repr(value), text);
        }
    }

    #[test]
    fn floats_read_as_python_reads_them() {
        for (text, value) in [
            ("1_000", Some(1000.0)),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("1.", Some(1.0)),
            (".5", Some(0.5)),
            (".", None),
            ("1e", None),
            ("-iNf", Some(f64::NEG_INFINITY)),
            ("+infinity", Some(f64::INFINITY)),
            ("infin", None),
            ("0x10", None),
            ("1e400", Some(f64::INFINITY)),
            ("\u{661}\u{662}", Some(12.0)),
            ("\u{ff11}\u{ff0e}5", None),
            ("½", None),
            ("+-1", None),
            ("", None),
        ] {
            assert_eq!(parse_float(text), value, "{text}");
        }
    }

    #[test]
    fn repr_escapes_what_python_escapes() {
        assert_eq!(repr_str("it's"), "\"it's\"");
        assert_eq!(repr_str("a'b\"c"), "'a\\'b\"c'");
        assert_eq!(
            repr_str("\u{200b}\u{feff}é\u{301}\u{7f}\u{a0}\u{1f642}\u{e0001}"),
            "'\\u200b\\ufeffé\u{301}\\x7f\\xa0\u{1f642}\\U000e0001'"
        );
    }
}
