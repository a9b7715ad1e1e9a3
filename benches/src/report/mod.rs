//! What was measured, in four forms: a table on the terminal, `report.json`, `report.md`, `report.html`.
//!
//! All of them are pure functions of a [`Report`], and the JSON holds every sample, so that the other three
//! can be made again from it.

pub mod html;
pub mod isolation;
pub mod markdown;
pub mod number;
pub mod plot;
pub mod table;

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::ratio::Ratio;
use crate::record::Record;

/// The version of `report.json`. Raised when a reader of the last one would misunderstand the next.
pub const SCHEMA: u32 = 1;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of this form.
    pub schema: u32,
    /// What measured.
    pub tool: String,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// How long it took.
    pub took_seconds: f64,
    /// Where.
    pub host: Fingerprint,
    /// The template.
    pub template: String,
    /// Its virtual processors.
    pub vcpus: u32,
    /// Its memory.
    pub memory_mib: u32,
    /// What was compared.
    pub ratios: Vec<Ratio>,
    /// What was measured.
    #[serde(flatten)]
    pub record: Record,
}

impl Report {
    /// Writes the three files into a directory, which is made.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn write(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("report.json"), serde_json::to_string_pretty(self)? + "\n")?;
        fs::write(dir.join("report.md"), markdown::render(self))?;
        fs::write(dir.join("report.html"), html::render(self)?)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
