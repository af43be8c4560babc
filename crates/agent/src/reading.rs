//! Reading a turn while it is being written, token by token.
//!
//! A [`Reader`] takes what an engine tells of each token: its text, and whether it is a special one. It
//! needs no tokenizer, so it reads any model. At the end it says what [`crate::agenticml::read_step`] or
//! [`crate::chatml::read_step`] would say of the whole turn; the tests compare them.

use crate::action::tool_of;
use crate::agenticml::{self, Ended, Fault, StepFrame, StepStop};
use crate::chatml;
use formats::agenticml::{ParseError, PayloadError, Reading, View, parse, read_payload};
use formats::bridge::TERMINAL_TOOLS;
use formats::chatml::{Generation, read_generation};
use formats::json::{Object, Value};
use formats::partial::{Progress, progress};
use formats::{Frame, FrameKind, Owner, Payload, Policy, python};
use std::ops::Range;
use tokens::Arm;

/// How a model is given markers, and so how it may write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markers {
    /// As special tokens of its own: only such a token is a marker.
    Tokens,
    /// Spelled by their aliases, since it has no tokens for them.
    Spelled,
}

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Frames, or a message.
    pub arm: Arm,
    /// What a marker is. (Of no meaning for messages.)
    pub markers: Markers,
    /// Refuse markers that the model may not write.
    pub strict: bool,
    /// [`Policy::Reference`] reads the text, ends of turns included, as the reference does.
    pub policy: Policy,
}

/// What a part of a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A frame.
    Frame(FrameKind),
    /// An assistant message.
    Message(Guess),
    /// What is not read: blanks before the first frame, anything behind an error or an end.
    Loose,
    /// The token that ended the turn.
    Stop,
}

/// What an assistant message is going to be. No marker says so: it is known at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// Nothing can be told yet.
    Nothing,
    /// Text, which answers.
    Text,
    /// A call, for it begins as JSON.
    Call,
    /// A call for sure: a python tag opened it.
    Tagged,
}

/// A part of a turn: neighbouring tokens that mean one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is.
    pub what: What,
    /// Its tokens, marker included. The parts' tokens are all tokens, in order.
    pub tokens: Range<usize>,
    /// The text behind its marker.
    pub raw: String,
    /// Whether something ended it.
    pub closed: bool,
    /// How far its JSON is, where it must be JSON or is taken for it.
    pub json: Option<Progress>,
    /// What is wrong with it, once it is closed.
    pub fault: Option<String>,
}

/// Why no more tokens came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model wrote a token that ends its turn, the last one.
    Stop,
    /// There was no room for more.
    Cut,
    /// Someone stopped it.
    Stopped,
}

/// A call that waits for its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The action's content: tool and arguments.
    pub action: Value,
    /// The tool's name, whatever its type.
    pub tool: Value,
}

/// What a turn amounts to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It asks for results.
    Calls,
    /// It answers; carries the text, whatever its type.
    Answer(Value),
    /// It gives up; carries its reason, whatever its type.
    GivesUp(Value),
    /// It ended without a call.
    NoCall,
    /// It was cut off.
    Cut,
    /// Someone stopped it.
    Stopped,
    /// It means nothing that could be used; carries why.
    Unusable(String),
}

/// A turn at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Frames that may be taken into a trajectory.
    pub frames: Vec<Frame>,
    /// Calls that need a result, in order. With an outcome other than [`Outcome::Calls`] the results end
    /// the run.
    pub calls: Vec<Call>,
    /// What it amounts to.
    pub outcome: Outcome,
}

/// Ends of turns by name. Other tokens that a model ends with are told by [`End::Stop`].
const ENDS: [&str; 3] = ["<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"];
const PYTHON_TAG: &str = "<|python_tag|>";
/// What a model may repeat of its prompt, token by token.
const HEADER: [(&str, bool); 4] = [
    ("<|start_header_id|>", true),
    ("assistant", false),
    ("<|end_header_id|>", true),
    ("\n\n", false),
];

/// A token that arrived.
#[derive(Clone, Debug)]
struct Arrived {
    /// Where its text begins.
    start: usize,
    /// Where its own text begins: before it may stand what was held back of an unfinished character.
    own: usize,
    special: bool,
}

/// Reads a turn.
#[derive(Clone, Debug)]
pub struct Reader {
    manner: Manner,
    text: String,
    arrived: Vec<Arrived>,
    parts: Vec<Part>,
    error: Option<ParseError>,
    /// The token that ended the turn.
    stopped: Option<usize>,
}

