//! The ChatML arm: messages in, one message out.

use crate::action::{call, result};
use crate::settings::{stop_ids, turn_ends};
use crate::{ActionError, AgentError, Generator, Registry, Request, RunStop, Settings};
use formats::bridge::{BridgeError, TERMINAL_TOOLS, name_and_arguments};
use formats::chatml::{
    Generation, GenerationError, Options, inject_tool_schemas, read_generation, render,
};
use formats::json::{self, Object, Value};
use formats::{Conversation, Message, Origin, Policy, python};
use std::fmt;
use tokens::{Arm, Llama3Tokenizer, view};

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepStop {
    /// With a tool call.
    Call,
    /// With plain text.
    Text,
    /// It was cut off ([`Policy::Safe`]; the reference takes what is there).
    MaxTokens,
    /// It means nothing.
    ParseError(GenerationError),
    /// It is a call without a name, or whose arguments cannot be read ([`Policy::Safe`]).
    BadCall(BridgeError),
}

impl fmt::Display for StepStop {
    /// As the reference names it, where it knows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call => f.write_str("tool_call"),
            Self::Text => f.write_str("assistant_text"),
            Self::MaxTokens => f.write_str("max_tokens"),
            Self::ParseError(error) => write!(f, "parse_error: {error}"),
            Self::BadCall(error) => write!(f, "bad_call: {error}"),
        }
    }
}

/// A call that the model wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its id among the messages.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: an object, unless the model wrote something else within a string and
    /// [`Policy::Reference`] lets it pass.
    pub arguments: Value,
}

/// One turn of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The prompt's ids.
    pub prompt: Vec<u32>,
    /// The generated ids.
    pub ids: Vec<u32>,
    /// Their text.
    pub text: String,
    /// What was said, or the call, as a message; none when the turn cannot be used.
    pub message: Option<Message>,
    /// The call, when it is one.
    pub call: Option<Call>,
    /// Why it ended.
    pub stop: StepStop,
    /// The messages, with the tools' schemas and the new message.
    pub conversation: Conversation,
}

/// Lets the model write one message. The tools' schemas are put into the system message first.
///
/// # Errors
/// When the messages cannot be written or generation fails; under [`Policy::Reference`] also when a call
/// has no name or its arguments cannot be read.
pub async fn step<G: Generator>(
    tokenizer: &Llama3Tokenizer,
    generator: &mut G,
    conversation: &Conversation,
    tools: &[Value],
    settings: &Settings,
) -> Result<Step, AgentError<G::Error>> {
    let conversation = inject_tool_schemas(conversation, tools);
    turn(tokenizer, generator, conversation, settings).await
}

async fn turn<G: Generator>(
    tokenizer: &Llama3Tokenizer,
    generator: &mut G,
    conversation: Conversation,
    settings: &Settings,
) -> Result<Step, AgentError<G::Error>> {
    let options = Options {
        add_generation_prompt: true,
        ..Options::default()
    };
    let rendering = render(&conversation, &options)?;
    let prompt = view(tokenizer, &rendering, Arm::ChatMl, settings.policy).ids();
    let stops = stop_ids(tokenizer, settings.stops.chatml_stops()?, settings);
    let ids = generator
        .generate(Request {
            prompt: &prompt,
            stops: &stops,
            max_new_tokens: settings.max_new_tokens,
        })
        .await
        .map_err(AgentError::Generator)?;
    read_step(tokenizer, conversation, prompt, ids, settings).map_err(AgentError::Call)
}

