//! What a model can run on here: what the browser tells of its GPU, and what the user chose.

use crate::dom;
use engine::protocol::{Failure, FailureKind};
use js_sys::{Function, Promise, Reflect};
use leptos::prelude::*;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

/// Where the choice is kept.
const KEPT: &str = "processor";
/// Storage buffers that the largest kernel binds.
const BUFFERS: f64 = 8.0;
/// Bytes that a binding must be able to hold.
const BINDING: f64 = 128.0 * 1024.0 * 1024.0;
/// Names of what emulates a GPU on the CPU.
const EMULATORS: [&str; 4] = ["swiftshader", "llvmpipe", "lavapipe", "basic render"];

/// What the user wants models to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A GPU if there is a real one, else the CPU.
    Automatic,
    /// The GPU, whatever it is.
    Gpu,
    /// The CPU.
    Cpu,
}

impl Choice {
    /// All, in the order of the control.
    pub const ALL: [Self; 3] = [Self::Automatic, Self::Gpu, Self::Cpu];

    /// Its word.
    pub fn title(self) -> &'static str {
        match self {
            Self::Automatic => "Automatic",
            Self::Gpu => "GPU",
            Self::Cpu => "CPU",
        }
    }

    /// Its name in attributes and where it is kept.
    pub fn key(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
        }
    }

    /// The kept one.
    pub fn kept() -> Self {
        let kept = dom::kept(KEPT);
        Self::ALL
            .into_iter()
            .find(|choice| kept.as_deref() == Some(choice.key()))
            .unwrap_or(Self::Automatic)
    }

    /// Keeps it for the next visit.
    pub fn keep(self) {
        dom::keep(KEPT, (self != Self::Automatic).then(|| self.key()));
    }
}

/// What the browser offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// A GPU; its name as far as the browser tells.
    Hardware(String),
    /// A CPU that emulates one.
    Software(String),
    /// None that can be used: why, and what to do.
    Missing(Failure),
}

/// Which engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That for WebGPU.
    Gpu,
    /// That for the CPU.
    Cpu,
}

impl Kind {
    /// What the worker's address asks for.
    pub fn query(self) -> &'static str {
        match self {
            Self::Gpu => "?processor=gpu",
            Self::Cpu => "?processor=cpu",
        }
    }
}

/// Which engine a choice leads to.
///
/// # Errors
/// Where the GPU was asked for and there is none.
pub fn kind(choice: Choice, gpu: &Gpu) -> Result<Kind, Failure> {
    match (choice, gpu) {
        (Choice::Cpu, _) | (Choice::Automatic, Gpu::Software(_) | Gpu::Missing(_)) => Ok(Kind::Cpu),
        (Choice::Gpu, Gpu::Missing(failure)) => Err(failure.clone()),
        (Choice::Automatic | Choice::Gpu, _) => Ok(Kind::Gpu),
    }
}

/// Asks the browser for its GPU. Nothing is set up on it.
pub async fn probe() -> Gpu {
    let api = get(&window().navigator(), "gpu");
    if !api.is_object() {
        return Gpu::Missing(if window().is_secure_context() {
            missing(
                "this browser offers no WebGPU",
                "Chrome or Edge 113 and newer, Safari 26 and Firefox 141 and newer have it. Or choose the CPU.",
            )
        } else {
            missing(
                "browsers offer WebGPU only to pages from https or from this machine",
                "Open the page by https or from 127.0.0.1. Or choose the CPU.",
            )
        });
    }
    match request_adapter(&api).await {
        Some(adapter) => judge(&adapter),
        None => Gpu::Missing(missing(
            "this browser has WebGPU but offers no GPU: its blocklist names this one, or hardware acceleration is off",
            "Switch on hardware acceleration in the browser's settings and update the graphics driver. Or choose the CPU.",
        )),
    }
}

async fn request_adapter(api: &JsValue) -> Option<JsValue> {
    let request = get(api, "requestAdapter").dyn_into::<Function>().ok()?;
    let promise = request.call0(api).ok()?.dyn_into::<Promise>().ok()?;
    let adapter = JsFuture::from(promise).await.ok()?;
    adapter.is_object().then_some(adapter)
}

/// Whether an adapter suffices, and whether it is a real one.
fn judge(adapter: &JsValue) -> Gpu {
    let limits = get(adapter, "limits");
    let limit = |name| get(&limits, name).as_f64().unwrap_or(0.0);
    let buffers = limit("maxStorageBuffersPerShaderStage");
    let binding = limit("maxStorageBufferBindingSize");
    if buffers < BUFFERS || binding < BINDING {
        return Gpu::Missing(missing(
            &format!(
                "this GPU is too small: it binds {buffers} buffers of {} MiB, and {BUFFERS} of {} MiB are needed",
                (binding / 1048576.0).floor(),
                BINDING / 1048576.0
            ),
            "Choose the CPU.",
        ));
    }
    let info = get(adapter, "info");
    let text = |name| get(&info, name).as_string().unwrap_or_default();
    let name = name(["description", "vendor", "architecture", "device"].map(text));
    // Browsers moved the mark from the adapter to its description.
    let marked = |target| get(target, "isFallbackAdapter").is_truthy();
    if marked(adapter) || marked(&info) || is_emulator(&name) {
        Gpu::Software(name)
    } else {
        Gpu::Hardware(name)
    }
}

/// A name from what browsers tell, each once; many tell no more than a vendor.
fn name(parts: [String; 4]) -> String {
    let mut name = String::new();
    for part in parts {
        if !part.is_empty() && !name.to_lowercase().contains(&part.to_lowercase()) {
            if !name.is_empty() {
                name.push(' ');
            }
            name.push_str(&part);
        }
    }
    if name.is_empty() {
        name.push_str("unnamed GPU");
    }
    name
}

fn is_emulator(name: &str) -> bool {
    let name = name.to_lowercase();
    EMULATORS.iter().any(|emulator| name.contains(emulator))
}

fn missing(message: &str, advice: &str) -> Failure {
    Failure {
        kind: FailureKind::NoGpu,
        message: message.to_owned(),
        advice: advice.to_owned(),
    }
}

/// A property, or undefined: the types of WebGPU are not stable in `web-sys`.
fn get(target: &JsValue, key: &str) -> JsValue {
    Reflect::get(target, &key.into()).unwrap_or(JsValue::UNDEFINED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_real_gpu_is_chosen_unasked() {
        let hardware = Gpu::Hardware("a".into());
        let software = Gpu::Software("SwiftShader".into());
        let none = Gpu::Missing(missing("none", "none"));
        assert_eq!(kind(Choice::Automatic, &hardware), Ok(Kind::Gpu));
        assert_eq!(kind(Choice::Automatic, &software), Ok(Kind::Cpu));
        assert_eq!(kind(Choice::Automatic, &none), Ok(Kind::Cpu));
        assert_eq!(kind(Choice::Gpu, &software), Ok(Kind::Gpu));
        assert_eq!(kind(Choice::Cpu, &hardware), Ok(Kind::Cpu));
        assert!(kind(Choice::Gpu, &none).is_err());
    }

    #[test]
    fn names() {
        let parts = |parts: [&str; 4]| name(parts.map(str::to_owned));
        assert_eq!(parts(["", "nvidia", "ampere", ""]), "nvidia ampere");
        assert_eq!(
            parts(["NVIDIA RTX 3060", "nvidia", "ampere", ""]),
            "NVIDIA RTX 3060 ampere"
        );
        assert_eq!(parts(["", "", "", ""]), "unnamed GPU");
        assert!(is_emulator("google SwiftShader"));
        assert!(!is_emulator("nvidia ampere"));
    }
}
