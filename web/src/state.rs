//! What the page holds: signals, and the one computation everything shown comes from.

use crate::document::{Document, Side};
use crate::history::History;
use crate::inspector::Explain;
use crate::lessons::Lessons;
use crate::live::Live;
use crate::models::Models;
use crate::share::Share;
use crate::sides::Sides;
use formats::{Fault, Trajectory};
use leptos::prelude::*;
use std::ops::{Deref, Range};
use std::sync::Arc;
use tokens::{Llama3Tokenizer, Memory, Token};

/// A shared value that is equal only to itself, so that signals compare it at no cost.
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Takes a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a side shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Frames (A) or messages (B).
    Units,
    /// The wire as text.
    Wire,
    /// The wire as tokens.
    Tokens,
    /// A model that continues it.
    Live,
}

impl View {
    /// All, in the order of the tabs.
    pub const ALL: [Self; 4] = [Self::Units, Self::Wire, Self::Tokens, Self::Live];

    /// The tab's word.
    pub fn title(self, side: Side) -> &'static str {
        match (self, side) {
            (Self::Units, Side::A) => "Frames",
            (Self::Units, Side::B) => "Messages",
            (Self::Wire, _) => "Wire",
            (Self::Tokens, _) => "Tokens",
            (Self::Live, _) => "Live",
        }
    }
}

/// What is lit up everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A frame.
    Frame(usize),
    /// A message as a whole: reached from its headers and template text, which no frame owns.
    Message(usize),
}

/// A token, by its place in a row, so that edits elsewhere do not move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// On which side.
    pub side: Side,
    /// In which row.
    pub row: usize,
    /// Which token of the row's side.
    pub at: usize,
}

impl Spot {
    /// The spot of a token by its index on the side.
    pub fn of_token(document: &Document, side: Side, index: usize) -> Option<Self> {
        document.rows.iter().enumerate().find_map(|(row, r)| {
            let range = &r.tokens[side.index()];
            range.contains(&index).then(|| Self {
                side,
                row,
                at: index - range.start,
            })
        })
    }

    /// The token's index on its side.
    pub fn index(self, document: &Document) -> Option<usize> {
        let range: &Range<usize> = &document.rows.get(self.row)?.tokens[self.side.index()];
        (self.at < range.len()).then_some(range.start + self.at)
    }

    /// The token.
    pub fn token(self, document: &Document) -> Option<&Token> {
        document.side(self.side).tokens().get(self.index(document)?)
    }
}

/// What the narrow layout shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// The trajectory.
    Edit,
    /// The sides.
    Sides,
    /// Costs, or the model.
    Dock,
}

/// A room of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The two wires.
    Compare,
    /// The models.
    Models,
    /// The lessons: their list, or one of their pages.
    Lessons,
}

/// What the dock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dock {
    /// Counts per kind.
    Costs,
    /// Model and sampling.
    Model,
}

/// A sample trajectory that the site offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// File name in the samples folder; empty for the one compiled in.
    pub file: String,
    /// Its title.
    pub title: String,
    /// The domain that the list puts it under.
    pub domain: String,
    /// What it teaches; may be empty.
    pub about: String,
}

/// The page's state.
#[derive(Clone, Copy)]
pub struct Page {
    /// The room that is shown.
    pub room: RwSignal<Room>,
    /// The one source of truth.
    pub trajectory: RwSignal<Trajectory>,
    /// The tokenizer, once it is there.
    pub tokenizer: RwSignal<Option<Shared<Llama3Tokenizer>>>,
    /// Why it is not.
    pub tokenizer_error: RwSignal<Option<String>>,
    /// All that is shown of the trajectory.
    pub document: Memo<Shared<Document>>,
    /// What is wrong with it, each at its frame.
    pub faults: Memo<Vec<(Option<usize>, Fault)>>,
    /// What is built of the rows, and how keys act on them.
    pub sides: Sides,
    /// What each side shows.
    pub views: [RwSignal<View>; 2],
    /// Whether each side shows what is trained.
    pub mask: [RwSignal<bool>; 2],
    /// Whether each side shows token ids.
    pub ids: [RwSignal<bool>; 2],
    /// Whether the AgenticML wire is shown with readable markers.
    pub readable: RwSignal<bool>,
    /// What the pointer is on.
    pub hover: RwSignal<Option<Link>>,
    /// Where the pointer last was. Rows that move under a resting pointer do not count as pointing.
    pub pointer: StoredValue<(i32, i32)>,
    /// What has the keyboard's focus.
    pub focus: RwSignal<Option<Link>>,
    /// The pinned frame.
    pub pin: RwSignal<Option<usize>>,
    /// What is lit up: the pointer's, else the focus', else the pin.
    pub link: Memo<Option<Link>>,
    /// The message lit up, as a whole or for its frame.
    pub linked_message: Memo<Option<usize>>,
    /// The selected token.
    pub spot: RwSignal<Option<Spot>>,
    /// The token under the pointer.
    pub hover_spot: RwSignal<Option<Spot>>,
    /// The written token that the pointer or the focus is on: side and place.
    pub written: RwSignal<Option<(Side, usize)>>,
    /// Narrow layout: what is shown.
    pub pane: RwSignal<Pane>,
    /// Medium and narrow layout: whether the inspector is open.
    pub drawer: RwSignal<bool>,
    /// What the dock shows.
    pub dock: RwSignal<Dock>,
    /// Whether the help is open.
    pub help: RwSignal<bool>,
    /// Whether the page about the page is open.
    pub about: RwSignal<bool>,
    /// What was last said to screen readers.
    pub spoken: RwSignal<String>,
    /// Samples on offer.
    pub samples: RwSignal<Vec<Sample>>,
    /// Index of the sample shown, until it is edited.
    pub sample: RwSignal<usize>,
    /// Undo, redo and unfinished texts.
    pub history: History,
    /// Which frame is open for editing.
    pub editing: RwSignal<Option<usize>>,
    /// The models and what they write.
    pub live: Live,
    /// What the room of models shows.
    pub models: Models,
    /// What costs and inspector show.
    pub explain: Explain,
    /// Links, kept work, and what is said about them.
    pub share: Share,
    /// What the room of lessons shows.
    pub lessons: Lessons,
}

