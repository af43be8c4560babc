//! The dialog that imports: text that is pasted, a file that is chosen, or one that is dropped anywhere
//! on the room. Nothing is replaced before it has been seen.

use crate::editor::desk;
use crate::icons;
use crate::state::{Page, Room, page};
use crate::words;
use formats::exchange::{Found, MAX_BYTES, Problem, close_turns, read, too_long};
use formats::{Fault, FrameKind, Trajectory, exchange};
use leptos::ev::{DragEvent, KeyboardEvent};
use leptos::html::{Dialog, Input};
use leptos::prelude::*;
use leptos::task::spawn_local;
use std::sync::Arc;
use wasm_bindgen_futures::JsFuture;
use web_sys::File;

/// Longest text that is put into the field; a longer file stays out of it.
const IN_FIELD: usize = 100_000;
/// Most kinds that the preview shows one by one.
const SHOWN: usize = 24;

/// Where the text comes from.
#[derive(Clone, PartialEq)]
enum Source {
    /// The field.
    Field(String),
    /// A file, by name.
    File(String, Arc<str>),
    /// A file that cannot be read.
    Refused(String, Problem),
}

/// What the dialog holds.
#[derive(Clone, Copy)]
pub struct Intake {
    source: RwSignal<Source>,
    chosen: RwSignal<usize>,
    close: RwSignal<bool>,
}

impl Intake {
    /// Empty.
    pub fn new() -> Self {
        Self {
            source: RwSignal::new(Source::Field(String::new())),
            chosen: RwSignal::new(0),
            close: RwSignal::new(false),
        }
    }

    fn take(self, source: Source) {
        self.chosen.set(0);
        self.close.set(false);
        self.source.set(source);
    }

    /// Reads a file, as far as it can be one of ours.
    fn file(self, file: File) {
        let name = file.name();
        let ends = |end: &str| name.to_lowercase().ends_with(end);
        let refused = |what: &str, next: &str| {
            let problem = Problem {
                what: what.to_owned(),
                place: None,
                next: next.to_owned(),
            };
            self.take(Source::Refused(name.clone(), problem));
        };
        if ends(".gguf") || ends(".safetensors") {
            return refused(
                "this is a model, not a trajectory",
                "Drop it in the room Models, or on the panel Model below the sides.",
            );
        }
        if file.size() > MAX_BYTES as f64 {
            return self.take(Source::Refused(name, too_long(file.size() as usize)));
        }
        let intake = self;
        spawn_local(async move {
            let text = JsFuture::from(file.text()).await.ok();
            match text.and_then(|text| text.as_string()) {
                Some(text) if text.len() <= IN_FIELD => intake.take(Source::Field(text)),
                Some(text) => intake.take(Source::File(name, text.into())),
                None => {
                    let problem = Problem {
                        what: "the file cannot be read".to_owned(),
                        place: None,
                        next: "Choose it again; it may have been moved.".to_owned(),
                    };
                    intake.take(Source::Refused(name, problem));
                }
            }
        });
    }
}

/// What the frames would be, with ends where they are wanted.
fn wanted(found: &Found, close: bool) -> Trajectory {
    let mut trajectory = found.trajectory.clone();
    if close {
        close_turns(&mut trajectory);
    }
    trajectory
}

