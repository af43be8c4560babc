//! How the software-engineering suite shows a command's output, and when it gives up.

/// Output of this many characters or more is shown in part.
const LONG: usize = 10_000;
/// Characters shown of each end of a long output.
const SHOWN: usize = 5_000;

/// A command's output as the model gets to see it. `code` is the exit status in words.
pub fn show(output: &str, code: &str) -> String {
    let length = output.chars().count();
    if length < LONG {
        return format!("<returncode>{code}</returncode>\n<output>\n{output}</output>");
    }
    let place = |chars: usize| {
        let mut places = output.char_indices().skip(chars);
        places.next().map_or(output.len(), |(at, _)| at)
    };
    let (head, tail) = (&output[..place(SHOWN)], &output[place(length - SHOWN)..]);
    let elided = length - 2 * SHOWN;
    format!(
        "<returncode>{code}</returncode>\n<warning>The output of your last command was too long. Try a \
         more selective command.</warning>\n<output_head>\n{head}</output_head>\n<elided_chars>{elided} \
         characters elided</elided_chars>\n<output_tail>\n{tail}</output_tail>"
    )
}

/// Notices a command given several times running.
#[derive(Clone, Debug)]
pub struct Repeats {
    limit: usize,
    last: String,
    times: usize,
}

impl Repeats {
    /// Notices the `limit`th time.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            last: String::new(),
            times: 0,
        }
    }

    /// Whether this command has now been given `limit` times running. Empty commands do not count.
    pub fn repeated(&mut self, command: &str) -> bool {
        if command.is_empty() {
            return false;
        }
        if command == self.last {
            self.times += 1;
        } else {
            command.clone_into(&mut self.last);
            self.times = 1;
        }
        self.times >= self.limit
    }
}
