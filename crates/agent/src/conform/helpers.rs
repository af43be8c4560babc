//! Stop ids, the table of frame kinds, and the suites' small parts.

use super::Answer;
use super::case::{
    Case, as_expected, as_text, count, failed, field, id_list, integer, list, object, ok, text,
    text_list, texts,
};
use crate::suite::{dataset, function_calling, sample_entries, shell};
use formats::bridge::{BridgeError, TERMINAL_TOOLS};
use formats::json::Value;
use formats::{Frame, FrameKind, Owner, Trajectory, python};
use tokens::{StopError, StopFacts, marker_id};

/// Everything that is a function of its own.
pub fn helpers(case: &Case<'_>) -> Answer {
    let input = case.input;
    Ok(match case.kind {
        "stops_pad" => as_expected(case.expected, &stops(input)),
        "constants" => constants(case),
        "bfcl_result" => bfcl_result(input)?,
        "bfcl_decode" => match function_calling::decode(as_text(input)?) {
            Ok(calls) => ok(Value::Array(calls)),
            Err(error) => bridge_failure(&error),
        },
        "bfcl_schema" => {
            let functions = input.as_array().unwrap_or(&[]);
            ok(Value::Array(function_calling::tool_schemas(functions)))
        }
        "bfcl_misc" => match input.get("call_string") {
            Some(call) => function_calling::called_function(as_text(call)?).into(),
            None => {
                let printed = field(input, "execution_result").as_str().unwrap_or("");
                function_calling::execution_result(text(input, "tool")?, printed)
            }
        },
        "sample_entries" => {
            let number = integer(field(input, "num_examples"));
            let seed = integer(field(input, "seed")).unwrap_or(0);
            match sample_entries(&texts(list(input, "ids")), number, seed) {
                Ok(sample) => ok(text_list(sample)),
                Err(error) => failed("ValueError", &error.to_string()),
            }
        }
        "dataset_norm" => dataset::normalised(as_text(input)?).into(),
        "dataset_valid" => dataset_valid(case),
        "dataset_dedupe" => dataset_dedupe(input)?,
        "dataset_split" => dataset_split(input)?,
        "swe_output" => swe_output(case)?,
        "swe_repeat" => {
            let mut repeats = shell::Repeats::new(count(input, "limit")?);
            let commands = texts(list(input, "commands"));
            let repeated = commands.iter().map(|c| repeats.repeated(c).into());
            Value::Array(repeated.collect())
        }
        _ => return case.unknown(),
    })
}

fn stops(input: &Value) -> Value {
    // Ids that are not integers do not count.
    let id = |value: &Value| integer(value).and_then(|id| u32::try_from(id).ok());
    let facts = match field(input, "tokenizer").as_str() {
        Some(name) if name.contains("instruct") => StopFacts::LLAMA31_INSTRUCT,
        Some(_) => StopFacts::LLAMA31_BASE,
        None => StopFacts {
            eos: id(field(input, "eos_token_id")),
            pad: id(field(input, "pad_token_id")),
            unk: id(field(input, "unk_token_id")),
            eot: id(field(field(input, "vocab"), "<|eot_id|>")),
            eom: id(field(field(input, "vocab"), "<|eom_id|>")),
        },
    };
    let number = |id: u32| Value::from(i64::from(id));
    let failure = |error: StopError| failed("ValueError", &error.to_string());
    let stops = facts.agenticml_stops();
    let both = vec![number(facts.agenticml_pad()), id_list(&stops)];
    let eot = facts.eot.map_or_else(
        || failed("ValueError", "token not in vocab: '<|eot_id|>'"),
        |id| ok(number(id)),
    );
    object([
        (
            "pad_token_id",
            facts.pad().map_or_else(failure, |id| ok(number(id))),
        ),
        ("agenticml_stops", ok(id_list(&stops))),
        ("agenticml_pad_and_stops", ok(Value::Array(both))),
        (
            "chatml_stops",
            facts
                .chatml_stops()
                .map_or_else(failure, |stops| ok(id_list(&stops))),
        ),
        ("require_eot", eot),
    ])
}

fn constants(case: &Case<'_>) -> Value {
    let frames = FrameKind::ALL.map(|kind| {
        let special = case.tokenizer.special_id(kind.reserved());
        object([
            ("type", kind.name().into()),
            ("marker", kind.alias().into()),
            ("slot", i64::from(kind.slot()).into()),
            ("reserved", kind.reserved().into()),
            (
                "token_id",
                special.map_or(Value::Null, |id| i64::from(id).into()),
            ),
            ("owner", kind.owner().name().into()),
            ("opens_model_turn", kind.opens_model_turn().into()),
        ])
    });
    let markers = |owner| {
        let kinds = FrameKind::ALL.into_iter().filter(|k| k.owner() == owner);
        id_list(&kinds.map(marker_id).collect::<Vec<_>>())
    };
    object([
        ("frames", frames.to_vec().into()),
        (
            "terminal_tools",
            text_list(TERMINAL_TOOLS.map(str::to_owned)),
        ),
        ("end_id", i64::from(marker_id(FrameKind::End)).into()),
        ("model_marker_ids", markers(Owner::Model)),
        ("runtime_marker_ids", markers(Owner::Runtime)),
    ])
}