/// What a turn's ids mean.
///
/// Under [`Policy::Reference`] the decoded text is read. Under [`Policy::Safe`] the ids are: the reply
/// ends at the first stop id, only a real python tag opens a call, a reply that was cut off is not an
/// answer, and a malformed call is a stop reason.
///
/// # Errors
/// Under [`Policy::Reference`], when a call has no name or its arguments cannot be read.
pub fn read_step(
    tokenizer: &Llama3Tokenizer,
    mut conversation: Conversation,
    prompt: Vec<u32>,
    ids: Vec<u32>,
    settings: &Settings,
) -> Result<Step, BridgeError> {
    let text = tokenizer.decode(&ids);
    let read = match settings.policy {
        Policy::Reference => Some(read_generation(&text)),
        Policy::Safe => read_ids(tokenizer, &ids, settings),
    };
    let mut call = None;
    let (message, stop) = match read {
        None => (None, StepStop::MaxTokens),
        Some(Generation::Text(said)) => (Some(Message::new("assistant", said)), StepStop::Text),
        Some(Generation::Failed(error)) => (None, StepStop::ParseError(error)),
        Some(Generation::Call(written)) => match read_call(&written, &conversation, settings) {
            Ok(read) => {
                let message = call_message(&read);
                call = Some(read);
                (Some(message), StepStop::Call)
            }
            Err(error) if settings.policy == Policy::Reference => return Err(error),
            Err(error) => (None, StepStop::BadCall(error)),
        },
    };
    if let Some(message) = &message {
        conversation.push(message.clone(), Origin::default());
    }
    Ok(Step {
        prompt,
        ids,
        text,
        message,
        call,
        stop,
        conversation,
    })
}

/// `None` when the reply was cut off.
fn read_ids(tokenizer: &Llama3Tokenizer, ids: &[u32], settings: &Settings) -> Option<Generation> {
    let ends = turn_ends(tokenizer, &settings.stops);
    let end = ids.iter().position(|id| ends.contains(id));
    if end.is_none() && ids.len() >= settings.max_new_tokens {
        return None;
    }
    let ids = &ids[..end.unwrap_or(ids.len())];
    let tag = tokenizer.special_id("<|python_tag|>");
    let tag = ids.iter().position(|id| Some(*id) == tag);
    if let Some(tag) = tag {
        return Some(read_tagged(&tokenizer.decode(&ids[tag + 1..])));
    }
    let header = tokenizer.encode_trusted("<|start_header_id|>assistant<|end_header_id|>\n\n");
    let written = tokenizer.decode(ids.strip_prefix(header.as_slice()).unwrap_or(ids));
    Some(read_said(&written))
}

/// What stands behind a python tag, up to the end of the turn, under [`Policy::Safe`].
pub(crate) fn read_tagged(written: &str) -> Generation {
    match json::loads(python::strip(written)) {
        Ok(Value::Object(call)) => Generation::Call(call),
        Ok(_) => Generation::Failed(GenerationError::NotAnObject),
        Err(error) => Generation::Failed(GenerationError::Json(error.kind)),
    }
}

/// A reply without a python tag, up to the end of the turn, under [`Policy::Safe`].
pub(crate) fn read_said(written: &str) -> Generation {
    let said = python::strip(written);
    if said.is_empty() {
        return Generation::Failed(GenerationError::Empty);
    }
    let named = |call: &Object| {
        ["name", "tool"]
            .iter()
            .any(|k| call.get(*k).is_some_and(python::truthy))
    };
    match json::loads(said) {
        Ok(Value::Object(call)) if named(&call) => Generation::Call(call),
        _ => Generation::Text(said.to_owned()),
    }
}

fn read_call(
    written: &Object,
    conversation: &Conversation,
    settings: &Settings,
) -> Result<Call, BridgeError> {
    let (name, arguments) = called(written, settings.policy)?;
    Ok(Call {
        id: format!("call_{}", conversation.messages.len()),
        name,
        arguments,
    })
}

/// Name and arguments of a call that the model wrote.
pub(crate) fn called(written: &Object, policy: Policy) -> Result<(String, Value), BridgeError> {
    let (name, arguments) = name_and_arguments(written)?;
    if policy == Policy::Safe && arguments.as_object().is_none() {
        return Err(BridgeError::NotAMapping(python::type_name(&arguments)));
    }
    Ok((name, arguments))
}

