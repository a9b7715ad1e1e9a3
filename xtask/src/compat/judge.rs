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

/// The way from a framework's tests to their sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sdk {
    E2b,
    Own,
}

/// The tests that may fail, and those that do not run.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default)]
    exception: Vec<Exception>,
    /// Tests that skip themselves.
    #[serde(default)]
    skipped: Vec<Exception>,
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
    /// Why they may fail, or do not run.
    why: String,
    /// With which SDK, where only one of them is meant.
    sdk: Option<Sdk>,
}

impl Exceptions {
    /// Reads what the list says of tests with this SDK.
    pub fn load(path: &Path, sdk: Sdk) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, sdk).with_context(|| format!("{} is not understood", path.display()))
    }

    fn parse(text: &str, sdk: Sdk) -> Result<Self> {
        let mut read: Self = toml::from_str(text)?;
        for list in [&mut read.exception, &mut read.skipped, &mut read.slow] {
            list.retain(|exception| exception.sdk.is_none_or(|only| only == sdk));
        }
        Ok(read)
    }

    fn is_slow(&self, test: &str) -> bool {
        why(&self.slow, test).is_some()
    }

    /// The tests that have a second try.
    pub fn second_tries(&self, results: &Results) -> Vec<String> {
        let failed = results.iter().filter(|(_, ended)| **ended == Ended::Failed);
        failed.map(|(test, _)| test).filter(|test| self.is_slow(test)).cloned().collect()
    }

    fn listed(&self) -> impl Iterator<Item = &str> {
        let all = self.exception.iter().chain(&self.skipped).chain(&self.slow);
        all.flat_map(|exception| &exception.tests).map(String::as_str)
    }
}

/// What a list says of this test.
fn why<'a>(list: &'a [Exception], test: &str) -> Option<&'a str> {
    let said = |exception: &&Exception| exception.tests.iter().any(|name| names(name, test));
    list.iter().find(said).map(|exception| exception.why.as_str())
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
    /// Failed as it is said of them, by reason.
    excepted: BTreeMap<String, Vec<String>>,
    /// Did not run, as it is said of them, by reason.
    skipped: BTreeMap<String, Vec<String>>,
    /// Passed at their second try.
    slow: Vec<String>,
    /// Failed, and nothing is said of them.
    failed: Vec<String>,
    /// Did not run, and nothing is said of them.
    missed: Vec<String>,
    /// Said to fail or not to run, and passed, or are not there.
    stale: Vec<String>,
}

impl Verdict {
    /// Of these results; `all` when every test was run, so that an exception for none of them is stale.
    pub fn of(results: &Results, exceptions: &Exceptions, all: bool) -> Self {
        let mut verdict = Self::default();
        for (test, ended) in results {
            let (fails, skips) = (why(&exceptions.exception, test), why(&exceptions.skipped, test));
            let said = match ended {
                Ended::Failed => fails,
                Ended::Skipped => skips,
                Ended::Passed | Ended::PassedAlone => fails.or(skips),
            };
            let note = |list: &mut BTreeMap<String, Vec<String>>, why: &str| {
                list.entry(why.to_owned()).or_default().push(test.clone());
            };
            match (ended, said) {
                (Ended::Passed, None) => verdict.passed += 1,
                (Ended::Passed | Ended::PassedAlone, Some(_)) => verdict.stale.push(test.clone()),
                (Ended::PassedAlone, None) => verdict.slow.push(test.clone()),
                (Ended::Skipped, Some(why)) => note(&mut verdict.skipped, why),
                (Ended::Skipped, None) => verdict.missed.push(test.clone()),
                (Ended::Failed, Some(why)) => note(&mut verdict.excepted, why),
                (Ended::Failed, None) => verdict.failed.push(test.clone()),
            }
        }
        let unknown = |name: &&str| all && !results.keys().any(|test| names(name, test));
        verdict.stale.extend(exceptions.listed().filter(unknown).map(str::to_owned));
        verdict
    }

