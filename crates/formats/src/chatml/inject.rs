//! Tools as text in the system message.

use crate::json::{self, Value};
use crate::message::{Conversation, Message, Origin};
use crate::python;

/// Puts the tools' schemas into the first system message, behind a blank line, or into a new one in
/// front; this is how the reference tells a ChatML model its tools. No tools change nothing.
///
/// The origins of what was there are kept.
pub fn inject_tool_schemas(conversation: &Conversation, tools: &[Value]) -> Conversation {
    let mut conversation = conversation.clone();
    if tools.is_empty() {
        return conversation;
    }
    let listing = json::dumps_ascii(&Value::Array(tools.to_vec()));
    let block = format!("available tools:\n{listing}");
    let system = conversation
        .messages
        .iter()
        .position(|message| message.role() == "system");
    let Some(index) = system else {
        let message = Message::new("system", block);
        conversation.messages.insert(0, message);
        conversation.origins.insert(0, Origin::default());
        return conversation;
    };
    let fields = &mut conversation.messages[index].fields;
    let content = fields.get("content").map_or(String::new(), python::str);
    let lead = content.len() - python::strip_start(&content).len();
    let joined = format!("{content}\n\n{block}");
    fields.insert("content".into(), python::strip(&joined).into());
    for span in &mut conversation.origins[index].content {
        span.range.start = span.range.start.saturating_sub(lead);
        span.range.end = span.range.end.saturating_sub(lead);
    }
    conversation
}
