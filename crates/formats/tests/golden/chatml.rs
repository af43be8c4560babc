//! Golden cases: messages to the Llama 3.1 Instruct layout, its text.

use crate::common::{cases, field, options, text};
use formats::chatml::{Bos, Options, render};
use formats::{Conversation, Value};

#[test]
fn chatml_render() {
    let mut seen = 0;
    for case in cases("chatml_render.json") {
        if text(&case, "kind") == "mask_only" {
            continue;
        }
        seen += 1;
        let name = text(&case, "name");
        let input = field(&case, "input");
        let expected = field(&case, "expected");
        let conversation = Conversation::from_json(field(input, "messages")).expect("messages");
        let options = Options {
            bos: Bos::Single,
            ..options(input)
        };
        match render(&conversation, &options) {
            Ok(rendering) => assert_eq!(rendering.text(), text(expected, "ok"), "{name}"),
            Err(error) => {
                assert_eq!(error.kind.python_class(), text(expected, "error"), "{name}");
                assert_eq!(error.kind.to_string(), text(expected, "message"), "{name}");
            }
        }
        assert_ne!(field(expected, "ok"), &Value::from(""), "{name}");
    }
    assert!(seen > 150, "{seen}");
}
