//! Counting what libtest prints, and collecting what the tests tell about themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::Result;

use crate::hint;

/// Where tests run: here, or in the lab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// On this machine.
    #[default]
    Here,
    /// In the lab.
    Lab,
}

impl Where {
    fn label(self) -> &'static str {
        match self {
            Self::Here => "",
            Self::Lab => ", lab",
        }
    }
}

/// Counts of one run.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    ignored: usize,
    failures: Vec<String>,
    counted_failures: usize,
    /// Whether a test explains that `cargo test` failed.
    test_failed: bool,
    /// Test programs that began and have not printed their result.
    running: usize,
    skips: BTreeMap<(String, Where), String>,
    /// Of each test with a virtual machine: the engines it ran on, and where.
    engines: BTreeMap<String, BTreeSet<(String, Where)>>,
    /// Where the tests that are being read run.
    now: Where,
}

impl Tally {
    /// What is read from now on happened there.
    pub fn at(&mut self, place: Where) {
        self.now = place;
    }

    /// Counts a check that is not a libtest test.
    pub fn record(&mut self, name: &str, passed: bool) {
        if passed {
            self.passed += 1;
        } else {
            self.counted_failures += 1;
            self.failures.push(name.to_owned());
        }
    }

    /// Counts a check that this machine cannot run.
    pub fn unavailable(&mut self, name: &str, reason: &str) {
        // Like a test that reported its own skip: it came back, so it counts as passed first.
        self.passed += 1;
        self.skip(&format!("{name}\t{reason}"));
    }

    /// Takes in one line of a test program's output.
    pub fn read(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.passed += count(rest, "passed");
            let failed = count(rest, "failed");
            self.counted_failures += failed;
            self.test_failed |= failed > 0;
            self.ignored += count(rest, "ignored");
            self.running = self.running.saturating_sub(1);
        } else if is_start(line) {
            self.running += 1;
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            let place = if self.now == Where::Lab { " [lab]" } else { "" };
            self.failures.push(format!("{name}{place}"));
        }
    }

    /// Takes in how `cargo test` ended: it also fails when a program crashes or does not build.
    pub fn end(&mut self, success: bool) {
        for _ in 0..std::mem::take(&mut self.running) {
            self.test_failed = true;
            self.record("a test program crashed or was killed; its tests are not counted", false);
        }
        if !success && !self.test_failed {
            self.record("cargo test (a test program did not build)", false);
        }
        // A program that crashed after a failure has named it without counting it.
        self.counted_failures = self.counted_failures.max(self.failures.len());
    }

    /// Takes in the skip file: one `name<TAB>reason` a line.
    pub fn skip(&mut self, text: &str) {
        for line in text.lines() {
            let (name, reason) = line.split_once('\t').unwrap_or((line, "no reason given"));
            self.skips.insert((name.to_owned(), self.now), reason.to_owned());
        }
    }

    /// Takes in the file of engines: one `name<TAB>engine` a line.
    pub fn ran_on(&mut self, text: &str) {
        for (name, engine) in text.lines().filter_map(|line| line.split_once('\t')) {
            self.engines.entry(name.to_owned()).or_default().insert((engine.to_owned(), self.now));
        }
    }

    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        self.counted_failures > 0
    }

    /// The engines each test ran on, the skips with their reasons, then the failures.
    pub fn details(&self) -> String {
        let mut text = String::new();
        if !self.engines.is_empty() {
            text.push_str("\nengines of the tests with virtual machines:\n");
        }
        for (name, engines) in &self.engines {
            let words = engines.iter().map(|(engine, place)| {
                let skipped = self.skips.contains_key(&(name.clone(), *place));
                format!("[{engine}{}{}]", place.label(), if skipped { ", skipped" } else { "" })
            });
            let _ = writeln!(text, "  {name} {}", words.collect::<Vec<_>>().join(" "));
        }
        if !self.skips.is_empty() {
            text.push_str("\nskipped on this machine:\n");
            for ((name, place), reason) in &self.skips {
                let place = if *place == Where::Lab { " [lab]" } else { "" };
                let _ = writeln!(text, "  {name}{place}: {reason}");
            }
        }
        if !self.failures.is_empty() {
            text.push_str("\nfailed:\n");
            for name in &self.failures {
                let _ = writeln!(text, "  {name}");
            }
        }
        text
    }

    /// The last line.
    pub fn line(&self) -> String {
        // A reported skip returned normally, so libtest counted it as passed.
        let passed = self.passed.saturating_sub(self.skips.len());
        let skipped = self.skips.len() + self.ignored;
        format!("{passed} passed, {} failed, {skipped} skipped", self.counted_failures)
    }
}

