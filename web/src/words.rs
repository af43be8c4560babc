//! Figures in words: counts, shares, bytes, durations, signed differences.

use engine::protocol::{Stage, StopReason};
use tokens::prefix::Turns;
use tokens::{Comparison, Part};

/// `1 token`, `2 tokens`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

/// A difference with its sign; the minus is the typographic one.
pub fn signed(n: i64) -> String {
    match n {
        0 => "0".into(),
        1.. => format!("+{n}"),
        _ => format!("−{}", n.unsigned_abs()),
    }
}

/// A share in whole per cent; empty when there is nothing to share.
pub fn share(part: usize, whole: usize) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.0} %", part as f64 * 100.0 / whole as f64)
}

/// Bytes in the unit that keeps them short, in powers of ten.
pub fn bytes(n: u64) -> String {
    let n = n as f64;
    match n {
        ..1e3 => format!("{n:.0} B"),
        ..1e6 => format!("{:.0} kB", n / 1e3),
        ..1e8 => format!("{:.1} MB", n / 1e6),
        ..1e9 => format!("{:.0} MB", n / 1e6),
        _ => format!("{:.2} GB", n / 1e9),
    }
}

/// A span of time in the unit that keeps it short.
pub fn seconds(s: f64) -> String {
    match s {
        ..1.0 => format!("{:.0} ms", s * 1e3),
        ..10.0 => format!("{s:.1} s"),
        ..90.0 => format!("{s:.0} s"),
        _ => format!("{:.0} min", s / 60.0),
    }
}

/// A large count as `134.5 M`.
pub fn large(n: u64) -> String {
    let n = n as f64;
    match n {
        ..1e4 => format!("{n:.0}"),
        ..1e6 => format!("{:.1} k", n / 1e3),
        ..1e9 => format!("{:.1} M", n / 1e6),
        _ => format!("{:.2} B", n / 1e9),
    }
}

/// A count with its thousands apart, as `16,384`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A day, from milliseconds since 1970: `today, 09:12`, `27 Nov`, `27 Nov 2025`.
pub fn day(milliseconds: f64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let then = js_sys::Date::new(&milliseconds.into());
    let now = js_sys::Date::new_0();
    // An invalid date has no month.
    let Some(month) = MONTHS.get(then.get_month() as usize) else {
        return "—".to_owned();
    };
    if then.get_time().is_nan() {
        return "—".to_owned();
    }
    let day = |date: &js_sys::Date| (date.get_full_year(), date.get_month(), date.get_date());
    if day(&then) == day(&now) {
        format!("today, {:02}:{:02}", then.get_hours(), then.get_minutes())
    } else if then.get_full_year() == now.get_full_year() {
        format!("{} {month}", then.get_date())
    } else {
        format!("{} {month} {}", then.get_date(), then.get_full_year())
    }
}

/// What a load is doing, as the beginning of a line.
pub fn stage_title(stage: Stage) -> &'static str {
    match stage {
        Stage::Device => "Starting the engine",
        Stage::Header => "Reading the header",
        Stage::Weights => "Reading weights",
        Stage::Kernels => "Compiling kernels",
    }
}

/// What a load is doing.
pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Device => "starting the engine",
        Stage::Header => "reading the header",
        Stage::Weights => "reading weights",
        Stage::Kernels => "compiling kernels",
    }
}

/// Why a generation ended, after the model's name.
pub fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::StopToken => "ended its turn",
        StopReason::MaxTokens => "reached the limit of new tokens",
        StopReason::ContextFull => "filled the context",
        StopReason::Stopped => "stopped",
    }
}

/// What the costs of two sides amount to, in one sentence: the bold part and the rest.
/// `structure` counts markers, headers, turn ends and template text; the remainder is payload.
pub fn cost_sentence(
    (a_tokens, a_structure): (usize, usize),
    (b_tokens, b_structure): (usize, usize),
) -> (String, String) {
    let difference = b_tokens as i64 - a_tokens as i64;
    let structure = b_structure as i64 - a_structure as i64;
    let head = match difference {
        0 => "the same".to_owned(),
        1.. => format!("{difference} more"),
        _ => format!("{} fewer", difference.unsigned_abs()),
    };
    let tail = format!(
        "{} structure and template, {} payload",
        signed(structure),
        signed(difference - structure)
    );
    (head, tail)
}

/// How much of either side is trained.
pub fn trained(
    (a_trained, a_tokens): (usize, usize),
    (b_trained, b_tokens): (usize, usize),
) -> String {
    format!(
        "Trained: {a_trained} on A ({}), {b_trained} on B ({})",
        share(a_trained, a_tokens),
        share(b_trained, b_tokens)
    )
}

