//! The content of a frame while it is edited. What can be read is taken over at once; what cannot is
//! marked where it is wrong, and kept as a draft while both sides keep the last good content.

use crate::document::content_text;
use crate::pointing::focus_card;
use crate::state::page;
use formats::agenticml::{ContentError, read_content};
use formats::json::{self, JsonError, Style};
use formats::{Frame, FrameKind, Payload, Value};
use leptos::ev::KeyboardEvent;
use leptos::html::Textarea;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{HtmlDocument, HtmlTextAreaElement};

/// Most characters of a line that are shown to either side of an error.
const AROUND: usize = 18;

/// Why a text is not its frame's content.
pub fn fault(kind: FrameKind, text: &str) -> Option<ContentError> {
    read_content(kind, text).err()
}

/// What is wrong, in a line.
pub fn in_short(error: &ContentError) -> String {
    match error {
        ContentError::Json(JsonError {
            kind, line, column, ..
        }) => {
            format!("line {line}, column {column}: {kind}")
        }
        ContentError::Number => "not a number".to_owned(),
    }
}

/// The byte range that is marked: the character at the error, or the end.
fn marked(text: &str, error: &ContentError) -> (usize, usize) {
    let start = match error {
        ContentError::Json(error) => error.byte.min(text.len()),
        ContentError::Number => 0,
    };
    let end = match error {
        ContentError::Json(_) => text[start..]
            .chars()
            .next()
            .map_or(start, |c| start + c.len_utf8()),
        ContentError::Number => text.len(),
    };
    (start, end)
}

/// The line of an error, cut short around it: before, at, behind.
fn excerpt(text: &str, error: &ContentError) -> (String, String, String) {
    let (start, end) = marked(text, error);
    let before = text[..start].rsplit('\n').next().unwrap_or_default();
    let skipped = before.chars().count().saturating_sub(AROUND);
    let mut head: String = before.chars().skip(skipped).collect();
    if skipped > 0 {
        head.insert(0, '…');
    }
    let at = match &text[start..end] {
        "" => "⏎".to_owned(),
        at if at.starts_with('\n') => "↵".to_owned(),
        at => at.chars().take(AROUND).collect(),
    };
    let behind = text[end..].split('\n').next().unwrap_or_default();
    let behind = if at == "↵" { "" } else { behind };
    (head, at, behind.chars().take(AROUND).collect())
}

/// Replaces all of a field's text, so that the field's own undo knows of it.
fn replace_all(area: &HtmlTextAreaElement, text: &str) {
    let _ = area.focus();
    area.select();
    let page: Option<HtmlDocument> = document().dyn_into().ok();
    let typed = page.and_then(|page| {
        page.exec_command_with_show_ui_and_value("insertText", false, text)
            .ok()
    });
    if typed != Some(true) {
        area.set_value(text);
    }
}

