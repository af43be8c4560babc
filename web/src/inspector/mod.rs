//! The inspector: what a token is, where it stands, and why it is or is not trained.

use crate::document::{Document, Side, Tone, class, content_text};
use crate::icons;
use crate::pieces;
use crate::sides::{json_text, parts};
use crate::state::{Link, Spot, page};
use crate::words;
use formats::{Owner, Role, json};
use leptos::prelude::*;
use tokens::Token;

/// The right pane.
#[component]
pub fn Inspector() -> impl IntoView {
    let page = page();
    let title = move || {
        if let Some((side, at)) = crate::live::inspected(page) {
            let newest =
                page.written.read().is_none() && crate::live::newest(page) == Some((side, at));
            return match newest {
                true => format!("{}, newest token", side.plate()),
                false => format!("{}, written token {at}", side.plate()),
            };
        }
        let document = page.document.get();
        match (
            page.inspected()
                .and_then(|spot| Some((spot.side, spot.index(&document)?))),
            page.link.get(),
        ) {
            (Some((side, index)), _) => format!("{}, token {index}", side.plate()),
            (None, Some(Link::Frame(frame))) => format!("frame {frame}"),
            (None, Some(Link::Message(message))) => format!("message {message}"),
            (None, None) => String::new(),
        }
    };
    let body = move || {
        if let Some((side, at)) = crate::live::inspected(page) {
            return view! { <crate::live::WrittenToken side at/> }.into_any();
        }
        let document = page.document.get();
        match page.inspected().and_then(|spot| Some((spot, spot.index(&document)?))) {
            Some((spot, index)) => of_token(&document, spot, index),
            None => match page.link.get() {
                Some(Link::Frame(frame)) => of_frame(&document, frame),
                Some(Link::Message(message)) => of_message(&document, message),
                None => view! { <section><p class="muted">"Point at a token, or choose one, to see its id, its bytes, whose it is, and whether a model is trained on it."</p></section> }.into_any(),
            },
        }
    };
    view! {
        <aside class="pane r" aria-label="Inspector">
            <div class="bar"><h2>"Inspector"</h2><span class="muted">{title}</span>
                <span class="right tabs steps"><button class="btn quiet" aria-label="Previous token" title="Previous token" on:click=move |_| crate::keys::step(page, -1)>"←"</button>
                    <button class="btn quiet" aria-label="Next token" title="Next token" on:click=move |_| crate::keys::step(page, 1)>"→"</button>
                    <button class="btn quiet close" aria-label="Close" on:click=move |_| page.drawer.set(false)>{icons::cross()}</button></span></div>
            <div class="insp" data-testid="inspector">{body}
                <section class="keys-box"><div class="keys"><span><kbd>"↑↓"</kbd>" frame"</span><span><kbd>"←→"</kbd>" token"</span><span><kbd>"X"</kbd>" other side"</span>
                    <span><kbd>"P"</kbd>" pin"</span><span><kbd>"M"</kbd>" mask"</span><span><kbd>"?"</kbd>" all keys"</span></div>
                    <p class="built">"Llama 3.1 vocabulary. "<a href="licences/llama-vocabulary.txt">"Built with Llama"</a></p></section>
            </div>
        </aside>
    }
}

fn kind_line(token: &Token) -> AnyView {
    match (
        token.frame_kind,
        token.role,
        token.special.is_some() && !token.forged,
    ) {
        (Some(kind), _, true) => view! { "marker of "{icons::kind_name(kind)} }.into_any(),
        (Some(kind), _, false) => view! { "content of "{icons::kind_name(kind)} }.into_any(),
        (None, Role::Template, _) => "template text".into_any(),
        (None, _, true) => "structure, special token".into_any(),
        (None, _, false) => "structure".into_any(),
    }
}

