//! Models: where they come from, how they are opened, checked, kept and loaded.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::protocol::{
    Arriving, Event, Failure, FailureKind, KeptModel, LoadOptions, ModelChoice, ModelInfo,
    Pieces as PieceStates, Residence, Side, Sides, Source, Storage,
};
use engine::runtime::{
    Backend, Engine, StopFlag, Surroundings, label, load_failure, source_failure,
};
use js_sys::{Date, Reflect};
use model::convert::{Converted, Recipe, target};
use model::package::{self, Kind, Package};
use model::{LoadError, Plan};
use wasm_bindgen::JsValue;
use web_sys::Blob;
use weights::hub;
use weights::pieces::{self, Finished, Notice, Piece, Pieces};
use weights::source::folder::Folder;
use weights::source::{AbortHandle, Joined, Token, WebFolder};
use weights::store::{
    Before, Description, Disk, DiskError, Keeping, KeepingSource, Key, OpfsDisk, OriginFile,
    SmallFiles, Store, Summary, Trouble,
};
use weights::{ByteSource, SourceError};

use crate::delegate::delegate;
use crate::place::{File, Files};
use crate::post;

/// Bytes of a piece of a model that does not come in pieces of its own.
const PIECE_BYTES: u64 = 64 << 20;
/// Milliseconds between two reports of an arriving piece.
const REPORT_MILLIS: f64 = 100.0;

/// A model that was asked for; enough to load it again.
#[derive(Clone)]
pub struct Place {
    /// Where it is.
    pub source: Source,
    /// Handles of local files, in the order of the source's names.
    pub files: Vec<Blob>,
    /// For whom.
    pub sides: Sides,
    /// How.
    pub options: LoadOptions,
}

/// A model's data at its origin.
enum Data {
    /// As it is there.
    Plain(Joined<KeepingSource<File>>),
    /// Quantized while it is read.
    Converted(Box<Converted<Joined<KeepingSource<File>>>>),
}

/// What a model is read from.
enum Reading {
    /// Its origin.
    Direct(Data),
    /// Pieces that are verified, and perhaps kept.
    Pieces(Box<Pieces<Data, OpfsDisk>>),
}

delegate!(Data: Plain, Converted);
delegate!(Reading: Direct, Pieces);

/// A model whose headers were read.
struct Opened {
    /// Its plan is of the data as they will be read, quantized if asked.
    package: Package,
    /// `None` where everything is kept.
    data: Option<Data>,
    pieces: Vec<Piece>,
    key: Key,
    /// What is known of it in storage.
    kept: Option<Summary>,
    /// What was read to open it, to be kept.
    small: SmallFiles,
    /// How to note it in storage.
    description: Description,
    /// Bytes at the origin.
    origin_bytes: u64,
    /// Whether they come over the network.
    remote: bool,
    /// Other quantizations that could be made of it.
    recipes: Vec<(String, Plan)>,
}

/// All that the models of this worker have in common.
pub struct Models {
    store: Result<Store<OpfsDisk>, DiskError>,
    /// What the sides have, to load it again.
    places: Vec<Place>,
    stop: StopFlag,
    /// Cancels what is being fetched.
    abort: Rc<RefCell<Option<AbortHandle>>>,
    /// Bytes of a piece.
    piece_bytes: u64,
}

impl Models {
    /// None yet. `piece_bytes` replaces the usual size of a piece.
    pub async fn new(
        stop: StopFlag,
        abort: Rc<RefCell<Option<AbortHandle>>>,
        piece_bytes: Option<u64>,
    ) -> Self {
        Self {
            store: OpfsDisk::open().await.map(Store::new),
            places: Vec::new(),
            stop,
            abort,
            piece_bytes: piece_bytes.unwrap_or(PIECE_BYTES).clamp(1, PIECE_BYTES),
        }
    }

