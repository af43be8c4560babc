//! The room of lessons: their list, and one page of a lesson, large, as a presenter shows it. What they
//! say and show is data of the site.

mod data;
mod panels;
mod stage;
mod words;

use crate::document::{Document, Side};
use crate::dom;
use crate::samples;
use crate::state::{Page, Room, Shared, View, page};
use data::{Entry, Lesson, Panel, Source};
use formats::Trajectory;
use leptos::ev::KeyboardEvent;
use leptos::prelude::*;
use leptos::task::spawn_local;
use stage::Stage;
use wasm_bindgen::JsValue;

/// Where in the room an address leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To the list.
    List,
    /// To a page of a lesson, counted from 1.
    Page(String, usize),
}

impl Place {
    /// Reads what follows the hash sign: `lessons`, `lessons/ID` or `lessons/ID/N`.
    pub fn read(hash: &str) -> Option<Self> {
        let rest = hash.trim_start_matches('#').strip_prefix("lessons")?;
        if rest.is_empty() || rest == "/" {
            return Some(Self::List);
        }
        let mut parts = rest.strip_prefix('/')?.splitn(2, '/');
        let id = parts.next()?.to_owned();
        let number = parts.next().and_then(|number| number.parse().ok());
        Some(Self::Page(id, number.unwrap_or(1)))
    }

    fn hash(&self) -> String {
        match self {
            Self::List => "#lessons".to_owned(),
            Self::Page(id, number) => format!("#lessons/{id}/{number}"),
        }
    }
}

/// A lesson with the trajectories of its pages.
struct Ready {
    lesson: Lesson,
    trajectories: Vec<Trajectory>,
}

/// Something of the site that is read once.
enum Fetched<T: 'static> {
    /// Not there yet.
    Coming,
    /// There.
    There(Shared<T>),
    /// Why it is not.
    Failed(String),
}

impl<T> Clone for Fetched<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Coming => Self::Coming,
            Self::There(it) => Self::There(it.clone()),
            Self::Failed(why) => Self::Failed(why.clone()),
        }
    }
}

impl<T> PartialEq for Fetched<T> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Coming, Self::Coming) => true,
            (Self::There(a), Self::There(b)) => a == b,
            (Self::Failed(a), Self::Failed(b)) => a == b,
            _ => false,
        }
    }
}

/// What the playground showed before a page of a lesson was opened in it.
#[derive(Clone, PartialEq)]
struct Before {
    trajectory: Trajectory,
    sample: usize,
    views: [View; 2],
    mask: [bool; 2],
    pin: Option<usize>,
    /// What the lesson put in its place.
    opened: Trajectory,
    /// The page of the lesson.
    from: Place,
}

/// What the room keeps while others are shown.
#[derive(Clone, Copy)]
pub struct Lessons {
    place: RwSignal<Place>,
    list: RwSignal<Fetched<Vec<Entry>>>,
    /// The last lesson that was asked for, by its name.
    lesson: RwSignal<(String, Fetched<Ready>)>,
    before: RwSignal<Option<Before>>,
}

impl Lessons {
    /// Nothing fetched yet.
    pub fn new() -> Self {
        Self {
            place: RwSignal::new(Place::List),
            list: RwSignal::new(Fetched::Coming),
            lesson: RwSignal::new((String::new(), Fetched::Coming)),
            before: RwSignal::new(None),
        }
    }

    /// Follows an address. One that leads elsewhere changes nothing here.
    pub fn go(self, hash: &str) {
        let Some(place) = Place::read(hash) else {
            return;
        };
        self.fetch_list();
        if let Place::Page(id, _) = &place {
            self.fetch(id);
        }
        self.place.set(place);
    }

    /// Whether a page of a lesson takes the whole window.
    pub fn presents(self, page: Page) -> bool {
        page.room.get() == Room::Lessons && matches!(&*self.place.read(), Place::Page(..))
    }

