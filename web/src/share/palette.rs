//! The colours of a picture. They are the stylesheet's own: the browser is asked what it makes of them, and
//! for the values that every program understands.

use crate::document::{Tone, class};
use formats::FrameKind;
use leptos::prelude::*;
use std::collections::BTreeMap;
use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, HtmlElement};

/// The roles of one hue, as `#rrggbb`.
#[derive(Clone, Debug, Default)]
pub struct Hue {
    /// Text and rules.
    pub ink: String,
    /// Special tokens.
    pub solid: String,
    /// Trained chips.
    pub fill: String,
    /// Outlines.
    pub line: String,
}

/// All colours of a picture, as `#rrggbb`.
#[derive(Clone, Debug, Default)]
pub struct Palette {
    /// Behind everything.
    pub paper: String,
    /// Text.
    pub ink: String,
    /// Lesser text.
    pub ink2: String,
    /// Rules between rows.
    pub line: String,
    /// Outlines without a hue.
    pub line2: String,
    /// On solid colours.
    pub on: String,
    /// Forged markers.
    pub bad: String,
    /// Kinds, structure, template.
    pub hues: BTreeMap<Tone, Hue>,
}

impl Palette {
    /// The hue of a tone.
    pub fn hue(&self, tone: Tone) -> Hue {
        self.hues.get(&tone).cloned().unwrap_or_default()
    }
}

/// Reads colours off elements.
struct Reader {
    canvas: CanvasRenderingContext2d,
    probe: HtmlElement,
}

impl Reader {
    fn new() -> Option<Self> {
        let document = document();
        let canvas: HtmlCanvasElement = document.create_element("canvas").ok()?.dyn_into().ok()?;
        canvas.set_width(1);
        canvas.set_height(1);
        // It is read after every stroke; browsers then keep it out of the GPU.
        let options = js_sys::Object::new();
        js_sys::Reflect::set(&options, &"willReadFrequently".into(), &true.into()).ok()?;
        let canvas = canvas
            .get_context_with_context_options("2d", &options)
            .ok()??
            .dyn_into()
            .ok()?;
        let probe: HtmlElement = document.create_element("span").ok()?.dyn_into().ok()?;
        probe.set_hidden(true);
        document.body()?.append_child(&probe).ok()?;
        Some(Self { canvas, probe })
    }

    /// The value of a variable, where the probe has this class.
    fn colour(&self, class: &str, variable: &str) -> Option<String> {
        self.probe.set_class_name(class);
        let style = self.probe.style();
        style
            .set_property("color", &format!("var({variable})"))
            .ok()?;
        let shown = window()
            .get_computed_style(&self.probe)
            .ok()??
            .get_property_value("color")
            .ok()?;
        self.canvas.set_fill_style_str(&shown);
        self.canvas.fill_rect(0.0, 0.0, 1.0, 1.0);
        let pixel = self.canvas.get_image_data(0.0, 0.0, 1.0, 1.0).ok()?.data();
        let [red, green, blue] = [0, 1, 2].map(|at| pixel.get(at).copied().unwrap_or(0));
        Some(format!("#{red:02x}{green:02x}{blue:02x}"))
    }
}

/// The colours as they are shown, or those of the light theme.
pub fn read(light: bool) -> Option<Palette> {
    let root = document().document_element()?;
    let before = root.get_attribute("data-theme");
    // Nothing is painted in between.
    if light {
        root.set_attribute("data-theme", "light").ok()?;
    }
    let reader = Reader::new()?;
    let palette = all(&reader);
    reader.probe.remove();
    let _ = match before {
        Some(theme) => root.set_attribute("data-theme", &theme),
        None => root.remove_attribute("data-theme"),
    };
    palette
}

fn all(reader: &Reader) -> Option<Palette> {
    let plain = |variable| reader.colour("", variable);
    let mut hues = BTreeMap::new();
    let kinds = FrameKind::ALL.map(|kind| (Tone::Kind(kind), class(kind)));
    let others = [Tone::Turn, Tone::Template].map(|tone| (tone, tone.class()));
    for (tone, class) in kinds.into_iter().chain(others) {
        let of = |variable| reader.colour(class, variable);
        hues.insert(
            tone,
            Hue {
                ink: of("--kI")?,
                solid: of("--kS")?,
                fill: of("--kF")?,
                line: of("--kL")?,
            },
        );
    }
    Some(Palette {
        paper: plain("--surface")?,
        ink: plain("--ink")?,
        ink2: plain("--ink2")?,
        line: plain("--line")?,
        line2: plain("--line2")?,
        on: plain("--on")?,
        bad: plain("--bad")?,
        hues,
    })
}
