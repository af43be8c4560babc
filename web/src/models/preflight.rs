//! What loading a model would take, against what there is, and what would fit instead.

use super::presets;
use crate::live::{self, Quant};
use crate::state::{Page, page};
use crate::words;
use engine::protocol::{LoadOptions, Offer, Preflight, Sides, Source};
use leptos::prelude::*;

/// Contexts on offer, in tokens.
const CONTEXTS: [u32; 6] = [1024, 2048, 4096, 8192, 16_384, 32_768];

/// The panel.
#[component]
pub fn CheckPanel() -> impl IntoView {
    let page = page();
    let live = page.live;
    let any = Memo::new(move |_| live.check.read().is_some());
    let going = Memo::new(move |_| live.check.read().as_ref().is_some_and(|check| check.going));
    let preflight = Memo::new(move |_| live.check.read().as_ref()?.preflight.clone());
    let options = Memo::new(move |_| Some(live.check.read().as_ref()?.asked.options.clone()));
    let sides = Memo::new(move |_| Some(live.check.read().as_ref()?.asked.sides));
    let choices = Memo::new(move |_| {
        live.check
            .read()
            .as_ref()
            .map(|check| check.choices.clone())
            .unwrap_or_default()
    });
    let failure = Memo::new(move |_| live.check.read().as_ref()?.failure.clone());
    let name = Memo::new(move |_| {
        let check = live.check.read();
        let check = check.as_ref()?;
        Some(match &check.preflight {
            Some(preflight) => preflight.name.clone(),
            None => check.asked.chosen.name.clone(),
        })
    });
    let known = Memo::new(move |_| preflight.read().is_some());
    // A kept model is as it was made.
    let stored = Memo::new(move |_| {
        live.check
            .read()
            .as_ref()
            .is_some_and(|check| matches!(check.asked.chosen.source, Source::Kept { .. }))
    });
    // Whether there is a choice of how to store the weights.
    let dense = Memo::new(move |_| {
        let quantized = |options: &LoadOptions| options.recipe.is_some();
        let found = preflight.read();
        options.read().as_ref().is_some_and(quantized)
            || found.as_ref().is_some_and(|found| {
                let offered = |offer: &Offer| matches!(offer, Offer::Recipe { .. });
                found.label.starts_with("safetensors") || found.offers.iter().any(offered)
            })
    });
    let limited = Memo::new(move |_| {
        options
            .read()
            .as_ref()
            .is_some_and(|options| options.memory_limit.is_some())
    });
    let title = move || {
        let name = name.get().unwrap_or_default();
        if known.get() {
            view! { "Will "<bdi class="name">{name}</bdi>" fit?" }.into_any()
        } else if !choices.read().is_empty() {
            view! { "Which of "<bdi class="name">{name}</bdi>"?" }.into_any()
        } else if failure.read().is_some() {
            view! { <bdi class="name">{name}</bdi> }.into_any()
        } else {
            view! { "Checking "<bdi class="name">{name}</bdi>" …" }.into_any()
        }
    };
    let refused = Memo::new(move |_| {
        preflight
            .read()
            .as_ref()
            .is_some_and(|found| found.findings.iter().any(|finding| finding.refuses))
    });
    let blocked =
        move || refused.get() || going.get() || failure.read().is_some() || live.is_busy();
    view! {
        <Show when=move || any.get()>
            <section class="panel" aria-label="Check" data-testid="check" aria-busy=move || going.get().to_string()>
                <h2 id="check-title" tabindex="-1"><span>{title}</span></h2>
                {move || (going.get() && !known.get()).then(|| view! { <p class="muted">"Reading its header."</p> })}
                {move || failure.get().map(live::failure)}
                <Choices choices/>
                <Show when=move || known.get()>
                    <div class="found" class:old=move || going.get()>
                        {move || preflight.get().map(|found| figures(&found, limited.get()))}
                        <p class="verdict" data-testid="verdict" aria-live="polite">{move || preflight.get().map(|found| sentence(&found, limited.get()))}</p>
                        {move || preflight.get().map(|found| findings(&found))}
                        {move || preflight.get().map(|found| offers(page, &found))}
                    </div>
                    <dl class="dl wide-dt">
                        <dt>"for"</dt><dd class="s"><For3 sides/></dd>
                        <dt>"context"</dt><dd class="s"><Context options preflight/></dd>
                        <Show when=move || !stored.get() && dense.get()>
                            <dt>"weights"</dt><dd class="s"><Weights options/></dd>
                        </Show>
                        <dt>"options"</dt><dd class="s switches">
                            <crate::controls::Toggle label="Half-precision cache" title="Keep keys and values on the GPU in 16 bits: half the memory, and rounding errors of about one in two thousand"
                                value=move || options.read().as_ref().is_some_and(|options| options.half_cache) set=move |on| { live.half_cache.set(on); live.check_anew(|asked| asked.options.half_cache = on) } disabled=Signal::derive(move || live::on_cpu(live))/>
                            <Show when=move || !stored.get()><crate::controls::Toggle label="Keep in this browser" title="Keep it piece by piece, so that the next visit fetches nothing"
                                value=move || options.read().as_ref().is_some_and(|options| options.keep) set=move |on| live.check_anew(|asked| asked.options.keep = on)/></Show></dd>
                        {move || preflight.get().map(|found| facts(&found, options.get().as_ref()))}
                    </dl>
                </Show>
                <div class="acts">
                    <Show when=move || known.get()><button class="btn pri" data-testid="check-load" disabled=blocked on:click=move |_| live.load_checked()>"Load to "{move || sides.get().map(super::sides_name)}</button></Show>
                    <Show when=move || failure.read().is_some()><button class="btn" data-testid="check-again" disabled=move || live.is_busy() on:click=move |_| live.check_anew(|_| ())>"Check again"</button></Show>
                    <button class="btn" data-testid="check-cancel" on:click=move |_| live.dismiss()>"Cancel"</button>
                </div>
            </section>
        </Show>
    }
}

