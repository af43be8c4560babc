//! What either side costs: bars and a table per kind, a table per frame, what a cache keeps, and why the
//! sides differ. Every figure is counted.

mod cache;
mod frames;
mod why;

use crate::controls;
use crate::document::{Side, Tally, class};
use crate::icons;
use crate::state::{Link, page};
use crate::words;
use formats::{FrameKind, Owner};
use leptos::prelude::*;

/// What the costs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Bars and a table by kind.
    Kinds,
    /// A table by frame.
    Frames,
    /// What a cache keeps.
    Cache,
    /// Why the sides differ.
    Why,
}

impl Section {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Kinds, "Kinds"),
        (Self::Frames, "Frames"),
        (Self::Cache, "Cache"),
        (Self::Why, "Why"),
    ];
}

/// The sections and their tabs.
#[component]
pub fn Sections() -> impl IntoView {
    let section = page().explain.section;
    let tabs = Section::ALL.map(|(which, title)| {
        view! {
            <button role="tab" id=format!("costs-{}", title.to_lowercase()) data-testid=format!("costs-{}", title.to_lowercase()) aria-controls="costs-body"
                aria-selected=move || (section.get() == which).to_string() tabindex=move || if section.get() == which { "0" } else { "-1" }
                on:click=move |_| section.set(which)>{title}</button>
        }
    });
    let chosen = move || {
        let (_, title) = Section::ALL[section.get() as usize];
        format!("costs-{}", title.to_lowercase())
    };
    view! {
        <div class="costs">
            <div class="cost-tabs" role="tablist" aria-label="Costs" aria-orientation="vertical" on:keydown=controls::tab_keys>{tabs}</div>
            <div class="cost-body" id="costs-body" role="tabpanel" aria-labelledby=chosen>
                {move || match section.get() {
                    Section::Kinds => view! { <Bars/><Table/> }.into_any(),
                    Section::Frames => view! { <frames::Frames/> }.into_any(),
                    Section::Cache => view! { <cache::Cache/> }.into_any(),
                    Section::Why => view! { <why::Why/> }.into_any(),
                }}
            </div>
        </div>
    }
}

/// Stands where figures cannot be counted yet.
fn unknown() -> AnyView {
    view! { <p class="cost-say muted">"— Counting needs both wires and the tokenizer."</p> }
        .into_any()
}

/// A part of a bar: class, glyph, name, tokens, whether the model owns it.
type Part = (&'static str, Option<FrameKind>, &'static str, usize, bool);

fn parts(tally: &Tally) -> Vec<Part> {
    let mut parts: Vec<Part> = vec![
        ("k-tmpl", None, "template", tally.template, false),
        ("k-turn", None, "turns", tally.turns(), false),
    ];
    parts.extend(kinds(&[tally]).into_iter().map(|kind| {
        (
            class(kind),
            Some(kind),
            kind.name(),
            tally.kind(kind),
            kind.owner() == Owner::Model,
        )
    }));
    parts.retain(|part| part.3 > 0);
    parts
}

/// Kinds that occur, in the order a trajectory usually has them.
fn kinds(tallies: &[&Tally]) -> Vec<FrameKind> {
    use FrameKind::{
        Action, Belief, End, Feedback, Goal, Mission, Obs, Plan, Result, Reward, Think,
    };
    [
        Goal, Obs, Mission, Belief, Plan, Think, Action, End, Result, Feedback, Reward,
    ]
    .into_iter()
    .filter(|&kind| tallies.iter().any(|tally| tally.kind(kind) > 0))
    .collect()
}

/// The sentence: what side B costs against side A.
#[component]
pub fn Sentence() -> impl IntoView {
    let page = page();
    move || {
        let document = page.document.get();
        let [a, b] = &document.sides;
        if a.view.is_none() || b.view.is_none() {
            return view! { <span class="say muted">"Counting needs both wires and the tokenizer."</span> }.into_any();
        }
        let (head, tail) = words::cost_sentence(
            (a.tally.tokens, a.tally.structure),
            (b.tally.tokens, b.tally.structure),
        );
        let trained = words::trained(
            (a.tally.trained, a.tally.tokens),
            (b.tally.trained, b.tally.tokens),
        );
        view! { <span class="say" data-testid="cost-sentence">"B costs "<b>{head}</b>": "{tail}". "{trained}</span> }
            .into_any()
    }
}

