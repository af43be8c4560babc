//! What stands beside a page's text: tokens, frames, messages, readings, tables, intervals.

use crate::document::{Document, Side, class, content_text};
use crate::editor::says;
use crate::icons;
use crate::lessons::data::{Panel, Rate, Sheet};
use crate::lessons::words::{belongs, percent, tokens_of};
use crate::pieces::one_line;
use crate::rows;
use crate::sides::chip;
use crate::state::Page;
use formats::agenticml::{self, ParsedFrame, Reading, View};
use formats::chatml::{Generation, read_generation};
use formats::{FrameKind, Owner, Payload, Policy, json, python};
use leptos::prelude::*;
use tokens::{Llama3Tokenizer, Token};

/// Characters shown of a frame or message on one line of a list.
const LINE: usize = 76;

/// A panel.
pub fn panel(
    page: Page,
    sheet: &Sheet,
    panel: &Panel,
    document: Option<&Document>,
    tokenizer: Option<&Llama3Tokenizer>,
) -> AnyView {
    match (panel, document) {
        (
            Panel::Wire {
                side,
                frames,
                policy,
            },
            Some(document),
        ) => match tokens_of(document, tokenizer, *side, *policy) {
            Some(tokens) => wire(sheet, document, *side, *frames, *policy, &tokens),
            None => no_tokens(page, document, *side),
        },
        (
            Panel::Units {
                side: Side::A,
                frames: (first, last),
            },
            Some(document),
        ) => frames(document, *first, *last),
        (
            Panel::Units {
                side: Side::B,
                frames: (first, last),
            },
            Some(document),
        ) => messages(document, *first, *last),
        (Panel::Facing, Some(document)) => facing(document),
        (Panel::Findings, Some(document)) => findings(document),
        (Panel::Kinds(about), _) => kinds(about),
        (Panel::Markers, _) => markers(),
        (Panel::Reading { side, text, strict }, _) => reading(*side, text, *strict),
        (
            Panel::Table {
                caption,
                quoted,
                columns,
                rows,
            },
            _,
        ) => table(caption, *quoted, columns, rows),
        (Panel::Rates { caption, rows }, _) => rates(caption, rows),
        (Panel::NotRun(measures), _) => not_run(measures),
        // A page without a trajectory has no such panel: see `data::read`.
        (_, None) => ().into_any(),
    }
}

/// In place of tokens: nothing while the tokenizer is on its way, so that nothing moves when it comes.
fn no_tokens(page: Page, document: &Document, side: Side) -> AnyView {
    let why = document
        .side(side)
        .error
        .clone()
        .or(page.tokenizer_error.get());
    match why {
        Some(why) => view! { <p class="note bad" role="alert">{why}</p> }.into_any(),
        None => view! { <p class="vh" role="status">"Tokens are on their way."</p> }.into_any(),
    }
}

fn range(first: usize, last: usize) -> String {
    if first == last {
        format!("frame {first}")
    } else {
        format!("frames {first}–{last}")
    }
}

fn head(title: String, side: Side, note: AnyView) -> AnyView {
    view! { <h2><span class="plate" aria-hidden="true">{side.plate()}</span>{title}<span class="c">{note}</span></h2> }.into_any()
}

