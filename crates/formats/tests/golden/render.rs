//! Golden cases: frames to the AgenticML wire.

use crate::common::{cases, decode, field, text};
use formats::Trajectory;
use formats::agenticml::{View, render};

#[test]
fn render_cases() {
    let mut refused = Vec::new();
    for case in cases("render.json") {
        let name = text(&case, "name");
        let (Some(input), Some(expected)) = (
            decode(field(&case, "input")),
            decode(field(&case, "expected")),
        ) else {
            refused.push(name.to_owned());
            continue;
        };
        let rendered = Trajectory::from_json(&input)
            .map_err(|e| (e.to_string(), e.python_class()))
            .and_then(|trajectory| {
                let wire = render(&trajectory, View::Reserved);
                let wire = wire.map_err(|e| (e.to_string(), e.python_class()))?;
                let markers = render(&trajectory, View::Markers);
                let markers = markers.map_err(|e| (e.to_string(), e.python_class()))?;
                Ok((wire.text(), markers.text()))
            });
        match rendered {
            Ok((wire, markers)) => {
                assert_eq!(wire, text(&expected, "wire"), "{name}");
                assert_eq!(markers, text(&expected, "markers"), "{name}");
            }
            Err((_, class)) => assert_eq!(class, text(&expected, "error"), "{name}"),
        }
    }
    // Half a surrogate pair cannot be held in Unicode text.
    assert_eq!(refused, ["action lone surrogate", "goal lone surrogate"]);
}
