//! A side's figures: speed, first token, counts, context.

use crate::document::Side;
use crate::state::page;
use crate::words;
use leptos::prelude::*;

/// The row of figures below a side.
#[component]
pub fn Figures(side: Side) -> impl IntoView {
    let live = page().live;
    let state = live.side(side);
    let dash = || "—".to_owned();
    let rate = move || {
        let stats = state.stats.get();
        if stats.tokens_per_second > 0.0 {
            format!("{:.1}", stats.tokens_per_second)
        } else {
            dash()
        }
    };
    let first = move || {
        let stats = state.stats.get();
        if stats.first_token_seconds > 0.0 {
            words::seconds(stats.first_token_seconds)
        } else {
            dash()
        }
    };
    let new = move || state.stats.read().new_tokens;
    let prompt = move || state.stats.read().prompt_tokens;
    let used = move || match prompt() + new() {
        0 => dash(),
        used => used.to_string(),
    };
    let context = move || match live.ready(side) {
        Some(model) => model.context,
        None => live.context.get(),
    };
    let width = move |n: u32| format!("{:.2}%", f64::from(n) * 100.0 / f64::from(context().max(1)));
    view! {
        <div class="stats">
            <span><b data-testid="rate">{rate}</b>"tok/s"</span>
            <span><b data-testid="first-token">{first}</b>"first token"</span>
            <span><b data-testid="new-tokens">{new}</b>"new of "{move || live.max_tokens.get()}</span>
            <span><b data-testid="used-tokens">{used}</b>"context"</span>
            <div class="room"><div class="meter" role="img" data-testid="context-meter" aria-label=move || format!("context: {} prompt, {} new, of {}", prompt(), new(), context())>
                <i class="pr" style:width=move || width(prompt())></i><i class="ge" style:width=move || width(new())></i></div>
                <span><b class="mono" data-testid="prompt-tokens">{move || if prompt() > 0 { prompt().to_string() } else { dash() }}</b>" prompt + "{new}" new of "{context}</span></div>
        </div>
    }
}
