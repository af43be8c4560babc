//! The Llama 3.1 Instruct layout: what its chat template writes, and how a reply is read.

use crate::frame::{FrameKind, Owner};
use crate::json::{self, Style, Value};
use crate::message::{ContentSpan, Conversation, Message, Origin, ToolCall};
use crate::python;
use crate::render::{Rendering, Role, Segment, SegmentKind};

mod generation;
mod inject;

pub use generation::{Generation, GenerationError, bare_call, read_generation, strip_tokens};
pub use inject::inject_tool_schemas;

/// The date that the template falls back to.
pub const DEFAULT_DATE: &str = "26 Jul 2024";

/// How many `<|begin_of_text|>` open the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bos {
    /// Two, as the reference trains and infers: the template writes one, its tokenizer call adds one.
    #[default]
    Double,
    /// One, as Llama is normally used. This is the template's own text.
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
    /// Names of built-in tools, called as `<|python_tag|>name.call(...)`. When given, even empty, tool
    /// calls end with `<|eom_id|>`, which the mask rule does not take for the end of a turn.
    pub builtin_tools: Option<Vec<String>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            date_string: DEFAULT_DATE.to_owned(),
            add_generation_prompt: false,
            bos: Bos::Double,
            tools: None,
            tools_in_user_message: true,
            builtin_tools: None,
        }
    }
}

/// Why messages cannot be written, and at which one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", message.map(|index| format!("message {index}: ")).unwrap_or_default())]
pub struct TemplateError {
    /// What is wrong.
    pub kind: TemplateErrorKind,
    /// Index of the message, when it is about one.
    pub message: Option<usize>,
}

/// Why messages cannot be written. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateErrorKind {
    /// There are no messages.
    #[error("Cannot apply chat template to an empty conversation. Provide at least one message.")]
    Empty,
    /// Tools are due in the first user turn, and there is none.
    #[error("Cannot put tools in the first user message when there's no first user message!")]
    NoFirstUserMessage,
    /// A message has `tool_calls`, but not exactly one.
    #[error("This model only supports single tool-calls at once!")]
    NotOneToolCall,
    /// A key is missing; carries it.
    #[error("'dict object' has no attribute '{0}'")]
    Missing(&'static str),
    /// Something that must be text is not; carries Python's name of its type.
    #[error("can only concatenate str (not \"{0}\") to str")]
    NotText(&'static str),
    /// A tool message without content, or a call without arguments.
    #[error("Object of type Undefined is not JSON serializable")]
    NoPayload,
    /// A call of a built-in tool whose arguments are not an object.
    #[error("Can only get item pairs from a mapping.")]
    ArgumentsNotObject,
}

impl TemplateErrorKind {
    /// The exception that the reference raises.
    pub fn python_class(&self) -> &'static str {
        match self {
            Self::Empty => "ValueError",
            Self::NoFirstUserMessage | Self::NotOneToolCall => "TemplateError",
            Self::Missing(_) => "UndefinedError",
            Self::NotText(_) | Self::NoPayload | Self::ArgumentsNotObject => "TypeError",
        }
    }

    fn at(self, message: usize) -> TemplateError {
        TemplateError {
            kind: self,
            message: Some(message),
        }
    }
}

/// Writes a conversation.
///
/// The system turn always comes first and holds the dates. Contents are trimmed. A tool call drops its
/// message's content, and arguments or results that are JSON within a string are quoted once more, as
/// in the reference's training text. Nothing is escaped.
///
/// # Errors
/// When the template refuses the messages.
pub fn render(conversation: &Conversation, options: &Options) -> Result<Rendering, TemplateError> {
    let mut writer = Writer::default();
    let mut rest = conversation
        .messages
        .iter()
        .zip(&conversation.origins)
        .enumerate();
    let Some(first) = conversation.messages.first() else {
        return Err(TemplateError {
            kind: TemplateErrorKind::Empty,
            message: None,
        });
    };
    let system = (first.role() == "system").then(|| rest.next()).flatten();

    for _ in 0..match options.bos {
        Bos::Double => 2,
        Bos::Single => 1,
    } {
        writer.special(BEGIN_OF_TEXT);
    }
    writer.message = system.map(|(index, _)| index);
    writer.header("system");
    writer.template(&preamble(options));
    if let (Some(tools), false) = (&options.tools, options.tools_in_user_message) {
        writer.template(TOOLS_IN_SYSTEM);
        writer.template(&listing(tools));
    }
    if let Some((_, (message, origin))) = system {
        writer.content(message.content(), origin);
    }
    writer.special(EOT);

    if let (Some(tools), true) = (&options.tools, options.tools_in_user_message) {
        let Some((index, (message, origin))) = rest.next() else {
            return Err(TemplateError {
                kind: TemplateErrorKind::NoFirstUserMessage,
                message: None,
            });
        };
        writer.message = Some(index);
        writer.header("user");
        writer.template(TOOLS_IN_USER);
        writer.template(&listing(tools));
        writer.content(message.content(), origin);
        writer.special(EOT);
    }

    for (index, (message, origin)) in rest {
        writer.message = Some(index);
        writer
            .turn(message, origin, options)
            .map_err(|kind| kind.at(index))?;
    }
    if options.add_generation_prompt {
        writer.message = None;
        writer.header("assistant");
    }
    let mut rendering = Rendering {
        segments: writer.segments,
    };
    mark_trained(&mut rendering.segments);
    Ok(rendering)
}

