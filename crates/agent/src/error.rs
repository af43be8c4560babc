//! Why a loop cannot go on.

use crate::ActionError;
use formats::agenticml::RenderError;
use formats::bridge::BridgeError;
use formats::chatml::TemplateError;
use formats::schema::SchemaError;
use tokens::StopError;

/// Why a step or run failed as a whole. The texts are the reference's.
///
/// What the model wrote can cause only the last two, and those under [`formats::Policy::Reference`]
/// alone; [`formats::Policy::Safe`] turns them into stop reasons and results.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AgentError<E> {
    /// The tools' schemas cannot be written.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The trajectory cannot be written.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The messages cannot be written.
    #[error("{}", .0.kind)]
    Template(#[from] TemplateError),
    /// There is nothing to stop at.
    #[error(transparent)]
    Stops(#[from] StopError),
    /// Generation failed.
    #[error("{0}")]
    Generator(E),
    /// An action cannot be carried out.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// A call has no name, or its arguments cannot be read.
    #[error(transparent)]
    Call(#[from] BridgeError),
}

impl<E> AgentError<E> {
    /// The exception that the reference raises; `None` for the generator's own errors.
    pub fn python_class(&self) -> Option<&'static str> {
        Some(match self {
            Self::Schema(error) => error.python_class(),
            Self::Render(error) => error.python_class(),
            Self::Template(error) => error.kind.python_class(),
            Self::Stops(_) => "ValueError",
            Self::Generator(_) => return None,
            Self::Action(error) => error.python_class(),
            Self::Call(error) => error.python_class(),
        })
    }
}
