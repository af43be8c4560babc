//! The dock's model panel: load a model, choose what it runs on, see what it is, choose how tokens are drawn.

use super::processor::{Choice, Gpu};
use super::sampling::Drawing;
use super::{Chosen, Live, Load, address, dropped};
use crate::controls::Switch;
use crate::document::Side;
use crate::state::{Shared, page};
use crate::words;
use engine::protocol::{Failure, FailureKind, Licence, ModelInfo, Processor, Residence, Sides};
use leptos::ev::{DragEvent, SubmitEvent};
use leptos::html::Input;
use leptos::prelude::*;
use leptos::task::spawn_local;

/// Contexts on offer, in tokens.
pub const CONTEXTS: [u32; 5] = [512, 1024, 2048, 4096, 8192];

/// The panel.
#[component]
pub fn ModelPanel() -> impl IntoView {
    let live = page().live;
    let over = RwSignal::new(false);
    let drop_file = move |event: DragEvent| {
        event.prevent_default();
        over.set(false);
        let Some(data) = event.data_transfer() else {
            return;
        };
        let chosen = dropped(&data);
        spawn_local(async move { load(live, chosen.await) });
    };
    view! {
        <div class="console model" class:over=move || over.get()
            on:dragover=move |event: DragEvent| { event.prevent_default(); over.set(true); }
            on:dragleave=move |_| over.set(false)
            on:drop=drop_file>
            <div class="load"><Load/></div>
            <div class="about"><About/></div>
            <div class="drawing"><Drawing/></div>
        </div>
    }
}

fn load(live: Live, chosen: Option<Chosen>) {
    let Some(chosen) = chosen else { return };
    if untrack(|| live.is_busy()) {
        return live.failure.set(Some(Failure {
            kind: FailureKind::BadRequest,
            message: format!("{} was not loaded: the engine is at work.", chosen.name),
            advice: "Wait for it or stop it, and then choose the model again.".to_owned(),
        }));
    }
    live.load_for_both(chosen);
}

#[component]
fn Load() -> impl IntoView {
    let live = page().live;
    let picker = NodeRef::<Input>::new();
    let busy = move || live.is_busy();
    let submit = move |event: SubmitEvent| {
        event.prevent_default();
        let text = live.url.get_untracked();
        if text.trim().is_empty() {
            return;
        }
        match address(&text, None) {
            Ok(source) => load(live, Some(Chosen::new(source))),
            Err(message) => live.failure.set(Some(Failure {
                kind: FailureKind::BadRequest,
                message,
                advice: "Or choose a file.".to_owned(),
            })),
        }
    };
    let contexts = move || {
        let now = live.context.get();
        let mut contexts = CONTEXTS.to_vec();
        if !contexts.contains(&now) {
            contexts.push(now);
            contexts.sort_unstable();
        }
        contexts
            .into_iter()
            .map(|n| view! { <option value=n.to_string() selected={n == now}>{n}</option> })
            .collect_view()
    };
    view! {
        <h2>"Load a model"<a class="right rooms" href="#models">"All models"</a></h2>
        <form class="get" on:submit=submit>
            <input class="field" type="text" inputmode="url" autocomplete="off" spellcheck="false" data-testid="model-url" aria-label="Address of a model, or its name on Hugging Face"
                placeholder="https://…/model.gguf or owner/name" prop:value=move || live.url.get() on:input=move |event| live.url.set(event_target_value(&event))/>
            <button class="btn pri" type="submit" data-testid="model-load" disabled=move || busy() || live.url.read().trim().is_empty()>"Load"</button>
        </form>
        <div class="acts">
            <label class="btn" class:off=busy>"Choose a file …"
                <input class="vh" type="file" accept=".gguf" data-testid="model-file" node_ref=picker disabled=busy
                    on:change=move |_| {
                        if let Some(input) = picker.get_untracked() {
                            load(live, Chosen::from_list(input.files()));
                            // The same file may be chosen again after a failure.
                            input.set_value("");
                        }
                    }/></label>
            <span class="muted">"or drop it here"</span>
        </div>
        <Runs/>
        <div class="acts">
            <label class="sel">"context "<select aria-label="Longest context" prop:value=move || live.context.get().to_string()
                on:change=move |event| if let Ok(context) = event_target_value(&event).parse() { live.context.set(context) }>
                {contexts}
            </select></label>
            <Switch label="Half-precision cache" title="Keep keys and values on the GPU in 16 bits: half the memory, and rounding errors of about one in two thousand. Holds for the next load."
                value=live.half_cache disabled=Signal::derive(move || on_cpu(live))/>
        </div>
    }
}

/// Whether models are going to run on the CPU.
pub fn on_cpu(live: Live) -> bool {
    match &*live.processor.read() {
        Some(processor) => matches!(processor, Processor::Cpu { .. }),
        None => live.choice.get() == Choice::Cpu,
    }
}

