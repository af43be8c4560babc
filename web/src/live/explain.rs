//! What the inspector says of a token that a model wrote, and branching from it.

use super::{Live, Run};
use crate::controls::Switch;
use crate::document::Side;
use crate::pieces;
use crate::sides::parts;
use crate::state::{Page, page};
use agent::reading::What;
use engine::protocol::Outlook;
use leptos::prelude::*;

/// What it means to ask for alternatives.
pub const ASK: &str = "Asks the engine with each token for its probability and the 8 most probable ones. That reads all logits of the vocabulary for every token, so it is slower. It begins with the next turn.";

/// The written token to explain: the one that is pointed at, else the chosen one, else the newest while a
/// side runs.
pub fn inspected(page: Page) -> Option<(Side, usize)> {
    let live = page.live;
    let there = |(side, at): &(Side, usize)| *at < live.side(*side).count();
    if let Some(pointed) = page.written.get().filter(there) {
        return Some(pointed);
    }
    if page.hover_spot.get().is_some() {
        return None;
    }
    live.chosen.get().filter(there).or_else(|| newest(page))
}

/// The newest token of the side that runs, where it is to be followed.
pub fn newest(page: Page) -> Option<(Side, usize)> {
    let live = page.live;
    if !live.follow.get() {
        return None;
    }
    let side = live.going()?;
    Some((side, live.side(side).count().checked_sub(1)?))
}

/// The most probable alternative that was not taken.
pub fn best_other(live: Live, side: Side, at: usize) -> Option<usize> {
    let token = live.side(side).token(at)?;
    let alternatives = token.outlook?.alternatives;
    alternatives.iter().position(|other| other.id != token.id)
}

/// A probability as the chips have it: `.97`, or `1.0`.
pub fn short(probability: f32) -> String {
    if probability >= 0.995 {
        "1.0".to_owned()
    } else {
        format!("{probability:.2}")
            .trim_start_matches('0')
            .to_owned()
    }
}

fn per_cent(probability: f32) -> String {
    format!("{:.1} %", probability * 100.0)
}

/// Which of the looks a probability has: `low` below .7, `vlow` below .3.
pub fn look(outlook: Option<&Outlook>) -> &'static str {
    match outlook.map(|outlook| outlook.probability) {
        Some(p) if p < 0.3 => " vlow",
        Some(p) if p < 0.7 => " low",
        _ => "",
    }
}

/// A written token: what it is, what the model thought of it, and what it might have written instead.
#[component]
pub fn Written(
    /// Whose.
    side: Side,
    /// Its place among all tokens of the branch.
    at: usize,
) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let token = Memo::new(move |_| state.token(at));
    let model = move || match live.ready(side) {
        Some(model) => model.name.clone(),
        None => "a model no longer loaded".to_owned(),
    };
    let tone = move || {
        let start = state.count() - state.written.read().len();
        let within = at.checked_sub(start)?;
        let parts = state.parts.read();
        parts
            .iter()
            .find(|part| part.tokens.contains(&within))
            .map(|part| part.what)
    };
    let class = move || match tone() {
        Some(What::Frame(kind)) => crate::document::class(kind),
        _ => "k-turn",
    };
    let vocabulary = move || {
        if live.knows_ids(side) {
            "Ids are those of Llama 3.1's vocabulary, which this model has."
        } else {
            "Ids here are of this model's own vocabulary, not of Llama 3.1's."
        }
    };
    move || {
        let Some(token) = token.get() else {
            return ().into_any();
        };
        let bytes = if token.text.is_empty() {
            "the beginning of a character that a later token ends".to_owned()
        } else {
            pieces::hex(token.text.as_bytes())
        };
        let what = match (token.special, token.chosen) {
            (true, true) => "special token, chosen by you",
            (true, false) => "special token",
            (false, true) => "text, chosen by you",
            (false, false) => "text",
        };
        let kind = tone().map(|what| match what {
            What::Frame(kind) => view! { " of "{crate::icons::kind_name(kind)} }.into_any(),
            What::Message(_) => " of the assistant turn".into_any(),
            What::Loose => ", in no frame".into_any(),
            What::Stop => ", ends the turn".into_any(),
        });
        let thought = token.outlook.clone().map(|outlook| view! {
            <dt>"probability"</dt><dd><b data-testid="probability">{per_cent(outlook.probability)}</b></dd>
            <dt>"entropy"</dt><dd data-testid="entropy">{format!("{:.2} bit", outlook.entropy / std::f32::consts::LN_2)}</dd>
        });
        view! {
            <section>
                <div class=move || format!("big {}", class())><div class="piece m t"><bdi>{parts(&token.text)}</bdi></div></div>
                <dl class="dl first">
                    <dt>"id"</dt><dd><b data-testid="inspected-id">{token.id}</b></dd>
                    <dt>"bytes"</dt><dd>{bytes}</dd>
                    <dt>"kind"</dt><dd class="s">{what}{kind}</dd>
                    {thought}
                    <dt>"place"</dt><dd class="s">{at + 1}" of "{move || state.count()}" written"</dd>
                    <dt>"owner"</dt><dd class="s">"model: "<bdi>{model}</bdi></dd>
                </dl>
            </section>
            <Alternatives side at/>
            <section><p class="muted">{vocabulary}</p></section>
        }
        .into_any()
    }
}

/// What might have been written instead.
#[component]
fn Alternatives(side: Side, at: usize) -> impl IntoView {
    let live = page().live;
    let state = live.side(side);
    let token = Memo::new(move |_| state.token(at));
    let class = move || {
        let start = state.count() - state.written.read().len();
        let parts = state.parts.read();
        let part = parts
            .iter()
            .find(|part| at >= start && part.tokens.contains(&(at - start)));
        match part.map(|part| part.what) {
            Some(What::Frame(kind)) => crate::document::class(kind),
            _ => "k-turn",
        }
    };
    let list = move || {
        let token = token.get()?;
        let outlook = token.outlook?;
        let rows = outlook.alternatives.into_iter().enumerate().map(|(index, other)| {
            let taken = other.id == token.id;
            let shown = if other.special {
                crate::sides::bare(&other.piece).to_owned().into_any()
            } else {
                parts(&other.piece).into_any()
            };
            let share = other.probability;
            let name = format!("{}, id {}, {}{}", other.piece, other.id, per_cent(share), if taken { ", written here" } else { ", branch here" });
            view! {
                <button type="button" class:taken=taken disabled=taken aria-label=name data-testid="alternative" data-token-id=other.id style:--q=share.to_string()
                    on:click=move |_| live.branch_at(side, at, index)>
                    <span class:special=other.special><bdi>{shown}</bdi></span><span class="bar1"></span><span class="pct">{per_cent(share)}</span></button>
            }
        });
        Some(rows.collect_view())
    };
    let none = move || {
        token
            .read()
            .as_ref()
            .is_some_and(|token| token.outlook.is_none())
    };
    view! {
        <section class=class>
            <h3>"Alternatives here"<span class="right"><Switch label="Ask" title=ASK value=live.alternatives/></span></h3>
            <div class="alts" data-testid="alternatives">{list}</div>
            <p class="muted">{move || if none() {
                "Not asked for when this was written. With Heat or Ask on, each token brings them along, at the cost of a read of all logits."
            } else if matches!(state.run.get(), Run::Going(_)) {
                "Choose one to stop here and branch."
            } else {
                "Choose one to branch from here, or press B for the best that was not taken."
            }}</p>
        </section>
    }
}
