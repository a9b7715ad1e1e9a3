//! A process of a test's own, for what a process can do once, or for good.

use std::process::Command;

/// Names the test that is alone in this process.
const ALONE_ENV: &str = "REKINDLE_TEST_ALONE";

/// Whether this test, named with its modules, is alone in this process. If not it is run in one of its own first, and the
/// caller has nothing left to do.
///
/// # Panics
/// When it fails there.
#[must_use]
pub fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE_ENV).is_some_and(|alone| alone == test) {
        return true;
    }
    let own = std::env::current_exe().expect("this program");
    let run = Command::new(own).args(["--exact", test, "--nocapture"]).env(ALONE_ENV, test).output();
    let output = run.expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(test), "{test} is no test of this program: {said}");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_alone_in_a_process_of_its_own() {
        let told = std::env::var_os(ALONE_ENV).is_some();
        assert_eq!(is_alone("own_process::tests::a_test_is_alone_in_a_process_of_its_own"), told);
    }

    #[test]
    #[should_panic(expected = "is no test of this program")]
    fn a_name_that_no_test_has_is_told() {
        let _ = is_alone("own_process::tests::nothing");
    }
}
