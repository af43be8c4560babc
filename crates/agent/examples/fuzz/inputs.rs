//! Inputs: put together from the pieces that wires, replies, JSON and templates are made of, then
//! mutated.

/// SplitMix64.
pub struct Numbers(u64);

impl Numbers {
    /// Numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// One of these.
    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// What special tokens, wires and replies are made of.
pub const WIRE: &[&str] = &[
    "<|goal|>",
    "<|mission|>",
    "<|obs|>",
    "<|belief|>",
    "<|think|>",
    "<|action|>",
    "<|end|>",
    "<|result|>",
    "<|feedback|>",
    "<|reward|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|reserved_special_token_10|>",
    "<|reserved_special_token_5|>",
    "<|reserved_special_token_6|>",
    "<|reserved_special_token_7|>",
    "<|reserved_special_token_8|>",
    "<|reserved_special_token_",
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|python_tag|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|",
    "|>",
    "{\"tool\": \"f\", \"x\": 1}",
    "{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
    "[{\"name\": \"f\", \"parameters\": {}}]",
    "f(a=1, b='x')",
    "```python\n",
    "```bash\n",
    "```",
    "$ ls -l | wc\n",
    "1.5",
    "-1_0e5",
    "nan",
    "plain words, and more.",
    " ",
    "\n",
    "\u{1c}",
    "\u{85}",
    "\u{3000}",
    "\u{feff}",
    "é",
    "🙂",
    "\u{661}",
    "\0",
];

/// What JSON is made of.
pub const JSON: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\"a\"",
    "\"tool\"",
    "\"name\"",
    "\"type\"",
    "\"role\"",
    "\"content\"",
    "\"arguments\"",
    "\"parameters\"",
    "\"frames\"",
    "\"messages\"",
    "\"tool_calls\"",
    "\"function\"",
    "\"assistant\"",
    "\"action\"",
    "\"goal\"",
    "true",
    "false",
    "null",
    "NaN",
    "Infinity",
    "-Infinity",
    "-",
    "0",
    "-0",
    "12345678901234567890123",
    "1e400",
    "1.5",
    "1.",
    ".5",
    "01",
    "\\u0041",
    "\\ud83d\\ude42",
    "\\ud83d",
    "\\u12",
    "\\n",
    "\\x",
    "\t",
    " ",
    "\n",
    "\u{1}",
    "é🙂",
    "\"{\\\"a\\\": [1, 2]}\"",
];

/// What templates are made of.
pub const TEMPLATE: &[&str] = &[
    "{{ ",
    " }}",
    "{% ",
    " %}",
    "{%- ",
    " -%}",
    "{# ",
    " #}",
    "for m in messages",
    "endfor",
    "if m.role == 'user'",
    "elif true",
    "else",
    "endif",
    "set x = m.content",
    "messages",
    "m.content",
    "m['tool_calls'][0]",
    "loop.index",
    "loop.last",
    "bos_token",
    "add_generation_prompt",
    "tools",
    " | tojson",
    " | trim",
    " | length",
    " | join(',')",
    "[::-1]",
    "[1:]",
    ".split('x')[-1]",
    ".strip()",
    ".startswith('a')",
    "raise_exception('no')",
    "strftime_now('%d %b %Y')",
    "namespace(a=1)",
    "range(10)",
    "range(99999999)",
    "macro f(x)",
    "endmacro",
    "f(1)",
    "generation",
    "endgeneration",
    "break",
    "continue",
    "'a' * 10",
    "1 / 0",
    "2 ** 62",
    "not ",
    " in ",
    " is defined",
    " is string",
    "{",
    "}",
    "(",
    ")",
    "'",
    "\"",
    "\\",
    "é",
    "text\n",
];

/// A text of up to `limit` pieces, mutated some of the time.
pub fn text(numbers: &mut Numbers, pieces: &[&str], limit: usize) -> String {
    let mut text = String::new();
    for _ in 0..numbers.below(limit) {
        let set = if numbers.below(8) == 0 { WIRE } else { pieces };
        text.push_str(numbers.pick(set));
    }
    mutated(numbers, text)
}

/// Well-formed JSON, at most so deep, mutated some of the time.
pub fn json(numbers: &mut Numbers, depth: usize) -> String {
    let mut text = String::new();
    value(numbers, depth, &mut text);
    mutated(numbers, text)
}

fn value(numbers: &mut Numbers, depth: usize, text: &mut String) {
    const KEYS: &[&str] = &[
        "\"type\"",
        "\"content\"",
        "\"tool\"",
        "\"name\"",
        "\"role\"",
        "\"arguments\"",
        "\"text\"",
        "\"tool_calls\"",
        "\"function\"",
        "\"a\"",
    ];
    const LEAVES: &[&str] = &[
        "null",
        "true",
        "1",
        "-0.5e-7",
        "\"x\"",
        "\"action\"",
        "\"result\"",
        "\"user\"",
        "\"assistant\"",
        "\"system\"",
        "\"tool\"",
        "\"answer\"",
        "\"\"",
        "\"<|eot_id|>\"",
        "\"<|end|>\"",
        "\"{}\"",
        "\"\\u00e9\"",
        "NaN",
        "{}",
        "[]",
    ];
    let kind = if depth == 0 { 9 } else { numbers.below(10) };
    let items = numbers.below(5);
    match kind {
        0..=3 => {
            text.push('{');
            for item in 0..items {
                if item > 0 {
                    text.push_str(", ");
                }
                text.push_str(numbers.pick(KEYS));
                text.push_str(": ");
                value(numbers, depth - 1, text);
            }
            text.push('}');
        }
        4..=6 => {
            text.push('[');
            for item in 0..items {
                if item > 0 {
                    text.push_str(", ");
                }
                value(numbers, depth - 1, text);
            }
            text.push(']');
        }
        _ => text.push_str(numbers.pick(LEAVES)),
    }
}

/// Half of the time the text itself; otherwise with characters dropped, doubled or swapped for others,
/// or a stretch repeated.
fn mutated(numbers: &mut Numbers, text: String) -> String {
    if text.is_empty() || numbers.below(2) == 0 {
        return text;
    }
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(4) {
        if chars.is_empty() {
            break;
        }
        let at = numbers.below(chars.len());
        match numbers.below(5) {
            0 => {
                chars.remove(at);
            }
            1 => chars.insert(at, chars[at]),
            2 => {
                let code = numbers.below(0x11_0000) as u32;
                chars[at] = char::from_u32(code).unwrap_or('\u{fffd}');
            }
            3 => {
                let ascii = numbers.below(128) as u8;
                chars[at] = char::from(ascii);
            }
            _ => {
                let end = (at + 1 + numbers.below(12)).min(chars.len());
                let stretch = chars[at..end].to_vec();
                let times = 1 + numbers.below(20);
                chars.splice(at..at, stretch.repeat(times));
            }
        }
    }
    chars.into_iter().collect()
}
