//! What is driven.

use super::inputs::{JSON, Numbers, TEMPLATE, WIRE, json, text};
use formats::agenticml::{Reading, View, parse, render, reserved_to_markers};
use formats::bridge::{frames, messages, messages_from_json, name_and_arguments};
use formats::calls::{read_bash, read_calls, read_python};
use formats::chatml::{Options, bare_call, inject_tool_schemas, read_generation, strip_tokens};
use formats::json::{Value, dumps, dumps_ascii, loads, loads_prefix};
use formats::schema::{render_tool_schema, with_tool_obs};
use formats::template::{ChatTemplate, TemplateInput};
use formats::validate::validate;
use formats::validity::{check_agenticml, check_chatml};
use formats::{Conversation, Policy, Trajectory, chatml, injection, read_any};

/// A way into the parsers.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Makes an input.
    pub input: fn(&mut Numbers) -> String,
    /// Pieces that inputs are made of, for inputs that repeat a few of them.
    pub pieces: &'static [&'static str],
    /// Reads an input. Says what does not hold.
    pub read: fn(&str) -> Result<(), String>,
    /// Whether time must grow with the input alone. (A template may loop; then its fuel is the bound.)
    pub linear: bool,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "wire",
        input: |numbers| text(numbers, WIRE, 24),
        pieces: WIRE,
        read: wire,
        linear: true,
    },
    Target {
        name: "json",
        input: |numbers| match numbers.below(2) {
            0 => text(numbers, JSON, 24),
            _ => json(numbers, 5),
        },
        pieces: JSON,
        read: json_text,
        linear: true,
    },
    Target {
        name: "generation",
        input: |numbers| text(numbers, WIRE, 16),
        pieces: WIRE,
        read: generation,
        linear: true,
    },
    Target {
        name: "calls",
        input: |numbers| match numbers.below(3) {
            0 => text(numbers, WIRE, 16),
            1 => text(numbers, JSON, 24),
            _ => json(numbers, 4),
        },
        pieces: JSON,
        read: calls,
        linear: true,
    },
    Target {
        name: "documents",
        input: |numbers| json(numbers, 6),
        pieces: JSON,
        read: documents,
        linear: true,
    },
    Target {
        name: "template input",
        input: |numbers| json(numbers, 4),
        pieces: JSON,
        read: template_input,
        linear: true,
    },
    Target {
        name: "template source",
        input: |numbers| text(numbers, TEMPLATE, 24),
        pieces: TEMPLATE,
        read: template_source,
        linear: false,
    },
];

fn wire(text: &str) -> Result<(), String> {
    for view in [View::Markers, View::Reserved] {
        for policy in [Policy::Safe, Policy::Reference] {
            let lenient = Reading {
                view,
                strict: false,
                policy,
            };
            let strict = Reading {
                strict: true,
                ..lenient
            };
            let read = parse(text, &lenient);
            if parse(text, &strict).is_ok() && read.is_err() {
                return Err("strict reads what lenient does not".to_owned());
            }
            if let Ok(frames) = read {
                let mut at = frames.first().map_or(text.len(), |f| f.marker.start);
                for frame in &frames {
                    if frame.marker.start != at || text.get(frame.body.clone()) != Some(&frame.raw)
                    {
                        return Err("frames do not cover the text".to_owned());
                    }
                    at = frame.body.end;
                }
                let frames: Vec<_> = frames.into_iter().map(|f| f.frame).collect();
                let _ = validate(&frames, true);
                let trajectory = Trajectory { frames };
                let _ = messages(&trajectory).map(|c| frames_again(&c));
            }
        }
    }
    let _ = reserved_to_markers(text);
    let row = Value::Object(formats::json::Object::from_iter([(
        "frames".to_owned(),
        Value::Array(Vec::new()),
    )]));
    let _ = check_agenticml(&row, text, Policy::Reference);
    Ok(())
}