/// The dialog.
#[component]
pub fn Import() -> impl IntoView {
    let page = page();
    let open = desk().importing;
    let intake: Intake = expect_context();
    let dialog = NodeRef::<Dialog>::new();
    let picker = NodeRef::<Input>::new();
    Effect::new(move |_| {
        let Some(dialog) = dialog.get() else { return };
        match (open.get(), dialog.open()) {
            // Fails only for a dialog that is not in the page.
            (true, false) => drop(dialog.show_modal()),
            (false, true) => dialog.close(),
            _ => {}
        }
    });
    let outcome = Memo::new(move |_| match &*intake.source.read() {
        Source::Field(text) if text.trim().is_empty() => None,
        Source::Field(text) => Some(read(text)),
        Source::File(_, text) => Some(read(text)),
        Source::Refused(_, problem) => Some(Err(problem.clone())),
    });
    let found = Memo::new(move |_| match &*outcome.read() {
        Some(Ok(read)) => {
            let candidate = read.candidates.get(intake.chosen.get())?;
            candidate.found.clone().ok()
        }
        _ => None,
    });
    let closed = move || open.set(false);
    let replace = move |_| {
        if let Some(found) = found.get_untracked() {
            let trajectory = wanted(&found, intake.close.get_untracked());
            let frames = words::count(trajectory.frames.len(), "frame");
            closed();
            import(page, &found, trajectory);
            page.spoken.set(format!(
                "Imported {frames} from {}. Undo brings back what was there.",
                found.shape.title()
            ));
            intake.take(Source::Field(String::new()));
        }
    };
    let field = move || match &*intake.source.read() {
        Source::Field(text) => text.clone(),
        _ => String::new(),
    };
    let file = move || match &*intake.source.read() {
        Source::File(name, text) => Some((name.clone(), Some(text.len()))),
        Source::Refused(name, _) => Some((name.clone(), None)),
        Source::Field(_) => None,
    };
    let pick = move |_| {
        if let Some(input) = picker.get_untracked() {
            if let Some(file) = input.files().and_then(|files| files.get(0)) {
                intake.file(file);
            }
            // The same file may be chosen again after a failure.
            input.set_value("");
        }
    };
    let named = move || {
        file().map(|(name, size)| {
            let size = size.map(|size| words::bytes(size as u64));
            view! { <p class="from"><b><bdi>{name}</bdi></b><span class="muted">{size}</span><button class="btn quiet" on:click=move |_| intake.take(Source::Field(String::new()))>"Take it away"</button></p> }
        })
    };
    view! {
        <dialog class="help import" node_ref=dialog aria-labelledby="import-title" data-testid="import-dialog"
            on:close=move |_| closed() on:keydown=|event: KeyboardEvent| event.stop_propagation()>
            <div class="bar"><h2 id="import-title">"Import a trajectory"</h2><button class="btn right" on:click=move |_| closed()>"Close "<kbd>"Esc"</kbd></button></div>
            <div class="import-body">
                <p class="muted">"Frames or messages as JSON, rows of a data set (JSONL), or raw wire of either format. What it is will be found out; nothing is replaced yet, and nothing leaves this browser."</p>
                <textarea class="paste" spellcheck="false" autofocus dir="auto" data-testid="import-text" aria-label="Text to import" aria-describedby="import-outcome"
                    placeholder="Paste here" prop:value=field on:input=move |event| intake.take(Source::Field(event_target_value(&event)))></textarea>
                <div class="acts"><label class="btn">"Choose file"<input class="vh" type="file" accept=".json,.jsonl,.ndjson,.txt,.md,text/*,application/json" data-testid="import-file" node_ref=picker on:change=pick/></label>
                    <span class="muted">"or drop one anywhere on this room"</span></div>
                {named}
                <div id="import-outcome" aria-live="polite" data-testid="import-outcome">{move || outcome.get().map(|outcome| match outcome {
                    Ok(read) => view! { <Choice read/> }.into_any(),
                    Err(problem) => trouble(&problem),
                })}
                {move || found.get().map(|found| preview(intake, found))}</div>
            </div>
            <div class="bar foot"><span class="muted">"It takes the place of the trajectory. Undo brings that back."</span>
                <button class="btn pri right" data-testid="import-replace" disabled=move || found.read().is_none() on:click=replace>"Replace trajectory"</button></div>
        </dialog>
    }
}

/// Puts what was found in the place of the trajectory. It is no sample any more.
fn import(page: Page, found: &Found, trajectory: Trajectory) {
    page.sample.set(usize::MAX);
    page.open_as(&format!("imported {}", found.shape.title()), trajectory);
}

/// What is wrong, where, and what to do.
fn trouble(problem: &Problem) -> AnyView {
    let place = problem.place.map(|place| {
        let mut text = place.to_string();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        view! { <b>{text}</b>": " }
    });
    view! { <div class="note bad" data-testid="import-problem"><p>{place}<bdi>{problem.what.clone()}</bdi>"."</p><p><bdi>{problem.next.clone()}</bdi></p></div> }.into_any()
}

/// The rows to choose from, when there are several.
#[component]
fn Choice(read: exchange::Read) -> impl IntoView {
    let intake: Intake = expect_context();
    let count = read.candidates.len();
    if count == 1 && read.candidates[0].found.is_ok() {
        return ().into_any();
    }
    let first_good = read.candidates.iter().position(|c| c.found.is_ok());
    if let Some(first) = first_good
        && intake.chosen.get_untracked() == 0
        && first > 0
    {
        intake.chosen.set(first);
    }
    let left_out = read.left_out;
    let rows = read
        .candidates
        .into_iter()
        .enumerate()
        .map(|(at, candidate)| {
            let (says, bad) = match &candidate.found {
                Ok(found) => (words::count(found.trajectory.frames.len(), "frame"), false),
                Err(problem) => (problem.to_string(), true),
            };
            view! {
                <label class:bad=bad><input type="radio" name="import-row" disabled=bad prop:checked=move || intake.chosen.get() == at
                    on:change=move |_| { intake.close.set(false); intake.chosen.set(at); }/><b><bdi>{candidate.label}</bdi></b><span class="muted"><bdi>{says}</bdi></span></label>
            }
        })
        .collect_view();
    view! {
        <fieldset class="rows-choice" data-testid="import-rows"><legend>{words::count(count + left_out, "row")}", choose one"</legend>
            <div>{rows}</div>
            {(left_out > 0).then(|| view! { <p class="muted">{format!("{} more are not offered: cut the file to reach them.", words::count(left_out, "row"))}</p> })}
        </fieldset>
    }
    .into_any()
}

