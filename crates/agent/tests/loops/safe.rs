//! What the loops do under the safe policy where the reference loses data or fails.

use crate::common::tokenizer;
use agent::{
    ActionError, Blocking, Registry, Request, RunStop, Settings, Signature, Tool, ToolFailure,
    agenticml, chatml, now,
};
use formats::bridge::BridgeError;
use formats::json::{Value, loads};
use formats::{Conversation, Frame, FrameKind, Message, Policy, Trajectory};
use std::convert::Infallible;
use tokens::StopFacts;

const ACTION: &str = "<|reserved_special_token_6|>";
const END: &str = "<|reserved_special_token_7|>";
const EOS: &str = "<|end_of_text|>";

fn tools() -> Registry {
    let mut tools = Registry::default();
    let echo = Tool::new("echo", Value::Null, Signature::of(&["text"]), |arguments| {
        Ok(arguments.get("text").cloned().unwrap_or_default())
    });
    let set = Tool::new("set", Value::Null, Signature::default(), |_| {
        Err(ToolFailure::NotJson("set"))
    });
    for tool in [echo, set] {
        tools.register(tool).expect("a new name");
    }
    tools
}

/// A model that says these texts one after the other; `<|...|>` in them are special tokens.
fn script(outputs: &[&str]) -> Blocking<impl FnMut(Request<'_>) -> Result<Vec<u32>, Infallible>> {
    let outputs: Vec<String> = outputs.iter().map(|text| (*text).to_owned()).collect();
    let mut outputs = outputs.into_iter();
    Blocking(move |request: Request<'_>| {
        let text = outputs.next().expect("more to say");
        let mut ids = tokenizer().encode_trusted(&text);
        ids.truncate(request.max_new_tokens);
        Ok(ids)
    })
}

fn start() -> Trajectory {
    // The obs frame keeps the tools of these tests, which have no schemas, from being listed.
    let frames = vec![
        Frame::new(FrameKind::Goal, "g"),
        Frame::new(FrameKind::Obs, "namespace tools {"),
        Frame::new(FrameKind::Mission, "m"),
    ];
    Trajectory { frames }
}

fn run(outputs: &[&str], settings: &Settings) -> agenticml::Run {
    let mut script = script(outputs);
    let (start, mut tools) = (start(), tools());
    let run = agenticml::run(tokenizer(), &mut script, &start, &mut tools, settings);
    now(run).expect("no waiting").expect("no error")
}

