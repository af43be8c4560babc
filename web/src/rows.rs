//! Which frame stands opposite which message: the rows of the facing pages.

use std::ops::Range;

/// Assigns parts in wire order to rows, never going back: a part that names no row stays in the
/// row before it.
pub fn assign(wanted: impl IntoIterator<Item = Option<usize>>, rows: usize) -> Vec<usize> {
    let last = rows.saturating_sub(1);
    let mut row = 0;
    wanted
        .into_iter()
        .map(|wanted| {
            row = wanted.unwrap_or(row).clamp(row, last.max(row));
            row
        })
        .collect()
}

/// The range of parts in each row, from [`assign`]'s answer.
pub fn ranges(assigned: &[usize], rows: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    (0..rows)
        .map(|row| {
            let end = start
                + assigned[start..]
                    .iter()
                    .take_while(|&&at| at <= row)
                    .count();
            let range = start..end;
            start = end;
            range
        })
        .collect()
}

/// For every frame the row of the first message it is part of. A frame in no message goes with the
/// frame before it; one that leads goes with the first that has a message.
pub fn of_frames(frames: usize, messages: &[Vec<usize>]) -> Vec<usize> {
    let mut wanted = vec![None; frames];
    for (row, in_message) in messages.iter().enumerate() {
        for &frame in in_message {
            if let Some(slot) = wanted.get_mut(frame) {
                slot.get_or_insert(row);
            }
        }
    }
    assign(wanted, messages.len())
}

/// Consecutive parts that look alike.
pub fn runs<K: PartialEq + Copy>(
    parts: impl IntoIterator<Item = K>,
    first: usize,
) -> Vec<(K, Range<usize>)> {
    let mut runs: Vec<(K, Range<usize>)> = Vec::new();
    for (at, key) in parts.into_iter().enumerate() {
        let at = first + at;
        match runs.last_mut() {
            Some((last, range)) if *last == key => range.end = at + 1,
            _ => runs.push((key, at..at + 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stand_opposite_their_message() {
        // goal + obs, mission, action + end, result, belief + action + end
        let messages = [vec![0, 1], vec![2], vec![3, 4], vec![5], vec![6, 7, 8]];
        let rows = of_frames(9, &messages);
        assert_eq!(rows, [0, 0, 1, 2, 2, 3, 4, 4, 4]);
        assert_eq!(ranges(&rows, 5), [0..2, 2..3, 3..5, 5..6, 6..9]);
    }

    #[test]
    fn order_is_kept_when_messages_are_not_in_frame_order() {
        let rows = of_frames(4, &[vec![1], vec![0], vec![3]]);
        assert_eq!(rows, [1, 1, 1, 2]);
        assert_eq!(ranges(&rows, 3), [0..0, 0..3, 3..4]);
    }

    #[test]
    fn no_message_is_one_empty_answer() {
        assert_eq!(of_frames(2, &[]), [0, 0]);
        assert_eq!(ranges(&[0, 0], 2), [0..2, 2..2]);
        assert_eq!(ranges(&[], 2), [0..0, 0..0]);
    }

    #[test]
    fn runs_join_equals() {
        assert_eq!(runs("aab".chars(), 5), [('a', 5..7), ('b', 7..8)]);
    }
}
