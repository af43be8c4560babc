//! Which files of a repository make a model.

use super::Listing;
use crate::manifest;

/// What kind of files a model comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceKind {
    /// A package of our shards.
    Shards,
    /// A folder of safetensors.
    Safetensors,
    /// A GGUF file.
    Gguf,
}

/// A model that a repository holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The file to open it with: `model.json`, `config.json` or a GGUF file, with its folders.
    pub main: String,
    /// What kind of files it comes in.
    pub kind: ChoiceKind,
    /// The quantization in a GGUF file's name, such as `Q4_K_M`.
    pub quantization: Option<String>,
    /// Bytes of its files.
    pub bytes: u64,
    /// Why it cannot be loaded here, where its name tells.
    pub obstacle: Option<&'static str>,
}

/// Names of quantizations, longer ones before those they begin with.
const QUANTIZATIONS: [&str; 52] = [
    "Q2_K_XL", "Q2_K_S", "Q2_K_L", "Q2_K", "Q3_K_XL", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q3_K",
    "Q4_K_XL", "Q4_K_S", "Q4_K_M", "Q4_K_L", "Q4_K", "Q5_K_XL", "Q5_K_S", "Q5_K_M", "Q5_K_L",
    "Q5_K", "Q6_K_XL", "Q6_K_L", "Q6_K", "Q8_K_XL", "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "Q4_0",
    "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "F16", "F32", "FP16", "FP32", "IQ1_S", "IQ1_M",
    "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ3_M", "IQ4_XS",
    "IQ4_NL", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4",
];

/// The quantization that a file's name tells: `model-Q4_K_M.gguf`, `model.q8_0.gguf`, `Q6_K/model.gguf`.
pub fn quantization_of(path: &str) -> Option<&'static str> {
    let upper = path.to_ascii_uppercase();
    let separates = |byte: &u8| matches!(byte, b'-' | b'.' | b'_' | b'/' | b' ');
    let bytes = upper.as_bytes();
    // The last one counts: a model's own name comes first.
    (0..bytes.len())
        .rev()
        .filter(|at| *at == 0 || separates(&bytes[at - 1]))
        .find_map(|at| {
            let rest = upper.get(at..)?;
            QUANTIZATIONS.iter().copied().find(|name| {
                rest.strip_prefix(name)
                    .is_some_and(|after| after.as_bytes().first().is_none_or(separates))
            })
        })
}

/// Why a quantization cannot be loaded.
fn obstacle_of(quantization: &str) -> Option<&'static str> {
    let other = ["IQ", "TQ", "MXFP", "NVFP", "Q4_0_"];
    other
        .iter()
        .any(|prefix| quantization.starts_with(prefix))
        .then_some("weights of this type are not supported")
}

/// The folder of a path, with its slash; empty for none.
fn folder_of(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..=slash])
}

impl Listing {
    /// The models that a repository holds: packages of our shards, folders of safetensors, GGUF files;
    /// GGUF files by size. Parts of split GGUF files and projectors of images are left out.
    pub fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for file in &self.files {
            let folder = folder_of(&file.path);
            let name = &file.path[folder.len()..];
            let beside = |wanted: &dyn Fn(&str) -> bool| {
                let names = self.files.iter().filter(|other| {
                    folder_of(&other.path) == folder && wanted(&other.path[folder.len()..])
                });
                names.fold((0, 0u64), |(count, bytes), other| {
                    (count + 1, bytes.saturating_add(other.size))
                })
            };
            let (kind, (count, bytes)) = if name == manifest::FILE {
                let other = |name: &str| name.ends_with(".md") || name.starts_with('.');
                (ChoiceKind::Shards, beside(&|name| !other(name)))
            } else if name == "config.json" {
                let weights = |name: &str| {
                    (name.starts_with("model") && name.ends_with(".safetensors"))
                        || name == "tokenizer.json"
                };
                let (_, bytes) = beside(&weights);
                let (count, _) =
                    beside(&|name| name.starts_with("model") && name.ends_with(".safetensors"));
                (ChoiceKind::Safetensors, (count, bytes))
            } else {
                continue;
            };
            if count > 0 {
                choices.push(Choice {
                    main: file.path.clone(),
                    kind,
                    quantization: None,
                    bytes,
                    obstacle: None,
                });
            }
        }
        choices.sort_by_key(|choice| (choice.kind == ChoiceKind::Safetensors, choice.main.len()));
        let mut ggufs: Vec<Choice> = self
            .files
            .iter()
            .filter(|file| {
                let lower = file.path.to_ascii_lowercase();
                let name = &lower[folder_of(&lower).len()..];
                name.ends_with(".gguf")
                    && !name.contains("-of-0")
                    && !name.contains("mmproj")
                    && !name.contains("imatrix")
            })
            .map(|file| {
                let quantization = quantization_of(&file.path);
                Choice {
                    main: file.path.clone(),
                    kind: ChoiceKind::Gguf,
                    quantization: quantization.map(str::to_owned),
                    bytes: file.size,
                    obstacle: quantization.and_then(obstacle_of),
                }
            })
            .collect();
        ggufs.sort_by(|a, b| (a.bytes, &a.main).cmp(&(b.bytes, &b.main)));
        choices.extend(ggufs);
        choices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::RepoFile;