    fn fetch_list(self) {
        if matches!(&*self.list.read_untracked(), Fetched::There(_)) {
            return;
        }
        spawn_local(async move {
            let read = async {
                let text = samples::text(&format!("{}index.json", folder())).await?;
                data::read_list(&text).map_err(|error| format!("index.json, {error}"))
            };
            self.list.set(match read.await {
                Ok(list) => Fetched::There(Shared::new(list)),
                Err(error) => Fetched::Failed(error),
            });
        });
    }

    fn fetch(self, id: &str) {
        let there = self
            .lesson
            .with_untracked(|(known, read)| known == id && !matches!(read, Fetched::Failed(_)));
        if there {
            return;
        }
        let id = id.to_owned();
        self.lesson.set((id.clone(), Fetched::Coming));
        spawn_local(async move {
            let read = match ready(&id).await {
                Ok(ready) => Fetched::There(Shared::new(ready)),
                Err(error) => Fetched::Failed(error),
            };
            // Another may have been asked for while this one came.
            if self.lesson.with_untracked(|(known, _)| *known == id) {
                self.lesson.set((id, read));
            }
        });
    }

    /// The lesson that is shown, and the number of its page, within bounds.
    fn shown(self) -> Option<(Shared<Ready>, usize)> {
        let Place::Page(id, number) = self.place.get() else {
            return None;
        };
        self.lesson.with(|(known, read)| match read {
            Fetched::There(ready) if *known == id => {
                Some((ready.clone(), number.clamp(1, ready.lesson.pages.len())))
            }
            _ => None,
        })
    }

    /// The lesson's place in the list, counted from 1, and how many there are.
    fn position(self, id: &str) -> Option<(usize, usize)> {
        self.list.with(|read| match read {
            Fetched::There(list) => {
                let at = list.iter().position(|entry| entry.id == id)?;
                Some((at + 1, list.len()))
            }
            _ => None,
        })
    }

    /// The lesson after this one.
    fn after(self, id: &str) -> Option<Entry> {
        let (at, _) = self.position(id)?;
        self.list.with(|read| match read {
            Fetched::There(list) => list.get(at).cloned(),
            _ => None,
        })
    }