pub(crate) const BEGIN_OF_TEXT: &str = "<|begin_of_text|>";
pub(crate) const START_HEADER: &str = "<|start_header_id|>";
pub(crate) const END_HEADER: &str = "<|end_header_id|>";
pub(crate) const EOT: &str = "<|eot_id|>";
pub(crate) const EOM: &str = "<|eom_id|>";
pub(crate) const PYTHON_TAG: &str = "<|python_tag|>";

const TOOLS_IN_SYSTEM: &str = "You have access to the following functions. To call a function, please respond with JSON for a function call.Respond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}.Do not use variables.\n\n";
const TOOLS_IN_USER: &str = "Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\n\nRespond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}.Do not use variables.\n\n";

/// The system turn's boilerplate.
fn preamble(options: &Options) -> String {
    let mut text = String::new();
    if options.builtin_tools.is_some() || options.tools.is_some() {
        text.push_str("Environment: ipython\n");
    }
    if let Some(builtin) = &options.builtin_tools {
        let names: Vec<&str> = builtin
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "code_interpreter")
            .collect();
        text.push_str(&format!("Tools: {}\n\n", names.join(", ")));
    }
    text.push_str("Cutting Knowledge Date: December 2023\n");
    text.push_str(&format!("Today Date: {}\n\n", options.date_string));
    text
}

fn listing(tools: &[Value]) -> String {
    let style = Style {
        ascii: false,
        indent: Some(4),
    };
    tools
        .iter()
        .map(|tool| json::dumps_with(tool, style) + "\n\n")
        .collect()
}

/// Where a piece of content comes from.
#[derive(Clone, Copy, Default)]
struct Source {
    frame: Option<usize>,
    kind: Option<FrameKind>,
}

impl From<&ContentSpan> for Source {
    fn from(span: &ContentSpan) -> Self {
        Self {
            frame: Some(span.frame),
            kind: Some(span.kind),
        }
    }
}

#[derive(Default)]
struct Writer {
    segments: Vec<Segment>,
    message: Option<usize>,
    /// Whether the turn that is going on is the assistant's.
    assistant: bool,
}

impl Writer {
    fn push(&mut self, text: &str, kind: SegmentKind, role: Role, owner: Owner, source: Source) {
        if text.is_empty() {
            return;
        }
        self.segments.push(Segment {
            text: text.to_owned(),
            kind,
            role,
            owner,
            frame: source.frame,
            frame_kind: source.kind,
            message: self.message,
            trained: false,
            given: false,
        });
    }

    fn owner(&self) -> Owner {
        if self.assistant {
            Owner::Model
        } else {
            Owner::Runtime
        }
    }

    fn special(&mut self, name: &str) {
        let source = Source::default();
        let owner = self.owner();
        self.push(name, SegmentKind::Special, Role::Structure, owner, source);
    }

    fn structure(&mut self, text: &str) {
        let source = Source::default();
        let owner = self.owner();
        self.push(text, SegmentKind::Text, Role::Structure, owner, source);
    }

    fn template(&mut self, text: &str) {
        let source = Source::default();
        self.push(
            text,
            SegmentKind::Text,
            Role::Template,
            Owner::Runtime,
            source,
        );
    }

    fn header(&mut self, role: &str) {
        self.assistant = false;
        self.special(START_HEADER);
        self.structure(role);
        self.special(END_HEADER);
        self.structure("\n\n");
        self.assistant = role == "assistant";
    }

    /// Closes the turn; the token stands for the turn's `end` frame when there is one.
    fn close(&mut self, token: &str, end: Option<usize>) {
        let source = Source {
            frame: end,
            kind: end.map(|_| FrameKind::End),
        };
        let owner = self.owner();
        self.push(token, SegmentKind::Special, Role::Structure, owner, source);
    }

    /// A message's content, trimmed and cut where frames meet.
    fn content(&mut self, content: Option<&Value>, origin: &Origin) {
        let Some(content) = content else {
            return;
        };
        let Value::String(text) = content else {
            let text = python::str(content);
            self.payload(python::strip(&text), origin.content.first());
            return;
        };
        let start = text.len() - python::strip_start(text).len();
        let end = start + python::strip(text).len();
        if origin.content.is_empty() {
            self.payload(&text[start..end], None);
            return;
        }
        let mut at = start;
        for span in &origin.content {
            let from = span.range.start.clamp(at, end);
            let to = span.range.end.clamp(from, end);
            self.structure(&text[at..from]);
            self.payload(&text[from..to], Some(span));
            at = to;
        }
        self.structure(&text[at..end]);
    }

