//! Opening a model: its headers are read, from storage where all of it is kept, else from its origin.

use std::collections::BTreeMap;

use engine::protocol::{Failure, FailureKind, LoadOptions, ModelChoice, Source, Token as Secret};
use engine::runtime::{label, load_failure, source_failure};
use model::convert::{Converted, Recipe, target};
use model::package::{self, Kind, Package};
use model::{LoadError, Plan};
use weights::hub;
use weights::pieces::{self, Piece};
use weights::source::folder::Folder;
use weights::source::{AbortHandle, Joined, Token, WebFolder};
use weights::store::{
    Description, Keeping, KeepingSource, Key, OriginFile, SmallFiles, Summary, Trouble,
};
use weights::{ByteSource, SourceError};

use super::{Models, Place, missing, now, stored, troubled};
use crate::delegate::delegate;
use crate::files::{File, Files};

/// A model's data at its origin.
pub(super) enum Data {
    /// As it is there.
    Plain(Joined<KeepingSource<File>>),
    /// Quantized while it is read.
    Converted(Box<Converted<Joined<KeepingSource<File>>>>),
}

delegate!(Data: Plain, Converted);

/// A model whose headers were read.
pub(super) struct Opened {
    /// Its plan is of the data as they will be read, quantized if asked.
    pub package: Package,
    /// `None` where everything is kept.
    pub data: Option<Data>,
    pub pieces: Vec<Piece>,
    pub key: Key,
    /// What is known of it in storage.
    pub kept: Option<Summary>,
    /// What was read to open it, to be kept.
    pub small: SmallFiles,
    /// How to note it in storage.
    pub description: Description,
    /// Bytes at the origin.
    pub origin_bytes: u64,
    /// Whether they come over the network.
    pub remote: bool,
    /// Other quantizations that could be made of it.
    pub recipes: Vec<(String, Plan)>,
}

/// Why a model was not opened.
pub(super) enum Refusal {
    /// There are several.
    Choose(Vec<ModelChoice>),
    /// It cannot be.
    Failure(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<LoadError> for Refusal {
    fn from(error: LoadError) -> Self {
        Self::Failure(load_failure(&error))
    }
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        Self::Failure(source_failure(&error))
    }
}

/// Facts of an entry in storage that this program finds again.
mod fact {
    /// The source as JSON, without its token.
    pub const SOURCE: &str = "source";
    /// The name of the recipe, where there is one.
    pub const RECIPE: &str = "recipe";
    /// The package's main file.
    pub const MAIN: &str = "main";
}

impl Models {
    /// Reads a model's headers: from storage where all of it is kept, else from its origin.
    pub(super) async fn open(&self, place: &Place) -> Result<Opened, Refusal> {
        let key = key(place);
        let found = match (&self.store, &key) {
            (Ok(store), Some(key)) => store.find(key).await,
            _ => Ok(None),
        };
        let found = match found {
            Ok(found) => found,
            // What is damaged is written anew by a load from the origin.
            Err(Trouble::Damaged) if !matches!(place.source, Source::Kept { .. }) => None,
            Err(trouble) => return Err(troubled(&trouble).into()),
        };
        if let (Some(key), Some(summary)) = (&key, &found)
            && summary.is_complete()
            && let Some(opened) = self.open_kept(place, key, summary).await?
        {
            return Ok(opened);
        }
        let Source::Kept { .. } = &place.source else {
            let key = key.ok_or_else(missing)?;
            return self.open_origin(place, key, found).await;
        };
        // It is not whole: the rest comes from where the beginning came from.
        let summary = found.ok_or_else(missing)?;
        let facts = &summary.description.facts;
        let source = facts.get(fact::SOURCE);
        let source = source.and_then(|json| serde_json::from_str(json).ok());
        let origin = match source {
            Some(Source::Files { names }) => {
                return Err(Failure {
                    kind: FailureKind::BadRequest,
                    message: format!(
                        "{} is kept in part, and the rest is in files of this machine",
                        summary.description.name
                    ),
                    advice: format!("Choose them again: {}.", names.join(", ")),
                }
                .into());
            }
            Some(source) => Place {
                source,
                files: Vec::new(),
                sides: place.sides,
                options: LoadOptions {
                    recipe: facts.get(fact::RECIPE).cloned(),
                    keep: true,
                    ..place.options.clone()
                },
            },
            None => return Err(missing().into()),
        };
        self.open_origin(&origin, summary.key.clone(), Some(summary))
            .await
    }

