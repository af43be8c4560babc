//! The forms a trajectory can be taken away in.

use crate::agenticml::{self, RenderError, View};
use crate::bridge::{self, BridgeError};
use crate::chatml::{self, TemplateError};
use crate::frame::Trajectory;
use crate::json::{self, Object, Style, Value};

/// A form of a trajectory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Export {
    /// `{"frames": [...]}`
    Frames,
    /// `{"messages": [...]}`, as the bridge makes them.
    Messages,
    /// One line with both columns, as the published data set has them.
    Row,
    /// The AgenticML wire with readable markers.
    Markers,
    /// The AgenticML wire as the model sees it.
    Reserved,
    /// The wire of the ChatML arm.
    Chat,
}

/// Why a trajectory cannot be written in a form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExportError {
    /// The AgenticML wire cannot be written.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The bridge cannot make messages.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The template refuses the messages.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Export {
    /// All forms.
    pub const ALL: [Self; 6] = [
        Self::Frames,
        Self::Messages,
        Self::Row,
        Self::Markers,
        Self::Reserved,
        Self::Chat,
    ];

    /// Its name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Frames => "Frames JSON",
            Self::Messages => "Messages JSON",
            Self::Row => "Data-set row, JSONL",
            Self::Markers => "AgenticML wire, markers",
            Self::Reserved => "AgenticML wire, reserved tokens",
            Self::Chat => "ChatML wire",
        }
    }

    /// A word for names in scripts.
    pub fn key(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Messages => "messages",
            Self::Row => "row",
            Self::Markers => "markers",
            Self::Reserved => "reserved",
            Self::Chat => "chatml",
        }
    }

    /// The end of its file's name.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Frames => "frames.json",
            Self::Messages => "messages.json",
            Self::Row => "jsonl",
            Self::Markers => "markers.txt",
            Self::Reserved => "reserved.txt",
            Self::Chat => "chatml.txt",
        }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Frames | Self::Messages => "application/json",
            Self::Row => "application/jsonl",
            _ => "text/plain",
        }
    }

    /// Writes a trajectory in this form.
    ///
    /// # Errors
    /// When the wire or the messages cannot be made.
    pub fn write(self, trajectory: &Trajectory) -> Result<String, ExportError> {
        let pretty = |value: &Value| {
            let style = Style {
                ascii: false,
                indent: Some(2),
            };
            json::dumps_with(value, style) + "\n"
        };
        Ok(match self {
            Self::Frames => pretty(&trajectory.to_json()),
            Self::Messages => {
                let messages = bridge::messages(trajectory)?.to_json();
                pretty(&Value::Object(Object::from_iter([(
                    "messages".to_owned(),
                    messages,
                )])))
            }
            Self::Row => {
                let frames = trajectory.to_json().get("frames").cloned();
                let row = Object::from_iter([
                    ("frames".to_owned(), frames.unwrap_or_default()),
                    (
                        "messages".to_owned(),
                        bridge::messages(trajectory)?.to_json(),
                    ),
                ]);
                json::dumps(&Value::Object(row)) + "\n"
            }
            Self::Markers => agenticml::render(trajectory, View::Markers)?.text(),
            Self::Reserved => agenticml::render(trajectory, View::Reserved)?.text(),
            Self::Chat => {
                let conversation = bridge::messages(trajectory)?;
                chatml::render(&conversation, &chatml::Options::default())?.text()
            }
        })
    }
}
