//! What a model writes, turn by turn, as the frames or the message that it becomes.

use super::explain::{look, short};
use super::turns::{keep, most_turns, value_of};
use super::{Mode, Run, Told, Written};
use crate::document::{Side, class, content_text};
use crate::icons;
use crate::pieces;
use crate::sides::{bare, json_text, parts};
use crate::state::{Shared, page};
use crate::words;
use agent::reading::{Call, Guess, Outcome, Part, What};
use formats::json::{self, Value};
use formats::partial::{Due, Progress};
use formats::{FrameKind, python};
use leptos::prelude::*;
use std::sync::Arc;

/// Where a turn's tokens are.
type Tokens = Arc<dyn Fn(usize) -> Option<Written> + Send + Sync>;

/// All turns of the branch that is shown.
#[component]
pub fn Output(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let any = move || {
        !state.written.read().is_empty() || state.is_active() || !state.past.read().is_empty()
    };
    let past_key =
        |(_, _, told): &(usize, usize, Shared<Told>)| std::ptr::from_ref::<Told>(told).addr();
    let past = move || {
        let mut start = 0;
        state
            .past
            .get()
            .into_iter()
            .enumerate()
            .map(|(at, told)| {
                let from = start;
                start += told.written.len();
                (at, from, told)
            })
            .collect::<Vec<_>>()
    };
    view! {
        <For each=past key=past_key children=move |(at, start, told)| past_turn(side, at, start, told)/>
        <Show when=any><Turn side/></Show>
        <Show when=move || !any() && state.failure.read().is_none()>
            <div class="idle">
                <p class="muted">{move || if live.ready(side).is_some() { "“One step” lets the model continue from here; “Run to answer” goes on until it answers." } else { "Load a model, and it continues from here." }}" Nothing leaves this browser."</p>
            </div>
        </Show>
    }
}

fn past_turn(side: Side, at: usize, start: usize, told: Shared<Told>) -> AnyView {
    let results = told.results.iter().flatten().map(|frame| {
        view! { <div class=format!("pf {}", class(frame.kind))><span class="n"></span>{icons::kind_name(frame.kind)}<span class="tx">{pieces::one_line(&content_text(frame), 160)}</span><span class="n">"yours"</span></div> }
    }).collect_view();
    let shown = {
        let (source, first) = (told_tokens(&told), told.first);
        let parts = Signal::derive(move || told.parts.clone());
        view! { <Parts side parts=parts tokens=source start=Signal::derive(move || start) first=Signal::derive(move || first) round=Signal::derive(move || 0) current=false/> }
    };
    view! { <div class="rulehd">{format!("turn {}, generated", at + 1)}</div><div class="past" data-testid="past-turn">{shown}</div>{results} }
        .into_any()
}

fn told_tokens(told: &Shared<Told>) -> Tokens {
    let told = told.clone();
    Arc::new(move |at| told.written.get(at).cloned())
}

/// The turn that was written last, or is being written.
#[component]
fn Turn(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let reload = move || {
        live.reloading.get().map(|progress| {
            let stage = words::stage(progress.stage);
            match progress.share() {
                Some(share) => format!("reading the model again: {stage}, {share:.0} % …"),
                None => format!("reading the model again: {stage} …"),
            }
        })
    };
    let head = move || match state.run.get() {
        Run::Idle => "stopped".to_owned(),
        Run::Waits => format!("waits for side {}’s turn", side.other().plate()),
        Run::Going(_) if let Some(reload) = reload() => reload,
        Run::Going(_) if state.written.read().is_empty() => "reading the prompt …".to_owned(),
        Run::Going(_) => "writing …".to_owned(),
        Run::Done(reason) => words::stop_reason(reason).to_owned(),
    };
    let title = move || {
        if state.mode.get() == Mode::Free {
            "generated".to_owned()
        } else {
            format!("turn {}, generated", state.past.read().len() + 1)
        }
    };
    let start = Signal::derive(move || state.count() - state.written.read().len());
    let source: Tokens = Arc::new(move |at| state.written.read_untracked().get(at).cloned());
    view! {
        <div class="rulehd"><span>{title}</span><span data-testid="stop-reason">{head}</span><Branches side/></div>
        <div class="turn-out" data-testid="output" data-side=side.key() aria-busy=move || state.is_going().to_string()>
            <Parts side parts=state.parts tokens=source start first=state.first round=state.round current=true/>
            <Show when=move || state.is_going() && state.written.read().is_empty()><p class="said waiting"><span class="caret"></span></p></Show>
        </div>
        <Calls side/>
        <Verdict side/>
    }
}

