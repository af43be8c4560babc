//! A file's tensors, read once and in order.

use weights::ByteSource;

use crate::config::{Config, Pairing};
use crate::plan::{LoadError, Plan, Role, Tensor};

/// Bytes of a file that are held at once while loading.
const CHUNK_BYTES: usize = 4 << 20;

/// What takes a model's tensors while they arrive.
#[expect(
    async_fn_in_trait,
    reason = "everything here runs on one thread; no future is sent to another"
)]
pub trait Sink {
    /// Takes consecutive rows of a tensor, in the file's own blocks; `first` is the first of them.
    ///
    /// Rows of query and key projections come in the order of adjacent rotary pairs, whatever the
    /// file's pairing is.
    async fn rows(&mut self, tensor: &Tensor, first: usize, bytes: &[u8]) -> Result<(), LoadError>;
}

/// Reads all tensors of `plan` from `source` into `sink`, a few MiB at a time. Returns the model's
/// shape, with the rotary divisors that the file may hold.
///
/// `progress` is told the file offset reached, and stops the reading by returning false.
///
/// # Errors
/// [`LoadError`]: of the source, of the sink, or [`LoadError::Stopped`].
pub async fn stream<S: ByteSource, K: Sink>(
    source: &mut S,
    plan: &Plan,
    sink: &mut K,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Config, LoadError> {
    let mut config = plan.config.clone();
    let mut bytes = Vec::new();
    let mut sorted = Vec::new();
    for tensor in &plan.tensors {
        let row_bytes = tensor.row_bytes();
        if tensor.role == Role::RopeDivisors {
            bytes.clear();
            source.read(tensor.offset, &mut bytes, row_bytes).await?;
            config.rope.divisors = Some(divisors(tensor, &bytes)?);
            continue;
        }
        let halves = config.rope.pairing == Pairing::Halves && tensor.role.is_rotated();
        let unit = if halves { config.head_dim } else { 1 };
        let step = (CHUNK_BYTES / row_bytes / unit).max(1) * unit;
        for first in (0..tensor.rows).step_by(step) {
            let count = step.min(tensor.rows - first);
            let offset = tensor.offset + (first * row_bytes) as u64;
            bytes.clear();
            source.read(offset, &mut bytes, count * row_bytes).await?;
            let rows = if halves {
                adjacent_pairs(&bytes, row_bytes, config.head_dim, &mut sorted);
                &sorted
            } else {
                &bytes
            };
            sink.rows(tensor, first, rows).await?;
            if !progress(offset + bytes.len() as u64) {
                return Err(LoadError::Stopped);
            }
        }
    }
    progress(source.size().unwrap_or_default());
    Ok(config)
}

/// The numbers of a tensor of rotary divisors.
pub(crate) fn divisors(tensor: &Tensor, bytes: &[u8]) -> Result<Vec<f32>, LoadError> {
    let divisors = tensor.floats(bytes)?;
    if let Some(wrong) = divisors.iter().find(|d| !d.is_finite() || **d <= 0.0) {
        return Err(LoadError::Inconsistent(format!(
            "{} holds {wrong}, which divides no frequency",
            tensor.name
        )));
    }
    Ok(divisors)
}

/// Reorders the rows of whole heads: rotary pairs that are half a head apart become neighbours.
fn adjacent_pairs(rows: &[u8], row_bytes: usize, head_dim: usize, sorted: &mut Vec<u8>) {
    sorted.clear();
    for head in rows.chunks_exact(row_bytes * head_dim) {
        for pair in 0..head_dim / 2 {
            for row in [pair, pair + head_dim / 2] {
                sorted.extend_from_slice(&head[row * row_bytes..][..row_bytes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_neighbours() {
        let rows: Vec<u8> = (0..16).collect();
        let mut sorted = Vec::new();
        adjacent_pairs(&rows, 2, 4, &mut sorted);
        assert_eq!(
            sorted,
            [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]
        );
    }
}
