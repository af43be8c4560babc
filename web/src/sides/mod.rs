//! The facing pages.

mod chip;
mod excerpt;
mod head;
mod rows;
mod ruler;
mod strips;
mod units;
mod window;
mod wire;

pub use chip::{bare, chip, parts, plain_chip};
pub use head::Heads;
pub use rows::{Both, Single};
pub use units::{folded, json_text, plain};

use crate::document::Document;
use crate::dom;
use crate::state::Shared;
use leptos::prelude::*;
use window::Windows;

/// Under this name the page keeps that single-character keys are off.
const KEYS_OFF: &str = "playground-keys-off";

/// What the sides keep.
#[derive(Clone, Copy)]
pub struct Sides {
    /// What is built of the rows.
    pub windows: Windows,
    /// Whether keys of a single character act outside text fields.
    pub keys: RwSignal<bool>,
}

impl Sides {
    /// For the rows of a document.
    pub fn new(document: Memo<Shared<Document>>) -> Self {
        Self {
            windows: Windows::new(document),
            keys: RwSignal::new(dom::kept(KEYS_OFF).is_none()),
        }
    }

    /// Switches single-character keys, for later visits too.
    pub fn switch_keys(self, on: bool) {
        self.keys.set(on);
        dom::keep(KEYS_OFF, (!on).then_some("1"));
    }
}