/// Going back to earlier lines of turns.
#[component]
fn Branches(side: Side) -> impl IntoView {
    let live = page().live;
    let state = live.side(side);
    let at = move || state.branch.get();
    let count = move || state.branches.read().len();
    let fixed = move || state.is_active();
    view! {
        <Show when=move || { count() > 1 }>
            <span class="branches" role="group" aria-label="Branches">
                <button class="btn quiet" data-testid="earlier-branch" aria-label="Earlier branch" title="Earlier branch" disabled=move || fixed() || at() == 0 on:click=move |_| live.go_to_branch(side, at() - 1)>"◂"</button>
                <span class="mono num" data-testid="branch">{move || format!("{} of {}", at() + 1, count())}</span>
                <button class="btn quiet" data-testid="later-branch" aria-label="Later branch" title="Later branch" disabled=move || { fixed() || at() + 1 >= count() } on:click=move |_| live.go_to_branch(side, at() + 1)>"▸"</button>
            </span>
        </Show>
    }
}

/// The parts of a turn.
#[component]
fn Parts(
    side: Side,
    #[prop(into)] parts: Signal<Vec<Shared<Part>>>,
    tokens: Tokens,
    start: Signal<usize>,
    #[prop(into)] first: Signal<usize>,
    #[prop(into)] round: Signal<u32>,
    current: bool,
) -> impl IntoView {
    // The round is part of the key: a new turn shares nothing with the last.
    let keys = move || {
        let round = round.get();
        (0..parts.read().len())
            .map(|at| (round, at))
            .collect::<Vec<_>>()
    };
    let tokens = StoredValue::new(tokens);
    let child = move |(round, at): (u32, usize)| {
        let part = Memo::new(move |_| parts.read().get(at).cloned());
        let number = Signal::derive(move || {
            let before = parts.read();
            let frames = before.iter().take(at);
            first.get()
                + frames
                    .filter(|part| matches!(part.what, What::Frame(_)))
                    .count()
        });
        view! { <PartView side part number tokens=tokens.get_value() start round current/> }
    };
    view! { <For each=keys key=|key| *key children=child/> }
}

fn kind_of(part: Option<&Shared<Part>>) -> Option<FrameKind> {
    match part?.what {
        What::Frame(kind) => Some(kind),
        What::Message(Guess::Call | Guess::Tagged) => Some(FrameKind::Action),
        _ => None,
    }
}

/// How a part stands, in words.
fn standing(part: &Part, call: Option<usize>) -> String {
    let end = if part.closed { "closed" } else { "open" };
    if let Some(fault) = &part.fault {
        return format!("{end}: {fault}");
    }
    let more = match (&part.json, part.closed, call) {
        (_, _, Some(call)) => format!(", call {} waits for you", call + 1),
        (Some(Progress::Begun(_)), false, _) => ", JSON incomplete".to_owned(),
        (Some(Progress::Whole), false, _) => ", JSON complete".to_owned(),
        (Some(Progress::Broken(error)), false, _) => format!(", not JSON: {}", error.kind),
        _ => String::new(),
    };
    format!("{end}{more}")
}

/// What is due in JSON, in words.
fn due(due: Due) -> String {
    match due {
        Due::Value => "a value",
        Due::ValueOrEnd => "a value, or the end",
        Due::String => "string",
        Due::Number => "number",
        Due::Word(word) => return format!("“{word}”"),
        Due::Key => "a key",
        Due::KeyOrEnd => "a key, or the end",
        Due::KeyText => "key",
        Due::Colon => "a colon",
        Due::CommaOrEnd => "a comma, or the end",
    }
    .to_owned()
}

