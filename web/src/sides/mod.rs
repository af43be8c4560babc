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

pub use chip::{parts, plain_chip};
pub use head::Heads;
pub use rows::{Both, Single};
pub use units::json_text;
pub use window::Windows;
