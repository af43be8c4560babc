//! Figures of a loaded model.

use model::{Network, Sampling as Choice, SessionError};
use web_time::Instant;

use super::{Backend, Model, wasm_bytes};
use crate::protocol::Measures;

/// Runs a prompt of pseudo-random ids and greedy tokens after it, once to warm up and once for the clock.
pub(super) async fn measure<B: Backend>(
    model: &mut Model<B::Network>,
    backend: &B,
    prompt_tokens: u32,
    decode_tokens: u32,
) -> Result<Measures, SessionError> {
    let session = &mut model.session;
    let vocab = session.network().config().vocab as u32;
    let decode = u64::from(decode_tokens.max(1));
    // Any ids do; a multiplicative walk visits rows of the embedding all over the table.
    let mut prompt: Vec<u32> = (0..prompt_tokens.max(1))
        .map(|i| i.wrapping_mul(2_654_435_761) % vocab)
        .collect();
    let mut run = async |prompt: &[u32], decode: u64| {
        let start = Instant::now();
        session.prefill(prompt, |_| true).await?;
        session.next(&Choice::GREEDY, 0, true).await?;
        let first = start.elapsed().as_secs_f64();
        let before = backend.counts();
        let start = Instant::now();
        for index in 1..=decode {
            session.next(&Choice::GREEDY, index, true).await?;
        }
        let rest = start.elapsed().as_secs_f64();
        let (launches, submits) = backend.counts();
        Ok::<_, SessionError>((first, rest, launches - before.0, submits - before.1))
    };
    run(&prompt, 2).await?;
    // Another first token, so that nothing of the warm-up is reused.
    prompt[0] = (prompt[0] + 1) % vocab;
    let (prefill, rest, launches, submits) = run(&prompt, decode).await?;
    if let Some(last) = prompt.last_mut() {
        *last = (*last + 1) % vocab;
    }
    let (first_token, ..) = run(&prompt, 1).await?;
    let measures = Measures {
        load_ms: model.load_seconds * 1e3,
        prefill_tokens_per_second: prompt.len() as f64 / prefill,
        decode_tokens_per_second: decode as f64 / rest,
        first_token_ms: first_token * 1e3,
        launches_per_token: launches as f64 / decode as f64,
        submits_per_token: submits as f64 / decode as f64,
        bytes_per_token: B::bytes_per_token(model.session.network()),
        wasm_bytes: wasm_bytes(),
    };
    model.session.clear();
    Ok(measures)
}