/// What models run on.
#[component]
fn Runs() -> impl IntoView {
    let live = page().live;
    let options = Choice::ALL.map(|choice| {
        view! {
            <label><input class="vh" type="radio" name="processor" value=choice.key() data-testid=format!("processor-{}", choice.key())
                prop:checked=move || live.choice.get() == choice disabled=move || live.going().is_some() on:change=move |_| live.choose(choice)/>
                <span>{choice.title()}</span></label>
        }
    });
    view! {
        <fieldset class="acts runs"><legend class="vh">"Processor"</legend><span aria-hidden="true">"run on"</span><span class="seg">{options}</span></fieldset>
    }
}

/// A failure with what to do about it.
pub fn failure(failure: Failure) -> AnyView {
    let kind = format!("{:?}", failure.kind);
    view! {
        <div class="note bad" role="alert" data-testid="failure" data-kind=kind><p><b>{failure.message}</b></p><p>{failure.advice}</p></div>
    }
    .into_any()
}

#[component]
fn About() -> impl IntoView {
    let live = page().live;
    let models = move || {
        // What a side has gives way to what is on its way to it.
        let models: Vec<_> = live
            .loaded()
            .into_iter()
            .filter_map(|(mut sides, model)| {
                sides.retain(|side| !live.is_loading(*side));
                (!sides.is_empty()).then_some((sides, model))
            })
            .collect();
        let loading = live.load.get();
        if models.is_empty() && loading.is_none() {
            return view! {
                <h2>"No model loaded"</h2>
                {move || live.processor.get().map(|processor| view! { <p class="muted" data-testid="processor">"Models run on the "{running(live, processor)}"."</p> })}
                {move || why_cpu(live).map(|(_, whole)| view! { <p class="muted" data-testid="why-cpu">{whole}</p> })}
            }
            .into_any();
        }
        let ready = models
            .into_iter()
            .enumerate()
            .map(|(at, (sides, model))| ready(live, &sides, model, at == 0))
            .collect_view();
        view! { {loading.map(|load| progress(live, &load))}{ready} }.into_any()
    };
    view! {
        <div data-testid="model-status">{models}</div>
        {move || live.failure.get().map(failure)}
        {move || again(live)}
    }
}

/// Why a side's model is not in memory, and when it will be again.
pub fn whereabouts(live: Live, side: Side) -> Option<String> {
    let model = live.ready(side)?;
    if live.gpu_lost[side.index()].get() {
        return Some(
            "The GPU was lost, and the model with it. Generate loads the model again first."
                .to_owned(),
        );
    }
    if live.residence[side.index()].get() != Residence::Away {
        return None;
    }
    let from = if model.key.is_some() {
        "this browser’s storage"
    } else {
        "where it came from"
    };
    Some(format!(
        "The model made room for side {}’s: both do not fit into memory. Generate reads it from {from} again first.",
        side.other().plate()
    ))
}

/// A licence in one line: name, where to read it, and what has to be shown.
pub fn licence(licence: Option<&Licence>) -> AnyView {
    let Some(licence) = licence else {
        return "not stated by the model".into_any();
    };
    // The link comes from the model's own files; only the web's addresses are followed.
    let link = licence
        .link
        .clone()
        .filter(|link| link.starts_with("https://") || link.starts_with("http://"))
        .map(|link| view! { " "<a href=link target="_blank" rel="noopener noreferrer">"Read it"</a>"." });
    let attribution = licence
        .attribution
        .clone()
        .map(|text| view! { " "<b data-testid="attribution"><bdi>{text}</bdi></b>"." });
    view! { <bdi data-testid="licence">{licence.name.clone()}</bdi>"."{attribution}{link} }
        .into_any()
}

/// A processor in words.
fn running(live: Live, processor: Processor) -> AnyView {
    match processor {
        Processor::Gpu { adapter } => {
            // The page may be told more than the engine.
            let name = match live.gpu.get() {
                Some(Gpu::Hardware(name) | Gpu::Software(name)) => name,
                _ => adapter.name,
            };
            let software = if adapter.software {
                ", a CPU emulating a GPU"
            } else {
                ""
            };
            view! { "GPU: "<b>{name}</b>{software}", buffers up to "{words::bytes(adapter.max_binding)} }
                .into_any()
        }
        Processor::Cpu { vectors } => {
            view! { "CPU: one thread, "<b>{vectors}</b>" vectors" }.into_any()
        }
    }
}

/// Why models run on the CPU although nobody asked for it: in short, and the whole.
fn why_cpu(live: Live) -> Option<(&'static str, String)> {
    if live.choice.get() != Choice::Automatic {
        return None;
    }
    match live.gpu.get()? {
        Gpu::Hardware(_) => None,
        Gpu::Software(name) => Some((
            "the GPU is emulated",
            format!(
                "The browser's GPU, {name}, is emulated by the CPU, which is slower than our CPU engine."
            ),
        )),
        Gpu::Missing(Failure {
            message, advice, ..
        }) => Some(("no GPU can be used", format!("No GPU: {message}. {advice}"))),
    }
}