    /// Turns to a page of the lesson. The address follows, without a step in the browser's history: its
    /// back button leaves the lesson.
    fn turn_to(self, number: usize) {
        let Some((ready, _)) = untrack(|| self.shown()) else {
            return;
        };
        let number = number.clamp(1, ready.lesson.pages.len());
        let place = Place::Page(ready.lesson.id.clone(), number);
        if let Ok(history) = window().history() {
            // Refused only where the page is no document of its own; then the address stays behind.
            let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&place.hash()));
        }
        self.place.set(place);
    }

    fn next(self) {
        if let Some((ready, number)) = untrack(|| self.shown()) {
            if number < ready.lesson.pages.len() {
                self.turn_to(number + 1);
            } else {
                let after = untrack(|| self.after(&ready.lesson.id));
                go_to(&after.map_or(Place::List, |entry| Place::Page(entry.id, 1)));
            }
        }
    }

    fn back(self) {
        if let Some((_, number)) = untrack(|| self.shown()) {
            if number > 1 {
                self.turn_to(number - 1);
            } else {
                go_to(&Place::List);
            }
        }
    }

    /// Keys that turn pages; whether this was one.
    pub fn key(self, event: &KeyboardEvent) -> bool {
        let Some((ready, number)) = untrack(|| self.shown()) else {
            return false;
        };
        let pages = ready.lesson.pages.len();
        // Space presses the control that has the focus.
        let on_control = dom::element(event.target())
            .is_some_and(|element| dom::closest(&element, "button,a").is_some());
        match event.key().as_str() {
            "ArrowRight" | "ArrowDown" | "PageDown" => self.next(),
            " " if !on_control && !event.shift_key() => self.next(),
            "ArrowLeft" | "ArrowUp" | "PageUp" if number > 1 => self.turn_to(number - 1),
            " " if !on_control && number > 1 => self.turn_to(number - 1),
            // On the first page there is nothing to turn back to; the list is a button away.
            "ArrowLeft" | "ArrowUp" | "PageUp" => {}
            "Home" => self.turn_to(1),
            "End" => self.turn_to(pages),
            _ => return false,
        }
        true
    }

    /// The escape key: from a page into the playground, with what the page shows.
    pub fn escape(self, page: Page) {
        if matches!(&*self.place.read_untracked(), Place::Page(..)) {
            self.open(page);
        }
    }

    /// Opens what the page shows in the playground. What was there is kept, see [`Return`].
    fn open(self, page: Page) {
        if let Some((ready, number)) = untrack(|| self.shown())
            && let Some(sheet) = ready.lesson.pages.get(number - 1)
            && let Some(trajectory) = sheet.trajectory.and_then(|at| ready.trajectories.get(at))
        {
            self.keep(page, trajectory);
            page.open(trajectory.clone());
            for side in Side::BOTH {
                page.show(side, view_of(&sheet.panels, side));
                page.mask[side.index()].set(sheet.mask);
            }
            page.sample.set(usize::MAX);
            page.pin.set(sheet.pin);
            page.select_first();
        }
        go_to_hash("#");
    }

    /// Keeps what the playground shows, unless that came from a lesson and was not touched since.
    fn keep(self, page: Page, trajectory: &Trajectory) {
        let now = page.trajectory.get_untracked();
        let from = self.place.get_untracked();
        self.before.update(|before| match before {
            Some(before) if before.opened == now => {
                before.opened = trajectory.clone();
                before.from = from;
            }
            _ => {
                *before = Some(Before {
                    trajectory: now,
                    sample: page.sample.get_untracked(),
                    views: page.views.map(|view| view.get_untracked()),
                    mask: page.mask.map(|mask| mask.get_untracked()),
                    pin: page.pin.get_untracked(),
                    opened: trajectory.clone(),
                    from,
                });
            }
        });
    }

    /// Shows again what the playground showed before.
    fn restore(self, page: Page) {
        let Some(before) = self.before.get_untracked() else {
            return;
        };
        self.before.set(None);
        page.open(before.trajectory);
        for side in Side::BOTH {
            page.show(side, before.views[side.index()]);
            page.mask[side.index()].set(before.mask[side.index()]);
        }
        page.sample.set(before.sample);
        page.pin.set(before.pin);
        page.select_first();
        page.spoken
            .set("What you had before the lesson is back.".to_owned());
    }
}

/// The view of a side that a page's panels ask for.
fn view_of(panels: &[Panel], side: Side) -> View {
    let units = panels.iter().any(|panel| match panel {
        Panel::Units { side: of, .. } => *of == side,
        Panel::Facing => true,
        _ => false,
    });
    if units { View::Units } else { View::Tokens }
}

fn folder() -> String {
    dom::setting("data-lessons").unwrap_or_else(|| "lessons/".to_owned())
}

/// Goes to an address of this page, as a link does.
fn go_to_hash(hash: &str) {
    // Fails only for an address that is none.
    let _ = window().location().set_hash(hash);
}

fn go_to(place: &Place) {
    go_to_hash(&place.hash());
}

/// Fetches a lesson and the samples it shows.
async fn ready(id: &str) -> Result<Ready, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() || !id.chars().all(plain) {
        return Err("There is no lesson of this name.".to_owned());
    }
    let text = samples::text(&format!("{}{id}.json", folder())).await?;
    let lesson = data::read(&text).map_err(|error| format!("{id}.json, {error}"))?;
    if lesson.id != id {
        return Err(format!("{id}.json, id: it is \"{}\"", lesson.id));
    }
    let mut trajectories = Vec::new();
    for source in &lesson.trajectories {
        trajectories.push(match source {
            Source::Frames(trajectory) => trajectory.clone(),
            Source::Sample(file) => {
                let text = samples::text(&format!("{}{file}", samples::folder())).await?;
                Trajectory::parse(&text).map_err(|error| format!("{file}, {error}"))?
            }
        });
    }
    for (at, sheet) in lesson.pages.iter().enumerate() {
        if let Some(trajectory) = sheet.trajectory.and_then(|at| trajectories.get(at)) {
            sheet
                .fits(trajectory)
                .map_err(|error| format!("{id}.json, pages[{at}]: {error}"))?;
        }
    }
    Ok(Ready {
        lesson,
        trajectories,
    })
}

