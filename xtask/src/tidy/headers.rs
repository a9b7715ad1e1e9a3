//! Rule: every file says at its top what it is for.

use super::Source;

/// Complains about a file that does not open with a `//!` sentence.
pub fn check(source: &Source) -> Option<String> {
    let first = source.text.lines().next().unwrap_or_default();
    let words = first.strip_prefix("//!").unwrap_or_default().split_whitespace().count();
    (words < 2).then(|| format!("{}: does not open with a `//!` line that says what it is for", source.path))
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_file_opens_with_its_purpose() {
        assert!(check(&source("a.rs", "//! Counts the sheep.\n")).is_none());
        assert!(check(&source("a.rs", "//! stub\n")).is_some());
        assert!(check(&source("a.rs", "use std::fs;\n")).is_some());
    }
}