    /// Opens what is kept whole; `None` where its small files are not, so that its origin is needed.
    async fn open_kept(
        &self,
        place: &Place,
        key: &Key,
        summary: &Summary,
    ) -> Result<Option<Opened>, Refusal> {
        let Ok(store) = &self.store else {
            return Ok(None);
        };
        let entry = store.open(key, now()).await.map_err(|it| troubled(&it))?;
        let small = match entry {
            Some(entry) => entry.small().await,
            None => Ok(None),
        };
        let folder = match small {
            Ok(Some(folder)) => folder,
            // With an origin there is another way.
            Ok(None) | Err(_) if !matches!(place.source, Source::Kept { .. }) => return Ok(None),
            Ok(None) => return Err(missing().into()),
            Err(error) => return Err(stored(&error).into()),
        };
        let facts = &summary.description.facts;
        let main = facts.get(fact::MAIN).map(String::as_str);
        let (mut package, _) = package::open(&folder, main).await?;
        if let Some(recipe) = facts.get(fact::RECIPE) {
            package.plan = target(&package.plan, recipe_named(recipe)?);
            package.types = package.plan.types();
        }
        package.name.clone_from(&summary.description.name);
        Ok(Some(Opened {
            package,
            data: None,
            pieces: summary.description.pieces.clone(),
            key: key.clone(),
            kept: Some(summary.clone()),
            small: SmallFiles::new(None),
            description: summary.description.clone(),
            origin_bytes: 0,
            remote: false,
            recipes: Vec::new(),
        }))
    }

    /// Opens a model at its origin.
    async fn open_origin(
        &self,
        place: &Place,
        key: Key,
        kept: Option<Summary>,
    ) -> Result<Opened, Refusal> {
        let (files, main) = self.files(place).await?;
        let remote = !matches!(files, Files::Local(_));
        let origin = files.name();
        let folder = Keeping::new(files);
        if main.is_none()
            && let Some(choices) = choices(&folder)
        {
            return Err(Refusal::Choose(choices));
        }
        let (mut package, source) = package::open(&folder, main.as_deref()).await?;
        let small = folder.take();
        let versions = source
            .sources()
            .filter_map(|source| match source.source() {
                File::Web(http) => Some(OriginFile {
                    name: source.name(),
                    version: http.version()?.clone(),
                }),
                File::Local(_) => None,
            })
            .collect();
        let origin_bytes = match place.options.recipe {
            Some(_) => package.plan.tensor_bytes(),
            None => package.plan.end(),
        };
        let dense = package.kind == Kind::Safetensors;
        let recipes = [Recipe::Q8, Recipe::Q4K].map(|recipe| {
            let plan = target(&package.plan, recipe);
            (recipe.name().to_owned(), plan)
        });
        let data = match &place.options.recipe {
            None => Data::Plain(source),
            Some(name) => {
                let plan = target(&package.plan, recipe_named(name)?);
                let converted = Converted::new(source, &package.plan, &plan, 1)?;
                package.plan = plan;
                package.types = package.plan.types();
                package.pieces = None;
                Data::Converted(Box::new(converted))
            }
        };
        let pieces = match &package.pieces {
            Some(pieces) => pieces.clone(),
            None => pieces::cut(&package.name, package.plan.end(), self.piece_bytes)?,
        };
        let mut facts = BTreeMap::new();
        facts.insert(fact::SOURCE.to_owned(), source_json(&place.source));
        facts.extend(main.map(|main| (fact::MAIN.to_owned(), main)));
        let recipe = place.options.recipe.clone();
        facts.extend(recipe.map(|recipe| (fact::RECIPE.to_owned(), recipe)));
        let description = Description {
            name: package.name.clone(),
            kind: "model".to_owned(),
            origin,
            label: label(&package, &place.options),
            facts,
            files: versions,
            pieces: pieces.clone(),
        };
        Ok(Opened {
            package,
            data: Some(data),
            pieces,
            key,
            kept,
            small,
            description,
            origin_bytes,
            remote,
            recipes: if dense { recipes.into() } else { Vec::new() },
        })
    }

