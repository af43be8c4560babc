//! The chips of a cell, in strips: what an edit does not change is not built again.

use crate::document::{Document, Side, Tone, class};
use crate::icons;
use crate::rows;
use crate::sides::chip::chip;
use crate::sides::rows::role;
use crate::sides::window::{Seen, strip_height};
use crate::state::{Link, Spot, View, page};
use formats::FrameKind;
use leptos::html::Div;
use leptos::prelude::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use tokens::Token;

/// A side of a row with more tokens is built in parts.
const PARTED: usize = 400;
/// A part ends at the first line end after so many tokens, and at the latest after so many.
const PART: (usize, usize) = (100, 200);

/// Tokens that stand together.
#[derive(Clone, PartialEq)]
pub struct Strip {
    /// First token, counted from the row's.
    from: usize,
    len: usize,
    /// Side A: its frame.
    frame: Option<Framed>,
    /// Its number among the parts of what it belongs to, where there are some.
    part: Option<usize>,
    /// Changes when a chip does.
    hash: u64,
}

/// A frame's place and kind.
type Framed = (usize, FrameKind);

/// The strips of a cell. Side A: one per frame; an `end` stays with the frame it ends. Side B: one for
/// the message.
pub fn strips(document: &Document, side: Side, row: usize) -> Vec<Strip> {
    let Some(row) = document.rows.get(row) else {
        return Vec::new();
    };
    let all = row.tokens[side.index()].clone();
    let tokens = &document.side(side).tokens()[all];
    let mut wholes: Vec<(Option<Framed>, Range<usize>)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let kind = token.frame_kind.unwrap_or(FrameKind::Obs);
        let same = side == Side::B || kind == FrameKind::End;
        match wholes.last_mut() {
            Some((frame, range)) if same || frame.map(|frame| frame.0) == token.frame => {
                range.end = at + 1;
            }
            _ => {
                let frame = token.frame.filter(|_| side == Side::A);
                wholes.push((frame.map(|frame| (frame, kind)), at..at + 1));
            }
        }
    }
    let parted = tokens.len() > PARTED;
    wholes
        .into_iter()
        .flat_map(|(frame, range)| {
            let parts = if parted {
                parts(&tokens[range.clone()])
            } else {
                std::iter::once(0..range.len()).collect()
            };
            parts.into_iter().enumerate().map(move |(part, inside)| {
                let of = range.start + inside.start..range.start + inside.end;
                Strip {
                    from: of.start,
                    len: of.len(),
                    frame,
                    part: parted.then_some(part),
                    hash: hash(&tokens[of]),
                }
            })
        })
        .collect()
}

/// Cuts many tokens where a line ends, so that an edit moves no cut but those beside it. In JSON a line
/// end is written with a backslash, which begins a token.
fn parts(tokens: &[Token]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..tokens.len() {
        let len = at - start;
        let line = tokens[at - 1].text.ends_with('\n') || tokens[at].text.starts_with('\\');
        if len >= PART.1 || len >= PART.0 && line {
            parts.push(start..at);
            start = at;
        }
    }
    if start < tokens.len() {
        parts.push(start..tokens.len());
    }
    parts
}

fn hash(tokens: &[Token]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for token in tokens {
        (token.id, token.frame, token.message).hash(&mut hasher);
        (token.label.is_some(), token.given, token.seam, token.forged).hash(&mut hasher);
        (Tone::of_token(token), token.owner).hash(&mut hasher);
    }
    hasher.finish()
}

/// The strips of a cell, each with what stands left of it.
#[component]
pub fn Strips(at: usize, side: Side, alone: bool, row: Memo<Option<u64>>) -> impl IntoView {
    let page = page();
    let all = Memo::new(move |_| {
        row.track();
        strips(&page.document.read_untracked(), side, at)
    });
    let each = move || all.get().into_iter().enumerate();
    let key = |(index, strip): &(usize, Strip)| (*index, strip.hash, strip.part);
    view! {
        <For each=each key=key children=move |(index, strip)| {
            let first = strip.from;
            let from = Memo::new(move |_| all.with(|all| all.get(index).map_or(first, |strip| strip.from)));
            let left = match (strip.part, strip.frame, side) {
                (Some(1..), ..) => view! { <span></span> }.into_any(),
                (_, Some((frame, kind)), _) => gutter(kind, frame),
                (_, None, Side::B) => role(at),
                (_, None, Side::A) => ().into_any(),
            };
            view! { {left}<StripBox at side alone index strip from/> }
        }/>
    }
}

/// What stands left of a strip: the frame's glyph and number.
pub fn gutter(kind: FrameKind, frame: usize) -> AnyView {
    view! {
        <div class=format!("gut {}", class(kind)) data-frame=frame><span class="ab" data-plate="A">{icons::glyph(kind)}</span><span class="n">{frame}</span></div>
    }
    .into_any()
}