    fn listing(files: &[(&str, u64)]) -> Listing {
        let files = files.iter().map(|(path, size)| RepoFile {
            path: (*path).to_owned(),
            size: *size,
            sha256: None,
        });
        Listing {
            files: files.collect(),
            complete: true,
        }
    }

    fn choices(files: &[(&str, u64)]) -> Vec<(String, ChoiceKind, Option<String>, u64)> {
        let choices = listing(files).choices().into_iter();
        choices
            .map(|choice| (choice.main, choice.kind, choice.quantization, choice.bytes))
            .collect()
    }

    #[test]
    fn quantizations_are_told_by_names() {
        for (path, name) in [
            ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", Some("Q4_K_M")),
            ("llama-3.2-1b.q3_k_l.gguf", Some("Q3_K_L")),
            ("SmolLM2-135M-Instruct.Q4_1.gguf", Some("Q4_1")),
            ("model_f16.gguf", Some("F16")),
            ("BF16/model.gguf", Some("BF16")),
            ("x-UD-IQ2_XXS.gguf", Some("IQ2_XXS")),
            ("q8_0-trained-Q6_K.gguf", Some("Q6_K")),
            ("model-Q4_0_4_4.gguf", Some("Q4_0_4_4")),
            ("model.gguf", None),
            ("modelQ4_0.gguf", None),
            ("", None),
        ] {
            assert_eq!(quantization_of(path), name, "{path}");
        }
    }

    #[test]
    fn gguf_files_are_listed_by_size() {
        let found = listing(&[
            ("README.md", 9),
            ("m-Q8_0.gguf", 80),
            ("m-Q4_K_M.gguf", 40),
            ("m-IQ2_M.gguf", 20),
            ("mmproj-m-f16.gguf", 5),
            ("big/m-BF16-00001-of-00002.gguf", 100),
            ("big/m-BF16-00002-of-00002.gguf", 100),
        ])
        .choices();
        let shown: Vec<_> = found
            .iter()
            .map(|c| (c.main.as_str(), c.bytes, c.obstacle.is_some()))
            .collect();
        assert_eq!(
            shown,
            [
                ("m-IQ2_M.gguf", 20, true),
                ("m-Q4_K_M.gguf", 40, false),
                ("m-Q8_0.gguf", 80, false)
            ]
        );
    }

    #[test]
    fn folders_and_packages_are_found() {
        let safetensors = [
            ("config.json", 1),
            ("model-00001-of-00002.safetensors", 500),
            ("model-00002-of-00002.safetensors", 400),
            ("model.safetensors.index.json", 2),
            ("consolidated.00.pth", 900),
            ("original/consolidated.safetensors", 900),
            ("tokenizer.json", 17),
        ];
        let expected = ("config.json".to_owned(), ChoiceKind::Safetensors, None, 917);
        assert_eq!(choices(&safetensors), [expected]);
        let shards = [
            ("README.md", 7),
            (".gitattributes", 7),
            ("q4/model.json", 1),
            ("q4/shard-00001.bin", 64),
            ("q4/tokenizer.json", 3),
            ("config.json", 1),
        ];
        let expected = ("q4/model.json".to_owned(), ChoiceKind::Shards, None, 68);
        assert_eq!(choices(&shards), [expected]);
        let adapter = [
            ("adapter_config.json", 1),
            ("adapter_model.safetensors", 90),
        ];
        assert_eq!(choices(&adapter), []);
        assert_eq!(choices(&[("config.json", 1), ("pytorch_model.bin", 9)]), []);
    }
}
