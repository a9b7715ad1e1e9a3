//! Counting what libtest prints.

use std::collections::BTreeMap;
use std::fmt::Write;

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
    skips: BTreeMap<String, String>,
}

impl Tally {
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
            self.failures.push(name.to_owned());
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
            self.skips.insert(name.to_owned(), reason.to_owned());
        }
    }

    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        self.counted_failures > 0
    }

    /// The skips with their reasons, then the failures.
    pub fn details(&self) -> String {
        let mut text = String::new();
        if !self.skips.is_empty() {
            text.push_str("\nskipped on this machine:\n");
            for (name, reason) in &self.skips {
                let _ = writeln!(text, "  {name}: {reason}");
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
