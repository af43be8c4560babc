//! Sharing and keeping: links that hold the state, work that this browser keeps, pictures, tables.

mod dialog;
mod files;
mod keep;
mod link;
mod notice;
mod offline;
mod palette;
mod picture;
mod snapshot;
mod table;

pub use dialog::{ShareButtons, ShareDialog};
pub use notice::Notices;

use crate::document::Side;
use crate::samples;
use crate::state::{Page, View};
use crate::words;
use engine::protocol::Sampling;
use formats::Trajectory;
use keep::{Entry, Tab};
use leptos::prelude::*;
use snapshot::{Drawing, Shown, Snapshot, Work};
use std::time::Duration;

/// How long after the last change work is kept.
const PAUSE: Duration = Duration::from_millis(600);

/// What is said beside the page, until someone closes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Work of an earlier visit is shown.
    Restored,
    /// A link was followed; perhaps there is work from before it.
    Linked(bool),
    /// The sample is shown again; what was there is kept.
    StartedOver,
    /// Something did not go as asked: what, and why.
    Trouble(&'static str, String),
}

/// What sharing and keeping know.
#[derive(Clone, Copy)]
pub struct Share {
    /// Whether the dialog is open.
    pub open: RwSignal<bool>,
    /// What is said beside the page.
    pub notice: RwSignal<Option<Notice>>,
    /// Whether a newer version of the page is ready to be used.
    pub newer: RwSignal<bool>,
    /// Work from before, newest first.
    pub kept: RwSignal<Vec<Entry>>,
    /// The sample that was opened last, as it came, and its file.
    sample: StoredValue<Option<(String, Trajectory)>>,
    /// The sample that was asked for last.
    expected: StoredValue<String>,
    tab: StoredValue<Tab>,
    /// Tells this load of the page from others.
    writer: StoredValue<String>,
    /// The state of a first visit, which is not worth keeping.
    first: StoredValue<Option<Snapshot>>,
    /// Whether something changed since it was last kept.
    changed: StoredValue<bool>,
    /// Whether a refusal was said already.
    refused: StoredValue<bool>,
}

impl Share {
    /// Nothing said, nothing kept.
    pub fn new() -> Self {
        Self {
            open: RwSignal::new(false),
            notice: RwSignal::new(None),
            newer: RwSignal::new(false),
            kept: RwSignal::new(Vec::new()),
            sample: StoredValue::new(None),
            expected: StoredValue::new(String::new()),
            tab: StoredValue::new(Tab::fresh()),
            writer: StoredValue::new(String::new()),
            first: StoredValue::new(None),
            changed: StoredValue::new(false),
            refused: StoredValue::new(false),
        }
    }

    /// Notes which sample is shown, so that a link to it stays short.
    pub fn is_sample(self, file: &str, trajectory: &Trajectory) {
        self.sample
            .set_value(Some((file.to_owned(), trajectory.clone())));
    }

    /// Notes which sample is asked for; it may take a while to come.
    pub fn expect(self, file: &str) {
        self.expected.set_value(file.to_owned());
    }

    /// Whether this sample is still wanted.
    pub fn expects(self, file: &str) -> bool {
        self.expected.with_value(|expected| expected == file)
    }

    /// The file of the sample that is shown, unless it was edited.
    pub fn shown_sample(self, trajectory: &Trajectory) -> Option<String> {
        self.sample.with_value(|sample| {
            sample
                .as_ref()
                .filter(|(_, original)| original == trajectory)
                .map(|(file, _)| file.clone())
        })
    }
}

/// Starts: shows what a link or an earlier visit holds, and keeps what changes from now on.
pub fn start(page: Page) {
    let share = page.share;
    share.writer.set_value(Tab::fresh().name());
    page.trajectory
        .with_untracked(|trajectory| share.is_sample(samples::FIRST_FILE, trajectory));
    share.first.set_value(Some(untrack(|| capture(page))));
    let linked = follow(page);
    if !linked {
        restore(page);
    }
    watch(page);
    let links = window_event_listener(leptos::ev::hashchange, move |_| {
        follow(page);
    });
    on_cleanup(move || links.remove());
    offline::register(share);
}

/// The state as it is.
fn capture(page: Page) -> Snapshot {
    let trajectory = page.trajectory.get();
    let work = match page.share.shown_sample(&trajectory) {
        Some(file) => Work::Sample(file),
        None => Work::Own {
            title: title(page),
            trajectory,
        },
    };
    let sampling = page.live.sampling.get();
    Snapshot {
        work,
        sides: Side::BOTH.map(|side| Shown {
            view: page.view(side).get(),
            mask: page.mask[side.index()].get(),
            ids: page.ids[side.index()].get(),
        }),
        readable: page.readable.get(),
        pin: page.pin.get(),
        drawing: Some(Drawing {
            greedy: page.live.greedy.get(),
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: sampling.seed,
            max_tokens: page.live.max_tokens.get(),
        }),
    }
}

