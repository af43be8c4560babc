//! A prompt in, tokens out.

use formats::template::{ChatTemplate, TemplateInput};
use model::{Network, Sampling as Choice, SessionError};
use tokens::model::ModelTokenizer;
use web_time::Instant;

use super::failure::{internal, session_failure};
use super::pause::Pauses;
use super::{Model, StopFlag};
use crate::protocol::{
    Alternative, Event, Failure, FailureKind, Outlook, Prompt, Sampling, Side, Stats, StopReason,
};

/// The date that chat templates are given: the constant that Llama 3.1's own template falls back
/// on, so that the same conversation always gives the same tokens.
const TEMPLATE_DATE: &str = "26 Jul 2024";

/// What to generate; see [`crate::protocol::Request::Generate`].
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Carried by every answer.
    pub job: u32,
    /// Whose model it is.
    pub side: Side,
    /// What to continue.
    pub prompt: &'a Prompt,
    /// How the next token is chosen.
    pub sampling: &'a Sampling,
    /// At most this many new tokens.
    pub max_tokens: u32,
    /// Ids that end the output besides the model's own.
    pub stops: &'a [u32],
    /// Alternatives to tell with each token; 0 for no outlook.
    pub alternatives: u32,
}

impl<N: Network> Model<N> {
    pub(super) async fn generate(
        &mut self,
        order: &Order<'_>,
        stop: &StopFlag,
        emit: &dyn Fn(Event),
    ) -> Result<(), Failure> {
        let Order {
            job,
            sampling,
            max_tokens,
            stops,
            ..
        } = *order;
        let start = Instant::now();
        let ids = self.encode(order.prompt)?;
        let Self {
            session, tokenizer, ..
        } = self;
        let pieces = ids.iter().map(|id| tokenizer.piece_text(*id)).collect();
        emit(Event::Prompt {
            job,
            ids: ids.clone(),
            pieces,
            reused: session.reusable(&ids) as u32,
        });
        let choice = Choice {
            temperature: sampling.temperature,
            top_k: sampling.top_k as usize,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: sampling.seed,
        };
        let mut stats = Stats {
            prompt_tokens: ids.len() as u32,
            ..Stats::default()
        };
        let finish = |reason, stats: Stats| emit(Event::Finished { job, reason, stats });
        let failed = |error: SessionError| session_failure(&error);
        let mut pauses = Pauses::new();
        let complete = loop {
            // One chunk at a time: what was done stays in the cache.
            let mut chunks = 1..=1;
            let prefill = session
                .prefill(&ids, |_| chunks.next().is_some() && !stop.is_raised())
                .await
                .map_err(failed)?;
            if prefill.complete || stop.is_raised() {
                break prefill.complete;
            }
            pauses.breathe().await;
        };
        if !complete || max_tokens == 0 {
            let reason = if complete {
                StopReason::MaxTokens
            } else {
                StopReason::Stopped
            };
            finish(reason, stats);
            return Ok(());
        }
        let mut decoder = tokenizer.stream();
        let mut first = None;
        let reason = loop {
            let index = u64::from(stats.new_tokens);
            let (id, outlook) = if order.alternatives > 0 {
                let count = order.alternatives as usize;
                let next = session.next_with_outlook(&choice, index, count).await;
                let (id, outlook) = next.map_err(failed)?;
                (id, Some(told(tokenizer, &outlook)))
            } else {
                let more = stats.new_tokens + 1 < max_tokens;
                let next = session.next(&choice, index, more).await;
                (next.map_err(failed)?, None)
            };
            let now = Instant::now();
            let since_first = first.map_or(0.0, |first: Instant| (now - first).as_secs_f64());
            if first.is_none() {
                first = Some(now);
                stats.first_token_seconds = (now - start).as_secs_f64();
            }
            if since_first > 0.0 {
                stats.tokens_per_second = f64::from(stats.new_tokens) / since_first;
            }
            stats.new_tokens += 1;
            let special = tokenizer.is_special(id);
            let text = if special {
                // A special token ends any unfinished character before it.
                decoder.finish() + &tokenizer.piece_text(id)
            } else {
                decoder.push(id)
            };
            emit(Event::Token {
                job,
                id,
                text,
                special,
                rate: stats.tokens_per_second,
                outlook,
            });
            if tokenizer.is_stop(id) || stops.contains(&id) {
                break StopReason::StopToken;
            }
            if stats.new_tokens >= max_tokens {
                break StopReason::MaxTokens;
            }
            pauses.breathe().await;
            if stop.is_raised() {
                break StopReason::Stopped;
            }
            if ids.len() + stats.new_tokens as usize > session.capacity() {
                break StopReason::ContextFull;
            }
        };
        finish(reason, stats);
        Ok(())
    }

    fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, Failure> {
        let refuse = |message: String, advice: &str| Failure {
            kind: FailureKind::BadRequest,
            message,
            advice: advice.to_owned(),
        };
        match prompt {
            Prompt::Ids { ids } => Ok(ids.clone()),
            Prompt::Text { text } => self.tokenize(text),
            Prompt::Messages { json } => {
                let Some(source) = &self.template else {
                    return Err(refuse(
                        "this model file carries no chat template".to_owned(),
                        "Write the prompt as plain text instead.",
                    ));
                };
                let messages: serde_json::Value = serde_json::from_str(json).map_err(|error| {
                    refuse(
                        format!("the messages are not valid JSON: {error}"),
                        "Mend the JSON.",
                    )
                })?;
                let name =
                    |id: Option<u32>| id.map_or(String::new(), |id| self.tokenizer.piece_text(id));
                let input = TemplateInput {
                    bos_token: name(self.tokenizer.bos()),
                    eos_token: name(self.tokenizer.eos()),
                    add_generation_prompt: true,
                    date: TEMPLATE_DATE.to_owned(),
                    tools: None,
                };
                let text = ChatTemplate::new(source)
                    .and_then(|template| template.render(&messages, &input))
                    .map_err(|error| {
                        refuse(
                            format!("the model's own chat template refused the messages: {error}"),
                            "Change the messages (many templates want user and assistant in turn), \
                             or write the prompt as plain text.",
                        )
                    })?;
                // The template writes BOS itself where the model wants one.
                self.tokenize(&text)
            }
        }
    }

    fn tokenize(&self, text: &str) -> Result<Vec<u32>, Failure> {
        self.tokenizer
            .encode(text, true)
            .map_err(|error| internal(&error.to_string()))
    }
}

/// An outlook with the texts of its tokens.
fn told(tokenizer: &ModelTokenizer, outlook: &model::sampling::Outlook) -> Outlook {
    Outlook {
        probability: outlook.probability,
        entropy: outlook.entropy,
        alternatives: outlook
            .top
            .iter()
            .map(|&(id, probability)| Alternative {
                id,
                piece: tokenizer.piece_text(id),
                special: tokenizer.is_special(id),
                probability,
            })
            .collect(),
    }
}
