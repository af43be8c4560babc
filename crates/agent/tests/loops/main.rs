//! The loops, by the golden cases and beyond them.

mod common;
mod golden;
mod safe;
