//! What makes an agent of a model: the loops of both arms that prompt it, read what it wrote and run
//! its tools.
//!
//! Generation is behind the trait [`Generator`], so the loops run over a model in a worker as well as
//! over a script. Everything else is deterministic. [`conform`] runs the golden cases over the whole
//! of `formats`, `tokens` and this crate.
//!
//! # Where the policies differ
//!
//! [`formats::Policy::Reference`] passes the golden runs; [`formats::Policy::Safe`] is the default and
//! differs here:
//!
//! | what the model writes | reference | safe |
//! |---|---|---|
//! | an end of sequence or turn in place of `end` | is text of the last payload, so that JSON is broken and a right answer is lost | ends the turn, in no payload |
//! | text that spells a marker | is the marker | is text: markers are read from ids |
//! | an action of broken JSON, or `null` | becomes a call of nothing; the next render fails and the run is lost | [`agenticml::StepStop::Unreadable`], the turn changes nothing |
//! | an action that is a list, text, number or boolean; a `tool` that is a list or object | the run fails (`0`, `""`, `[]`: a call of nothing) | the same stop reason |
//! | an action cut off by the token limit | as broken JSON | [`RunStop::MaxTokens`], the turn changes nothing |
//! | frames before a marker that is not the model's | thrown away | shown in the step; the trajectory is left alone as well |
//! | ChatML: text cut off by the token limit | is the answer | [`RunStop::MaxTokens`] |
//! | ChatML: a call without a name, or with arguments that are no object | the run fails | [`chatml::StepStop::BadCall`] |
//! | ChatML: text that spells `<|python_tag|>` or a stop | opens a call, ends the reply, or vanishes from arguments | is text |
//! | a tool's value that is not JSON | the next render fails | the model is told as of any error of a tool |

mod action;
pub mod agenticml;
pub mod chatml;
pub mod conform;
mod error;
mod generator;
pub mod reading;
mod registry;
mod settings;
pub mod suite;

pub use action::{Acted, ActionError, act, recorded, result_frame};
pub use error::AgentError;
pub use generator::{Blocking, Generator, Request, now};
pub use registry::{CallError, DuplicateTool, Parameter, Registry, Signature, Tool, ToolFailure};
pub use settings::{RunStop, Settings};
