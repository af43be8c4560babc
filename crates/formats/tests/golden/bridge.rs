//! Golden cases: frames to messages.

use crate::common::{cases, decode, field, text};
use formats::bridge::messages_from_json;
use formats::json::dumps;

#[test]
fn frames_to_messages() {
    let mut seen = 0;
    for case in cases("bridge.json") {
        if text(&case, "kind") != "f2m" {
            continue;
        }
        seen += 1;
        let name = text(&case, "name");
        let input = decode(field(&case, "input")).expect("decodes");
        let expected = decode(field(&case, "expected")).expect("decodes");
        match messages_from_json(&input) {
            Ok(conversation) => {
                let got = dumps(&conversation.to_json());
                assert_eq!(got, dumps(field(&expected, "ok")), "{name}");
            }
            Err(error) => {
                assert_eq!(error.python_class(), text(&expected, "error"), "{name}");
                assert_eq!(error.to_string(), text(&expected, "message"), "{name}");
            }
        }
    }
    assert_eq!(seen, 132);
}