    /// Says what loading a model would take, or which models there are to choose from.
    pub async fn check<B: Backend>(
        &self,
        engine: &mut Engine<B>,
        place: &Place,
    ) -> Result<Event, Failure> {
        let opened = match self.open(place).await {
            Err(Refusal::Choose(choices)) => return Ok(Event::Choices { choices }),
            Err(Refusal::Failure(failure)) => return Err(failure),
            Ok(opened) => opened,
        };
        let total: u64 = opened.pieces.iter().map(|piece| piece.bytes).sum();
        let kept = opened.kept.as_ref().map_or(0, |kept| kept.complete_bytes);
        let missing = (total - kept.min(total)) as f64 / total.max(1) as f64;
        let download_bytes = match (&opened.data, opened.remote) {
            (Some(_), true) => (opened.origin_bytes as f64 * missing) as u64,
            _ => 0,
        };
        let around = Surroundings {
            download_bytes,
            kept_bytes: kept,
            storage_bytes: total,
            storage: self.storage(false).await,
            device_memory: device_memory(),
            recipes: opened.recipes,
        };
        let (package, options) = (&opened.package, &place.options);
        let preflight = engine
            .preflight(package, place.sides, options, around)
            .await?;
        Ok(Event::Checked {
            preflight: Box::new(preflight),
        })
    }