/// The two bars.
#[component]
pub fn Bars() -> impl IntoView {
    let page = page();
    move || {
        let document = page.document.get();
        let most = document
            .sides
            .iter()
            .map(|side| side.tally.tokens)
            .max()
            .unwrap_or(0)
            .max(1);
        let rows = Side::BOTH
            .map(|side| {
                let doc = document.side(side);
                let known = doc.view.is_some();
                let total = if known { doc.tally.tokens.to_string() } else { "—".into() };
                let width = format!("{:.2}%", doc.tally.tokens as f64 * 100.0 / most as f64);
                let bar = parts(&doc.tally).into_iter().map(|part| bar_part(part, most)).collect_view();
                view! {
                    <span class="who"><b>{side.plate()}</b>" "<span class="no-narrow">{side.title()}</span></span>
                    <div class="track" class:hole=!known><div class="stack" style:width=width>{bar}</div></div>
                    <b class="mono num">{total}</b>
                }
            })
            .collect_view();
        view! { <div class="cost">{rows}</div> }
    }
}

fn bar_part((class, kind, name, tokens, model): Part, most: usize) -> AnyView {
    let page = page();
    let linked = move || match page.link.get() {
        Some(Link::Frame(frame)) => page
            .document
            .read()
            .trajectory
            .frames
            .get(frame)
            .is_some_and(|frame| Some(frame.kind) == kind),
        _ => false,
    };
    // A figure that would not fit is left to the table and the title.
    let share = tokens as f64 / most as f64;
    let glyph = kind.filter(|_| share > 0.018).map(icons::glyph);
    let figure = match kind {
        _ if share < 0.03 => None,
        None if share > 0.1 => Some(format!("{name} {tokens}")),
        _ => Some(tokens.to_string()),
    };
    view! {
        <span class=class class:m=model class:lk=linked style:flex-grow=tokens.to_string()
            title=format!("{name}: {}", words::count(tokens, "token"))>{glyph}<em>{figure}</em></span>
    }
    .into_any()
}

/// The table.
#[component]
pub fn Table() -> impl IntoView {
    let page = page();
    move || {
        let document = page.document.get();
        let [a, b] = &document.sides;
        if a.view.is_none() || b.view.is_none() {
            return ().into_any();
        }
        let (a, b) = (&a.tally, &b.tally);
        let kinds = kinds(&[a, b]);
        let mut columns: Vec<(AnyView, usize, usize)> = kinds
            .iter()
            .map(|&kind| (icons::kind_name(kind), a.kind(kind), b.kind(kind)))
            .collect();
        columns.push(("bos, headers".into_any(), a.headers, b.headers));
        columns.push(("turn ends".into_any(), a.ends, b.ends));
        columns.push(("template".into_any(), a.template, b.template));
        let (mut heads, mut row_a, mut row_b, mut row_d) = (vec![], vec![], vec![], vec![]);
        for (head, of_a, of_b) in columns {
            heads.push(view! { <th scope="col">{head}</th> });
            row_a.push(view! { <td class:z={of_a == 0}>{of_a}</td> });
            row_b.push(view! { <td class:z={of_b == 0}>{of_b}</td> });
            row_d.push(view! { <td>{words::signed(of_b as i64 - of_a as i64)}</td> });
        }
        view! {
            <div class="kt-box" tabindex="0" role="region" aria-label="Token table"><table class="kt" aria-label="Tokens by kind">
                <thead><tr><th scope="col">"tokens"</th>{heads}</tr></thead>
                <tbody>
                    <tr><th scope="row">"A"</th>{row_a}</tr>
                    <tr><th scope="row">"B"</th>{row_b}</tr>
                    <tr class="d"><th scope="row">"B − A"</th>{row_d}</tr>
                </tbody>
            </table></div>
        }
        .into_any()
    }
}

/// What the looks of chips mean.
#[component]
pub fn Key() -> impl IntoView {
    view! {
        <span class="mkey right" aria-label="Key"><span><i class="f"></i>"trained"</span><span><i class="f v"></i>"trained, yet given"</span>
            <span><i></i>"context"</span><span><i class="d"></i>"template"</span><span><i class="s"></i>"special"</span></span>
    }
}
