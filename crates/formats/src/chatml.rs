//! The Llama 3.1 Instruct layout.

use crate::json::Value;
use crate::message::Conversation;
use crate::render::Rendering;

/// How many `<|begin_of_text|>` open the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bos {
    /// Two, as the reference trains and infers: the template writes one, its tokenizer call adds one.
    #[default]
    Double,
    /// One, as Llama is normally used.
    Single,
}

/// What the template is given beside the messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The date in the system turn.
    pub date_string: String,
    /// Open an assistant turn at the end.
    pub add_generation_prompt: bool,
    /// One `<|begin_of_text|>` or two.
    pub bos: Bos,
    /// Tool schemas, each written as JSON. An empty list still counts as tools; the reference's
    /// training text has none.
    pub tools: Option<Vec<Value>>,
    /// Write the tools into the first user turn (the template's default), not the system turn.
    pub tools_in_user_message: bool,
    /// Names of built-in tools, called as `<|python_tag|>name.call(...)`.
    pub builtin_tools: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            date_string: "26 Jul 2024".to_owned(),
            add_generation_prompt: false,
            bos: Bos::Double,
            tools: None,
            tools_in_user_message: true,
            builtin_tools: None,
        }
    }
}

/// Why messages cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template is not built yet.
    #[error("the template is not built yet")]
    Unavailable,
}

/// Writes a conversation.
///
/// # Errors
/// When the template refuses the messages.
pub fn render(
    _conversation: &Conversation,
    _options: &Options,
) -> Result<Rendering, TemplateError> {
    Err(TemplateError::Unavailable)
}