fn fault(run: &agenticml::Run) -> &agenticml::Fault {
    assert_eq!(
        run.trajectory,
        start(),
        "a turn that cannot be read changes nothing"
    );
    match &run.stop {
        RunStop::Unusable(agenticml::StepStop::Unreadable { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_of_sequence_is_no_payload() {
    let answer = format!("{ACTION}{{\"tool\": \"answer\", \"text\": \"x\"}}{EOS}");
    let run = run(&[&answer], &Settings::default());
    assert_eq!(run.stop, RunStop::Terminal);
    assert_eq!(run.answer, "x".into());
}

#[test]
fn a_model_goes_on_after_an_end_of_sequence() {
    let call = format!("{ACTION}{{\"tool\": \"echo\", \"text\": 1}}{EOS}");
    let answer = format!("{ACTION}{{\"tool\": \"answer\"}}{END}{EOS}");
    let run = run(&[&call, &answer], &Settings::default());
    assert_eq!((&run.stop, run.iterations), (&RunStop::Terminal, 2));
    assert_eq!(run.answer, Value::Null);
}

#[test]
fn actions_that_are_none_are_typed() {
    let settings = Settings::default();
    for (action, expected) in [
        ("null", ActionError::NotAnObject("NoneType")),
        ("[1]", ActionError::NotAnObject("list")),
        ("0", ActionError::NotAnObject("int")),
        (
            "{\"tool\": [\"answer\"]}",
            ActionError::ToolNotHashable("list"),
        ),
    ] {
        let run = run(&[&format!("{ACTION}{action}{END}")], &settings);
        assert_eq!(fault(&run), &agenticml::Fault::Action(expected), "{action}");
    }
    let run = run(&[&format!("{ACTION}{{bad{END}")], &settings);
    assert!(matches!(fault(&run), agenticml::Fault::Payload(_)));
}

#[test]
fn no_action_of_an_unreadable_turn_is_carried_out() {
    let turn = format!("{ACTION}{{\"tool\": \"answer\", \"text\": \"x\"}}{ACTION}null{END}");
    let run = run(&[&turn], &Settings::default());
    fault(&run);
    assert_eq!(run.answer, Value::Null);
}

#[test]
fn text_that_spells_a_marker_is_text() {
    let tokenizer = tokenizer();
    // `<|end|>` is plain text for the model in any case; a reserved name has to be spelt out.
    let mut ids = tokenizer.encode_trusted("<|reserved_special_token_5|>");
    ids.extend(tokenizer.encode_plain("say <|end|> or <|reserved_special_token_8|>"));
    ids.extend(tokenizer.encode_trusted(END));
    let step = agenticml::read_step(
        tokenizer,
        &start(),
        Vec::new(),
        ids.clone(),
        &Settings::default(),
    );
    assert_eq!(step.stop, agenticml::StepStop::End);
    let said = "say <|end|> or <|reserved_special_token_8|>";
    assert_eq!(step.frames[0].frame.content, said.into());
    let reference = Settings {
        policy: Policy::Reference,
        ..Settings::default()
    };
    let step = agenticml::read_step(tokenizer, &start(), Vec::new(), ids, &reference);
    assert!(matches!(step.stop, agenticml::StepStop::ParseError(_)));
}

#[test]
fn what_was_cut_off_is_left_out() {
    let settings = Settings {
        max_new_tokens: 6,
        ..Settings::default()
    };
    let run = run(&[&format!("{ACTION}{{\"tool\": \"answer\"}}")], &settings);
    assert_eq!(run.stop, RunStop::MaxTokens);
    assert_eq!(run.trajectory, start());
}

#[test]
fn a_value_that_is_not_json_is_told_to_the_model() {
    let call = format!("{ACTION}{{\"tool\": \"set\"}}{END}");
    let answer = format!("{ACTION}{{\"tool\": \"answer\"}}{END}");
    let run = run(&[&call, &answer], &Settings::default());
    assert_eq!(run.stop, RunStop::Terminal);
    let result = &run.trajectory.frames[5].content;
    let said = "tool 'set' returned a set, which is not JSON";
    assert_eq!(result.get("value"), Some(&said.into()));
}

fn chat(outputs: &[&str], max_new_tokens: usize) -> chatml::Run {
    let settings = Settings {
        max_new_tokens,
        stops: StopFacts::LLAMA31_INSTRUCT,
        ..Settings::default()
    };
    let start = Conversation::new(vec![Message::new("user", "m")]);
    let (mut script, mut tools) = (script(outputs), tools());
    let run = chatml::run(tokenizer(), &mut script, &start, &mut tools, &settings);
    now(run).expect("no waiting").expect("no error")
}

#[test]
fn a_reply_that_was_cut_off_is_no_answer() {
    let run = chat(&["a long answer that goes on<|eot_id|>"], 2);
    assert_eq!((run.stop, run.answer), (RunStop::MaxTokens, Value::Null));
    let run = chat(&["a long answer<|eot_id|>"], 4);
    assert_eq!(run.answer, "a long answer".into());
}

#[test]
fn malformed_calls_are_typed() {
    for (reply, expected) in [
        ("<|python_tag|>{\"a\": 1}<|eom_id|>", BridgeError::NoName),
        (
            "{\"name\": \"echo\", \"parameters\": [1]}<|eot_id|>",
            BridgeError::NotASequence(0),
        ),
        (
            "{\"name\": \"echo\", \"parameters\": \"[1]\"}<|eot_id|>",
            BridgeError::NotAMapping("list"),
        ),
        (
            "{\"name\": \"echo\", \"parameters\": \"{bad\"}<|eot_id|>",
            BridgeError::Json(loads("{bad").expect_err("not JSON")),
        ),
    ] {
        let run = chat(&[reply], 512);
        let stop = RunStop::Unusable(chatml::StepStop::BadCall(expected));
        assert_eq!(run.stop, stop, "{reply}");
        // The system message holds the tools.
        assert_eq!(run.conversation.messages.len(), 2, "{reply}");
    }
}

#[test]
fn stops_are_read_from_ids() {
    let run = chat(&["hello<|end_of_text|>"], 512);
    // Although the Instruct tokenizer's own end of sequence is another.
    assert_eq!(run.answer, "hello".into());
    let call = "{\"name\": \"echo\", \"parameters\": {\"text\": \"<|eot_id|>";
    let mut ids = tokenizer().encode_plain(call);
    ids.extend(tokenizer().encode_plain("\"}}"));
    let settings = Settings {
        stops: StopFacts::LLAMA31_INSTRUCT,
        ..Settings::default()
    };
    let step = chatml::read_step(
        tokenizer(),
        Conversation::default(),
        Vec::new(),
        ids,
        &settings,
    );
    let call = step.expect("safe").call.expect("a call");
    assert_eq!(call.arguments.get("text"), Some(&"<|eot_id|>".into()));
}
