//! Chat templates against what the `transformers` library makes of them (`template.json`), and what
//! happens to templates that are wrong or hostile.
#![cfg(feature = "jinja")]

use formats::template::{ChatTemplate, TemplateError, TemplateErrorKind, TemplateInput};
use serde_json::{Map, Value, json};

fn input() -> TemplateInput {
    TemplateInput {
        bos_token: "<s>".to_owned(),
        eos_token: "</s>".to_owned(),
        add_generation_prompt: true,
        date: "26 Jul 2024".to_owned(),
        tools: None,
    }
}

fn render(template: &str) -> Result<String, TemplateError> {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    ChatTemplate::new(template)?.render(&messages, &input())
}

fn kind(template: &str) -> TemplateErrorKind {
    match render(template) {
        Err(error) => error.kind,
        Ok(_) => panic!("renders: {:.80}", template),
    }
}

#[test]
fn templates_render_as_in_transformers() {
    let golden: Value = serde_json::from_str(include_str!("template.json")).expect("golden file");
    let input = TemplateInput {
        tools: Some(golden["tools"].clone()),
        ..input()
    };
    let mut wrong = Vec::new();
    for case in golden["cases"].as_array().expect("cases") {
        let template = case["template"].as_str().expect("template");
        let rendered = ChatTemplate::new(template)
            .and_then(|template| template.render(&case["messages"], &input));
        let agrees = match (&rendered, case["ok"].as_str()) {
            (Ok(text), Some(expected)) => text == expected,
            (Err(_), None) => true,
            _ => false,
        };
        if !agrees {
            wrong.push(format!(
                "{}:\n  expected {:?}\n  got      {rendered:?}",
                case["name"], case["ok"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The template that SmolLM2-135M-Instruct carries writes the fixture's prompts.
#[test]
fn smollm2_prompts() {
    let golden: Value = serde_json::from_str(include_str!("template.json")).expect("golden file");
    let template = golden["cases"][0]["template"].as_str().expect("template");
    let template = ChatTemplate::new(template).expect("syntax");
    let fixture = include_str!("../../../tests/fixtures/smollm2.json");
    let fixture: Value = serde_json::from_str(fixture).expect("fixture");
    let mut chats = 0;
    for case in fixture["cases"].as_array().expect("cases") {
        let prompt = case["prompt"].as_str().expect("prompt");
        let Some((_, user)) = prompt.split_once("<|im_start|>user\n") else {
            continue;
        };
        let (user, _) = user.split_once("<|im_end|>").expect("the user's turn ends");
        let messages = json!([{"role": "user", "content": user}]);
        assert_eq!(template.render(&messages, &input()).as_deref(), Ok(prompt));
        chats += 1;
    }
    assert_eq!(chats, 5);
}

#[test]
fn errors_are_told_with_their_line() {
    let error = render("a\n{% if %}\n").expect_err("syntax");
    assert_eq!(
        (error.kind, error.line),
        (TemplateErrorKind::Syntax, Some(2))
    );
    assert!(
        error
            .to_string()
            .starts_with("line 2 of the chat template: "),
        "{error}"
    );

    let error = render("\n\n{{ raise_exception('Roles must <alternate>') }}").expect_err("refused");
    assert_eq!(
        (error.kind, error.line),
        (TemplateErrorKind::Refused, Some(3))
    );
    assert_eq!(error.message, "Roles must <alternate>");

    let error = render("{{ q.x.y }}").expect_err("undefined");
    assert_eq!(
        (error.kind, error.line),
        (TemplateErrorKind::Render, Some(1))
    );

    assert_eq!(kind("{{ nothing() }}"), TemplateErrorKind::Render);
    assert_eq!(kind("{% include 'secrets' %}"), TemplateErrorKind::Render);
    assert_eq!(kind("{{ strftime_now('%Q') }}"), TemplateErrorKind::Render);
}

#[test]
fn hostile_templates_stop() {
    let loops = "{% for a in range(10000) %}".repeat(4) + &"{% endfor %}".repeat(4);
    assert_eq!(kind(&loops), TemplateErrorKind::Limit);
    let doubling = "{% set n = namespace(s='x') %}{% for i in range(100) %}\
                    {% set n.s = n.s ~ n.s %}{% endfor %}";
    assert_eq!(kind(doubling), TemplateErrorKind::Limit);
    let writing = "{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}";
    assert_eq!(kind(writing), TemplateErrorKind::Limit);
    let nesting = "{% set n = namespace(s=[]) %}{% for i in range(1000) %}\
                   {% set n.s = [n.s] %}{% endfor %}{{ n.s | tojson }}";
    assert_eq!(kind(nesting), TemplateErrorKind::Render);
    let recursion = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert_eq!(kind(recursion), TemplateErrorKind::Render);
    let parentheses = format!("{{{{ {} }}}}", "(".repeat(100_000));
    assert_eq!(kind(&parentheses), TemplateErrorKind::Syntax);
    assert_eq!(kind(&"x".repeat(2 << 20)), TemplateErrorKind::Limit);
}

#[test]
fn input_is_checked() {
    let template = ChatTemplate::new("{{ messages | length }}").expect("syntax");
    for wrong in [json!([]), json!({}), json!("x"), json!([1]), json!(null)] {
        let error = template.render(&wrong, &input()).expect_err("messages");
        assert_eq!(error.kind, TemplateErrorKind::Input, "{wrong}");
    }
    let message = json!([{"role": "user"}]);
    for (date, good) in [
        ("26 Jul 2024", true),
        ("29 February 2024", true),
        ("2024-02-29", true),
        ("29 Feb 2023", false),
        ("2024-13-01", false),
        ("0 Jul 2024", false),
        ("", false),
        ("today", false),
        ("26 Ju\u{308} 2024", false),
    ] {
        let dated = TemplateInput {
            date: date.to_owned(),
            ..input()
        };
        assert_eq!(template.render(&message, &dated).is_ok(), good, "{date}");
    }
}

#[test]
fn variables_reach_the_template() {
    let template = ChatTemplate::new("{{ bos_token }}{{ date_string }}{{ eos_token is defined }}");
    let template = template.expect("syntax");
    let input = TemplateInput {
        eos_token: String::new(),
        ..input()
    };
    let mut variables = Map::new();
    variables.insert("date_string".to_owned(), "1 Jan 2025".into());
    let messages = json!([{"role": "user"}]);
    let text = template.render_with(&messages, &input, &variables);
    assert_eq!(text.as_deref(), Ok("<s>1 Jan 2025False"));
}
