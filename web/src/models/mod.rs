//! The room of models: those the site names, one's own, those kept in this browser; what loading one
//! would take, and how a load is doing.

mod kept;
mod loading;
mod own;
mod preflight;
mod presets;

use crate::document::Side;
use crate::dom;
use crate::live::{self, Asked, Live};
use crate::state::{Page, page};
use crate::words;
use engine::protocol::{KeptModel, Residence, Sides};
use leptos::ev::DragEvent;
use leptos::prelude::*;
use leptos::task::spawn_local;

/// What the room keeps while others are shown.
#[derive(Clone, Copy)]
pub struct Models {
    /// The models that the site names.
    presets: RwSignal<Vec<presets::Preset>>,
    /// Which variant of each is chosen.
    picks: RwSignal<Vec<usize>>,
    /// Why there are none.
    trouble: RwSignal<Option<String>>,
    asked: StoredValue<bool>,
    /// The access token. It is never written anywhere.
    token: RwSignal<String>,
    /// Why what was named or dropped was not checked.
    wrong: RwSignal<Option<String>>,
    /// The model that is about to be deleted, until that is confirmed.
    confirm: RwSignal<Option<KeptModel>>,
}

impl Models {
    /// Nothing fetched yet.
    pub fn new() -> Self {
        Self {
            presets: RwSignal::new(Vec::new()),
            picks: RwSignal::new(Vec::new()),
            trouble: RwSignal::new(None),
            asked: StoredValue::new(false),
            token: RwSignal::new(String::new()),
            wrong: RwSignal::new(None),
            confirm: RwSignal::new(None),
        }
    }

    /// Whether a question is open.
    pub fn asks(self) -> bool {
        self.confirm.with_untracked(Option::is_some)
    }
}

/// The room.
#[component]
pub fn ModelsRoom() -> impl IntoView {
    let page = page();
    let live = page.live;
    let over = RwSignal::new(false);
    presets::load(page);
    live.wake();
    live.list_kept();
    let drop_files = move |event: DragEvent| {
        event.prevent_default();
        over.set(false);
        let Some(data) = event.data_transfer() else {
            return;
        };
        let chosen = live::dropped(&data);
        spawn_local(async move {
            if let Some(chosen) = chosen.await {
                own::check(page, chosen);
            }
        });
    };
    view! {
        <main class="page models" class:over=move || over.get() data-testid="models"
            on:dragover=move |event: DragEvent| { event.prevent_default(); over.set(true); }
            on:dragleave=move |_| over.set(false)
            on:drop=drop_files>
            <h1>"Models"</h1>
            <p class="lede">"A model streams from its source into this browser, piece by piece, and is kept here for the next visit. Nothing is fetched before you say so, and nothing leaves this device."</p>
            <div class="mgrid">
                <div class="mleft"><Presets/><own::Own/><kept::KeptModels/></div>
                <aside aria-label="Checks and loads">
                    {move || live.failure.get().filter(|_| live.halted.read().is_none() && live.check.read().as_ref().is_none_or(|check| check.failure.is_none())).map(live::failure)}
                    <preflight::CheckPanel/>
                    <loading::LoadPanel/>
                    <Loaded/>
                    <Settings/>
                </aside>
            </div>
            <kept::Confirm/>
        </main>
    }
}

/// Checks a model and shows what comes of it.
fn check(page: Page, asked: Asked, quant: Option<String>) {
    page.live.check(asked, quant);
    request_animation_frame(|| {
        if let Some(panel) = dom::find("#check-title") {
            dom::focus(&panel);
        }
    });
}

/// Sides in words.
fn sides_name(sides: Sides) -> &'static str {
    match sides {
        Sides::A => "A",
        Sides::B => "B",
        Sides::Both => "both sides",
    }
}

