//! What makes an agent of a model: the loops of both arms that prompt it, read what it wrote and run
//! its tools.
//!
//! Generation is behind the trait [`Generator`], so the loops run over a model in a worker as well as
//! over a script. Everything else is deterministic. [`conform`] runs the golden cases over the whole
//! of `formats`, `tokens` and this crate.

mod action;
pub mod agenticml;
pub mod chatml;
pub mod conform;
mod error;
mod generator;
mod registry;
mod settings;
pub mod suite;

pub use action::{Acted, ActionError, act};
pub use error::AgentError;
pub use generator::{Blocking, Generator, Request, now};
pub use registry::{CallError, DuplicateTool, Parameter, Registry, Signature, Tool, ToolFailure};
pub use settings::{RunStop, Settings};