/// What the work is called: its sample's title, or the start of its mission.
fn title(page: Page) -> String {
    let sample = page.samples.read_untracked();
    if let Some(sample) = sample.get(page.sample.get_untracked()) {
        return sample.title.clone();
    }
    let trajectory = page.trajectory.read_untracked();
    let mission = trajectory
        .frames
        .iter()
        .find(|frame| frame.kind == formats::FrameKind::Mission);
    match mission.and_then(|frame| frame.content.as_str()) {
        Some(text) if !text.trim().is_empty() => crate::pieces::one_line(text.trim(), 60),
        _ => "Your own".to_owned(),
    }
}

/// Shows a state.
fn apply(page: Page, state: Snapshot) {
    for side in Side::BOTH {
        let shown = state.sides[side.index()];
        page.mask[side.index()].set(shown.mask);
        page.ids[side.index()].set(shown.ids);
        page.show(side, shown.view);
    }
    page.readable.set(state.readable);
    if let Some(drawing) = state.drawing {
        page.live.greedy.set(drawing.greedy);
        page.live.max_tokens.set(drawing.max_tokens.min(8192));
        page.live.sampling.set(Sampling {
            temperature: drawing.temperature,
            top_k: drawing.top_k,
            top_p: drawing.top_p,
            min_p: drawing.min_p,
            seed: drawing.seed,
        });
    }
    let pin = state.pin;
    let pinned = move || {
        let frames = page.trajectory.read_untracked().frames.len();
        page.pin.set(pin.filter(|&pin| pin < frames));
        page.select_first();
    };
    match state.work {
        Work::Own { trajectory, .. } => {
            page.share.expect("");
            page.open(trajectory);
            page.sample.set(usize::MAX);
            pinned();
        }
        Work::Sample(file) => samples::open_file(page, file, pinned),
    }
}

/// Follows the address if it holds a state. Whether it does and could be read.
fn follow(page: Page) -> bool {
    let hash = window().location().hash().unwrap_or_default();
    let Some(payload) = hash
        .strip_prefix('#')
        .and_then(|hash| hash.strip_prefix("s="))
    else {
        return false;
    };
    let share = page.share;
    let state = link::unpack(payload)
        .and_then(|text| Snapshot::from_text(&text).map_err(link::Refused::Content));
    let state = match state {
        Ok(state) => state,
        Err(refused) => {
            share.notice.set(Some(Notice::Trouble(
                "The link was not followed.",
                refused.words(),
            )));
            return false;
        }
    };
    // What was here stays under the id that it had.
    save(page);
    let (kept, _) = keep::all();
    renew(share);
    share.notice.set(Some(Notice::Linked(!kept.is_empty())));
    share.kept.set(kept);
    apply(page, state.clone());
    // Kept at once, so that the address can go: a reload then shows the same, and later edits of it too.
    let title = match &state.work {
        Work::Own { title, .. } => title.clone(),
        Work::Sample(_) => title(page),
    };
    if keep::write(&entry(share, title, state)).is_ok() {
        let bare = window()
            .location()
            .pathname()
            .ok()
            .zip(window().location().search().ok());
        if let (Ok(history), Some((path, search))) = (window().history(), bare) {
            let _ = history.replace_state_with_url(
                &wasm_bindgen::JsValue::NULL,
                "",
                Some(&format!("{path}{search}")),
            );
        }
    }
    true
}

/// From now on the tab writes an entry of its own.
fn renew(share: Share) {
    let tab = Tab::fresh();
    tab.note();
    share.tab.set_value(tab);
    share.changed.set_value(false);
}

fn entry(share: Share, title: String, state: Snapshot) -> Entry {
    Entry {
        name: share.tab.with_value(Tab::name),
        saved: js_sys::Date::now(),
        writer: share.writer.get_value(),
        title,
        state,
    }
}

/// Shows what this tab, or else the last one, had.
fn restore(page: Page) {
    let share = page.share;
    let (entries, trouble) = keep::all();
    if let Some(why) = trouble {
        share.notice.set(Some(Notice::Trouble(
            "Kept work could not be restored.",
            format!("The page starts without it: {why}."),
        )));
    }
    let own = Tab::noted().and_then(|tab| {
        let entry = entries.iter().find(|entry| entry.name == tab.name());
        entry.cloned().map(|entry| (tab, entry))
    });
    let found = match own {
        Some((tab, entry)) => {
            share.tab.set_value(tab);
            Some(entry)
        }
        None => {
            share.tab.with_value(Tab::note);
            entries.first().cloned()
        }
    };
    let name = share.tab.with_value(Tab::name);
    share.kept.set(
        entries
            .into_iter()
            .filter(|entry| entry.name != name)
            .collect(),
    );
    let Some(mut entry) = found else { return };
    // No model is loaded yet, so there is nothing live to come back to.
    for shown in &mut entry.state.sides {
        if shown.view == View::Live {
            shown.view = View::Tokens;
        }
    }
    let same_work = share.first.with_value(|first| {
        first
            .as_ref()
            .is_some_and(|first| first.work == entry.state.work)
    });
    apply(page, entry.state);
    if !same_work && share.notice.read_untracked().is_none() {
        share.notice.set(Some(Notice::Restored));
    }
}

