//! Token chips.

use crate::document::Tone;
use crate::icons;
use crate::pieces::{self, Part};
use formats::{FrameKind, Owner};
use leptos::prelude::*;
use tokens::Token;

/// Text with its whitespace made visible.
pub fn parts(text: &str) -> Vec<AnyView> {
    pieces::parts(text)
        .into_iter()
        .map(|part| match part {
            Part::Plain(text) => text.into_any(),
            Part::Mark(mark) => view! { <span class="ws">{mark}</span> }.into_any(),
        })
        .collect()
}

/// A special token's name without its brackets.
pub fn bare(name: &str) -> &str {
    name.strip_prefix("<|")
        .and_then(|name| name.strip_suffix("|>"))
        .unwrap_or(name)
}

/// Classes of a chip: what it is, who owns it, whether it is trained.
fn classes(token: &Token) -> String {
    let mut classes = format!("tk {}", Tone::of_token(token).class());
    let special = token.special.is_some() && !token.forged;
    for (wanted, class) in [
        (special, " s"),
        (token.label.is_some(), " t"),
        (token.owner == Owner::Model, " m"),
        (token.given, " gv"),
        (token.seam, " seam"),
        (Tone::of_token(token) == Tone::Template, " b"),
    ] {
        if wanted {
            classes.push_str(class);
        }
    }
    classes
}

/// The chip of a token; `at` is its place in its strip.
pub fn chip(token: &Token, at: usize, readable: bool, reachable: bool, selected: bool) -> AnyView {
    let piece: AnyView = match &token.special {
        // A forged marker is never dressed as a real one: it stays a plain chip with its text.
        Some(name) if !token.forged => match token.frame_kind {
            Some(kind) if kind != FrameKind::End || readable => {
                let word = if readable { kind.name() } else { bare(name) };
                view! { {icons::glyph(kind)}{word.to_owned()} }.into_any()
            }
            Some(kind) => view! { {icons::glyph(kind)}{bare(name).to_owned()} }.into_any(),
            None => bare(name).to_owned().into_any(),
        },
        _ => parts(&token.text).into_any(),
    };
    let label = token.label.map_or(-100, i64::from);
    let tabindex = if reachable { "0" } else { "-1" };
    view! {
        <span class=classes(token) role="option" tabindex=tabindex aria-selected=selected.then_some("true") data-i=at
            data-token-id=token.id data-label=label data-owner=token.owner.name()
            data-frame=token.frame data-piece=token.text.clone()>
            <span class="p">{piece}</span><span class="i">{token.id}</span>
        </span>
    }
    .into_any()
}

/// A chip of another model's token: nothing is known but its id and text.
pub fn plain_chip(id: u32, text: &str, special: bool, model: bool, at: usize) -> AnyView {
    let mut classes = String::from("tk k-turn");
    if special {
        classes.push_str(" s");
    }
    if model {
        classes.push_str(" m t");
    }
    let piece = if special {
        bare(text).to_owned().into_any()
    } else if text.is_empty() {
        // Its bytes only begin a character; the token that ends it has the text.
        view! { <span class="ws">"…"</span> }.into_any()
    } else {
        parts(text).into_any()
    };
    let owner = if model { "model" } else { "runtime" };
    let reachable = if at == 0 { "0" } else { "-1" };
    view! {
        <span class=classes role="option" tabindex=reachable data-i=at data-token-id=id data-owner=owner
            data-piece=text.to_owned()>
            <span class="p">{piece}</span><span class="i">{id}</span>
        </span>
    }
    .into_any()
}