impl Page {
    /// The state at the start.
    pub fn new(trajectory: Trajectory, first: Sample) -> Self {
        let trajectory = RwSignal::new(trajectory);
        let tokenizer = RwSignal::new(None::<Shared<Llama3Tokenizer>>);
        let memories = StoredValue::new(<[Memory; 2]>::default());
        let document = Memo::new(move |_| {
            let tokenizer = tokenizer.get();
            let mut memories = memories.write_value();
            Shared::new(Document::new(
                trajectory.get(),
                tokenizer.as_deref(),
                &mut memories,
            ))
        });
        let hover = RwSignal::new(None);
        let focus = RwSignal::new(None);
        let pin = RwSignal::new(None);
        let link = Memo::new(move |_| hover.get().or(focus.get()).or(pin.get().map(Link::Frame)));
        let linked_message = Memo::new(move |_| match link.get()? {
            Link::Frame(frame) => document.read().message_of_frame(frame),
            Link::Message(message) => Some(message),
        });
        Self {
            room: RwSignal::new(Room::Compare),
            trajectory,
            tokenizer,
            tokenizer_error: RwSignal::new(None),
            document,
            faults: Memo::new(move |_| formats::faults(&trajectory.read())),
            sides: Sides::new(document),
            views: [View::Tokens; 2].map(RwSignal::new),
            mask: [true; 2].map(RwSignal::new),
            ids: [true; 2].map(RwSignal::new),
            readable: RwSignal::new(true),
            hover,
            pointer: StoredValue::new((i32::MIN, i32::MIN)),
            focus,
            pin,
            link,
            linked_message,
            spot: RwSignal::new(None),
            hover_spot: RwSignal::new(None),
            written: RwSignal::new(None),
            pane: RwSignal::new(Pane::Sides),
            drawer: RwSignal::new(false),
            dock: RwSignal::new(Dock::Costs),
            help: RwSignal::new(false),
            about: RwSignal::new(false),
            spoken: RwSignal::new(String::new()),
            samples: RwSignal::new(vec![first]),
            sample: RwSignal::new(0),
            history: History::new(),
            editing: RwSignal::new(None),
            live: Live::new(document, tokenizer),
            models: Models::new(),
            explain: Explain::new(),
            share: Share::new(),
            lessons: Lessons::new(),
        }
    }

    /// What a side shows.
    pub fn view(self, side: Side) -> RwSignal<View> {
        self.views[side.index()]
    }

    /// Shows another trajectory. What was shown before can be brought back by undo.
    pub fn open(self, trajectory: Trajectory) {
        self.open_as("opened another trajectory", trajectory);
    }

    /// As [`Page::open`]; `what` names the step, as `imported frames`.
    pub fn open_as(self, what: &str, trajectory: Trajectory) {
        self.editing.set(None);
        self.spot.set(None);
        self.hover.set(None);
        self.focus.set(None);
        let first = trajectory
            .frames
            .iter()
            .position(|frame| frame.kind == formats::FrameKind::Action)
            .or_else(|| {
                trajectory
                    .frames
                    .iter()
                    .position(|frame| frame.kind.owner() == formats::Owner::Model)
            });
        self.replace(what, trajectory);
        self.pin.set(first);
        self.live.cut_reset();
        self.select_first();
    }

    /// Selects the first token of the pinned frame on side B, where there is most to explain.
    pub fn select_first(self) {
        let document = self.document.get_untracked();
        let first = self
            .pin
            .get_untracked()
            .and_then(|frame| document.side(Side::B).frame_tokens(frame).first().cloned())
            .and_then(|range| Spot::of_token(&document, Side::B, range.start));
        self.spot.set(first);
    }

    /// Shows a view, and the model beside it when it is the live one.
    pub fn show(self, side: Side, view: View) {
        self.view(side).set(view);
        if view == View::Live {
            self.dock.set(Dock::Model);
            self.live.wake();
        } else if Side::BOTH
            .into_iter()
            .all(|side| self.view(side).get_untracked() != View::Live)
        {
            self.dock.set(Dock::Costs);
        }
    }

    /// Lets go of what the pointer is on: the keyboard has taken over.
    pub fn leave(self) {
        self.hover.set(None);
        self.hover_spot.set(None);
        self.written.set(None);
    }

    /// Whether this frame is lit up.
    pub fn is_linked(self, frame: Option<usize>) -> bool {
        frame.is_some() && self.link.get() == frame.map(Link::Frame)
    }

    /// The token to explain: the one under the pointer, else the selected one.
    pub fn inspected(self) -> Option<Spot> {
        self.hover_spot.get().or(self.spot.get())
    }
}

/// The page's state from anywhere within it.
pub fn page() -> Page {
    expect_context()
}