/// Whether a line is libtest's "running 5 tests".
fn is_start(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(words[..], ["running", count, "test" | "tests"] if count.parse::<usize>().is_ok())
}

/// The number before `word` in "ok. 5 passed; 0 failed; 1 ignored; …".
fn count(summary: &str, word: &str) -> usize {
    let words: Vec<&str> = summary.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or_default()
}

/// Whether it went well; says why when not.
pub fn outcome(result: &Result<()>) -> bool {
    if let Err(error) = result {
        eprint!("{}", hint::render(error));
    }
    result.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_add_up_and_skips_are_not_passes() {
        let mut tally = Tally::default();
        tally.record("cargo fmt", true);
        tally.read(
            "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        tally.read("test a::b ... FAILED");
        tally.read("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        tally.skip("x::y\tno kvm\nx::y\tno kvm\n");
        tally.end(false);
        assert_eq!(tally.line(), "7 passed, 1 failed, 2 skipped");
        assert!(tally.failed());
        assert_eq!(tally.details(), "\nskipped on this machine:\n  x::y: no kvm\n\nfailed:\n  a::b\n");
    }

    #[test]
    fn a_test_that_ran_on_several_engines_is_listed_with_all_of_them_and_its_skips_count_one_by_one() {
        let mut tally = Tally::default();
        tally.read("test result: ok. 2 passed; 0 failed; 0 ignored");
        tally.ran_on("sandbox::clones::a\tqemu\nsandbox::limits::b\tqemu\n");
        tally.skip("sandbox::limits::b\tbusy\n");
        tally.at(Where::Lab);
        tally.read("test clones::a ... FAILED");
        tally.read("test result: FAILED. 1 passed; 1 failed; 0 ignored");
        tally.ran_on("sandbox::clones::a\tfirecracker\nsandbox::limits::b\tfirecracker\n");
        tally.skip("sandbox::limits::b\tslow\n");
        let text = tally.details();
        for line in [
            "  sandbox::clones::a [firecracker, lab] [qemu]\n",
            "  sandbox::limits::b [firecracker, lab, skipped] [qemu, skipped]\n",
            "  sandbox::limits::b: busy\n",
            "  sandbox::limits::b [lab]: slow\n",
            "failed:\n  clones::a [lab]\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert_eq!(tally.line(), "1 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn a_check_that_cannot_run_is_a_skip() {
        let mut tally = Tally::default();
        tally.unavailable("cargo fmt", "not installed");
        assert_eq!(tally.line(), "0 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_program_that_dies_is_a_failure_of_its_own() {
        let mut tally = Tally::default();
        for line in [
            "running 1 test",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored",
            "running 3 tests",
            "test a ... ok",
        ] {
            tally.read(line);
        }
        tally.end(false);
        assert_eq!(tally.line(), "0 passed, 2 failed, 0 skipped");
    }

    #[test]
    fn a_build_failure_is_a_failure() {
        let mut tally = Tally::default();
        tally.record("cargo fmt", false);
        tally.end(false);
        assert_eq!(tally.line(), "0 passed, 2 failed, 0 skipped");
    }
}