fn bridge_failure(error: &BridgeError) -> Value {
    failed(error.python_class(), &error.to_string())
}

fn bfcl_result(input: &Value) -> Answer {
    if let Some(raw) = input.get("raw") {
        let text = function_calling::encode_text(text(input, "id")?, as_text(raw)?);
        return Ok(ok(text));
    }
    if let Some(call) = input.get("call") {
        let call = call.as_object().ok_or("no call")?;
        return Ok(match function_calling::encode_call(call) {
            Ok(text) => ok(text),
            Err(error) => bridge_failure(&error),
        });
    }
    Ok(ok(function_calling::encode_actions(list(input, "actions"))))
}

fn dataset_valid(case: &Case<'_>) -> Value {
    match dataset::check(case.input) {
        Ok(fault) => {
            let verdict = vec![fault.is_none().into(), fault.unwrap_or_default().into()];
            // Rows of odd frames were recorded in the form of calls that may fail.
            if case.expected.as_array().is_some() {
                Value::Array(verdict)
            } else {
                ok(Value::Array(verdict))
            }
        }
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

fn dataset_dedupe(input: &Value) -> Answer {
    let rows = input.as_array().ok_or("no rows")?;
    let frames: Vec<Vec<Frame>> = rows
        .iter()
        .map(|row| Ok(Trajectory::from_json(field(row, "frames"))?.frames))
        .collect::<Result<_, formats::FrameError>>()
        .map_err(|error| error.to_string())?;
    let frames: Vec<&[Frame]> = frames.iter().map(Vec::as_slice).collect();
    let kept = dataset::distinct(&frames);
    let dropped = (rows.len() - kept.len()) as i64;
    let kept = kept.into_iter().map(|row| field(&rows[row], "id").clone());
    Ok(object([
        ("kept", Value::Array(kept.collect())),
        ("dropped", dropped.into()),
    ]))
}

fn dataset_split(input: &Value) -> Answer {
    let mut domains = Vec::new();
    let mut names = Vec::new();
    for domain in ["a", "b"] {
        for row in 0..count(input, domain)? {
            domains.push(domain);
            names.push(Value::from(format!("{domain}{row}")));
        }
    }
    let share = match field(input, "eval_frac") {
        Value::Float(share) => *share,
        Value::Int(share) => share.to_f64(),
        _ => return Err("no share".to_owned()),
    };
    let seed = integer(field(input, "seed")).ok_or("no seed")?;
    let (train, eval) = dataset::split(&domains, share, seed);
    let rows =
        |rows: Vec<usize>| Value::Array(rows.into_iter().map(|r| names[r].clone()).collect());
    Ok(object([("train", rows(train)), ("eval", rows(eval))]))
}

fn swe_output(case: &Case<'_>) -> Answer {
    let input = case.input;
    let output = match input.get("output_repeat") {
        Some(recipe) => repeat(as_text(recipe)?).ok_or("a recipe that is none")?,
        None => field(input, "output").as_str().unwrap_or("").to_owned(),
    };
    let code = input.get("returncode").map_or("-1".to_owned(), python::str);
    let shown = shell::show(&output, &code);
    let Value::Object(expected) = case.expected else {
        return Ok(shown.into());
    };
    // Of long outputs the length, both ends and what was left out are recorded.
    let chars: Vec<char> = shown.chars().collect();
    let length = |key| {
        expected
            .get(key)
            .and_then(Value::as_str)
            .map_or(0, |t| t.chars().count())
    };
    let head = chars.iter().take(length("head")).collect::<String>();
    let tail = &chars[chars.len().saturating_sub(length("tail"))..];
    let tail = tail.iter().collect::<String>();
    let elided = shown.find("<elided_chars>").map(|at| {
        let rest = &shown[at..];
        rest.find('\n').map_or(rest, |end| &rest[..=end])
    });
    let answer = object([
        ("len_chars", (chars.len() as i64).into()),
        ("head", head.into()),
        ("tail", tail.into()),
        ("contains_elided", elided.map_or(false.into(), Value::from)),
    ]);
    Ok(as_expected(case.expected, &answer))
}

/// The text that `... = 'a'*5000+'b'*5000` describes.
fn repeat(recipe: &str) -> Option<String> {
    let (_, terms) = recipe.split_once(" = ")?;
    let mut text = String::new();
    for term in terms.split('+') {
        let (unit, times) = term.trim().rsplit_once('*').unwrap_or((term.trim(), "1"));
        let unit = unit.trim().strip_prefix('\'')?.strip_suffix('\'')?;
        text.push_str(&unit.replace("\\n", "\n").repeat(times.trim().parse().ok()?));
    }
    Some(text)
}
