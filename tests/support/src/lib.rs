//! What the test suites share: a skip that is reported instead of passing silently, a word on which engine a test
//! used, and waiting for what has no event.
//!
//! Used by tests only.

pub mod corpus;
pub mod echo;
pub mod own_process;
pub mod random;
pub mod small_disk;
pub mod snippets;
pub mod wait;

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that `cargo xtask test` collects skips from.
pub const SKIP_FILE_ENV: &str = "REKINDLE_SKIP_FILE";

/// Names the file that `cargo xtask test` collects engines from.
pub const ENGINE_FILE_ENV: &str = "REKINDLE_ENGINE_FILE";

/// Set in the lab, where everything takes its time.
pub const LAB_ENV: &str = "REKINDLE_LAB";

/// Whether this is the lab: a machine whose processor is emulated.
#[must_use]
pub fn in_lab() -> bool {
    std::env::var_os(LAB_ENV).is_some()
}

/// Records that the running test could not run on this machine, and why.
///
/// The test returns right after; `cargo xtask test` counts it as skipped, not as passed.
///
/// # Panics
/// When the skip file cannot be written: a skip nobody sees would be a silent pass.
pub fn report_skip(test: &str, reason: &str) {
    eprintln!("SKIP {test}: {reason}");
    record(SKIP_FILE_ENV, test, reason);
}

/// Records on which engine the running test runs, for the summary of `cargo xtask test`.
///
/// # Panics
/// When the file cannot be written.
pub fn report_engine(test: &str, engine: &str) {
    record(ENGINE_FILE_ENV, test, engine);
}

fn record(variable: &str, test: &str, what: &str) {
    let Some(path) = std::env::var_os(variable) else { return };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    // One write call a line, so that parallel tests do not interleave.
    file.write_all(format!("{test}\t{what}\n").as_bytes()).expect("it is recorded");
}

/// The name of the function this is written in, as tests are listed by.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        let name = ::std::any::type_name_of_val(&here);
        name.strip_suffix("::here").unwrap_or(name).trim_end_matches("::{{closure}}")
    }};
}

/// Says which engine the running test uses: `ran_on!("qemu")`.
#[macro_export]
macro_rules! ran_on {
    ($engine:expr) => {
        $crate::report_engine($crate::test_name!(), &$engine.to_string())
    };
}

/// Ends the running test as a reported skip: `skip!("no memory controller")`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        $crate::report_skip($crate::test_name!(), &format!($($reason)*));
        return;
    }};
}
