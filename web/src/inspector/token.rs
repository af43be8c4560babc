//! A token: what it is, where it stands, and why it has the label it has.

use crate::document::{Document, Side, Tone};
use crate::icons;
use crate::inspector::{frame, report};
use crate::pieces;
use crate::sides::parts;
use crate::state::{Spot, page};
use formats::{FrameKind, Owner, Role};
use leptos::prelude::*;
use tokens::{Arm, Token, Why};

/// Characters of the wire shown on either side of the token.
const NEAR: usize = 48;

/// Bytes shown of a long token.
const BYTES: usize = 64;

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
    let message = token
        .message
        .and_then(|message| document.conversation.messages.get(message));
    let role = message.map(|message| message.role());
    let arm = match side {
        Side::A => Arm::AgenticMl,
        Side::B => Arm::ChatMl,
    };
    let head = if token.label.is_some() {
        "Why is it trained?"
    } else {
        "Why is it not trained?"
    };
    let kind = token.frame_kind.map(icons::kind_name);
    let ends = token.frame_kind == Some(FrameKind::End);
    let role = role.unwrap_or("system").to_owned();
    let text = match tokens::why(arm, token, Some(role.as_str())) {
        Why::ModelMarker if ends => view! { "The marker "{kind}" is how the model stops, so it is trained: the model learns when to write it. It is the only stop of AgenticML." }.into_any(),
        Why::ModelMarker => view! { "It is the marker of "{kind}", a frame of the model. Such a marker switches training on, with itself: the model learns to choose the kind of frame before it fills it." }.into_any(),
        Why::ModelContent => view! { "The last marker before it, "{kind}", is one of the model's. From there on every token keeps its id as label, until a marker of the runtime comes." }.into_any(),
        Why::RuntimeMarker => view! { "It is the marker of "{kind}", a frame of the runtime. Such a marker switches training off, with itself: the model must never write it." }.into_any(),
        Why::RuntimeContent => view! { "The last marker before it, "{kind}", is one of the runtime's. What the runtime writes is read, not learned: its label is −100." }.into_any(),
        Why::Begin => view! { "It opens the wire and belongs to no turn. There are two of them: the template writes one, and encoding adds another. Only assistant turns are trained." }.into_any(),
        Why::AssistantHeader => view! { "It belongs to the header of an assistant turn. The prompt supplies the header; training begins after "<code>"end_header_id"</code>"." }.into_any(),
        Why::Given => view! { "The rule trains on everything after the assistant's "<code>"end_header_id"</code>". This blank line is part of that, although at run time the prompt already supplies it." }.into_any(),
        Why::AssistantContent => view! { "It stands in an assistant turn. Everything after "<code>"end_header_id"</code>", up to and including "<code>"eot_id"</code>", keeps its id as label." }.into_any(),
        Why::AssistantEnd => view! { "It ends an assistant turn"{ends.then(|| view! { ", where side A has "{kind} })}", and is trained with the turn: the model learns to stop. "<code>"eot_id"</code>" is the last token of the turn that keeps its id as label." }.into_any(),
        Why::Template => view! { "No one in the conversation wrote it: the template puts it there. Only assistant turns are trained." }.into_any(),
        Why::OtherStructure => view! { "The format writes it, in a turn of role "<b>{role}</b>". Only assistant turns are trained." }.into_any(),
        Why::OtherContent => view! { "It stands in a turn of role "<b>{role}</b>", which the model reads. Only assistant turns are trained." }.into_any(),
        Why::OtherEnd => view! { "It ends a turn of role "<b>{role}</b>", which the runtime writes. Only assistant turns are trained, and their ends." }.into_any(),
    };
    (head, text)
}

/// All about a token.
pub fn view_of(document: &Document, spot: Spot, index: usize) -> AnyView {
    let page = page();
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
    let of_frame = token
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
    let mut bytes = pieces::hex(&token.bytes[..token.bytes.len().min(BYTES)]);
    if token.bytes.len() > BYTES {
        bytes.push_str(&format!(" … ({} in all)", token.bytes.len()));
    }
    let part = token.text.contains('\u{fffd}') && std::str::from_utf8(&token.bytes).is_err();
    let (why_head, why_text) = why(document, side, token);
    let model = token.owner == Owner::Model;
    let trained = token.label.is_some();
    let before: String = wire
        .get(..token.start)
        .unwrap_or_default()
        .chars()
        .rev()
        .take(NEAR)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect();
    let after: String = wire
        .get(token.end..)
        .unwrap_or_default()
        .chars()
        .take(NEAR)
        .collect();
    let here = wire
        .get(token.start..token.end)
        .unwrap_or(&token.text)
        .to_owned();
    let costs = token
        .frame
        .and_then(|at| frame::costs_of(document, at, true));
    let message_view = (side == Side::B)
        .then(|| {
            token
                .message
                .and_then(|at| frame::message_json(document, at, tone))
        })
        .flatten();
    view! {
        <section>
            <div class=format!("big {tone}")><div class="piece" class:m=model class:t=trained><bdi>{parts(&token.text)}</bdi></div></div>
            <dl class="dl first">
                <dt>"id"</dt><dd><b data-testid="inspected-id">{token.id}</b></dd>
                {special.map(|name| view! { <dt>"name"</dt><dd>{name}</dd> })}
                <dt>"bytes"</dt><dd>{bytes}</dd>
                <dt>"wire chars"</dt><dd>{format!("{from}–{to} of {all}")}</dd>
                <dt>"wire bytes"</dt><dd>{format!("{}–{} of {}", token.start, token.end, wire.len())}</dd>
                <dt>"kind"</dt><dd class="s">{kind_line(token)}</dd>
                <dt>"frame"</dt><dd class="s">{of_frame}</dd>
                {message.map(|line| view! { <dt>"message"</dt><dd class="s">{line}</dd> })}
                <dt>"owner"</dt><dd class="s">{token.owner.name()}</dd>
                <dt>"label"</dt><dd data-testid="inspected-label">{label}</dd>
            </dl>
            {part.then(|| view! { <p class="note plain">"Part of a character: neighbouring tokens hold the rest of its bytes."</p> })}
            {token.seam.then(|| view! { <p class="note plain">"A seam: this one token ends one part of the wire and begins the next."</p> })}
            {token.forged.then(|| view! { <p class="note bad">"The content spells a special token here. It is encoded as plain text, so it has no power. "
                <button class="link" on:click=move |_| report::open(page)>"All forged markers"</button></p> })}
        </section>
        <section><h3>{why_head}</h3><p data-testid="why">{why_text}</p></section>
        <section class=tone.to_owned()><h3>"In the wire"</h3><div class="code" dir="ltr">{before}<mark><bdi>{here}</bdi></mark>{after}</div></section>
        {costs}{message_view}
    }
    .into_any()
}