fn call_message(call: &Call) -> Message {
    let function = Object::from_iter([
        ("name".to_owned(), call.name.as_str().into()),
        (
            "arguments".to_owned(),
            json::dumps_ascii(&call.arguments).into(),
        ),
    ]);
    let entry = Object::from_iter([
        ("id".to_owned(), call.id.as_str().into()),
        ("type".to_owned(), "function".into()),
        ("function".to_owned(), function.into()),
    ]);
    let mut message = Message::new("assistant", "");
    let calls = Value::Array(vec![entry.into()]);
    message.fields.insert("tool_calls".into(), calls);
    message
}

/// A run to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Everything that was said.
    pub conversation: Conversation,
    /// Why it ended.
    pub stop: RunStop<StepStop>,
    /// Number of model turns.
    pub iterations: usize,
    /// The answer; null without one.
    pub answer: Value,
    /// Ids of all prompts.
    pub prompt_tokens: usize,
    /// Ids generated.
    pub generated_tokens: usize,
}

/// Lets the model work until it says something without calling a tool, or cannot go on.
///
/// # Errors
/// When the messages cannot be written or generation fails; under [`Policy::Reference`] also when a call
/// is malformed or a tool returns something that is not JSON.
pub async fn run<G: Generator>(
    tokenizer: &Llama3Tokenizer,
    generator: &mut G,
    conversation: &Conversation,
    tools: &mut Registry,
    settings: &Settings,
) -> Result<Run, AgentError<G::Error>> {
    let mut run = Run {
        conversation: inject_tool_schemas(conversation, &tools.schemas()),
        stop: RunStop::MaxIterations,
        iterations: 0,
        answer: Value::Null,
        prompt_tokens: 0,
        generated_tokens: 0,
    };
    while run.iterations < settings.max_iterations {
        let step = turn(tokenizer, generator, run.conversation, settings).await?;
        run.iterations += 1;
        run.prompt_tokens += step.prompt.len();
        run.generated_tokens += step.ids.len();
        run.conversation = step.conversation;
        let call = match (step.stop, step.call) {
            (StepStop::Call, Some(call)) => call,
            (StepStop::Text, _) => {
                run.stop = RunStop::Terminal;
                let said = step.message.and_then(|m| m.fields.get("content").cloned());
                run.answer = said.unwrap_or_default();
                break;
            }
            (StepStop::MaxTokens, _) => {
                run.stop = RunStop::MaxTokens;
                break;
            }
            (stop, _) => {
                run.stop = RunStop::Unusable(stop);
                break;
            }
        };
        if TERMINAL_TOOLS.contains(&call.name.as_str()) {
            run.stop = RunStop::Terminal;
            if call.name == "answer" {
                let text = call.arguments.get("text").filter(|t| python::truthy(t));
                run.answer = text.cloned().unwrap_or_else(|| "".into());
            }
            break;
        }
        let value = call_tool(&call, tools, settings.policy)?;
        let content = json::dumps_ascii(&result(call.name.into(), value));
        let fields = Object::from_iter([
            ("role".to_owned(), "tool".into()),
            ("tool_call_id".to_owned(), call.id.into()),
            ("content".to_owned(), content.into()),
        ]);
        run.conversation.push(Message { fields }, Origin::default());
    }
    Ok(run)
}

fn call_tool(called: &Call, tools: &mut Registry, policy: Policy) -> Result<Value, ActionError> {
    let name = Value::from(called.name.as_str());
    match &called.arguments {
        Value::Object(arguments) => call(&name, arguments, tools, policy),
        other if tools.has(&called.name) => Ok(format!(
            "bad arguments to '{0}': {0}() argument after ** must be a mapping, not {1}",
            called.name,
            python::type_name(other)
        )
        .into()),
        _ => call(&name, &Object::new(), tools, policy),
    }
}
