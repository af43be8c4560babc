//! A frame, and a message.

use crate::document::{Document, Side, class, content_text};
use crate::editor::says;
use crate::icons;
use crate::inspector::report;
use crate::sides::json_text;
use crate::state::page;
use crate::words;
use formats::injection::find;
use formats::{FrameKind, Owner, Payload, json};
use leptos::prelude::*;
use tokens::Cost;

/// Characters of JSON shown of something long.
const LIMIT: usize = 4_000;

/// All about a frame.
pub fn view_of(document: &Document, at: usize) -> AnyView {
    let page = page();
    let Some(frame) = document.trajectory.frames.get(at) else {
        return ().into_any();
    };
    let kind = frame.kind;
    let payload = match kind.payload() {
        Payload::Prose => "text",
        Payload::Json => "JSON",
        Payload::Number => "a number",
        Payload::None => "nothing: the marker stands alone",
    };
    let learned = match (kind, kind.owner()) {
        (FrameKind::End, _) => {
            "The model writes it to stop, so it is trained. In ChatML the end of the assistant's turn stands for it."
        }
        (_, Owner::Model) => {
            "The model writes it, so it is trained: its marker and its content keep their ids as labels."
        }
        (_, Owner::Runtime) => {
            "The runtime writes it, so the model reads it and is not trained on it."
        }
    };
    let message = match document.message_of_frame(at) {
        Some(m) => {
            let role = document.conversation.messages.get(m).map(|it| it.role());
            format!("{m}, {}", role.unwrap_or_default())
        }
        None => "none: the bridge leaves it out".to_owned(),
    };
    let text = content_text(frame);
    let findings: Vec<String> = page
        .faults
        .read()
        .iter()
        .filter(|(frame, _)| *frame == Some(at))
        .map(|(_, fault)| says(fault).0)
        .collect();
    let findings = if findings.is_empty() {
        view! { <p class="muted">"None: no rule is broken here."</p> }.into_any()
    } else {
        let list = findings
            .into_iter()
            .map(|text| view! { <li class="finding">{text}</li> });
        view! { <ul>{list.collect_view()}</ul> }.into_any()
    };
    let forged = find(&document.side(Side::A).rendering)
        .iter()
        .filter(|forged| forged.frame == Some(at))
        .count();
    let model = kind.owner() == Owner::Model;
    view! {
        <section>
            <div class=format!("big {}", class(kind))><div class="piece word" class:m=model class:t=model>{icons::glyph(kind)}{kind.name()}</div></div>
            <dl class="dl first">
                <dt>"frame"</dt><dd><b>{at}</b>{format!(" of {}", document.trajectory.frames.len())}</dd>
                <dt>"owner"</dt><dd class="s">{kind.owner().name()}</dd>
                <dt>"payload"</dt><dd class="s">{payload}</dd>
                <dt>"marker"</dt><dd>{kind.alias()}</dd>
                <dt>"slot"</dt><dd>{kind.slot()}", "{kind.reserved()}</dd>
                <dt>"marker id"</dt><dd>{tokens::marker_id(kind)}</dd>
                <dt>"message"</dt><dd class="s">{message}</dd>
                <dt>"length"</dt><dd class="s">{words::count(text.chars().count(), "character")}", "{words::count(text.len(), "byte")}</dd>
            </dl>
            {(forged > 0).then(|| view! { <p class="note bad">{words::count(forged, "forged marker")}" in its content, encoded as text. "
                <button class="link" on:click=move |_| report::open(page)>"Injection report"</button></p> })}
        </section>
        <section><h3>"Is it trained?"</h3><p data-testid="why">{learned}</p></section>
        <section data-testid="frame-findings"><h3>"Findings"</h3>{findings}</section>
        {costs_of(document, at, false)}
        <section class=class(kind)><h3>"As JSON"</h3>{code(&json::dumps(&frame.to_json()))}</section>
    }
    .into_any()
}

/// JSON as text in its colours, cut where it is very long.
fn code(text: &str) -> AnyView {
    let cut = text.char_indices().nth(LIMIT).map(|(at, _)| at);
    let shown = json_text(&text[..cut.unwrap_or(text.len())]);
    view! { <div class="code js" dir="ltr">{shown}{cut.map(|_| view! { <span class="muted">" … "{words::count(text.chars().count(), "character")}" in all"</span> })}</div> }
        .into_any()
}

