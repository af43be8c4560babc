//! The AgenticML arm: frames in, frames out.

use crate::action::{act, tool_of};
use crate::settings::{stop_ids, turn_ends};
use crate::{ActionError, AgentError, Generator, Registry, Request, RunStop, Settings};
use formats::agenticml::{ParseError, PayloadError, Reading, View, parse, render};
use formats::schema::with_tool_obs;
use formats::{Frame, FrameKind, Policy, Trajectory, Value};
use std::fmt;
use tokens::{Arm, Llama3Tokenizer, marker_id, read_generated, view};

/// A frame that the model wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFrame {
    /// The frame. Its content is null when there is an error.
    pub frame: Frame,
    /// The text behind its marker.
    pub raw: String,
    /// Why its content could not be read.
    pub error: Option<PayloadError>,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum StepStop {
    /// With the `end` marker.
    End,
    /// With an end of sequence or of turn instead ([`Policy::Safe`]; the reference takes it for text
    /// and calls this `other`).
    EndOfSequence,
    /// It was cut off.
    MaxTokens,
    /// Neither.
    Other,
    /// It is no sequence of frames, or has one that only the runtime may write.
    ParseError(ParseError),
    /// A frame's content is not what it must be ([`Policy::Safe`]).
    Unreadable {
        /// Index among the turn's frames.
        frame: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its content cannot be read.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// It is an action that cannot be carried out.
    #[error(transparent)]
    Action(#[from] ActionError),
}

impl fmt::Display for StepStop {
    /// As the reference names it, where it knows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str(FrameKind::End.reserved()),
            Self::EndOfSequence => f.write_str("end_of_sequence"),
            Self::MaxTokens => f.write_str("max_tokens"),
            Self::Other => f.write_str("other"),
            Self::ParseError(error) => write!(f, "parse_error: {error}"),
            Self::Unreadable { frame, fault } => write!(f, "unreadable: frame {frame}: {fault}"),
        }
    }
}

/// One turn of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The prompt's ids.
    pub prompt: Vec<u32>,
    /// The generated ids.
    pub ids: Vec<u32>,
    /// Their text.
    pub text: String,
    /// The frames in it, as far as they could be read.
    pub frames: Vec<StepFrame>,
    /// Why it ended.
    pub stop: StepStop,
    /// Whether the frames were taken into the trajectory: all of them or none.
    pub taken: bool,
    /// The trajectory with the frames, if they were taken.
    pub trajectory: Trajectory,
}

/// Lets the model write one turn.
///
/// # Errors
/// When the trajectory cannot be written, or generation fails.
pub async fn step<G: Generator>(
    tokenizer: &Llama3Tokenizer,
    generator: &mut G,
    trajectory: &Trajectory,
    settings: &Settings,
) -> Result<Step, AgentError<G::Error>> {
    let rendering = render(trajectory, View::Reserved)?;
    let prompt = view(tokenizer, &rendering, Arm::AgenticMl, settings.policy).ids();
    let ids = generator
        .generate(Request {
            prompt: &prompt,
            stops: &stop_ids(tokenizer, settings.stops.agenticml_stops(), settings),
            max_new_tokens: settings.max_new_tokens,
        })
        .await
        .map_err(AgentError::Generator)?;
    Ok(read_step(tokenizer, trajectory, prompt, ids, settings))
}

/// What a turn's ids mean.
///
/// Under [`Policy::Reference`] the decoded text is parsed: text that spells a marker is one, an end of
/// sequence is text, and frames with errors are taken. Under [`Policy::Safe`] the ids are read, and a
/// turn with a frame that cannot be read or carried out changes nothing.
pub fn read_step(
    tokenizer: &Llama3Tokenizer,
    trajectory: &Trajectory,
    prompt: Vec<u32>,
    ids: Vec<u32>,
    settings: &Settings,
) -> Step {
    let text = tokenizer.decode(&ids);
    let (frames, stop, taken) = match settings.policy {
        Policy::Reference => read_text(&text, &ids, settings),
        Policy::Safe => read_ids(tokenizer, &ids, settings),
    };
    let mut trajectory = trajectory.clone();
    if taken {
        let frames = frames.iter().map(|f| f.frame.clone());
        trajectory.frames.extend(frames);
    }
    Step {
        prompt,
        ids,
        text,
        frames,
        stop,
        taken,
        trajectory,
    }
}

/// Frames, why the turn ended, and whether it is taken.
pub(crate) type Read = (Vec<StepFrame>, StepStop, bool);

fn read_text(text: &str, ids: &[u32], settings: &Settings) -> Read {
    let reading = Reading {
        view: View::Reserved,
        strict: settings.strict,
        policy: Policy::Reference,
    };
    let frames = match parse(text, &reading) {
        Ok(frames) => frames,
        Err(error) => return (Vec::new(), StepStop::ParseError(error), false),
    };
    let stop = if ids.last() == Some(&marker_id(FrameKind::End)) {
        StepStop::End
    } else if ids.len() >= settings.max_new_tokens {
        StepStop::MaxTokens
    } else {
        StepStop::Other
    };
    let frames = frames.into_iter().map(|f| StepFrame {
        frame: f.frame,
        raw: f.raw,
        error: f.error,
    });
    (frames.collect(), stop, true)
}

