//! The page as a whole: its layout.

use crate::about::About;
use crate::costs::{Bars, Key, Sections, Sentence};
use crate::document::{Side, Tone};
use crate::editor::Editor;
use crate::help::Help;
use crate::inspector::Inspector;
use crate::lessons::{LessonsRoom, Return};
use crate::live::{LivePanel, ModelPanel};
use crate::models::ModelsRoom;
use crate::share::{self, Notices, ShareDialog};
use crate::sides::{Both, Heads, Single, parts};
use crate::state::{Dock, Page, Pane, Room, View, page as page_of};
use crate::top::Top;
use crate::{address, keys, pointing, samples};
use leptos::prelude::*;

/// The page.
#[component]
pub fn App() -> impl IntoView {
    let (trajectory, first) = samples::first();
    let page = Page::new(trajectory.clone(), first);
    provide_context(page);
    page.open(trajectory);
    samples::load_list(page);
    samples::load_tokenizer(page);
    pointing::keep_marks(page);
    address::follow(page);
    share::start(page);
    let keydown = window_event_listener(leptos::ev::keydown, move |event| keys::key(page, &event));
    on_cleanup(move || keydown.remove());
    let live = move |side: Side| page.view(side).get() == View::Live;
    let any_live = move || live(Side::A) || live(Side::B);
    let split = Memo::new(move |_| (live(Side::A), live(Side::B)));
    let sides = move || match split.get() {
        (false, false) => view! { <Both/> }.into_any(),
        (a, b) => {
            let column = |side, live| {
                if live {
                    view! { <LivePanel side/> }.into_any()
                } else {
                    view! { <Single side/> }.into_any()
                }
            };
            view! { <div class="facing split">{column(Side::A, a)}<div class="mul"></div>{column(Side::B, b)}</div> }.into_any()
        }
    };
    let away = move || page.room.get() != Room::Compare;
    let pane = move || match page.pane.get() {
        Pane::Edit => "edit",
        Pane::Sides => "sides",
        Pane::Dock => "dock",
    };
    view! {
        <div class="app" class:presenting=move || page.lessons.presents(page)>
            <Top/>
            <Return/>
            <main class="work" hidden=away class:drawer=move || page.drawer.get() class:live-on=any_live data-pane=pane
                on:pointerover=move |event| pointing::pointed(page, &event) on:pointerleave=move |_| page.leave()
                on:focusin=move |event| pointing::focused(page, &event) on:focusout=move |_| page.focus.set(None)
                on:click=move |event| pointing::clicked(page, &event) on:dblclick=move |event| pointing::clicked_twice(page, &event)>
                <Editor/>
                <section class="mid" aria-label="Both wires"><div><Heads/></div>{sides}<DockBox/></section>
                <Inspector/>
                <Sheet/>
            </main>
            <Show when=move || page.room.get() == Room::Models><ModelsRoom/></Show>
            <Show when=move || page.room.get() == Room::Lessons><LessonsRoom/></Show>
            <p class="vh" aria-live="polite">{move || page.spoken.get()}</p>
            <p class="vh" aria-live="polite">{move || page.live.spoken.get()}</p>
            <Help/>
            <About/>
            <ShareDialog/>
            <Notices/>
        </div>
    }
}

/// Costs and model below the sides.
#[component]
fn DockBox() -> impl IntoView {
    let page = page_of();
    let tab = move |dock: Dock, title: &'static str, id: &'static str| {
        view! {
            <button role="tab" data-testid=id aria-selected=move || (page.dock.get() == dock).to_string()
                tabindex=move || if page.dock.get() == dock { "0" } else { "-1" }
                on:click=move |_| { page.dock.set(dock); if dock == Dock::Model { page.live.wake(); } }>{title}</button>
        }
    };
    view! {
        <section class="dock" aria-label="Costs and model">
            <div class="bar"><div class="tabs" role="tablist" aria-label="Dock" on:keydown=crate::controls::tab_keys>{tab(Dock::Costs, "Costs", "dock-costs")}{tab(Dock::Model, "Model", "dock-model")}</div>
                {move || match page.dock.get() {
                    Dock::Costs => view! { <Sentence/><Key/> }.into_any(),
                    Dock::Model => view! { <span class="say muted">"Load reads a model for both sides. It is read by this browser and stays in it."</span> }.into_any(),
                }}
                <button class="btn quiet inspect" on:click=move |_| page.drawer.update(|open| *open = !*open)>"Inspector"</button>
            </div>
            {move || match page.dock.get() {
                Dock::Costs => view! { <Sections/> }.into_any(),
                Dock::Model => view! { <ModelPanel/> }.into_any(),
            }}
        </section>
    }
}

