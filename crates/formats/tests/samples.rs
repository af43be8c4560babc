//! The page's samples: each in the list, well formed, and the same after a trip through either wire.

use formats::agenticml::{self, Reading, View};
use formats::chatml::{self, Generation, read_generation};
use formats::json::{Value, loads};
use formats::validate::validate;
use formats::{Frame, FrameKind, Policy, Trajectory, bridge, injection};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Samples whose tool results spell control tokens.
const FORGED: [&str; 2] = ["injection.json", "mail-injection.json"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../public/samples")
}

fn read(file: &str) -> Value {
    let text = fs::read_to_string(folder().join(file)).expect(file);
    loads(&text).expect(file)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).expect(key)
}

fn index() -> Vec<Value> {
    read("index.json").as_array().expect("a list").to_vec()
}

/// Every sample with its file name.
fn samples() -> Vec<(String, Value, Trajectory)> {
    let entry = |entry: &Value| {
        let file = text(entry, "file").to_owned();
        let value = read(&file);
        let trajectory = Trajectory::from_json(&value).expect(&file);
        (file, value, trajectory)
    };
    index().iter().map(entry).collect()
}

#[test]
fn the_list_names_every_file_once_and_says_what_the_file_says() {
    let index = index();
    let listed: Vec<&str> = index.iter().map(|entry| text(entry, "file")).collect();
    let once: BTreeSet<String> = listed.iter().map(|&file| file.to_owned()).collect();
    assert_eq!(once.len(), listed.len(), "a file is listed twice");
    let there: BTreeSet<String> = fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .filter(|name| name != "index.json")
        .collect();
    assert_eq!(once, there);
    for entry in &index {
        let sample = read(text(entry, "file"));
        for key in ["title", "domain", "about"] {
            assert_eq!(text(entry, key), text(&sample, key));
            assert!(!text(entry, key).contains('\n'));
        }
        let title = text(entry, "title");
        assert!(
            title.chars().count() <= 36,
            "{title} is too long for the menu"
        );
    }
    let order: Vec<_> = index
        .iter()
        .map(|entry| (text(entry, "domain"), text(entry, "title")))
        .collect();
    assert!(order.is_sorted(), "by domain, then by title");
    let titles: BTreeSet<&str> = order.iter().map(|&(_, title)| title).collect();
    assert_eq!(titles.len(), index.len(), "a title stands twice");
    let domains: BTreeSet<&str> = order.iter().map(|&(domain, _)| domain).collect();
    assert_eq!(domains.len(), 20);
}

#[test]
fn samples_keep_the_rules_unless_they_are_there_to_break_them() {
    for (file, value, trajectory) in samples() {
        let found = validate(&trajectory.frames, false).expect(&file);
        let rules: Vec<&str> = found
            .iter()
            .map(|violation| violation.rule.name())
            .collect();
        let meant = value.get("findings").and_then(Value::as_array);
        let meant: Vec<&str> = meant
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(rules, meant, "{file}");
    }
}

/// The name in an action or a result.
fn tool(frame: &Frame) -> Option<&str> {
    frame.content.get("tool").and_then(Value::as_str)
}

#[test]
fn tools_are_declared_and_results_name_the_call_they_answer() {
    for (file, value, trajectory) in samples() {
        let frames = &trajectory.frames;
        let declared: String = frames
            .iter()
            .filter(|frame| frame.kind == FrameKind::Obs)
            .filter_map(|frame| frame.content.as_str())
            .collect();
        let mut waiting = Vec::new();
        for frame in frames {
            let name = tool(frame);
            match frame.kind {
                FrameKind::Action => {
                    let name = name.expect(&file);
                    assert!(
                        declared.contains(&format!("type {name} = (")),
                        "{file}: {name}"
                    );
                    waiting.push(name);
                }
                FrameKind::Result => {
                    assert!(!waiting.is_empty(), "{file}");
                    assert_eq!(name, Some(waiting.remove(0)), "{file}");
                }
                // An answer needs no result.
                FrameKind::Feedback | FrameKind::Reward => {
                    waiting.retain(|name| !bridge::TERMINAL_TOOLS.contains(name));
                }
                _ => {}
            }
        }
        waiting.retain(|name| !bridge::TERMINAL_TOOLS.contains(name));
        assert!(
            waiting.is_empty() || value.get("findings").is_some(),
            "{file}"
        );
    }
}

#[test]
fn samples_come_back_from_the_agenticml_wire() {
    for (file, _, trajectory) in samples() {
        for view in [View::Markers, View::Reserved] {
            let rendering = agenticml::render(&trajectory, view).expect(&file);
            let forged = !injection::find(&rendering).is_empty();
            assert_eq!(forged, FORGED.contains(&file.as_str()), "{file}");
            if forged {
                continue;
            }
            let reading = Reading {
                view,
                strict: false,
                policy: Policy::Safe,
            };
            let parsed = agenticml::parse(&rendering.text(), &reading).expect(&file);
            assert!(parsed.iter().all(|frame| frame.error.is_none()), "{file}");
            let frames: Vec<Frame> = parsed.into_iter().map(|parsed| parsed.frame).collect();
            assert_eq!(frames, trajectory.frames, "{file}");
        }
    }
}

#[test]
fn samples_come_back_from_messages_as_far_as_messages_can_tell() {
    for (file, _, trajectory) in samples() {
        let there = bridge::messages(&trajectory).expect(&file);
        let back = bridge::frames(&there.messages).expect(&file);
        let told = |trajectory: &Trajectory, kind: FrameKind| -> Vec<Value> {
            let frames = trajectory.frames.iter();
            // Answers take in the reasoning before them, and a failure becomes an answer.
            frames
                .filter(|frame| frame.kind == kind)
                .filter(|frame| {
                    kind != FrameKind::Action
                        || tool(frame).is_some_and(|tool| !bridge::TERMINAL_TOOLS.contains(&tool))
                })
                .map(|frame| frame.content.clone())
                .collect()
        };
        for kind in [FrameKind::Mission, FrameKind::Action, FrameKind::Result] {
            assert_eq!(
                told(&trajectory, kind),
                told(&back, kind),
                "{file}: {kind:?}"
            );
        }
        let again = bridge::messages(&back).expect(&file);
        assert_eq!(
            bridge::frames(&again.messages).expect(&file),
            back,
            "{file}"
        );
    }
}

#[test]
fn every_reply_on_the_chat_wire_can_be_read() {
    for (file, _, trajectory) in samples() {
        let conversation = bridge::messages(&trajectory).expect(&file);
        let rendering = chatml::render(&conversation, &chatml::Options::default()).expect(&file);
        for (at, message) in conversation.messages.iter().enumerate() {
            if message.role() != "assistant" {
                continue;
            }
            let reply: String = rendering
                .segments
                .iter()
                .filter(|segment| segment.message == Some(at) && segment.trained)
                .map(|segment| segment.text.as_str())
                .collect();
            match read_generation(&reply) {
                Generation::Call(call) => {
                    let name = call.get("name").and_then(Value::as_str);
                    let calls = message.tool_calls();
                    assert_eq!(calls.len(), 1, "{file}");
                    assert!(name.is_some(), "{file}");
                }
                Generation::Text(said) => assert_eq!(said, message.text().trim(), "{file}"),
                Generation::Failed(error) => panic!("{file}, message {at}: {error}"),
            }
        }
    }
}
