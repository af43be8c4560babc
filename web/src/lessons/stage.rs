//! A page of a lesson as a presenter shows it.

use crate::document::Document;
use crate::dom;
use crate::lessons::data::{Look, Sheet};
use crate::lessons::{Fetched, Place, document_of, panels, words};
use crate::state::{Shared, page};
use leptos::html::Button;
use leptos::prelude::*;

/// The page of a lesson that the address names.
#[component]
pub fn Stage() -> impl IntoView {
    let page = page();
    let lessons = page.lessons;
    let shown = Memo::new(move |_| {
        lessons
            .shown()
            .map(|(ready, number)| (ready.clone(), number))
    });
    let document = Memo::new(move |_| {
        let (ready, number) = shown.get()?;
        let at = ready.lesson.pages.get(number - 1)?.trajectory?;
        Some(Shared::new(document_of(page, ready.trajectories.get(at)?)))
    });
    let next = NodeRef::<Button>::new();
    // Who comes here can turn pages at once, with a key or with the button.
    Effect::new(move |_| {
        if let Some(next) = next.get() {
            request_animation_frame(move || dom::focus(&next));
        }
    });
    let of_lesson = move || {
        let Place::Page(id, _) = lessons.place.get() else {
            return "Lessons".to_owned();
        };
        match lessons.position(&id) {
            Some((at, all)) => format!("Lesson {at} of {all}"),
            None => "Lessons".to_owned(),
        }
    };
    let title = move || shown.get().map(|(ready, _)| ready.lesson.title.clone());
    let progress = move || {
        shown.get().map(|(ready, number)| {
            let pages = ready.lesson.pages.len();
            let steps = (1..=pages)
                .map(|at| view! { <i class:on={at < number} class:cur={at == number}></i> })
                .collect_view();
            view! { <span class="progress" role="img" aria-label=format!("page {number} of {pages}")>{steps}</span> }
        })
    };
    let number = move || {
        shown.get().map(|(ready, number)| {
            view! { <span class="count" data-testid="lesson-number">{format!("{number} / {}", ready.lesson.pages.len())}</span> }
        })
    };
    let first = move || shown.get().is_some_and(|(_, number)| number == 1);
    let last = move || {
        shown
            .get()
            .is_some_and(|(ready, number)| number == ready.lesson.pages.len())
    };
    let forward = move || {
        if !last() {
            return "Next →";
        }
        let after = shown
            .get()
            .and_then(|(ready, _)| lessons.after(&ready.lesson.id));
        if after.is_some() {
            "Next lesson →"
        } else {
            "All lessons"
        }
    };
    let opens = move || {
        if document.read().is_some() {
            " opens this state in the playground."
        } else {
            " leaves for the playground."
        }
    };
    let spoken = move || {
        shown.get().and_then(|(ready, number)| {
            let title = &ready.lesson.pages.get(number - 1)?.title;
            Some(format!(
                "Page {number} of {}: {title}",
                ready.lesson.pages.len()
            ))
        })
    };
    let body = move || {
        match shown.get() {
        Some((ready, number)) => {
            // In bounds: see `Lessons::shown`.
            let sheet = &ready.lesson.pages[number - 1];
            let document = document.get();
            sheet_view(sheet, document.as_ref())
        }
        None => lessons.lesson.with(|(_, read)| match read {
            Fetched::Failed(why) => view! {
                <section class="say" role="alert" data-testid="lesson-trouble"><h1>"This lesson could not be read"</h1>
                    <div class="prose"><p><bdi>{why.clone()}</bdi></p><p><a href="#lessons">"All lessons"</a></p></div></section>
            }
            .into_any(),
            _ => view! { <p class="muted" role="status">"Reading the lesson …"</p> }.into_any(),
        }),
    }
    };
    view! {
        <main class="stage" data-testid="lesson" data-page=move || shown.get().map(|(_, number)| number)>
            <header class="hd"><span><a href="#lessons">{of_lesson}</a>{move || title().map(|title| view! { ", "<b>{title}</b> })}</span>{progress}</header>
            <div class="lesson" data-testid="lesson-body">{body}</div>
            <footer class="ft">
                <button class="btn" data-testid="lesson-back" on:click=move |_| lessons.back()>{move || if first() { "← All lessons" } else { "← Back" }}</button>
                <button class="btn pri" data-testid="lesson-next" node_ref=next on:click=move |_| lessons.next()>{forward}</button>
                <span class="hint">"Arrow keys turn the page. "<button class="esc" data-testid="lesson-open" on:click=move |_| lessons.open(page)><kbd>"Esc"</kbd>{opens}</button></span>
                {number}
            </footer>
            <p class="vh" aria-live="polite">{spoken}</p>
        </main>
    }
}

fn sheet_view(sheet: &Sheet, document: Option<&Shared<Document>>) -> AnyView {
    let page = page();
    let tokenizer = page.tokenizer.get();
    let tokenizer = tokenizer.as_deref();
    let prose = sheet
        .text
        .iter()
        .map(|spans| words::paragraph(spans, document.map(|document| &**document), tokenizer))
        .collect_view();
    let key = (!sheet.key.is_empty()).then(|| {
        let looks = sheet
            .key
            .iter()
            .map(|look| explain(*look, sheet.mask))
            .collect_view();
        view! { <dl class="looks-key">{looks}</dl> }
    });
    let panels = sheet
        .panels
        .iter()
        .map(|panel| {
            panels::panel(
                page,
                sheet,
                panel,
                document.map(|document| &**document),
                tokenizer,
            )
        })
        .collect_view();
    let source = sheet.source.clone().map(|source| {
        view! { <p class="source" data-testid="lesson-source"><b>"Quoted."</b>" "<bdi>{source}</bdi></p> }
    });
    view! {
        <section class="say"><h1>{sheet.title.clone()}</h1><div class="prose">{prose}</div>{key}</section>
        <section class="see" aria-label="What the text is about">{panels}{source}</section>
    }
    .into_any()
}

/// An example of a look, and what it means.
fn explain(look: Look, mask: bool) -> AnyView {
    let (classes, piece, words) = match look {
        Look::Trained => ("tk k-action t m", "path", "trained: filled, ruled under"),
        Look::Context => ("tk k-mission", "lines", "context: outline only"),
        Look::Given => ("tk k-turn t gv", "↵↵", "trained, yet given by the prompt"),
        Look::Special => ("tk s k-mission", "mission", "special token: a tag"),
        Look::Runtime => ("tk k-mission", "lines", "the runtime's: square"),
        Look::Model => ("tk k-action m", "path", "the model's: round"),
        Look::Template => ("tk k-tmpl b", "Date", "template text: hatched"),
        Look::Forged => ("tk k-result", "<|", "spells a marker: ruled red, twice"),
    };
    let chip = view! { <span class=classes><span class="p">{piece}</span></span> };
    let chip = if look == Look::Forged {
        view! { <span class="sp k-result forged">{chip}</span> }.into_any()
    } else {
        chip.into_any()
    };
    view! { <div><dt class="strip" class:mask=mask aria-hidden="true">{chip}</dt><dd>{words}</dd></div> }
        .into_any()
}
