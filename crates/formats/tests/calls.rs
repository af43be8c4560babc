//! The mini agent's protocol: the same trajectory there and back.

use formats::calls::{Mode, conversation, frames};
use formats::json::loads;
use formats::{FrameKind, Trajectory, Value, chatml};
use std::path::PathBuf;

fn sample(name: &str) -> Trajectory {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../public/samples");
    let text = std::fs::read_to_string(path.join(name)).expect("the sample is there");
    Trajectory::parse(&text).expect("the sample is well formed")
}

#[test]
fn prompts_are_fixed() {
    let tools = loads(r#"[{"name": "f", "parameters": {}}]"#).expect("JSON");
    let tools = tools.as_array().expect("a list").to_vec();
    assert_eq!(
        Mode::Tools(tools).system_prompt(),
        "You are a function-calling assistant. Available tools:\n\
         [{\"name\": \"f\", \"parameters\": {}}]\nRespond with a JSON list of calls."
    );
    assert_eq!(
        Mode::Bash.system_prompt(),
        "You are a Bash assistant. Translate the request into a single Bash command."
    );
    assert_eq!(
        Mode::Python.system_prompt(),
        "You are a Python coding assistant. Solve the problem with correct, working code."
    );
}

#[test]
fn a_batch_is_one_message() {
    let trajectory = sample("weather.json");
    let tools = r#"[{"name": "weather", "parameters": {"properties": {"city": {}, "day": {}}, "required": ["city"]}}]"#;
    let mode = Mode::Tools(
        loads(tools)
            .expect("JSON")
            .as_array()
            .expect("a list")
            .to_vec(),
    );
    let conversation = conversation(&trajectory, &mode);
    let roles: Vec<&str> = conversation.messages.iter().map(|m| m.role()).collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant"
        ]
    );
    assert_eq!(
        conversation.messages[2].text(),
        "[{\"name\": \"weather\", \"arguments\": {\"city\": \"Bergen\", \"day\": \"tomorrow\"}}, \
         {\"name\": \"weather\", \"arguments\": {\"city\": \"M\\u00e1laga\", \"day\": \"tomorrow\"}}]"
    );
    assert_eq!(conversation.origins[2].frames(), [4, 5, 6]);
    for (message, origin) in conversation.messages.iter().zip(&conversation.origins) {
        let calls: Vec<_> = origin.frames();
        if message.role() != "assistant" || !message.text().starts_with('[') {
            continue;
        }
        let reply = mode.read(message.text());
        assert_eq!(reply.failures, []);
        let wanted: Vec<_> = calls
            .iter()
            .map(|&f| trajectory.frames[f].clone())
            .collect();
        assert_eq!(frames(&reply), wanted);
    }
    let rendering = chatml::render(&conversation, &chatml::Options::default()).expect("renders");
    // Results are quoted once, not twice.
    let results: Vec<&str> = rendering
        .segments
        .iter()
        .filter(|segment| segment.frame_kind == Some(FrameKind::Result))
        .map(|segment| segment.text.as_str())
        .collect();
    assert_eq!(
        results[0],
        r#"{"tool": "weather", "value": {"error": "timeout"}}"#
    );
}

#[test]
fn commands_and_code_there_and_back() {
    for (mode, action, said) in [
        (
            Mode::Bash,
            r#"{"tool": "bash", "command": "ls | wc -l"}"#,
            "ls | wc -l",
        ),
        (
            Mode::Python,
            r#"{"tool": "python", "code": "print(1)\nprint(2)"}"#,
            "```python\nprint(1)\nprint(2)\n```",
        ),
    ] {
        let action = loads(action).expect("JSON");
        let trajectory = Trajectory {
            frames: vec![
                formats::Frame::new(FrameKind::Mission, "m"),
                formats::Frame::new(FrameKind::Action, action),
                formats::Frame::new(FrameKind::End, Value::Null),
            ],
        };
        let conversation = conversation(&trajectory, &mode);
        assert_eq!(conversation.messages[2].text(), said);
        let reply = mode.read(said);
        assert_eq!(reply.failures, []);
        assert_eq!(frames(&reply), trajectory.frames[1..]);
    }
}