/// Several models: which.
#[component]
fn Choices(choices: Memo<Vec<engine::protocol::ModelChoice>>) -> impl IntoView {
    let live = page().live;
    let list = move || {
        choices
            .get()
            .into_iter()
            .map(|choice| {
                let size = choice.bytes.map(words::bytes);
                let this = choice.clone();
                view! {
                    <li><button class="btn" data-testid="choice" on:click=move |_| live.check_choice(&this)><bdi class="name mono">{choice.file}</bdi></button><span class="muted"><bdi>{choice.label}</bdi>{size.map(|size| format!(", {size}"))}</span></li>
                }
            })
            .collect_view()
    };
    view! { <Show when=move || !choices.read().is_empty()><p class="muted">"It holds several models. Which one?"</p><ul class="choices">{list}</ul></Show> }
}

/// For which sides.
#[component]
fn For3(sides: Memo<Option<Sides>>) -> impl IntoView {
    let live = page().live;
    let options = [(Sides::A, "A"), (Sides::B, "B"), (Sides::Both, "both")].map(|(these, title)| {
        view! {
            <label><input class="vh" type="radio" name="check-sides" data-testid=format!("check-for-{}", title.to_lowercase()) prop:checked=move || sides.get() == Some(these) on:change=move |_| live.check_anew(|asked| asked.sides = these)/><span>{title}</span></label>
        }
    });
    view! { <fieldset class="seg"><legend class="vh">"Sides"</legend>{options}</fieldset> }
}

/// How long a conversation.
#[component]
fn Context(
    options: Memo<Option<LoadOptions>>,
    preflight: Memo<Option<Box<Preflight>>>,
) -> impl IntoView {
    let live = page().live;
    let now = move || options.read().as_ref().map(|options| options.context);
    let contexts = Memo::new(move |_| {
        let most = preflight
            .read()
            .as_ref()
            .map_or(u32::MAX, |found| found.model_context);
        let mut contexts: Vec<u32> = CONTEXTS
            .into_iter()
            .filter(|context| *context <= most)
            .collect();
        for more in [now(), Some(most).filter(|most| *most < 1_000_000)]
            .into_iter()
            .flatten()
        {
            if !contexts.contains(&more) {
                contexts.push(more);
            }
        }
        contexts.sort_unstable();
        contexts
    });
    let list = move || {
        contexts
            .get()
            .into_iter()
            .map(|context| {
                let set = move |_| {
                    live.context.set(context);
                    live.check_anew(|asked| asked.options.context = context);
                };
                view! {
                    <label><input class="vh" type="radio" name="check-context" data-testid=format!("context-{context}") prop:checked=move || now() == Some(context) on:change=set/><span>{words::thousands(context.into())}</span></label>
                }
            })
            .collect_view()
    };
    view! { <fieldset class="seg"><legend class="vh">"Longest context in tokens"</legend>{list}</fieldset> }
}

