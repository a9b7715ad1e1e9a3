//! Rule: a file fits into a head. Exceptions are listed with their reason.

use super::Source;

/// Lines a file may have without its tests.
const LIMIT: usize = 400;

/// Files that may be longer, and why.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Complains about a file that grew too long.
pub fn check(source: &Source) -> Option<String> {
    let lines = source.without_tests().lines().count();
    let excepted = EXCEPTIONS.iter().any(|(path, _)| *path == source.path);
    (lines > LIMIT && !excepted)
        .then(|| format!("{}: {lines} lines without tests, more than {LIMIT}", source.path))
}

/// Complains about exceptions that nothing needs any more.
pub fn stale_exceptions(sources: &[Source]) -> Vec<String> {
    let needed = |path: &str| {
        sources.iter().any(|source| source.path == path && source.without_tests().lines().count() > LIMIT)
    };
    EXCEPTIONS
        .iter()
        .filter(|(path, _)| !needed(path))
        .map(|(path, _)| format!("{path}: is listed as an exception for its size but needs none"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn tests_do_not_count() {
        let code = "//! x y\n".repeat(LIMIT);
        assert!(check(&source("a.rs", &code)).is_none());
        assert!(check(&source("a.rs", &format!("{code}fn more() {{}}\n"))).is_some());
        let tests = "fn t() {}\n".repeat(LIMIT);
        assert!(
            check(&source("a.rs", &format!("{code}\n#[cfg(test)]\nmod tests {{\n{tests}}}\n"))).is_none()
        );
    }
}
