//! Golden cases: tool schemas as text.

use crate::common::{cases, failed, field, ok, text};
use formats::json::dumps;
use formats::schema::{has_tool_obs, render_tool_schema, with_tool_obs};
use formats::{Trajectory, Value};

#[test]
fn tools_obs_cases() {
    for case in cases("tools_obs.json") {
        let name = text(&case, "name");
        let input = field(&case, "input");
        let answer = match text(&case, "kind") {
            "schema" => {
                let tools = input.as_array().expect("tools");
                render_tool_schema(tools).map(Value::from)
            }
            "obs" => {
                let trajectory = Trajectory::from_json(field(input, "trajectory")).expect("frames");
                let tools = field(input, "tools").as_array().unwrap_or(&[]);
                with_tool_obs(&trajectory, tools).map(|t| field(&t.to_json(), "frames").clone())
            }
            "has" => Ok(has_tool_obs(&Trajectory::from_json(input).expect("frames")).into()),
            other => panic!("{name}: no runner for kind {other}"),
        };
        let answer = match answer {
            Ok(value) => ok(value),
            Err(error) => failed(error.python_class(), &error.to_string()),
        };
        assert_eq!(dumps(&answer), dumps(field(&case, "expected")), "{name}");
    }
}
