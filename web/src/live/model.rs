//! The dock's model panel: load a model, choose what it runs on, see what it is, choose how tokens are drawn.

use super::processor::{Choice, Gpu};
use super::{Chosen, Live, Model, Progress};
use crate::controls::Switch;
use crate::state::page;
use crate::words;
use engine::protocol::{Failure, FailureKind, ModelInfo, Processor, Source};
use leptos::ev::{DragEvent, SubmitEvent};
use leptos::html::Input;
use leptos::prelude::*;
use web_sys::File;

/// The panel.
#[component]
pub fn ModelPanel() -> impl IntoView {
    let live = page().live;
    let over = RwSignal::new(false);
    let drop_file = move |event: DragEvent| {
        event.prevent_default();
        over.set(false);
        let file = event
            .data_transfer()
            .and_then(|data| data.files())
            .and_then(|files| files.item(0));
        load_file(live, file);
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

fn load_file(live: Live, file: Option<File>) {
    if let Some(file) = file {
        live.load(Source::File { name: file.name() }, Some(file));
    }
}

#[component]
fn Load() -> impl IntoView {
    let live = page().live;
    let picker = NodeRef::<Input>::new();
    let loading = move || matches!(*live.model.read(), Model::Loading(..));
    let busy = move || live.going().is_some();
    let submit = move |event: SubmitEvent| {
        event.prevent_default();
        let url = live.url.get_untracked().trim().to_owned();
        if !url.is_empty() {
            live.load(Source::Url { url }, None);
        }
    };
    view! {
        <h2>"Load a model"<span class="muted">"a GGUF file"</span></h2>
        <form class="get" on:submit=submit>
            <input class="field" type="text" inputmode="url" autocomplete="off" spellcheck="false" data-testid="model-url" aria-label="Address of a GGUF file"
                placeholder="https://…/model.gguf" prop:value=move || live.url.get() on:input=move |event| live.url.set(event_target_value(&event))/>
            <button class="btn pri" type="submit" data-testid="model-load" disabled=move || loading() || busy() || live.url.read().trim().is_empty()>"Load"</button>
        </form>
        <div class="acts">
            <label class="btn" class:off=move || loading() || busy()>"Choose a file …"
                <input class="vh" type="file" accept=".gguf" data-testid="model-file" node_ref=picker disabled=move || loading() || busy()
                    on:change=move |_| {
                        if let Some(input) = picker.get_untracked() {
                            load_file(live, input.files().and_then(|files| files.item(0)));
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
                {[512_u32, 1024, 2048, 4096, 8192].map(|n| view! { <option value=n.to_string() selected={n == live.context.get_untracked()}>{n}</option> }).collect_view()}
            </select></label>
            <Switch label="Half-precision cache" title="Keep keys and values on the GPU in 16 bits: half the memory, and rounding errors of about one in two thousand. Holds for the next load."
                value=live.half_cache disabled=Signal::derive(move || on_cpu(live))/>
        </div>
    }
}

/// Whether models are going to run on the CPU.
fn on_cpu(live: Live) -> bool {
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
    view! {
        <div data-testid="model-status">{move || match live.model.get() {
            Model::None => view! {
                <h2>"No model loaded"</h2>
                {move || live.processor.get().map(|processor| view! { <p class="muted" data-testid="processor">"Models run on the "{running(live, processor)}"."</p> })}
                {move || why_cpu(live).map(|(_, whole)| view! { <p class="muted" data-testid="why-cpu">{whole}</p> })}
            }.into_any(),
            Model::Loading(name, progress) => loading(live, name, progress),
            Model::Ready(info) => ready(live, *info),
        }}</div>
        {move || live.failure.get().map(failure)}
        {move || again(live)}
    }
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

/// After a failure: the model that was there, once more.
fn again(live: Live) -> Option<AnyView> {
    let failed = live
        .failure
        .read()
        .as_ref()
        .is_some_and(|failure| failure.kind != FailureKind::NoGpu);
    let gone = *live.model.read() == Model::None;
    let name = live
        .chosen
        .read()
        .as_ref()
        .map(Chosen::name)
        .map(str::to_owned)?;
    (failed && gone).then(|| {
        view! {
            <div class="acts"><button class="btn" data-testid="load-again" on:click=move |_| live.load_again()>"Load again"</button><span class="file" dir="ltr">{name}</span></div>
        }
        .into_any()
    })
}

fn loading(live: Live, name: String, progress: Progress) -> AnyView {
    let Progress {
        stage,
        done,
        total,
        seconds,
    } = progress;
    let rate = if seconds > 0.2 {
        done as f64 / seconds
    } else {
        0.0
    };
    let mut line = words::bytes(done);
    if total > 0 {
        line.push_str(&format!(" of {}", words::bytes(total)));
    }
    if rate > 0.0 && done > 0 {
        line.push_str(&format!(", {}/s", words::bytes(rate as u64)));
        if total > done {
            line.push_str(&format!(
                ", {} left",
                words::seconds((total - done) as f64 / rate)
            ));
        }
    }
    let share = if total > 0 {
        done as f64 * 100.0 / total as f64
    } else {
        0.0
    };
    view! {
        <h2>"Loading: "{words::stage(stage)}</h2>
        <p class="file mono" dir="ltr">{name}</p>
        <div class="meter big" role="progressbar" aria-label="Model file" aria-valuemin="0" aria-valuemax="100" aria-valuenow=format!("{share:.0}")><i class="ge" style:width=format!("{share:.1}%")></i></div>
        <div class="acts"><span class="mono num">{line}</span><button class="btn stop right" data-testid="load-stop" on:click=move |_| live.stop()>"Stop"</button></div>
    }
    .into_any()
}

fn ready(live: Live, info: ModelInfo) -> AnyView {
    let types = info
        .types
        .iter()
        .map(|(kind, count)| format!("{kind} × {count}"))
        .collect::<Vec<_>>()
        .join(", ");
    let licence = info
        .licence
        .unwrap_or_else(|| "not stated in the file".to_owned());
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
    let lost = move || {
        live.gpu_lost.get().then(|| {
            view! { <p class="note" role="status" data-testid="gpu-lost">"The GPU was lost, and the model with it. Generate loads the model again first."</p> }
        })
    };
    view! {
        <h2>{move || (!live.gpu_lost.get()).then(|| view! { <span class="dot"></span> })}{info.name}<span class="muted">"ready in "{words::seconds(info.seconds)}</span>
            <button class="btn right" disabled=move || live.going().is_some() on:click=move |_| live.unload()>"Unload"</button></h2>
        {lost}
        <dl class="dl">
            <dt>"licence"</dt><dd class="s">{licence}</dd>
            <dt>"weights"</dt><dd class="s">{words::large(info.parameters)}" parameters, "{types}</dd>
            <dt>"runs on"</dt><dd class="s" data-testid="processor">{running(live, info.processor)}{why_cpu(live).map(|(short, whole)| view! { <span class="muted" title=whole>" ("{short}")"</span> })}</dd>
            <dt>"memory"</dt><dd class="s">"weights "{words::bytes(info.weight_bytes)}" ("{words::bytes(info.tensor_bytes)}" in the file), cache "{words::bytes(info.cache_bytes_per_token * 1000)}" per 1,000 tokens in "{precision}"; "{words::bytes(info.wasm_bytes)}" in the worker"{whole}</dd>
            <dt>"prompt"</dt><dd class="s">{template}</dd>
        </dl>
    }
    .into_any()
}

#[component]
fn Drawing() -> impl IntoView {
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
    view! {
        <h2>"Sampling"<span class="muted">"both sides"</span><span class="right"><Switch label="Greedy" title="Always take the most probable token" value=live.greedy/></span></h2>
        <div class="samp" class:off=off>
            <Slider name="temperature" min=0.05 max=2.0 step=0.05 get=move |s| s.temperature.into() set=move |s, x| s.temperature = x as f32/>
            <Slider name="top-k" min=0.0 max=200.0 step=1.0 get=move |s| s.top_k.into() set=move |s, x| s.top_k = x as u32/>
            <Slider name="top-p" min=0.05 max=1.0 step=0.01 get=move |s| s.top_p.into() set=move |s, x| s.top_p = x as f32/>
            <Slider name="min-p" min=0.0 max=0.5 step=0.01 get=move |s| s.min_p.into() set=move |s, x| s.min_p = x as f32/>
        </div>
        <div class="pair">
            <label>"seed "<input class="field" type="number" min="0" max="4294967295" data-testid="seed" disabled=off prop:value=move || live.sampling.read().seed.to_string() on:change=seed/></label>
            <label>"max new "<input class="field" type="number" min="1" max="8192" data-testid="max-tokens" prop:value=move || live.max_tokens.get().to_string() on:change=max/></label>
        </div>
    }
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
