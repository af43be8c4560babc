//! The trajectory as cards, one per frame, whose content can be edited in place.

use crate::document::{class, content_text};
use crate::icons;
use crate::sides::json_text;
use crate::state::page;
use crate::words;
use formats::{Frame, Payload, Value, json};
use leptos::ev::KeyboardEvent;
use leptos::html::Textarea;
use leptos::prelude::*;

/// The left pane.
#[component]
pub fn Editor() -> impl IntoView {
    let page = page();
    let count = move || words::count(page.document.read().trajectory.frames.len(), "frame");
    let keys = move || {
        page.document
            .read()
            .trajectory
            .frames
            .iter()
            .map(|frame| frame.kind)
            .enumerate()
            .collect::<Vec<_>>()
    };
    view! {
        <section class="pane l" aria-label="Trajectory">
            <div class="bar"><h2>"Trajectory"</h2><span class="muted">{count}</span></div>
            <div class="editor-list"><For each=keys key=|key| *key children=|(at, kind)| view! { <Card at kind/> }/></div>
            <Findings/>
        </section>
    }
}

/// What is wrong with the trajectory, as far as both formats can tell.
#[component]
fn Findings() -> impl IntoView {
    let page = page();
    move || {
        let document = page.document.get();
        let forged = document.forged();
        let errors = document
            .sides
            .iter()
            .filter(|side| side.error.is_some())
            .count();
        let found = document.findings.len();
        let body = if errors > 0 {
            view! { <span class="state er">{icons::alert()}<b>{if errors == 1 { "One side" } else { "Neither side" }}</b>{if errors == 1 { " cannot be written" } else { " can be written" }}</span> }.into_any()
        } else if forged > 0 {
            view! { <span class="state er">{icons::alert()}<b>"Forged markers"</b>" content spells special tokens; encoded as text"</span> }.into_any()
        } else if found > 0 {
            view! { <span class="state er">{icons::alert()}<b>{words::count(found, "finding")}</b>", shown at their frames"</span> }.into_any()
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
        };
        view! { <div class="bar foot no-narrow">{body}</div> }
    }
}

#[component]
fn Card(at: usize, kind: formats::FrameKind) -> impl IntoView {
    let page = page();
    let frame = Memo::new(move |_| page.document.read().trajectory.frames.get(at).cloned());
    let cost = move |side: usize| {
        let document = page.document.read();
        let side = &document.sides[side];
        match (&side.view, side.tally.frames.get(at)) {
            (Some(_), Some(count)) => count.to_string(),
            _ => "—".to_owned(),
        }
    };
    let forged = Memo::new(move |_| page.document.read().is_forged(at));
    let findings = Memo::new(move |_| {
        let document = page.document.read();
        document
            .findings
            .iter()
            .filter(|(frame, _)| *frame == at)
            .map(|(_, message)| message.clone())
            .collect::<Vec<_>>()
    });
    let model = kind.owner() == formats::Owner::Model;
    let pinned = move || page.pin.get() == Some(at);
    let editing = move || page.editing.get() == Some(at);
    let editable = kind.payload() != Payload::None;
    let body = move || {
        if editing() {
            return view! { <Draft at/> }.into_any();
        }
        match frame.get() {
            Some(frame) if editable => {
                let text = content_text(&frame);
                let json = kind.payload() == Payload::Json;
                let pre = !json && text.contains('\n');
                let shown = if json {
                    json_text(&text)
                } else {
                    text.into_any()
                };
                view! { <div class="bd" class:js=json class:pre=pre data-edit=at title="Double-click to edit">{shown}</div> }.into_any()
            }
            _ => ().into_any(),
        }
    };
    let name = move || format!("Frame {at}, {}, {}", kind.name(), kind.owner().name());
    view! {
        <article class=format!("fc {}", class(kind)) class:m=model class:lk=move || page.is_linked(Some(at)) class:pinned=pinned
            class:editing=editing data-frame=at tabindex="0" aria-label=name>
            <div class="rail">{icons::glyph(kind)}<span class="n">{at}</span></div>
            <div class="main">
                <div class="hd"><span class="kn">{kind.name()}</span><span class="own">{kind.owner().name()}</span>
                    <Show when=pinned><span class="pin own" title="Pinned. Esc lets go.">{icons::pin()}<span class="vh">"pinned"</span></span></Show>
                    {editable.then(|| view! { <button class="edit" data-edit=at aria-label=format!("Edit frame {at}") title="Edit (Enter)">{icons::pencil()}</button> })}
                    <span class="ct" title="tokens on side A, side B">"A "<b>{move || cost(0)}</b>"\u{2002}B "<b>{move || cost(1)}</b></span></div>
                {body}
                {move || findings.get().into_iter().map(|text| view! { <p class="finding">{text}</p> }).collect_view()}
                <Show when=move || forged.get()><p class="finding">"Spells a special token. Encoded as plain text, so it cannot act as one."</p></Show>
            </div>
        </article>
    }
}

/// The content of a frame while it is edited: what parses is taken over at once.
#[component]
fn Draft(at: usize) -> impl IntoView {
    let page = page();
    let place = NodeRef::<Textarea>::new();
    let frame = page
        .document
        .read_untracked()
        .trajectory
        .frames
        .get(at)
        .cloned()
        .unwrap_or(Frame::new(formats::FrameKind::Obs, ""));
    let payload = frame.kind.payload();
    let first = content_text(&frame);
    let error = RwSignal::new(None::<String>);
    place.on_load(move |area| {
        // The field takes the focus as soon as it stands in the page.
        request_animation_frame(move || {
            let _ = area.focus();
        });
    });
    let typed = move |text: String| {
        let content = match payload {
            Payload::Prose => Ok(Value::String(text)),
            Payload::Json | Payload::Number | Payload::None => {
                json::loads(&text).map_err(|e| e.to_string())
            }
        };
        match content {
            Ok(content) => {
                error.set(None);
                page.edit(at, content);
            }
            Err(message) => error.set(Some(message)),
        }
    };
    let keys = move |event: KeyboardEvent| {
        let done = event.key() == "Escape"
            || (event.key() == "Enter" && (event.ctrl_key() || event.meta_key()));
        if done {
            event.stop_propagation();
            page.editing.set(None);
            crate::pointing::focus_card(at);
        }
    };
    let id = format!("draft-{at}");
    let note = format!("draft-note-{at}");
    view! {
        <div class="draft">
            <div class="grow" data-text=first.clone()>
                <textarea node_ref=place id=id.clone() spellcheck="false" rows="1" class:js={payload != Payload::Prose} aria-label=format!("Content of frame {at}")
                    aria-invalid=move || error.read().is_some().to_string() aria-describedby=note.clone() prop:value=first.clone()
                    on:input=move |event| {
                        let text = event_target_value(&event);
                        if let Some(grow) = place.get_untracked().and_then(|area| area.parent_element()) {
                            // The field is as high as this copy of its text.
                            let _ = grow.set_attribute("data-text", &text);
                        }
                        typed(text);
                    }
                    on:keydown=keys></textarea>
            </div>
            <p id=note class="hint" class:er=move || error.read().is_some()>
                {move || match error.get() {
                    Some(error) => format!("Not JSON: {error}. Both sides keep the last content that was."),
                    None => "Both sides follow as you type. Esc closes.".to_owned(),
                }}
            </p>
        </div>
    }
}
