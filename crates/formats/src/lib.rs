//! Frames, messages and the wire formats they are written in. Pure functions, no IO.
//!
//! One [`Trajectory`] is the source of truth. [`agenticml::render`] writes it frame by frame;
//! [`bridge::messages`] turns it into chat messages, which [`chatml::render`] writes in the Llama 3.1
//! Instruct layout. Both yield a [`Rendering`]: segments that say what each run of text is, who
//! writes it, and from which frame and message it comes.

pub mod agenticml;
pub mod bridge;
pub mod calls;
pub mod chatml;
mod either;
pub mod exchange;
mod faults;
mod frame;
pub mod injection;
pub mod json;
mod message;
pub mod partial;
pub mod python;
mod render;
pub mod schema;
#[cfg(feature = "jinja")]
pub mod template;
pub mod validate;
pub mod validity;

pub use either::{Either, looks_like, read_any};
pub use faults::{Fault, faults};
pub use frame::{Frame, FrameError, FrameKind, Owner, Payload, Trajectory};
pub use json::Value;
pub use message::{ContentSpan, Conversation, Message, MessageError, Origin, ToolCall};
pub use render::{Rendering, Role, Segment, SegmentKind};

/// What to do where the reference is unsafe or loses data.
///
/// | input | [`Policy::Reference`] | [`Policy::Safe`] |
/// |---|---|---|
/// | text that spells a special token | becomes that token, and may move the loss mask | stays text, and is reported ([`injection`]) |
/// | JSON nested too deep, an integer of more than 4,300 digits | fails the whole wire | is the error of its frame |
///
/// Both differ from the reference in one thing: half of a surrogate pair (`\ud83d` alone in JSON) cannot
/// be held in Unicode text and is an error of its frame; the reference keeps it and fails when it
/// encodes it.
///
/// What is generated should be read from ids rather than parsed as text; that reading has no reference
/// variant. It lets no stop id into a payload, takes no spelt marker for one, and keeps the frames
/// before an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Text stays text, and what cannot be read is a typed error in its place. Equal to
    /// [`Policy::Reference`] wherever the reference is neither unsafe nor fails.
    #[default]
    Safe,
    /// As the reference does, to the last id. The published models were trained on these ids.
    Reference,
}