/// Tokens of some frames.
fn wire(
    sheet: &Sheet,
    document: &Document,
    side: Side,
    frames: (usize, usize),
    policy: Policy,
    tokens: &[Token],
) -> AnyView {
    let trained = tokens.iter().filter(|token| token.label.is_some()).count();
    let title = match policy {
        Policy::Reference => format!("{}, as the reference encodes it", side.title()),
        Policy::Safe => side.title().to_owned(),
    };
    let counts = if sheet.mask {
        view! { <b data-testid="count-trained">{trained}</b>" of "<b data-testid="count-tokens">{tokens.len()}</b>" trained" }.into_any()
    } else {
        view! { <b data-testid="count-tokens">{tokens.len()}</b>" tokens" }.into_any()
    };
    let shown: Vec<&Token> = tokens
        .iter()
        .filter(|token| belongs(document, token, side, frames))
        .collect();
    let whole = shown.len() == tokens.len();
    let part = (!whole).then(|| view! { <span class="part">{range(frames.0, frames.1)}" of "{document.trajectory.frames.len()}</span> });
    let readable = side == Side::A;
    let mut at = 0_usize;
    let chips = rows::runs(shown.iter().map(|token| token.forged), 0)
        .into_iter()
        .map(|(forged, run)| {
            let chips = shown[run]
                .iter()
                .map(|token| {
                    let before = at.checked_sub(1).and_then(|before| shown.get(before));
                    let starts = sheet.starts
                        && token.owner == Owner::Model
                        && before.is_some_and(|before| before.owner == Owner::Runtime);
                    let chip = dressed(token, at, readable);
                    at += 1;
                    let mark = starts.then(|| view! { <span class="here">"model starts"</span> });
                    view! { {mark}{chip} }
                })
                .collect_view();
            if forged {
                view! { <span class="sp k-result forged">{chips}</span> }.into_any()
            } else {
                chips.into_any()
            }
        })
        .collect_view();
    view! {
        <div class="panel-wire" data-side=side.key()>
            {head(title, side, view! { {part}{counts} }.into_any())}
            <div class="strip" class:mask=sheet.mask dir="ltr" aria-hidden="true">{chips}</div>
            <p class="vh">{spoken(&shown, sheet.mask)}</p>
        </div>
    }
    .into_any()
}

/// The chip of a token. Text that became a special token under the reference's policy is one, and is
/// dressed as the marker it became.
fn dressed(token: &Token, at: usize, readable: bool) -> AnyView {
    if token.forged && token.special.is_some() {
        let kind = tokens::kind_of_marker(token.id);
        let real = Token {
            forged: false,
            frame_kind: kind,
            ..token.clone()
        };
        return chip(&real, at, readable && kind.is_some(), false, false);
    }
    chip(token, at, readable, false, false)
}

/// The same for ears: stretch by stretch, never token by token.
fn spoken(tokens: &[&Token], mask: bool) -> String {
    rows::runs(
        tokens
            .iter()
            .map(|token| (token.frame_kind, token.owner, token.label.is_some())),
        0,
    )
    .into_iter()
    .map(|((kind, owner, trained), run)| {
        let what = kind.map_or("format", FrameKind::name);
        let text: String = tokens[run]
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        let trained = match (mask, trained) {
            (false, _) => "",
            (true, true) => ", trained",
            (true, false) => ", context",
        };
        format!("{what}, {}{trained}: {text}. ", owner.name())
    })
    .collect()
}

fn card(kind: FrameKind, text: String, wrong: Option<String>) -> AnyView {
    let owner = kind.owner();
    let body = (!text.is_empty()).then(|| {
        let json = kind.payload() == Payload::Json;
        view! { <span class="body" class:js=json><bdi>{text}</bdi></span> }
    });
    let wrong = wrong.map(|wrong| view! { <span class="wrong"><bdi>{wrong}</bdi></span> });
    view! {
        <li class=format!("step {}", class(kind)) class:m=owner == Owner::Model>
            {icons::kind_name(kind)}<span class="own">{owner.name()}</span>{body}{wrong}
        </li>
    }
    .into_any()
}

fn frames(document: &Document, first: usize, last: usize) -> AnyView {
    let all = &document.trajectory.frames;
    let cards = all
        .get(first..=last)
        .unwrap_or_default()
        .iter()
        .map(|frame| card(frame.kind, one_line(&content_text(frame), LINE), None))
        .collect_view();
    let count = all.len();
    let part = if first == 0 && last + 1 == count {
        crate::words::count(count, "frame")
    } else {
        format!("{} of {count}", range(first, last))
    };
    let note = view! { <span class="part">{part}</span> }.into_any();
    view! { <div class="panel-units">{head(Side::A.title().to_owned(), Side::A, note)}<ol class="steps-list">{cards}</ol></div> }
        .into_any()
}