fn frames_again(conversation: &Conversation) {
    let _ = frames(&conversation.messages);
}

fn json_text(text: &str) -> Result<(), String> {
    let _ = loads_prefix(text);
    let Ok(value) = loads(text) else {
        return Ok(());
    };
    for written in [dumps(&value), dumps_ascii(&value)] {
        match loads(&written) {
            // NaN is not equal to itself; its text is.
            Ok(again) if dumps(&again) == dumps(&value) => {}
            _ => return Err("what was written does not read back".to_owned()),
        }
    }
    Ok(())
}

fn generation(text: &str) -> Result<(), String> {
    let read = read_generation(text);
    if let chatml::Generation::Call(call) = &read {
        let _ = name_and_arguments(call);
    }
    let _ = (bare_call(text), strip_tokens(text), check_chatml(text));
    Ok(())
}

fn calls(text: &str) -> Result<(), String> {
    let tools = r#"[{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}]"#;
    let tools = loads(tools).map_err(|error| error.to_string())?;
    let tools = tools.as_array().unwrap_or(&[]);
    for reply in [
        read_calls(text, tools),
        read_calls(text, &[]),
        read_bash(text),
        read_python(text),
    ] {
        let frames = formats::calls::frames(&reply);
        let _ = validate(&frames, true);
    }
    Ok(())
}

fn documents(text: &str) -> Result<(), String> {
    let Ok(value) = loads(text) else {
        return Ok(());
    };
    let _ = messages_from_json(&value);
    if let Ok(either) = read_any(&value) {
        let _ = either.clone().into_conversation().map(|c| write(&c));
        if let Ok(trajectory) = either.into_trajectory() {
            let _ = validate(&trajectory.frames, false);
            let _ = with_tool_obs(&trajectory, &[]);
            if let Ok(rendering) = render(&trajectory, View::Reserved) {
                let _ = injection::find(&rendering);
                if rendering.segments.iter().any(|s| s.text.is_empty()) {
                    return Err("an empty segment".to_owned());
                }
            }
        }
    }
    if let Some(tools) = value.as_array() {
        let _ = render_tool_schema(tools);
        if let Ok(conversation) = Conversation::from_json(&value) {
            write(&inject_tool_schemas(&conversation, tools));
            frames_again(&conversation);
        }
    }
    Ok(())
}

fn write(conversation: &Conversation) {
    let _ = chatml::render(conversation, &Options::default());
    let options = Options {
        add_generation_prompt: true,
        tools: Some(vec![Value::Null]),
        builtin_tools: Some(vec!["f".to_owned()]),
        ..Options::default()
    };
    let _ = chatml::render(conversation, &options);
}

const CHAT: &str = "{{- bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m.tool_calls is \
    defined %}{{ m.tool_calls | tojson(indent=2) }}{% elif m.content is string %}{{ m.content | trim }}{% else \
    %}{{ m }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

thread_local! {
    static TEMPLATE_OF_CHATS: Option<ChatTemplate> = ChatTemplate::new(CHAT).ok();
}

fn template_input(text: &str) -> Result<(), String> {
    let Ok(messages) = serde_json::from_str::<serde_json::Value>(text) else {
        return Ok(());
    };
    let input = TemplateInput {
        bos_token: "<s>".to_owned(),
        add_generation_prompt: true,
        tools: Some(messages.clone()),
        ..TemplateInput::default()
    };
    TEMPLATE_OF_CHATS.with(|template| {
        let template = template.as_ref().ok_or("the template does not parse")?;
        let _ = template.render(&messages, &input);
        Ok(())
    })
}

fn template_source(text: &str) -> Result<(), String> {
    let messages = serde_json::json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
    ]);
    if let Ok(template) = ChatTemplate::new(text) {
        let input = TemplateInput {
            date: "26 Jul 2024".to_owned(),
            ..TemplateInput::default()
        };
        let _ = template.render(&messages, &input);
    }
    Ok(())
}
