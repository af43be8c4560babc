//! The facing pages.

mod chip;
mod excerpt;
mod head;
mod rows;
mod ruler;
mod units;
mod wire;

pub use chip::{bare, parts, plain_chip};
pub use head::Heads;
pub use rows::{Both, Single};
pub use units::json_text;