/// How to store the weights.
#[component]
fn Weights(options: Memo<Option<LoadOptions>>) -> impl IntoView {
    let live = page().live;
    let now = move || {
        options
            .read()
            .as_ref()
            .map(|options| options.recipe.clone())
    };
    let list = Quant::ALL.map(|quant| {
        let set = move |_| {
            live.quant.set(quant);
            live.check_quantized(quant.recipe());
        };
        view! {
            <label><input class="vh" type="radio" name="check-weights" data-testid=format!("weights-{}", quant.recipe().unwrap_or_else(|| "as-is".to_owned())) prop:checked=move || now() == Some(quant.recipe()) on:change=set/><span>{quant.title()}</span></label>
        }
    });
    view! { <fieldset class="seg"><legend class="vh">"How weights are stored"</legend>{list}</fieldset> }
}

/// The bar and its key.
fn figures(found: &Preflight, limited: bool) -> AnyView {
    let needed = found.total_bytes();
    let all = needed.saturating_add(found.other_bytes);
    let scale = scale(all.max(found.memory.unwrap_or(0)));
    let width = |bytes: u64| format!("{:.2}%", bytes as f64 * 100.0 / scale);
    let parts = [
        ("ot", "other side", found.other_bytes),
        ("w", "weights", found.weight_bytes),
        ("kv", "cache", found.cache_bytes),
        ("wk", "workspace", found.workspace_bytes),
    ];
    let bar = parts
        .into_iter()
        .filter(|(_, _, bytes)| *bytes > 0)
        .map(|(class, name, bytes)| {
            let label = (class == "w" && bytes as f64 / scale > 0.22)
                .then(|| format!("{name} {}", words::bytes(bytes)));
            view! { <span class=class style:width=width(bytes)>{label}</span> }
        })
        .collect_view();
    let limit = found.memory.map(|memory| {
        let what = if limited { "your limit" } else { "device" };
        let late = memory as f64 / scale > 0.6;
        view! { <span class="lim" class:late=late style:left=width(memory)><em>{what}" "{words::bytes(memory)}</em></span> }
    });
    let (unit, name) = if scale < 1e9 {
        (1e6, " MB")
    } else {
        (1e9, " GB")
    };
    let ticks = (0..=4)
        .map(|tick| {
            let value = scale / unit * f64::from(tick) / 4.0;
            // As many digits as there are.
            let name = if tick == 4 { name } else { "" };
            view! { <span>{format!("{}{name}", (value * 100.0).round() / 100.0)}</span> }
        })
        .collect_view();
    let key = parts
        .into_iter()
        .filter(|(_, _, bytes)| *bytes > 0)
        .map(|(class, name, bytes)| view! { <span><i class=class></i>{name}" "{words::bytes(bytes)}</span> })
        .collect_view();
    let label = match found.memory {
        Some(memory) => format!("{} needed of {}", words::bytes(all), words::bytes(memory)),
        None => format!("{} needed", words::bytes(all)),
    };
    view! {
        <div class="membar" role="img" aria-label=label>{bar}{limit}</div>
        <div class="axis" aria-hidden="true">{ticks}</div>
        <div class="key3">{key}</div>
    }
    .into_any()
}

/// The verdict with what it rests on.
fn sentence(found: &Preflight, limited: bool) -> AnyView {
    let (class, head) = verdict(found, limited);
    view! {
        <b class=class>{head}</b>" "<span class="muted">{words::bytes(found.total_bytes())}" needed for "{words::thousands(found.context.into())}" tokens of context."</span>
    }
    .into_any()
}

