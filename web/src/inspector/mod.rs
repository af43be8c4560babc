//! The inspector: what a token, a frame or a message is, why it is or is not trained, and what content
//! forges.

mod frame;
mod report;
mod token;

use crate::controls::Switch;
use crate::costs::Section;
use crate::icons;
use crate::state::{Link, Page, Spot, View, page};
use leptos::prelude::*;
use report::{Report, ReportLine};

pub use report::{ForgedState, forged};

/// What costs and inspector show beside what is lit up.
#[derive(Clone, Copy)]
pub struct Explain {
    /// The section of the costs.
    pub section: RwSignal<Section>,
    /// Whether the inspector shows the injection report.
    pub report: RwSignal<bool>,
}

impl Explain {
    /// The state at the start.
    pub fn new() -> Self {
        Self {
            section: RwSignal::new(Section::Kinds),
            report: RwSignal::new(false),
        }
    }
}

/// The right pane.
#[component]
pub fn Inspector() -> impl IntoView {
    let page = page();
    let title = move || {
        if page.explain.report.get() {
            return "both sides".to_owned();
        }
        if let Some((side, at)) = crate::live::inspected(page) {
            let newest =
                page.written.read().is_none() && crate::live::newest(page) == Some((side, at));
            return match newest {
                true => format!("{}, newest token", side.plate()),
                false => format!("{}, written token {at}", side.plate()),
            };
        }
        let document = page.document.get();
        match (
            inspected(page).and_then(|spot| Some((spot.side, spot.index(&document)?))),
            page.link.get(),
        ) {
            (Some((side, index)), _) => format!("{}, token {index}", side.plate()),
            (None, Some(Link::Frame(frame))) => format!("frame {frame}"),
            (None, Some(Link::Message(message))) => format!("message {message}"),
            (None, None) => String::new(),
        }
    };
    let live = move || page.views.iter().any(|view| view.get() == View::Live);
    let body = move || {
        if page.explain.report.get() {
            return view! { <Report/> }.into_any();
        }
        if let Some((side, at)) = crate::live::inspected(page) {
            return view! { <crate::live::WrittenToken side at/> }.into_any();
        }
        let document = page.document.get();
        match inspected(page).and_then(|spot| Some((spot, spot.index(&document)?))) {
            Some((spot, index)) => token::view_of(&document, spot, index),
            None => match page.link.get() {
                Some(Link::Frame(frame)) => frame::view_of(&document, frame),
                Some(Link::Message(message)) => frame::message(&document, message),
                None => view! { <section><p class="muted">"Point at a token, or choose one, to see its id, its bytes, whose it is, and whether a model is trained on it."</p></section> }.into_any(),
            },
        }
    };
    view! {
        <aside class="pane r" aria-label="Inspector">
            <div class="bar"><h2>"Inspector"</h2><span class="muted">{title}</span>
                <span class="right steps"><Show when=live><Switch label="Follow" title="Explain the newest token while a side writes" value=page.live.follow/></Show><button class="btn quiet" aria-label="Previous token" title="Previous token" on:click=move |_| crate::keys::step(page, -1)>"←"</button>
                    <button class="btn quiet" aria-label="Next token" title="Next token" on:click=move |_| crate::keys::step(page, 1)>"→"</button>
                    <button class="btn quiet close" aria-label="Close" on:click=move |_| page.drawer.set(false)>{icons::cross()}</button></span></div>
            <div class="insp" data-testid="inspector">{body}
                <section class="keys-box"><ReportLine/><div class="keys"><span><kbd>"↑↓"</kbd>" frame"</span><span><kbd>"←→"</kbd>" token"</span><span><kbd>"X"</kbd>" other side"</span>
                    <span><kbd>"P"</kbd>" pin"</span><span><kbd>"M"</kbd>" mask"</span><span><kbd>"?"</kbd>" all keys"</span></div>
                    <p class="built">"Llama 3.1 vocabulary. "<a href="licences/llama-vocabulary.txt">"Built with Llama"</a></p></section>
            </div>
        </aside>
    }
}

/// The token to explain. A message that is pointed at comes before a token that is only selected.
fn inspected(page: Page) -> Option<Spot> {
    match (page.hover_spot.get(), page.hover.get()) {
        (None, Some(Link::Message(_))) => None,
        _ => page.inspected(),
    }
}