/// Why a token has the label it has, by the format's own rule.
fn why(document: &Document, side: Side, token: &Token) -> (&'static str, AnyView) {
    let trained = token.label.is_some();
    let head = if trained {
        "Why is it trained?"
    } else {
        "Why is it not trained?"
    };
    let role = token
        .message
        .and_then(|message| document.conversation.messages.get(message))
        .map_or("", |message| message.role())
        .to_owned();
    let text = match (side, trained) {
        (Side::A, true) => view! { "A marker of the model ("{token.frame_kind.map(icons::kind_name)}") stands at or before it, and no marker of the runtime since. From such a marker on, every token keeps its id as label." }.into_any(),
        (Side::A, false) => view! { "The last marker at or before it ("{token.frame_kind.map(icons::kind_name)}") is one of the runtime's. What the runtime writes is read, not learned: its label is −100." }.into_any(),
        (Side::B, true) if token.given => view! { "The rule trains on everything after the assistant's "<code>"end_header_id"</code>". This blank line is part of that, although at run time the prompt already supplies it." }.into_any(),
        (Side::B, true) => view! { "It stands in an assistant turn. Everything after "<code>"end_header_id"</code>", up to and including "<code>"eot_id"</code>", keeps its id as label." }.into_any(),
        (Side::B, false) if role == "assistant" => view! { "It belongs to the header of an assistant turn. The prompt supplies the header; training begins after "<code>"end_header_id"</code>"." }.into_any(),
        (Side::B, false) if token.role == Role::Template => view! { "No one in the conversation wrote it: the template puts it there. Only assistant turns are trained." }.into_any(),
        (Side::B, false) if role.is_empty() => view! { "It stands before the first turn. Only assistant turns are trained." }.into_any(),
        (Side::B, false) => view! { "It stands in a turn of role "<b>{role}</b>". Only assistant turns are trained." }.into_any(),
    };
    (head, text)
}

fn of_token(document: &Document, spot: Spot, index: usize) -> AnyView {
    let side = spot.side;
    let doc = document.side(side);
    let (Some(token), Some(view)) = (doc.tokens().get(index), &doc.view) else {
        return ().into_any();
    };
    let tone = Tone::of_token(token).class();
    let wire = &view.wire;
    let from = pieces::chars_before(wire, token.start);
    let to = pieces::chars_before(wire, token.end);
    let all = wire.chars().count();
    let row = spot.row + 1;
    let frame = token
        .frame
        .map_or("none".to_owned(), |frame| format!("{frame}, turn {row}"));
    let message = token.message.and_then(|at| {
        let message = document.conversation.messages.get(at)?;
        let mut line = format!("{at}, {}", message.role());
        for call in message.tool_calls() {
            line.push_str(&call.id.map_or(String::new(), |id| format!(", {id}")));
        }
        Some(line)
    });
    let special = token.special.clone();
    let label = match token.label {
        Some(id) => view! { <b>{id}</b>" "<span class="s">{if token.given { "(trained, yet given)" } else { "(trained)" }}</span> }.into_any(),
        None => view! { <b>"−100"</b>" "<span class="s">"(context)"</span> }.into_any(),
    };
    let (why_head, why_text) = why(document, side, token);
    let model = token.owner == Owner::Model;
    let trained = token.label.is_some();
    let near = 48;
    let before: String = wire
        .get(..token.start)
        .unwrap_or_default()
        .chars()
        .rev()
        .take(near)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let after: String = wire
        .get(token.end..)
        .unwrap_or_default()
        .chars()
        .take(near)
        .collect();
    let here = wire
        .get(token.start..token.end)
        .unwrap_or(&token.text)
        .to_owned();
    let costs = token.frame.map(|frame| frame_cost(document, frame));
    let message_view = (side == Side::B)
        .then(|| token.message.map(|at| message_json(document, at, tone)))
        .flatten();
    view! {
        <section>
            <div class=format!("big {tone}")><div class="piece" class:m=model class:t=trained><bdi>{parts(&token.text)}</bdi></div></div>
            <dl class="dl first">
                <dt>"id"</dt><dd><b data-testid="inspected-id">{token.id}</b></dd>
                {special.map(|name| view! { <dt>"name"</dt><dd>{name}</dd> })}
                <dt>"bytes"</dt><dd>{pieces::hex(&token.bytes)}</dd>
                <dt>"wire chars"</dt><dd>{format!("{from}–{to} of {all}")}</dd>
                <dt>"kind"</dt><dd class="s">{kind_line(token)}</dd>
                <dt>"frame"</dt><dd class="s">{frame}</dd>
                {message.map(|line| view! { <dt>"message"</dt><dd class="s">{line}</dd> })}
                <dt>"owner"</dt><dd class="s">{token.owner.name()}</dd>
                <dt>"label"</dt><dd>{label}</dd>
            </dl>
            {token.seam.then(|| view! { <p class="note plain">"A seam: this one token ends one part of the wire and begins the next."</p> })}
            {token.forged.then(|| view! { <p class="note bad">"The content spells a special token here. It is encoded as plain text, so it has no power."</p> })}
        </section>
        <section><h3>{why_head}</h3><p>{why_text}</p></section>
        <section class=tone.to_owned()><h3>"In the wire"</h3><div class="code" dir="ltr">{before}<mark><bdi>{here}</bdi></mark>{after}</div></section>
        {costs}{message_view}
    }
    .into_any()
}

