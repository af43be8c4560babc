//! The masthead: name, rooms, sample, engine, sharing, help, theme.

use crate::dom;
use crate::share::ShareButtons;
use crate::state::{Page, Room, page};
use leptos::html::Div;
use leptos::prelude::*;

/// Where the chosen theme is kept.
const KEPT: &str = "theme";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    System,
    Light,
    Dark,
}

impl Theme {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::System => Self::Light,
            Self::Light => Self::Dark,
            Self::Dark => Self::System,
        }
    }

    fn kept() -> Self {
        match dom::kept(KEPT).as_deref() {
            Some("light") => Self::Light,
            Some("dark") => Self::Dark,
            _ => Self::System,
        }
    }

    fn apply(self) {
        if let Some(root) = document().document_element() {
            let _ = match self {
                Self::System => root.remove_attribute("data-theme"),
                _ => root.set_attribute("data-theme", self.name()),
            };
        }
        dom::keep(KEPT, (self != Self::System).then(|| self.name()));
    }
}

/// The masthead.
#[component]
pub fn Top() -> impl IntoView {
    let page = page();
    let theme = RwSignal::new(Theme::kept());
    let turn = move |_| {
        theme.update(|theme| *theme = theme.next());
        theme.get_untracked().apply();
    };
    let options = move || {
        // Domains in the order in which they first come; a sample's value is its place in the list.
        let mut domains: Vec<(String, Vec<_>)> = Vec::new();
        for (at, sample) in page.samples.get().into_iter().enumerate() {
            let option = view! { <option value=at.to_string() title=sample.about prop:selected=move || page.sample.get() == at>{sample.title}</option> };
            match domains
                .iter_mut()
                .find(|(domain, _)| *domain == sample.domain)
            {
                Some((_, options)) => options.push(option),
                None => domains.push((sample.domain, vec![option])),
            }
        }
        let domains = domains
            .into_iter()
            .map(|(domain, options)| view! { <optgroup label=domain>{options}</optgroup> })
            .collect_view();
        // What was imported, or came by a link, is no sample.
        let own = (page.sample.get() >= page.samples.read().len())
            .then(|| view! { <option value="" selected=true>"Your own"</option> });
        view! { {own}{domains} }
    };
    let engine = move || {
        let live = page.live;
        let going = live.going();
        let names = live
            .loaded()
            .into_iter()
            .map(|(sides, model)| match sides[..] {
                [side] => format!("{} {}", side.plate(), model.name),
                _ => model.name.clone(),
            })
            .collect::<Vec<_>>()
            .join(", ");
        if let Some(side) = going {
            let name = live.model(side).map_or(String::new(), |m| m.name.clone());
            return (true, true, format!("{name}, side {} running", side.plate()));
        }
        if let Some(load) = &*live.load.read() {
            let share = load.share();
            let share = share.map_or(String::new(), |share| format!(", {share:.0} %"));
            return (false, true, format!("loading a model{share}"));
        }
        if names.is_empty() {
            (false, false, "no model loaded".to_owned())
        } else if live.gpu_lost.iter().any(|lost| lost.get()) {
            (false, false, format!("{names}, GPU lost"))
        } else {
            (true, false, format!("{names} ready"))
        }
    };
    view! {
        <header class="top">
            <h1 class="brand"><a href="./">"AgenticML "<span>"Playground"</span></a></h1>
            <nav class="tabs rooms no-narrow" aria-label="Rooms">{rooms(page, "room")}</nav>
            <label class="sel sample" class:gone=move || page.room.get() != Room::Compare><span class="muted">"Sample"</span><select aria-label="Sample" data-testid="sample"
                on:change=move |event| if let Ok(at) = event_target_value(&event).parse() { crate::samples::open(page, at) }>{options}</select></label>
            <span class="history wide" class:gone=move || page.room.get() != Room::Compare><crate::editor::UndoRedo/></span>
            <span class="right state wide" class:run=move || engine().1 title=move || engine().2>{move || engine().0.then(|| view! { <span class="dot"></span> })}<span class="cut">{move || engine().2}</span></span>
            <ShareButtons/>
            <crate::live::RunBoth/>
            <button class="btn quiet wide about" data-testid="about" on:click=move |_| page.about.set(true)>"About"</button>
            <Menu/>
            <button class="btn quiet no-narrow" aria-label="Keys and looks" title="Keys and looks (?)" data-testid="help" on:click=move |_| page.help.set(true)><b class="qm">"?"</b></button>
            <button class="btn quiet theme" data-testid="theme" aria-label=move || format!("Theme: {}", theme.get().name()) title=move || format!("Theme: {}", theme.get().name()) on:click=turn>
                <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true"><circle cx="7" cy="7" r="5.8" fill="none" stroke="currentColor" stroke-width="1.4"/>
                    <path d=move || match theme.get() { Theme::System => "M7 1.2a5.8 5.8 0 0 1 0 11.6z", Theme::Light => "M7 4.2a2.8 2.8 0 1 1 0 5.6a2.8 2.8 0 1 1 0-5.6z", Theme::Dark => "M7 1.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 1 1 0-11.6z" } fill="currentColor"/></svg>
            </button>
        </header>
    }
}

/// The rooms as links; `id` begins their test ids.
fn rooms(page: Page, id: &'static str) -> impl IntoView {
    [
        (Room::Compare, "#", "Compare"),
        (Room::Lessons, "#lessons", "Lessons"),
        (Room::Models, "#models", "Models"),
    ]
    .map(|(room, address, title)| {
        view! { <a href=address data-testid=format!("{id}-{}", title.to_lowercase()) aria-current=move || (page.room.get() == room).then_some("page")>{title}</a> }
    })
    .collect_view()
}

/// Narrow layout: the rooms, and what else the masthead has no place for.
#[component]
fn Menu() -> impl IntoView {
    let page = page();
    let menu = NodeRef::<Div>::new();
    let close = move || {
        if let Some(menu) = menu.get_untracked() {
            // Fails where it is closed already.
            let _ = menu.hide_popover();
        }
    };
    let entry = move |title: &'static str, id: &'static str, open: RwSignal<bool>| {
        view! { <button class="btn quiet" data-testid=id on:click=move |_| { close(); open.set(true); }>{title}</button> }
    };
    view! {
        <button class="btn quiet only-narrow" popovertarget="rooms-menu" data-testid="rooms-menu-button">"Rooms"</button>
        <div id="rooms-menu" class="rooms-menu" popover="auto" node_ref=menu data-testid="rooms-menu">
            <nav aria-label="Rooms" on:click=move |_| close()>{rooms(page, "menu")}</nav>
            {entry("Share and keep", "menu-share", page.share.open)}
            {entry("Keys and looks", "menu-help", page.help)}
            {entry("About", "menu-about", page.about)}
        </div>
    }
}
