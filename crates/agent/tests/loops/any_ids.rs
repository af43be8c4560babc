//! Whatever ids a model comes up with, under the safe policy the loop can go on from there.

use crate::common::tokenizer;
use agent::{Registry, Settings, act, agenticml, chatml};
use formats::agenticml::{View, render};
use formats::chatml::Options;
use formats::{Conversation, Frame, FrameKind, Message, Policy, Trajectory};
use tokens::StopFacts;

/// Texts whose ids outputs are put together from; special tokens in them are real.
const PIECES: &[&str] = &[
    "<|reserved_special_token_3|>",
    "<|reserved_special_token_5|>",
    "<|reserved_special_token_6|>",
    "<|reserved_special_token_6|>{\"tool\": \"f\", \"x\": 1}",
    "<|reserved_special_token_6|>{\"tool\": \"answer\", \"text\": \"t\"}",
    "<|reserved_special_token_6|>null",
    "<|reserved_special_token_6|>[1]",
    "<|reserved_special_token_7|>",
    "<|reserved_special_token_8|>{}",
    "<|reserved_special_token_10|>1",
    "<|reserved_special_token_11|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "<|begin_of_text|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "{\"name\": \"f\", \"parameters\": {}}",
    "{\"name\": \"f\", \"arguments\": \"[1]\"}",
    "{\"a\": 1}",
    "{",
    "words ",
    "\n",
    "🙂",
];

pub struct Numbers(u64);

impl Numbers {
    /// Numbers that depend on this seed alone.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Ids as a model might write them.
    pub fn output(&mut self) -> Vec<u32> {
        let mut ids = Vec::new();
        for _ in 0..self.below(8) {
            if self.below(6) == 0 {
                // Any id at all, also half a character and ids outside the vocabulary.
                ids.push(self.below(128_300) as u32);
            } else {
                ids.extend(tokenizer().encode_trusted(PIECES[self.below(PIECES.len())]));
            }
        }
        ids
    }
}

#[test]
fn frames_that_were_taken_can_be_written_again() {
    let frames = vec![Frame::new(FrameKind::Goal, "g")];
    let start = Trajectory { frames };
    let mut numbers = Numbers(1);
    let mut taken = 0;
    for round in 0..20_000 {
        let ids = numbers.output();
        let settings = Settings {
            strict: round % 2 == 0,
            max_new_tokens: 24,
            ..Settings::default()
        };
        let step = agenticml::read_step(tokenizer(), &start, Vec::new(), ids.clone(), &settings);
        assert!(render(&step.trajectory, View::Reserved).is_ok(), "{ids:?}");
        let frames = step.frames.iter().map(|frame| &frame.frame);
        if step.taken {
            taken += 1;
            let acted = act(frames, &mut Registry::default(), Policy::Safe);
            assert!(acted.is_ok(), "{ids:?}");
        } else {
            assert_eq!(step.trajectory, start, "{ids:?}");
        }
        let settings = Settings {
            policy: Policy::Reference,
            ..settings
        };
        agenticml::read_step(tokenizer(), &start, Vec::new(), ids, &settings);
    }
    assert!(taken > 1_000, "{taken}");
}

#[test]
fn messages_that_were_taken_can_be_written_again() {
    let start = Conversation::new(vec![Message::new("user", "m")]);
    let mut numbers = Numbers(2);
    let mut calls = 0;
    for _ in 0..20_000 {
        let ids = numbers.output();
        let settings = Settings {
            max_new_tokens: 24,
            stops: StopFacts::LLAMA31_INSTRUCT,
            ..Settings::default()
        };
        let read = |settings: &Settings| {
            chatml::read_step(
                tokenizer(),
                start.clone(),
                Vec::new(),
                ids.clone(),
                settings,
            )
        };
        let step = read(&settings).expect("no failure under the safe policy");
        let written = formats::chatml::render(&step.conversation, &Options::default());
        assert!(written.is_ok(), "{ids:?}");
        let message = step.message.as_ref().map_or("", Message::text);
        assert!(!message.contains("<|eot_id|>"), "{ids:?}");
        calls += usize::from(step.call.is_some());
        let settings = Settings {
            policy: Policy::Reference,
            ..settings
        };
        let _ = read(&settings);
    }
    assert!(calls > 100, "{calls}");
}
