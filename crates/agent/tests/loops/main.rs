//! The loops, by the golden cases and beyond them.

mod any_ids;
mod common;
mod golden;
mod reading;
mod safe;
