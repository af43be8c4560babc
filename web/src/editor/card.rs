//! One frame as a card.

use super::desk::{Menu, desk};
use super::draft::{Draft, fault, in_short};
use super::faults::AtFrame;
use crate::document::{class, content_text};
use crate::dom;
use crate::icons;
use crate::sides::{folded, json_text, plain};
use crate::state::page;
use formats::{FrameKind, Owner, Payload};
use leptos::ev::MouseEvent;
use leptos::prelude::*;

/// The card of the frame at a place.
#[component]
pub fn Card(at: usize, kind: FrameKind) -> impl IntoView {
    let page = page();
    let desk = desk();
    let frame = Memo::new(move |_| page.trajectory.read().frames.get(at).cloned());
    let cost = move |side: usize| {
        let document = page.document.read();
        let side = &document.sides[side];
        match (&side.view, side.tally.frames.get(at)) {
            (Some(_), Some(count)) => count.to_string(),
            _ => "—".to_owned(),
        }
    };
    let model = kind.owner() == Owner::Model;
    let pinned = move || page.pin.get() == Some(at);
    let editing = move || page.editing.get() == Some(at);
    let editable = kind.payload() != Payload::None;
    let draft = Memo::new(move |_| page.history.drafts.read().get(&at).cloned());
    let discard = move |_| {
        page.history.drafts.update(|drafts| {
            drafts.remove(&at);
        });
    };
    let unfinished = move || {
        let text = draft.get().filter(|_| !editing())?;
        let wrong = fault(kind, &text).map(|error| in_short(&error));
        Some(view! {
            <div class="unfinished">
                <p>{icons::alert()}<span><b>"Unfinished draft"</b>{wrong.map(|wrong| format!(", {wrong}"))}</span></p>
                <button class="btn" data-edit=at>"Continue"</button><button class="btn" data-testid="discard" on:click=discard>"Discard"</button>
            </div>
        })
    };
    let body = move || {
        if editing() && editable {
            return view! { <Draft at kind/> }.into_any();
        }
        match frame.get() {
            Some(frame) if editable => {
                let text = content_text(&frame);
                let json = kind.payload() == Payload::Json;
                let pre = !json && text.contains('\n');
                let empty = text.is_empty();
                let shown = if empty {
                    view! { <span class="muted">"empty"</span> }.into_any()
                } else if json {
                    folded(text, json_text)
                } else {
                    folded(text, plain)
                };
                view! { <div class="bd" class:js=json class:pre=pre data-edit=at title="Double-click to edit"><bdi dir="auto">{shown}</bdi></div> }.into_any()
            }
            _ => ().into_any(),
        }
    };
    let open = move |menu: Menu| {
        move |event: MouseEvent| {
            let button = dom::element(event.target()).and_then(|at| dom::closest(&at, "button"));
            if let Some(button) = button {
                desk.open(menu, &button);
            }
        }
    };
    // A frame that was generated says by whom, until it is changed.
    let own = move || {
        let frame = frame.get();
        page.live
            .taken
            .read()
            .iter()
            .find(|(place, taken, _)| *place == at && Some(taken) == frame.as_ref())
            .map_or(kind.owner().name().to_owned(), |(_, _, side)| {
                format!("from side {}", side.plate())
            })
    };
    let name = move || format!("Frame {at}, {}, {}", kind.name(), own());
    let dragged = move || desk.drag.read().is_some_and(|drag| drag.frame == at);
    view! {
        <article class=format!("fc {}", class(kind)) class:m=model class:lk=move || page.is_linked(Some(at)) class:pinned=pinned
            class:editing=editing class:dragged=dragged data-frame=at tabindex="0" aria-label=name>
            <div class="rail" title="Drag to move (Alt ↑ ↓)">{icons::glyph(kind)}<span class="n">{at}</span></div>
            <div class="main">
                <div class="hd"><span class="kn">{kind.name()}</span><span class="own">{own}</span>
                    <Show when=pinned><span class="pin own" title="Pinned. Esc lets go.">{icons::pin()}<span class="vh">"pinned"</span></span></Show>
                    {editable.then(|| view! { <button class="edit" data-edit=at aria-label=format!("Edit frame {at}") title="Edit (Enter)">{icons::pencil()}</button> })}
                    <button class="edit more" aria-haspopup="menu" aria-label=format!("More for frame {at}") title="Move, add, duplicate, delete" on:click=open(Menu::Frame(at))>{icons::dots()}</button>
                    <span class="ct" title="tokens on side A, side B">"A "<b>{move || cost(0)}</b>"\u{2002}B "<b>{move || cost(1)}</b></span></div>
                {body}
                {unfinished}
                <AtFrame at/>
            </div>
            <button class="ins" tabindex="-1" aria-label=format!("Add a frame before frame {at}") title="Add a frame here" on:click=open(Menu::Add(at))><i aria-hidden="true">"+"</i></button>
        </article>
    }
}
