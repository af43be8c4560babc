//! How a load is doing: pieces, bytes, rate, what stopping or closing would keep.

use crate::live::{self, How, Load};
use crate::state::page;
use crate::words;
use engine::protocol::Pieces;
use leptos::prelude::*;

/// The most cells of the strip; with more pieces than that, a cell stands for several.
const CELLS: u32 = 240;

/// How a piece is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// Not here.
    ToCome,
    /// Coming.
    Arriving,
    /// In storage from before, and not read yet.
    Kept,
    /// Here; its checksum is being computed.
    Hashing,
    /// Here, and right.
    Verified,
}

impl Cell {
    fn class(self) -> &'static str {
        match self {
            Self::ToCome => "",
            Self::Arriving => "d",
            Self::Kept => "k",
            Self::Hashing => "h",
            Self::Verified => "v",
        }
    }
}

fn cell(pieces: &Pieces, at: u32) -> Cell {
    if pieces.hashing == Some(at) {
        Cell::Hashing
    } else if at < pieces.verified {
        Cell::Verified
    } else if pieces.arriving.is_some_and(|arriving| arriving.piece == at) {
        Cell::Arriving
    } else if at < pieces.kept {
        Cell::Kept
    } else {
        Cell::ToCome
    }
}

/// The strip. A cell that stands for several pieces shows the one that something happens to, or else
/// the last of them, which is least far.
fn cells(pieces: &Pieces) -> Vec<Cell> {
    let each = pieces.total.div_ceil(CELLS).max(1);
    (0..pieces.total.div_ceil(each))
        .map(|at| {
            let first = u64::from(at) * u64::from(each);
            let last = (first + u64::from(each)).min(u64::from(pieces.total)) - 1;
            let here = |piece: u32| (first..=last).contains(&u64::from(piece));
            let arriving = pieces.arriving.map(|arriving| arriving.piece);
            let busy = [pieces.hashing, arriving]
                .into_iter()
                .flatten()
                .find(|piece| here(*piece));
            cell(pieces, busy.unwrap_or(last as u32))
        })
        .collect()
}

/// The panel.
#[component]
pub fn LoadPanel() -> impl IntoView {
    let live = page().live;
    // The load that goes on, or the one that ended before its end.
    let load = move || {
        live.load
            .get()
            .or_else(|| live.halted.get().map(|halted| halted.load))
    };
    let goes = Memo::new(move |_| live.load.read().is_some());
    let any = Memo::new(move |_| goes.get() || live.halted.read().is_some());
    let name = Memo::new(move |_| load().map_or(String::new(), |load| load.asked.chosen.name));
    let sides = Memo::new(move |_| load().map(|load| load.asked.sides));
    let keeps = Memo::new(move |_| {
        load().is_some_and(|load| {
            load.asked.options.keep && load.pieces.is_none_or(|pieces| pieces.not_kept.is_none())
        })
    });
    let share = move || load().and_then(|load| load.share());
    let title = move || match (
        goes.get(),
        live.halted.get().map(|halted| halted.failure.is_some()),
    ) {
        (true, _) => words::stage_title(
            load().map_or(engine::protocol::Stage::Device, |load| load.progress.stage),
        ),
        (false, Some(true)) => "Broken off",
        _ => {
            if keeps.get() {
                "Paused"
            } else {
                "Stopped"
            }
        }
    };
    let strip = Memo::new(move |_| {
        load()
            .and_then(|load| load.pieces)
            .map(|pieces| cells(&pieces))
    });
    let counts = Memo::new(move |_| {
        load()
            .and_then(|load| load.pieces)
            .map(|pieces| tally(&pieces))
    });
    view! {
        <Show when=move || any.get()>
            <section class="panel" aria-label="Load" data-testid="load-panel">
                <h2><bdi class="name">{move || name.get()}</bdi><span class="right mono num">{move || share().map(|share| format!("{share:.0} %"))}</span></h2>
                <p class="muted" data-testid="load-stage">{title}{move || sides.get().map(|sides| format!(", for {}", super::sides_name(sides)))}</p>
                <div class="meter big" role="progressbar" aria-label="Loaded" aria-valuemin="0" aria-valuemax="100" aria-valuenow=move || share().map(|share| format!("{share:.0}"))><i class="ge" style:width=move || format!("{:.1}%", share().unwrap_or(0.0))></i></div>
                {move || strip.get().map(|cells| { let many = cells.len() > 100; view! {
                    <div class="shards" class:many=many role="img" aria-label=move || counts.get().map(|counts| counts.words()) data-testid="strip">
                        {cells.into_iter().map(|cell| view! { <i class=cell.class()></i> }).collect_view()}
                    </div>
                }})}
                {move || counts.get().map(|counts| view! {
                    <div class="key3 muted">
                        <span><i class="w"></i>"verified "{counts.verified}</span>
                        {(counts.kept > 0).then(|| view! { <span><i class="k"></i>"in storage "{counts.kept}</span> })}
                        <span><i class="kv"></i>"hashing "{counts.hashing}</span><span><i class="wk"></i>"arriving "{counts.arriving}</span><span><i></i>"to come "{counts.to_come}</span>
                    </div>
                })}
                <dl class="dl wide-dt">
                    <dt>"received"</dt><dd>{move || load().map(|load| received(&load))}</dd>
                    {move || goes.get().then(|| view! {
                        <dt>"rate"</dt><dd>{move || load().and_then(|load| load.rate()).map_or("—".to_owned(), |rate| format!("{}/s", words::bytes(rate as u64)))}</dd>
                        <dt>"left"</dt><dd>{move || load().and_then(|load| left(&load)).unwrap_or_else(|| "—".to_owned())}</dd>
                    })}
                    {move || load().and_then(|load| load.pieces?.arriving).map(|arriving| view! {
                        <dt>"piece "{arriving.piece.saturating_add(1)}</dt><dd>{words::bytes(arriving.done)}" of "{words::bytes(arriving.bytes)}</dd>
                    })}
                </dl>
                {move || load().and_then(|load| load.pieces).map(|pieces| mishaps(&pieces))}
                <p class="muted keeps" data-testid="keeps">{move || load().map(|load| what_stays(&load))}</p>
                {move || live.halted.get().and_then(|halted| halted.failure).map(live::failure)}
                <Show when=move || goes.get() fallback=move || view! {
                    <div class="acts"><button class="btn pri" data-testid="load-on" on:click=move |_| live.load_again()>{move || if keeps.get() { "Go on" } else { "Load again" }}</button>
                        <button class="btn" data-testid="load-forget" on:click=move |_| live.forget_halted()>{move || if keeps.get() { "Discard" } else { "Close" }}</button></div>
                }>
                    <div class="acts">
                        <Show when=move || keeps.get()><button class="btn" data-testid="load-pause-room" disabled=move || stopping(load()) on:click=move |_| live.pause()>"Pause"</button></Show>
                        <button class="btn" data-testid="load-cancel" disabled=move || stopping(load()) on:click=move |_| live.cancel()>"Cancel"</button>
                    </div>
                </Show>
            </section>
        </Show>
    }
}

