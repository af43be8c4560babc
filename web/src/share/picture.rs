//! The comparison as one SVG: drawn from the document, not copied from the page, so that it needs no style
//! sheet and no font of ours, and programs for slides can open it. Every text is escaped data.

use crate::document::{Document, Side, SideDoc, Tone, content_text, is_special};
use crate::icons;
use crate::pieces::{self, Part};
use crate::rows;
use crate::share::palette::Palette;
use crate::share::snapshot::Shown;
use crate::sides::bare;
use crate::state::View;
use crate::words;
use formats::{FrameKind, Owner, Payload, json};
use std::fmt::Write as _;
use std::ops::Range;
use tokens::Token;

const WIDTH: f64 = 1600.0;
const MARGIN: f64 = 40.0;
const GAP: f64 = 40.0;
/// Left of a cell: glyph and number, or the role.
const GUTTER: f64 = 34.0;
const CELL: f64 = (WIDTH - 2.0 * MARGIN - GAP) / 2.0;
/// Rows beyond this height are left out and counted: slides show no more, and canvases have limits.
const HIGHEST: f64 = 6000.0;

/// A font of the picture: CSS families that every system has one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Font {
    /// What a model sees.
    Mono(u8),
    /// Interface.
    Sans(u8),
    /// The same, bold.
    Bold(u8),
    /// Names.
    Serif(u8),
}

impl Font {
    /// Families, size in pixels, weight.
    pub fn css(self) -> (&'static str, u8, u16) {
        const MONO: &str = "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
        const SANS: &str = "Inter, 'SF Pro Text', 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif";
        const SERIF: &str = "'Iowan Old Style', Palatino, 'URW Palladio L', Georgia, serif";
        match self {
            Self::Mono(size) => (MONO, size, 500),
            Self::Sans(size) => (SANS, size, 400),
            Self::Bold(size) => (SANS, size, 700),
            Self::Serif(size) => (SERIF, size, 600),
        }
    }
}

/// How wide a text is in a font.
pub type Measure<'a> = &'a dyn Fn(&str, Font) -> f64;

/// What to draw.
pub struct Options {
    /// The picture's title.
    pub title: String,
    /// Only this row.
    pub only: Option<usize>,
    /// What the sides show.
    pub sides: [Shown; 2],
    /// Whether the AgenticML wire has readable markers.
    pub readable: bool,
}

/// A drawing.
pub struct Picture {
    /// The file.
    pub svg: String,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// How many rows had no place.
    pub left_out: usize,
}

/// Text as XML text or attribute. What XML cannot hold is replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                escaped.push('\u{fffd}');
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Draws the document.
pub fn draw(
    document: &Document,
    options: &Options,
    palette: &Palette,
    measure: Measure<'_>,
) -> Picture {
    let mut pen = Pen {
        svg: String::new(),
        palette,
        measure,
    };
    let mut y = pen.head(document, options);
    let wanted: Vec<usize> = match options.only {
        Some(row) if row < document.rows.len() => vec![row],
        _ => (0..document.rows.len()).collect(),
    };
    let mut left_out = 0;
    for (drawn, &row) in wanted.iter().enumerate() {
        if y > HIGHEST {
            left_out = wanted.len() - drawn;
            break;
        }
        pen.line(MARGIN, y, WIDTH - MARGIN, y, &palette.line);
        let number = (row + 1).to_string();
        pen.centred(
            WIDTH / 2.0,
            y + 24.0,
            &number,
            Font::Bold(11),
            &palette.ink2,
        );
        y = Side::BOTH
            .into_iter()
            .map(|side| pen.cell(document, row, side, options, y + 8.0))
            .fold(y + 40.0, f64::max)
            + 8.0;
    }
    pen.line(MARGIN, y, WIDTH - MARGIN, y, &palette.line);
    if left_out > 0 {
        y += 24.0;
        let rest = format!(
            "{} left out of this picture",
            words::count(left_out, "more turn")
        );
        pen.text(MARGIN, y, &rest, Font::Bold(12), &palette.ink);
    }
    y = pen.key(y + 26.0, options);
    let height = (y + MARGIN / 2.0).ceil();
    let title = escape(&options.title);
    let paper = &palette.paper;
    Picture {
        svg: format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\
             <title>{title}</title><rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{paper}\"/>{}</svg>",
            pen.svg
        ),
        width: WIDTH,
        height,
        left_out,
    }
}

