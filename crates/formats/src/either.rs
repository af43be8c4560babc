//! Input that may be frames or messages.

use crate::bridge::{self, BridgeError};
use crate::frame::{FrameError, Trajectory};
use crate::json::Value;
use crate::message::{Conversation, Message};

/// What an input turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Either {
    /// Frames.
    Frames(Trajectory),
    /// Chat messages.
    Messages(Conversation),
}

impl Either {
    /// The frames, bridged when they came as messages.
    ///
    /// # Errors
    /// When the bridge fails.
    pub fn into_trajectory(self) -> Result<Trajectory, BridgeError> {
        match self {
            Self::Frames(trajectory) => Ok(trajectory),
            Self::Messages(conversation) => bridge::frames(&conversation.messages),
        }
    }

    /// The messages, bridged when they came as frames.
    ///
    /// # Errors
    /// When the bridge fails.
    pub fn into_conversation(self) -> Result<Conversation, BridgeError> {
        match self {
            Self::Frames(trajectory) => bridge::messages(&trajectory),
            Self::Messages(conversation) => Ok(conversation),
        }
    }
}

/// Whether a list looks like messages (its first entry has a `role`) or like frames (a `type`).
pub fn looks_like(value: &Value) -> (bool, bool) {
    let first = value.as_array().and_then(<[Value]>::first);
    let has = |key| first.is_some_and(|first| first.get(key).is_some());
    (has("role"), has("type"))
}

/// Reads a list of messages or frames, whichever it looks like; of messages, entries that are none are
/// left out. An object with such a list under `messages` or `frames` will do too.
///
/// # Errors
/// When it is neither.
pub fn read_any(value: &Value) -> Result<Either, FrameError> {
    let list = value
        .get("messages")
        .filter(|list| looks_like(list).0)
        .unwrap_or(value);
    if !looks_like(list).0 {
        return Trajectory::from_json(value).map(Either::Frames);
    }
    let messages = list.as_array().unwrap_or(&[]).iter().filter_map(|entry| {
        let fields = entry.as_object()?.clone();
        fields.contains_key("role").then_some(Message { fields })
    });
    Ok(Either::Messages(Conversation::new(messages.collect())))
}
