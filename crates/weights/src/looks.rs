//! What a file looks like that is not what it should be.

use std::fmt;

/// What a file looks like by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// No bytes, or too few to tell.
    Short,
    /// A web page.
    Html,
    /// JSON.
    Json,
    /// The pointer file that Git LFS leaves in place of the content.
    LfsPointer,
    /// Other text.
    Text,
    /// A zip archive; PyTorch's `.bin` and `.pt` files are such.
    Zip,
    /// A GGUF file.
    Gguf,
    /// A safetensors file.
    Safetensors,
    /// A llama.cpp file from before GGUF.
    OldGgml,
    /// None of these.
    Unknown,
}

impl Looks {
    /// Judges a file by its first bytes.
    pub(crate) fn of(prefix: &[u8]) -> Self {
        let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
        let text = text.trim_ascii_start();
        if prefix.len() < 4 {
            return Self::Short;
        }
        if prefix.starts_with(b"GGUF") {
            return Self::Gguf;
        }
        if prefix.starts_with(b"PK\x03\x04") {
            return Self::Zip;
        }
        if [b"lmgg", b"tjgg", b"fmgg", b"algg"]
            .iter()
            .any(|magic| prefix.starts_with(*magic))
        {
            return Self::OldGgml;
        }
        // A safetensors file begins with the length of its JSON header in eight bytes.
        if prefix.get(8) == Some(&b'{') && prefix[4..8] == [0; 4] {
            return Self::Safetensors;
        }
        if text.starts_with(b"version https://git-lfs") {
            return Self::LfsPointer;
        }
        if text.starts_with(b"<") {
            return Self::Html;
        }
        if text.starts_with(b"{") || text.starts_with(b"[") {
            return Self::Json;
        }
        let printable = |byte: &u8| !byte.is_ascii_control() || b"\t\n\r\x0c".contains(byte);
        if prefix.iter().all(printable) {
            return Self::Text;
        }
        Self::Unknown
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it is empty or nearly so; fetch it again",
            Self::Html => {
                "it is a web page (HTML); use the address of the file itself (on Hugging Face: \
                 /resolve/, not /blob/)"
            }
            Self::Json => "it is JSON text, perhaps a server's error message; check the address",
            Self::LfsPointer => {
                "it is the small pointer that Git LFS leaves in place of the file; fetch the file \
                 itself (git lfs pull)"
            }
            Self::Text => "it is a text file; choose a model file (.gguf or .safetensors)",
            Self::Zip => {
                "it is a zip archive or a PyTorch file; choose a model file (.gguf or .safetensors)"
            }
            Self::Gguf => "it is a GGUF file",
            Self::Safetensors => "it is a safetensors file",
            Self::OldGgml => {
                "it is a llama.cpp file from before GGUF; get a newer conversion of the model"
            }
            Self::Unknown => {
                "its first bytes are of no known kind; choose a model file (.gguf or .safetensors)"
            }
        })
    }
}
