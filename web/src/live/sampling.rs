//! How tokens are drawn and turns are read.

use crate::state::page;
use leptos::prelude::*;

/// The controls.
#[component]
pub fn Drawing() -> impl IntoView {
    let live = page().live;
    let off = move || live.greedy.get();
    let max = move |event| {
        if let Ok(n) = event_target_value(&event).parse::<u32>() {
            live.max_tokens.set(n.clamp(1, 8192));
        }
    };
    let seed = move |event| {
        if let Ok(n) = event_target_value(&event).parse::<u32>() {
            live.sampling.update(|s| s.seed = n.into());
        }
    };
    let new_seed = move |_| {
        let seed = (js_sys::Math::random() * f64::from(u32::MAX)) as u32;
        live.sampling.update(|sampling| sampling.seed = seed.into());
    };
    view! {
        <h2>"Sampling"<span class="muted">"both sides"</span>
            <span class="right"><Choice name="drawing" label="How the next token is chosen" options=[("Greedy", "greedy", "Always the most probable token"), ("Sample", "sample", "Drawn by the settings below")]
                first=Signal::derive(move || live.greedy.get()) set=move |first| live.greedy.set(first)/></span></h2>
        <div class="samp" class:off=off>
            <Slider name="temperature" min=0.05 max=2.0 step=0.05 get=move |s| s.temperature.into() set=move |s, x| s.temperature = x as f32/>
            <Slider name="top-k" min=0.0 max=200.0 step=1.0 get=move |s| s.top_k.into() set=move |s, x| s.top_k = x as u32/>
            <Slider name="top-p" min=0.05 max=1.0 step=0.01 get=move |s| s.top_p.into() set=move |s, x| s.top_p = x as f32/>
            <Slider name="min-p" min=0.0 max=0.5 step=0.01 get=move |s| s.min_p.into() set=move |s, x| s.min_p = x as f32/>
        </div>
        <div class="pair">
            <label>"seed "<input class="field" type="number" min="0" max="4294967295" data-testid="seed" disabled=off prop:value=move || live.sampling.read().seed.to_string() on:change=seed/>
                <button class="btn quiet" type="button" data-testid="new-seed" aria-label="New seed" title="New seed" disabled=off on:click=new_seed>"↻"</button></label>
            <label>"max new "<input class="field" type="number" min="1" max="8192" data-testid="max-tokens" prop:value=move || live.max_tokens.get().to_string() on:change=max/></label>
        </div>
        <div class="acts reads"><span id="reads">"parsing"</span>
            <Choice name="parsing" label="How turns are read" options=[("Strict", "strict", "A marker that only the runtime may write ends the reading: the turn cannot be used"), ("Lenient", "lenient", "Frames that only the runtime may write are read as well")]
                first=Signal::derive(move || live.strict.get()) set=move |first| live.strict.set(first)/></div>
    }
}

/// One of two.
#[component]
fn Choice<S>(
    name: &'static str,
    label: &'static str,
    options: [(&'static str, &'static str, &'static str); 2],
    first: Signal<bool>,
    set: S,
) -> impl IntoView
where
    S: Fn(bool) + Copy + Send + Sync + 'static,
{
    let options = [0, 1].map(|at| {
        let (word, key, title) = options[at];
        view! {
            <label title=title><input class="vh" type="radio" name=name value=key data-testid=format!("{name}-{key}")
                prop:checked=move || first.get() == (at == 0) on:change=move |_| set(at == 0)/><span>{word}</span></label>
        }
    });
    view! { <span class="seg" role="radiogroup" aria-label=label>{options}</span> }
}

#[component]
fn Slider<G, S>(name: &'static str, min: f64, max: f64, step: f64, get: G, set: S) -> impl IntoView
where
    G: Fn(&engine::protocol::Sampling) -> f64 + Copy + Send + Sync + 'static,
    S: Fn(&mut engine::protocol::Sampling, f64) + Copy + Send + Sync + 'static,
{
    let live = page().live;
    let value = move || get(&live.sampling.read());
    let shown = move || {
        let value = value();
        match name {
            "top-k" if value == 0.0 => "all".to_owned(),
            "top-k" => format!("{value:.0}"),
            _ => format!("{value:.2}"),
        }
    };
    let id = format!("draw-{name}");
    view! {
        <label for=id.clone()>{name}</label>
        <input id=id type="range" data-testid=name min=min max=max step=step disabled=move || live.greedy.get() prop:value=move || value().to_string()
            on:input=move |event| if let Ok(x) = event_target_value(&event).parse() { live.sampling.update(|s| set(s, x)) }/>
        <output>{shown}</output>
    }
}
