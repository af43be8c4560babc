//! Steps and runs over a scripted model.

use super::Answer;
use super::case::{
    Case, as_expected, count, failed, field, flag, id_list, list, number, object, ok,
};
use super::script::{Exhausted, Script, all_tools, schemas, tools};
use super::text::{frame_list, frame_with_raw};
use crate::{AgentError, Settings, agenticml, chatml, now};
use formats::json::{Object, Value};
use formats::{Conversation, Policy, Trajectory, read_any};
use tokens::StopFacts;

type Outcome = Result<Value, Value>;

/// Steps, runs and single calls.
pub fn step_run(case: &Case<'_>) -> Answer {
    let input = case.input;
    if case.kind == "registry_call" {
        let arguments = field(input, "args").as_object().ok_or("no arguments")?;
        let called = all_tools(case.file)?.call(field(input, "name"), arguments);
        return Ok(match called {
            Ok(value) => ok(value),
            Err(error) => failed("ToolError", &error.to_string()),
        });
    }
    let outputs = match input.get("output") {
        Some(output) => std::slice::from_ref(output),
        None => list(input, "outputs"),
    };
    let mut script = Script::new(case.tokenizer, outputs);
    let is_chatml = case.kind.starts_with("chatml");
    let settings = settings(input, is_chatml)?;
    let outcome = match case.kind {
        "step" => agenticml_step(case, &mut script, &settings),
        "run" | "run_random" | "backend" => agenticml_run(case, &mut script, &settings),
        "chatml_step" => chatml_step(case, &mut script, &settings),
        "chatml_run" => chatml_run(case, &mut script, &settings),
        _ => return case.unknown(),
    }?;
    let pad = settings.stops.pad().map_err(|e| e.to_string())?;
    let told = |stops: &Vec<u32>| Value::Array(vec![id_list(stops), i64::from(pad).into()]);
    let told: Vec<Value> = script.stops.iter().map(told).collect();
    let told = match (is_chatml, told.last()) {
        (true, Some(last)) => last.clone(),
        _ => Value::Array(told),
    };
    let mut answer = match outcome {
        Ok(Value::Object(members)) if case.kind == "backend" => members,
        Ok(value) => Object::from_iter([("ok".to_owned(), value)]),
        Err(Value::Object(failure)) => failure,
        Err(_) => return Err("no failure".to_owned()),
    };
    answer.extend([
        (
            "prompt_lens".to_owned(),
            Value::Array(script.prompts.iter().map(|n| number(*n)).collect()),
        ),
        (
            "output_ids".to_owned(),
            Value::Array(script.said.iter().map(|ids| id_list(ids)).collect()),
        ),
        ("generator_args_eos_and_pad".to_owned(), told),
    ]);
    Ok(as_expected(case.expected, &answer.into()))
}

fn settings(input: &Value, is_chatml: bool) -> Result<Settings, String> {
    let mut settings = Settings {
        policy: Policy::Reference,
        stops: if is_chatml {
            StopFacts::LLAMA31_INSTRUCT
        } else {
            StopFacts::LLAMA31_BASE
        },
        ..Settings::default()
    };
    if input.get("strict").is_some() {
        settings.strict = flag(input, "strict");
    }
    if input.get("max_iterations").is_some() {
        settings.max_iterations = count(input, "max_iterations")?;
    }
    if input.get("max_new_tokens").is_some() {
        settings.max_new_tokens = count(input, "max_new_tokens")?;
    }
    Ok(settings)
}

fn failure(error: &AgentError<Exhausted>) -> Value {
    let class = error.python_class().unwrap_or("RuntimeError");
    failed(class, &error.to_string())
}

fn waits() -> String {
    "the script made the loop wait".to_owned()
}

fn trajectory(case: &Case<'_>) -> Result<Trajectory, Value> {
    Trajectory::from_json(field(case.input, "trajectory"))
        .map_err(|error| failed(error.python_class(), &error.to_string()))
}

fn conversation(case: &Case<'_>) -> Result<Conversation, Value> {
    let either = read_any(field(case.input, "trajectory"))
        .map_err(|error| failed(error.python_class(), &error.to_string()))?;
    let conversation = either.into_conversation();
    conversation.map_err(|error| failed(error.python_class(), &error.to_string()))
}

