//! `cargo xtask tidy`: the rules of the codebase that a machine can check.
//!
//! Every `.rs` file opens with `//!`, stays readable in length, imports only what its
//! layer may know, and leaves nothing unfinished behind. docs/api.md says what the API's
//! `.proto` file says and keeps what the last release's had, relative links in Markdown
//! pages lead somewhere, every decision record is in the index, the list of planted bugs
//! fits the code, and dependencies have licences and sources that `deny.toml` allows.

mod api;
mod decisions;
mod dependencies;
mod hazards;
mod headers;
mod layers;
pub mod links;
mod mutants;
mod size;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{docs, repo};

/// A file of the checkout: Rust code or a Markdown page.
pub struct Source {
    /// Path from the root of the checkout, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// The text without the unit tests at its end; empty for files that are all tests.
    fn without_tests(&self) -> &str {
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return "";
        }
        self.text.find("\n#[cfg(test)]\nmod tests").map_or(&self.text, |end| &self.text[..end])
    }
}

/// Checks the checkout; every broken rule is listed.
pub fn run() -> Result<()> {
    let root = repo::root();
    let sources = collect(&root, ".rs")?;
    let pages = collect(&root, ".md")?;
    let mut complaints = size::stale_exceptions(&sources);
    for source in &sources {
        complaints.extend(headers::check(source));
        complaints.extend(layers::check(source));
        complaints.extend(size::check(source));
        complaints.extend(words::check(source));
    }
    for page in &pages {
        complaints.extend(links::check(&root, page));
        complaints.extend(hazards::check(page, &sources));
    }
    complaints.extend(decisions::check(&pages));
    complaints.extend(mutants::check(&crate::mutants::load(&root)?, &sources));
    complaints.extend(docs::stale(&root)?);
    complaints.extend(api::check(&root)?);
    complaints.extend(dependencies::check(&root)?);
    if complaints.is_empty() {
        eprintln!("tidy: {} files and {} pages are in order", sources.len(), pages.len());
        return Ok(());
    }
    bail!("tidy found {} problems:\n  {}", complaints.len(), complaints.join("\n  "));
}

/// The files whose names end so, in order.
fn collect(root: &Path, ending: &str) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    collect_below(root, root, ending, &mut found)?;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn collect_below(root: &Path, dir: &Path, ending: &str, found: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "node_modules" && !name.starts_with('.') {
                collect_below(root, &path, ending, found)?;
            }
        } else if name.ends_with(ending) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            found.push(Source { path, text });
        }
    }
    Ok(())
}

/// A line without its comment. Good enough for code that rustfmt laid out.
fn code(line: &str) -> &str {
    let trimmed = line.trim_start();
    if trimmed.starts_with("//") {
        return "";
    }
    line.find(" // ").map_or(line, |at| &line[..at])
}

#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}
