//! Small deterministic parts of the published evaluation and data pipeline, so that its figures can be
//! traced: sampling, splitting and cleaning of rows, the function-calling encoding, shell output, and
//! intervals around rates.

pub mod dataset;
pub mod function_calling;
mod random;
pub mod shell;
mod statistics;

pub use random::{Random, SampleError, sample_entries};
pub use statistics::wilson;