fn agenticml_step(
    case: &Case<'_>,
    script: &mut Script<'_>,
    settings: &Settings,
) -> Result<Outcome, String> {
    let trajectory = match trajectory(case) {
        Ok(trajectory) => trajectory,
        Err(failure) => return Ok(Err(failure)),
    };
    let step = agenticml::step(case.tokenizer, script, &trajectory, settings);
    Ok(match now(step).ok_or_else(waits)? {
        Ok(step) => {
            let frames = step.frames.iter();
            let frames = frames.map(|f| {
                let error = f.error.as_ref().map(ToString::to_string);
                frame_with_raw(&f.frame, &f.raw, error)
            });
            Ok(object([
                ("stopped_on", step.stop.to_string().into()),
                ("raw_text", step.text.as_str().into()),
                ("new_frames", Value::Array(frames.collect())),
                ("trajectory", frame_list(&step.trajectory)),
            ]))
        }
        Err(error) => Err(failure(&error)),
    })
}

fn agenticml_run(
    case: &Case<'_>,
    script: &mut Script<'_>,
    settings: &Settings,
) -> Result<Outcome, String> {
    let trajectory = match trajectory(case) {
        Ok(trajectory) => trajectory,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut tools = tools(case.file, list(case.input, "tools"))?;
    let run = agenticml::run(case.tokenizer, script, &trajectory, &mut tools, settings);
    Ok(match now(run).ok_or_else(waits)? {
        Ok(run) => {
            let mut members = Object::from_iter([
                ("trajectory".to_owned(), frame_list(&run.trajectory)),
                ("stopped_on".to_owned(), run.stop.to_string().into()),
                ("iterations".to_owned(), number(run.iterations)),
                ("final_answer".to_owned(), run.answer),
            ]);
            if case.kind == "backend" {
                members.extend([
                    ("prompt_tokens".to_owned(), number(run.prompt_tokens)),
                    ("generated_tokens".to_owned(), number(run.generated_tokens)),
                    // The AgenticML arm has none.
                    ("messages".to_owned(), Value::Array(Vec::new())),
                ]);
            }
            Ok(members.into())
        }
        Err(error) => Err(failure(&error)),
    })
}

fn chatml_step(
    case: &Case<'_>,
    script: &mut Script<'_>,
    settings: &Settings,
) -> Result<Outcome, String> {
    let conversation = match conversation(case) {
        Ok(conversation) => conversation,
        Err(failure) => return Ok(Err(failure)),
    };
    let tools = schemas(case.input);
    let step = chatml::step(case.tokenizer, script, &conversation, tools, settings);
    Ok(match now(step).ok_or_else(waits)? {
        Ok(step) => {
            let new = step.message.iter().map(formats::Message::to_json);
            Ok(object([
                ("messages", step.conversation.to_json()),
                ("new_messages", Value::Array(new.collect())),
                ("stopped_on", step.stop.to_string().into()),
                ("raw_text", step.text.as_str().into()),
                ("prompt_tokens", number(step.prompt.len())),
                ("generated_tokens", number(step.ids.len())),
            ]))
        }
        Err(error) => Err(failure(&error)),
    })
}

fn chatml_run(
    case: &Case<'_>,
    script: &mut Script<'_>,
    settings: &Settings,
) -> Result<Outcome, String> {
    let conversation = match conversation(case) {
        Ok(conversation) => conversation,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut tools = tools(case.file, list(case.input, "tools"))?;
    let run = chatml::run(case.tokenizer, script, &conversation, &mut tools, settings);
    Ok(match now(run).ok_or_else(waits)? {
        Ok(run) => Ok(object([
            ("messages", run.conversation.to_json()),
            ("stopped_on", run.stop.to_string().into()),
            ("iterations", number(run.iterations)),
            ("final_answer", run.answer),
            ("prompt_tokens", number(run.prompt_tokens)),
            ("generated_tokens", number(run.generated_tokens)),
        ])),
        Err(error) => Err(failure(&error)),
    })
}