/// The models that the site names.
#[component]
fn Presets() -> impl IntoView {
    let page = page();
    let state = page.models;
    let rows = move || {
        state
            .presets
            .get()
            .into_iter()
            .enumerate()
            .map(|(at, preset)| view! { <Row at preset/> })
            .collect_view()
    };
    view! {
        <section class="mrows" aria-labelledby="models-named">
            <h2 class="vh" id="models-named">"Models that this site names"</h2>
            {rows}
            {move || state.trouble.get().map(|text| view! { <p class="note bad" role="alert">{text}</p> })}
        </section>
    }
}

#[component]
fn Row(at: usize, preset: presets::Preset) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = page.models;
    let pick = move || state.picks.read().get(at).copied().unwrap_or(0);
    let options = preset
        .variants
        .iter()
        .enumerate()
        .map(|(which, variant)| {
            let pick_this = move |_| {
                state.picks.update(|picks| {
                    if let Some(pick) = picks.get_mut(at) {
                        *pick = which;
                    }
                });
            };
            view! {
                <label><input class="vh" type="radio" name=format!("variant-{at}") prop:checked=move || pick() == which on:change=pick_this/><span>{variant.title.clone()}</span></label>
            }
        })
        .collect_view();
    // What its check found, while that is shown.
    let found = move || {
        let check = live.check.read();
        let check = check.as_ref()?;
        let preflight = check.preflight.as_ref()?;
        (check.asked.preset == Some((at, pick()))).then(|| {
            format!(
                "{} to fetch, {} of memory for {} tokens",
                words::bytes(preflight.download_bytes),
                words::bytes(preflight.total_bytes()),
                words::thousands(preflight.context.into())
            )
        })
    };
    let mine = move |asked: &Asked| asked.preset.is_some_and(|(preset, _)| preset == at);
    let loading = Memo::new(move |_| {
        live.load
            .read()
            .as_ref()
            .is_some_and(|load| mine(&load.asked))
    });
    let current = move || {
        loading.get()
            || live
                .check
                .read()
                .as_ref()
                .is_some_and(|check| mine(&check.asked))
    };
    let tags = move || {
        Side::BOTH
            .into_iter()
            .filter(|side| {
                live.model(*side).is_some()
                    && live.preset(*side).is_some_and(|(preset, _)| preset == at)
            })
            .map(|side| view! { <span class="tag on" title="loaded">{side.plate()}</span> })
            .collect_view()
    };
    let share = move || {
        live.load
            .read()
            .as_ref()
            .and_then(|load| load.share())
            .map_or("…".to_owned(), |share| format!("{share:.0} %"))
    };
    let label = preset.name.clone();
    let load_to = move |sides: Sides| {
        view! {
            <button class="btn" data-testid=format!("preset-{}", sides_name(sides).to_lowercase()) aria-label=format!("Load {label} to {}", sides_name(sides)) disabled=move || live.is_busy()
                on:click=move |_| presets::check(page, at, sides)>"Load to "{sides_name(sides)}</button>
        }
    };
    let (to_a, to_b) = (load_to.clone(), load_to);
    view! {
        <article class="mrow" class:cur=current data-testid="preset">
            <div><h3><bdi>{preset.name.clone()}</bdi>{tags}<span class="tag">{preset.tag}</span></h3><div class="sub repo" dir="ltr">{preset.repository}</div></div>
            <div class="what"><fieldset class="seg"><legend class="vh">{format!("{}: which", preset.name)}</legend>{options}</fieldset>
                <div class="sub">{move || found().unwrap_or_else(|| preset.note.clone())}</div></div>
            <div class="acts">
                <Show when=move || loading.get() fallback=move || view! { {to_a(Sides::A)}{to_b(Sides::B)} }>
                    <span class="state run num">{share}</span><button class="btn" on:click=move |_| live.pause()>"Pause"</button>
                </Show>
            </div>
        </article>
    }
}

