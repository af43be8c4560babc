//! What the page asks the engine and what it is told: requests, events, and the sessions behind
//! them.
//!
//! * [`protocol`]: the messages. The page depends on these alone.
//! * `runtime` (feature `runtime`): the engine that answers them, in the worker and natively.

pub mod protocol;
#[cfg(feature = "runtime")]
pub mod runtime;