    /// Loads a model for its sides.
    pub async fn load<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        place: Place,
    ) -> Result<Event, Failure> {
        let whole = self.is_whole(&place).await;
        let mut loaded = self.try_load(engine, &place).await;
        if whole && loaded.is_err() && !self.is_whole(&place).await {
            // A kept piece was found damaged: now that it is gone, it is fetched again.
            loaded = self.try_load(engine, &place).await;
        }
        self.abort.borrow_mut().take();
        let model = match loaded {
            Err(Refusal::Choose(choices)) => return Ok(Event::Choices { choices }),
            Err(Refusal::Failure(failure)) => return Err(failure),
            Ok(model) => Box::new(model),
        };
        let sides = place.sides;
        self.forget(sides);
        self.places.push(place);
        Ok(Event::Loaded { sides, model })
    }

    /// Whether all of a model is kept.
    async fn is_whole(&self, place: &Place) -> bool {
        let (Ok(store), Some(key)) = (&self.store, key(place)) else {
            return false;
        };
        matches!(store.find(&key).await, Ok(Some(summary)) if summary.is_complete())
    }

    async fn try_load<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        place: &Place,
    ) -> Result<ModelInfo, Refusal> {
        let opened = self.open(place).await?;
        let Opened {
            package,
            data,
            pieces,
            key,
            small,
            description,
            ..
        } = opened;
        let in_pieces = package.pieces.is_some() || place.options.keep || data.is_none();
        let mut source = match data {
            Some(data) if !in_pieces => Reading::Direct(data),
            data => {
                let report = Reports::new(pieces.len());
                let entry = self
                    .entry(place, &key, &description, &small, &data, &report)
                    .await;
                let name = package.name.clone();
                let (told, stop) = (report.clone(), self.stop.clone());
                let pieces = Pieces::new(name, data, pieces, entry)
                    .map_err(|error| source_failure(&error))?
                    .notify(move |notice| told.notice(&notice))
                    .stop_when(move || stop.is_raised());
                Reading::Pieces(Box::new(pieces))
            }
        };
        let emit = |event: Event| post(&event);
        let loaded = engine
            .load(package, &mut source, place.sides, &place.options, &emit)
            .await;
        let mut info = loaded?;
        if let Reading::Pieces(pieces) = &mut source {
            match pieces.finish().await {
                Ok(Finished { pieces, kept, .. }) if kept == pieces => {
                    info.key = Some(key.to_string());
                }
                Ok(_) => {}
                Err(error) => {
                    engine.unload(place.sides);
                    return Err(source_failure(&error).into());
                }
            }
        }
        Ok(info)
    }

    /// The entry in storage to read from and to keep in, where that is possible and wanted.
    async fn entry(
        &self,
        place: &Place,
        key: &Key,
        description: &Description,
        small: &SmallFiles,
        data: &Option<Data>,
        report: &Reports,
    ) -> Option<weights::store::Entry<OpfsDisk>> {
        let store = match &self.store {
            Ok(store) => store,
            Err(error) => {
                if place.options.keep {
                    report.not_kept(error.to_string());
                }
                return None;
            }
        };
        if data.is_none() {
            // Everything is there.
            return store.open(key, now()).await.ok().flatten();
        }
        if !place.options.keep {
            return None;
        }
        store.disk().persist(true).await;
        let (mut entry, before) = store.open_or_create(key, description, now()).await;
        if let Before::Discarded { reason } = before {
            report.discarded(reason);
        }
        let kept = match entry.keeps() {
            Ok(()) => entry.set_small(small).await,
            Err(why) => Err(why.clone()),
        };
        if let Err(why) = kept {
            report.not_kept(why.to_string());
        }
        Some(entry)
    }

    /// Drops the models of these sides.
    pub fn unload<B: Backend>(&mut self, engine: &mut Engine<B>, sides: Sides) {
        engine.unload(sides);
        self.forget(sides);
    }

    fn forget(&mut self, sides: Sides) {
        self.places
            .retain_mut(|place| match place.sides.without(sides) {
                Some(left) => {
                    place.sides = left;
                    true
                }
                None => false,
            });
    }

    /// Sees to it that a side's model is in memory, if it has one.
    pub async fn fetch_back<B: Backend>(
        &mut self,
        engine: &mut Engine<B>,
        side: Side,
    ) -> Result<(), Failure> {
        if engine.residence(side) != Residence::Away {
            return Ok(());
        }
        let place = self.places.iter().find(|place| place.sides.has(side));
        if let Some(place) = place.cloned() {
            let event = self.load(engine, place).await?;
            post(&event);
        }
        Ok(())
    }

    /// What is kept, as an event.
    pub async fn list(&self) -> Event {
        let listed = match &self.store {
            Ok(store) => store.list().await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let models = listed.into_iter().map(|listed| {
            let key = listed.key.to_string();
            match listed.state {
                Ok(summary) => KeptModel {
                    key,
                    bytes: summary.complete_bytes,
                    total_bytes: summary.total_bytes,
                    pieces: summary.complete as u32,
                    total_pieces: summary.description.pieces.len() as u32,
                    last_used: summary.used as f64,
                    name: summary.description.name,
                    label: summary.description.label,
                    origin: summary.description.origin,
                    trouble: None,
                },
                Err(trouble) => KeptModel {
                    key,
                    name: "unknown".to_owned(),
                    label: String::new(),
                    origin: String::new(),
                    bytes: listed.bytes,
                    total_bytes: listed.bytes,
                    pieces: 0,
                    total_pieces: 0,
                    last_used: 0.0,
                    trouble: Some(trouble.to_string()),
                },
            }
        });
        Event::Kept {
            models: models.collect(),
            storage: self.storage(false).await,
        }
    }

    /// Deletes what is kept under a key.
    pub async fn delete(&self, key: &str) -> Result<Event, Failure> {
        let key = Key::parse(key).ok_or_else(|| Failure {
            kind: FailureKind::BadRequest,
            message: "this is not the key of a kept model".to_owned(),
            advice: "Reload the page: its parts may be of different versions.".to_owned(),
        })?;
        match &self.store {
            Ok(store) => store.delete(&key).await.map_err(|error| stored(&error))?,
            Err(error) => return Err(stored(error)),
        }
        Ok(self.list().await)
    }

    async fn storage(&self, ask: bool) -> Result<Storage, String> {
        let store = self.store.as_ref().map_err(ToString::to_string)?;
        let room = store.disk().estimate().await;
        let room = room.ok_or("the browser does not tell how much room there is")?;
        Ok(Storage {
            used: room.used,
            quota: room.quota,
            persistent: store.disk().persist(ask).await.unwrap_or(false),
        })
    }
}