impl Reader {
    /// Nothing read yet.
    pub fn new(manner: Manner) -> Self {
        Self {
            manner,
            text: String::new(),
            arrived: Vec::new(),
            parts: Vec::new(),
            error: None,
            stopped: None,
        }
    }

    /// The parts so far.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Why reading ended before the tokens did.
    pub fn error(&self) -> Option<&ParseError> {
        self.error.as_ref()
    }

    /// Takes a token: the text that became complete with it, and whether it is a special one, whose name
    /// then ends the text.
    pub fn push(&mut self, text: &str, special: bool) {
        let start = self.text.len();
        let held = if special {
            text.len() - text.trim_start_matches(char::REPLACEMENT_CHARACTER).len()
        } else {
            0
        };
        self.text.push_str(text);
        self.arrived.push(Arrived {
            start,
            own: start + held,
            special,
        });
        let at = self.arrived.len() - 1;
        if self.stopped.is_none() && self.ends_turn(at) {
            self.stopped = Some(at);
        }
        match (self.manner.arm, self.by_tokens()) {
            (Arm::AgenticMl, true) => self.take(at),
            (Arm::AgenticMl, false) => self.read_frames(),
            (Arm::ChatMl, _) => self.read_message(),
        }
    }

    fn by_tokens(&self) -> bool {
        self.manner.policy == Policy::Safe && self.manner.markers == Markers::Tokens
    }

    fn name(&self, at: usize) -> Option<&str> {
        let token = self.arrived.get(at).filter(|token| token.special)?;
        self.text.get(token.own..self.end_of(at))
    }

    fn end_of(&self, at: usize) -> usize {
        self.arrived
            .get(at + 1)
            .map_or(self.text.len(), |next| next.start)
    }

    fn ends_turn(&self, at: usize) -> bool {
        self.manner.policy == Policy::Safe && self.name(at).is_some_and(|name| ENDS.contains(&name))
    }

    /// The frame kind whose marker a token is.
    fn marker(&self, at: usize) -> Option<FrameKind> {
        let name = self.name(at)?;
        FrameKind::ALL
            .into_iter()
            .find(|kind| name == kind.reserved() || name == kind.alias())
    }

    /// Takes a token of frames whose markers are tokens.
    fn take(&mut self, at: usize) {
        let (start, own, end) = {
            let token = &self.arrived[at];
            (token.start, token.own, self.end_of(at))
        };
        if self.stopped.is_some_and(|stop| stop < at) {
            return self.loosen(at, "");
        }
        let kind = self.marker(at);
        let is_stop = self.stopped == Some(at);
        if kind.is_none() && !is_stop {
            let text = self.text[start..end].to_owned();
            return self.go_on(at, &text);
        }
        let held = self.text[start..own].to_owned();
        self.append(&held);
        self.close();
        if is_stop {
            self.parts.push(Part::new(What::Stop, at));
        } else if let Some(kind) = kind {
            if self.error.is_some() {
                self.loosen(at, "");
            } else if self.manner.strict && kind.owner() == Owner::Runtime {
                self.error = Some(ParseError::NotTheModels(kind));
                self.loosen(at, "");
            } else {
                let mut part = Part::new(What::Frame(kind), at);
                part.closed = kind == FrameKind::End;
                part.json = json_of(kind, "");
                self.parts.push(part);
            }
        }
    }

    /// A token that is no marker and no end.
    fn go_on(&mut self, at: usize, text: &str) {
        let in_frame = matches!(
            self.parts.last(),
            Some(Part {
                what: What::Frame(_),
                ..
            })
        );
        if in_frame {
            self.append(text);
            if let Some(part) = self.parts.last_mut() {
                part.tokens.end = at + 1;
            }
            return;
        }
        self.loosen(at, text);
        if self.error.is_none() || matches!(self.error, Some(ParseError::NoMarker { .. })) {
            self.look_before();
        }
    }

    /// Adds text to the last part.
    fn append(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let Some(part) = self.parts.last_mut() else {
            return;
        };
        part.raw.push_str(text);
        if let What::Frame(kind) = part.what {
            part.json = json_of(kind, &part.raw);
        }
        if part.what == What::Loose && self.parts.len() == 1 {
            self.look_before();
        }
    }

    /// Text before the first marker is an error, unless it is blank.
    fn look_before(&mut self) {
        let [first] = self.parts.as_slice() else {
            return;
        };
        let text = &first.raw;
        let rest = python::strip_start(text);
        if !rest.is_empty() {
            let preview: String = rest.chars().take(40).collect();
            self.error = Some(ParseError::NoMarker {
                offset: text[..text.len() - rest.len()].chars().count(),
                preview: python::repr_str(&preview),
            });
        }
    }

