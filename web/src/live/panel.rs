//! A side's live view: what is sent, what the model writes, and its figures.

use super::model::failure;
use super::{Live, Mode, Run, Written, whereabouts};
use crate::document::{Document, Side, class, content_text};
use crate::icons;
use crate::pieces;
use crate::sides::plain_chip;
use crate::state::{Dock, Page, Pane, page};
use crate::words;
use engine::protocol::Prompt;
use formats::{Trajectory, agenticml, bridge, json};
use leptos::html::Div;
use leptos::prelude::*;

/// The view.
#[component]
pub fn LivePanel(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let place = NodeRef::<Div>::new();
    let following = StoredValue::new(true);
    let scrolled = move |_| {
        if let Some(place) = place.get_untracked() {
            let rest = place.scroll_height() - place.scroll_top() - place.client_height();
            following.set_value(rest < 48);
        }
    };
    Effect::new(move |_| {
        state.written.track();
        if following.get_value()
            && let Some(place) = place.get_untracked()
        {
            request_animation_frame(move || place.set_scroll_top(place.scroll_height()));
        }
    });
    view! {
        <section class="livecol" data-side=side.key() aria-label=format!("Live, side {}", side.plate())>
            <Ask side/>
            <div class="live" node_ref=place on:scroll=scrolled tabindex="0" role="region" aria-label=format!("Prompt and answer, side {}", side.plate())>
                {move || match state.mode.get() {
                    Mode::Trajectory => view! { <Given side/> }.into_any(),
                    Mode::Free => view! { <Free side/> }.into_any(),
                }}
                {move || whereabouts(live, side).map(|text| view! { <p class="note" data-testid="whereabouts">{text}</p> })}
                <SeenPrompt side/>
                <Output side/>
                {move || state.failure.get().map(failure)}
            </div>
            <Figures side/>
        </section>
    }
}

/// The first frame that is not sent.
fn cut(document: &Document, live: Live) -> usize {
    let frames = &document.trajectory.frames;
    live.cut
        .get()
        .filter(|cut| *cut <= frames.len())
        .unwrap_or_else(|| {
            frames
                .iter()
                .position(|frame| frame.kind.owner() == formats::Owner::Model)
                .unwrap_or(frames.len())
        })
}

/// Places where a model's turn begins, and the end.
fn cuts(document: &Document) -> Vec<usize> {
    let frames = &document.trajectory.frames;
    let is_model = |at: usize| frames[at].kind.owner() == formats::Owner::Model;
    let mut cuts: Vec<usize> = (1..frames.len())
        .filter(|&at| is_model(at) && !is_model(at - 1))
        .collect();
    if frames
        .last()
        .is_some_and(|f| f.kind.owner() != formats::Owner::Model)
    {
        cuts.push(frames.len());
    }
    cuts
}

fn send(page: Page, side: Side) {
    let live = page.live;
    let state = live.side(side);
    if state.mode.get_untracked() == Mode::Free {
        let text = state.free.get_untracked();
        if text.is_empty() {
            live.refuse(
                side,
                "The prompt is empty.".to_owned(),
                "Type some text for the model to continue.",
            );
        } else {
            live.generate(side, Prompt::Text { text });
        }
        return;
    }
    let document = page.document.get_untracked();
    let frames = document.trajectory.frames[..untrack(|| cut(&document, live))].to_vec();
    let given = Trajectory { frames };
    let markers = if untrack(|| live.speaks_frames(side)) {
        agenticml::View::Reserved
    } else {
        agenticml::View::Markers
    };
    let prompt = match side {
        Side::A => agenticml::render(&given, markers)
            .map(|rendering| Prompt::Text {
                text: rendering.text(),
            })
            .map_err(|error| error.to_string()),
        Side::B => bridge::messages(&given)
            .map(|conversation| Prompt::Messages {
                json: json::dumps(&conversation.to_json()),
            })
            .map_err(|error| error.to_string()),
    };
    match prompt {
        Ok(prompt) => live.generate(side, prompt),
        Err(error) => live.refuse(
            side,
            error,
            "Change the frame that is named, or send fewer frames.",
        ),
    }
}

