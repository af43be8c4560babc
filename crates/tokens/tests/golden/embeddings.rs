//! Golden cases: first rows of new markers, on toy weights.

use crate::common::{cases, field, ids, tokenizer};
use formats::FrameKind;
use formats::json::Value;
use tokens::seeds::{
    CHATML_SEED_WORDS, MarkerRows, RowType, agenticml_seed_words, agenticml_seeds,
    agenticml_targets, chatml_seeds, max_error, mean, norm, pooled_row, verify,
};

const WIDTH: u32 = 4;

/// The toy weights of the golden file's header; exact in both types.
fn embed(id: u32) -> Vec<f32> {
    let value = |j| (((7 * id + 13 * j) % 101) as f32 - 50.0) / 64.0;
    (0..WIDTH).map(value).collect()
}

fn head(id: u32) -> Vec<f32> {
    let value = |j| (((11 * id + 17 * j) % 97) as f32 - 48.0) / 64.0;
    (0..WIDTH).map(value).collect()
}

/// The rows of these ids, and their mean.
fn seed_mean(
    ids: &[u32],
    row: fn(u32) -> Vec<f32>,
    pool: impl Fn(&[&[f32]]) -> Vec<f32>,
) -> Vec<f32> {
    let rows: Vec<Vec<f32>> = ids.iter().map(|id| row(*id)).collect();
    pool(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

struct Target {
    name: String,
    id: u32,
    seeds: Vec<u32>,
    agenticml: bool,
}

impl Target {
    fn rows(&self, initialised: bool, kind: RowType) -> MarkerRows {
        let pooled = |row| seed_mean(&self.seeds, row, |rows| pooled_row(rows, kind));
        MarkerRows {
            name: self.name.clone(),
            embed: if initialised {
                pooled(embed)
            } else {
                embed(self.id)
            },
            head: if initialised {
                pooled(head)
            } else {
                head(self.id)
            },
            embed_mean: seed_mean(&self.seeds, embed, mean),
            head_mean: seed_mean(&self.seeds, head, mean),
            seeds: self.seeds.len(),
            agenticml: self.agenticml,
        }
    }
}

fn targets(agenticml: bool) -> Vec<Target> {
    let tokenizer = tokenizer();
    if agenticml {
        let targets = agenticml_targets(tokenizer).into_iter();
        targets
            .map(|(kind, id, seeds)| Target {
                name: kind.alias().to_owned(),
                id,
                seeds: seeds.ids,
                agenticml,
            })
            .collect()
    } else {
        let targets = CHATML_SEED_WORDS.iter();
        targets
            .map(|(name, words)| Target {
                name: (*name).to_owned(),
                id: tokenizer.special_id(name).expect("a special token"),
                seeds: chatml_seeds(tokenizer, words),
                agenticml,
            })
            .collect()
    }
}

fn words(value: &Value) -> Vec<&str> {
    let words = value.as_array().expect("words").iter();
    words.map(|word| word.as_str().expect("a word")).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let texts = value.as_array().expect("texts").iter();
    texts
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

fn floats(value: &Value) -> Vec<f32> {
    value
        .as_array()
        .expect("a row")
        .iter()
        .map(|value| match value {
            Value::Float(value) => *value as f32,
            Value::Int(value) => value.to_f64() as f32,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn number(value: &Value) -> u32 {
    ids(&Value::Array(vec![value.clone()]))[0]
}

fn near(got: f32, expected: &Value) -> bool {
    (got - floats(&Value::Array(vec![expected.clone()]))[0]).abs() < 1e-6
}

#[test]
fn embeddings_cases() {
    let tokenizer = tokenizer();
    for case in cases("embeddings.json") {
        let name = field(&case, "name").as_str().expect("name");
        let input = field(&case, "input");
        let expected = field(&case, "expected");
        let kind = field(&case, "kind").as_str().expect("kind");
        let agenticml =
            kind.starts_with("agenticml") || field(input, "format").as_str() == Some("agenticml");
        let marker = field(input, "marker").as_str();
        let row_type = match field(input, "dtype").as_str() {
            Some("bfloat16") => RowType::Bf16,
            _ => RowType::F32,
        };
        match kind {
            "agenticml_seeds" => {
                let kind = FrameKind::from_alias(marker.expect("marker")).expect("a kind");
                let words = words(field(input, "seed_words"));
                assert_eq!(agenticml_seed_words(kind), words, "{name}");
                let seeds = agenticml_seeds(tokenizer, &words);
                assert_eq!(seeds.ids, ids(field(expected, "pooled_ids")), "{name}");
                assert_eq!(seeds.skipped, [], "{name}");
            }
            "chatml_seeds" => {
                let words = words(field(input, "seed_words"));
                let own = CHATML_SEED_WORDS
                    .iter()
                    .find(|(name, _)| Some(*name) == marker);
                assert_eq!(own.map(|own| own.1.to_vec()), Some(words.clone()), "{name}");
                let seeds = chatml_seeds(tokenizer, &words);
                assert_eq!(seeds, ids(field(expected, "pooled_ids")), "{name}");
            }
            "agenticml_seed_rule" => {
                let seeds = agenticml_seeds(tokenizer, &words(input));
                assert_eq!(seeds.ids, ids(field(expected, "ok")), "{name}");
                let log: String = seeds
                    .skipped
                    .iter()
                    .map(|(word, n)| {
                        format!("  warning: '{word}' tokenized to {n} tokens, skipping\n")
                    })
                    .collect();
                assert_eq!(
                    Some(log.as_str()),
                    field(expected, "log").as_str(),
                    "{name}"
                );
            }
            "chatml_seed_rule" => {
                let seeds = chatml_seeds(tokenizer, &words(input));
                assert_eq!(seeds, ids(field(expected, "ok")), "{name}");
            }
            "agenticml_init" | "chatml_init" => {
                let targets = targets(agenticml);
                let target = targets.iter().find(|t| Some(t.name.as_str()) == marker);
                let target = target.expect("a target");
                let rows = target.rows(true, row_type);
                assert_eq!(target.id, number(field(expected, "target_id")), "{name}");
                assert_eq!(rows.embed, floats(field(expected, "embed")), "{name}");
                assert_eq!(rows.head, floats(field(expected, "lm_head")), "{name}");
                let report = field(expected, "report");
                assert_eq!(target.seeds, ids(field(report, "seed_ids")), "{name}");
                for (key, got) in [
                    ("embed_norm", norm(&rows.embed)),
                    ("lm_head_norm", norm(&rows.head)),
                    ("seed_mean_embed_norm", norm(&rows.embed_mean)),
                    (
                        "embed_max_abs_err",
                        max_error(&rows.embed, &rows.embed_mean),
                    ),
                    (
                        "lm_head_max_abs_err",
                        max_error(&rows.head, &rows.head_mean),
                    ),
                ] {
                    assert!(near(got, field(report, key)), "{name} {key}: {got}");
                }
                if let Value::Array(_) = field(expected, "verify_errors_before_init") {
                    let before = verify(&target.rows(false, row_type));
                    let errors = texts(field(expected, "verify_errors_before_init"));
                    assert_eq!(before, errors, "{name}");
                }
            }
            "verify" => {
                let initialised = field(input, "init") != &Value::Bool(false);
                let targets = targets(agenticml);
                let rows = targets
                    .iter()
                    .map(|target| target.rows(initialised, row_type));
                let errors: Vec<String> = rows.flat_map(|rows| verify(&rows)).collect();
                assert_eq!(errors, texts(field(expected, "errors")), "{name}");
            }
            other => panic!("{name}: no runner for kind {other}"),
        }
    }
}