    /// Whether tests and list agree.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.missed.is_empty() && self.stale.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (heading, reasons) in [("may fail", &self.excepted), ("skipped", &self.skipped)] {
            for (why, tests) in reasons {
                writeln!(f, "\n{} {heading}: {why}", tests.len())?;
                tests.iter().try_for_each(|test| writeln!(f, "  {test}"))?;
            }
        }
        for (heading, tests) in [
            ("wait for a fixed time, which was enough only when nothing else ran", &self.slow),
            ("failed, and are not listed", &self.failed),
            ("skipped, and are not listed", &self.missed),
            ("are listed, and pass or are not there", &self.stale),
        ] {
            if !tests.is_empty() {
                writeln!(f, "\n{} {heading}:", tests.len())?;
                tests.iter().try_for_each(|test| writeln!(f, "  {test}"))?;
            }
        }
        let count = |reasons: &BTreeMap<String, Vec<String>>| reasons.values().map(Vec::len).sum::<usize>();
        writeln!(
            f,
            "\ncompat: {} passed, {} of them at their second try, {} failed, {} may fail and did, {} skipped",
            self.passed + self.slow.len() + self.stale.len(),
            self.slow.len(),
            self.failed.len(),
            count(&self.excepted),
            count(&self.skipped) + self.missed.len()
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

    /// These may fail, and the one that the report has as skipped is listed.
    fn exceptions(names: &[&str]) -> Exceptions {
        Exceptions { exception: said(names), skipped: said(&["tests.sync.test_debug"]), slow: Vec::new() }
    }

    fn said(names: &[&str]) -> Vec<Exception> {
        let tests = names.iter().map(|name| (*name).to_owned()).collect();
        vec![Exception { tests, why: "because".into(), sdk: None }]
    }

    #[test]
    fn every_failure_is_listed_or_told() {
        let results = results(REPORT).unwrap();
        let verdict = Verdict::of(&results, &exceptions(&["tests.sync.test_fork"]), true);
        assert_eq!(verdict.passed, 1);
        assert_eq!(verdict.skipped["because"], ["tests.sync.test_debug.test_it"]);
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
    fn a_test_that_skips_is_listed_or_told() {
        let results = results(REPORT).unwrap();
        let fail = ["tests.sync.test_fork", "tests.sync.test_run.test_large", "tests.sync.test_twice"];
        let mut listed = exceptions(&fail);
        assert!(Verdict::of(&results, &listed, true).is_good());
        listed.skipped = Vec::new();
        let verdict = Verdict::of(&results, &listed, true);
        assert!(!verdict.is_good() && verdict.missed == ["tests.sync.test_debug.test_it"], "{verdict}");
        assert!(
            verdict.to_string().contains("1 skipped, and are not listed:\n  tests.sync.test_debug.test_it")
        );
        listed.skipped =
            said(&["tests.sync.test_debug", "tests.sync.test_run.test_run", "tests.sync.test_gone"]);
        let verdict = Verdict::of(&results, &listed, true);
        assert_eq!(verdict.stale, ["tests.sync.test_run.test_run", "tests.sync.test_gone"]);
    }

    #[test]
    fn what_is_said_of_one_sdk_is_not_said_of_the_other() {
        let list =
            "[[skipped]]\nwhy = 'a'\nsdk = 'own'\ntests = ['x']\n[[skipped]]\nwhy = 'b'\ntests = ['y']\n";
        let skipped = |sdk| {
            let read = Exceptions::parse(list, sdk).expect("a list");
            ["x", "y"].map(|test| why(&read.skipped, test).is_some())
        };
        assert_eq!((skipped(Sdk::E2b), skipped(Sdk::Own)), ([false, true], [true, true]));
    }

    #[test]
    fn every_list_is_understood() {
        let lists = std::fs::read_dir(crate::repo::root().join("tests/compat")).expect("the lists");
        let paths = lists.map(|entry| entry.expect("an entry").path());
        for path in paths.filter(|path| path.extension().is_some_and(|kind| kind == "toml")) {
            Exceptions::load(&path, Sdk::E2b).expect("a list");
        }
    }

    #[test]
    fn a_slow_test_has_a_second_try_and_no_third() {
        let mut results = results(REPORT).unwrap();
        let mut listed = exceptions(&["tests.sync.test_fork", "tests.sync.test_twice"]);
        listed.slow = said(&["tests.sync.test_run"]);
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
        listed.slow = said(&["tests.sync.test_gone"]);
        assert!(!Verdict::of(&results, &listed, true).is_good(), "it is not there");
    }

    #[test]
    fn a_name_means_a_whole_word() {
        assert!(names("tests.a", "tests.a.test_b") && names("tests.a.test_b", "tests.a.test_b[x]"));
        assert!(!names("tests.a", "tests.ab.test_b") && !names("tests.a.test_b", "tests.a.test_bc"));
    }
}