/// What a frame costs on both sides.
fn frame_cost(document: &Document, frame: usize) -> Option<AnyView> {
    let kind = document.trajectory.frames.get(frame)?.kind;
    let [a, b] =
        [Side::A, Side::B].map(|side| document.side(side).tally.frames.get(frame).copied());
    let (a, b) = (a?, b?);
    document.side(Side::A).view.as_ref()?;
    let text = match b as i64 - a as i64 {
        0 => format!("{} on either side.", words::count(a, "token")),
        more if more > 0 => format!(
            "{} on side A, {b} on side B: {more} more.",
            words::count(a, "token")
        ),
        fewer => format!(
            "{} on side A, {b} on side B: {} fewer.",
            words::count(a, "token"),
            fewer.unsigned_abs()
        ),
    };
    Some(
        view! { <section><h3>{icons::kind_name(kind)}"frame "{frame}</h3><p>{text}</p></section> }
            .into_any(),
    )
}

fn message_json(document: &Document, at: usize, tone: &'static str) -> Option<AnyView> {
    let message = document.conversation.messages.get(at)?;
    let text = json::dumps(&message.to_json());
    Some(view! { <section class=tone><h3>"Its message"</h3><div class="code js" dir="ltr">{json_text(&text)}</div></section> }.into_any())
}

fn of_frame(document: &Document, at: usize) -> AnyView {
    let Some(frame) = document.trajectory.frames.get(at) else {
        return ().into_any();
    };
    let payload = match frame.kind.payload() {
        formats::Payload::Prose => "text",
        formats::Payload::Json => "JSON",
        formats::Payload::Number => "a number",
        formats::Payload::None => "nothing: the marker stands alone",
    };
    let learned = match frame.kind.owner() {
        Owner::Model => {
            "The model writes it, so it is trained: its marker and its content keep their ids as labels."
        }
        Owner::Runtime => "The runtime writes it, so the model reads it and is not trained on it.",
    };
    let message = document.message_of_frame(at).and_then(|m| {
        Some(format!(
            "{m}, {}",
            document.conversation.messages.get(m)?.role()
        ))
    });
    let text = content_text(frame);
    view! {
        <section>
            <div class=format!("big {}", class(frame.kind))><div class="piece word" class:m=frame.kind.owner() == Owner::Model class:t=frame.kind.owner() == Owner::Model>{icons::glyph(frame.kind)}{frame.kind.name()}</div></div>
            <dl class="dl first">
                <dt>"frame"</dt><dd><b>{at}</b></dd>
                <dt>"owner"</dt><dd class="s">{frame.kind.owner().name()}</dd>
                <dt>"payload"</dt><dd class="s">{payload}</dd>
                <dt>"marker"</dt><dd>{frame.kind.alias()}</dd>
                <dt>"slot"</dt><dd>{frame.kind.reserved()}</dd>
                {message.map(|line| view! { <dt>"message"</dt><dd class="s">{line}</dd> })}
                <dt>"length"</dt><dd class="s">{words::count(text.chars().count(), "character")}</dd>
            </dl>
        </section>
        <section><h3>"Is it trained?"</h3><p>{learned}</p></section>
        {frame_cost(document, at)}
    }
    .into_any()
}

fn of_message(document: &Document, at: usize) -> AnyView {
    let frames = document
        .conversation
        .origins
        .get(at)
        .map(|origin| origin.frames())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|frame| {
            let kind = document.trajectory.frames.get(frame)?.kind;
            Some(view! { <li>{icons::kind_name(kind)}" frame "{frame}</li> })
        })
        .collect_view();
    view! {
        <section><h3>"Message "{at}</h3><p>"The bridge writes it from these frames:"</p><ul class="frames">{frames}</ul></section>
        {message_json(document, at, "k-turn")}
    }
    .into_any()
}