/// What speaks against it.
fn findings(found: &Preflight) -> AnyView {
    let findings = found
        .findings
        .iter()
        .map(|finding| {
            let class = if finding.refuses { "note bad" } else { "note" };
            view! { <li class=class>{finding.message.clone()}</li> }
        })
        .collect_view();
    view! { <ul class="findings" data-testid="findings">{findings}</ul> }.into_any()
}

/// The end of the scale: a little more than the most, and divisible by four.
fn scale(most: u64) -> f64 {
    let most = (most as f64 * 1.12).max(1e6);
    let unit = 10f64.powf(most.log10().floor());
    [1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 4.8, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|steps| steps * unit)
        .find(|end| *end >= most)
        .unwrap_or(10.0 * unit)
}

/// Whether it fits, computed from the figures.
fn verdict(found: &Preflight, limited: bool) -> (&'static str, String) {
    let needed = found.total_bytes();
    let all = needed.saturating_add(found.other_bytes);
    let refused = found.findings.iter().any(|finding| finding.refuses);
    match found.memory {
        Some(memory) if needed > memory && (refused || limited) => (
            "er",
            format!("No, {} too much.", words::bytes(needed - memory)),
        ),
        _ if refused => ("er", "No.".to_owned()),
        Some(memory) if needed > memory => (
            "wn",
            format!(
                "Perhaps: {} more than this device tells of.",
                words::bytes(needed - memory)
            ),
        ),
        Some(memory) if all > memory => (
            "wn",
            "Yes, but not beside the other side’s model: they would take turns.".to_owned(),
        ),
        Some(memory) => (
            "",
            format!("Yes, with {} to spare.", words::bytes(memory - all)),
        ),
        None => (
            "",
            "Nothing speaks against it; this browser does not tell how much memory there is."
                .to_owned(),
        ),
    }
}

/// What else is to be known before it is loaded.
fn facts(found: &Preflight, options: Option<&LoadOptions>) -> AnyView {
    let keep = options.is_some_and(|options| options.keep);
    let largest = &found.largest;
    let split = match (largest.parts, largest.max_binding) {
        (..=1, _) => String::new(),
        (parts, 0) => format!(", split in {parts}"),
        (parts, limit) => format!(", split in {parts} (limit {})", words::bytes(limit)),
    };
    let storage = match (&found.storage, keep) {
        (_, false) => "not kept: the next visit fetches it again".to_owned(),
        (Err(why), true) => format!("cannot be kept: {why}"),
        (Ok(storage), true) => {
            let more = found.storage_bytes.saturating_sub(found.kept_bytes);
            let free = storage.quota.saturating_sub(storage.used);
            format!("{} free, {} needed", words::bytes(free), words::bytes(more))
        }
    };
    let download = match (found.download_bytes, found.kept_bytes) {
        (0, _) => "nothing: all of it is here".to_owned(),
        (bytes, 0) if keep && found.storage_bytes < bytes => format!(
            "{} once, {} from this browser from then on",
            words::bytes(bytes),
            words::bytes(found.storage_bytes)
        ),
        (bytes, 0) if keep => format!("{} once, nothing from then on", words::bytes(bytes)),
        (bytes, 0) => words::bytes(bytes),
        (bytes, kept) => format!(
            "{}; {} is here already",
            words::bytes(bytes),
            words::bytes(kept)
        ),
    };
    view! {
        <dt>"model"</dt><dd class="s"><bdi>{found.label.clone()}</bdi>", "{words::large(found.parameters)}" parameters"</dd>
        <dt>"largest tensor"</dt><dd class="s">{words::bytes(largest.bytes)}{split}</dd>
        <dt>"storage"</dt><dd class="s">{storage}</dd>
        <dt>"download"</dt><dd class="s">{download}</dd>
        <dt>"licence"</dt><dd class="s">{live::licence(found.licence.as_ref())}</dd>
    }
    .into_any()
}