struct Pen<'a> {
    svg: String,
    palette: &'a Palette,
    measure: Measure<'a>,
}

/// A chip before it has a place.
struct Chip<'a> {
    token: &'a Token,
    glyph: Option<FrameKind>,
    /// A special token's word.
    word: Option<String>,
    parts: Vec<Part>,
    width: f64,
}

/// A run of wire text in one style.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Style {
    tone: Tone,
    special: bool,
    trained: bool,
    given: bool,
}

impl Pen<'_> {
    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.svg.write_fmt(arguments);
    }

    fn width(&self, text: &str, font: Font) -> f64 {
        (self.measure)(text, font)
    }

    /// Text with its left end at a place; its length is fixed, so that another font cannot break the layout.
    fn text(&mut self, x: f64, y: f64, text: &str, font: Font, fill: &str) -> f64 {
        self.spans(x, y, &[(text.to_owned(), fill.to_owned())], font)
    }

    fn spans(&mut self, x: f64, y: f64, spans: &[(String, String)], font: Font) -> f64 {
        let whole: String = spans.iter().map(|(text, _)| text.as_str()).collect();
        if whole.is_empty() {
            return 0.0;
        }
        let (family, size, weight) = font.css();
        let length = self.width(&whole, font);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-family=\"{family}\" font-size=\"{size}\" font-weight=\"{weight}\" \
             textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" direction=\"ltr\" unicode-bidi=\"isolate\" xml:space=\"preserve\">"
        ));
        for (text, fill) in spans {
            self.put(format_args!(
                "<tspan fill=\"{fill}\">{}</tspan>",
                escape(text)
            ));
        }
        self.svg.push_str("</text>");
        length
    }

    fn centred(&mut self, x: f64, y: f64, text: &str, font: Font, fill: &str) {
        let width = self.width(text, font);
        self.text(x - width / 2.0, y, text, font, fill);
    }

    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, stroke: &str) {
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\"/>"
        ));
    }

    fn glyph(&mut self, kind: FrameKind, x: f64, y: f64, size: f64, colour: &str) {
        let scale = size / 12.0;
        let looks = match kind.owner() {
            Owner::Runtime => format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\""),
            Owner::Model => format!("fill=\"{colour}\""),
        };
        let path = icons::path(kind);
        self.put(format_args!(
            "<path transform=\"translate({x:.1} {y:.1}) scale({scale:.2})\" d=\"{path}\" {looks}/>"
        ));
    }

    /// Title and the sides' heads; returns where the rows begin.
    fn head(&mut self, document: &Document, options: &Options) -> f64 {
        let palette = self.palette;
        self.text(MARGIN, 52.0, &options.title, Font::Serif(24), &palette.ink);
        for side in Side::BOTH {
            let x = left(side);
            self.put(format_args!(
                "<rect x=\"{x:.1}\" y=\"74.5\" width=\"20\" height=\"20\" rx=\"2\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>",
                palette.ink
            ));
            self.centred(x + 10.0, 89.0, side.plate(), Font::Bold(12), &palette.ink);
            let name = self.text(x + 30.0, 90.0, side.title(), Font::Serif(18), &palette.ink);
            let doc = document.side(side);
            if doc.view.is_some() {
                let tally = &doc.tally;
                let counts = format!(
                    "{}, {} trained, {}",
                    words::count(tally.tokens, "token"),
                    tally.trained,
                    words::share(tally.trained, tally.tokens)
                );
                self.text(
                    x + 46.0 + name,
                    90.0,
                    &counts,
                    Font::Sans(13),
                    &palette.ink2,
                );
            }
        }
        112.0
    }

    /// One side of a row; returns its lower end.
    fn cell(
        &mut self,
        document: &Document,
        row: usize,
        side: Side,
        options: &Options,
        y: f64,
    ) -> f64 {
        let doc = document.side(side);
        let shown = options.sides[side.index()];
        let x = left(side);
        if let Some(error) = &doc.error {
            if row == 0 {
                let line = format!("{} cannot write this trajectory: {error}", side.title());
                return self.prose(x, y, CELL, &line, Font::Sans(13), &self.palette.bad.clone());
            }
            return y;
        }
        let parts = &document.rows[row];
        match shown.view {
            View::Units if side == Side::A => parts
                .frames
                .clone()
                .fold(y, |y, frame| self.frame(document, frame, x, y)),
            View::Units => match parts.message {
                Some(message) => self.message(document, message, x, y),
                None => y,
            },
            View::Tokens | View::Live if doc.view.is_some() => {
                self.tokens(document, row, side, shown, y)
            }
            View::Wire | View::Tokens | View::Live => {
                let rendering = if options.readable {
                    doc.readable()
                } else {
                    &doc.rendering
                };
                let segments = rendering
                    .segments
                    .get(parts.segments[side.index()].clone())
                    .unwrap_or_default();
                let runs = segments.iter().map(|segment| {
                    let style = Style {
                        tone: Tone::of_segment(segment),
                        special: is_special(segment),
                        trained: segment.trained && shown.mask,
                        given: segment.given && shown.mask,
                    };
                    (segment.text.as_str(), style)
                });
                self.wire(x, y, runs)
            }
        }
    }

    /// Chips, in strips as the page has them.
    fn tokens(
        &mut self,
        document: &Document,
        row: usize,
        side: Side,
        shown: Shown,
        mut y: f64,
    ) -> f64 {
        let doc: &SideDoc = document.side(side);
        let range = document.rows[row].tokens[side.index()].clone();
        let tokens = &doc.tokens()[range.clone()];
        let strips: Vec<(Option<usize>, Range<usize>)> = match side {
            Side::A => {
                // An end stays with the frame that it ends.
                let mut owner = None;
                let frames = tokens.iter().map(|token| {
                    if token.frame_kind != Some(FrameKind::End) || owner.is_none() {
                        owner = token.frame;
                    }
                    owner
                });
                rows::runs(frames, range.start)
            }
            Side::B => vec![(None, range)],
        };
        let x = left(side);
        for (frame, range) in strips {
            let palette = self.palette;
            match frame.and_then(|at| Some((at, document.trajectory.frames.get(at)?.kind))) {
                Some((at, kind)) => {
                    let ink = palette.hue(Tone::Kind(kind)).ink;
                    self.glyph(kind, x + 4.0, y + 4.0, 13.0, &ink);
                    self.centred(
                        x + 10.5,
                        y + 28.0,
                        &at.to_string(),
                        Font::Mono(9),
                        &palette.ink2,
                    );
                }
                None => {
                    let role = document.rows[row]
                        .message
                        .and_then(|message| document.conversation.messages.get(message))
                        .map_or("", |message| message.role());
                    let width = self.width(role, Font::Bold(11));
                    let middle = y + width + 2.0;
                    self.put(format_args!(
                        "<g transform=\"rotate(-90 {:.1} {middle:.1})\">",
                        x + 14.0
                    ));
                    self.text(x + 14.0, middle, role, Font::Bold(11), &palette.ink2);
                    self.svg.push_str("</g>");
                    y = self.strip(doc, range, side, shown, y).max(middle + 4.0);
                    continue;
                }
            }
            y = self.strip(doc, range, side, shown, y).max(y + 36.0);
        }
        y
    }

    fn strip(
        &mut self,
        doc: &SideDoc,
        range: Range<usize>,
        side: Side,
        shown: Shown,
        top: f64,
    ) -> f64 {
        let start = left(side) + GUTTER;
        let right = left(side) + CELL;
        let (mut x, mut y) = (start, top);
        for token in &doc.tokens()[range] {
            let chip = self.chip(token, side, right - start);
            if x + chip.width > right && x > start {
                x = start;
                y += 33.0;
            }
            self.draw_chip(&chip, x, y, shown);
            x += chip.width + 3.0;
        }
        y + 34.0
    }

    fn chip<'t>(&self, token: &'t Token, side: Side, most: f64) -> Chip<'t> {
        let special = token.special.as_deref().filter(|_| !token.forged);
        let word = special.map(|name| match token.frame_kind {
            Some(kind) if side == Side::A => kind.name().to_owned(),
            _ => bare(name).to_owned(),
        });
        let glyph = special.and(token.frame_kind);
        let parts = pieces::parts(&token.text);
        let text: f64 = match &word {
            Some(word) => {
                self.width(word, Font::Bold(11)) + if glyph.is_some() { 14.0 } else { 0.0 }
            }
            None => parts
                .iter()
                .map(|part| self.width(part.text(), Font::Mono(12)))
                .sum(),
        };
        let id = self.width(&token.id.to_string(), Font::Mono(9));
        let room = if word.is_some() { 18.0 } else { 10.0 };
        Chip {
            token,
            glyph,
            word,
            parts,
            width: (text.max(id) + room).clamp(18.0, most),
        }
    }

    /// The grammar of the page: owner by shape, kind by glyph and hue, trained filled and ruled under.
    fn draw_chip(&mut self, chip: &Chip<'_>, x: f64, y: f64, shown: Shown) {
        let palette = self.palette;
        let token = chip.token;
        let tone = Tone::of_token(token);
        let hue = palette.hue(tone);
        let (width, height) = (chip.width, 29.0);
        let trained = token.label.is_some() && shown.mask;
        let (mut text, mut small) = (palette.ink.clone(), palette.ink2.clone());
        if chip.word.is_some() {
            let (right, middle, low) = (x + width, y + height / 2.0, y + height);
            let solid = trained || !shown.mask;
            let fill = if solid { &hue.solid } else { &palette.paper };
            self.put(format_args!(
                "<path d=\"M{x:.1} {y:.1}H{:.1}L{right:.1} {middle:.1}L{:.1} {low:.1}H{x:.1}z\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.5\"/>",
                right - 8.0, right - 8.0, hue.solid
            ));
            text = if solid {
                palette.on.clone()
            } else {
                hue.ink.clone()
            };
            if solid {
                small.clone_from(&palette.on);
            }
        } else {
            let round = if token.owner == Owner::Model { 8 } else { 2 };
            let template = tone == Tone::Template;
            let fill = if trained && !template {
                hue.fill.as_str()
            } else {
                "none"
            };
            let (stroke, dash) = if token.given && shown.mask {
                (&palette.ink, " stroke-dasharray=\"3 2\"")
            } else if template {
                (&palette.line2, " stroke-dasharray=\"3 2\"")
            } else if trained {
                (&hue.fill, "")
            } else {
                (&hue.line, "")
            };
            self.put(format_args!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round}\" fill=\"{fill}\" stroke=\"{stroke}\"{dash}/>",
                x + 0.5, y + 0.5, width - 1.0, height - 1.0
            ));
            if trained {
                self.put(format_args!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"2\" fill=\"{}\"/>",
                    x + 4.0,
                    y + height - 2.0,
                    width - 8.0,
                    hue.ink
                ));
            }
            if token.forged {
                for grown in [1.0, 4.0] {
                    self.put(format_args!(
                        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.2\"/>",
                        x - grown / 2.0, y - grown / 2.0, width + grown, height + grown, palette.bad
                    ));
                }
            }
        }
        if token.seam {
            self.put(format_args!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"2.5\" height=\"{:.1}\" fill=\"{}\"/>",
                x + width - 1.0,
                y + 2.0,
                height - 4.0,
                palette.ink2
            ));
        }
        match &chip.word {
            Some(word) => {
                let mut at = x + 5.0;
                if let Some(kind) = chip.glyph {
                    self.glyph(kind, at, y + 3.5, 10.0, &text);
                    at += 14.0;
                }
                self.text(at, y + 13.0, word, Font::Bold(11), &text);
            }
            None => {
                let spans = chip
                    .parts
                    .iter()
                    .map(|part| {
                        let fill = if part.is_mark() { &hue.ink } else { &text };
                        (part.text().to_owned(), fill.clone())
                    })
                    .collect::<Vec<_>>();
                self.spans(x + 5.0, y + 13.0, &spans, Font::Mono(12));
            }
        }
        if shown.ids {
            self.text(
                x + 5.0,
                y + 24.0,
                &token.id.to_string(),
                Font::Mono(9),
                &small,
            );
        }
    }

    /// Wire text, broken where it must be.
    fn wire<'t>(&mut self, x: f64, y: f64, runs: impl Iterator<Item = (&'t str, Style)>) -> f64 {
        const FONT: Font = Font::Mono(12);
        let start = x + GUTTER;
        let right = x + CELL;
        let (mut x, mut y) = (start, y + 14.0);
        for (text, style) in runs {
            for line in text.split_inclusive('\n') {
                let (line, breaks) = match line.strip_suffix('\n') {
                    Some(line) => (line, true),
                    None => (line, false),
                };
                let mut shown = String::new();
                for part in pieces::parts(line) {
                    // Spaces inside a line stay spaces, as on the page.
                    shown.push_str(&if part.is_mark() {
                        part.text().replace('·', " ")
                    } else {
                        part.text().to_owned()
                    });
                }
                if breaks {
                    shown.push('↵');
                }
                for word in shown.split_inclusive(' ') {
                    let mut word = word;
                    while !word.is_empty() {
                        let fits = self.fits(word, FONT, right - x);
                        if fits < word.len() && x > start {
                            x = start;
                            y += 19.0;
                            continue;
                        }
                        let (here, rest) = word.split_at(fits);
                        x += self.run(x, y, here, style);
                        word = rest;
                    }
                }
                if breaks {
                    x = start;
                    y += 19.0;
                }
            }
        }
        if x > start { y + 10.0 } else { y - 9.0 }
    }

    fn run(&mut self, x: f64, y: f64, text: &str, style: Style) -> f64 {
        let palette = self.palette;
        let hue = palette.hue(style.tone);
        let width = self.width(text, Font::Mono(12));
        if style.trained && !style.given {
            self.put(format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"18\" fill=\"{}\"/><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"2\" fill=\"{}\"/>",
                y - 13.0, hue.fill, y + 3.0, hue.ink
            ));
        } else if style.given || style.tone == Tone::Template {
            let stroke = if style.given {
                &palette.ink
            } else {
                &palette.line2
            };
            self.put(format_args!(
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\" stroke-dasharray=\"4 2\"/>",
                y + 4.0, x + width, y + 4.0
            ));
        }
        let fill = if style.special {
            &hue.ink
        } else if style.tone == Tone::Template {
            &palette.ink2
        } else {
            &palette.ink
        };
        self.text(x, y, text, Font::Mono(12), fill);
        width
    }

    /// How many bytes of a text fit, at least one character.
    fn fits(&self, text: &str, font: Font, room: f64) -> usize {
        if self.width(text, font) <= room {
            return text.len();
        }
        let mut fits = 0;
        let mut width = 0.0;
        for (at, c) in text.char_indices() {
            width += self.width(c.encode_utf8(&mut [0; 4]), font);
            if width > room && at > 0 {
                break;
            }
            fits = at + c.len_utf8();
        }
        fits
    }

    /// Text in lines; returns its lower end.
    fn prose(&mut self, x: f64, y: f64, room: f64, text: &str, font: Font, fill: &str) -> f64 {
        let mut y = y;
        for paragraph in text.split('\n') {
            let plain: String = pieces::parts(paragraph)
                .iter()
                .map(|part| {
                    if part.is_mark() {
                        part.text().replace('·', " ").replace('⇥', "    ")
                    } else {
                        part.text().to_owned()
                    }
                })
                .collect();
            let mut line = String::new();
            let mut flush = |pen: &mut Self, line: &mut String| {
                y += 17.0;
                pen.text(x, y, line, font, fill);
                line.clear();
            };
            for word in plain.split_inclusive(' ') {
                let mut word = word;
                while !word.is_empty() {
                    let both = format!("{line}{}", word.trim_end());
                    if self.width(&both, font) <= room {
                        line.push_str(word);
                        break;
                    }
                    if !line.is_empty() {
                        flush(self, &mut line);
                        continue;
                    }
                    let (here, rest) = word.split_at(self.fits(word, font, room));
                    line.push_str(here);
                    word = rest;
                }
            }
            flush(self, &mut line);
        }
        y
    }

    /// A card round what is drawn into it.
    fn card(
        &mut self,
        x: f64,
        y: f64,
        model: bool,
        tone: Tone,
        body: impl FnOnce(&mut Self, f64, f64, f64) -> f64,
    ) -> f64 {
        let outside = std::mem::take(&mut self.svg);
        let end = body(self, x + 12.0, y + 4.0, CELL - 24.0) + 10.0;
        let inside = std::mem::replace(&mut self.svg, outside);
        let hue = self.palette.hue(tone);
        let round = if model { 10 } else { 2 };
        let fill = if model { hue.fill.as_str() } else { "none" };
        let height = end - y;
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{CELL:.1}\" height=\"{height:.1}\" rx=\"{round}\" fill=\"{fill}\" fill-opacity=\".5\" stroke=\"{}\"/>",
            hue.line
        ));
        self.svg.push_str(&inside);
        end + 6.0
    }

    fn frame(&mut self, document: &Document, at: usize, x: f64, y: f64) -> f64 {
        let Some(frame) = document.trajectory.frames.get(at) else {
            return y;
        };
        let kind = frame.kind;
        let model = kind.owner() == Owner::Model;
        let text = content_text(frame);
        let font = if kind.payload() == Payload::Json {
            Font::Mono(11)
        } else {
            Font::Sans(12)
        };
        let palette = self.palette;
        self.card(x, y, model, Tone::Kind(kind), |pen, x, y, room| {
            let ink = palette.hue(Tone::Kind(kind)).ink;
            pen.glyph(kind, x, y + 3.0, 12.0, &ink);
            let name = pen.text(x + 18.0, y + 14.0, kind.name(), Font::Bold(12), &ink);
            let owner = format!("{at}, {}", kind.owner().name());
            pen.text(
                x + 26.0 + name,
                y + 14.0,
                &owner,
                Font::Sans(11),
                &palette.ink2,
            );
            if text.is_empty() {
                return y + 14.0;
            }
            pen.prose(x, y + 16.0, room, &text, font, &palette.ink)
        })
    }

    fn message(&mut self, document: &Document, at: usize, x: f64, y: f64) -> f64 {
        let Some(message) = document.conversation.messages.get(at) else {
            return y;
        };
        let palette = self.palette;
        self.card(x, y, false, Tone::Turn, |pen, x, mut y, room| {
            pen.text(x, y + 14.0, message.role(), Font::Bold(12), &palette.ink);
            y += 16.0;
            let text = message.text();
            if !text.is_empty() {
                y = pen.prose(x, y, room, text, Font::Sans(12), &palette.ink);
            } else if let Some(value) = message.content().filter(|value| value.as_str().is_none()) {
                y = pen.prose(
                    x,
                    y,
                    room,
                    &json::dumps(value),
                    Font::Mono(11),
                    &palette.ink,
                );
            }
            for call in message.tool_calls() {
                let name = call.name.map(formats::python::str).unwrap_or_default();
                let arguments = call.arguments.map(formats::python::str).unwrap_or_default();
                y = pen.prose(
                    x,
                    y,
                    room,
                    &format!("{name}({arguments})"),
                    Font::Mono(11),
                    &palette.ink,
                );
            }
            y
        })
    }

    /// What the looks mean, and who counted.
    fn key(&mut self, y: f64, options: &Options) -> f64 {
        let palette = self.palette;
        let ink = &palette.ink;
        let mut x = MARGIN;
        if options.sides.iter().any(|side| side.mask) {
            for (name, looks) in [
                (
                    "trained",
                    format!("rx=\"6\" fill=\"{}\" stroke=\"{ink}\"", palette.line),
                ),
                (
                    "trained, yet given",
                    format!(
                        "rx=\"2\" fill=\"{}\" stroke=\"{ink}\" stroke-dasharray=\"3 2\"",
                        palette.line
                    ),
                ),
                (
                    "context",
                    format!("rx=\"2\" fill=\"none\" stroke=\"{}\"", palette.ink2),
                ),
                (
                    "template",
                    format!(
                        "rx=\"2\" fill=\"none\" stroke=\"{}\" stroke-dasharray=\"3 2\"",
                        palette.line2
                    ),
                ),
            ] {
                self.put(format_args!(
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"20\" height=\"13\" {looks}/>",
                    y - 11.0
                ));
                if name.starts_with("trained") {
                    self.put(format_args!(
                        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"2\" fill=\"{ink}\"/>",
                        x + 3.0,
                        y
                    ));
                }
                x += 26.0;
                x += self.text(x, y, name, Font::Sans(12), &palette.ink2) + 18.0;
            }
            self.put(format_args!(
                "<path d=\"M{x:.1} {:.1}h14l6 6.5l-6 6.5h-14z\" fill=\"{ink}\"/>",
                y - 11.0
            ));
            x += 26.0;
            self.text(x, y, "special token", Font::Sans(12), &palette.ink2);
        }
        let credit = "AgenticML Playground · Llama 3.1 tokenizer · Built with Llama";
        let width = self.width(credit, Font::Sans(12));
        self.text(
            WIDTH - MARGIN - width,
            y,
            credit,
            Font::Sans(12),
            &palette.ink2,
        );
        y + 8.0
    }
}