fn stopping(load: Option<Load>) -> bool {
    load.is_some_and(|load| load.how != How::Runs)
}

/// How many pieces are how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    total: u32,
    verified: u32,
    kept: u32,
    hashing: u32,
    arriving: u32,
    to_come: u32,
}

impl Tally {
    fn words(self) -> String {
        format!(
            "{} of {} pieces verified, {} in storage, {} being checked, {} arriving",
            self.verified, self.total, self.kept, self.hashing, self.arriving
        )
    }
}

fn tally(pieces: &Pieces) -> Tally {
    let total = pieces.total;
    let verified = pieces.verified.min(total);
    let hashing = u32::from(
        pieces
            .hashing
            .is_some_and(|at| at >= verified && at < total),
    );
    let arriving = u32::from(
        pieces
            .arriving
            .is_some_and(|arriving| arriving.piece < total),
    );
    let kept = pieces.kept.min(total).saturating_sub(verified + hashing);
    Tally {
        total,
        verified,
        kept,
        hashing,
        arriving,
        to_come: total.saturating_sub(verified + hashing + arriving + kept),
    }
}

fn received(load: &Load) -> String {
    let total = load.progress.total;
    let mut text = if total > 0 {
        format!("{} of {}", words::bytes(load.here), words::bytes(total))
    } else {
        words::bytes(load.here)
    };
    if let Some(pieces) = &load.pieces
        && load.asked.chosen.is_remote()
    {
        text.push_str(&format!(
            ", {} over the network",
            words::bytes(pieces.fetched)
        ));
    }
    text
}

fn left(load: &Load) -> Option<String> {
    let rate = load.rate()?;
    let rest = load.progress.total.checked_sub(load.here)?;
    Some(words::seconds(rest as f64 / rate))
}

/// What went wrong on the way and was mended.
fn mishaps(pieces: &Pieces) -> AnyView {
    let damaged = (pieces.damaged > 0).then(|| {
        format!(
            "{} did not have the right checksum and came again.",
            words::count(pieces.damaged as usize, "piece")
        )
    });
    let discarded = pieces
        .discarded
        .as_ref()
        .map(|why| format!("What was kept of it before was thrown away: {why}"));
    [damaged, discarded]
        .into_iter()
        .flatten()
        .map(|text| view! { <p class="note">{text}</p> })
        .collect_view()
        .into_any()
}

/// What closing the tab would leave.
fn what_stays(load: &Load) -> String {
    if !load.asked.options.keep {
        return "It is not kept: closing the tab forgets it.".to_owned();
    }
    match &load.pieces {
        None => "It is kept in this browser as it comes.".to_owned(),
        Some(pieces) if let Some(why) = &pieces.not_kept => {
            format!("What comes is not kept: {why}")
        }
        Some(pieces) if pieces.kept >= pieces.total => {
            "All of it is kept: the next visit fetches nothing.".to_owned()
        }
        Some(pieces) => format!(
            "Closing the tab keeps {} and goes on with piece {}.",
            words::count(pieces.kept as usize, "piece"),
            pieces.kept.saturating_add(1)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::protocol::Arriving;

    fn pieces(total: u32) -> Pieces {
        Pieces {
            total,
            verified: 2,
            hashing: Some(2),
            arriving: Some(Arriving {
                piece: 5,
                done: 1,
                bytes: 2,
            }),
            kept: 5,
            damaged: 0,
            discarded: None,
            not_kept: None,
            fetched: 0,
        }
    }

    #[test]
    fn each_piece_has_its_cell() {
        use Cell::{Arriving, Hashing, Kept, ToCome, Verified};
        assert_eq!(
            cells(&pieces(8)),
            [
                Verified, Verified, Hashing, Kept, Kept, Arriving, ToCome, ToCome
            ]
        );
        let tally = tally(&pieces(8));
        assert_eq!(
            (
                tally.verified,
                tally.hashing,
                tally.kept,
                tally.arriving,
                tally.to_come
            ),
            (2, 1, 2, 1, 2)
        );
    }

    #[test]
    fn a_strip_stays_short() {
        assert_eq!(cells(&pieces(75)).len(), 75);
        assert_eq!(cells(&pieces(480)).len(), 240);
        assert!(cells(&pieces(u32::MAX)).len() <= 240);
        assert_eq!(cells(&pieces(0)), []);
    }
}
