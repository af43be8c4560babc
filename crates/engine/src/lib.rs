//! What the page asks the engine and what it is told: requests, events, and the sessions behind them.

pub mod protocol;
