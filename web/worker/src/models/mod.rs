//! Models: checked, loaded, kept, listed and deleted.

use std::cell::RefCell;
use std::rc::Rc;

use engine::protocol::{
    Event, Failure, FailureKind, KeptModel, LoadOptions, ModelInfo, Residence, Side, Sides, Source,
    Storage,
};
use engine::runtime::{Backend, Engine, StopFlag, Surroundings, source_failure};
use js_sys::{Date, Reflect};
use wasm_bindgen::JsValue;
use web_sys::Blob;
use weights::pieces::{Finished, Pieces};
use weights::source::AbortHandle;
use weights::store::{Before, Disk, DiskError, Entry, Key, OpfsDisk, Store, Trouble};
use weights::{ByteSource, SourceError};

use self::open::{Data, Opened, Refusal, key};
use self::report::Reports;
use crate::delegate::delegate;
use crate::post;

mod open;
mod report;

/// Bytes of a piece of a model that does not come in pieces of its own.
const PIECE_BYTES: u64 = 64 << 20;

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

/// What a model is read from.
enum Reading {
    /// Its origin.
    Direct(Data),
    /// Pieces that are verified, and perhaps kept.
    Pieces(Box<Pieces<Data, OpfsDisk>>),
}

delegate!(Reading: Direct, Pieces);

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
    /// The limit that was set last.
    memory_limit: Option<u64>,
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
            memory_limit: None,
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
        self.memory_limit = place.options.memory_limit;
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
        description: &weights::store::Description,
        small: &weights::store::SmallFiles,
        data: &Option<Data>,
        report: &Reports,
    ) -> Option<Entry<OpfsDisk>> {
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
        if let Some(mut place) = place.cloned() {
            // What holds now, whatever held when it was first loaded.
            place.options.memory_limit = self.memory_limit;
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
