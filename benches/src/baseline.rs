//! The guard against getting worse: ratios of an earlier run, committed, with what each may move by.
//!
//! Only ratios are kept: they travel between machines far better than times do. Checked by
//! `cargo xtask bench --check` and by nothing else, because a measurement is no test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::ratio::{Bound, Ratio};

/// The committed ratios of all engines and templates.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Baseline {
    /// By engine, then template, then ratio.
    engines: BTreeMap<String, BTreeMap<String, BTreeMap<String, Expected>>>,
}

/// One ratio as it was.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Its value.
    pub value: f64,
    /// The share by which it may be worse.
    pub tolerance: f64,
    /// Which way is better.
    pub better: Better,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

/// What came of one comparison with the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The ratio's name.
    pub name: String,
    /// Whether it got no worse than it may.
    pub passed: bool,
    /// One line for a person.
    pub line: String,
}

impl Baseline {
    /// Reads it.
    ///
    /// # Errors
    /// When it is not there or not understood.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not understood", path.display()))
    }

    /// Parses it.
    ///
    /// # Errors
    /// When it is not understood.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Holds the ratios of a run against what they were.
    ///
    /// # Errors
    /// When nothing is known about this engine and template.
    pub fn check(&self, engine: &str, template: &str, ratios: &[Ratio]) -> Result<Vec<Verdict>> {
        let expected =
            self.engines.get(engine).and_then(|templates| templates.get(template)).with_context(|| {
                format!("the baseline has no ratios of engine {engine} with template {template}")
            })?;
        Ok(expected.iter().map(|(name, expected)| expected.judge(name, ratios)).collect())
    }
}

impl Expected {
    fn judge(&self, name: &str, ratios: &[Ratio]) -> Verdict {
        let (bound, worst) = match self.better {
            Better::Lower => (Bound::AtMost, self.value * (1.0 + self.tolerance)),
            Better::Higher => (Bound::AtLeast, self.value * (1.0 - self.tolerance)),
        };
        let measured = ratios.iter().find(|ratio| ratio.name == name);
        let (passed, said) = match measured.map(|ratio| (ratio.value.value(), ratio.value.reason())) {
            // Of a scenario that did not run nothing is known, which is no pass.
            None => (false, "was not measured in this run".to_owned()),
            Some((Some(value), _)) => {
                let passed = bound.holds(value, worst);
                let symbol = bound.symbol();
                (passed, format!("is {value:.2}, was {:.2}, may be {symbol} {worst:.2}", self.value))
            }
            Some((None, reason)) => (false, format!("has no value: {}", reason.unwrap_or_default())),
        };
        let mark = if passed { "ok  " } else { "FAIL" };
        Verdict { name: name.to_owned(), passed, line: format!("{mark} {name} {said}") }
    }
}

#[cfg(test)]
mod tests;
