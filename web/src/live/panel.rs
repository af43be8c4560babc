//! A side's live view: what is sent, what the model writes, and its figures.

use super::explain::ASK;
use super::figures::Figures;
use super::model::failure;
use super::output::Output;
use super::prompt::{cut, cuts, given};
use super::{Mode, Run, whereabouts};
use crate::controls::{Switch, Toggle};
use crate::document::{Side, class, content_text};
use crate::dom;
use crate::icons;
use crate::pieces;
use crate::sides::plain_chip;
use crate::state::{Dock, Pane, page};
use crate::words;
use formats::{Policy, json};
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
    let last = StoredValue::new(0);
    // Only people scroll up; that there is more below may be what was written since.
    let scrolled = move |_| {
        if let Some(place) = place.get_untracked() {
            let top = place.scroll_top();
            let rest = place.scroll_height() - top - place.client_height();
            if rest < 48 {
                following.set_value(true);
            } else if top < last.get_value() {
                following.set_value(false);
            }
            last.set_value(top);
        }
    };
    // A chosen token gives way to one that is chosen on another view.
    Effect::new(move |old: Option<()>| {
        if page.spot.get().is_some() && old.is_some() {
            live.chosen.set(None);
        }
    });
    Effect::new(move |_| {
        let chosen = live.chosen.get();
        request_animation_frame(move || mark(side, chosen));
    });
    Effect::new(move |_| {
        state.written.track();
        state.results.track();
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
                    Mode::Trajectory | Mode::Template => view! { <Given side/> }.into_any(),
                    Mode::Free => view! { <Free side/> }.into_any(),
                }}
                {move || whereabouts(live, side).map(|text| view! { <p class="note" data-testid="whereabouts">{text}</p> })}
                <SeenPrompt side/>
                <Past side/>
                <Output side/>
                {move || state.failure.get().map(failure)}
            </div>
            <Figures side/>
        </section>
    }
}

/// Marks the chip of the chosen token.
fn mark(side: Side, chosen: Option<(Side, usize)>) {
    let within = format!(".livecol[data-side={}] .gf .tk", side.key());
    for old in dom::find_all(&format!("{within}[aria-selected=true]")) {
        let _ = old.remove_attribute("aria-selected");
    }
    let Some((_, at)) = chosen.filter(|(of, _)| *of == side) else {
        return;
    };
    if let Some(chip) = dom::find(&format!("{within}[data-i=\"{at}\"]")) {
        let _ = chip.set_attribute("aria-selected", "true");
    }
}

/// Says so where the turns below go on from another prompt than the one above.
#[component]
fn Past(side: Side) -> impl IntoView {
    let page = page();
    let state = page.live.side(side);
    let stale = Memo::new(move |_| {
        let document = page.document.get();
        (!state.written.read().is_empty() || !state.past.read().is_empty())
            && state.is_of_the_past(&given(&document, page.live))
    });
    view! {
        <Show when=move || stale.get()>
            <p class="note" data-testid="stale">"What follows goes on from another prompt than the one above. The next step begins anew; this stays as a branch."</p>
        </Show>
    }
}

/// What to send, and the buttons.
#[component]
fn Ask(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let ready = move || live.ready(side).is_some();
    let busy = move || live.load.read().is_some();
    let wait = move |what: &'static str| {
        if live.side(side.other()).is_active() {
            format!("{what} The other side is at work: this one has its turn after it.")
        } else {
            what.to_owned()
        }
    };
    let pick_mode = move |event| {
        state.mode.set(match event_target_value(&event).as_str() {
            "free" => Mode::Free,
            "template" => Mode::Template,
            _ => Mode::Trajectory,
        });
    };
    let mode = move || match state.mode.get() {
        Mode::Trajectory => "trajectory",
        Mode::Template => "template",
        Mode::Free => "free",
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
    let template = move || {
        (side == Side::B && live.knows_ids(side))
            .then(|| view! { <option value="template">"Messages, own template"</option> })
    };
    view! {
        <div class="ask">
            <span class="plate only-narrow">{side.plate()}</span>
            <label class="sel"><span class="vh">"Prompt"</span><select data-testid="prompt-mode" on:change=pick_mode prop:value=mode>
                <option value="trajectory">{match side { Side::A => "Frames", Side::B => "Messages" }}</option>{template}<option value="free">"Free text"</option>
            </select></label>
            <Show when=move || state.mode.get() != Mode::Free>
                <label class="sel cut"><span class="vh">"Up to"</span><select data-testid="cut" on:change=move |event| live.cut.set(event_target_value(&event).parse().ok())>{options}</select></label>
            </Show>
            <span class="right switches">
                <Switch label="Heat" title=ASK value=state.heat/>
                <Show when=move || live.has_policy(side)>
                    <Toggle label="Safe" title="Text that spells a control token is sent as plain text, and turns are read from ids. Off: as the reference does." value=move || state.policy.get() == Policy::Safe
                        set=move |safe| state.policy.set(if safe { Policy::Safe } else { Policy::Reference })/>
                </Show>
            </span>
        </div>
        <div class="ask go">
            <span class="state" class:run=move || state.is_going() data-testid="side-state">{move || (state.is_going()).then(|| view! { <span class="dot"></span> })}{move || match state.run.get() {
                Run::Going(_) if state.auto.get() => "running to the answer".to_owned(),
                Run::Going(_) => "generating".to_owned(),
                Run::Waits => format!("waits: side {} runs", side.other().plate()),
                _ if state.waiting_calls() > 0 => format!("{} for you", words::count(state.waiting_calls(), "call")),
                _ => String::new(),
            }}</span>
            <span class="right"></span>
            <Show when=move || !ready()>
                <button class="btn pri" data-testid="open-model" on:click=move |_| { page.dock.set(Dock::Model); page.pane.set(Pane::Dock); crate::pointing::focus_model(); }>"Load a model …"</button>
            </Show>
            <Show when=move || !state.is_active() && ready()>
                <button class="btn" data-testid="generate" disabled=busy title=move || wait("Lets the model write one turn (G).") on:click=move |_| live.write(side, false)>"One step "<kbd>"G"</kbd></button>
                <button class="btn pri" data-testid="run" disabled=move || busy() || state.mode.get() == Mode::Free title=move || wait("Lets the model write turns until it answers; its calls wait for your results.") on:click=move |_| live.write(side, true)>"Run to answer"</button>
            </Show>
            <Show when=move || state.is_active()>
                <button class="btn stop" data-testid="stop" on:click=move |_| live.halt_side(side)>"Stop "<kbd>"Esc"</kbd></button>
            </Show>
        </div>
    }
}