/// Why the sides differ: the parts by the size of their change, and what JSON escapes.
pub fn difference(comparison: &Comparison) -> String {
    let change: i64 = comparison.parts.iter().map(|part| part.change()).sum();
    let mut parts: Vec<_> = comparison
        .parts
        .iter()
        .filter(|part| part.change() != 0)
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.change().unsigned_abs()));
    let parts = parts
        .iter()
        .map(|part| format!("{} {}", signed(part.change()), noun(part.part)))
        .collect::<Vec<_>>()
        .join(", ");
    let mut text = match change {
        0 => "B needs as many tokens as A".to_owned(),
        1.. => format!("B needs {} more than A", count(change as usize, "token")),
        _ => format!(
            "B needs {} fewer than A",
            count(change.unsigned_abs() as usize, "token")
        ),
    };
    if !parts.is_empty() {
        text = format!("{text}: {parts}");
    }
    let [a, b] = comparison.escapes;
    if a + b > 0 {
        text = format!("{text}. JSON escapes: {a} on A, {b} on B");
    }
    text + "."
}

fn noun(part: Part) -> &'static str {
    match part {
        Part::Structure => "markers and turns",
        Part::Template => "template text",
        Part::Prompts => "prompts",
        Part::Reasoning => "reasoning",
        Part::Calls => "calls",
        Part::Answers => "answers",
        Part::Results => "results",
        Part::Rewards => "rewards",
    }
}

/// What a cache amounts to, for A and B.
pub fn cache_sentence([a, b]: [&Turns; 2]) -> String {
    if a.0.is_empty() && b.0.is_empty() {
        return "No turn of the model yet, so no prompt to keep.".to_owned();
    }
    let run = |turns: &Turns, noun: &str| {
        format!(
            "{} of {}{noun} ({}) in {}",
            turns.anew(),
            turns.prompt(),
            share(turns.anew(), turns.prompt()),
            count(turns.0.len(), "turn")
        )
    };
    let lost = match (a.dropped(), b.dropped()) {
        (0, 0) => "Both only append: no cache is lost.".to_owned(),
        (0, n) => format!(
            "B changes earlier text: it loses {} of cache.",
            count(n, "token")
        ),
        (n, 0) => format!(
            "A changes earlier text: it loses {} of cache.",
            count(n, "token")
        ),
        (a, b) => format!("Both change earlier text: {a} and {b} tokens of cache are lost."),
    };
    format!(
        "With a cache A runs {}, B {}. {lost}",
        run(a, " prompt tokens"),
        run(b, "")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_adds_up() {
        assert_eq!(
            cost_sentence((121, 9), (156, 48)),
            (
                "35 more".into(),
                "+39 structure and template, −4 payload".into()
            )
        );
        assert_eq!(cost_sentence((5, 1), (5, 1)).0, "the same");
        assert_eq!(cost_sentence((5, 1), (3, 1)).0, "2 fewer");
    }

    #[test]
    fn the_difference_names_its_parts_largest_first() {
        let part = |part, a, b| tokens::Difference {
            part,
            tokens: [a, b],
        };
        let comparison = Comparison {
            parts: vec![
                part(Part::Structure, 9, 28),
                part(Part::Template, 0, 20),
                part(Part::Prompts, 40, 40),
                part(Part::Answers, 18, 7),
            ],
            escapes: [1, 8],
        };
        assert_eq!(
            difference(&comparison),
            "B needs 28 tokens more than A: +20 template text, +19 markers and turns, −11 answers. \
             JSON escapes: 1 on A, 8 on B."
        );
    }

    #[test]
    fn the_cache_in_words() {
        let turn = |prompt, kept, held| tokens::prefix::Turn {
            frames: 0..1,
            prompt,
            kept,
            held,
            written: 4,
        };
        let a = Turns(vec![turn(50, 0, 0), turn(80, 54, 54)]);
        let b = Turns(vec![turn(60, 0, 0), turn(90, 30, 64)]);
        assert_eq!(
            cache_sentence([&a, &b]),
            "With a cache A runs 76 of 130 prompt tokens (58 %) in 2 turns, B 120 of 150 (80 %) in \
             2 turns. B changes earlier text: it loses 34 tokens of cache."
        );
        assert!(cache_sentence([&Turns::default(), &Turns::default()]).starts_with("No turn"));
    }

    #[test]
    fn units() {
        assert_eq!(bytes(98_000_000), "98.0 MB");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(seconds(0.212), "212 ms");
        assert_eq!(seconds(125.0), "2 min");
        assert_eq!(large(134_515_008), "134.5 M");
        assert_eq!(share(44, 121), "36 %");
        assert_eq!(count(1, "frame"), "1 frame");
        assert_eq!(thousands(16_384), "16,384");
        assert_eq!(thousands(512), "512");
        assert_eq!(thousands(1_000_000), "1,000,000");
    }
}
