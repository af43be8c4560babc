//! What every frame costs on either side.

use crate::document::class;
use crate::dom;
use crate::icons;
use crate::state::page;
use crate::words;
use formats::FrameKind;
use leptos::ev::KeyboardEvent;
use leptos::prelude::*;
use tokens::{Cost, Costs, costs};

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Row {
    /// Which frame; none for what belongs to no frame.
    frame: Option<(usize, FrameKind)>,
    cost: [Cost; 2],
    total: [usize; 2],
}

/// The table: a row per frame, one for what no frame owns, and the sums.
#[component]
pub fn Frames() -> impl IntoView {
    let page = page();
    let counted = Memo::new(move |_| {
        let document = page.document.get();
        let frames = document.trajectory.frames.len();
        let [a, b] = &document.sides;
        Some([
            costs(a.view.as_ref()?, frames),
            costs(b.view.as_ref()?, frames),
        ])
    });
    let rows = move || {
        let Some([a, b]) = counted.get() else {
            return Vec::new();
        };
        let total = [a.total.tokens, b.total.tokens];
        let document = page.document.read();
        let frames = document.trajectory.frames.iter().enumerate();
        let mut rows: Vec<Row> = frames
            .filter_map(|(at, frame)| {
                Some(Row {
                    frame: Some((at, frame.kind)),
                    cost: [*a.frames.get(at)?, *b.frames.get(at)?],
                    total,
                })
            })
            .collect();
        rows.push(Row {
            frame: None,
            cost: [a.outside, b.outside],
            total,
        });
        rows
    };
    let sums = move || {
        let Some(both) = counted.get() else {
            return ().into_any();
        };
        let [a, b] = both.each_ref().map(|costs: &Costs| costs.total);
        view! {
            <tr class="d"><th scope="row">"all"</th>{cells(a, a.tokens)}{cells(b, b.tokens)}
                <td class="gap">{words::signed(b.tokens as i64 - a.tokens as i64)}</td></tr>
        }
        .into_any()
    };
    let known = move || counted.with(Option::is_some);
    view! {
        <Show when=known fallback=super::unknown>
            <div class="ft-box" tabindex="0" role="region" aria-label="Costs per frame">
                <table class="kt ft" data-testid="frame-costs" aria-label="Tokens by frame">
                    <thead>
                        <tr><td></td><th scope="colgroup" colspan="4" class="gap"><span class="plate">"A"</span>" AgenticML"</th><th scope="colgroup" colspan="4" class="gap"><span class="plate">"B"</span>" ChatML"</th><td class="gap"></td></tr>
                        <tr><th scope="col">"frame"</th>{heads()}{heads()}<th scope="col" class="gap">"B − A"</th></tr>
                    </thead>
                    <tbody on:keydown=move |event| step(&event)>
                        <For each=rows key=Row::clone children=|row| row_view(&row)/>
                    </tbody>
                    <tfoot>{sums}</tfoot>
                </table>
            </div>
        </Show>
    }
}

fn heads() -> AnyView {
    view! {
        <th scope="col" class="gap">"tokens"</th>
        <th scope="col" title="Markers, headers, turn ends, blank lines and template text">"structure"</th>
        <th scope="col" title="Tokens with a label: what the loss sees">"trained"</th>
        <th scope="col" class="of" title="Of the tokens of this side">"share"</th>
    }
    .into_any()
}

fn cells(cost: Cost, total: usize) -> AnyView {
    let number =
        |n: usize, class: &'static str| view! { <td class=class class:z={n == 0}>{n}</td> };
    view! {
        {number(cost.tokens, "gap")}{number(cost.structure, "")}{number(cost.trained, "")}
        <td class="of" class:z={cost.tokens == 0}>{words::share(cost.tokens, total)}</td>
    }
    .into_any()
}

fn row_view(row: &Row) -> AnyView {
    let page = page();
    let [a, b] = row.cost;
    let change = words::signed(b.tokens as i64 - a.tokens as i64);
    let cells =
        view! { {cells(a, row.total[0])}{cells(b, row.total[1])}<td class="gap">{change}</td> };
    match row.frame {
        Some((at, kind)) => view! {
            <tr class=format!("cf {}", class(kind)) class:lk=move || page.is_linked(Some(at)) data-frame=at tabindex={if at == 0 { "0" } else { "-1" }}>
                <th scope="row">{icons::kind_name(kind)}<span class="n">{at}</span></th>{cells}</tr>
        }
        .into_any(),
        None => view! { <tr class="out"><th scope="row" title="Begin of text, headers, blank lines, turn ends and template text">"no frame"</th>{cells}</tr> }
            .into_any(),
    }
}

/// Arrow keys within the rows.
fn step(event: &KeyboardEvent) {
    let Some(row) = dom::element(event.target()).and_then(|it| dom::closest(&it, "tr[data-frame]"))
    else {
        return;
    };
    let next = match event.key().as_str() {
        "ArrowDown" => row.next_element_sibling(),
        "ArrowUp" => row.previous_element_sibling(),
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    if let Some(next) = next.filter(|it| it.has_attribute("data-frame")) {
        dom::focus(&next);
    }
}
