//! The browser's origin private file system, in a worker.

use js_sys::{Function, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

use super::disk::{Disk, DiskError, DiskFile, Estimate, Item, Mode, check_limit, parts};

// What web-sys has of these is not stable there or needs features that only this file would use.
#[wasm_bindgen]
extern "C" {
    #[derive(Clone, Debug)]
    #[wasm_bindgen(extends = Object, js_name = StorageManager)]
    type StorageManager;
    #[wasm_bindgen(method, catch, js_name = getDirectory)]
    fn get_directory(this: &StorageManager) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn estimate(this: &StorageManager) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn persist(this: &StorageManager) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn persisted(this: &StorageManager) -> Result<Promise, JsValue>;

    #[derive(Clone, Debug)]
    #[wasm_bindgen(extends = Object, js_name = FileSystemDirectoryHandle)]
    type Directory;
    #[wasm_bindgen(method, catch, js_name = getDirectoryHandle)]
    fn get_directory_handle(
        this: &Directory,
        name: &str,
        options: &JsValue,
    ) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch, js_name = getFileHandle)]
    fn get_file_handle(this: &Directory, name: &str, options: &JsValue)
    -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch, js_name = removeEntry)]
    fn remove_entry(this: &Directory, name: &str, options: &JsValue) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn values(this: &Directory) -> Result<Entries, JsValue>;

    #[derive(Clone, Debug)]
    #[wasm_bindgen(extends = Object, js_name = AsyncIterator)]
    type Entries;
    #[wasm_bindgen(method, catch)]
    fn next(this: &Entries) -> Result<Promise, JsValue>;

    #[derive(Clone, Debug)]
    #[wasm_bindgen(extends = Object, js_name = FileSystemFileHandle)]
    type FileHandle;
    #[wasm_bindgen(method, getter)]
    fn kind(this: &FileHandle) -> String;
    #[wasm_bindgen(method, getter)]
    fn name(this: &FileHandle) -> String;
    #[wasm_bindgen(method, catch, js_name = getFile)]
    fn get_file(this: &FileHandle) -> Result<Promise, JsValue>;
    #[wasm_bindgen(method, catch, js_name = createSyncAccessHandle)]
    fn create_sync_access_handle(this: &FileHandle, options: &JsValue) -> Result<Promise, JsValue>;

    #[derive(Clone, Debug)]
    #[wasm_bindgen(extends = Object, js_name = FileSystemSyncAccessHandle)]
    type SyncHandle;
    #[wasm_bindgen(method, catch, js_name = getSize)]
    fn get_size(this: &SyncHandle) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn read(this: &SyncHandle, to: &mut [u8], options: &JsValue) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn write(this: &SyncHandle, bytes: &[u8], options: &JsValue) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn truncate(this: &SyncHandle, size: f64) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn flush(this: &SyncHandle) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn close(this: &SyncHandle) -> Result<(), JsValue>;
}

/// How often a file is tried again that somebody else has open, and the pause before each.
const LOCK_TRIES: u32 = 12;
const LOCK_PAUSE_MILLIS: i32 = 100;

/// The origin private file system. Only a worker can write there.
#[derive(Clone, Debug)]
pub struct OpfsDisk {
    manager: StorageManager,
    root: Directory,
}

impl OpfsDisk {
    /// The storage of this page.
    ///
    /// # Errors
    /// [`DiskError::Unavailable`] with the reason: no secure connection, a private window, an old
    /// browser, a setting.
    pub async fn open() -> Result<Self, DiskError> {
        let unavailable = |detail: &str| DiskError::Unavailable {
            detail: detail.to_owned(),
        };
        let global: JsValue = js_sys::global().into();
        let manager = get(&get(&global, "navigator"), "storage");
        if !get(&manager, "getDirectory").is_function() {
            let secure = get(&global, "isSecureContext").as_bool() == Some(true);
            return Err(unavailable(match secure {
                true => "this browser has no private file system for pages; update it",
                false => {
                    "browsers give it only to pages from a secure address (https, or localhost)"
                }
            }));
        }
        let manager: StorageManager = manager.unchecked_into();
        let root = settle(manager.get_directory()).await.map_err(|e| {
            unavailable(&format!(
                "the browser refuses it ({}); a private window or a setting may be the cause",
                describe(&e)
            ))
        })?;
        // Without handles that write at once, as in very old versions, nothing can be kept.
        if get(&global, "FileSystemSyncAccessHandle").is_undefined() {
            return Err(unavailable(
                "this browser cannot write it in a worker; update it",
            ));
        }
        Ok(Self {
            manager,
            root: root.unchecked_into(),
        })
    }

    async fn folder(&self, names: &[&str], create: bool) -> Result<Directory, JsValue> {
        let mut folder = self.root.clone();
        for name in names {
            let inside = settle(folder.get_directory_handle(name, &option("create", create)));
            folder = inside.await?.unchecked_into();
        }
        Ok(folder)
    }