/// What would fit instead.
fn offers(page: Page, found: &Preflight) -> AnyView {
    if found.offers.is_empty() {
        return ().into_any();
    }
    let live = page.live;
    let button = move |text: String, take: Box<dyn Fn()>| {
        view! { <button class="btn" data-testid="offer" on:click=move |_| take()>{text}</button> }
            .into_any()
    };
    let list = found
        .offers
        .iter()
        .map(|offer| match offer.clone() {
            Offer::Context {
                context,
                total_bytes,
            } => button(
                format!(
                    "{} tokens of context, {}",
                    words::thousands(context.into()),
                    words::bytes(total_bytes)
                ),
                Box::new(move || {
                    live.context.set(context);
                    live.check_anew(|asked| asked.options.context = context);
                }),
            ),
            Offer::Recipe {
                recipe,
                total_bytes,
            } => {
                let title = Quant::ALL
                    .into_iter()
                    .find(|quant| quant.recipe().as_ref() == Some(&recipe))
                    .map_or(recipe.clone(), |quant| quant.title().to_owned());
                button(
                    format!("{title}, {}", words::bytes(total_bytes)),
                    Box::new(move || {
                        live.check_quantized(Some(recipe.clone()));
                    }),
                )
            }
            Offer::HalfCache { total_bytes } => button(
                format!("Half-precision cache, {}", words::bytes(total_bytes)),
                Box::new(move || {
                    live.half_cache.set(true);
                    live.check_anew(|asked| asked.options.half_cache = true);
                }),
            ),
            Offer::SmallerModel => smaller(page),
        })
        .collect_view();
    view! { <p class="muted">"What would fit:"</p><div class="acts offers" data-testid="offers">{list}</div> }
        .into_any()
}

/// The next smaller models of the site's list.
fn smaller(page: Page) -> AnyView {
    let checked = page
        .live
        .check
        .with_untracked(|check| Some((check.as_ref()?.asked.preset, check.as_ref()?.asked.sides)));
    let Some((preset, sides)) = checked else {
        return ().into_any();
    };
    let names = page.models.presets.with_untracked(|presets| {
        presets
            .iter()
            .map(|preset| preset.name.clone())
            .enumerate()
            .skip(preset.map_or(0, |(at, _)| at + 1))
            .collect::<Vec<_>>()
    });
    if names.is_empty() {
        return view! { <span class="muted">"a smaller model"</span> }.into_any();
    }
    // The last are the smallest.
    names
        .into_iter()
        .rev()
        // How large a model of one's own is, is not known here.
        .take(if preset.is_some() { 2 } else { 1 })
        .rev()
        .map(|(at, name)| {
            view! { <button class="btn" data-testid="offer" on:click=move |_| presets::check(page, at, sides)>{name}</button> }
        })
        .collect_view()
        .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::protocol::{Finding, LargestTensor};

    fn found(memory: Option<u64>, other: u64, refuses: bool) -> Preflight {
        Preflight {
            name: "m".to_owned(),
            label: "GGUF".to_owned(),
            licence: None,
            parameters: 1,
            download_bytes: 1,
            kept_bytes: 0,
            storage_bytes: 1,
            weight_bytes: 4_700_000_000,
            cache_bytes: 540_000_000,
            workspace_bytes: 400_000_000,
            other_bytes: other,
            context: 4096,
            model_context: 131_072,
            largest: LargestTensor {
                name: "t".to_owned(),
                bytes: 1,
                parts: 1,
                max_binding: 0,
            },
            memory,
            storage: Err("none".to_owned()),
            findings: refuses
                .then(|| Finding {
                    refuses,
                    message: "m".to_owned(),
                })
                .into_iter()
                .collect(),
            offers: Vec::new(),
        }
    }

    #[test]
    fn the_verdict_follows_from_the_figures() {
        let says = |memory, other, refuses| verdict(&found(memory, other, refuses), false).1;
        assert_eq!(
            says(Some(8_000_000_000), 0, false),
            "Yes, with 2.36 GB to spare."
        );
        assert_eq!(says(Some(4_200_000_000), 0, true), "No, 1.44 GB too much.");
        assert_eq!(says(None, 0, true), "No.");
        assert!(says(Some(8_000_000_000), 3_000_000_000, false).contains("take turns"));
        assert!(says(Some(4_200_000_000), 0, false).starts_with("Perhaps"));
        assert!(says(None, 0, false).contains("does not tell"));
    }

    #[test]
    fn the_scale_holds_all_of_it() {
        for most in [
            0,
            1,
            999,
            5_640_000_000,
            8_000_000_000,
            9_999_999_999,
            1 << 50,
        ] {
            assert!(scale(most) >= most as f64, "{most}");
        }
    }
}