/// A part: its head, its tokens, and its JSON as far as it is.
#[component]
fn PartView(
    side: Side,
    part: Memo<Option<Shared<Part>>>,
    number: Signal<usize>,
    tokens: Tokens,
    start: Signal<usize>,
    round: u32,
    current: bool,
) -> impl IntoView {
    let live = page().live;
    let state = live.side(side);
    let open = move || {
        current && state.is_going() && part.read().as_ref().is_some_and(|part| !part.closed)
    };
    let tone = move || kind_of(part.read().as_ref()).map_or("k-turn", class);
    // Which call it is that waits, among those of its turn.
    let call = move || {
        if !current || !state.turn.read().is_some() {
            return None;
        }
        let part = part.get()?;
        let parts = state.parts.read();
        let mut actions = parts
            .iter()
            .filter(|other| kind_of(Some(other)) == Some(FrameKind::Action));
        let at = actions.position(|other| *other == part)?;
        state.results.read().get(at)?.is_none().then_some(at)
    };
    let head = move || {
        let part = part.get()?;
        let standing = standing(&part, call());
        let muted =
            |text: String| view! { <span class="muted" data-testid="standing">{text}</span> };
        Some(match part.what {
            What::Frame(kind) => {
                let spelled = live.markers(side) == agent::reading::Markers::Spelled;
                view! { <span class="mono muted">{number}</span>{icons::kind_name(kind)}{muted(standing)}{spelled.then(|| view! { <span class="muted">", its marker spelled"</span> })} }.into_any()
            }
            What::Message(Guess::Call | Guess::Tagged) => view! {
                <span class="mono muted">{number}</span><span class="kn role-name">"assistant"</span><span class="muted">"becomes"</span>{icons::kind_name(FrameKind::Action)}{muted(standing)}
            }.into_any(),
            What::Message(Guess::Text) => {
                let text = match (part.closed, &part.fault) {
                    (_, Some(fault)) => format!("closed: {fault}"),
                    (true, None) => "text: an answer".to_owned(),
                    (false, None) => "text: an answer, if it ends here".to_owned(),
                };
                view! { <span class="mono muted">{number}</span><span class="kn role-name">"assistant"</span>{muted(text)} }.into_any()
            }
            What::Message(Guess::Nothing) => view! { <span class="mono muted">{number}</span><span class="kn role-name">"assistant"</span>{muted("open".to_owned())} }.into_any(),
            What::Loose if state.mode.get() == Mode::Free => view! { <span class="kn role-name">"model"</span>{muted(String::new())} }.into_any(),
            What::Loose => view! { <span class="kn role-name">"model"</span>{muted("in no frame".to_owned())} }.into_any(),
            What::Stop => view! { <span class="kn role-name">"model"</span>{muted("ends its turn".to_owned())} }.into_any(),
        })
    };
    let count = move || part.read().as_ref().map_or(0, |part| part.tokens.len());
    let keys = move || {
        let range = part
            .read()
            .as_ref()
            .map_or(0..0, |part| part.tokens.clone());
        range.map(|at| (round, at)).collect::<Vec<_>>()
    };
    let source = StoredValue::new(tokens);
    let token = move |at: usize| source.with_value(|tokens| tokens(at));
    let chip = move |(_, at): (u32, usize)| {
        let token = token(at)?;
        let marker = part.with_untracked(|part| {
            match part.as_ref().map(|part| (part.what, part.tokens.start)) {
                Some((What::Frame(kind), first)) if first == at && token.special => Some(kind),
                _ => None,
            }
        });
        Some(chip(side, token, marker, start.get_untracked() + at))
    };
    let reads = move || {
        matches!(
            part.read().as_ref().map(|part| part.what),
            Some(What::Message(Guess::Text | Guess::Nothing) | What::Loose)
        )
    };
    let text = move |(_, at): (u32, usize)| {
        token(at).map(
            |Written { text, special, .. }| view! { <span class:special=special>{text}</span> },
        )
    };
    let tree = move || {
        part.get()
            .and_then(|part| tree(&part, current && state.is_going()))
    };
    let guess = move || {
        let part = part.read();
        let part = part.as_ref()?;
        (part.what == What::Message(Guess::Call) && !part.closed).then(|| view! {
            <p class="guess muted">"No marker opened this call, so that it is one is a guess until the turn ends."</p>
        })
    };
    let kind = move || match part.read().as_ref().map(|part| part.what) {
        Some(What::Frame(kind)) => kind.name(),
        Some(What::Message(_)) => "assistant",
        Some(What::Stop) => "stop",
        Some(What::Loose) | None => "none",
    };
    let name = move || match part.read().as_ref().map(|part| part.what) {
        Some(What::Frame(kind)) => format!(
            "Tokens of the {} frame {}, side {}",
            kind.name(),
            number.get(),
            side.plate()
        ),
        _ => format!("Tokens written on side {}", side.plate()),
    };
    view! {
        <article class=move || format!("gf {}", tone()) class:open=open class:faulty=move || part.read().as_ref().is_some_and(|part| part.fault.is_some())
            class:slim=move || part.read().as_ref().is_some_and(|part| part.what == What::Stop)
            data-testid="written-frame" data-kind=kind data-open=move || part.read().as_ref().is_some_and(|part| !part.closed).to_string() aria-busy=move || open().to_string()>
            <div class="hd">{head}<span class="right mono">{count}</span></div>
            <Show when=reads><p class="said" data-testid="output-text" dir="auto"><For each=keys key=|key| *key children=text/><Show when=open><span class="caret"></span></Show></p></Show>
            <div class="body" class:heat=move || state.heat.get() class:mask=move || !state.heat.get()><div class="strip" role="listbox" aria-label=name dir="ltr"><For each=keys key=|key| *key children=chip/><Show when=move || open() && !reads()><span class="caret"></span></Show></div>{tree}</div>
            {guess}
        </article>
    }
}