/// The frames or messages that are sent.
#[component]
fn Given(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let model = move || match live.ready(side) {
        Some(model) => model.name.clone(),
        None => "A published model".to_owned(),
    };
    move || {
        let document = page.document.get();
        let cut = cut(&document, live);
        let counts = live.knows_ids(side) && document.side(side).view.is_some();
        let forged = move || {
            let forged = live.has_policy(side).then(|| {
                let given = given(&page.document.get(), live);
                let view = live.prompt_tokens(side, &given, live.policy(side))?;
                Some(view.counts().forged)
            });
            let count = forged.flatten().unwrap_or(0);
            match (live.policy(side), count) {
                (Policy::Reference, 0) => Some(("note bad", "Reference encoding: text that spells a control token becomes that token. Nothing in this prompt does.".to_owned())),
                (Policy::Reference, n) => Some(("note bad", format!("Reference encoding: {} of this prompt made control tokens by text that only spells them. Such text can forge markers and turns.", words::count(n, "token")))),
                (Policy::Safe, 0) => None,
                (Policy::Safe, n) => Some(("note", format!("Text in this prompt spells control tokens. It is sent as {}, with no power.", words::count(n, "plain token")))),
            }
        };
        let forged = move || {
            forged()
                .map(|(class, text)| view! { <p class=class data-testid="policy-note">{text}</p> })
        };
        if side == Side::A {
            let rows = (0..cut)
                .map(|at| {
                    let frame = &document.trajectory.frames[at];
                    view! {
                        <div class=format!("pf {}", class(frame.kind)) data-frame=at><span class="n">{at}</span>{icons::kind_name(frame.kind)}
                            <span class="tx">{pieces::one_line(&content_text(frame), 160)}</span><span class="n">{counts.then(|| document.side(side).tally.frames.get(at).copied())}</span></div>
                    }
                })
                .collect_view();
            let note = if live.speaks_frames(side) || live.knows_ids(side) {
                let trained = if live.speaks_frames(side) {
                    ""
                } else {
                    " Its name does not say that it was trained on them, so do not expect too much."
                };
                view! { <p class="note plain">"The frames are sent to "<bdi>{model}</bdi>" as AgenticML models are trained on them: each marker is one of its reserved tokens."{trained}</p> }.into_any()
            } else {
                view! { <p class="note"><bdi>{model}</bdi>" was not trained on these markers. It is sent "<code>"<|goal|>"</code>" and the like as spelled text, several tokens each, and what it writes is read as spelled. Do not expect frames from it."</p> }.into_any()
            };
            return view! { {rows}{note}{forged} }.into_any();
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
        let header = live.ready(side).is_some().then(|| view! { <div class="pf k-turn"><span class="n"></span><span class="kn role-name">"assistant"</span><span class="tx">"header and blank line given (generation prompt)"</span></div> });
        let how = if live.knows_ids(side) && state.mode.get() == Mode::Trajectory {
            "The messages are sent in the Llama 3.1 layout, token by token as the other views of this side show it."
        } else {
            "The messages go through the chat template in the model's own file, with the header of an assistant turn at the end."
        };
        view! { {rows}{header}<p class="note plain">{how}</p>{forged} }.into_any()
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