    fn loosen(&mut self, at: usize, text: &str) {
        match self.parts.last_mut() {
            Some(part) if part.what == What::Loose && !part.closed => {
                part.tokens.end = at + 1;
                part.raw.push_str(text);
            }
            _ => {
                let mut part = Part::new(What::Loose, at);
                part.raw.push_str(text);
                self.parts.push(part);
            }
        }
    }

    fn close(&mut self) {
        if let Some(part) = self.parts.last_mut() {
            part.closed = true;
            part.judge();
        }
    }

    /// Reads everything anew as frames whose markers are text.
    fn read_frames(&mut self) {
        let stop = self.stopped;
        let end = stop.map_or(self.text.len(), |at| self.arrived[at].own);
        let view = match self.manner.markers {
            Markers::Tokens => View::Reserved,
            Markers::Spelled => View::Markers,
        };
        let reading = Reading {
            view,
            strict: false,
            policy: self.manner.policy,
        };
        self.parts.clear();
        self.error = None;
        let read = match parse(&self.text[..end], &reading) {
            Ok(frames) => frames,
            Err(error) => {
                self.error = Some(error);
                Vec::new()
            }
        };
        let tokens = stop.unwrap_or(self.arrived.len());
        // A token belongs to the frame in which it begins.
        let first = |byte: usize| self.arrived[..tokens].partition_point(|t| t.own < byte);
        let count = read.len();
        let mut parts = Vec::new();
        let mut next = 0;
        for (index, frame) in read.into_iter().enumerate() {
            let kind = frame.frame.kind;
            if self.manner.strict && kind.owner() == Owner::Runtime {
                self.error = Some(ParseError::NotTheModels(kind));
                break;
            }
            let start = first(frame.marker.start);
            if start > next {
                parts.push(Part::over(What::Loose, next..start));
            }
            let last = index + 1 == count;
            let end = if last { tokens } else { first(frame.body.end) };
            let mut part = Part::over(What::Frame(kind), start..end.max(start));
            part.json = json_of(kind, &frame.raw);
            part.raw = frame.raw;
            part.closed = !last || stop.is_some() || kind == FrameKind::End;
            if part.closed {
                part.judge();
            }
            next = part.tokens.end;
            parts.push(part);
        }
        if next < tokens {
            let mut part = Part::over(What::Loose, next..tokens);
            part.raw = self.text[self.arrived[next].start..end].to_owned();
            parts.push(part);
        }
        self.parts = parts;
        self.add_stop();
    }

    /// Reads everything anew as a message.
    fn read_message(&mut self) {
        self.parts.clear();
        let count = self.stopped.unwrap_or(self.arrived.len());
        if count > 0 {
            let mut part = Part::over(What::Message(Guess::Nothing), 0..count);
            let tag = self.tag(count);
            let written = self.written(count);
            part.raw = match tag {
                Some(tag) => self.text[self.end_of(tag)..self.text_end(count)].to_owned(),
                None => written.to_owned(),
            };
            let begun = python::strip_start(&part.raw);
            let guess = if tag.is_some() {
                Guess::Tagged
            } else if begun.is_empty() {
                Guess::Nothing
            } else if begun.starts_with('{') {
                Guess::Call
            } else {
                Guess::Text
            };
            part.what = What::Message(guess);
            if matches!(guess, Guess::Call | Guess::Tagged) {
                let json = progress(&part.raw);
                // What turned out not to be JSON was text all along.
                if guess == Guess::Call && matches!(json, Progress::Broken(_)) {
                    part.what = What::Message(Guess::Text);
                } else {
                    part.json = Some(json);
                }
            }
            if self.stopped.is_some() {
                part.closed = true;
                if part.what == What::Message(Guess::Call)
                    && !matches!(self.generation(), Generation::Call(_))
                {
                    part.what = What::Message(Guess::Text);
                    part.json = None;
                }
                if let Generation::Failed(error) = self.generation() {
                    part.fault = Some(error.to_string());
                }
            }
            self.parts.push(part);
        }
        self.add_stop();
    }

    fn add_stop(&mut self) {
        if let Some(at) = self.stopped {
            self.parts.push(Part::new(What::Stop, at));
            if at + 1 < self.arrived.len() {
                let rest = at + 1..self.arrived.len();
                self.parts.push(Part::over(What::Loose, rest));
            }
        }
    }

