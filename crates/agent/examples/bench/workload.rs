//! What is timed.

use formats::json::Object;
use formats::{Frame, FrameKind, Policy, Trajectory, agenticml, bridge, chatml};
use std::error::Error;
use tokens::{Arm, Llama3Tokenizer, TokenView, view};

/// Tokens of the trajectory, at least.
const TOKENS: usize = 2_048;

/// Renders, tokenises and masks.
pub fn arm_view(
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
pub fn trajectory(tokenizer: &Llama3Tokenizer) -> Result<Trajectory, Box<dyn Error>> {
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