    fn payload(&mut self, text: &str, span: Option<&ContentSpan>) {
        let source = span.map(Source::from).unwrap_or_default();
        let owner = self.owner();
        self.push(text, SegmentKind::Text, Role::Content, owner, source);
    }

    fn turn(
        &mut self,
        message: &Message,
        origin: &Origin,
        options: &Options,
    ) -> Result<(), TemplateErrorKind> {
        if message.has_tool_calls() {
            return self.call(message, origin, options.builtin_tools.as_deref());
        }
        let role = match message.fields.get("role") {
            Some(Value::String(role)) => role,
            None | Some(Value::Null) => return Err(TemplateErrorKind::Missing("role")),
            Some(other) => return Err(TemplateErrorKind::NotText(python::type_name(other))),
        };
        if role == "tool" || role == "ipython" {
            let content = message.content().ok_or(TemplateErrorKind::NoPayload)?;
            self.header("ipython");
            let text = match content {
                Value::String(_) | Value::Array(_) | Value::Object(_) => json::dumps(content),
                scalar => python::str(scalar),
            };
            self.payload(&text, origin.content.first());
        } else {
            self.header(role);
            self.content(message.content(), origin);
        }
        self.close(EOT, origin.end);
        Ok(())
    }

    fn call(
        &mut self,
        message: &Message,
        origin: &Origin,
        builtin: Option<&[String]>,
    ) -> Result<(), TemplateErrorKind> {
        let Some(Value::Array(calls)) = message.fields.get("tool_calls") else {
            return Err(TemplateErrorKind::NotOneToolCall);
        };
        if calls.len() != 1 {
            return Err(TemplateErrorKind::NotOneToolCall);
        }
        let calls = message.tool_calls();
        let call = calls
            .first()
            .ok_or(TemplateErrorKind::Missing("function"))?;
        let name = match call.name {
            Some(Value::String(name)) => name,
            Some(other) => return Err(TemplateErrorKind::NotText(python::type_name(other))),
            None => return Err(TemplateErrorKind::Missing("name")),
        };
        let span = origin.call.map(|frame| ContentSpan {
            range: 0..0,
            frame,
            kind: FrameKind::Action,
        });
        self.header("assistant");
        if builtin.is_some_and(|tools| tools.contains(name)) {
            self.special(PYTHON_TAG);
            let arguments = keyword_arguments(call)?;
            self.payload(&format!("{name}.call({arguments})"), span.as_ref());
        } else {
            let arguments = call.arguments.ok_or(TemplateErrorKind::NoPayload)?;
            let arguments = json::dumps(arguments);
            let text = format!("{{\"name\": \"{name}\", \"parameters\": {arguments}}}");
            self.payload(&text, span.as_ref());
        }
        let close = if builtin.is_some() { EOM } else { EOT };
        self.close(close, origin.end);
        Ok(())
    }
}

/// `query="x", count="3"`; values are not escaped.
fn keyword_arguments(call: &ToolCall<'_>) -> Result<String, TemplateErrorKind> {
    let arguments = match call.arguments {
        None => return Ok(String::new()),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(TemplateErrorKind::ArgumentsNotObject),
    };
    let mut parts = Vec::new();
    for (name, value) in arguments {
        let Value::String(value) = value else {
            return Err(TemplateErrorKind::NotText(python::type_name(value)));
        };
        parts.push(format!("{name}=\"{value}\""));
    }
    Ok(parts.join(", "))
}

/// Marks what the mask rule trains on: from behind an assistant header to the next `<|eot_id|>`,
/// inclusive. The scan goes on behind that, as the rule over ids does.
fn mark_trained(segments: &mut [Segment]) {
    let is = |segment: &Segment, name: &str| {
        segment.kind == SegmentKind::Special && segment.text == name
    };
    let mut at = 0;
    while at + 2 < segments.len() {
        if !is(&segments[at], START_HEADER) {
            at += 1;
            continue;
        }
        // The writer always puts one role segment between the two (an empty role none).
        let assistant = segments[at + 1].text == "assistant" && is(&segments[at + 2], END_HEADER);
        let mut first = true;
        at += if is(&segments[at + 1], END_HEADER) {
            2
        } else {
            3
        };
        while at < segments.len() {
            let segment = &mut segments[at];
            segment.trained = assistant;
            segment.given = assistant && first;
            first = false;
            at += 1;
            if is(&segments[at - 1], EOT) {
                break;
            }
        }
    }
}
