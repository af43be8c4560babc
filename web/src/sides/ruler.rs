//! The ruler: the whole wire at a glance, one tick per token, tall where trained.

use crate::document::{Side, Tone};
use crate::rows;
use crate::state::{Link, page};
use crate::words;
use leptos::prelude::*;

/// A side's ruler with a bracket round what is lit up.
#[component]
pub fn Ruler(side: Side) -> impl IntoView {
    let page = page();
    // Alike neighbours are one element as wide as they are many: a long wire stays cheap.
    let runs = Memo::new(move |_| {
        let document = page.document.read();
        let tokens = document.side(side).tokens().iter();
        rows::runs(
            tokens.map(|token| (Tone::of_token(token), token.label.is_some())),
            0,
        )
    });
    let count = Memo::new(move |_| runs.read().len());
    let ticks = move |at: usize| {
        // An edit mostly changes one run's length.
        let look = Memo::new(move |_| runs.with(|runs| runs.get(at).map(|(look, _)| *look)));
        let len =
            Memo::new(move |_| runs.with(|runs| runs.get(at).map_or(0, |(_, range)| range.len())));
        let tone = move || look.get().map_or(Tone::Turn, |(tone, _)| tone);
        let class = move || {
            let trained = look.get().is_some_and(|(_, trained)| trained);
            let template = if tone() == Tone::Template { " b" } else { "" };
            format!(
                "{}{}{template}",
                tone().class(),
                if trained { " t" } else { "" }
            )
        };
        view! { <i class=class style:flex-grow=move || len.get().to_string()></i> }
    };
    let brackets = move || {
        let document = page.document.get();
        let doc = document.side(side);
        let all = doc.tokens().len();
        let (ranges, class) = match page.link.get() {
            Some(Link::Frame(frame)) => (
                doc.frame_tokens(frame),
                document
                    .trajectory
                    .frames
                    .get(frame)
                    .map_or("k-turn", |f| crate::document::class(f.kind)),
            ),
            Some(Link::Message(message)) => (
                rows::runs(doc.tokens().iter().map(|t| t.message == Some(message)), 0)
                    .into_iter()
                    .filter(|(wanted, _)| *wanted)
                    .map(|(_, range)| range)
                    .collect(),
                "k-turn",
            ),
            None => (Vec::new(), "k-turn"),
        };
        ranges
            .into_iter()
            .map(|range| {
                let per_cent = |n: usize| format!("{:.3}%", n as f64 * 100.0 / all as f64);
                view! { <span class=format!("lkm {class}") style:left=per_cent(range.start) style:width=per_cent(range.len())></span> }
            })
            .collect_view()
    };
    let label = move || {
        let document = page.document.get();
        let tally = &document.side(side).tally;
        format!(
            "{} wire: {}, {} trained; tall ticks are trained",
            side.title(),
            words::count(tally.tokens, "token"),
            tally.trained
        )
    };
    view! { <div class="ruler" role="img" aria-label=label><For each=move || 0..count.get() key=|at| *at children=ticks/>{brackets}</div> }
}
