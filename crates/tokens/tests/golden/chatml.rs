//! The golden cases of the Llama 3.1 Instruct layout: text, ids and labels.

use crate::common::{cases, field, ids, numbers, tokenizer, with_label};
use formats::chatml::{Bos, Options, render};
use formats::{Conversation, Value};
use tokens::{Arm, Policy, labels, view};

fn options(input: &Value) -> Options {
    let mut options = Options::default();
    for (key, value) in input.as_object().expect("an object") {
        match (key.as_str(), value) {
            ("messages", _) => {}
            ("date_string", Value::String(date)) => options.date_string = date.clone(),
            ("add_generation_prompt", Value::Bool(on)) => options.add_generation_prompt = *on,
            ("tools" | "custom_tools", Value::Array(tools)) => options.tools = Some(tools.clone()),
            ("tools_in_user_message", Value::Bool(on)) => options.tools_in_user_message = *on,
            ("builtin_tools", Value::Array(names)) => {
                let names = names.iter().map(|n| n.as_str().expect("a name").to_owned());
                options.builtin_tools = Some(names.collect());
            }
            other => panic!("unknown option {other:?}"),
        }
    }
    options
}

#[test]
fn chatml_ids_and_labels() {
    let mut seen = 0;
    for case in cases("chatml_render.json") {
        let name = field(&case, "name").as_str().expect("name");
        let input = field(&case, "input");
        let expected = field(&case, "expected");
        if field(&case, "kind").as_str() == Some("mask_only") {
            let ids = ids(input);
            let trained = labels(Arm::ChatMl, ids.iter().copied());
            let got = with_label(&ids, &trained);
            assert_eq!(got, numbers(field(expected, "labels")), "{name}");
            seen += 1;
            continue;
        }
        if field(expected, "ids") == &Value::Null {
            continue;
        }
        let conversation = Conversation::from_json(field(input, "messages")).expect("messages");
        let double = options(input);
        let rendering = render(&conversation, &double).expect("renders");
        let reference = view(tokenizer(), &rendering, Arm::ChatMl, Policy::Reference);
        assert_eq!(reference.ids(), ids(field(expected, "ids")), "{name}");
        assert_eq!(
            reference.labels(),
            numbers(field(expected, "labels")),
            "{name}"
        );
        let single = Options {
            bos: Bos::Single,
            ..double
        };
        let rendering = render(&conversation, &single).expect("renders");
        let one = view(tokenizer(), &rendering, Arm::ChatMl, Policy::Reference);
        assert_eq!(
            Some(one.wire.as_str()),
            field(expected, "ok").as_str(),
            "{name}"
        );
        assert_eq!(one.ids(), reference.ids()[1..], "{name}");
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}