/// The field.
#[component]
pub fn Draft(at: usize, kind: FrameKind) -> impl IntoView {
    let page = page();
    let place = NodeRef::<Textarea>::new();
    let payload = kind.payload();
    let json_field = payload == Payload::Json;
    let content = move |trajectory: &formats::Trajectory| -> Value {
        let frame = trajectory.frames.get(at);
        frame.map(|frame| frame.content.clone()).unwrap_or_default()
    };
    let written = move |content: &Value| content_text(&Frame::new(kind, content.clone()));
    let kept = page.history.drafts.read_untracked().get(&at).cloned();
    let first = kept.unwrap_or_else(|| written(&page.trajectory.with_untracked(content)));
    // What the field itself has last made of its text: any other content came from elsewhere.
    let mine = StoredValue::new(json::dumps(&page.trajectory.with_untracked(content)));
    let text = RwSignal::new(first.clone());
    let error = Memo::new(move |_| fault(kind, &text.read()));
    place.on_load(move |area| {
        // The field takes the focus as soon as it stands in the page.
        request_animation_frame(move || {
            let _ = area.focus();
        });
    });
    let typed = move |now: String| {
        match read_content(kind, &now) {
            Ok(content) => {
                page.history.drafts.update(|drafts| {
                    drafts.remove(&at);
                });
                mine.set_value(json::dumps(&content));
                page.edit(at, content);
            }
            Err(_) => page.history.drafts.update(|drafts| {
                drafts.insert(at, now.clone());
            }),
        }
        text.set(now);
    };
    let show = move |now: String| {
        if let Some(area) = place.get_untracked() {
            area.set_value(&now);
        }
        text.set(now);
    };
    Effect::new(move |_| {
        let content = page.trajectory.with(content);
        let dumped = json::dumps(&content);
        if mine.with_value(|mine| *mine != dumped) {
            mine.set_value(dumped);
            show(written(&content));
        }
    });
    let close = move || {
        page.editing.set(None);
        focus_card(at);
    };
    let keys = move |event: KeyboardEvent| {
        let done = event.key() == "Escape"
            || (event.key() == "Enter" && (event.ctrl_key() || event.meta_key()));
        if done {
            event.stop_propagation();
            if error.read_untracked().is_some() {
                page.spoken.set(format!(
                    "Frame {at}: the unfinished text is kept as a draft."
                ));
            }
            close();
        }
    };
    let discard = move |_| {
        page.history.drafts.update(|drafts| {
            drafts.remove(&at);
        });
        show(written(&page.trajectory.with_untracked(content)));
        if let Some(area) = place.get_untracked() {
            let _ = area.focus();
        }
    };
    let go = move |_| {
        let Some(area) = place.get_untracked() else {
            return;
        };
        let text = text.read_untracked();
        let Some(error) = error.get_untracked() else {
            return;
        };
        let (start, end) = marked(&text, &error);
        // Fields count UTF-16 units.
        let units = |byte: usize| text[..byte].encode_utf16().count() as u32;
        let _ = area.focus();
        let _ = area.set_selection_range(units(start), units(end));
    };
    let spread = Memo::new(move |_| text.read().trim_end().contains('\n'));
    let reformat = move |_| {
        let (Some(area), Ok(value)) = (place.get_untracked(), json::loads(&text.read_untracked()))
        else {
            return;
        };
        let indent = (!spread.get_untracked()).then_some(2);
        let now = json::dumps_with(
            &value,
            Style {
                ascii: false,
                indent,
            },
        );
        replace_all(&area, &now);
        // Set without an event where the browser has no such command.
        typed(now);
    };
    let mirror = move || {
        let text = text.get();
        match error.get() {
            Some(error) => {
                let (start, end) = marked(&text, &error);
                let breaks = text[start..end].starts_with('\n');
                let at = if start == end {
                    " ".to_owned()
                } else {
                    text[start..end].to_owned()
                };
                view! { {text[..start].to_owned()}<mark class:end=breaks>{at}</mark>{text[end..].to_owned()}" " }.into_any()
            }
            None => view! { {text}" " }.into_any(),
        }
    };
    let hint = move || match error.get() {
        Some(error) => {
            let (head, wrong, behind) = text.with(|text| excerpt(text, &error));
            let (where_to, what, advice) = match &error {
                ContentError::Json(error) => (
                    format!("Line {}, column {}", error.line, error.column),
                    format!(": {}. ", error.kind),
                    error.kind.advice(),
                ),
                ContentError::Number => (
                    "Not a number".to_owned(),
                    ". ".to_owned(),
                    "Write one, as 1 or 0.5.",
                ),
            };
            view! {
                <p class="er"><b>{where_to}</b>{what}{advice}</p>
                <p class="spot"><code><bdi>{head}<mark>{wrong}</mark>{behind}</bdi></code></p>
                <p>"Both sides keep the last content that was right. This draft stays until you finish or discard it."</p>
            }
            .into_any()
        }
        None => view! { <p>"Both sides follow as you type. Esc closes."</p> }.into_any(),
    };
    let wrong = move || error.read().is_some();
    let id = format!("draft-{at}");
    let note = format!("draft-note-{at}");
    view! {
        <div class="draft">
            <div class="grow" class:prose=payload == Payload::Prose>
                <div class="mirror" aria-hidden="true">{mirror}</div>
                <textarea node_ref=place id=id spellcheck="false" rows="1" dir="auto" aria-label=format!("Content of frame {at}, {}", kind.name())
                    inputmode=(payload == Payload::Number).then_some("decimal")
                    aria-invalid=move || wrong().to_string() aria-describedby=note.clone() prop:value=first
                    on:input=move |event| typed(event_target_value(&event)) on:keydown=keys></textarea>
            </div>
            <div id=note class="hint">{hint}</div>
            <div class="acts">
                <Show when=move || json_field && !wrong()>
                    <button class="btn" data-testid="reformat" on:click=reformat>{move || if spread.get() { "One line" } else { "Indent" }}</button>
                </Show>
                <Show when=wrong>
                    <button class="btn" data-testid="go-to-error" on:click=go>"Go to it"</button>
                    <button class="btn" data-testid="discard" on:click=discard>"Discard draft"</button>
                </Show>
                <button class="btn right" data-testid="done" on:click=move |_| close()>{move || if wrong() { "Close, keep draft" } else { "Done" }}</button>
            </div>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_out_of_its_line() {
        let shown = |text: &str| {
            let error = fault(FrameKind::Action, text).expect("an error");
            excerpt(text, &error)
        };
        let parts = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(shown("{\"a\" 1}"), parts("{\"a\" ", "1", "}"));
        assert_eq!(shown("{\n  \"é\": ☕\n}"), parts("  \"é\": ", "☕", ""));
        assert_eq!(shown("{\"a\": "), parts("{\"a\": ", "⏎", ""));
        let long = format!("[{}x]", "1, ".repeat(20));
        let (head, at, behind) = shown(&long);
        assert_eq!(
            (head.chars().count(), at.as_str(), behind.as_str()),
            (AROUND + 1, "x", "]")
        );
    }
}
