//! A model's licence, as its files tell it.

use weights::gguf::{Gguf, MetaValue};

use super::Licence;

/// Longest text that is shown, in bytes.
const MAX_TEXT: usize = 1 << 10;
/// Most base models that are looked at.
const MAX_BASES: u64 = 16;

/// Licences by the identifiers that Hugging Face has for them: name, link, and what their text wants
/// shown with the model.
const KNOWN: [(&str, &str, &str, Option<&str>); 14] = [
    (
        "llama3.3",
        "Llama 3.3 Community License",
        "https://www.llama.com/llama3_3/license/",
        Some("Built with Llama"),
    ),
    (
        "llama3.2",
        "Llama 3.2 Community License",
        "https://www.llama.com/llama3_2/license/",
        Some("Built with Llama"),
    ),
    (
        "llama3.1",
        "Llama 3.1 Community License",
        "https://www.llama.com/llama3_1/license/",
        Some("Built with Llama"),
    ),
    (
        "llama3",
        "Meta Llama 3 Community License",
        "https://www.llama.com/llama3/license/",
        Some("Built with Meta Llama 3"),
    ),
    (
        "llama2",
        "Llama 2 Community License",
        "https://www.llama.com/llama2/license/",
        None,
    ),
    (
        "apache-2.0",
        "Apache License 2.0",
        "https://www.apache.org/licenses/LICENSE-2.0",
        None,
    ),
    (
        "mit",
        "MIT License",
        "https://opensource.org/license/mit",
        None,
    ),
    (
        "bsd-3-clause",
        "BSD 3-Clause License",
        "https://opensource.org/license/bsd-3-clause",
        None,
    ),
    (
        "cc-by-4.0",
        "Creative Commons Attribution 4.0",
        "https://creativecommons.org/licenses/by/4.0/",
        None,
    ),
    (
        "cc-by-sa-4.0",
        "Creative Commons Attribution-ShareAlike 4.0",
        "https://creativecommons.org/licenses/by-sa/4.0/",
        None,
    ),
    (
        "cc-by-nc-4.0",
        "Creative Commons Attribution-NonCommercial 4.0",
        "https://creativecommons.org/licenses/by-nc/4.0/",
        None,
    ),
    (
        "cc0-1.0",
        "CC0 1.0 Universal",
        "https://creativecommons.org/publicdomain/zero/1.0/",
        None,
    ),
    (
        "gpl-3.0",
        "GNU General Public License 3.0",
        "https://www.gnu.org/licenses/gpl-3.0.html",
        None,
    ),
    ("unlicense", "The Unlicense", "https://unlicense.org/", None),
];

/// What files say about a licence.
#[derive(Debug, Default)]
struct Told {
    /// Its identifier, such as `llama3.1`.
    id: Option<String>,
    name: Option<String>,
    link: Option<String>,
    /// The names of the model and of those it was made from.
    models: Vec<String>,
}

impl Told {
    /// The licence. Where only the names of models tell it, that of the Llama they were made from.
    fn licence(self) -> Option<Licence> {
        let of = |id: &str| KNOWN.iter().find(|known| known.0.eq_ignore_ascii_case(id));
        // Own licences are called "other", and named.
        let known = match &self.id {
            Some(id) => of(id).or_else(|| of(self.name.as_deref()?)),
            None => None,
        };
        let family = self.models.iter().find_map(|model| llama_of(model));
        let base = family.and_then(of);
        let attribution = known
            .and_then(|known| known.3)
            .or_else(|| base.and_then(|base| base.3));
        let told = self.name.or(self.id).filter(|name| !name.is_empty());
        let (name, link) = match (known, told, base) {
            (Some(known), _, _) => (known.1.to_owned(), Some(known.2.to_owned())),
            (None, Some(told), _) => (told, None),
            (None, None, Some(base)) => (base.1.to_owned(), Some(base.2.to_owned())),
            (None, None, None) => return None,
        };
        let own = self.link.filter(|link| link.starts_with("https://"));
        Some(Licence {
            name: shortened(&name),
            link: own.or(link).map(|link| shortened(&link)),
            attribution: attribution.map(str::to_owned),
        })
    }
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(text.len().min(MAX_TEXT));
    text[..end].to_owned()
}

/// The identifier of the licence of the Llama generation in a model's name: `Llama-3.2-1B-Instruct`,
/// `meta-llama/Meta-Llama-3-8B`, `llama3.1`. A number that is a size (`llama-30b`) is no generation.
fn llama_of(model: &str) -> Option<&'static str> {
    let lower = shortened(model).to_ascii_lowercase();
    // Every mention counts: `meta-llama/Llama-3.1-8B` names the organization first.
    lower.match_indices("llama").find_map(|(at, llama)| {
        let rest = lower[at + llama.len()..].trim_start_matches(['-', '_', ' ', 'v']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        if after.starts_with('b') {
            return None;
        }
        match number.trim_end_matches('.') {
            "3.3" => Some("llama3.3"),
            "3.2" => Some("llama3.2"),
            "3.1" => Some("llama3.1"),
            "3" => Some("llama3"),
            "2" => Some("llama2"),
            _ => None,
        }
    })
}

/// The licence in a GGUF file's metadata.
pub(super) fn of_gguf(header: &Gguf) -> Option<Licence> {
    let text = |key: &str| {
        let text = header.get(key).and_then(MetaValue::as_str)?;
        Some(text.to_owned()).filter(|text| !text.trim().is_empty())
    };
    let mut models: Vec<String> = ["general.name", "general.basename"]
        .into_iter()
        .filter_map(text)
        .collect();
    let bases = header
        .get("general.base_model.count")
        .and_then(MetaValue::as_u64)
        .unwrap_or(0)
        .min(MAX_BASES);
    for index in 0..bases {
        for key in ["name", "repo_url"] {
            models.extend(text(&format!("general.base_model.{index}.{key}")));
        }
    }
    let told = Told {
        id: text("general.license"),
        name: text("general.license.name"),
        link: text("general.license.link"),
        models,
    };
    told.licence()
}

