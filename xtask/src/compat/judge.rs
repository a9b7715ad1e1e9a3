//! What the tests came to, held against what is said of them. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Passed,
    Failed,
    Skipped,
    /// It failed among all the others, and passed when it was tried once more, alone.
    PassedAlone,
}

/// How each test ended, by its name: `tests.sync.….test_run.test_run`, with its parameters, or
/// `tests/sandbox/host.test.ts.ping server`.
pub type Results = BTreeMap<String, Ended>;

/// The tests that may fail.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default)]
    exception: Vec<Exception>,
    /// Tests that wait for a fixed time, which is enough on a processor and may not be on an emulated one that does other
    /// things beside: one that fails is tried once more, alone, and has to pass then.
    #[serde(default)]
    slow: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// The names of tests, whole or up to a dot or a bracket.
    tests: Vec<String>,
    /// Why they may fail.
    why: String,
}

impl Exceptions {
    /// Reads the list.
    pub fn load(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
    }

    fn why(&self, test: &str) -> Option<&str> {
        let said = |exception: &&Exception| exception.tests.iter().any(|name| names(name, test));
        self.exception.iter().find(said).map(|exception| exception.why.as_str())
    }

    fn is_slow(&self, test: &str) -> bool {
        self.slow.iter().flat_map(|slow| &slow.tests).any(|name| names(name, test))
    }

    /// The tests that have a second try.
    pub fn second_tries(&self, results: &Results) -> Vec<String> {
        let failed = results.iter().filter(|(_, ended)| **ended == Ended::Failed);
        failed.map(|(test, _)| test).filter(|test| self.is_slow(test)).cloned().collect()
    }

    fn listed(&self) -> impl Iterator<Item = &str> {
        self.exception.iter().chain(&self.slow).flat_map(|exception| &exception.tests).map(String::as_str)
    }
}

/// Whether a name of the list means this test.
fn names(name: &str, test: &str) -> bool {
    test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Reads what pytest or vitest wrote.
pub fn results(junit: &str) -> Result<Results> {
    let document = roxmltree::Document::parse(junit).context("the report is not understood")?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let result = |case: roxmltree::Node<'_, '_>| {
        let has = |tag: &str| case.children().any(|child| child.has_tag_name(tag));
        let ended = match () {
            () if has("failure") || has("error") => Ended::Failed,
            () if has("skipped") => Ended::Skipped,
            () => Ended::Passed,
        };
        let part = |name: &str| case.attribute(name).unwrap_or_default();
        (format!("{}.{}", part("classname"), part("name")), ended)
    };
    let mut results = Results::new();
    for (name, ended) in cases.map(result) {
        // A test that passes and fails to clean up is reported twice.
        let worst = if results.get(&name) == Some(&Ended::Failed) { Ended::Failed } else { ended };
        results.insert(name, worst);
    }
    Ok(results)
}

/// What it comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    passed: usize,
    skipped: usize,
    /// Failed as it is said of them, by reason.
    excepted: BTreeMap<String, Vec<String>>,
    /// Passed at their second try.
    slow: Vec<String>,
    /// Failed, and nothing is said of them.
    failed: Vec<String>,
    /// Said to fail, and did not, or are not there.
    stale: Vec<String>,
}

impl Verdict {
    /// Of these results; `all` when every test was run, so that an exception for none of them is stale.
    pub fn of(results: &Results, exceptions: &Exceptions, all: bool) -> Self {
        let mut verdict = Self::default();
        for (test, ended) in results {
            match (ended, exceptions.why(test)) {
                (Ended::Passed, None) => verdict.passed += 1,
                (Ended::Passed | Ended::PassedAlone, Some(_)) => verdict.stale.push(test.clone()),
                (Ended::PassedAlone, None) => verdict.slow.push(test.clone()),
                (Ended::Skipped, _) => verdict.skipped += 1,
                (Ended::Failed, Some(why)) => {
                    verdict.excepted.entry(why.to_owned()).or_default().push(test.clone());
                }
                (Ended::Failed, None) => verdict.failed.push(test.clone()),
            }
        }
        let unknown = |name: &&str| all && !results.keys().any(|test| names(name, test));
        verdict.stale.extend(exceptions.listed().filter(unknown).map(str::to_owned));
        verdict
    }

