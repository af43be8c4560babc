//! Cases that need no tokenizer: wires, rules, messages.

use super::case::{
    Case, as_text, count, failed, field, flag, list, number, object, ok, text, text_list,
};
use super::{Answer, Failure, Report};
use formats::agenticml::{Reading, View, reserved_to_markers};
use formats::bridge::{BridgeError, frames, messages, messages_from_json, name_and_arguments};
use formats::chatml::{
    Generation, GenerationError, bare_call, inject_tool_schemas, read_generation, strip_tokens,
};
use formats::json::{JsonErrorKind, Object, Value, dumps};
use formats::schema::{has_tool_obs, render_tool_schema, with_tool_obs};
use formats::validity::{
    Outcome, RowError, TaskCost, check_agenticml, check_chatml, efficiency, has_target,
    suite_metrics,
};
use formats::{Conversation, Either, Frame, FrameKind, Policy, Trajectory, agenticml, read_any};

/// The frames of a trajectory as a list.
pub fn frame_list(trajectory: &Trajectory) -> Value {
    field(&trajectory.to_json(), "frames").clone()
}

fn trajectory(value: &Value) -> Result<Trajectory, Value> {
    Trajectory::from_json(value).map_err(|e| failed(e.python_class(), &e.to_string()))
}

/// Frames to wire.
pub fn render(case: &Case<'_>) -> Answer {
    let trajectory = match trajectory(case.input) {
        Ok(trajectory) => trajectory,
        Err(failure) => return Ok(failure),
    };
    let mut answer = Object::new();
    for (key, view) in [("wire", View::Reserved), ("markers", View::Markers)] {
        match agenticml::render(&trajectory, view) {
            Ok(rendering) => answer.insert(key.to_owned(), rendering.text().into()),
            Err(error) => return Ok(failed(error.python_class(), &error.to_string())),
        };
    }
    Ok(answer.into())
}

/// Wire to frames.
pub fn parse(case: &Case<'_>) -> Answer {
    if case.kind == "reserved_to_markers" {
        let text = reserved_to_markers(as_text(case.input)?);
        return Ok(object([("text", text.into())]));
    }
    let wire = text(case.input, "wire")?;
    let view = match text(case.input, "api")? {
        "markers" => View::Markers,
        _ => View::Reserved,
    };
    let read = |strict| {
        let policy = Policy::Reference;
        let reading = Reading {
            view,
            strict,
            policy,
        };
        match agenticml::parse(wire, &reading) {
            Ok(frames) => {
                let frames = frames
                    .into_iter()
                    .map(|f| frame_with_raw(&f.frame, &f.raw, f.error.map(|e| e.to_string())));
                ok(Value::Array(frames.collect()))
            }
            Err(error) => failed(error.python_class(), &error.to_string()),
        }
    };
    let lenient = read(false);
    let strict = same(&read(true), &lenient, "same as lenient");
    Ok(object([("lenient", lenient), ("strict", strict)]))
}

/// A frame as the reference prints one that it parsed.
pub fn frame_with_raw(frame: &Frame, raw: &str, error: Option<String>) -> Value {
    let mut members = Object::from_iter([
        ("type".to_owned(), frame.kind.name().into()),
        ("content".to_owned(), frame.content.clone()),
        ("raw".to_owned(), raw.into()),
    ]);
    members.extend(error.map(|error| ("error".to_owned(), error.into())));
    members.into()
}

fn same(value: &Value, other: &Value, word: &str) -> Value {
    if dumps(value) == dumps(other) {
        word.into()
    } else {
        value.clone()
    }
}

/// Frames against the rules.
pub fn validate(case: &Case<'_>) -> Answer {
    let trajectory = match trajectory(case.input) {
        Ok(trajectory) => trajectory,
        Err(failure) => return Ok(failure),
    };
    let check = |allow| match formats::validate::validate(&trajectory.frames, allow) {
        Ok(found) => {
            let found = found.into_iter().map(|v| {
                Value::Array(vec![
                    v.rule.name().into(),
                    number(v.frame),
                    v.message.into(),
                ])
            });
            Value::Array(found.collect())
        }
        Err(error) => failed(error.python_class(), &error.to_string()),
    };
    let strict = check(false);
    let allow = same(&check(true), &strict, "same as strict");
    Ok(object([("strict", strict), ("allow", allow)]))
}

