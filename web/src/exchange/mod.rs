//! Text that comes in and goes out: the dialog that imports, files dropped on the room, and the forms to
//! export. What a text is, `formats::exchange` finds out.

mod export;
mod import;

pub use export::ExportList;
pub use import::{DropAnywhere, Import, Intake};
