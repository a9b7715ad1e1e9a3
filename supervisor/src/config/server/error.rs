//! Why a configuration cannot be used: all that is wrong with it, not the first thing only.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Who said it: the file, the variable or the flag. Empty for what follows from defaults.
    pub origin: String,
    /// The key, such as `listen.tcp`.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.origin.is_empty() {
            write!(f, "{}: ", self.origin)?;
        }
        write!(f, "{}: {}\n  hint: {}", self.key, self.message, self.hint)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}\nhint: check the path, or leave it out to use the defaults", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML: {message}\nhint: `rekindle config reference` shows how it is written", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// Values that are not possible.
    #[error(
        "the configuration has {} {}\n{}\nhint: `rekindle config reference` explains every key",
        problems.len(), plural(problems.len()), list(problems)
    )]
    Invalid {
        /// All of them.
        problems: Vec<Problem>,
    },
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "problem:" } else { "problems:" }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
