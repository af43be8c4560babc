//! The header's JSON, as the file has it, with limits on what it can make us hold.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{MAX_DIMS, MAX_TENSORS};

/// A tensor's entry.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) dtype: String,
    pub(super) shape: Shape,
    /// First byte and the one after the last, from the start of tensor data.
    pub(super) data_offsets: [u64; 2],
}

/// Dimensions, the last of them contiguous; at most [`MAX_DIMS`].
#[derive(Debug)]
pub(super) struct Shape(pub(super) Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dims;
        impl<'de> Visitor<'de> for Dims {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_DIMS} dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
                let mut dims = Vec::new();
                while let Some(dim) = list.next_element()? {
                    if dims.len() == MAX_DIMS {
                        return Err(A::Error::invalid_length(MAX_DIMS + 1, &self));
                    }
                    dims.push(dim);
                }
                Ok(Shape(dims))
            }
        }
        deserializer.deserialize_seq(Dims)
    }
}

/// All entries in the order of the header; at most [`MAX_TENSORS`]. `__metadata__` is left out:
/// nothing there is needed.
#[derive(Debug)]
pub(super) struct Table(pub(super) Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Table;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {MAX_TENSORS} tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else if entries.len() == MAX_TENSORS {
                        return Err(A::Error::invalid_length(MAX_TENSORS + 1, &self));
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(Table(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
