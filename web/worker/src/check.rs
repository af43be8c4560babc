//! The GPU kernels' checks in a browser, for the tests; compiled with the feature `check` only.

use llama::{Gpu, Spread};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// One comparison; see [`llama::check::Case`].
#[derive(Serialize)]
struct Case {
    name: String,
    error: f64,
    tolerance: f64,
    holds: bool,
}

/// Compares every kernel with plain arithmetic. `spread` is `rows` or `lanes`.
#[wasm_bindgen]
pub async fn check(spread: String) -> Result<JsValue, JsValue> {
    super::constructors::run();
    let failed = |error: model::BackendError| JsValue::from(error.to_string());
    let spread = match spread.as_str() {
        "rows" => Spread::Rows,
        "lanes" => Spread::Lanes,
        other => return Err(format!("there is no spread {other}").into()),
    };
    let gpu = Gpu::open().await.map_err(failed)?.with_spread(spread);
    let cases = llama::check::all(&gpu, llama::check::Extent::Brief)
        .await
        .map_err(failed)?;
    let cases: Vec<_> = cases
        .into_iter()
        .map(|case| Case {
            holds: case.holds(),
            name: case.name,
            error: case.error,
            tolerance: case.tolerance,
        })
        .collect();
    Ok(serde_wasm_bindgen::to_value(&cases)?)
}