/// All short sequences of frames against the rules. Each counts as a case.
pub fn sequences(file: &Value, report: &mut Report) -> Result<(), &'static str> {
    let letters = field(file, "letters");
    for part in ["prefix_goal_mission", "raw_no_prefix"] {
        let part_value = field(file, part);
        let violations = list(part_value, "violations");
        let prefix: Option<Vec<Frame>> = list(part_value, "prefix").iter().map(frame).collect();
        let prefix = prefix.ok_or("a prefix that is none")?;
        let sequences = field(part_value, "sequences").as_object();
        for (sequence, expected) in sequences.ok_or("no sequences")? {
            report.total += 1;
            let mut frames = prefix.clone();
            for letter in sequence.chars() {
                let word = field(letters, &letter.to_string());
                frames.push(frame(word).ok_or("an unknown letter")?);
            }
            let expected = expected.as_array().unwrap_or(&[]);
            let wanted = |at: usize| {
                let ids = expected.get(at).or(expected.last());
                let ids = ids.and_then(Value::as_array).unwrap_or(&[]);
                let texts = ids.iter().map(|id| match id {
                    Value::Int(id) => {
                        let id = id.as_i64().and_then(|id| usize::try_from(id).ok());
                        id.and_then(|id| violations.get(id)).cloned()
                    }
                    _ => None,
                });
                Value::Array(texts.map(Option::unwrap_or_default).collect())
            };
            let got = |allow| match formats::validate::validate(&frames, allow) {
                Ok(found) => text_list(
                    found
                        .into_iter()
                        .map(|v| format!("{}|{}|{}", v.rule.name(), v.frame, v.message)),
                ),
                Err(error) => failed(error.python_class(), &error.to_string()),
            };
            let expected = dumps(&Value::Array(vec![wanted(0), wanted(1)]));
            let got = dumps(&Value::Array(vec![got(false), got(true)]));
            if expected != got {
                report.failures.push(Failure {
                    name: format!("{part} {sequence}"),
                    expected,
                    got,
                });
            }
        }
    }
    Ok(())
}

/// A frame from `action tool=f` and the like.
fn frame(word: &Value) -> Option<Frame> {
    let word = word.as_str()?;
    let (kind, tool) = word.split_once(" tool=").unwrap_or((word, ""));
    let kind = FrameKind::from_name(kind)?;
    Some(match kind {
        FrameKind::Action => Frame::new(kind, object([("tool", tool.into())])),
        _ => Frame::new(kind, "x"),
    })
}