/// A written token.
fn chip(side: Side, token: Written, marker: Option<FrameKind>, at: usize) -> AnyView {
    let Written {
        id,
        text,
        special,
        outlook,
        chosen,
    } = token;
    let mut classes = format!("tk m t{}", look(outlook.as_ref()));
    if special {
        classes.push_str(" s");
    }
    if chosen {
        classes.push_str(" chosen");
    }
    let piece = match marker {
        Some(kind) => view! { {icons::glyph(kind)}{kind.name()} }.into_any(),
        None if special => bare(&text).to_owned().into_any(),
        // Its bytes only begin a character; the token that ends it has the text.
        None if text.is_empty() => view! { <span class="ws">"…"</span> }.into_any(),
        None => parts(&text).into_any(),
    };
    let probability = outlook.map(|outlook| outlook.probability);
    let share = probability.map_or("—".to_owned(), short);
    let mut name = format!("{text}, id {id}");
    if let Some(probability) = probability {
        name.push_str(&format!(", probability {probability:.2}"));
    }
    if chosen {
        name.push_str(", chosen by you");
    }
    let reachable = if at == 0 { "0" } else { "-1" };
    let live = page().live;
    view! {
        <span class=classes role="option" tabindex=reachable data-i=at data-token-id=id data-owner="model" data-piece=text aria-label=name
            on:click=move |event| {
                live.chosen.set(Some((side, at)));
                if let Some(chip) = crate::dom::element(event.current_target()) { crate::dom::focus(&chip); }
            }>
            <span class="p">{piece}</span><span class="i"><span class="id">{id}</span><span class="sh">{share}</span></span>
            {probability.map(|p| view! { <span class="q" style:--q=p.to_string()></span> })}
        </span>
    }
    .into_any()
}

/// JSON as far as it is, and what it lacks.
fn tree(part: &Part, going: bool) -> Option<AnyView> {
    let json = part.json.as_ref()?;
    if part.closed {
        return None;
    }
    let Progress::Begun(begun) = json else {
        return None;
    };
    let raw = python::strip_start(&part.raw).to_owned();
    let expects = if begun.open.is_empty() {
        due(begun.due)
    } else {
        format!("{}, then ", due(begun.due))
    };
    let inner = begun
        .string
        .clone()
        .filter(|text| text.starts_with(['{', '[']))
        .map(|text| view! { <br/><span class="muted">"inside the string: "</span><bdi>{text}</bdi><span class="part">"…"</span> });
    let verb = if going { "expects: " } else { "is missing: " };
    let open = begun.open.clone();
    Some(view! {
        <div class="tree" data-testid="partial" dir="ltr"><bdi>{json_text(&raw)}</bdi><span class="part">"…"</span>
            <span class="expects">{verb}{expects}<b class="mono">{open}</b></span>{inner}</div>
    }.into_any())
}

/// A form for the result of each call.
#[component]
fn Calls(side: Side) -> impl IntoView {
    let live = page().live;
    let state = live.side(side);
    let calls = move || {
        let turn = state.turn.get();
        let round = state.round.get();
        turn.map_or(Vec::new(), |turn| {
            turn.calls
                .iter()
                .cloned()
                .enumerate()
                .map(|(at, call)| (round, at, call))
                .collect()
        })
    };
    view! {
        <For each=calls key=|(round, at, _)| (*round, *at) children=move |(_, at, call)| view! { <ResultForm side at call/> }/>
    }
}