/// What a frame costs on both sides.
pub fn costs_of(document: &Document, frame: usize, named: bool) -> Option<AnyView> {
    let kind = document.trajectory.frames.get(frame)?.kind;
    let mut costs = [Cost::default(); 2];
    for side in Side::BOTH {
        let doc = document.side(side);
        doc.view.as_ref()?;
        for range in doc.frame_tokens(frame) {
            for token in &doc.tokens()[range] {
                costs[side.index()] += token;
            }
        }
    }
    let [a, b] = costs;
    let row = |name: &'static str, a: usize, b: usize| {
        let change = words::signed(b as i64 - a as i64);
        view! { <tr><th scope="row">{name}</th><td>{a}</td><td>{b}</td><td>{change}</td></tr> }
    };
    let head = if named {
        view! { <h3>{icons::kind_name(kind)}"frame "{frame}</h3> }.into_any()
    } else {
        view! { <h3>"Tokens"</h3> }.into_any()
    };
    Some(
        view! {
            <section>{head}<table class="kt mini" data-testid="frame-tokens"><thead><tr><td></td><th scope="col">"A"</th><th scope="col">"B"</th><th scope="col">"B − A"</th></tr></thead>
                <tbody>{row("tokens", a.tokens, b.tokens)}{row("structure", a.structure, b.structure)}{row("trained", a.trained, b.trained)}</tbody></table></section>
        }
        .into_any(),
    )
}

/// A message as JSON.
pub fn message_json(document: &Document, at: usize, tone: &'static str) -> Option<AnyView> {
    let message = document.conversation.messages.get(at)?;
    let text = json::dumps(&message.to_json());
    Some(view! { <section class=tone><h3>"Its message"</h3>{code(&text)}</section> }.into_any())
}

/// All about a message.
pub fn message(document: &Document, at: usize) -> AnyView {
    let (Some(message), Some(origin)) = (
        document.conversation.messages.get(at),
        document.conversation.origins.get(at),
    ) else {
        return ().into_any();
    };
    let text = message.text();
    let part = |frame: usize| -> String {
        if origin.call == Some(frame) {
            return "its tool call".to_owned();
        }
        if origin.end == Some(frame) {
            return "the end of its turn".to_owned();
        }
        let span = origin.content.iter().find(|span| span.frame == frame);
        span.and_then(|span| {
            let before = text.get(..span.range.start)?.chars().count();
            let within = text.get(span.range.clone())?.chars().count();
            (within > 0).then(|| format!("its characters {before}–{}", before + within))
        })
        .unwrap_or("its content".to_owned())
    };
    let frames = origin
        .frames()
        .into_iter()
        .filter_map(|frame| {
            let kind = document.trajectory.frames.get(frame)?.kind;
            Some(view! { <li>{icons::kind_name(kind)}" frame "{frame}": "{part(frame)}</li> })
        })
        .collect_view();
    let doc = document.side(Side::B);
    let mut cost = Cost::default();
    for token in doc
        .tokens()
        .iter()
        .filter(|token| token.message == Some(at))
    {
        cost += token;
    }
    let counts = doc.view.is_some().then(|| {
        view! {
            <dt>"tokens"</dt><dd>{cost.tokens}</dd>
            <dt>"structure"</dt><dd>{cost.structure}</dd>
            <dt>"trained"</dt><dd>{cost.trained}</dd>
        }
    });
    let trained = if message.role() == "assistant" {
        "An assistant turn: everything after its header is trained, the end of the turn included."
    } else {
        "Not an assistant turn, so none of it is trained."
    };
    view! {
        <section><h3>"Message "{at}</h3>
            <dl class="dl"><dt>"role"</dt><dd class="s">{message.role().to_owned()}</dd>{counts}</dl></section>
        <section><h3>"Is it trained?"</h3><p data-testid="why">{trained}</p></section>
        <section><h3>"From these frames"</h3><ul class="frames">{frames}</ul></section>
        {message_json(document, at, "k-turn")}
    }
    .into_any()
}