fn bridged(result: Result<Value, BridgeError>) -> Value {
    match result {
        Ok(value) => ok(value),
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

fn conversation(value: &Value) -> Result<Conversation, String> {
    Conversation::from_json(value).map_err(|e| e.to_string())
}

/// Frames to messages and back, replies, schemas.
pub fn bridge(case: &Case<'_>) -> Answer {
    let input = case.input;
    Ok(match case.kind {
        "f2m" => bridged(messages_from_json(input).map(|c| c.to_json())),
        "m2f" => bridged(frames(&conversation(input)?.messages).map(|t| frame_list(&t))),
        "roundtrip" => bridged(
            messages_from_json(input)
                .and_then(|c| frames(&c.messages))
                .map(|t| frame_list(&t)),
        ),
        "w2m" | "w2f" => from_wire(case)?,
        "gen" => ok(generation(as_text(input)?)),
        "fc" => ok(bare_call(as_text(input)?).map_or(Value::Null, Value::Object)),
        "strip" => ok(strip_tokens(as_text(input)?)),
        "inject" => {
            let messages = conversation(field(input, "messages"))?;
            ok(inject_tool_schemas(&messages, list(input, "tools")).to_json())
        }
        "tna" => {
            let call = input.as_object().ok_or("no call")?;
            bridged(name_and_arguments(call).map(|(n, a)| Value::Array(vec![n.into(), a])))
        }
        "coerce" => coerce(text(input, "fn")?, field(input, "data")),
        _ => return case.unknown(),
    })
}

fn from_wire(case: &Case<'_>) -> Answer {
    let reading = Reading {
        view: View::Reserved,
        strict: flag(case.input, "strict"),
        policy: Policy::Reference,
    };
    let parsed = match agenticml::parse(text(case.input, "wire")?, &reading) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(failed(error.python_class(), &error.to_string())),
    };
    let frames = parsed.into_iter().map(|p| p.frame).collect();
    let trajectory = Trajectory { frames };
    Ok(match case.kind {
        "w2m" => bridged(messages(&trajectory).map(|c| c.to_json())),
        _ => ok(frame_list(&trajectory)),
    })
}

fn generation(text: &str) -> Value {
    let read = read_generation(text);
    let reason = read.stop_reason();
    let (call, said) = match read {
        Generation::Call(call) => (Value::Object(call), String::new()),
        Generation::Text(said) => (Value::Null, said),
        Generation::Failed(_) => (Value::Null, String::new()),
    };
    object([
        ("tool_call", call),
        ("text", said.into()),
        ("stop_reason", reason.into()),
    ])
}

fn coerce(function: &str, data: &Value) -> Value {
    let convert: fn(Either) -> Result<Value, BridgeError> = match function {
        "coerce_frames" => |either| either.into_trajectory().map(|t| frame_list(&t)),
        "coerce_messages" => |either| either.into_conversation().map(|c| c.to_json()),
        _ => {
            let (messages, frames) = formats::looks_like(data);
            return ok(Value::Array(vec![messages.into(), frames.into()]));
        }
    };
    match read_any(data) {
        Ok(either) => bridged(convert(either)),
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

/// Tools as text in an obs frame.
pub fn tools_obs(case: &Case<'_>) -> Answer {
    let input = case.input;
    let read = |value| Trajectory::from_json(value).map_err(|e| e.to_string());
    let answer = match case.kind {
        "schema" => render_tool_schema(input.as_array().unwrap_or(&[])).map(Value::from),
        "obs" => with_tool_obs(&read(field(input, "trajectory"))?, list(input, "tools"))
            .map(|t| frame_list(&t)),
        "has" => Ok(has_tool_obs(&read(input)?).into()),
        _ => return case.unknown(),
    };
    Ok(match answer {
        Ok(value) => ok(value),
        Err(error) => failed(error.python_class(), &error.to_string()),
    })
}

fn rows(result: Result<Value, RowError>) -> Value {
    match result {
        Ok(value) => ok(value),
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

fn outcome(outcome: Outcome) -> Value {
    Value::Array(vec![
        outcome.parsed.into(),
        outcome.valid.into(),
        outcome.parse_error.map_or(Value::Null, Value::from),
        text_list(outcome.errors),
    ])
}

/// Completions and figures over them.
pub fn format_validity(case: &Case<'_>) -> Answer {
    let input = case.input;
    Ok(match case.kind {
        "agenticml" => {
            let generated = text(input, "generated_text")?;
            rows(check_agenticml(field(input, "row"), generated, Policy::Reference).map(outcome))
        }
        "chatml" => {
            let generated = text(input, "generated_text")?;
            // Python gives up the whole check where JSON is nested too deep; here it is one more error.
            let deep = Generation::Failed(GenerationError::Json(JsonErrorKind::TooDeep));
            if read_generation(generated) == deep {
                failed("RecursionError", &JsonErrorKind::TooDeep.to_string())
            } else {
                ok(outcome(check_chatml(generated)))
            }
        }
        "evaluable" => {
            let chatml = text(input, "format")? == "chatml";
            rows(has_target(field(input, "row"), chatml).map(Value::from))
        }
        "prompt_ids" => super::tokenized::prompt_ids(case)?,
        "suite_metrics" => {
            let tasks = input.as_array().unwrap_or(&[]).iter();
            let tasks = tasks.map(kept).collect::<Result<Vec<_>, _>>()?;
            ok(suite_metrics(&tasks).to_json())
        }
        "aggregate" => {
            let tasks: Vec<TaskCost> = input.as_array().unwrap_or(&[]).iter().map(cost).collect();
            let mut figures = match efficiency(&tasks) {
                Some(figures) => figures.to_json(),
                None => object([("n", 0.into())]),
            };
            // The reference's caller adds figures of its own, which are merely passed through.
            if let (Value::Object(figures), Some(extra)) =
                (&mut figures, field(case.expected, "ok").get("extra"))
            {
                figures.insert("extra".to_owned(), extra.clone());
            }
            ok(figures)
        }
        _ => return case.unknown(),
    })
}

/// A check as the suite keeps it.
fn kept(task: &Value) -> Result<(String, Outcome), String> {
    let metrics = field(task, "metrics");
    let errors = super::case::texts(list(task, "validation_errors"));
    let outcome = Outcome {
        parsed: flag(metrics, "parsed_ok"),
        valid: flag(metrics, "structurally_valid"),
        parse_error: field(task, "parse_error").as_str().map(str::to_owned),
        errors,
    };
    Ok((text(task, "domain")?.to_owned(), outcome))
}

fn cost(task: &Value) -> TaskCost {
    let tokens = |key| count(task, key).unwrap_or(0) as u64;
    let seconds = |key| match field(task, key) {
        Value::Int(n) => n.to_f64(),
        Value::Float(n) => *n,
        _ => 0.0,
    };
    TaskCost {
        success: match field(task, "success") {
            Value::Bool(success) => Some(*success),
            _ => None,
        },
        prompt_tokens: tokens("prompt_tokens"),
        generated_tokens: tokens("generated_tokens"),
        total_tokens: tokens("total_tokens"),
        inference_sec: seconds("inference_sec"),
        total_sec: seconds("total_sec"),
    }
}