/// What would be imported.
fn preview(intake: Intake, found: Found) -> AnyView {
    let lacks_ends = {
        let closed = wanted(&found, true);
        closed.frames.len() - found.trajectory.frames.len()
    };
    let shape = found.shape.title();
    let notes = found.notes.clone();
    let found = StoredValue::new(found);
    let kinds = move || {
        let trajectory = found.with_value(|found| wanted(found, intake.close.get()));
        let count = trajectory.frames.len();
        let faults = formats::faults(&trajectory);
        let names: Vec<FrameKind> = trajectory.frames.iter().map(|frame| frame.kind).collect();
        let shown = names
            .into_iter()
            .take(SHOWN)
            .map(icons::kind_name)
            .collect_view();
        let more = count.saturating_sub(SHOWN);
        let broken: Vec<String> = faults
            .iter()
            .take(4)
            .map(|(at, fault)| {
                let place = at.map_or(String::new(), |at| format!("frame {at}: "));
                match fault {
                    Fault::Rule { message, .. } => format!("{place}{message}"),
                    Fault::NoRule(text) | Fault::AgenticMl(text) | Fault::ChatMl(text) => {
                        format!("{place}{text}")
                    }
                    Fault::ZeroVanishes => format!("{place}a reward of 0 is written as nothing"),
                }
            })
            .collect();
        let verdict = if faults.is_empty() {
            view! { <p class="state">{icons::tick()}<b>"Valid"</b></p> }.into_any()
        } else {
            view! { <p class="state er">{icons::alert()}<b>{words::count(faults.len(), "finding")}</b></p><ul class="said">{broken.into_iter().map(|text| view! { <li><bdi>{text}</bdi></li> }).collect_view()}</ul> }.into_any()
        };
        view! {
            <p><b data-testid="import-count">{words::count(count, "frame")}</b></p>
            <p class="kinds">{shown}{(more > 0).then(|| view! { <span class="muted">{format!("and {more} more")}</span> })}</p>
            {verdict}
        }
    };
    view! {
        <section class="preview" aria-label="Preview" data-testid="import-preview">
            <p>"Recognised: "<b data-testid="import-shape">{shape}</b></p>
            {kinds}
            {(!notes.is_empty()).then(|| view! { <ul class="said notes" data-testid="import-notes">{notes.into_iter().map(|note| view! { <li><bdi>{note}</bdi></li> }).collect_view()}</ul> })}
            {(lacks_ends > 0).then(|| view! { <label class="tick"><input type="checkbox" data-testid="import-close" prop:checked=move || intake.close.get() on:change=move |event| intake.close.set(event_target_checked(&event))/>{format!("Close each turn of the model with an end frame ({lacks_ends} missing)")}</label> })}
        </section>
    }
    .into_any()
}

/// Files dropped on the room. The panels that take models look at a drop first.
#[component]
pub fn DropAnywhere() -> impl IntoView {
    let page = page();
    let open = desk().importing;
    let intake: Intake = expect_context();
    let over = RwSignal::new(false);
    let has_files = |event: &DragEvent| {
        event
            .data_transfer()
            .is_some_and(|data| data.types().includes(&"Files".into(), 0))
    };
    let here = move |event: &DragEvent| {
        !event.default_prevented() && page.room.get_untracked() == Room::Compare && has_files(event)
    };
    let dragged = window_event_listener(leptos::ev::dragover, move |event| {
        let here = here(&event);
        if here {
            event.prevent_default();
        }
        if over.get_untracked() != here {
            over.set(here);
        }
    });
    let left = window_event_listener(leptos::ev::dragleave, move |event| {
        if event.related_target().is_none() {
            over.set(false);
        }
    });
    let dropped = window_event_listener(leptos::ev::drop, move |event| {
        over.set(false);
        if !here(&event) {
            return;
        }
        event.prevent_default();
        let file = event.data_transfer().and_then(|data| data.files()?.get(0));
        if let Some(file) = file {
            intake.file(file);
            open.set(true);
        }
    });
    on_cleanup(move || {
        dragged.remove();
        left.remove();
        dropped.remove();
    });
    view! { <Show when=move || over.get()><div class="veil"><p>"Drop to import"</p></div></Show> }
}
