//! The list of planted bugs fits the code: each has exactly one place, a name of its own and a test that exists.

use std::collections::BTreeSet;

use super::Source;
use crate::mutants::{FILE, Mutant, planted};

/// What does not fit.
pub fn check(mutants: &[Mutant], sources: &[Source]) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut complaints = Vec::new();
    for mutant in mutants {
        let Mutant { name, file, test, .. } = mutant;
        if !names.insert(name) {
            complaints.push(format!("{FILE}: there are two entries {name}"));
        }
        match sources.iter().find(|source| source.path == *file) {
            Some(source) => {
                complaints.extend(planted(mutant, &source.text).err().map(|error| error.to_string()));
            }
            None => complaints.push(format!("{FILE}: {name} is for {file}, which is not there")),
        }
        // One that several modules have begins with its own.
        let function = format!("fn {}(", test.rsplit("::").next().unwrap_or(test));
        if !sources.iter().any(|source| source.text.contains(&function)) {
            complaints.push(format!("{FILE}: {name} names a test `{test}` that is not there"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn an_entry_that_the_code_has_left_behind_is_told() {
        let mutant = |name: &str, file: &str, replace: &str, test: &str| Mutant {
            name: name.into(),
            bug: "b".into(),
            file: file.into(),
            replace: replace.into(),
            with: "false".into(),
            package: "p".into(),
            target: "lib".into(),
            test: test.into(),
        };
        let sources = [source("a.rs", "if x > 1 {}\nfn it_is_bounded() {}\n")];
        let right = mutant("one", "a.rs", "x > 1", "it_is_bounded");
        assert_eq!(check(std::slice::from_ref(&right), &sources), [""; 0]);
        for wrong in [
            mutant("two", "b.rs", "x > 1", "it_is_bounded"),
            mutant("two", "a.rs", "x > 2", "it_is_bounded"),
            mutant("two", "a.rs", "x > 1", "it_is_gone"),
            right.clone(),
        ] {
            assert_eq!(check(&[right.clone(), wrong.clone()], &sources).len(), 1, "{wrong:?}");
        }
    }
}
