//! The golden cases and the bench as a WebAssembly module, for `tests/wasm`. Natively this is empty.
#![cfg(target_arch = "wasm32")]

#[path = "reports/report.rs"]
mod report;
#[path = "bench/workload.rs"]
mod workload;

use formats::Trajectory;
use tokens::{Arm, Llama3Tokenizer};
use wasm_bindgen::prelude::wasm_bindgen;

/// The tokenizer, and the trajectory that is timed.
#[wasm_bindgen]
pub struct Conformance {
    tokenizer: Llama3Tokenizer,
    trajectory: Trajectory,
}

#[wasm_bindgen]
impl Conformance {
    /// Reads a tokenizer.json.
    ///
    /// # Errors
    /// When it is not Llama 3.1's.
    #[wasm_bindgen(constructor)]
    pub fn new(tokenizer_json: &[u8]) -> Result<Self, String> {
        let compact = Llama3Tokenizer::compact_from_json(tokenizer_json);
        let compact = compact.map_err(|error| error.to_string())?;
        let tokenizer = Llama3Tokenizer::from_compact(&compact);
        let tokenizer = tokenizer.map_err(|error| error.to_string())?;
        let trajectory = workload::trajectory(&tokenizer).map_err(|error| error.to_string())?;
        Ok(Self {
            tokenizer,
            trajectory,
        })
    }

    /// Runs a file of golden cases; the report is a line of JSON.
    ///
    /// # Errors
    /// When the text is no such file.
    pub fn report(&self, file: &str) -> Result<String, String> {
        report::line(file, &self.tokenizer).map_err(|error| error.to_string())
    }

    /// One round of the bench over both arms; the number of tokens.
    ///
    /// # Errors
    /// When the trajectory cannot be written, which would be a fault of the bench.
    pub fn round(&self) -> Result<usize, String> {
        let mut tokens = 0;
        for arm in [Arm::AgenticMl, Arm::ChatMl] {
            let view = workload::arm_view(&self.tokenizer, &self.trajectory, arm);
            tokens += view.map_err(|error| error.to_string())?.tokens.len();
        }
        Ok(tokens)
    }
}
