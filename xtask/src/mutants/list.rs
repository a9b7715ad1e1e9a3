//! The list of planted bugs, as data: `tests/mutants.toml`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Where the list is.
pub const FILE: &str = "tests/mutants.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// One bug and the test that finds it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Short, for `--only`.
    pub name: String,
    /// What is wrong with it planted, in words.
    pub bug: String,
    /// The file it is planted in.
    pub file: String,
    /// What stands there, exactly once.
    pub replace: String,
    /// What takes its place.
    pub with: String,
    /// The package of the test.
    pub package: String,
    /// `lib` or `bin` for unit tests, else the name of an integration test.
    pub target: String,
    /// The name of the test that turns red.
    pub test: String,
}

/// Reads the list of a checkout.
pub fn load(root: &Path) -> Result<Vec<Mutant>> {
    let path = root.join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{FILE} is not understood"))?;
    Ok(list.mutant)
}

/// The text of its file with the bug planted.
pub fn planted(mutant: &Mutant, text: &str) -> Result<String> {
    let Mutant { name, file, replace, with, .. } = mutant;
    if replace == with {
        bail!("{FILE}: {name} changes nothing");
    }
    match text.matches(replace.as_str()).count() {
        1 => Ok(text.replacen(replace.as_str(), with, 1)),
        count => bail!("{FILE}: what {name} replaces occurs {count} times in {file}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_planted_exactly_where_there_is_one_place_for_it() {
        let mutant = |replace: &str| Mutant {
            name: "n".into(),
            bug: "b".into(),
            file: "f".into(),
            replace: replace.into(),
            with: "false".into(),
            package: "p".into(),
            target: "lib".into(),
            test: "t".into(),
        };
        assert_eq!(planted(&mutant("a > b"), "if a > b {}").unwrap(), "if false {}");
        for (replace, text) in [("a > b", "a > b || a > b"), ("a > b", "a < b"), ("false", "false")] {
            planted(&mutant(replace), text).unwrap_err();
        }
    }
}