    /// The folder that a model is in, and its main file, where that is known.
    async fn files(&self, place: &Place) -> Result<(Files, Option<String>), Refusal> {
        let abort = AbortHandle::new();
        *self.abort.borrow_mut() = Some(abort.clone());
        match &place.source {
            Source::Url { url, token } => {
                let token = secret(url, token)?;
                let path = url.split(['?', '#']).next().unwrap_or(url);
                let (base, file) = path.rsplit_once('/').unwrap_or(("", path));
                if file.ends_with(".json") || file.ends_with(".safetensors") {
                    let folder = WebFolder::new(base, abort).with_token(token);
                    return Ok((Files::Web(folder), Some(file.to_owned())));
                }
                let name = if file.to_ascii_lowercase().ends_with(".gguf") {
                    file.to_owned()
                } else {
                    // Whatever it is called, nothing else is a single file.
                    format!("{file}.gguf")
                };
                let files = Files::single(name.clone(), url.clone(), token, abort);
                Ok((files, Some(name)))
            }
            Source::Hub {
                repository,
                revision,
                file,
                token,
            } => {
                let name = match revision {
                    Some(revision) => format!("{repository}@{revision}"),
                    None => repository.clone(),
                };
                let address = hub::Address::parse(&name).ok_or_else(|| Failure {
                    kind: FailureKind::BadRequest,
                    message: format!("\"{name}\" is no name of a repository"),
                    advice: "Names are like owner/name, or owner/name@revision.".to_owned(),
                })?;
                let token = secret(hub::HOST, token)?;
                let hub = hub::open(hub::HOST, &address.repo, token, abort)
                    .await
                    .map_err(|error| refused(&error))?;
                let file = file.clone().or(address.path);
                let choices = hub.listing.choices();
                let main = match (file, &choices[..]) {
                    (Some(file), _) => Some(file),
                    (None, [choice]) => Some(choice.main.clone()),
                    (None, []) => None,
                    (None, _) => return Err(Refusal::Choose(choices.iter().map(choice).collect())),
                };
                Ok((Files::Web(hub.folder), main))
            }
            Source::Files { names } => {
                if names.is_empty() || names.len() != place.files.len() {
                    return Err(Failure {
                        kind: FailureKind::BadRequest,
                        message: "the files did not reach the engine".to_owned(),
                        advice: "Choose them again.".to_owned(),
                    }
                    .into());
                }
                let name = match &names[..] {
                    [name] => name.as_str(),
                    _ => "the chosen folder",
                };
                let main = match &names[..] {
                    [name] => Some(name.clone()),
                    _ => None,
                };
                let files = names.iter().cloned().zip(place.files.iter().cloned());
                Ok((Files::local(name, files), main))
            }
            Source::Kept { .. } => Err(missing().into()),
        }
    }
}

/// A model of a repository, to choose from.
fn choice(choice: &hub::Choice) -> ModelChoice {
    let kind = match choice.kind {
        hub::ChoiceKind::Gguf => "GGUF",
        hub::ChoiceKind::Safetensors => "safetensors",
        hub::ChoiceKind::Shards => "shards",
    };
    let label = [Some(kind), choice.quantization.as_deref(), choice.obstacle];
    let label: Vec<_> = label.into_iter().flatten().collect();
    ModelChoice {
        file: choice.main.clone(),
        label: label.join(", "),
        bytes: Some(choice.bytes),
    }
}

fn refused(error: &hub::HubError) -> Failure {
    let (kind, advice) = match error {
        hub::HubError::Source(error) => return source_failure(error),
        hub::HubError::Closed { .. } | hub::HubError::Token { .. } => (
            FailureKind::Network,
            "Accept the model's terms on its page, make a token that may read it, and give it in the field below the address.",
        ),
        hub::HubError::Missing { .. } => (FailureKind::Network, "Check the name."),
        hub::HubError::Listing(_) => (
            FailureKind::Network,
            "Try again later, or load the file by its address.",
        ),
    };
    Failure {
        kind,
        message: error.to_string(),
        advice: advice.to_owned(),
    }
}

/// Several GGUF files, and nothing else that is a model.
fn choices(folder: &impl Folder) -> Option<Vec<ModelChoice>> {
    let names = folder.names()?;
    let has = |ending: &str| names.iter().any(|name| name.ends_with(ending));
    let ggufs = names
        .iter()
        .filter(|name| name.to_ascii_lowercase().ends_with(".gguf"));
    let ggufs: Vec<_> = ggufs
        .map(|file| ModelChoice {
            file: file.clone(),
            label: match hub::quantization_of(file) {
                Some(quantization) => format!("GGUF, {quantization}"),
                None => "GGUF".to_owned(),
            },
            bytes: None,
        })
        .collect();
    (ggufs.len() > 1 && !has("model.json") && !has(".safetensors")).then_some(ggufs)
}

fn recipe_named(name: &str) -> Result<Recipe, Failure> {
    Recipe::from_name(name).ok_or_else(|| Failure {
        kind: FailureKind::BadRequest,
        message: format!("there is no quantization called \"{name}\""),
        advice: "Choose another one.".to_owned(),
    })
}

/// The token for the origin of an address.
fn secret(url: &str, token: &Option<Secret>) -> Result<Option<Token>, Failure> {
    let Some(token) = token else {
        return Ok(None);
    };
    match Token::new(url, token.0.clone()) {
        Some(token) => Ok(Some(token)),
        None => Err(Failure {
            kind: FailureKind::BadRequest,
            message: "an access token is sent to secure addresses (https) alone".to_owned(),
            advice: "Use the https address, or leave the token out.".to_owned(),
        }),
    }
}

/// The source as JSON, without its token.
fn source_json(source: &Source) -> String {
    let mut source = source.clone();
    match &mut source {
        Source::Url { token, .. } | Source::Hub { token, .. } => *token = None,
        Source::Files { .. } | Source::Kept { .. } => {}
    }
    // Plain data of this program's own making.
    serde_json::to_string(&source).unwrap_or_default()
}

/// Names a model in storage: where it is from and how it is quantized. `None` for what is no key.
pub(super) fn key(place: &Place) -> Option<Key> {
    if let Source::Kept { key } = &place.source {
        return Key::parse(key);
    }
    let sizes: Vec<String> = place
        .files
        .iter()
        .map(|file| file.size().to_string())
        .collect();
    let recipe = place.options.recipe.as_deref().unwrap_or("");
    let source = source_json(&place.source);
    Some(Key::of(&[&source, &sizes.join(" "), recipe]))
}