#[component]
fn ResultForm(side: Side, at: usize, call: Call) -> impl IntoView {
    let live = page().live;
    let state = live.side(side);
    let recorded = state.recorded(&call.action);
    let text = RwSignal::new(recorded.as_ref().map_or(String::new(), json::dumps));
    let is_recorded = recorded.is_some();
    let untouched = {
        let recorded = text.get_untracked();
        move || is_recorded && *text.read() == recorded
    };
    let given = move || state.results.read().get(at).cloned().flatten();
    let name = python::str(&call.tool);
    let arguments = match &call.action {
        Value::Object(action) => {
            let arguments = action.iter().filter(|(key, _)| *key != "tool");
            let arguments = arguments.map(|(key, value)| (key.clone(), value.clone()));
            json::dumps(&Value::Object(arguments.collect()))
        }
        other => json::dumps(other),
    };
    let id = format!("result-{}-{at}", side.key());
    let heading = format!("call-{}-{at}", side.key());
    let labelled = heading.clone();
    let reads_as = move || match value_of(&text.read()) {
        Value::String(_) if !text.read().trim_start().starts_with('"') => "sent as text",
        _ => "sent as JSON",
    };
    let form = {
        move || {
            let (field, untouched) = (id.clone(), untouched.clone());
            view! {
                <p class="mono call-line" dir="ltr"><bdi>{name.clone()}</bdi>"("<bdi>{json_text(&arguments)}</bdi>")"</p>
                <label for=field.clone()>"Its result"<span class="muted" data-testid="recorded">{move || if untouched() { " recorded in this sample" } else if is_recorded { " changed by you; the sample records another" } else { " yours: nothing is recorded for this call, and no tool runs here" }}</span></label>
                <textarea id=field class="field" data-testid="result" rows="2" spellcheck="false" placeholder="JSON or text" prop:value=move || text.get()
                    on:input=move |event| text.set(event_target_value(&event))></textarea>
                <div class="acts"><button class="btn pri" type="button" data-testid="send-result" on:click=move |_| live.send_result(side, at, &text.get_untracked())>"Send result"</button><span class="muted">{reads_as}</span></div>
            }
        }
    };
    view! {
        <section class="result-form k-result" data-testid="call" aria-labelledby=labelled>
            <h3 id=heading>{icons::glyph(FrameKind::Action)}{format!("Call {}", at + 1)}<span class="muted">{format!("side {}", side.plate())}</span></h3>
            {move || match given() {
                Some(frame) => view! { <div class="pf k-result" data-testid="result-given">{icons::kind_name(FrameKind::Result)}<span class="tx">{pieces::one_line(&content_text(&frame), 200)}</span></div> }.into_any(),
                None => form().into_any(),
            }}
        </section>
    }
}

/// How it ended, and what to do with it.
#[component]
fn Verdict(side: Side) -> impl IntoView {
    let page = page();
    let live = page.live;
    let state = live.side(side);
    let frames = move || {
        if state.is_active() {
            0
        } else {
            state.frames().len()
        }
    };
    let kept = move || {
        let base = state.base.get().and_then(|base| base.given.clone());
        base.is_some_and(|base| {
            page.document
                .read()
                .trajectory
                .frames
                .get(base.frames.len()..)
                .is_some_and(|tail| tail == state.frames().as_slice())
        })
    };
    let title = move || {
        let from = state
            .base
            .get()
            .and_then(|base| Some(base.given.as_ref()?.frames.len()))
            .unwrap_or(0);
        let old = page
            .document
            .read()
            .trajectory
            .frames
            .len()
            .saturating_sub(from);
        match old {
            0 => "Adds them to the end of the trajectory, as one step.".to_owned(),
            old => format!(
                "Puts them into the trajectory in the place of the {} behind frame {}, as one step.",
                words::count(old, "frame"),
                from.saturating_sub(1)
            ),
        }
    };
    let kind = move || match state.turn.get().map(|turn| turn.outcome.clone()) {
        Some(Outcome::Unusable(_) | Outcome::Cut) => "note bad",
        Some(Outcome::Calls) => "note",
        _ => "note plain",
    };
    view! {
        {move || state.verdict.get().map(|text| view! { <p class=kind data-testid="verdict"><bdi>{text}</bdi></p> })}
        {move || (state.auto.get() && state.waiting_calls() > 0).then(|| view! { <p class="muted small">{format!("The run goes on when all results are there; it takes at most {}.", words::count(most_turns(), "turn"))}</p> })}
        <Show when=move || { frames() > 0 }>
            <div class="acts keep">
                <button class="btn" data-testid="keep" title=title disabled=kept on:click=move |_| keep(page, side)>{move || if kept() { "Kept".to_owned() } else { format!("Keep {}", words::count(frames(), "frame")) }}</button>
                <span class="muted">{format!("Side {}’s own: side {}’s prompt does not change until it is kept.", side.plate(), side.other().plate())}</span>
            </div>
        </Show>
    }
}
