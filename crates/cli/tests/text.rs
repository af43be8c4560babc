//! The subcommands that need no model, as a user runs them.

use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program, run in the repository's root, where it finds the tokenizer.
fn playground(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_playground"));
    command.current_dir(root()).args(arguments);
    command
}

/// What it prints, as JSON.
fn json(command: &mut Command) -> Value {
    let output = command.output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// What it says when it fails.
fn complaint(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn conform_runs_golden_files_and_heeds_the_allow_file() {
    let render = "tests/golden/render.json";
    let allowed = ["conform", render, "--allow", "tests/golden/allow.txt"];
    let output = playground(&allowed).output().expect("the program starts");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{printed}");
    assert!(printed.starts_with("render: 362/364"), "{printed}");
    let output = playground(&["conform", render]).output();
    let output = output.expect("the program starts");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        printed.contains("\n  goal lone surrogate\n    expected {"),
        "{printed}"
    );
}

#[test]
fn bad_json_is_told_with_line_and_column() {
    let input = "[{\"type\": \"goal\", \"content\": \"x\"},\n {\"type\" \"mission\"}]";
    for command in ["render", "tokens", "validate", "bridge", "schema"] {
        let said = complaint(playground(&[command]).write_stdin(input));
        assert!(said.contains("line 2, column 10"), "{command}: {said}");
    }
}

#[test]
fn a_sample_goes_through_every_subcommand() {
    let sample = "public/samples/lines-in-main-py.json";
    let rendered = json(&mut playground(&["render", sample]));
    let wire = rendered["wire"].as_str().expect("a wire");
    assert!(wire.starts_with("<|reserved_special_token_0|>"), "{wire}");

    let tokens = json(&mut playground(&["tokens", sample]));
    assert_eq!(tokens["ids"][0], 128_002);
    assert_eq!(tokens["labels"][0], -100);
    let first = &tokens["tokens"][0];
    assert_eq!(first["owner"], "runtime");
    assert_eq!(first["special"], "<|reserved_special_token_0|>");
    let count = tokens["ids"].as_array().expect("ids").len();
    assert_eq!(tokens["counts"]["tokens"], count);

    let chat = json(&mut playground(&[
        "tokens",
        sample,
        "--arm",
        "chatml",
        "--single-bos",
    ]));
    assert_eq!(chat["ids"][0], 128_000);
    assert_ne!(chat["ids"][1], 128_000);

    let checked = json(&mut playground(&["validate", sample]));
    assert_eq!(checked["valid"], true);

    let bridged = json(&mut playground(&["bridge", sample]));
    let messages = bridged["messages"].to_string();
    let back = json(playground(&["bridge", "-"]).write_stdin(messages));
    assert_eq!(back["frames"][0]["type"], "goal");

    let parsed = json(playground(&["parse"]).write_stdin(wire));
    let frames = parsed["frames"].as_array().expect("frames");
    assert_eq!(frames.len(), 9);
    assert!(frames.iter().all(|frame| frame["error"].is_null()));
}

#[test]
fn schemas_are_written_as_the_reference_does() {
    let tools = r#"[{"name": "f", "parameters": {"properties": {"a": {"type": "number"}}}}]"#;
    let written = json(playground(&["schema"]).write_stdin(tools));
    let text = "tools:\nnamespace tools {\n type f = (_: {)\n   a?: number,\n  }) => any;\n}";
    assert_eq!(written["text"], text);
}

#[test]
fn a_wrong_tokenizer_is_told() {
    let sample = "public/samples/lines-in-main-py.json";
    let said = complaint(&mut playground(&["tokens", sample, "--tokenizer", sample]));
    assert!(said.contains("is not Llama 3.1's tokenizer"), "{said}");
}
