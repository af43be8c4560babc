//! Cases about ids, labels and embedding rows.

use super::Answer;
use super::case::{
    Case, as_expected, as_text, count, failed, field, id_list, ids, label_list, number, object, ok,
    text, texts,
};
use formats::agenticml::{self, View};
use formats::chatml::{self, Bos, Options};
use formats::json::{Object, Value};
use formats::validity::{prompt_frames, prompt_messages};
use formats::{Conversation, FrameKind, Policy, Trajectory};
use tokens::seeds::{
    CHATML_SEED_WORDS, MarkerRows, RowType, agenticml_seeds, agenticml_targets, chatml_seeds,
    max_error, mean, norm, pooled_row, verify,
};
use tokens::{Arm, Llama3Tokenizer, kind_of_marker, labels, training_row, view};

/// Encoding, decoding, labels and training rows.
pub fn tokens(case: &Case<'_>) -> Answer {
    let (input, tokenizer) = (case.input, case.tokenizer);
    let answer = match case.kind {
        "encode" | "encode_random" | "encode_special" => {
            let ids = tokenizer.encode_trusted(as_text(input)?);
            let begin = tokenizer.special_id("<|begin_of_text|>");
            let with_bos: Vec<u32> = begin.into_iter().chain(ids.iter().copied()).collect();
            let pieces = ids.iter().map(|id| piece(tokenizer, *id));
            object([
                ("ids", id_list(&ids)),
                ("ids_with_bos", id_list(&with_bos)),
                ("pieces", super::case::text_list(pieces)),
                ("decoded", tokenizer.decode(&ids).into()),
            ])
        }
        "decode" => object([("text", tokenizer.decode(&ids(input)?).into())]),
        "trajectory" => {
            let trajectory = Trajectory::from_json(input).map_err(|e| e.to_string())?;
            let rendering = agenticml::render(&trajectory, View::Reserved);
            let rendering = rendering.map_err(|e| e.to_string())?;
            let view = view(tokenizer, &rendering, Arm::AgenticMl, Policy::Reference);
            object([
                ("ids", id_list(&view.ids())),
                ("labels", label_list(&view.labels())),
            ])
        }
        "mask_only" => mask_only(Arm::AgenticMl, input)?,
        "train_row" => {
            let arm = match text(input, "format")? {
                "chatml" => Arm::ChatMl,
                _ => Arm::AgenticMl,
            };
            let length = count(input, "max_length")?;
            let row = field(input, "row");
            match training_row(tokenizer, arm, row, length, Policy::Reference) {
                Ok(row) => {
                    let ones = vec![1; row.input_ids.len()];
                    let row = object([
                        ("input_ids", id_list(&row.input_ids)),
                        ("labels", label_list(&row.labels)),
                        ("attention_mask", label_list(&ones)),
                    ]);
                    ok(as_expected(field(case.expected, "ok"), &row))
                }
                Err(error) => failed(error.python_class(), &error.to_string()),
            }
        }
        _ => return case.unknown(),
    };
    Ok(as_expected(case.expected, &answer))
}