/// What a message says, on one line, and the ids of calls.
fn said(document: &Document, at: usize) -> (String, Option<String>) {
    let Some(message) = document.conversation.messages.get(at) else {
        return (String::new(), None);
    };
    let mut text = message.text().to_owned();
    let mut note = message.tool_call_id().map(|id| format!("answers {id}"));
    for call in message.tool_calls() {
        let name = call.name.map(python::str).unwrap_or_default();
        let arguments = call.arguments.map(python::str).unwrap_or_default();
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&format!("{name}({arguments})"));
        note = call.id.map(|id| format!("id {id}"));
    }
    (one_line(&text, LINE), note)
}

fn messages(document: &Document, first: usize, last: usize) -> AnyView {
    let mut wanted: Vec<usize> = (first..=last)
        .filter_map(|frame| document.message_of_frame(frame))
        .collect();
    wanted.dedup();
    let all = document.conversation.messages.len();
    let count = wanted.len();
    let cards = wanted
        .into_iter()
        .map(|at| {
            let role = document.conversation.messages[at].role().to_owned();
            let model = role == "assistant";
            let (text, note) = said(document, at);
            view! {
                <li class="step k-turn" class:m=model><span class="kn">{role}</span><span class="own">{note}</span><span class="body js"><bdi>{text}</bdi></span></li>
            }
        })
        .collect_view();
    let note = view! { <span class="part">{count}" of "{all}" messages"</span> }.into_any();
    view! { <div class="panel-units">{head(Side::B.title().to_owned(), Side::B, note)}<ol class="steps-list">{cards}</ol></div> }
        .into_any()
}

/// Row by row: frames and the message they become.
fn facing(document: &Document) -> AnyView {
    let rows = document
        .rows
        .iter()
        .map(|row| {
            let kinds = document.trajectory.frames[row.frames.clone()]
                .iter()
                .map(|frame| icons::kind_name(frame.kind))
                .collect_view();
            let message = row.message.map(|at| {
                let role = document.conversation.messages[at].role().to_owned();
                let (text, _) = said(document, at);
                view! { <b>{role}</b><span class="js"><bdi>{text}</bdi></span> }
            });
            view! { <tr><th scope="row"><span class="kinds">{kinds}</span></th><td><span class="said">{message}</span></td></tr> }
        })
        .collect_view();
    view! {
        <table class="facts facing-table"><caption class="vh">"Frames and the messages they become"</caption>
            <thead><tr><th scope="col"><span class="plate" aria-hidden="true">"A"</span>" frames"</th><th scope="col"><span class="plate" aria-hidden="true">"B"</span>" message"</th></tr></thead>
            <tbody>{rows}</tbody></table>
    }
    .into_any()
}

fn findings(document: &Document) -> AnyView {
    let found = formats::faults(&document.trajectory);
    if found.is_empty() {
        return view! { <p class="verdict good">{icons::tick()}"The validator finds nothing."</p> }
            .into_any();
    }
    let list = found
        .iter()
        .map(|(at, fault)| {
            let place = at.map(|at| {
                let kind = document
                    .trajectory
                    .frames
                    .get(at)
                    .map(|frame| icons::kind_name(frame.kind));
                view! { <span class="where">"frame "{at}" "{kind}</span> }
            });
            view! { <li>{place}<span class="js"><bdi>{says(fault).0}</bdi></span></li> }
        })
        .collect_view();
    view! { <div class="panel-findings"><h2>"What the validator says"</h2><ol class="finding-list">{list}</ol></div> }
        .into_any()
}

fn payload(kind: FrameKind) -> &'static str {
    match kind.payload() {
        Payload::Prose => "prose",
        Payload::Json => "JSON",
        Payload::Number => "number",
        Payload::None => "nothing",
    }
}

