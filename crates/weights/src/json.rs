//! JSON of files that are not believed: lists and objects that stop growing at a limit.
//!
//! Text of 8 MiB can spell some million values, and a [`Value`] takes many times the bytes of its
//! text. What is read into values is therefore counted; everything else goes into types.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// An error's message, shortened: it may repeat a part of the file, of any length.
pub fn message(error: &serde_json::Error) -> String {
    error.to_string().chars().take(200).collect()
}

/// A list of at most `MAX` elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Elements<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == MAX {
                        return Err(A::Error::invalid_length(MAX + 1, &self));
                    }
                    elements.push(element);
                }
                Ok(elements)
            }
        }
        deserializer
            .deserialize_seq(Elements::<T, MAX>(PhantomData))
            .map(Self)
    }
}

/// An object of at most `limit` values, those inside its lists and objects counted.
///
/// # Errors
/// When there are more, or when it is no object.
pub fn small_object<'de, D: Deserializer<'de>>(
    deserializer: D,
    limit: u32,
) -> Result<Map<String, Value>, D::Error> {
    let left = Cell::new(limit);
    match (Counted { left: &left }).deserialize(deserializer)? {
        Value::Object(object) => Ok(object),
        _ => Err(D::Error::custom("expected an object")),
    }
}

/// [`small_object`] of a text.
///
/// # Errors
/// The message of what is wrong.
pub fn parse_small(text: &[u8], limit: u32) -> Result<Map<String, Value>, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    small_object(&mut deserializer, limit)
        .and_then(|object| deserializer.end().map(|()| object))
        .map_err(|error| message(&error))
}

/// A value that takes one of so many.
#[derive(Clone, Copy)]
struct Counted<'a> {
    left: &'a Cell<u32>,
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return Err(D::Error::custom("there are more values than any model has")),
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            object.insert(key, map.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_counted() {
        let text = br#"{"a":[1,2.5,-3],"b":{"c":null,"d":"x","e":true}}"#;
        let value = json!({"a": [1, 2.5, -3], "b": {"c": null, "d": "x", "e": true}});
        assert_eq!(Value::from(parse_small(text, 9).expect("small")), value);
        let error = parse_small(text, 8).expect_err("one too many");
        assert!(error.contains("more values"), "{error}");
        for other in [&b"[]"[..], b"{} x", b"{", b""] {
            parse_small(other, 9).expect_err("no object");
        }
        // Nesting is bounded by the library.
        let deep = format!("{{\"a\":{}", "[".repeat(5000));
        parse_small(deep.as_bytes(), 9000).expect_err("too deep");
    }

    #[test]
    fn lists_end_at_their_limit() {
        let parse = |text| serde_json::from_str::<List<u8, 3>>(text);
        assert_eq!(parse("[1,2,3]").expect("three").0, [1, 2, 3]);
        parse("[1,2,3,4]").expect_err("four");
    }
}