/// What to send, and the buttons.
#[component]
fn Ask(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let ready = move || live.ready(side).is_some();
    let other = move || live.side(side.other()).is_going();
    let why_not = move || {
        if other() {
            "The other side is generating."
        } else {
            "Continue this prompt."
        }
    };
    let pick_mode = move |event| {
        state.mode.set(match event_target_value(&event).as_str() {
            "free" => Mode::Free,
            _ => Mode::Trajectory,
        });
    };
    let options = move || {
        let document = page.document.get();
        let now = cut(&document, live);
        cuts(&document)
            .into_iter()
            .map(|at| {
                let title = match document.trajectory.frames.get(at) {
                    Some(frame) => format!("before frame {at}, {}", frame.kind.name()),
                    None => "whole trajectory".to_owned(),
                };
                view! { <option value=at.to_string() selected={at == now}>{title}</option> }
            })
            .collect_view()
    };
    view! {
        <div class="ask">
            <span class="plate only-narrow">{side.plate()}</span>
            <label class="sel"><span class="vh">"Prompt"</span><select data-testid="prompt-mode" on:change=pick_mode prop:value=move || if state.mode.get() == Mode::Free { "free" } else { "trajectory" }>
                <option value="trajectory">{match side { Side::A => "Frames", Side::B => "Messages" }}</option><option value="free">"Free text"</option>
            </select></label>
            <Show when=move || state.mode.get() == Mode::Trajectory>
                <label class="sel cut"><span class="vh">"Up to"</span><select data-testid="cut" on:change=move |event| live.cut.set(event_target_value(&event).parse().ok())>{options}</select></label>
            </Show>
            <span class="right"></span>
            <Show when=move || !ready()>
                <button class="btn pri" data-testid="open-model" on:click=move |_| { page.dock.set(Dock::Model); page.pane.set(Pane::Dock); crate::pointing::focus_model(); }>"Load a model …"</button>
            </Show>
            <Show when=move || !state.is_going() && ready()>
                <button class="btn pri" data-testid="generate" title=why_not disabled=other on:click=move |_| send(page, side)>"Generate"</button>
            </Show>
            <Show when=move || state.is_going()>
                <button class="btn stop" data-testid="stop" on:click=move |_| live.stop()>"Stop "<kbd>"Esc"</kbd></button>
            </Show>
        </div>
    }
}

/// The frames or messages that are sent.
#[component]
fn Given(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let model = move || match live.ready(side) {
        Some(model) => model.name.clone(),
        None => "A published model".to_owned(),
    };
    move || {
        let document = page.document.get();
        let cut = cut(&document, live);
        if side == Side::A {
            let rows = (0..cut)
                .map(|at| {
                    let frame = &document.trajectory.frames[at];
                    view! {
                        <div class=format!("pf {}", class(frame.kind)) data-frame=at><span class="n">{at}</span>{icons::kind_name(frame.kind)}
                            <span class="tx">{pieces::one_line(&content_text(frame), 160)}</span></div>
                    }
                })
                .collect_view();
            let note = if live.speaks_frames(side) {
                view! { <p class="note plain">"The frames are sent as they were in the training of "<bdi>{model}</bdi>": each marker is one of its reserved tokens."</p> }.into_any()
            } else {
                view! { <p class="note"><bdi>{model}</bdi>" was not trained on these markers. It is sent "<code>"<|goal|>"</code>" and the like as spelled text, several tokens each, so do not expect frames from it."</p> }.into_any()
            };
            return view! { {rows}{note} }.into_any();
        }
        let rows = document
            .conversation
            .messages
            .iter()
            .zip(&document.conversation.origins)
            .enumerate()
            .filter(|(_, (_, origin))| origin.frames().iter().all(|frame| *frame < cut))
            .map(|(at, (message, _))| {
                let text = if message.has_tool_calls() {
                    json::dumps(message.fields.get("tool_calls").unwrap_or(&formats::Value::Null))
                } else {
                    message.text().to_owned()
                };
                view! {
                    <div class="pf k-turn" data-message=at><span class="n">{at}</span><span class="kn role-name">{message.role().to_owned()}</span>
                        <span class="tx">{pieces::one_line(&text, 160)}</span></div>
                }
            })
            .collect_view();
        view! { {rows}<p class="note plain">"The messages go through the chat template in the model's own file, with the header of an assistant turn at the end."</p> }.into_any()
    }
}

/// Text typed here.
#[component]
fn Free(side: Side) -> impl IntoView {
    let state = page().live.side(side);
    view! {
        <label class="free"><span class="muted">"Sent as it is. The model's own special tokens, such as "<code>"<|im_start|>"</code>", are recognised."</span>
            <textarea class="field" data-testid="free-prompt" rows="6" spellcheck="false" prop:value=move || state.free.get()
                on:input=move |event| state.free.set(event_target_value(&event))></textarea></label>
    }
}