/// Why a model was not opened.
enum Refusal {
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
    async fn open(&self, place: &Place) -> Result<Opened, Refusal> {
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
fn secret(url: &str, token: &Option<engine::protocol::Token>) -> Result<Option<Token>, Failure> {
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
fn key(place: &Place) -> Option<Key> {
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

fn missing() -> Failure {
    Failure {
        kind: FailureKind::Storage,
        message: "this model is not kept in this browser any more".to_owned(),
        advice: "Load it from where it came from.".to_owned(),
    }
}

fn stored(error: &DiskError) -> Failure {
    Failure {
        kind: FailureKind::Storage,
        message: error.to_string(),
        advice: "Close other tabs of this page, or load the model without keeping it.".to_owned(),
    }
}

fn troubled(trouble: &Trouble) -> Failure {
    Failure {
        kind: FailureKind::Storage,
        message: format!("what is kept of this model cannot be used: {trouble}"),
        advice: "Delete it under Models, then load it from where it came from.".to_owned(),
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    Date::now() as u64
}

/// Bytes of memory that the browser says the device has, where it says so.
fn device_memory() -> Option<u64> {
    let get = |target: &JsValue, key: &str| Reflect::get(target, &key.into()).ok();
    let navigator = get(&js_sys::global(), "navigator")?;
    let gigabytes = get(&navigator, "deviceMemory")?.as_f64()?;
    (gigabytes > 0.0).then_some((gigabytes * 1e9) as u64)
}

/// What is told of the pieces of a load.
#[derive(Clone)]
struct Reports(Rc<RefCell<Report>>);

struct Report {
    pieces: PieceStates,
    /// When it was last told, in milliseconds since 1970.
    told: f64,
    /// The piece that is arriving and how far it was.
    last: (usize, u64),
    verified: BTreeSet<usize>,
}

impl Reports {
    fn new(total: usize) -> Self {
        Self(Rc::new(RefCell::new(Report {
            pieces: PieceStates {
                total: total as u32,
                verified: 0,
                hashing: None,
                arriving: None,
                kept: 0,
                damaged: 0,
                discarded: None,
                not_kept: None,
                fetched: 0,
            },
            told: 0.0,
            last: (0, 0),
            verified: BTreeSet::new(),
        })))
    }

    fn not_kept(&self, why: String) {
        self.change(true, |pieces| pieces.not_kept = Some(why));
    }

    fn discarded(&self, reason: String) {
        self.change(true, |pieces| pieces.discarded = Some(reason));
    }

    fn change(&self, always: bool, change: impl FnOnce(&mut PieceStates)) {
        let mut report = self.0.borrow_mut();
        change(&mut report.pieces);
        let now = Date::now();
        if always || now - report.told >= REPORT_MILLIS {
            report.told = now;
            post(&Event::Pieces {
                pieces: report.pieces.clone(),
            });
        }
    }

    fn notice(&self, notice: &Notice) {
        match *notice {
            Notice::Arriving {
                piece,
                from,
                done,
                bytes,
            } => {
                let last = std::mem::replace(&mut self.0.borrow_mut().last, (piece, done));
                let before = if last.0 == piece && last.1 < done {
                    last.1
                } else {
                    0
                };
                self.change(done == bytes, |pieces| {
                    if from == pieces::From::Origin {
                        pieces.fetched += done - before;
                    }
                    pieces.hashing = None;
                    pieces.arriving = Some(Arriving {
                        piece: piece as u32,
                        done,
                        bytes,
                    });
                });
            }
            Notice::Hashing { piece } => self.change(true, |pieces| {
                pieces.arriving = None;
                pieces.hashing = Some(piece as u32);
            }),
            Notice::Verified { piece, kept, .. } => {
                // Reading may jump back.
                let fresh = self.0.borrow_mut().verified.insert(piece);
                self.change(true, |pieces| {
                    pieces.hashing = None;
                    pieces.arriving = None;
                    pieces.verified += u32::from(fresh);
                    pieces.kept += u32::from(fresh && kept);
                });
            }
            Notice::Damaged { .. } => self.change(true, |pieces| {
                pieces.hashing = None;
                pieces.damaged += 1;
            }),
            Notice::NotKept { ref why } => self.not_kept(why.to_string()),
            Notice::Discarded => self.change(true, |pieces| {
                pieces.kept = 0;
                pieces.discarded = Some("the model has changed at its origin".to_owned());
            }),
        }
    }
}