fn kinds(about: &[(FrameKind, String)]) -> AnyView {
    let group = |owner: Owner| {
        let rows = about
            .iter()
            .filter(|(kind, _)| kind.owner() == owner)
            .map(|(kind, about)| {
                view! { <tr><th scope="row">{icons::kind_name(*kind)}</th><td>{payload(*kind)}</td><td class="words">{about.clone()}</td></tr> }
            })
            .collect_view();
        let title = match owner {
            Owner::Runtime => "The runtime writes",
            Owner::Model => "The model writes",
        };
        view! { <tbody><tr class="group"><th scope="rowgroup" colspan="3">{title}</th></tr>{rows}</tbody> }
    };
    view! {
        <table class="facts kinds-table"><caption class="vh">"Kinds of frame"</caption>
            <thead class="vh"><tr><th scope="col">"kind"</th><th scope="col">"content"</th><th scope="col">"what for"</th></tr></thead>
            {group(Owner::Runtime)}{group(Owner::Model)}</table>
    }
    .into_any()
}

fn markers() -> AnyView {
    let rows = FrameKind::ALL
        .map(|kind| {
            view! {
                <tr><th scope="row">{icons::kind_name(kind)}</th><td class="js">{kind.alias()}</td><td class="js">{kind.reserved()}</td><td class="n">{tokens::marker_id(kind)}</td></tr>
            }
        })
        .collect_view();
    view! {
        <table class="facts markers-table"><caption class="vh">"Markers"</caption>
            <thead><tr><th scope="col">"kind"</th><th scope="col">"as people write it"</th><th scope="col">"as the model sees it"</th><th scope="col" class="n">"id"</th></tr></thead>
            <tbody>{rows}</tbody></table>
    }
    .into_any()
}

/// A model's text and what is read from it.
fn reading(side: Side, text: &str, strict: bool) -> AnyView {
    let (how, found) = match side {
        Side::A => {
            let how = if strict {
                "Read strictly"
            } else {
                "Read leniently"
            };
            let reading = Reading {
                view: View::Reserved,
                strict,
                policy: Policy::Safe,
            };
            let found = match agenticml::parse(text, &reading) {
                Ok(frames) => {
                    let cards = frames.iter().map(read_card).collect_view();
                    view! { <ol class="steps-list">{cards}</ol> }.into_any()
                }
                Err(error) => refused(&error.to_string()),
            };
            (how, found)
        }
        Side::B => {
            let found = match read_generation(text) {
                Generation::Call(call) => {
                    verdict("a tool call", &json::dumps(&json::Value::Object(call)))
                }
                Generation::Text(text) => verdict("plain text, which is the final answer", &text),
                Generation::Failed(error) => refused(&error.to_string()),
            };
            ("Read as", found)
        }
    };
    view! {
        <div class="panel-reading">
            {head("What the model wrote".to_owned(), side, side.title().into_any())}
            <p class="written" dir="ltr"><bdi>{text.to_owned()}</bdi></p>
            <h3>{how}</h3>{found}
        </div>
    }
    .into_any()
}

fn read_card(parsed: &ParsedFrame) -> AnyView {
    match &parsed.error {
        Some(error) => card(
            parsed.frame.kind,
            one_line(&parsed.raw, LINE),
            Some(error.to_string()),
        ),
        None => card(
            parsed.frame.kind,
            one_line(&content_text(&parsed.frame), LINE),
            None,
        ),
    }
}

fn refused(why: &str) -> AnyView {
    view! { <p class="verdict bad">{icons::cross()}<span><b>"Refused as a whole: "</b><bdi class="js">{why.to_owned()}</bdi></span></p> }.into_any()
}

fn verdict(what: &'static str, text: &str) -> AnyView {
    view! { <p class="verdict"><span><b>{what}</b>": "<bdi class="js">{text.to_owned()}</bdi></span></p> }.into_any()
}