    /// Where the text of the first tokens ends.
    fn text_end(&self, count: usize) -> usize {
        // What an end of the turn brings along of an unfinished character belongs before it.
        self.arrived.get(count).map_or(self.text.len(), |t| t.own)
    }

    /// The first python tag that is a token.
    fn tag(&self, count: usize) -> Option<usize> {
        (self.manner.policy == Policy::Safe)
            .then(|| (0..count).find(|&at| self.name(at) == Some(PYTHON_TAG)))
            .flatten()
    }

    /// The text of the first tokens, without a header that the model repeats.
    fn written(&self, count: usize) -> &str {
        let repeats = count >= HEADER.len()
            && HEADER.iter().enumerate().all(|(at, (text, special))| {
                self.arrived[at].special == *special
                    && self.text[self.arrived[at].start..self.end_of(at)] == **text
            });
        let from = if repeats && self.manner.policy == Policy::Safe {
            self.arrived
                .get(HEADER.len())
                .map_or(self.text.len(), |token| token.start)
        } else {
            0
        };
        &self.text[from..self.text_end(count)]
    }

    /// What the message means as it is.
    fn generation(&self) -> Generation {
        if self.manner.policy == Policy::Reference {
            return read_generation(&self.text);
        }
        let count = self.stopped.unwrap_or(self.arrived.len());
        match self.tag(count) {
            Some(tag) => chatml::read_tagged(&self.text[self.end_of(tag)..self.text_end(count)]),
            None => chatml::read_said(self.written(count)),
        }
    }

    /// No more tokens come: what the turn amounts to.
    pub fn finish(&mut self, end: End) -> Turn {
        let last = self.arrived.len().checked_sub(1);
        if end == End::Stop
            && self.manner.policy == Policy::Safe
            && self.stopped.is_none()
            && let Some(last) = last
            && self.arrived[last].special
            && !(self.by_tokens() && self.marker(last).is_some())
        {
            // The model's own end, which has no name that is known here.
            self.stopped = Some(last);
            match (self.manner.arm, self.by_tokens()) {
                (Arm::AgenticMl, true) => self.part_with(last),
                (Arm::AgenticMl, false) => self.read_frames(),
                (Arm::ChatMl, _) => self.read_message(),
            }
        }
        match self.manner.arm {
            Arm::AgenticMl => self.finish_frames(end),
            Arm::ChatMl => self.finish_message(end),
        }
    }

    /// Takes the last token out of its part: it ended the turn.
    fn part_with(&mut self, last: usize) {
        let name = self.text.len() - self.arrived[last].own;
        if let Some(part) = self.parts.last_mut() {
            part.tokens.end = last;
            part.raw.truncate(part.raw.len().saturating_sub(name));
            if let What::Frame(kind) = part.what {
                part.json = json_of(kind, &part.raw);
            }
            if part.tokens.is_empty() {
                self.parts.pop();
            }
        }
        if self.parts.len() == 1 && self.parts[0].what == What::Loose {
            self.error = None;
            self.look_before();
        }
        self.close();
        self.parts.push(Part::new(What::Stop, last));
    }

    fn finish_frames(&self, end: End) -> Turn {
        let frames: Vec<(&Part, StepFrame)> = self
            .parts
            .iter()
            .filter_map(|part| Some((part, part.frame()?)))
            .collect();
        let ended = Ended {
            last_is_open: frames.last().is_some_and(|(part, _)| !part.closed),
            by_stop: self.stopped.is_some(),
            cut: end == End::Cut,
        };
        if end == End::Stopped {
            // What is whole may be kept.
            let whole = frames
                .iter()
                .take_while(|(part, frame)| part.closed && agenticml::fault(frame).is_none());
            return Turn {
                frames: whole.map(|(_, frame)| frame.frame.clone()).collect(),
                calls: Vec::new(),
                outcome: Outcome::Stopped,
            };
        }
        let frames: Vec<StepFrame> = frames.into_iter().map(|(_, frame)| frame).collect();
        let (frames, stop, taken) = match self.manner.policy {
            Policy::Safe => agenticml::judge(frames, self.error.clone(), ended),
            // The reference takes what it can parse, errors and all; those frames could not be written
            // again, so the turn is of no use all the same.
            Policy::Reference => match &self.error {
                Some(error) => (frames, StepStop::ParseError(error.clone()), false),
                None => agenticml::judge(frames, None, ended),
            },
        };
        if !taken {
            let outcome = match stop {
                StepStop::MaxTokens => Outcome::Cut,
                StepStop::ParseError(error) => Outcome::Unusable(error.to_string()),
                StepStop::Unreadable { frame, fault } => {
                    Outcome::Unusable(format!("frame {} of the turn: {fault}", frame + 1))
                }
                other => Outcome::Unusable(other.to_string()),
            };
            return Turn {
                frames: Vec::new(),
                calls: Vec::new(),
                outcome,
            };
        }
        let frames = frames.into_iter().map(|frame| frame.frame).collect();
        weigh(frames, stop == StepStop::MaxTokens)
    }

