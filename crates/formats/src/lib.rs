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
mod frame;
pub mod injection;
pub mod json;
mod message;
pub mod python;
mod render;
pub mod schema;
#[cfg(feature = "jinja")]
pub mod template;
pub mod validate;
pub mod validity;

pub use either::{Either, looks_like, read_any};
pub use frame::{Frame, FrameError, FrameKind, Owner, Payload, Trajectory};
pub use json::Value;
pub use message::{ContentSpan, Conversation, Message, MessageError, Origin, ToolCall};
pub use render::{Rendering, Role, Segment, SegmentKind};

/// What to do where the reference is unsafe or loses data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Text stays text, and what cannot be read is a typed error in its place. Equal to
    /// [`Policy::Reference`] wherever the reference is neither unsafe nor fails.
    #[default]
    Safe,
    /// As the reference does, to the last id: text that spells a special token becomes that token (and
    /// may move the loss mask), and unreadable data can fail the whole input. The published models were
    /// trained on these ids.
    Reference,
}
