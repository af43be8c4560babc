//! What is wrong with the trajectory: at its frame with the rule explained, and as a list at the foot.

use super::desk::{self, Menu, desk, reveal_card};
use crate::icons;
use crate::pointing::focus_card;
use crate::state::page;
use crate::{dom, words};
use formats::Fault;
use leptos::ev::MouseEvent;
use leptos::prelude::*;

/// The sentence of a fault, and the name of its rule.
pub fn says(fault: &Fault) -> (String, &'static str) {
    match fault {
        Fault::Rule { rule, message } => (message.clone(), rule.name()),
        Fault::NoRule(message) => (format!("the rules cannot be applied: {message}"), "no rule"),
        Fault::AgenticMl(message) => (format!("side A cannot be written: {message}"), "wire A"),
        Fault::ChatMl(message) => (format!("side B cannot be written: {message}"), "wire B"),
        Fault::ZeroVanishes => (
            "a reward of 0 leaves no number on the wire".to_owned(),
            "zero",
        ),
    }
}

/// What to know about a fault: pairs of a word and a sentence.
fn explained(fault: &Fault) -> Vec<(&'static str, &'static str)> {
    match fault {
        Fault::Rule { rule, .. } => {
            let words = rule.explain();
            vec![
                ("Rule", words.demands),
                ("Why", words.why),
                ("Mend", words.mend),
            ]
        }
        Fault::NoRule(_) => vec![
            (
                "Why",
                "The rules ask an action for its tool. This one is no object, or its tool is a list or an object.",
            ),
            (
                "Mend",
                "Write an object whose tool is text, as {\"tool\": \"answer\", \"text\": \"done\"}.",
            ),
        ],
        Fault::AgenticMl(_) => vec![
            (
                "Why",
                "Behind an action or result marker stands JSON. This frame has none, and the reference fails here as well.",
            ),
            ("Mend", "Give the frame content, or delete it."),
        ],
        Fault::ChatMl(_) => vec![
            (
                "Why",
                "The bridge makes one message of this frame, and the message cannot be made or the template refuses it. The other side may still be fine.",
            ),
            (
                "Mend",
                "Change the content of this frame: the sentence above says what is expected.",
            ),
        ],
        Fault::ZeroVanishes => vec![
            (
                "Why",
                "What counts as false in Python is written as nothing, so the wire holds the marker alone and reads back as an empty reward.",
            ),
            (
                "Mend",
                "Nothing has to be done. Write a number other than 0 if it is to be seen.",
            ),
        ],
    }
}

/// The faults of one frame.
#[component]
pub fn AtFrame(at: usize) -> impl IntoView {
    let page = page();
    let faults = Memo::new(move |_| {
        let faults = page.faults.read();
        let here = faults.iter().filter(|(frame, _)| *frame == Some(at));
        here.map(|(_, fault)| fault.clone()).collect::<Vec<_>>()
    });
    let forged = Memo::new(move |_| page.document.read().is_forged(at));
    let one = |fault: Fault| {
        let (sentence, name) = says(&fault);
        let mild = fault == Fault::ZeroVanishes;
        let rows = explained(&fault)
            .into_iter()
            .map(|(word, text)| view! { <dt>{word}</dt><dd>{text}</dd> })
            .collect_view();
        view! {
            <details class="finding" class:mild=mild data-rule=name>
                <summary>{icons::alert()}<span><bdi>{sentence}</bdi>" "<code>{name}</code></span></summary>
                <dl>{rows}</dl>
            </details>
        }
    };
    view! {
        {move || faults.get().into_iter().map(one).collect_view()}
        <Show when=move || forged.get()>
            <p class="finding">"Spells a special token. Encoded as plain text, so it cannot act as one."</p>
        </Show>
    }
}

/// The foot of the editor: one line, and the list behind it; and the way out.
#[component]
pub fn Foot() -> impl IntoView {
    let page = page();
    let desk = desk();
    let export = move |event: MouseEvent| {
        if let Some(button) =
            dom::element(event.target()).and_then(|at| dom::closest(&at, "button"))
        {
            desk.open(Menu::Export, &button);
        }
    };
    let line = move || {
        let document = page.document.get();
        let found = page.faults.read().len();
        let errors = document
            .sides
            .iter()
            .filter(|side| side.error.is_some())
            .count();
        let unfinished = page.history.drafts.read().len();
        if document.trajectory.frames.is_empty() {
            view! { <span class="state">"No frames. Add one, or import a trajectory."</span> }
                .into_any()
        } else if errors > 0 {
            view! { <span class="state er">{icons::alert()}<b>{if errors == 1 { "One side" } else { "Neither side" }}</b>{if errors == 1 { " cannot be written" } else { " can be written" }}</span> }.into_any()
        } else if found > 0 {
            view! { <span class="state er">{icons::alert()}<b>{words::count(found, "finding")}</b>", shown at their frames"</span> }.into_any()
        } else if unfinished > 0 {
            view! { <span class="state er">{icons::alert()}<b>{words::count(unfinished, "unfinished text")}</b>", kept at the frame"</span> }.into_any()
        } else if crate::inspector::forged(&document) > 0 {
            view! { <crate::inspector::ForgedState/> }.into_any()
        } else if document.sides.iter().all(|side| side.view.is_some()) {
            view! { <span class="state">{icons::tick()}<b>"Valid"</b>" no findings, no forged markers"</span> }.into_any()
        } else {
            match page.tokenizer_error.get() {
                Some(error) => {
                    view! { <span class="state er" role="alert">{icons::alert()}{error}</span> }
                        .into_any()
                }
                None => view! { <span class="state">"Loading the Llama 3.1 tokenizer …"</span> }
                    .into_any(),
            }
        }
    };
    let listed = Memo::new(move |_| !page.faults.read().is_empty());
    let list = move || {
        let faults = page.faults.get();
        faults
            .into_iter()
            .map(|(frame, fault)| {
                let (sentence, name) = says(&fault);
                let place = frame.map_or("—".to_owned(), |at| at.to_string());
                let kind = frame.and_then(|at| desk::kind_of(page, at));
                let go = move |_| {
                    if let Some(at) = frame {
                        page.pin.set(Some(at));
                        reveal_card(at);
                        focus_card(at);
                    }
                };
                view! { <li><button on:click=go><span class="n">{place}</span>{kind.map(icons::kind_name)}<span><bdi>{sentence}</bdi>" "<code>{name}</code></span></button></li> }
            })
            .collect_view()
    };
    view! {
        <div class="foot-box">
            <Show when=move || listed.get()>
                <details class="found" data-testid="found"><summary>"All findings"</summary><ul>{list}</ul></details>
            </Show>
            <div class="bar foot">{line}<button class="btn quiet right" data-testid="export" on:click=export>"Export"</button></div>
        </div>
    }
}
