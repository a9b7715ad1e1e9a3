//! What the test suites share: a skip that is reported instead of passing silently.
//!
//! Used by tests only. It never starts anything itself.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that `cargo xtask test` collects skips from.
pub const SKIP_FILE_ENV: &str = "REKINDLE_SKIP_FILE";

/// Records that the running test could not run on this machine, and why.
///
/// The test returns right after; `cargo xtask test` counts it as skipped, not as passed.
///
/// # Panics
/// When the skip file cannot be written: a skip nobody sees would be a silent pass.
pub fn report_skip(test: &str, reason: &str) {
    eprintln!("SKIP {test}: {reason}");
    if let Some(path) = std::env::var_os(SKIP_FILE_ENV) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
        // One write call a line, so that parallel tests do not interleave.
        file.write_all(format!("{test}\t{reason}\n").as_bytes()).expect("the skip is recorded");
    }
}

/// Ends the running test as a reported skip: `skip!("no memory controller")`.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        fn here() {}
        let name = ::std::any::type_name_of_val(&here);
        let name = name.strip_suffix("::here").unwrap_or(name).trim_end_matches("::{{closure}}");
        $crate::report_skip(name, &format!($($reason)*));
        return;
    }};
}