/// A token as the byte-level vocabulary writes it: bytes that are not printable ASCII or Latin-1 as
/// characters from U+0100 on.
fn piece(tokenizer: &Llama3Tokenizer, id: u32) -> String {
    let piece = tokenizer.piece(id);
    if let Some(special) = piece.special {
        return special.to_owned();
    }
    let shown = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let character = |byte: &u8| {
        if shown(*byte) {
            return char::from(*byte);
        }
        let before = (0..*byte).filter(|b| !shown(*b)).count() as u32;
        char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    piece.bytes.iter().map(character).collect()
}

fn mask_only(arm: Arm, input: &Value) -> Answer {
    let ids = ids(input)?;
    let trained = labels(arm, ids.iter().copied());
    let label = |(id, trained): (&u32, bool)| if trained { i64::from(*id) } else { -100 };
    let labels: Vec<i64> = ids.iter().zip(trained).map(label).collect();
    Ok(object([("labels", label_list(&labels))]))
}

fn options(input: &Value) -> Result<Options, String> {
    let mut options = Options::default();
    let members = input.as_object().ok_or("no object")?;
    for (key, value) in members {
        match (key.as_str(), value) {
            ("messages", _) => {}
            ("date_string", Value::String(date)) => options.date_string.clone_from(date),
            ("add_generation_prompt", Value::Bool(on)) => options.add_generation_prompt = *on,
            ("tools" | "custom_tools", Value::Array(tools)) => options.tools = Some(tools.clone()),
            ("tools_in_user_message", Value::Bool(on)) => options.tools_in_user_message = *on,
            ("builtin_tools", Value::Array(names)) => options.builtin_tools = Some(texts(names)),
            (_, Value::Null) => {}
            (key, _) => return Err(format!("unknown option \"{key}\"")),
        }
    }
    Ok(options)
}

/// The Llama 3.1 Instruct layout.
pub fn chatml_render(case: &Case<'_>) -> Answer {
    if case.kind == "mask_only" {
        return mask_only(Arm::ChatMl, case.input);
    }
    let messages = Conversation::from_json(field(case.input, "messages"));
    let messages = messages.map_err(|e| e.to_string())?;
    let double = options(case.input)?;
    let single = Options {
        bos: Bos::Single,
        ..double.clone()
    };
    let views = [double, single].map(|options| {
        let rendering = chatml::render(&messages, &options)?;
        let view = view(case.tokenizer, &rendering, Arm::ChatMl, Policy::Reference);
        Ok::<_, chatml::TemplateError>(view)
    });
    let answer = match views {
        [Ok(double), Ok(single)] => object([
            ("ok", single.wire.clone().into()),
            ("ids", id_list(&double.ids())),
            ("labels", label_list(&double.labels())),
            ("ids_single_bos", id_list(&single.ids())),
        ]),
        [Err(error), _] | [_, Err(error)] => {
            failed(error.kind.python_class(), &error.kind.to_string())
        }
    };
    Ok(as_expected(case.expected, &answer))
}

/// The ids that prompt for a row's first model turn.
pub fn prompt_ids(case: &Case<'_>) -> Answer {
    let row = field(case.input, "row");
    let (rendering, arm) = if text(case.input, "format")? == "chatml" {
        let options = Options {
            add_generation_prompt: true,
            ..Options::default()
        };
        match prompt_messages(row) {
            Ok(None) => return Ok(ok(id_list(&[]))),
            Ok(Some(prompt)) => match chatml::render(&prompt, &options) {
                Ok(rendering) => (rendering, Arm::ChatMl),
                Err(e) => return Ok(failed(e.kind.python_class(), &e.kind.to_string())),
            },
            Err(error) => return Ok(failed(error.python_class(), &error.to_string())),
        }
    } else {
        match prompt_frames(row) {
            Ok(None) => return Ok(ok(id_list(&[]))),
            Ok(Some(frames)) => match agenticml::render(&Trajectory { frames }, View::Reserved) {
                Ok(rendering) => (rendering, Arm::AgenticMl),
                Err(e) => return Ok(failed(e.python_class(), &e.to_string())),
            },
            Err(error) => return Ok(failed(error.python_class(), &error.to_string())),
        }
    };
    let view = view(case.tokenizer, &rendering, arm, Policy::Reference);
    Ok(ok(id_list(&view.ids())))
}

/// Width of the toy weights of the golden file's header.
const WIDTH: u32 = 4;

fn toy_embed(id: u32) -> Vec<f32> {
    let value = |j| (((7 * id + 13 * j) % 101) as f32 - 50.0) / 64.0;
    (0..WIDTH).map(value).collect()
}

fn toy_head(id: u32) -> Vec<f32> {
    let value = |j| (((11 * id + 17 * j) % 97) as f32 - 48.0) / 64.0;
    (0..WIDTH).map(value).collect()
}

struct Target {
    name: String,
    kind: Option<FrameKind>,
    id: u32,
    seeds: Vec<u32>,
}

impl Target {
    fn rows(&self, initialised: bool, kind: RowType) -> MarkerRows {
        let pool = |row: fn(u32) -> Vec<f32>, exact: bool| {
            let rows: Vec<Vec<f32>> = self.seeds.iter().map(|id| row(*id)).collect();
            let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            if exact {
                mean(&rows)
            } else {
                pooled_row(&rows, kind)
            }
        };
        let row = |row: fn(u32) -> Vec<f32>| {
            if initialised {
                pool(row, false)
            } else {
                row(self.id)
            }
        };
        MarkerRows {
            name: self.name.clone(),
            embed: row(toy_embed),
            head: row(toy_head),
            embed_mean: pool(toy_embed, true),
            head_mean: pool(toy_head, true),
            seeds: self.seeds.len(),
            agenticml: self.kind.is_some(),
        }
    }
}

fn targets(tokenizer: &Llama3Tokenizer, agenticml: bool) -> Vec<Target> {
    if agenticml {
        let targets = agenticml_targets(tokenizer).into_iter();
        targets
            .map(|(kind, id, seeds)| Target {
                name: kind.alias().to_owned(),
                kind: Some(kind),
                id,
                seeds: seeds.ids,
            })
            .collect()
    } else {
        let targets = CHATML_SEED_WORDS.iter();
        targets
            .filter_map(|(name, words)| {
                Some(Target {
                    name: (*name).to_owned(),
                    kind: None,
                    id: tokenizer.special_id(name)?,
                    seeds: chatml_seeds(tokenizer, words),
                })
            })
            .collect()
    }
}

/// First rows of new markers, on toy weights.
pub fn embeddings(case: &Case<'_>) -> Answer {
    let (input, tokenizer) = (case.input, case.tokenizer);
    let agenticml =
        case.kind.starts_with("agenticml") || field(input, "format").as_str() == Some("agenticml");
    let row_type = match field(input, "dtype").as_str() {
        Some("bfloat16") => RowType::Bf16,
        _ => RowType::F32,
    };
    let targets = targets(tokenizer, agenticml);
    let answer = match case.kind {
        "agenticml_seed_rule" => {
            let words = texts(input.as_array().unwrap_or(&[]));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let seeds = agenticml_seeds(tokenizer, &words);
            object([
                ("ok", id_list(&seeds.ids)),
                ("log", log(&seeds.skipped).into()),
            ])
        }
        "chatml_seed_rule" => {
            let words = texts(input.as_array().unwrap_or(&[]));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            ok(id_list(&chatml_seeds(tokenizer, &words)))
        }
        "verify" => {
            let initialised = field(input, "init") != &Value::Bool(false);
            let rows = targets.iter().map(|t| t.rows(initialised, row_type));
            let errors = rows.flat_map(|rows| verify(&rows));
            object([("errors", super::case::text_list(errors))])
        }
        _ => {
            let marker = text(input, "marker")?;
            let target = targets.iter().find(|target| target.name == marker);
            let target = target.ok_or("no such marker")?;
            match case.kind {
                "agenticml_seeds" | "chatml_seeds" => seeds(case, target)?,
                "agenticml_init" | "chatml_init" => init(case, target, row_type),
                _ => return case.unknown(),
            }
        }
    };
    Ok(as_expected(case.expected, &answer))
}

fn log(skipped: &[(String, usize)]) -> String {
    let lines = skipped
        .iter()
        .map(|(word, n)| format!("  warning: '{word}' tokenized to {n} tokens, skipping\n"));
    lines.collect()
}

fn seeds(case: &Case<'_>, target: &Target) -> Answer {
    let words = texts(super::case::list(case.input, "seed_words"));
    let own: &[&str] = match target.kind {
        Some(kind) => tokens::seeds::agenticml_seed_words(kind),
        None => {
            let mut rows = CHATML_SEED_WORDS.iter();
            let row = rows.find(|(name, _)| *name == target.name);
            row.map_or(&[][..], |(_, words)| words)
        }
    };
    if own != words {
        return Err(format!("our seed words are {own:?}"));
    }
    let space = if target.kind.is_some() { " " } else { "" };
    let per_word = own.iter().map(|word| {
        let ids = case.tokenizer.encode_trusted(&format!("{space}{word}"));
        ((*word).to_owned(), id_list(&ids))
    });
    let per_word = Value::Object(per_word.collect());
    let mut answer = Object::from_iter([
        ("target_id".to_owned(), i64::from(target.id).into()),
        (
            "per_word_ids_with_leading_space".to_owned(),
            per_word.clone(),
        ),
        ("per_word_ids_no_space".to_owned(), per_word),
        ("pooled_ids".to_owned(), id_list(&target.seeds)),
        ("log".to_owned(), "".into()),
    ]);
    if let Some(kind) = kind_of_marker(target.id) {
        answer.insert("slot".to_owned(), i64::from(kind.slot()).into());
    }
    Ok(answer.into())
}

fn init(case: &Case<'_>, target: &Target, row_type: RowType) -> Value {
    let rows = target.rows(true, row_type);
    let floats = |row: &[f32]| Value::Array(row.iter().map(|x| f64::from(*x).into()).collect());
    let expected = field(case.expected, "report");
    // The order in which squares are added up is the library's own; the last digits may differ.
    let near = |key: &str, value: f32| {
        let value = f64::from(value);
        let expected = field(expected, key);
        let figure = match expected {
            Value::Float(figure) if (figure - value).abs() < 1e-6 => *figure,
            _ => value,
        };
        (key.to_owned(), figure.into())
    };
    let mut report = Object::from_iter([
        ("marker".to_owned(), target.name.as_str().into()),
        ("target_id".to_owned(), i64::from(target.id).into()),
        ("seed_ids".to_owned(), id_list(&target.seeds)),
        ("n_seeds".to_owned(), number(target.seeds.len())),
        near("embed_norm", norm(&rows.embed)),
        near("lm_head_norm", norm(&rows.head)),
        near("seed_mean_embed_norm", norm(&rows.embed_mean)),
        near(
            "embed_max_abs_err",
            max_error(&rows.embed, &rows.embed_mean),
        ),
        near(
            "lm_head_max_abs_err",
            max_error(&rows.head, &rows.head_mean),
        ),
    ]);
    if let Some(kind) = target.kind {
        report.insert("slot".to_owned(), i64::from(kind.slot()).into());
    }
    let before = verify(&target.rows(false, row_type));
    object([
        ("target_id", i64::from(target.id).into()),
        ("embed", floats(&rows.embed)),
        ("lm_head", floats(&rows.head)),
        ("report", as_expected(expected, &report.into())),
        ("verify_errors_before_init", super::case::text_list(before)),
    ])
}