/// Narrow layout: the selected token, the costs, and the panes.
#[component]
fn Sheet() -> impl IntoView {
    let page = page_of();
    let token = move || {
        let document = page.document.get();
        let found = page
            .spot
            .get()
            .and_then(|spot| Some((spot, spot.index(&document)?)))
            .and_then(|(spot, index)| {
                Some((
                    spot.side,
                    index,
                    document.side(spot.side).tokens().get(index)?,
                ))
            });
        let Some((side, index, token)) = found else {
            return view! { <div class="tokline"><span class="muted">"Tap a token to see what it is."</span></div> }.into_any();
        };
        let what = match token.frame_kind {
            Some(kind) => format!(
                "{} of {}",
                if token.special.is_some() {
                    "marker"
                } else {
                    "content"
                },
                kind.name()
            ),
            None => {
                if Tone::of_token(token) == Tone::Template {
                    "template".to_owned()
                } else {
                    "structure".to_owned()
                }
            }
        };
        let trained = match (token.label.is_some(), token.given) {
            (true, true) => "trained, yet given",
            (true, false) => "trained",
            _ => "context",
        };
        view! {
            <div class=format!("tokline {}", Tone::of_token(token).class())><span class="piece" class:m=token.owner == formats::Owner::Model class:t=token.label.is_some()>{parts(&token.text)}</span>
                <span class="what"><span><b class="mono">{token.id}</b>" "{side.plate()}", token "{index}</span><span class="muted">{what}", "{token.owner.name()}", "{trained}</span></span>
                <button class="btn right" on:click=move |_| page.drawer.set(true)>"Inspect"</button></div>
        }
        .into_any()
    };
    let at = move |pane: Pane, view: Option<View>, dock: Option<Dock>| {
        page.pane.get() == pane
            && view.is_none_or(|view| page.view(Side::A).get() == view)
            && dock.is_none_or(|dock| page.dock.get() == dock)
    };
    let tab = move |title: &'static str, pane: Pane, view: Option<View>, dock: Option<Dock>| {
        view! {
            <button aria-current=move || at(pane, view, dock).then_some("true") data-testid=format!("pane-{}", title.to_lowercase())
                on:click=move |_| {
                    page.pane.set(pane);
                    page.editing.set(None);
                    if let Some(view) = view {
                        for side in Side::BOTH { page.show(side, view); }
                    }
                    if let Some(dock) = dock {
                        page.dock.set(dock);
                        if dock == Dock::Model { page.live.wake(); }
                    }
                }>{title}</button>
        }
    };
    view! {
        <section class="sheet" aria-label="Selected token and panes">
            <Show when=move || page.pane.get() == Pane::Sides && page.view(Side::A).get() != View::Live>{token}<Bars/></Show>
            <nav class="tabbar" aria-label="Panes">
                {tab("Edit", Pane::Edit, None, None)}{tab("Wire", Pane::Sides, Some(View::Wire), None)}{tab("Tokens", Pane::Sides, Some(View::Tokens), None)}
                {tab("Live", Pane::Sides, Some(View::Live), None)}{tab("Costs", Pane::Dock, None, Some(Dock::Costs))}{tab("Model", Pane::Dock, None, Some(Dock::Model))}
            </nav>
        </section>
    }
}
