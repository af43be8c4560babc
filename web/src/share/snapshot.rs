//! The state that is worth keeping or sending, apart from the page: to JSON and back. Frames are read and
//! written by `formats`. No model, no token, nothing that a model wrote.

use crate::document::Side;
use crate::state::View;
use formats::json::{Object, loads};
use formats::{Trajectory, Value, json};

/// What is shown of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its view.
    pub view: View,
    /// Whether it shows what is trained.
    pub mask: bool,
    /// Whether it shows ids.
    pub ids: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            view: View::Tokens,
            mask: true,
            ids: true,
        }
    }
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A sample of the site as it is, by its file's name.
    Sample(String),
    /// A trajectory, and what to call it.
    Own {
        /// Its frames.
        trajectory: Trajectory,
        /// Its title; may be empty.
        title: String,
    },
}

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawing {
    /// The most probable one, always.
    pub greedy: bool,
    /// Divides the logits.
    pub temperature: f32,
    /// How many tokens stay; 0 for all.
    pub top_k: u32,
    /// Which share of the probability stays.
    pub top_p: f32,
    /// Which share of the best token's probability a token must have.
    pub min_p: f32,
    /// The seed.
    pub seed: u64,
    /// The most tokens to write.
    pub max_tokens: u32,
}

/// The state.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// What is compared.
    pub work: Work,
    /// What is shown of it.
    pub sides: [Shown; 2],
    /// Whether the AgenticML wire has readable markers.
    pub readable: bool,
    /// The pinned frame.
    pub pin: Option<usize>,
    /// How tokens are drawn.
    pub drawing: Option<Drawing>,
}

/// Names of views, as they are kept.
fn name(view: View) -> &'static str {
    match view {
        View::Units => "units",
        View::Wire => "wire",
        View::Tokens => "tokens",
        View::Live => "live",
    }
}

/// Whether this can be the name of a sample's file: a name in the folder itself, and nothing else.
pub fn is_file(name: &str) -> bool {
    name.len() <= 80
        && name.ends_with(".json")
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !name.starts_with('.')
}

fn integer(n: u64) -> Value {
    json::Integer::from_decimal(&n.to_string()).map_or(Value::Null, Value::Int)
}

fn natural(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Int(n) => n.to_string().parse().ok(),
        _ => None,
    }
}

fn number(value: Option<&Value>) -> Option<f32> {
    match value? {
        Value::Float(x) => Some(*x as f32),
        Value::Int(n) => Some(n.to_f64() as f32),
        _ => None,
    }
}

fn flag(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(flag) => Some(*flag),
        _ => None,
    }
}

impl Shown {
    fn to_json(self) -> Value {
        let mut object = Object::new();
        object.insert("view".into(), name(self.view).into());
        object.insert("mask".into(), self.mask.into());
        object.insert("ids".into(), self.ids.into());
        object.into()
    }

    fn from_json(value: Option<&Value>) -> Self {
        let word = value
            .and_then(|value| value.get("view"))
            .and_then(Value::as_str);
        let asked = |key| flag(value.and_then(|value| value.get(key))).unwrap_or(true);
        Self {
            view: View::ALL
                .into_iter()
                .find(|&view| Some(name(view)) == word)
                .unwrap_or(View::Tokens),
            mask: asked("mask"),
            ids: asked("ids"),
        }
    }
}

impl Drawing {
    fn to_json(self) -> Value {
        let mut object = Object::new();
        // Through text, so that 0.8 stays 0.8 and does not become what a float makes of it.
        let short = |x: f32| Value::Float(x.to_string().parse().unwrap_or(0.0));
        object.insert("greedy".into(), self.greedy.into());
        object.insert("temperature".into(), short(self.temperature));
        object.insert("topK".into(), integer(self.top_k.into()));
        object.insert("topP".into(), short(self.top_p));
        object.insert("minP".into(), short(self.min_p));
        object.insert("seed".into(), integer(self.seed));
        object.insert("maxTokens".into(), integer(self.max_tokens.into()));
        object.into()
    }

    /// None where a figure is missing or makes no sense: the page's own settings then stay.
    fn from_json(value: &Value) -> Option<Self> {
        let within = |key: &str, most: f32| {
            number(value.get(key)).filter(|x| x.is_finite() && (0.0..=most).contains(x))
        };
        let small = |key: &str| natural(value.get(key)).and_then(|n| u32::try_from(n).ok());
        Some(Self {
            greedy: flag(value.get("greedy"))?,
            temperature: within("temperature", 10.0)?,
            top_k: small("topK")?,
            top_p: within("topP", 1.0)?,
            min_p: within("minP", 1.0)?,
            seed: natural(value.get("seed"))?,
            max_tokens: small("maxTokens").filter(|n| (1..=131_072).contains(n))?,
        })
    }
}

impl Snapshot {
    /// As JSON text.
    pub fn to_text(&self) -> String {
        json::dumps(&self.to_json())
    }