    async fn file(&self, path: &str, create: bool) -> Result<FileHandle, DiskError> {
        let names = parts(path)?;
        let (name, folders) = names
            .split_last()
            .ok_or_else(|| DiskError::io(path, "no name"))?;
        let open = async {
            let folder = self.folder(folders, create).await?;
            let file = settle(folder.get_file_handle(name, &option("create", create))).await?;
            Ok(file.unchecked_into())
        };
        open.await.map_err(|e| error(path, &e))
    }
}

/// A property; undefined where there is none.
fn get(target: &JsValue, key: &str) -> JsValue {
    Reflect::get(target, &key.into()).unwrap_or(JsValue::UNDEFINED)
}

/// An object with one property.
fn option(key: &str, value: impl Into<JsValue>) -> JsValue {
    let options = Object::new();
    // An object of our own takes any property.
    drop(Reflect::set(&options, &key.into(), &value.into()));
    options.into()
}

/// Waits for what a call promises.
async fn settle(called: Result<Promise, JsValue>) -> Result<JsValue, JsValue> {
    JsFuture::from(called?).await
}

/// Waits; where there is no timer, not at all.
async fn pause(millis: i32) {
    let promise = Promise::new(&mut |resolve, _| {
        let timer = get(&js_sys::global(), "setTimeout").dyn_into::<Function>();
        let set = timer.and_then(|timer| timer.call2(&JsValue::NULL, &resolve, &millis.into()));
        if set.is_err() {
            drop(resolve.call0(&JsValue::UNDEFINED));
        }
    });
    drop(JsFuture::from(promise).await);
}

/// The browser's own words.
fn describe(error: &JsValue) -> String {
    let text = |key: &str| get(error, key).as_string().unwrap_or_default();
    match (text("name"), text("message")) {
        (name, message) if message.is_empty() => match name.is_empty() {
            true => "unknown error".to_owned(),
            false => name,
        },
        (name, message) if name.is_empty() => message,
        (name, message) => format!("{name}: {message}"),
    }
}

fn error(path: &str, error: &JsValue) -> DiskError {
    let path = path.to_owned();
    match get(error, "name").as_string().as_deref() {
        Some("QuotaExceededError") => DiskError::Full,
        Some("NoModificationAllowedError") => DiskError::Locked { path },
        Some("NotFoundError") => DiskError::Missing { path },
        Some("SecurityError" | "NotAllowedError") => DiskError::Unavailable {
            detail: format!("the browser refuses it ({})", describe(error)),
        },
        _ => DiskError::Io {
            path,
            detail: describe(error),
        },
    }
}

impl Disk for OpfsDisk {
    type File = OpfsFile;

    async fn open(&self, path: &str, mode: Mode) -> Result<OpfsFile, DiskError> {
        let handle = self.file(path, mode == Mode::Write).await?;
        let options = match mode {
            // Browsers that do not know it open for writing, alone.
            Mode::Read => option("mode", "read-only"),
            Mode::Write => JsValue::UNDEFINED,
        };
        let mut opened = settle(handle.create_sync_access_handle(&options)).await;
        if mode == Mode::Write {
            // A worker that was ended lets go of its files a little later.
            for _ in 0..LOCK_TRIES {
                let Err(DiskError::Locked { .. }) = opened.as_ref().map_err(|e| error(path, e))
                else {
                    break;
                };
                pause(LOCK_PAUSE_MILLIS).await;
                opened = settle(handle.create_sync_access_handle(&options)).await;
            }
        }
        let bytes = match opened.map_err(|e| error(path, &e)) {
            Ok(opened) => Bytes::Handle(opened.unchecked_into()),
            // Somebody else has it open; it can be read all the same.
            Err(DiskError::Locked { .. }) if mode == Mode::Read => {
                Bytes::Blob(blob(path, &handle).await?)
            }
            Err(error) => return Err(error),
        };
        Ok(OpfsFile {
            path: path.to_owned(),
            bytes,
        })
    }