fn read_ids(tokenizer: &Llama3Tokenizer, ids: &[u32], settings: &Settings) -> Read {
    let ends = turn_ends(tokenizer, &settings.stops);
    let read = read_generated(tokenizer, ids, settings.strict, &ends);
    let ended = Ended {
        last_is_open: read.frames.last().is_some_and(|frame| !frame.closed),
        by_stop: read.stopped_by.is_some(),
        cut: ids.len() >= settings.max_new_tokens,
    };
    let frames: Vec<StepFrame> = read
        .frames
        .into_iter()
        .map(|f| StepFrame {
            frame: f.frame,
            raw: f.raw,
            error: f.error,
        })
        .collect();
    judge(frames, read.error, ended)
}

/// How a turn that was read from ids ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Nothing closed its last frame.
    pub last_is_open: bool,
    /// An end of sequence or turn ended it.
    pub by_stop: bool,
    /// There was no room for more.
    pub cut: bool,
}

/// What frames that were read from ids amount to, under [`Policy::Safe`].
pub(crate) fn judge(frames: Vec<StepFrame>, error: Option<ParseError>, ended: Ended) -> Read {
    if let Some(error) = error {
        return (frames, StepStop::ParseError(error), false);
    }
    let stop = if frames
        .last()
        .is_some_and(|f| f.frame.kind == FrameKind::End)
    {
        StepStop::End
    } else if ended.by_stop {
        StepStop::EndOfSequence
    } else if ended.cut {
        StepStop::MaxTokens
    } else {
        StepStop::Other
    };
    let faults = frames.iter().enumerate();
    let fault = faults
        .filter_map(|(index, frame)| Some((index, fault(frame)?)))
        .next();
    match fault {
        None => (frames, stop, true),
        // The rest of it was cut off: that is what is wrong.
        Some((index, _))
            if stop == StepStop::MaxTokens && ended.last_is_open && index + 1 == frames.len() =>
        {
            (frames, stop, false)
        }
        Some((frame, fault)) => (frames, StepStop::Unreadable { frame, fault }, false),
    }
}

/// What is wrong with a frame, under [`Policy::Safe`].
pub(crate) fn fault(frame: &StepFrame) -> Option<Fault> {
    if let Some(error) = &frame.error {
        return Some(Fault::Payload(error.clone()));
    }
    if frame.frame.kind != FrameKind::Action {
        return None;
    }
    let tool = tool_of(&frame.frame.content, Policy::Safe);
    tool.err().map(Fault::Action)
}

/// A run to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Everything that happened.
    pub trajectory: Trajectory,
    /// Why it ended.
    pub stop: RunStop<StepStop>,
    /// Number of model turns.
    pub iterations: usize,
    /// The text of the `answer`, whatever its type; null without one.
    pub answer: Value,
    /// Ids of all prompts.
    pub prompt_tokens: usize,
    /// Ids generated.
    pub generated_tokens: usize,
}

/// Lets the model work until it answers, gives up, or cannot go on. Tools are listed in an obs frame
/// first, unless one does so already. Results come behind all frames of their turn.
///
/// # Errors
/// When the trajectory cannot be written or generation fails; under [`Policy::Reference`] also when an
/// action cannot be carried out.
pub async fn run<G: Generator>(
    tokenizer: &Llama3Tokenizer,
    generator: &mut G,
    trajectory: &Trajectory,
    tools: &mut Registry,
    settings: &Settings,
) -> Result<Run, AgentError<G::Error>> {
    let mut run = Run {
        trajectory: with_tool_obs(trajectory, &tools.schemas())?,
        stop: RunStop::MaxIterations,
        iterations: 0,
        answer: Value::Null,
        prompt_tokens: 0,
        generated_tokens: 0,
    };
    while run.iterations < settings.max_iterations {
        let step = step(tokenizer, generator, &run.trajectory, settings).await?;
        run.iterations += 1;
        run.prompt_tokens += step.prompt.len();
        run.generated_tokens += step.ids.len();
        run.trajectory = step.trajectory;
        if !step.taken {
            run.stop = match step.stop {
                StepStop::MaxTokens => RunStop::MaxTokens,
                stop => RunStop::Unusable(stop),
            };
            break;
        }
        let frames = step.frames.iter().map(|f| &f.frame);
        if !frames.clone().any(|f| f.kind == FrameKind::Action) {
            // The reference does not look at whether a turn without action was cut off.
            let cut = settings.policy == Policy::Safe && step.stop == StepStop::MaxTokens;
            run.stop = if cut {
                RunStop::MaxTokens
            } else {
                RunStop::NoAction
            };
            break;
        }
        let acted = act(frames, tools, settings.policy)?;
        run.trajectory.frames.extend(acted.results);
        if acted.terminal {
            run.stop = RunStop::Terminal;
            run.answer = acted.answer;
            break;
        }
        if step.stop == StepStop::MaxTokens {
            run.stop = RunStop::MaxTokens;
            break;
        }
    }
    Ok(run)
}
