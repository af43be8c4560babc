//! `model.safetensors.index.json`: which tensor is in which of several files.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::{
    Header, MAX_NAME_BYTES, MAX_TENSORS, SafetensorsError, check_limit, inconsistent, json_error,
};
use crate::source::folder::is_plain_name;

/// The name of the file in its folder.
pub const INDEX_FILE: &str = "model.safetensors.index.json";
/// Longest text that is read, in bytes. Real ones take some 100 KiB.
pub const MAX_INDEX_BYTES: u64 = 16 << 20;
/// Most files.
pub const MAX_FILES: usize = 1 << 10;

/// Which tensor is in which file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    files: Vec<String>,
    /// For each tensor the place of its file in `files`.
    places: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct Raw {
    weight_map: Map,
}

struct Map(Index);

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Index;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {MAX_TENSORS} tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
                let mut files: BTreeMap<String, usize> = BTreeMap::new();
                let mut places = HashMap::new();
                while let Some((name, file)) = map.next_entry::<String, String>()? {
                    if places.len() == MAX_TENSORS {
                        return Err(A::Error::invalid_length(MAX_TENSORS + 1, &self));
                    }
                    if name.len() > MAX_NAME_BYTES {
                        return Err(A::Error::custom("a tensor's name is too long"));
                    }
                    if !is_plain_name(&file) || !file.ends_with(".safetensors") {
                        let file: String = file.chars().take(80).collect();
                        return Err(A::Error::custom(format!(
                            "{file:?} is not the name of a safetensors file beside it"
                        )));
                    }
                    let next = files.len();
                    let place = *files.entry(file).or_insert(next);
                    if files.len() > MAX_FILES {
                        return Err(A::Error::custom("there are too many files"));
                    }
                    match places.entry(name) {
                        Entry::Vacant(vacant) => drop(vacant.insert(place)),
                        Entry::Occupied(twice) => {
                            let what = format!("tensor {} is listed twice", twice.key());
                            return Err(A::Error::custom(what));
                        }
                    }
                }
                // By name, so that their order is not the order of the text.
                let mut rank = vec![0; files.len()];
                for (new, old) in files.values().enumerate() {
                    rank[*old] = new;
                }
                for place in places.values_mut() {
                    *place = rank[*place];
                }
                let files = files.into_keys().collect();
                Ok(Index { files, places })
            }
        }
        deserializer.deserialize_map(Pairs).map(Self)
    }
}

impl Index {
    /// Reads the text of an index.
    ///
    /// # Errors
    /// [`SafetensorsError`], as soon as something is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, SafetensorsError> {
        check_limit(
            "the length of the index",
            text.len() as u64,
            MAX_INDEX_BYTES,
        )?;
        let Raw {
            weight_map: Map(index),
        } = serde_json::from_slice(text).map_err(json_error)?;
        Ok(index)
    }

    /// The files, in the order of their names.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The file that is to hold a tensor.
    pub fn file_of(&self, tensor: &str) -> Option<&str> {
        self.places
            .get(tensor)
            .map(|place| self.files[*place].as_str())
    }

    /// The headers of all [files](Index::files), in their order, as the header of one file: the files
    /// lie one after another in one address space. Tensors that the index does not list are left out.
    ///
    /// # Errors
    /// [`SafetensorsError`] when a tensor is not where the index says, or also elsewhere.
    pub fn join(&self, headers: &[Header]) -> Result<Header, SafetensorsError> {
        if headers.len() != self.files.len() {
            return inconsistent(format!(
                "the index names {} files, not {}",
                self.files.len(),
                headers.len()
            ));
        }
        let mut tensors = Vec::with_capacity(self.places.len());
        let mut start = 0u64;
        for (place, header) in headers.iter().enumerate() {
            let file = &self.files[place];
            let Some(next) = start.checked_add(header.end()) else {
                return inconsistent(format!("{file} ends beyond all files"));
            };
            for tensor in &header.tensors {
                match self.places.get(&tensor.name) {
                    None => {}
                    Some(listed) if *listed == place => {
                        let mut tensor = tensor.clone();
                        tensor.offset += start;
                        tensors.push(tensor);
                    }
                    Some(listed) => {
                        return inconsistent(format!(
                            "tensor {} is in {file}, but the index says it is in {}",
                            tensor.name, self.files[*listed]
                        ));
                    }
                }
            }
            start = next;
        }
        // A header has each name once, so each tensor was found at most once.
        if tensors.len() < self.places.len() {
            let found: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            let missing = self.places.iter();
            let missing = missing.filter(|(name, _)| !found.contains(name.as_str()));
            // The first by name, so that the message is always the same.
            if let Some((name, place)) = missing.min() {
                return inconsistent(format!(
                    "the index says that tensor {name} is in {}, but it is not there",
                    self.files[*place]
                ));
            }
        }
        Ok(Header {
            tensors,
            data_start: headers.first().map_or(0, |header| header.data_start),
        })
    }
}
