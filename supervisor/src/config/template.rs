//! Names of templates: they become directory and file names, so they are plain words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A template's name: 1 to 63 of `a-z`, `0-9` and `-`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateName(String);

/// A name that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a template name\nhint: use 1 to {MAX} of a-z, 0-9 and -, beginning with a letter or digit"
)]
pub struct InvalidTemplate {
    /// What was given, shortened.
    pub name: String,
}

/// Longest name.
const MAX: usize = 63;

impl TemplateName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The templates of our own, the one with the most in it first.
const OWN: [&str; 2] = ["python-node", "minimal"];

/// The template that is meant when none is named: the fullest of our own that is there; where none is, the
/// fullest, so that what is said about it names something to get.
#[must_use]
pub fn default_template(there: impl Fn(&TemplateName) -> bool) -> TemplateName {
    let own = OWN.map(|name| TemplateName(name.to_owned()));
    let [fullest, ..] = &own;
    own.iter().find(|name| there(name)).unwrap_or(fullest).clone()
}

impl FromStr for TemplateName {
    type Err = InvalidTemplate;

    fn from_str(name: &str) -> Result<Self, InvalidTemplate> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > MAX || name.starts_with('-') || !name.chars().all(word) {
            return Err(InvalidTemplate { name: name.chars().take(MAX + 1).collect() });
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for TemplateName {
    type Error = InvalidTemplate;

    fn try_from(name: String) -> Result<Self, InvalidTemplate> {
        name.parse()
    }
}

impl From<TemplateName> for String {
    fn from(name: TemplateName) -> Self {
        name.0
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests;