    /// As a JSON value.
    pub fn to_json(&self) -> Value {
        let mut object = Object::new();
        match &self.work {
            Work::Sample(file) => {
                object.insert("sample".into(), file.as_str().into());
            }
            Work::Own { trajectory, title } => {
                if !title.is_empty() {
                    object.insert("title".into(), title.as_str().into());
                }
                if let Value::Object(frames) = trajectory.to_json() {
                    object.extend(frames);
                }
            }
        }
        for side in Side::BOTH {
            object.insert(
                side.plate().to_lowercase(),
                self.sides[side.index()].to_json(),
            );
        }
        object.insert("readable".into(), self.readable.into());
        if let Some(pin) = self.pin {
            object.insert("pin".into(), integer(pin as u64));
        }
        if let Some(drawing) = self.drawing {
            object.insert("sampling".into(), drawing.to_json());
        }
        object.into()
    }

    /// From JSON text.
    ///
    /// # Errors
    /// Why it is no state.
    pub fn from_text(text: &str) -> Result<Self, String> {
        Self::from_json(&loads(text).map_err(|error| error.to_string())?)
    }

    /// From a JSON value. What is missing has its usual value; what is unknown is left out.
    ///
    /// # Errors
    /// Why it is no state.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let work = match value.get("sample") {
            Some(Value::String(file)) if is_file(file) => Work::Sample(file.clone()),
            Some(_) => return Err("it names a sample that cannot be one".into()),
            None => Work::Own {
                trajectory: Trajectory::from_json(value).map_err(|error| error.to_string())?,
                title: value
                    .get("title")
                    .and_then(Value::as_str)
                    .map(|title| title.chars().take(120).collect())
                    .unwrap_or_default(),
            },
        };
        Ok(Self {
            work,
            sides: [Side::A, Side::B]
                .map(|side| Shown::from_json(value.get(&side.plate().to_lowercase()))),
            readable: flag(value.get("readable")).unwrap_or(true),
            pin: natural(value.get("pin")).and_then(|pin| usize::try_from(pin).ok()),
            drawing: value.get("sampling").and_then(Drawing::from_json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::link;
    use formats::{Frame, FrameKind};
    use proptest::prelude::*;

    fn plain(work: Work) -> Snapshot {
        Snapshot {
            work,
            sides: [Shown::default(); 2],
            readable: true,
            pin: None,
            drawing: None,
        }
    }

    fn any_frame() -> impl Strategy<Value = Frame> {
        (0..FrameKind::ALL.len(), any::<String>(), any::<i64>()).prop_map(|(kind, text, n)| {
            let mut object = Object::new();
            object.insert("text".into(), text.clone().into());
            object.insert("n".into(), n.into());
            let content = match n % 4 {
                0 => Value::Null,
                1 => object.into(),
                2 => n.into(),
                _ => text.into(),
            };
            Frame::new(FrameKind::ALL[kind], content)
        })
    }

    proptest! {
        #[test]
        fn a_state_survives_a_link(
            frames in proptest::collection::vec(any_frame(), 0..8), view in 0..View::ALL.len(), flags in any::<[bool; 4]>(),
            pin in proptest::option::of(0_usize..100), seed in any::<u64>(), temperature in 0.0_f32..10.0,
        ) {
            let state = Snapshot {
                work: Work::Own { trajectory: Trajectory { frames }, title: "A title".into() },
                sides: [Shown { view: View::ALL[view], mask: flags[0], ids: flags[1] }, Shown::default()],
                readable: flags[2],
                pin,
                drawing: Some(Drawing { greedy: flags[3], temperature, top_k: 40, top_p: 0.95, min_p: 0.05, seed, max_tokens: 128 }),
            };
            let text = link::unpack(&link::pack(&state.to_text())).expect("it unpacks");
            prop_assert_eq!(Snapshot::from_text(&text), Ok(state));
        }

        #[test]
        fn hostile_text_never_panics(text in "[\\[\\]{}\":,a-z0-9. -]{0,120}") {
            let _ = Snapshot::from_text(&text);
        }
    }

    #[test]
    fn a_sample_makes_a_short_link() {
        let state = plain(Work::Sample("lines-in-main-py.json".into()));
        let payload = link::pack(&state.to_text());
        assert!(payload.len() < 200, "{} characters", payload.len());
        assert_eq!(Snapshot::from_text(&state.to_text()), Ok(state));
    }

    #[test]
    fn a_sample_is_a_name_in_its_folder() {
        for bad in ["../x.json", "a/b.json", "https://x.json", ".json", "x", ""] {
            assert!(!is_file(bad), "{bad}");
            let mut object = Object::new();
            object.insert("sample".into(), bad.into());
            assert!(Snapshot::from_json(&object.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn nonsense_settings_are_left_out() {
        let text = r#"{"frames": [], "pin": -3, "a": {"view": "door"}, "sampling": {"greedy": false, "temperature": NaN}}"#;
        let state = Snapshot::from_text(text).expect("a state");
        assert_eq!(
            state,
            plain(Work::Own {
                trajectory: Trajectory::default(),
                title: String::new()
            })
        );
        assert!(Snapshot::from_text("{}").is_err());
    }

    #[test]
    fn a_long_sample_fits_into_a_link() {
        let text = include_str!("../../../public/samples/three-files.json");
        let state = plain(Work::Own {
            trajectory: Trajectory::parse(text).expect("frames"),
            title: "Three files".into(),
        });
        let payload = link::pack(&state.to_text());
        println!(
            "{} characters of JSON, {} in the link",
            state.to_text().len(),
            payload.len()
        );
        assert!(payload.len() < link::LONGEST / 4);
    }
}