/// After a failure or a pause: what was there or asked for, once more.
fn again(live: Live) -> Option<AnyView> {
    let lacks = live
        .failure
        .read()
        .as_ref()
        .is_some_and(|failure| failure.kind == FailureKind::NoGpu);
    let again = live.again.read();
    if lacks || again.is_empty() || live.load.read().is_some() {
        return None;
    }
    let names = again
        .iter()
        .map(|asked| asked.chosen.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    Some(
        view! {
            <div class="acts"><button class="btn" data-testid="load-again" on:click=move |_| live.load_again()>"Load again"</button><span class="file" dir="ltr">{names}</span></div>
        }
        .into_any(),
    )
}

/// How far a load is: bytes, rate, time left.
pub fn pace(load: &Load) -> String {
    let now = load.progress;
    let mut line = words::bytes(load.here);
    if now.total > 0 {
        line.push_str(&format!(" of {}", words::bytes(now.total)));
    }
    if let Some(rate) = load.rate() {
        line.push_str(&format!(", {}/s", words::bytes(rate as u64)));
        if now.total > load.here {
            line.push_str(&format!(
                ", {} left",
                words::seconds((now.total - load.here) as f64 / rate)
            ));
        }
    }
    line
}

fn progress(live: Live, load: &Load) -> AnyView {
    let share = load.share().unwrap_or(0.0);
    view! {
        <h2>"Loading: "{words::stage(load.progress.stage)}</h2>
        <p class="file mono" dir="ltr">{load.asked.chosen.name.clone()}</p>
        <div class="meter big" role="progressbar" aria-label="Model file" aria-valuemin="0" aria-valuemax="100" aria-valuenow=format!("{share:.0}")><i class="ge" style:width=format!("{share:.1}%")></i></div>
        <div class="acts"><span class="mono num">{pace(load)}</span><button class="btn stop right" data-testid="load-stop" on:click=move |_| live.pause()>"Stop"</button></div>
    }
    .into_any()
}

/// The sides that share a model.
fn sides_of(sides: &[Side]) -> Sides {
    match sides {
        [Side::A] => Sides::A,
        [Side::B] => Sides::B,
        _ => Sides::Both,
    }
}

fn ready(live: Live, sides: &[Side], info: Shared<ModelInfo>, first: bool) -> AnyView {
    let types = info
        .types
        .iter()
        .map(|(kind, count)| format!("{kind} × {count}"))
        .collect::<Vec<_>>()
        .join(", ");
    let template = if info.chat_template {
        "its own chat template"
    } else {
        "no chat template: side B needs one"
    };
    let precision = if info.half_cache {
        "half precision"
    } else {
        "single precision"
    };
    let whole = match info.processor {
        Processor::Cpu { .. } => ", weights included",
        Processor::Gpu { .. } => "",
    };
    let side = sides.first().copied().unwrap_or(Side::A);
    let away = move || whereabouts(live, side);
    let mark = move || {
        if live.gpu_lost[side.index()].get() {
            "gpu-lost"
        } else {
            "away"
        }
    };
    let plates = (sides.len() == 1).then(|| view! { <span class="plate">{side.plate()}</span> });
    let these = sides_of(sides);
    let kept = if info.key.is_some() {
        ", kept in this browser"
    } else {
        ""
    };
    view! {
        <h2>{plates}{move || away().is_none().then(|| view! { <span class="dot"></span> })}<bdi class="name">{info.name.clone()}</bdi><span class="muted">"ready in "{words::seconds(info.seconds)}</span>
            <button class="btn right" disabled=move || live.is_busy() on:click=move |_| live.unload(these)>"Unload"</button></h2>
        {move || away().map(|text| view! { <p class="note" role="status" data-testid=mark()>{text}</p> })}
        <dl class="dl">
            <dt>"licence"</dt><dd class="s">{licence(info.licence.as_ref())}</dd>
            <dt>"weights"</dt><dd class="s"><bdi>{info.label.clone()}</bdi>{kept}"; "{words::large(info.parameters)}" parameters, "{types}</dd>
            <dt>"runs on"</dt><dd class="s" data-testid=first.then_some("processor")>{running(live, info.processor.clone())}{why_cpu(live).map(|(short, whole)| view! { <span class="muted" title=whole>" ("{short}")"</span> })}</dd>
            <dt>"memory"</dt><dd class="s">"weights "{words::bytes(info.weight_bytes)}" ("{words::bytes(info.tensor_bytes)}" in the file), cache "{words::bytes(info.cache_bytes_per_token.saturating_mul(1000))}" per 1,000 tokens in "{precision}"; "{words::bytes(info.wasm_bytes)}" in the worker"{whole}</dd>
            <dt>"prompt"</dt><dd class="s">{template}</dd>
        </dl>
    }
    .into_any()
}