/// The licence in the head of a model card (`README.md`): lines of YAML between two lines of `---`.
pub(super) fn of_folder(readme: Option<&[u8]>, name: &str) -> Option<Licence> {
    let mut told = Told {
        models: vec![name.to_owned()],
        ..Told::default()
    };
    let text = String::from_utf8_lossy(readme.unwrap_or_default());
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    if lines.next().is_some_and(|line| line.trim_end() == "---") {
        let mut in_bases = false;
        for line in lines.take_while(|line| line.trim_end() != "---") {
            if let Some(item) = line.trim_start().strip_prefix("- ").filter(|_| in_bases) {
                if (told.models.len() as u64) < MAX_BASES {
                    told.models.push(value(item));
                }
                continue;
            }
            in_bases = false;
            let Some((key, rest)) = line.split_once(':') else {
                continue;
            };
            let rest = value(rest);
            let given = Some(rest.clone()).filter(|rest| !rest.is_empty());
            match key {
                "license" => told.id = given,
                "license_name" => told.name = given,
                "license_link" => told.link = given,
                "base_model" => {
                    in_bases = given.is_none();
                    told.models.extend(given);
                }
                _ => {}
            }
        }
    }
    told.licence()
}

/// A scalar of YAML, without quotes and comment.
fn value(text: &str) -> String {
    let text = text.trim();
    let text = text
        .split_once(" #")
        .map_or(text, |(text, _)| text.trim_end());
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|text| text.strip_suffix(quote)) {
            return inner.to_owned();
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: Option<&str>, name: Option<&str>, models: &[&str]) -> Option<Licence> {
        let told = Told {
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
            link: None,
            models: models.iter().map(|model| (*model).to_owned()).collect(),
        };
        told.licence()
    }

    #[test]
    fn generations_of_llama_are_told_by_name() {
        for (model, licence) in [
            ("Llama-3.2-1B-Instruct", Some("llama3.2")),
            ("meta-llama/Llama-3.1-8B", Some("llama3.1")),
            ("Meta-Llama-3-8B-Instruct", Some("llama3")),
            ("llama3.1", Some("llama3.1")),
            ("Llama 3.3 70B", Some("llama3.3")),
            ("Llama-2-7b-chat-hf", Some("llama2")),
            (
                "https://huggingface.co/meta-llama/Llama-3.2-1B",
                Some("llama3.2"),
            ),
            ("llama-3.2-1b-mini-agent", Some("llama3.2")),
            ("llama-30b", None),
            ("llama-3b", None),
            ("TinyLlama-1.1B-Chat", None),
            ("SmolLM2-135M", None),
            ("llama", None),
            ("", None),
        ] {
            assert_eq!(llama_of(model), licence, "{model}");
        }
    }

    #[test]
    fn derivatives_of_llama_say_so() {
        let licence = told(Some("llama3.1"), None, &[]).expect("told");
        assert_eq!(licence.name, "Llama 3.1 Community License");
        assert_eq!(licence.attribution.as_deref(), Some("Built with Llama"));
        // A publisher's own name for it, and one that only the base model tells.
        let licence = told(Some("other"), Some("llama3.2"), &[]).expect("told");
        assert_eq!(licence.name, "Llama 3.2 Community License");
        let licence = told(None, None, &["agent", "Llama-3.2-1B"]).expect("told");
        assert_eq!(licence.name, "Llama 3.2 Community License");
        assert_eq!(licence.attribution.as_deref(), Some("Built with Llama"));
        let licence = told(Some("apache-2.0"), None, &["Llama-3-8B"]).expect("told");
        assert_eq!(licence.name, "Apache License 2.0");
        assert_eq!(
            licence.attribution.as_deref(),
            Some("Built with Meta Llama 3")
        );
        let licence = told(Some("apache-2.0"), None, &["SmolLM2"]).expect("told");
        assert_eq!(licence.attribution, None);
        let licence = told(Some("other"), Some("own-licence"), &[]).expect("told");
        assert_eq!((licence.name.as_str(), licence.link), ("own-licence", None));
        assert_eq!(told(None, None, &["model"]), None);
    }

    #[test]
    fn model_cards_are_read() {
        let card = "---\nlanguage:\n- en\nlicense: other\nlicense_name: \"agent-licence\"  # own\n\
                    license_link: https://example.org/licence\nbase_model:\n- meta-llama/Llama-3.1-8B\n\
                    tags:\n- llama-2\n---\n# A model\nlicense: mit\n";
        let licence = of_folder(Some(card.as_bytes()), "agent").expect("told");
        assert_eq!(licence.name, "agent-licence");
        assert_eq!(licence.link.as_deref(), Some("https://example.org/licence"));
        assert_eq!(licence.attribution.as_deref(), Some("Built with Llama"));
        let licence = of_folder(Some(b"---\r\nlicense: apache-2.0\r\n---\r\n"), "x");
        assert_eq!(licence.expect("told").name, "Apache License 2.0");
        for nothing in [
            &b"# license: mit"[..],
            b"",
            b"---\n",
            b"\xff\xfe---\nlicense: mit",
        ] {
            assert_eq!(of_folder(Some(nothing), "x"), None);
        }
        // Links that are no addresses are not shown as such.
        let card = b"---\nlicense: own\nlicense_link: LICENSE\n---";
        let licence = of_folder(Some(card), "x").expect("told");
        assert_eq!((licence.name.as_str(), licence.link), ("own", None));
    }
}
