//! What a trajectory is exchanged as: reading text that someone pastes or drops, whatever it is, and
//! writing each form.
//!
//! What is written can be read again. Frames, the data-set row and the AgenticML wire come back as they
//! were, with these exceptions of the wire: prose loses white space at its end and everything that Python
//! holds for false, numbers become floats, and content that spells a marker becomes that marker. Messages
//! and the ChatML wire come back as far as the bridge carries; [`Found::notes`] says what it did not.

mod chat;
mod read;
mod write;

pub use read::{
    Candidate, Found, MAX_BYTES, MAX_CANDIDATES, Place, Problem, Read, Shape, close_turns, read,
    too_long,
};
pub use write::{Export, ExportError};
