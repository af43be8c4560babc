//! How the training data is cleaned and split.

use super::Random;
use formats::json::Value;
use formats::validate::{ValidateError, validate};
use formats::{Frame, FrameError, FrameKind, python};
use indexmap::IndexMap;
use std::collections::HashSet;

/// Whether a row's frames may be trained on, and why not: the first thing that is wrong.
///
/// # Errors
/// When an action is such that the rules cannot be applied.
pub fn check(frames: &Value) -> Result<Option<String>, ValidateError> {
    let frames: Result<Vec<Frame>, FrameError> =
        iterated(frames).iter().map(Frame::from_json).collect();
    let frames = match frames {
        Ok(frames) => frames,
        Err(error) => return Ok(Some(format!("construction error: {error}"))),
    };
    let violations = validate(&frames, false)?;
    Ok(violations.first().map(|v| format!("validation: {v}")))
}

/// What Python iterates over: a list's items, a text's characters, an object's keys.
fn iterated(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::String(text) => text.chars().map(|c| c.to_string().into()).collect(),
        Value::Object(members) => members.keys().map(|key| key.as_str().into()).collect(),
        other => vec![other.clone()],
    }
}

/// A text in lower case with white space collapsed.
pub fn normalised(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(python::is_space).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Indices of the rows that are kept when those with the same first mission go. Rows without a mission
/// of text stay.
pub fn distinct(rows: &[&[Frame]]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut is_new = |frames: &[Frame]| {
        let mission = frames.iter().find(|f| f.kind == FrameKind::Mission);
        match mission.and_then(|frame| frame.content.as_str()) {
            Some(text) => seen.insert(normalised(text)),
            None => true,
        }
    };
    (0..rows.len()).filter(|&at| is_new(rows[at])).collect()
}

/// Splits rows, given by their domains, into indices to train on and to evaluate on. Each domain of ten
/// rows or more gives its share, rounded to even, but at least one; smaller ones give none.
pub fn split(domains: &[&str], share: f64, seed: i64) -> (Vec<usize>, Vec<usize>) {
    let mut by_domain: IndexMap<&str, Vec<usize>> = IndexMap::new();
    for (row, domain) in domains.iter().enumerate() {
        by_domain.entry(domain).or_default().push(row);
    }
    let mut random = Random::new(seed);
    let (mut train, mut eval) = (Vec::new(), Vec::new());
    for rows in by_domain.values_mut() {
        random.shuffle(rows);
        let taken = if rows.len() < 10 {
            0
        } else {
            let share = (rows.len() as f64 * share).round_ties_even();
            (share as usize).clamp(1, rows.len())
        };
        eval.extend_from_slice(&rows[..taken]);
        train.extend_from_slice(&rows[taken..]);
    }
    random.shuffle(&mut train);
    random.shuffle(&mut eval);
    (train, eval)
}