fn table(caption: &str, quoted: bool, columns: &[String], rows: &[Vec<String>]) -> AnyView {
    let head = columns
        .iter()
        .map(|name| view! { <th scope="col">{name.clone()}</th> })
        .collect_view();
    let rows = rows
        .iter()
        .map(|row| {
            let cells = row
                .iter()
                .enumerate()
                .map(|(at, cell)| match at {
                    0 => view! { <th scope="row"><bdi>{cell.clone()}</bdi></th> }.into_any(),
                    _ => view! { <td><bdi>{cell.clone()}</bdi></td> }.into_any(),
                })
                .collect_view();
            view! { <tr>{cells}</tr> }
        })
        .collect_view();
    view! {
        <table class="facts words-table" class:quoted=quoted><caption>{caption.to_owned()}{quoted.then(quoted_tag)}</caption>
            <thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>
    }
    .into_any()
}

fn quoted_tag() -> AnyView {
    view! { " "<span class="tag">"quoted"</span> }.into_any()
}

/// The class of an arm's mark: a bar, a ring.
fn arm(side: Side) -> &'static str {
    match side {
        Side::A => "arm-a",
        Side::B => "arm-b",
    }
}

/// Published rates, with intervals computed here.
fn rates(caption: &str, rows: &[Rate]) -> AnyView {
    let rows = rows
        .iter()
        .map(|rate| {
            let (low, high) = agent::suite::wilson(rate.successes, rate.trials).unwrap_or((0.0, 1.0));
            let share = rate.successes as f64 / rate.trials as f64;
            let css = |share: f64| format!("{}%", share * 100.0);
            let words = format!("{} to {}", percent(low), percent(high));
            let arm = arm(rate.side);
            view! {
                <div class=format!("rate {arm}") role="group" aria-label=rate.side.title()>
                    <span class="name"><i class="mark" aria-hidden="true"></i>{rate.side.title()}</span>
                    <span class="ci" role="img" aria-label=format!("{}, 95 % interval {words}", rate.quoted)>
                        <span class="rng" style:left=css(low) style:width=css(high - low)></span><span class="pt" style:left=css(share)></span></span>
                    <span class="v">{rate.quoted.clone()}</span>
                    <span class="kn-of">{rate.successes}" of "{rate.trials}</span>
                    <span class="band">{words}</span>
                </div>
            }
        })
        .collect_view();
    view! {
        <figure class="rates quoted"><figcaption>{caption.to_owned()}{quoted_tag()}</figcaption>
            <div class="axis" aria-hidden="true"><span>"0"</span><span>"25"</span><span>"50"</span><span>"75"</span><span>"100 %"</span></div>
            {rows}
            <p class="fine">"Mark: the quoted rate. Band: Wilson interval at 95 %, computed here from the counts."</p></figure>
    }
    .into_any()
}

/// Places for figures that have not been computed: never a zero.
fn not_run(measures: &[String]) -> AnyView {
    let rows = measures
        .iter()
        .map(|measure| {
            let row = |side: Side, first: bool| {
                let mark = arm(side);
                view! {
                    <tr>{first.then(|| view! { <th scope="rowgroup" rowspan="2">{measure.clone()}</th> })}
                        <td class=mark><span class="name"><i class="mark" aria-hidden="true"></i>{side.title()}</span></td><td class="n">"—"</td>
                        <td><span class="ci hole" role="img" aria-label="not run yet"></span></td><td class="n">"[—, —]"</td></tr>
                }
            };
            view! { <tbody>{row(Side::A, true)}{row(Side::B, false)}</tbody> }
        })
        .collect_view();
    view! {
        <table class="facts not-run"><caption>"The study in miniature "<span class="tag dashed">"not run yet"</span></caption>
            <thead><tr><th scope="col">"measure"</th><th scope="col">"arm"</th><th scope="col" class="n">"k of n"</th><th scope="col">"rate"</th><th scope="col" class="n">"Wilson 95 %"</th></tr></thead>
            {rows}</table>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_named() {
        assert_eq!(range(2, 2), "frame 2");
        assert_eq!(range(2, 4), "frames 2–4");
    }
}