    async fn remove(&self, path: &str) -> Result<(), DiskError> {
        let names = parts(path)?;
        let Some((name, folders)) = names.split_last() else {
            return Ok(());
        };
        let remove = async {
            let folder = self.folder(folders, false).await?;
            settle(folder.remove_entry(name, &option("recursive", true))).await
        };
        match remove.await.map_err(|e| error(path, &e)) {
            Ok(_) | Err(DiskError::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, path: &str) -> Result<Vec<Item>, DiskError> {
        let names = match path {
            "" => Vec::new(),
            path => parts(path)?,
        };
        let folder = match self.folder(&names, false).await {
            Ok(folder) => folder,
            Err(e) => match error(path, &e) {
                DiskError::Missing { .. } => return Ok(Vec::new()),
                error => return Err(error),
            },
        };
        let failed = |e: JsValue| error(path, &e);
        let entries = folder.values().map_err(failed)?;
        let mut items = Vec::new();
        loop {
            let next = settle(entries.next()).await.map_err(failed)?;
            if get(&next, "done").as_bool() != Some(false) {
                break;
            }
            let handle: FileHandle = get(&next, "value").unchecked_into();
            let is_folder = handle.kind() == "directory";
            let bytes = match is_folder {
                true => None,
                // It may have been removed since, or be open elsewhere.
                false => blob(path, &handle)
                    .await
                    .ok()
                    .map(|blob| blob.size() as u64),
            };
            items.push(Item {
                name: handle.name(),
                bytes,
                folder: is_folder,
            });
        }
        items.sort_unstable();
        Ok(items)
    }

    async fn estimate(&self) -> Option<Estimate> {
        let estimate = settle(self.manager.estimate()).await.ok()?;
        let bytes = |key: &str| get(&estimate, key).as_f64().map(|bytes| bytes as u64);
        Some(Estimate {
            used: bytes("usage")?,
            quota: bytes("quota")?,
        })
    }

    async fn persist(&self, ask: bool) -> Option<bool> {
        let persisted = settle(self.manager.persisted()).await.ok()?.as_bool()?;
        // A worker may look, and in some browsers not ask.
        if persisted || !ask || !get(&self.manager, "persist").is_function() {
            return Some(persisted);
        }
        settle(self.manager.persist()).await.ok()?.as_bool()
    }

    /// Takes no lock, so that an index can be read while another tab is at it.
    async fn read_small(&self, path: &str, limit: u64) -> Result<Vec<u8>, DiskError> {
        let handle = self.file(path, false).await?;
        let blob = blob(path, &handle).await?;
        check_limit(path, blob.size() as u64, limit)?;
        let bytes = JsFuture::from(blob.array_buffer()).await;
        let bytes = bytes.map_err(|e| error(path, &e))?;
        Ok(Uint8Array::new(&bytes).to_vec())
    }
}

async fn blob(path: &str, handle: &FileHandle) -> Result<Blob, DiskError> {
    let file = settle(handle.get_file()).await;
    Ok(file.map_err(|e| error(path, &e))?.unchecked_into())
}

/// A file of an [`OpfsDisk`].
#[derive(Debug)]
pub struct OpfsFile {
    path: String,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    /// Closed when this is dropped.
    Handle(SyncHandle),
    /// What was there when it was opened, to read.
    Blob(Blob),
}

impl OpfsFile {
    fn failed(&self, e: &JsValue) -> DiskError {
        error(&self.path, e)
    }

    fn handle(&self) -> Result<&SyncHandle, DiskError> {
        match &self.bytes {
            Bytes::Handle(handle) => Ok(handle),
            Bytes::Blob(_) => Err(DiskError::Locked {
                path: self.path.clone(),
            }),
        }
    }

    fn ends_early(&self) -> DiskError {
        DiskError::io(&self.path, "the file ends early")
    }
}

impl DiskFile for OpfsFile {
    fn size(&self) -> Result<u64, DiskError> {
        match &self.bytes {
            Bytes::Handle(handle) => {
                let size = handle.get_size().map_err(|e| self.failed(&e))?;
                Ok(size as u64)
            }
            Bytes::Blob(blob) => Ok(blob.size() as u64),
        }
    }

    async fn read(&self, at: u64, to: &mut [u8]) -> Result<(), DiskError> {
        match &self.bytes {
            Bytes::Handle(handle) => {
                let read = handle.read(to, &option("at", at as f64));
                let read = read.map_err(|e| self.failed(&e))?;
                match read as usize == to.len() {
                    true => Ok(()),
                    false => Err(self.ends_early()),
                }
            }
            Bytes::Blob(blob) => {
                let end = at as f64 + to.len() as f64;
                let slice = blob.slice_with_f64_and_f64(at as f64, end);
                let slice = slice.map_err(|e| self.failed(&e))?;
                let bytes = JsFuture::from(slice.array_buffer()).await;
                let bytes = Uint8Array::new(&bytes.map_err(|e| self.failed(&e))?);
                if bytes.length() as usize != to.len() {
                    return Err(self.ends_early());
                }
                bytes.copy_to(to);
                Ok(())
            }
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let written = self.handle()?.write(bytes, &option("at", at as f64));
        match written.map_err(|e| self.failed(&e))? as usize == bytes.len() {
            true => Ok(()),
            // Browsers write less than was asked when there is no more room.
            false => Err(DiskError::Full),
        }
    }

    fn truncate(&mut self, size: u64) -> Result<(), DiskError> {
        let truncated = self.handle()?.truncate(size as f64);
        truncated.map_err(|e| self.failed(&e))
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.handle()?.flush().map_err(|e| self.failed(&e))
    }
}

impl Drop for OpfsFile {
    fn drop(&mut self) {
        if let Bytes::Handle(handle) = &self.bytes {
            // Closing what is closed is no error.
            drop(handle.close());
        }
    }
}
