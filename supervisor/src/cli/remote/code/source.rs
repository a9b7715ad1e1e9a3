//! The code to run, and its language by the name of its file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::cli::args::{CodeOptions, LanguageName};

/// Longest code that a server takes.
const MAX_CODE: u64 = 1 << 20;

/// The code.
pub fn read(options: &CodeOptions) -> anyhow::Result<String> {
    match (&options.code, options.file.as_deref()) {
        (Some(code), _) => Ok(code.clone()),
        (None, Some(path)) if path != Path::new("-") => {
            let name = path.display();
            let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
            text(file, &name.to_string())
        }
        (None, _) => text(io::stdin().lock(), "standard input"),
    }
}

fn text(from: impl Read, name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    from.take(MAX_CODE + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > MAX_CODE {
        bail!("{name} is longer than the 1 MiB that code may have\nhint: copy it in with `rekindle put`");
    }
    String::from_utf8(bytes).ok().with_context(|| format!("{name} is no text\nhint: code is UTF-8"))
}

/// The language that is asked for, or that the file's name tells.
pub fn language(options: &CodeOptions) -> Option<LanguageName> {
    let extension = || options.file.as_deref()?.extension()?.to_str();
    options.language.or_else(|| {
        Some(match extension()? {
            "py" => LanguageName::Python,
            "js" | "mjs" | "cjs" => LanguageName::Javascript,
            "ts" | "mts" | "cts" => LanguageName::Typescript,
            "sh" | "bash" => LanguageName::Bash,
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    //! What is code, and how much of it.

    use super::*;

    #[test]
    fn code_is_text_of_a_bounded_length() {
        assert_eq!(text(&b"1 + 1\n"[..], "x").expect("code"), "1 + 1\n");
        let error = text(&b"\xff"[..], "x").expect_err("no text").to_string();
        assert!(error.starts_with("x is no text\nhint: "), "{error}");
        let error = text(io::repeat(b'a'), "x").expect_err("without end").to_string();
        assert!(error.starts_with("x is longer than the 1 MiB"), "{error}");
    }
}