/// Where a side begins.
fn left(side: Side) -> f64 {
    MARGIN + side.index() as f64 * (CELL + GAP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::{Frame, Trajectory};
    use proptest::prelude::*;

    fn drawn(trajectory: Trajectory, view: View) -> Picture {
        let shown = Shown {
            view,
            ..Shown::default()
        };
        let options = Options {
            title: "A <title> & more".into(),
            only: None,
            sides: [shown; 2],
            readable: true,
        };
        let document = Document::new(trajectory, None, &mut Default::default());
        let measure =
            |text: &str, font: Font| text.chars().count() as f64 * f64::from(font.css().1) * 0.6;
        draw(&document, &options, &Palette::default(), &measure)
    }

    /// Reads the drawing as strictly as XML asks: elements close in order, text has no bare signs.
    fn texts(svg: &str) -> Result<Vec<String>, String> {
        let mut open = Vec::new();
        let mut found = Vec::new();
        let mut rest = svg;
        while let Some((text, more)) = rest.split_once('<') {
            if text.contains('>') || text.chars().any(|c| c.is_control()) {
                return Err(format!("{text:?} is no text"));
            }
            if open.last() == Some(&"tspan") {
                found.push(text.to_owned());
            }
            let (tag, after) = more.split_once('>').ok_or("a tag does not end")?;
            let name = tag
                .trim_start_matches('/')
                .split([' ', '/'])
                .next()
                .unwrap_or_default();
            if tag.starts_with('/') {
                if open.pop() != Some(name) {
                    return Err(format!("{name} closes out of order"));
                }
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            rest = after;
        }
        if open.is_empty() {
            Ok(found)
        } else {
            Err(format!("{open:?} stay open"))
        }
    }

    #[test]
    fn each_view_is_drawn() {
        let text = include_str!("../../../public/samples/lines-in-main-py.json");
        let trajectory = Trajectory::parse(text).expect("frames");
        for view in View::ALL {
            let picture = drawn(trajectory.clone(), view);
            let found = texts(&picture.svg).expect("well formed").join(" ");
            assert!(found.contains("A &lt;title&gt; &amp; more"), "{view:?}");
            assert!(found.contains("main.py"), "{view:?}: {found}");
            assert_eq!(picture.left_out, 0);
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let frames = (0..400)
            .map(|at| Frame::new(FrameKind::Mission, format!("Mission {at}")))
            .collect();
        let picture = drawn(Trajectory { frames }, View::Wire);
        assert!(picture.left_out > 0);
        assert!(picture.height < HIGHEST + 200.0);
        assert!(picture.svg.contains("left out of this picture"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn hostile_text_stays_text(text in any::<String>(), view in 0..3_usize) {
            let frames = vec![
                Frame::new(FrameKind::Goal, "g"),
                Frame::new(FrameKind::Mission, format!("</text><script>{text}\u{ffff}\u{1}")),
            ];
            let picture = drawn(Trajectory { frames }, View::ALL[view]);
            prop_assert!(texts(&picture.svg).is_ok(), "{:?}", texts(&picture.svg));
            prop_assert!(!picture.svg.contains("<script"));
        }
    }
}