/// The prompt as the model saw it, folded.
#[component]
fn SeenPrompt(side: Side) -> impl IntoView {
    let state = page().live.side(side);
    move || {
        let seen = state.seen.get();
        if seen.tokens.is_empty() {
            return ().into_any();
        }
        let count = seen.tokens.len();
        let open = RwSignal::new(false);
        let reused =
            (seen.reused > 0).then(|| format!(", {} of them still in the cache", seen.reused));
        let chips = move || {
            open.get().then(|| {
                seen.tokens
                    .iter()
                    .enumerate()
                    .map(|(at, (id, text))| {
                        let special =
                            text.starts_with("<|") && text.ends_with("|>") && text.len() > 4;
                        plain_chip(*id, text, special, false, at)
                    })
                    .collect_view()
            })
        };
        view! {
            <details class="seen" data-testid="prompt-seen" data-count=count on:toggle=move |_| open.set(true)>
                <summary>"The prompt as this model sees it: "<b>{words::count(count, "token")}</b>{reused}</summary>
                <div class="strip" role="listbox" aria-label="Tokens of the prompt" dir="ltr">{chips}</div>
            </details>
        }
        .into_any()
    }
}

/// What the model writes, token by token.
#[component]
fn Output(side: Side) -> impl IntoView {
    let page = page();
    let state = page.live.side(side);
    let any = move || !state.written.read().is_empty() || state.is_going();
    let reload = move || {
        page.live.reloading.get().map(|progress| {
            let stage = words::stage(progress.stage);
            match progress.share() {
                Some(share) => format!("reading the model again: {stage}, {share:.0} % …"),
                None => format!("reading the model again: {stage} …"),
            }
        })
    };
    let head = move || match state.run.get() {
        Run::Idle => "stopped".to_owned(),
        Run::Going(_) if let Some(reload) = reload() => reload,
        Run::Going(_) if state.written.read().is_empty() => "reading the prompt …".to_owned(),
        Run::Going(_) => "writing …".to_owned(),
        Run::Done(reason) => words::stop_reason(reason).to_owned(),
    };
    // The round is part of the key: a new run shares nothing with the last.
    let keys = move || {
        let round = state.round.get();
        (0..state.written.read().len())
            .map(|at| (round, at))
            .collect::<Vec<_>>()
    };
    let written = move |at: usize| state.written.read_untracked().get(at).cloned();
    let chip = move |(_, at): (u32, usize)| {
        written(at).map(|Written { id, text, special }| plain_chip(id, &text, special, true, at))
    };
    let text = move |(_, at): (u32, usize)| {
        written(at).map(
            |Written { text, special, .. }| view! { <span class:special=special>{text}</span> },
        )
    };
    view! {
        <Show when=any>
            <div class="rulehd">"generated"</div>
            <article class="gf k-turn" class:open=move || state.is_going() aria-busy=move || state.is_going().to_string() data-testid="output">
                <div class="hd"><span class="kn role-name">"model"</span><span class="muted" data-testid="stop-reason">{head}</span><span class="right mono">{move || state.written.read().len()}</span></div>
                <p class="said" data-testid="output-text" dir="auto"><For each=keys key=|key| *key children=text/><Show when=move || state.is_going()><span class="caret"></span></Show></p>
                <div class="body mask"><div class="strip" role="listbox" aria-label=format!("Tokens written on side {}", side.plate()) dir="ltr"><For each=keys key=|key| *key children=chip/></div></div>
            </article>
        </Show>
        <Show when=move || !any() && state.failure.read().is_none()>
            <div class="idle">
                <p class="muted">{move || if page.live.ready(side).is_some() { "Generate lets the model continue from here." } else { "Load a model, and it continues from here." }}" Nothing leaves this browser."</p>
            </div>
        </Show>
    }
}

/// Speed, first token, counts, context.
#[component]
fn Figures(side: Side) -> impl IntoView {
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
        if stats.new_tokens > 0 {
            words::seconds(stats.first_token_seconds)
        } else {
            dash()
        }
    };
    let new = move || state.stats.read().new_tokens;
    let prompt = move || state.stats.read().prompt_tokens;
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
            <span><b data-testid="prompt-tokens">{move || if prompt() > 0 { prompt().to_string() } else { dash() }}</b>"prompt"</span>
            <div class="room"><div class="meter" role="img" aria-label=move || format!("context: {} prompt, {} new, of {}", prompt(), new(), context())>
                <i class="pr" style:width=move || width(prompt())></i><i class="ge" style:width=move || width(new())></i></div>
                <span>{prompt}" + "{new}" of "{context}</span></div>
        </div>
    }
}
