//! How far a long task is, on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two drawings of the bar.
const FRAME: Duration = Duration::from_millis(100);
/// Time between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(10);
/// Characters of the bar.
const BAR: usize = 24;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Tokens,
}

impl Unit {
    fn text(self, count: u64) -> String {
        match self {
            Self::Bytes => bytes(count),
            Self::Tokens => format!("{count} tokens"),
        }
    }
}

/// A bar on a terminal, a line now and then elsewhere.
pub struct Progress {
    what: &'static str,
    unit: Unit,
    total: u64,
    done: u64,
    /// What was there already and says nothing about the rate.
    skipped: u64,
    start: Instant,
    shown: Instant,
    terminal: bool,
}

impl Progress {
    /// For a task on `total` bytes, called `what`.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self::of(Unit::Bytes, what, total)
    }

    /// For a task on something else.
    pub fn of(unit: Unit, what: &'static str, total: u64) -> Self {
        let now = Instant::now();
        Self {
            what,
            unit,
            total,
            done: 0,
            skipped: 0,
            start: now,
            shown: now,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// What needs no work.
    pub fn skip(&mut self, bytes: u64) {
        self.skipped += bytes;
        self.done += bytes;
    }

    /// What is done.
    pub fn add(&mut self, bytes: u64) {
        self.done += bytes;
        let due = if self.terminal { FRAME } else { LINE };
        if self.shown.elapsed() >= due {
            self.shown = Instant::now();
            self.show();
        }
    }

    /// How much work was needed for, and the seconds that it took.
    pub fn finish(self) -> (u64, f64) {
        if self.terminal {
            // Clears the line.
            eprint!("\r\x1b[K");
        }
        (self.done - self.skipped, self.start.elapsed().as_secs_f64())
    }

    fn show(&self) {
        let text = self.text(self.start.elapsed().as_secs_f64());
        // A terminal that is gone is no reason to stop.
        let mut out = std::io::stderr().lock();
        let shown = if self.terminal {
            write!(out, "\r{text}\x1b[K").and_then(|()| out.flush())
        } else {
            writeln!(out, "{text}")
        };
        drop(shown);
    }

    fn text(&self, seconds: f64) -> String {
        let share = if self.total == 0 {
            1.0
        } else {
            self.done as f64 / self.total as f64
        };
        let rate = (self.done - self.skipped) as f64 / seconds.max(1e-3);
        let mut text = format!("{} ", self.what);
        if self.terminal {
            let filled = (share * BAR as f64) as usize;
            let (filled, empty) = ("#".repeat(filled), ".".repeat(BAR - filled));
            text += &format!("[{filled}{empty}] ");
        }
        text += &format!(
            "{:3.0} %, {} of {}, {}/s",
            share * 100.0,
            self.unit.text(self.done),
            self.unit.text(self.total),
            self.unit.text(rate as u64)
        );
        if rate > 0.0 {
            let left = (self.total - self.done.min(self.total)) as f64 / rate;
            text += &format!(", {} left", time(left));
        }
        text
    }
}

/// A size as people read it: `4.7 GB`, in powers of ten.
pub fn bytes(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let value = bytes as f64;
    // Where rounding would show a thousand of one unit, the next one is used.
    let unit = units.into_iter().find(|(unit, _)| value >= unit * 0.9995);
    match unit {
        Some((unit, name)) if value / unit < 9.995 => format!("{:.2} {name}", value / unit),
        Some((unit, name)) if value / unit < 99.95 => format!("{:.1} {name}", value / unit),
        Some((unit, name)) => format!("{:.0} {name}", value / unit),
        None => format!("{bytes} bytes"),
    }
}

fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (size, text) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1000, "1.00 kB"),
            (999_700, "1.00 MB"),
            (67_108_864, "67.1 MB"),
            (4_700_000_000, "4.70 GB"),
            (160_000_000_000, "160 GB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn the_rate_does_not_count_what_was_there() {
        let mut progress = Progress::new("Converting", 1000);
        progress.terminal = false;
        progress.skip(500);
        progress.done += 100;
        assert_eq!(
            progress.text(2.0),
            "Converting  60 %, 600 bytes of 1.00 kB, 50 bytes/s, 8 s left"
        );
        progress.unit = Unit::Tokens;
        assert!(
            progress
                .text(2.0)
                .contains("600 tokens of 1000 tokens, 50 tokens/s")
        );
        progress.terminal = true;
        assert!(progress.text(2.0).contains("[##############..........]"));
        assert_eq!(
            (time(118.5), time(200.0), time(7200.0)),
            ("119 s".into(), "4 min".into(), "2 h".into())
        );
    }
}
