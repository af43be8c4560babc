//! Files of the site that the page reads: samples and the tokenizer.

use crate::dom;
use crate::state::{Page, Sample, Shared};
use formats::{Trajectory, Value, json};
use leptos::prelude::*;
use leptos::task::spawn_local;
use tokens::Llama3Tokenizer;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use web_sys::Response;

/// The sample that is compiled in, so that something real shows at once.
const FIRST: &str = include_str!("../../public/samples/lines-in-main-py.json");
/// Its file, which the list names too.
pub const FIRST_FILE: &str = "lines-in-main-py.json";

/// The first sample, and how to list it.
pub fn first() -> (Trajectory, Sample) {
    let value = json::loads(FIRST).unwrap_or(Value::Null);
    let sample = Sample {
        file: String::new(),
        title: word(&value, "title").unwrap_or_else(|| "Sample".to_owned()),
        domain: word(&value, "domain").unwrap_or_default(),
        about: word(&value, "about").unwrap_or_default(),
    };
    (Trajectory::from_json(&value).unwrap_or_default(), sample)
}

fn word(object: &Value, key: &str) -> Option<String> {
    object.get(key).and_then(Value::as_str).map(str::to_owned)
}

async fn fetch(url: &str) -> Result<Response, String> {
    let answer = JsFuture::from(window().fetch_with_str(url))
        .await
        .map_err(|_| format!("{url} could not be fetched"))?;
    let answer: Response = answer
        .dyn_into()
        .map_err(|_| format!("{url} gave no answer"))?;
    if answer.ok() {
        Ok(answer)
    } else {
        Err(format!(
            "{url}: {} {}",
            answer.status(),
            answer.status_text()
        ))
    }
}

async fn bytes(url: &str) -> Result<Vec<u8>, String> {
    let body = fetch(url)
        .await?
        .array_buffer()
        .map_err(|_| format!("{url} has no body"))?;
    let body = JsFuture::from(body)
        .await
        .map_err(|_| format!("{url} broke off"))?;
    Ok(js_sys::Uint8Array::new(&body).to_vec())
}

/// The text at an address of this site.
///
/// # Errors
/// Why it could not be read.
pub async fn text(url: &str) -> Result<String, String> {
    String::from_utf8(bytes(url).await?).map_err(|_| format!("{url} is not UTF-8"))
}

/// The folder of the samples.
pub fn folder() -> String {
    dom::setting("data-samples").unwrap_or_else(|| "samples/".to_owned())
}

/// Fetches the list of samples. Without it the page has the one it carries.
pub fn load_list(page: Page) {
    spawn_local(async move {
        let Ok(list) = text(&format!("{}index.json", folder())).await else {
            return;
        };
        let Ok(list) = json::loads(&list) else { return };
        let more = list
            .as_array()
            .unwrap_or_default()
            .iter()
            .filter_map(|entry| {
                Some(Sample {
                    file: word(entry, "file")?,
                    title: word(entry, "title")?,
                    domain: word(entry, "domain").unwrap_or_default(),
                    about: word(entry, "about").unwrap_or_default(),
                })
            })
            // Only names in the folder itself; the list is data.
            .filter(|sample| sample.file != FIRST_FILE && !sample.file.contains(['/', '\\', ':']));
        page.samples.update(|samples| samples.extend(more));
        // One that was opened by its name before the list was there.
        mark(page);
    });
}

/// Has the list show which sample is shown.
fn mark(page: Page) {
    let shown = page
        .trajectory
        .with_untracked(|trajectory| page.share.shown_sample(trajectory));
    let Some(shown) = shown else { return };
    let at =
        page.samples.read_untracked().iter().position(|sample| {
            sample.file == shown || (sample.file.is_empty() && shown == FIRST_FILE)
        });
    page.sample.set(at.unwrap_or(usize::MAX));
}

/// Shows a sample.
pub fn open(page: Page, at: usize) {
    let Some(sample) = page.samples.read_untracked().get(at).cloned() else {
        return;
    };
    page.sample.set(at);
    let file = if sample.file.is_empty() {
        FIRST_FILE.to_owned()
    } else {
        sample.file
    };
    open_file(page, file, || ());
}

/// Shows the sample in a file of the samples' folder, then does what is asked.
pub fn open_file(page: Page, file: String, then: impl FnOnce() + 'static) {
    let show = move |file: &str, trajectory: Trajectory| {
        page.share.is_sample(file, &trajectory);
        page.open(trajectory);
        mark(page);
        then();
    };
    page.share.expect(&file);
    if file == FIRST_FILE {
        show(&file, first().0);
        return;
    }
    spawn_local(async move {
        let read = async {
            let text = text(&format!("{}{file}", folder())).await?;
            Trajectory::parse(&text).map_err(|error| error.to_string())
        };
        match read.await {
            // Another may have been chosen while this one came.
            Ok(trajectory) if page.share.expects(&file) => show(&file, trajectory),
            Ok(_) => {}
            Err(error) => page
                .spoken
                .set(format!("The sample could not be opened. {error}")),
        }
    });
}

/// Fetches the tokenizer.
pub fn load_tokenizer(page: Page) {
    spawn_local(async move {
        let url = dom::setting("data-tokenizer").unwrap_or_default();
        let read = async {
            let bytes = bytes(&url).await?;
            Llama3Tokenizer::from_compact(&bytes).map_err(|error| error.to_string())
        };
        match read.await {
            Ok(tokenizer) => {
                page.tokenizer.set(Some(Shared::new(tokenizer)));
                page.select_first();
            }
            Err(error) => page
                .tokenizer_error
                .set(Some(format!("No tokenizer, so no tokens: {error}"))),
        }
    });
}
