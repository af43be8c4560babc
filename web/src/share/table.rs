//! The counts as Markdown.

use crate::document::{Document, Side, Tally};
use crate::words;
use formats::FrameKind;

/// Text that stays text in a Markdown table.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '|' | '<' | '>' | '[' | ']' | '#' | '~' | '&' => {
                cell.push('\\');
                cell.push(c);
            }
            c if c.is_control() => cell.push(' '),
            c => cell.push(c),
        }
    }
    cell
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn difference(a: usize, b: usize) -> String {
    words::signed(b as i64 - a as i64)
}

/// Tokens by kind on both sides and their difference, then frame by frame.
pub fn markdown(document: &Document, title: &str) -> String {
    let [a, b] = Side::BOTH.map(|side| &document.side(side).tally);
    let mut lines: Vec<(String, usize, usize)> = FrameKind::ALL
        .into_iter()
        .filter(|&kind| a.kind(kind) + b.kind(kind) > 0)
        .map(|kind| (kind.name().to_owned(), a.kind(kind), b.kind(kind)))
        .collect();
    for (name, of) in [
        (
            "begin of text, headers",
            (|tally| tally.headers) as fn(&Tally) -> usize,
        ),
        ("turn ends", |tally| tally.ends),
        ("template", |tally| tally.template),
    ] {
        lines.push((name.to_owned(), of(a), of(b)));
    }
    lines.push(("**all**".into(), a.tokens, b.tokens));
    lines.push(("**trained**".into(), a.trained, b.trained));
    let mut text = format!(
        "**{}**: tokens of AgenticML (A) and ChatML (B)\n\n",
        cell(title)
    );
    text += "| tokens | A | B | B − A |\n| --- | ---: | ---: | ---: |\n";
    for (name, of_a, of_b) in lines {
        text += &row(&[
            name,
            of_a.to_string(),
            of_b.to_string(),
            difference(of_a, of_b),
        ]);
    }
    text +=
        "\n| frame | kind | owner | A | B | B − A |\n| ---: | --- | --- | ---: | ---: | ---: |\n";
    for (at, frame) in document.trajectory.frames.iter().enumerate() {
        let [of_a, of_b] = [a, b].map(|tally| tally.frames.get(at).copied().unwrap_or(0));
        text += &row(&[
            at.to_string(),
            frame.kind.name().to_owned(),
            frame.kind.owner().name().to_owned(),
            of_a.to_string(),
            of_b.to_string(),
            difference(of_a, of_b),
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::Trajectory;

    #[test]
    fn every_frame_has_a_line_and_titles_stay_text() {
        let text = include_str!("../../../public/samples/lines-in-main-py.json");
        let document = Document::new(
            Trajectory::parse(text).expect("frames"),
            None,
            &mut Default::default(),
        );
        let table = markdown(&document, "a | b\n<b>");
        assert!(table.starts_with("**a \\| b \\<b\\>**"), "{table}");
        assert!(table.contains("| 3 | action | model | 0 | 0 | 0 |"));
        let widths = table
            .lines()
            .skip(2)
            .filter(|line| line.starts_with('|'))
            .map(|line| line.matches(" |").count())
            .collect::<Vec<_>>();
        assert!(
            widths.iter().all(|width| [4, 6].contains(width)),
            "{widths:?}"
        );
    }
}
