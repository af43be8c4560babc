//! The models that the site names: data of the site, checked when it is read.

use crate::dom;
use crate::live::{Asked, Chosen};
use crate::samples;
use crate::state::Page;
use engine::protocol::{Sides, Source, Token};
use formats::{Value, json};
use leptos::prelude::*;
use leptos::task::spawn_local;

/// The most presets that are read.
const MOST: usize = 32;
/// The most variants of one.
const MOST_VARIANTS: usize = 12;
/// The most bytes of a text.
const LONGEST: usize = 400;

/// A model that the site names. The list goes from the largest to the smallest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What to call it.
    pub name: String,
    /// What it was trained on, in a word or two.
    pub tag: String,
    /// Where it is on the hub, as `owner/name`.
    pub repository: String,
    /// One sentence.
    pub note: String,
    /// The forms that it comes in; at least one.
    pub variants: Vec<Variant>,
    /// Which of them is chosen at first.
    pub first: usize,
}

/// One form of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// What to call it.
    pub title: String,
    /// Its file in the repository.
    pub file: Option<String>,
    /// Or a word in the file's name, where the repository is asked for it.
    pub quant: Option<String>,
    /// The recipe to quantize it by.
    pub recipe: Option<String>,
}

impl Preset {
    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| text(value, key);
        let variants: Vec<_> = value
            .get("variants")?
            .as_array()?
            .iter()
            .take(MOST_VARIANTS)
            .map(Variant::read)
            .collect::<Option<_>>()?;
        let first = value
            .get("first")
            .map_or(Some(0), |first| match first {
                Value::Int(number) => usize::try_from(number.as_i64()?).ok(),
                _ => None,
            })
            .filter(|first| *first < variants.len())?;
        Some(Self {
            name: text("name")?,
            tag: text("tag")?,
            repository: text("repository")?,
            note: text("note")?,
            variants,
            first,
        })
    }
}

impl Variant {
    fn read(value: &Value) -> Option<Self> {
        let optional = |key: &str| match value.get(key) {
            None => Some(None),
            Some(_) => text(value, key).map(Some),
        };
        Some(Self {
            title: text(value, "title")?,
            file: optional("file")?,
            quant: optional("quant")?,
            recipe: optional("recipe")?,
        })
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key)?.as_str()?;
    (!text.is_empty() && text.len() <= LONGEST).then(|| text.to_owned())
}

/// Reads a list of presets.
///
/// # Errors
/// What is wrong with it.
fn read(list: &str) -> Result<Vec<Preset>, String> {
    let value = json::loads(list).map_err(|error| error.to_string())?;
    let list = value.as_array().ok_or("it is no list")?;
    list.iter()
        .take(MOST)
        .enumerate()
        .map(|(at, entry)| Preset::read(entry).ok_or(format!("entry {at} is not as it should be")))
        .collect()
}

/// Fetches the list, once.
pub fn load(page: Page) {
    let state = page.models;
    if state.asked.get_value() {
        return;
    }
    state.asked.set_value(true);
    spawn_local(async move {
        let url = dom::setting("data-presets").unwrap_or_else(|| "presets.json".to_owned());
        let presets = match samples::text(&url).await {
            Ok(list) => read(&list).map_err(|error| format!("{url}: {error}")),
            Err(error) => Err(error),
        };
        match presets {
            Ok(presets) => {
                state
                    .picks
                    .set(presets.iter().map(|preset| preset.first).collect());
                state.presets.set(presets);
            }
            Err(error) => {
                // Another try at the next visit of the room.
                state.asked.set_value(false);
                state.trouble.set(Some(format!(
                    "The list of models could not be read. {error}"
                )));
            }
        }
    });
}

/// Checks a preset for these sides, in the variant that is chosen.
pub fn check(page: Page, at: usize, sides: Sides) {
    let state = page.models;
    let which = state.picks.read_untracked().get(at).copied().unwrap_or(0);
    let Some((preset, variant)) = state.presets.with_untracked(|presets| {
        let preset = presets.get(at)?;
        Some((preset.clone(), preset.variants.get(which)?.clone()))
    }) else {
        return;
    };
    let token = state.token.get_untracked();
    let mut chosen = Chosen::new(Source::Hub {
        repository: preset.repository,
        revision: None,
        file: variant.file,
        token: (!token.is_empty()).then_some(Token(token)),
    });
    chosen.name = format!("{}, {}", preset.name, variant.title);
    let mut options = page.live.options(&chosen);
    options.recipe = variant.recipe;
    let asked = Asked {
        chosen,
        sides,
        options,
        preset: Some((at, which)),
    };
    super::check(page, asked, variant.quant);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_site_is_as_it_should_be() {
        let presets = read(include_str!("../../../public/presets.json")).unwrap();
        assert_eq!(presets.len(), 4);
        for preset in presets {
            assert!(preset.repository.split_once('/').is_some(), "{preset:?}");
            for variant in preset.variants {
                let ways = [variant.file, variant.quant, variant.recipe];
                assert_eq!(ways.iter().flatten().count(), 1, "{ways:?}");
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(read("{}").is_err());
        assert!(read("[1]").is_err());
        assert!(
            read(r#"[{"name":"a","tag":"b","repository":"c/d","note":"e","variants":[{}]}]"#)
                .is_err()
        );
        let many = format!("[{}]", vec!["1"; 1_000_000].join(","));
        assert!(read(&many).is_err());
        let none = r#"[{"name":"a","tag":"b","repository":"c/d","note":"e","variants":[]}]"#;
        assert!(read(none).is_err());
    }
}
