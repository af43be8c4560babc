//! What a key-value cache keeps from turn to turn.

use crate::document::Side;
use crate::state::page;
use crate::words;
use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;
use std::time::Duration;
use tokens::Arm;
use tokens::prefix::{Turn, Turns, turns};

/// How long the trajectory has to be left alone until it is counted again: every turn's prompt is
/// written and encoded for it.
const PAUSE: Duration = Duration::from_millis(200);

/// The turns of a side, or why there are none.
type Counted = Result<Turns, String>;

fn count(page: crate::state::Page) -> Option<[Counted; 2]> {
    let tokenizer = page.tokenizer.get_untracked()?;
    let document = page.document.get_untracked();
    Some(
        [Arm::AgenticMl, Arm::ChatMl].map(|arm| {
            turns(&tokenizer, &document.trajectory, arm).map_err(|error| error.to_string())
        }),
    )
}

/// The sentence and a table per side.
#[component]
pub fn Cache() -> impl IntoView {
    let page = page();
    let counted = RwSignal::new(None::<[Counted; 2]>);
    let waiting = StoredValue::new(None::<TimeoutHandle>);
    let stop = move || {
        if let Some(handle) = waiting.try_update_value(Option::take).flatten() {
            handle.clear();
        }
    };
    Effect::new(move |_| {
        page.document.track();
        stop();
        if counted.with_untracked(Option::is_none) {
            counted.set(count(page));
            return;
        }
        let handle = set_timeout_with_handle(move || counted.set(count(page)), PAUSE);
        waiting.set_value(handle.ok());
    });
    on_cleanup(stop);
    let body = move || {
        let Some([a, b]) = counted.get() else {
            return super::unknown().into_any();
        };
        let sentence = match (&a, &b) {
            (Ok(a), Ok(b)) => words::cache_sentence([a, b]),
            _ => "Counting needs both wires.".to_owned(),
        };
        // One scale for both sides.
        let most = [&a, &b]
            .into_iter()
            .flatten()
            .flat_map(|turns| &turns.0)
            .map(|turn| turn.prompt)
            .max()
            .unwrap_or(1)
            .max(1);
        view! {
            <p class="cost-say" data-testid="cache-sentence">{sentence}</p>
            <div class="cache">{side_view(Side::A, &a, most)}{side_view(Side::B, &b, most)}</div>
        }
        .into_any()
    };
    view! { <div class="ft-box" tabindex="0" role="region" aria-label="What a cache keeps">{body}</div> }
}

fn side_view(side: Side, counted: &Counted, most: usize) -> AnyView {
    let turns = match counted {
        Ok(turns) => turns,
        Err(error) => {
            return view! { <p class="muted">{side.plate()}": "{error.clone()}</p> }.into_any();
        }
    };
    if turns.0.is_empty() {
        return view! { <p class="muted">"Side "{side.plate()}" has no turn of the model."</p> }
            .into_any();
    }
    let rows = turns
        .0
        .iter()
        .enumerate()
        .map(|(at, turn)| turn_row(at, turn, most))
        .collect_view();
    view! {
        <table class="kt ft" data-testid=format!("cache-{}", side.key()) aria-label=format!("{}: prompts of the model's turns", side.title())>
            <thead><tr><th scope="col"><span class="plate">{side.plate()}</span>" turn"</th><th scope="col" class="wide">"prompt"</th>
                <th scope="col" title="Leading tokens of the prompt that the cache has">"kept"</th><th scope="col" title="Tokens of the prompt that have to be run">"run"</th>
                <th scope="col" title="Tokens in the cache that no longer serve">"lost"</th></tr></thead>
            <tbody>{rows}</tbody>
            <tfoot><tr class="d"><th scope="row">"all"</th><td class="wide">{turns.prompt()}</td><td>{turns.kept()}</td><td>{turns.anew()}</td><td>{turns.dropped()}</td></tr></tfoot>
        </table>
    }
    .into_any()
}

fn turn_row(at: usize, turn: &Turn, most: usize) -> AnyView {
    let page = page();
    let (first, last) = (turn.frames.start, turn.frames.end.saturating_sub(1));
    let frames = turn.frames.clone();
    let linked = move || frames.clone().any(|frame| page.is_linked(Some(frame)));
    let name = if first == last {
        format!("frame {first}")
    } else {
        format!("frames {first}–{last}")
    };
    let width = |n: usize| format!("{:.2}%", n as f64 * 100.0 / most as f64);
    let lost = turn.dropped();
    view! {
        <tr class="cf k-turn" class:lk=linked data-frame=first title=name.clone()>
            <th scope="row">{at + 1}<span class="n">{name.clone()}</span></th>
            <td class="wide"><span class="reuse" aria-hidden="true"><i class="kept" style:width=width(turn.kept)></i><i class="anew" style:width=width(turn.anew())></i></span>{turn.prompt}</td>
            <td class:z={turn.kept == 0}>{turn.kept}</td><td>{turn.anew()}</td><td class:z={lost == 0} class:er={lost > 0}>{lost}</td>
        </tr>
    }
    .into_any()
}