#[component]
fn StripBox(
    at: usize,
    side: Side,
    alone: bool,
    index: usize,
    strip: Strip,
    from: Memo<usize>,
) -> impl IntoView {
    let page = page();
    let Strip {
        len,
        frame,
        part,
        hash,
        ..
    } = strip;
    let mut label = match frame {
        Some((frame, kind)) => format!("Tokens of frame {frame}, {}", kind.name()),
        None => message_label(&page.document.read_untracked(), at),
    };
    if let Some(part) = part {
        label.push_str(&format!(", part {}", part + 1));
    }
    // A strip's own chips stay as they are while it lives; where they stand may change.
    let range = move |document: &Document| {
        let row = &document.rows.get(at)?.tokens[side.index()];
        let start = row.start + from.get_untracked();
        (start + len <= row.end).then_some(start..start + len)
    };
    let spans = move || {
        let document = page.document.get_untracked();
        range(&document).map(|range| {
            let spot = page.spot.get_untracked();
            let selected = spot
                .filter(|spot| spot.side == side && spot.row == at)
                .and_then(|spot| spot.at.checked_sub(from.get_untracked()));
            let reachable = index == 0 || part.is_some();
            spans(document.side(side).tokens(), range, reachable, selected)
        })
    };
    let place = NodeRef::<Div>::new();
    if part.is_none() {
        return view! {
            <div class="strip" role="listbox" aria-label=label aria-orientation="horizontal" dir="ltr" data-from=move || from.get()>{spans()}</div>
        }
        .into_any();
    }
    let seen = StoredValue::new(None::<Seen>);
    let now = move |height| Seen {
        view: View::Tokens,
        width: untrack(|| page.sides.windows.strip_width(alone)),
        hash: Some(hash),
        height,
    };
    let holds = move |spot: Spot| {
        let from = from.get_untracked();
        spot.side == side && spot.row == at && (from..from + len).contains(&spot.at)
    };
    let near = page
        .sides
        .windows
        .watch(place, false, holds, move |element| {
            seen.set_value(Some(now(element.get_bounding_client_rect().height())));
        });
    let height = move || {
        (!near.get()).then(|| {
            let width = page.sides.windows.strip_width(alone);
            let known = seen.get_value().filter(|seen| *seen == now(seen.height));
            let height = known.map_or_else(
                || {
                    let document = page.document.get_untracked();
                    let tokens = document.side(side).tokens();
                    range(&document).map_or(0.0, |range| strip_height(&tokens[range], width))
                },
                |seen| seen.height,
            );
            format!("{height:.1}px")
        })
    };
    // What is not built is no list to a reader.
    view! {
        <div class="strip part" node_ref=place role=move || near.get().then_some("listbox") aria-label=move || near.get().then(|| label.clone())
            aria-orientation=move || near.get().then_some("horizontal") dir="ltr" data-from=move || from.get() style:height=height>
            {move || near.get().then(spans)}
        </div>
    }
    .into_any()
}

fn message_label(document: &Document, row: usize) -> String {
    let message = document.rows.get(row).and_then(|row| row.message);
    message.map_or("Tokens".to_owned(), |message| {
        let role = document
            .conversation
            .messages
            .get(message)
            .map_or("", |m| m.role());
        format!("Tokens of message {message}, {role}")
    })
}

/// Chips in spans that light up together.
fn spans(
    tokens: &[Token],
    shown: Range<usize>,
    reachable: bool,
    selected: Option<usize>,
) -> impl IntoView + use<> {
    let page = page();
    let first = shown.start;
    rows::runs(
        tokens[shown.clone()]
            .iter()
            .map(|token| (token.frame, token.message, Tone::of_token(token), token.forged)),
        first,
    )
    .into_iter()
    .map(|((frame, message, tone, forged), range)| {
        let linked = move || page.is_linked(frame);
        let beside = move || {
            message.is_some()
                && page.linked_message.get() == message
                && page.link.get() != frame.map(Link::Frame)
        };
        let chips = range
            .map(|at| {
                let readable = frame.is_some() && message.is_none();
                let place = at - first;
                chip(&tokens[at], place, readable, reachable && place == 0, selected == Some(place))
            })
            .collect_view();
        let title = forged.then_some("Content that spells a special token. It is encoded as plain text.");
        view! {
            <span class=format!("sp {}", tone.class()) class:forged=forged class:lk=linked class:ms=beside role="group"
                title=title data-frame=frame data-message=message>{chips}</span>
        }
    })
    .collect_view()
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::{Frame, Trajectory};
    use tokens::Memory;

    /// Tokens of one byte each are enough to cut.
    fn document(text: &str) -> Document {
        let mut frames = vec![
            Frame::new(FrameKind::Goal, "Count."),
            Frame::new(FrameKind::Mission, "Lines?"),
        ];
        frames.push(Frame::new(FrameKind::Feedback, text));
        Document::new(Trajectory { frames }, None, &mut <[Memory; 2]>::default())
    }

    fn token(text: &str) -> Token {
        Token {
            id: 1,
            start: 0,
            end: 0,
            text: text.to_owned(),
            bytes: Vec::new(),
            special: None,
            segment: 0,
            seam: false,
            forged: false,
            owner: formats::Owner::Runtime,
            role: formats::Role::Content,
            frame: None,
            frame_kind: None,
            message: None,
            label: None,
            given: false,
        }
    }

    #[test]
    fn parts_end_with_lines_and_hold_every_token_once() {
        let line = |len: usize| {
            let mut line = vec![token("a"); len - 1];
            line.push(token("\n"));
            line
        };
        let tokens: Vec<Token> = [line(60), line(60), line(500), line(30)].concat();
        let cut = parts(&tokens);
        assert_eq!(cut, [0..120, 120..320, 320..520, 520..620, 620..650]);
    }

    #[test]
    fn an_edit_moves_no_cut_beyond_the_next_line_end() {
        let text: Vec<Token> = (0..1_000)
            .map(|at| token(if at % 40 == 39 { "\n" } else { "a" }))
            .collect();
        let mut edited = text.clone();
        edited.insert(300, token("b"));
        // Cuts before the edit stay where they are; those behind it move along with what they part.
        let ends = |tokens: &[Token]| -> Vec<usize> {
            parts(tokens)
                .iter()
                .filter(|part| part.end > 301)
                .map(|part| tokens.len() - part.end)
                .collect()
        };
        assert_eq!(ends(&text), ends(&edited));
    }

    #[test]
    fn without_a_tokenizer_there_are_no_strips() {
        assert!(strips(&document("text"), Side::A, 0).is_empty());
        assert!(strips(&document("text"), Side::B, 99).is_empty());
    }
}