    /// Whether tests and list agree.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.stale.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (why, tests) in &self.excepted {
            writeln!(f, "\n{} may fail: {why}", tests.len())?;
            tests.iter().try_for_each(|test| writeln!(f, "  {test}"))?;
        }
        for (heading, tests) in [
            ("wait for a fixed time, which was enough only when nothing else ran", &self.slow),
            ("failed, and are not listed", &self.failed),
            ("are listed, and pass or are not there", &self.stale),
        ] {
            if !tests.is_empty() {
                writeln!(f, "\n{} {heading}:", tests.len())?;
                tests.iter().try_for_each(|test| writeln!(f, "  {test}"))?;
            }
        }
        let excepted: usize = self.excepted.values().map(Vec::len).sum();
        writeln!(
            f,
            "\ncompat: {} passed, {} of them at their second try, {} failed, {excepted} may fail and did, {} skipped",
            self.passed + self.slow.len() + self.stale.len(),
            self.slow.len(),
            self.failed.len(),
            self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0"?><testsuites><testsuite>
        <testcase classname="tests.sync.test_run" name="test_run" time="1"/>
        <testcase classname="tests.sync.test_run" name="test_large[a]"><failure message="x">y</failure></testcase>
        <testcase classname="tests.sync.test_fork" name="test_fork"><error message="x">y</error></testcase>
        <testcase classname="tests.sync.test_debug" name="test_it"><skipped/></testcase>
        <testcase classname="tests.sync.test_twice" name="test_it"/>
        <testcase classname="tests.sync.test_twice" name="test_it"><error message="end"/></testcase>
    </testsuite></testsuites>"#;

    fn exceptions(names: &[&str]) -> Exceptions {
        let tests = names.iter().map(|name| (*name).to_owned()).collect();
        Exceptions { exception: vec![Exception { tests, why: "because".into() }], slow: Vec::new() }
    }

    #[test]
    fn every_failure_is_listed_or_told() {
        let results = results(REPORT).unwrap();
        let verdict = Verdict::of(&results, &exceptions(&["tests.sync.test_fork"]), true);
        assert_eq!(verdict.passed, 1);
        assert_eq!(verdict.skipped, 1);
        assert_eq!(verdict.failed, ["tests.sync.test_run.test_large[a]", "tests.sync.test_twice.test_it"]);
        assert_eq!(verdict.excepted["because"], ["tests.sync.test_fork.test_fork"]);
        assert!(!verdict.is_good());
        let listed = ["tests.sync.test_fork", "tests.sync.test_run.test_large", "tests.sync.test_twice"];
        assert!(Verdict::of(&results, &exceptions(&listed), true).is_good());
    }

    #[test]
    fn what_is_listed_and_passes_or_is_not_there_is_told() {
        let results = results(REPORT).unwrap();
        let listed = exceptions(&["tests.sync.test_run.test_run", "tests.sync.test_gone"]);
        let verdict = Verdict::of(&results, &listed, true);
        assert_eq!(verdict.stale, ["tests.sync.test_run.test_run", "tests.sync.test_gone"]);
        // Where only some tests were run, nothing is known of the others.
        assert_eq!(Verdict::of(&results, &listed, false).stale, ["tests.sync.test_run.test_run"]);
    }

    #[test]
    fn a_slow_test_has_a_second_try_and_no_third() {
        let mut results = results(REPORT).unwrap();
        let mut listed = exceptions(&["tests.sync.test_fork", "tests.sync.test_twice"]);
        listed.slow = exceptions(&["tests.sync.test_run"]).exception;
        let slow = "tests.sync.test_run.test_large[a]".to_owned();
        assert_eq!(
            listed.second_tries(&results),
            std::slice::from_ref(&slow),
            "one that has passed needs none"
        );
        let verdict = Verdict::of(&results, &listed, true);
        assert!(!verdict.is_good() && verdict.failed == [slow.clone()], "{verdict}");
        results.insert(slow.clone(), Ended::PassedAlone);
        let verdict = Verdict::of(&results, &listed, true);
        assert!(verdict.is_good(), "{verdict}");
        assert_eq!((verdict.passed, verdict.slow), (1, vec![slow]));
        listed.slow = exceptions(&["tests.sync.test_gone"]).exception;
        assert!(!Verdict::of(&results, &listed, true).is_good(), "it is not there");
    }

    #[test]
    fn a_name_means_a_whole_word() {
        assert!(names("tests.a", "tests.a.test_b") && names("tests.a.test_b", "tests.a.test_b[x]"));
        assert!(!names("tests.a", "tests.ab.test_b") && !names("tests.a.test_b", "tests.a.test_bc"));
    }
}
