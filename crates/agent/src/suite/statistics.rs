//! What may be said about a rate that was counted.

/// The 97.5 % point of the standard normal distribution: 95 % lie within it on both sides.
const Z: f64 = 1.959_963_984_540_054;

/// The Wilson score interval, at 95 %, of a rate of which `successes` of `trials` were counted, as
/// shares from 0 to 1. `None` without trials, or with more successes than trials.
///
/// Unlike the textbook interval around the rate itself it stays within 0 and 1, and says something
/// where nothing (or everything) succeeded.
pub fn wilson(successes: u64, trials: u64) -> Option<(f64, f64)> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (k, n) = (successes as f64, trials as f64);
    let rate = k / n;
    let square = Z * Z;
    let middle = rate + square / (2.0 * n);
    let reach = Z * (rate * (1.0 - rate) / n + square / (4.0 * n * n)).sqrt();
    let scale = 1.0 + square / n;
    // Exact where rounding would miss the end by a hair.
    let low = if successes == 0 {
        0.0
    } else {
        (middle - reach) / scale
    };
    let high = if successes == trials {
        1.0
    } else {
        (middle + reach) / scale
    };
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::wilson;

    fn close(found: Option<(f64, f64)>, low: f64, high: f64) {
        let (l, h) = found.expect("an interval");
        assert!((l - low).abs() < 5e-6, "{l} is not {low}");
        assert!((h - high).abs() < 5e-6, "{h} is not {high}");
    }

    /// Newcombe 1998 (Statistics in Medicine 17, 857–872), table I, method 3, gives four digits.
    #[test]
    fn published_examples() {
        let rounded = |k, n| {
            wilson(k, n).map(|(low, high)| {
                let round = |share: f64| (share * 1e4).round() / 1e4;
                (round(low), round(high))
            })
        };
        assert_eq!(rounded(81, 263), Some((0.2553, 0.3662)));
        assert_eq!(rounded(15, 148), Some((0.0624, 0.1605)));
        assert_eq!(rounded(0, 20), Some((0.0, 0.1611)));
        assert_eq!(rounded(1, 29), Some((0.0061, 0.1718)));
    }

    #[test]
    fn counts_of_the_published_study() {
        close(wilson(2, 45), 0.012_274, 0.148_275);
        close(wilson(27, 45), 0.454_519, 0.729_751);
        close(wilson(0, 10), 0.0, 0.277_533);
    }

    #[test]
    fn both_ends_mirror_each_other() {
        for n in 1..60 {
            for k in 0..=n {
                let (low, high) = wilson(k, n).expect("an interval");
                let (low2, high2) = wilson(n - k, n).expect("an interval");
                assert!((low + high2 - 1.0).abs() < 1e-12 && (high + low2 - 1.0).abs() < 1e-12);
                let rate = k as f64 / n as f64;
                assert!(0.0 <= low && low <= rate && rate <= high && high <= 1.0);
            }
        }
    }

    #[test]
    fn nothing_without_trials() {
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(3, 2), None);
    }
}
