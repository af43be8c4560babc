//! The text of a lesson's page. Its figures are counted here, from what the page shows.

use crate::document::{Document, Side};
use crate::icons;
use crate::lessons::data::{Count, Span, What, Wilson};
use formats::{FrameKind, Owner, Policy, Role};
use leptos::prelude::*;
use std::borrow::Cow;
use tokens::{Arm, Llama3Tokenizer, Token};

/// A paragraph. Without a document, or before the tokenizer is there, a count is a dash.
pub fn paragraph(
    spans: &[Span],
    document: Option<&Document>,
    tokenizer: Option<&Llama3Tokenizer>,
) -> AnyView {
    let spans = spans
        .iter()
        .map(|span| match span {
            Span::Text(text) => view! { <bdi>{text.clone()}</bdi> }.into_any(),
            Span::Strong(text) => view! { <b><bdi>{text.clone()}</bdi></b> }.into_any(),
            Span::Code(text) => view! { <code><bdi>{text.clone()}</bdi></code> }.into_any(),
            Span::Kind(kind) => icons::kind_name(*kind),
            Span::Marker(kind) => figure(Some(tokens::marker_id(*kind) as usize)),
            Span::Count(wanted) => figure(count(wanted, document, tokenizer)),
            Span::Quote(text) => {
                view! { <span class="quote">"“"<bdi>{text.clone()}</bdi>"”"</span> }.into_any()
            }
            Span::Wilson(wilson) => view! { <span class="fig">{bound(*wilson)}</span> }.into_any(),
        })
        .collect_view();
    view! { <p>{spans}</p> }.into_any()
}

fn figure(number: Option<usize>) -> AnyView {
    let text = number.map_or("—".to_owned(), |number| number.to_string());
    view! { <span class="fig">{text}</span> }.into_any()
}

/// A bound of a Wilson interval in per cent, with one decimal.
fn bound(wilson: Wilson) -> String {
    match agent::suite::wilson(wilson.successes, wilson.trials) {
        Some((low, high)) => percent(if wilson.high { high } else { low }),
        None => "—".to_owned(),
    }
}

/// A share in per cent with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The tokens of a side as a policy encodes them; `None` until the tokenizer is there.
pub fn tokens_of<'a>(
    document: &'a Document,
    tokenizer: Option<&Llama3Tokenizer>,
    side: Side,
    policy: Policy,
) -> Option<Cow<'a, [Token]>> {
    let doc = document.side(side);
    match policy {
        Policy::Safe => doc
            .view
            .as_ref()
            .map(|view| Cow::Borrowed(&view.tokens[..])),
        Policy::Reference => {
            let arm = match side {
                Side::A => Arm::AgenticMl,
                Side::B => Arm::ChatMl,
            };
            doc.view.as_ref()?;
            let view = tokens::view(tokenizer?, &doc.rendering, arm, policy);
            Some(Cow::Owned(view.tokens))
        }
    }
}

/// Whether a token belongs to some frames: on side A it comes from one of them; on side B it stands in a
/// message of theirs, whose header and end belong to them here.
pub fn belongs(
    document: &Document,
    token: &Token,
    side: Side,
    (first, last): (usize, usize),
) -> bool {
    match side {
        Side::A => token
            .frame
            .is_some_and(|frame| (first..=last).contains(&frame)),
        Side::B => {
            // What stands before the first message goes with it.
            let message = token.message.unwrap_or(0);
            (first..=last).any(|frame| document.message_of_frame(frame) == Some(message))
        }
    }
}

/// Counts.
fn count(
    wanted: &Count,
    document: Option<&Document>,
    tokenizer: Option<&Llama3Tokenizer>,
) -> Option<usize> {
    let kinds = |owner| {
        FrameKind::ALL
            .iter()
            .filter(|kind| kind.owner() == owner)
            .count()
    };
    let test: fn(&Token) -> bool = match wanted.what {
        What::Kinds => return Some(FrameKind::ALL.len()),
        What::RuntimeKinds => return Some(kinds(Owner::Runtime)),
        What::ModelKinds => return Some(kinds(Owner::Model)),
        What::Frames => return document.map(|document| document.trajectory.frames.len()),
        What::Messages => return document.map(|document| document.conversation.messages.len()),
        What::Tokens => |_| true,
        What::Trained => |token| token.label.is_some(),
        What::Given => |token| token.given,
        What::Structure => |token| token.role != Role::Content,
        What::Template => |token| token.role == Role::Template,
        What::Unowned => |token| token.frame.is_none(),
    };
    let document = document?;
    let tokens = tokens_of(document, tokenizer, wanted.side, wanted.policy)?;
    let here = |token: &&Token| {
        wanted
            .frames
            .is_none_or(|frames| belongs(document, token, wanted.side, frames))
    };
    Some(
        tokens
            .iter()
            .filter(here)
            .filter(|token| test(token))
            .count(),
    )
}