/// What the sides have.
#[component]
fn Loaded() -> impl IntoView {
    let live = page().live;
    let models = move || {
        live.loaded()
            .into_iter()
            .map(|(sides, model)| {
                let side = sides[0];
                let of = match sides[..] {
                    [Side::A] => Sides::A,
                    [Side::B] => Sides::B,
                    _ => Sides::Both,
                };
                let plates = sides
                    .iter()
                    .map(|side| view! { <span class="plate">{side.plate()}</span> })
                    .collect_view();
                let state = move || match live::whereabouts(live, side) {
                    Some(text) => view! { <p class="note">{text}</p> }.into_any(),
                    None => ().into_any(),
                };
                view! {
                    <article class="held"><h3>{plates}<bdi class="name">{model.name.clone()}</bdi><button class="btn quiet right" disabled=move || live.is_busy() on:click=move |_| live.unload(of)>"Unload"</button></h3>
                        <p class="muted"><bdi>{model.label.clone()}</bdi>", weights "{words::bytes(model.weight_bytes)}", context "{words::thousands(model.context.into())}". "{if model.key.is_some() { "Kept in this browser." } else { "Not kept in this browser." }}</p>
                        <p>{live::licence(model.licence.as_ref())}</p>
                        {state}
                    </article>
                }
            })
            .collect_view()
    };
    view! {
        <Show when=move || Side::BOTH.into_iter().any(|side| live.model(side).is_some())>
            <section class="panel" aria-label="Loaded" data-testid="loaded"><h2>"Loaded"</h2>{models}<p class="muted" data-testid="residence">{move || together(live)}</p></section>
        </Show>
    }
}

/// What became of two models at once.
fn together(live: Live) -> Option<&'static str> {
    let [a, b] = live.residence.map(|residence| residence.get());
    if live.loaded().len() < 2 {
        return None;
    }
    match (a, b) {
        (Residence::Resident, Residence::Resident) => {
            Some("Both are in memory: either side writes at once.")
        }
        (Residence::Resident, Residence::Away) => Some(
            "They do not fit together and take turns: A is in memory, B is read again when you press Generate on its side.",
        ),
        (Residence::Away, Residence::Resident) => Some(
            "They do not fit together and take turns: B is in memory, A is read again when you press Generate on its side.",
        ),
        _ => None,
    }
}

/// What holds for every load.
#[component]
fn Settings() -> impl IntoView {
    let live = page().live;
    let shown = move || {
        live.memory_limit
            .get()
            .map_or(String::new(), |limit| format!("{}", limit as f64 / 1e9))
    };
    let set = move |event| {
        let text = event_target_value(&event);
        let limit = text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|gigabytes| (0.1..=4096.0).contains(gigabytes))
            .map(|gigabytes| (gigabytes * 1e9) as u64);
        if limit.is_some() || text.trim().is_empty() {
            live.limit_memory(limit);
            if live.check.with_untracked(Option::is_some) {
                live.check_anew(|asked| asked.options.memory_limit = limit);
            }
        }
    };
    view! {
        <section class="panel settings" aria-label="Settings"><h2>"Settings"</h2>
            <label class="line"><span>"Memory for models"</span><span class="amount"><input class="field" type="number" min="0.1" max="4096" step="0.5" placeholder="automatic" data-testid="memory-limit" prop:value=shown on:change=set/>" GB"</span></label>
            <p class="muted">{move || match live.memory_limit.get() {
                Some(_) => "What does not fit is refused; a second model takes turns with the first. Empty the field for automatic.",
                None => "Automatic: browsers do not tell how much memory a GPU has, so a load that is too large is only noticed when memory runs out. A limit is known beforehand.",
            }}</p>
            <div class="line"><crate::controls::Toggle label="Keep models in this browser" title="What comes from elsewhere is kept piece by piece, so that a load goes on where it stopped and the next visit fetches nothing" value=move || live.keep.get() set=move |keep| live.keep_models(keep)/></div>
        </section>
    }
}
