//! The `step` buffer: what changes from one forward pass to the next.
//!
//! | words | meaning |
//! |---|---|
//! | 0 | tokens of this pass |
//! | 1 | position of the first of them |
//! | 2 | bits of the temperature (`f32`) |
//! | 3 | top-k; 0 keeps all |
//! | 4 | bits of top-p (`f32`) |
//! | 5 | bits of min-p (`f32`) |
//! | 6, 7 | seed, low word first |
//! | 8 | index of the token in its generation |
//! | 16 and on | per token of the pass `head_dim / 2` pairs of cosine and sine (`f32`) |

/// First word of the rotations; a multiple of four words, so that they can be read in pairs.
pub(crate) const ROTATIONS: usize = 16;

/// Words for passes of at most `tokens` tokens.
pub(crate) fn words(tokens: usize, head_dim: usize) -> usize {
    ROTATIONS + tokens * head_dim
}