    fn finish_message(&self, end: End) -> Turn {
        let nothing = |outcome| Turn {
            frames: Vec::new(),
            calls: Vec::new(),
            outcome,
        };
        let cut = self.manner.policy == Policy::Safe && self.stopped.is_none();
        match end {
            End::Stopped => return nothing(Outcome::Stopped),
            End::Cut if cut => return nothing(Outcome::Cut),
            End::Cut | End::Stop => {}
        }
        let action = match self.generation() {
            Generation::Failed(error) => return nothing(Outcome::Unusable(error.to_string())),
            Generation::Text(said) => Object::from_iter([
                ("tool".to_owned(), "answer".into()),
                ("text".to_owned(), said.into()),
            ]),
            Generation::Call(written) => match chatml::called(&written, self.manner.policy) {
                Ok((name, Value::Object(arguments))) => {
                    let mut action = Object::from_iter([("tool".to_owned(), name.into())]);
                    let arguments = arguments.into_iter().filter(|(key, _)| key != "tool");
                    action.extend(arguments);
                    action
                }
                Ok((_, other)) => {
                    let kind = python::type_name(&other);
                    return nothing(Outcome::Unusable(format!("the arguments are a {kind}")));
                }
                Err(error) => return nothing(Outcome::Unusable(error.to_string())),
            },
        };
        let mut frames = vec![Frame::new(FrameKind::Action, action)];
        if self.stopped.is_some() || self.manner.policy == Policy::Reference {
            // The end of the turn is what an end frame becomes on this side.
            frames.push(Frame::new(FrameKind::End, Value::Null));
        }
        weigh(frames, false)
    }
}

/// What a turn's frames amount to.
fn weigh(frames: Vec<Frame>, cut: bool) -> Turn {
    let mut calls = Vec::new();
    let mut outcome = None;
    for frame in frames.iter().filter(|f| f.kind == FrameKind::Action) {
        let Ok(tool) = tool_of(&frame.content, Policy::Safe) else {
            continue;
        };
        let terminal = tool.as_str().filter(|tool| TERMINAL_TOOLS.contains(tool));
        let Some(terminal) = terminal else {
            calls.push(Call {
                action: frame.content.clone(),
                tool,
            });
            continue;
        };
        let said = |key| frame.content.get(key).cloned();
        outcome = Some(if terminal == "answer" {
            Outcome::Answer(said("text").unwrap_or_default())
        } else {
            Outcome::GivesUp(said("reason").or_else(|| said("text")).unwrap_or_default())
        });
        break;
    }
    let outcome = outcome.unwrap_or(match (calls.is_empty(), cut) {
        (_, true) => Outcome::Cut,
        (true, false) => Outcome::NoCall,
        (false, false) => Outcome::Calls,
    });
    Turn {
        frames,
        calls,
        outcome,
    }
}

/// How far the JSON of a frame is, where it must be JSON.
fn json_of(kind: FrameKind, raw: &str) -> Option<Progress> {
    (kind.payload() == Payload::Json).then(|| progress(raw))
}

impl Part {
    fn new(what: What, at: usize) -> Self {
        Self::over(what, at..at + 1)
    }

    fn over(what: What, tokens: Range<usize>) -> Self {
        Self {
            what,
            tokens,
            raw: String::new(),
            closed: matches!(what, What::Stop),
            json: None,
            fault: None,
        }
    }

    /// The frame that it is, as it stands.
    fn frame(&self) -> Option<StepFrame> {
        let What::Frame(kind) = self.what else {
            return None;
        };
        let (content, error): (Value, Option<PayloadError>) = match read_payload(kind, &self.raw) {
            Ok(content) => (content, None),
            Err(error) => (Value::Null, Some(error)),
        };
        Some(StepFrame {
            frame: Frame { kind, content },
            raw: self.raw.clone(),
            error,
        })
    }

    /// Finds out what is wrong with a frame that is closed.
    fn judge(&mut self) {
        let fault: Option<Fault> = self.frame().and_then(|frame| agenticml::fault(&frame));
        self.fault = fault.map(|fault| fault.to_string());
    }
}
