//! The bridge between frames and chat messages.

use crate::frame::Trajectory;
use crate::message::Conversation;

/// Why frames cannot be turned into messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// The bridge is not built yet.
    #[error("the bridge is not built yet")]
    Unavailable,
}

/// Turns frames into messages by the reference's rules.
///
/// # Errors
/// When a frame cannot be put into a message.
pub fn messages(_trajectory: &Trajectory) -> Result<Conversation, BridgeError> {
    Err(BridgeError::Unavailable)
}