/// The room.
#[component]
pub fn LessonsRoom() -> impl IntoView {
    let page = page();
    let presents = Memo::new(move |_| page.lessons.presents(page));
    move || {
        if presents.get() {
            view! { <Stage/> }.into_any()
        } else {
            view! { <List/> }.into_any()
        }
    }
}

#[component]
fn List() -> impl IntoView {
    let page = page();
    let body = move || {
        match page.lessons.list.get() {
        Fetched::Coming => view! { <p class="muted" role="status">"Reading the lessons …"</p> }.into_any(),
        Fetched::Failed(why) => view! { <p class="trouble" role="alert"><b>"The lessons could not be read."</b>" "{why}</p> }.into_any(),
        Fetched::There(list) => {
            let items = list
                .iter()
                .enumerate()
                .map(|(at, entry)| {
                    let pages = crate::words::count(entry.pages, "page");
                    view! {
                        <li><a href=Place::Page(entry.id.clone(), 1).hash() data-testid=format!("lesson-{}", entry.id)>
                            <span class="n" aria-hidden="true">{at + 1}</span>
                            <span class="what"><b>{entry.title.clone()}</b><span>{entry.about.clone()}</span></span>
                            <span class="pages">{pages}</span>
                        </a></li>
                    }
                })
                .collect_view();
            view! { <ol class="tours">{items}</ol> }.into_any()
        }
    }
    };
    view! {
        <main class="page lessons-list" data-testid="lessons-list">
            <h1>"Lessons"</h1>
            <p class="lede">"Short tours, a page at a time, made to be shown to a room. Arrow keys turn the page; "<kbd class="k">"Esc"</kbd>" opens what a page shows in the playground."</p>
            {body}
        </main>
    }
}

/// After a page of a lesson was opened: the way back to the lesson, and to what was there before.
#[component]
pub fn Return() -> impl IntoView {
    let page = page();
    let lessons = page.lessons;
    let shown = move || page.room.get() == Room::Compare && lessons.before.read().is_some();
    let from = move || {
        lessons
            .before
            .with(|before| before.as_ref().map(|before| before.from.hash()))
    };
    view! {
        <Show when=shown>
            <aside class="return" aria-label="From a lesson" data-testid="lesson-return">
                <span class="muted">"This came from a lesson."</span>
                <a class="btn" href=from>"Back to the lesson"</a>
                <button class="btn" data-testid="lesson-restore" on:click=move |_| lessons.restore(page)>"Back to what you had"</button>
                <button class="btn quiet" aria-label="Keep this and close the note" title="Keep this" on:click=move |_| lessons.before.set(None)>{crate::icons::cross()}</button>
            </aside>
        </Show>
    }
}

/// All that is shown of a page's trajectory.
fn document_of(page: Page, trajectory: &Trajectory) -> Document {
    Document::new(
        trajectory.clone(),
        page.tokenizer.get().as_deref(),
        &mut Default::default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Place::read("#lessons"), Some(Place::List));
        assert_eq!(Place::read("#lessons/"), Some(Place::List));
        let page = |id: &str, number| Some(Place::Page(id.to_owned(), number));
        assert_eq!(Place::read("#lessons/owners/3"), page("owners", 3));
        assert_eq!(Place::read("#lessons/owners"), page("owners", 1));
        assert_eq!(Place::read("#lessons/owners/x"), page("owners", 1));
        assert_eq!(Place::read("#lessonsx"), None);
        assert_eq!(Place::read("#models"), None);
        let place = Place::Page("wires".to_owned(), 2);
        assert_eq!(Place::read(&place.hash()), Some(place));
    }
}