/// Keeps the work a moment after each change, and when the tab goes away.
fn watch(page: Page) {
    let share = page.share;
    let timer = StoredValue::new(None::<TimeoutHandle>);
    let first = StoredValue::new(true);
    Effect::new(move |_| {
        page.trajectory.track();
        for side in Side::BOTH {
            page.view(side).track();
            page.mask[side.index()].track();
            page.ids[side.index()].track();
        }
        page.readable.track();
        page.pin.track();
        page.live.greedy.track();
        page.live.sampling.track();
        page.live.max_tokens.track();
        if first.get_value() {
            first.set_value(false);
            return;
        }
        share.changed.set_value(true);
        timer.update_value(|timer| {
            if let Some(timer) = timer.take() {
                timer.clear();
            }
            *timer = set_timeout_with_handle(move || save(page), PAUSE).ok();
        });
    });
    let leaving = window_event_listener_untyped("pagehide", move |_| save(page));
    let hiding = window_event_listener_untyped("visibilitychange", move |_| save(page));
    let others = window_event_listener(leptos::ev::storage, move |event| {
        // A tab that was duplicated has its twin's id: whoever is written over takes another.
        let own = share.tab.with_value(Tab::name);
        if event.key().as_deref() != Some(own.as_str()) {
            return;
        }
        if let Some(Ok(entry)) = keep::read(&own)
            && entry.writer != share.writer.get_value()
        {
            renew(share);
            share.changed.set_value(true);
            save(page);
        }
    });
    on_cleanup(move || {
        leaving.remove();
        hiding.remove();
        others.remove();
    });
}

/// Keeps the work if it changed. The state of a first visit is not work.
fn save(page: Page) {
    let share = page.share;
    if !share.changed.get_value() {
        return;
    }
    share.changed.set_value(false);
    let state = untrack(|| capture(page));
    if share
        .first
        .with_value(|first| first.as_ref() == Some(&state))
    {
        keep::forget(&share.tab.with_value(Tab::name));
        return;
    }
    match keep::write(&entry(share, title(page), state)) {
        Ok(()) => share.refused.set_value(false),
        Err(why) if !share.refused.get_value() => {
            share.refused.set_value(true);
            share.notice.set(Some(Notice::Trouble(
                "Your work is not kept.",
                format!("It lasts as long as this tab: {why}. Export it to have it for longer."),
            )));
        }
        Err(_) => {}
    }
}

/// Shows the sample of a first visit; what was there stays kept.
fn start_over(page: Page) {
    let share = page.share;
    save(page);
    renew(share);
    let (kept, _) = keep::all();
    share.kept.set(kept);
    if let Some(first) = share.first.get_value() {
        apply(page, first);
    }
    share.notice.set(Some(Notice::StartedOver));
}

/// Shows kept work; what was there stays kept.
fn go_back(page: Page, entry: Entry) {
    let share = page.share;
    save(page);
    renew(share);
    apply(page, entry.state);
    let (kept, _) = keep::all();
    share.kept.set(kept);
    share.notice.set(None);
}

/// Removes all that is kept. What is shown stays, and is kept again when it changes.
fn forget(page: Page) {
    keep::forget_all();
    page.share.kept.set(Vec::new());
    page.share.changed.set_value(false);
    page.spoken
        .set("Kept work is removed from this browser.".to_owned());
}

/// The address that shows the present state.
///
/// # Errors
/// How long it would be, when that is too long.
fn address(page: Page) -> Result<String, usize> {
    let state = untrack(|| capture(page));
    let payload = link::pack(&state.to_text());
    if payload.len() > link::LONGEST {
        return Err(payload.len());
    }
    let location = window().location();
    let part = |part: Result<String, wasm_bindgen::JsValue>| part.unwrap_or_default();
    Ok(format!(
        "{}{}{}#s={payload}",
        part(location.origin()),
        part(location.pathname()),
        part(location.search()),
    ))
}

/// Why there is no link, and what to do instead.
fn too_long(length: usize) -> String {
    format!(
        "A link to this would have {} characters; more than {} break in mail and chat. Export the trajectory to a file and send that, or take frames out.",
        words::thousands(length as u64),
        words::thousands(link::LONGEST as u64),
    )
}
