//! What an error of Python or of Node means, by its name and its message: one rule for executions, whose words the agent
//! reads, and for code of contexts, whose program tells the host. Pure; what it returns is part of what it is given.

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A module could not be imported.
    MissingModule,
    /// The source could not be parsed.
    SyntaxError,
    /// Something is not allowed.
    PermissionDenied,
    /// There was no more memory.
    OutOfMemory,
    /// Any other error.
    Other,
}

/// How Python's messages begin where the system does not allow something: by its numbers for that.
const DENIED_TO_PYTHON: [&str; 3] = ["[Errno 1]", "[Errno 13]", "[Errno 30]"];
/// The same of Node's.
const DENIED_TO_NODE: [&str; 3] = ["EACCES: ", "EPERM: ", "EROFS: "];

/// What an exception of Python means, and what it is about.
#[must_use]
pub fn python<'a>(name: &'a str, message: &'a str) -> (Kind, &'a str) {
    match name {
        "ModuleNotFoundError" => (Kind::MissingModule, quoted(message).unwrap_or(message)),
        "SyntaxError" | "IndentationError" | "TabError" => (Kind::SyntaxError, name),
        "MemoryError" => (Kind::OutOfMemory, name),
        "PermissionError" | "OSError" if begins(message, &DENIED_TO_PYTHON) => {
            (Kind::PermissionDenied, quoted(message).unwrap_or_default())
        }
        _ => (Kind::Other, name),
    }
}

/// What an error of Node means, and what it is about.
#[must_use]
pub fn node<'a>(name: &'a str, message: &'a str) -> (Kind, &'a str) {
    if begins(message, &["Cannot find module", "Cannot find package"]) {
        (Kind::MissingModule, quoted(message).unwrap_or(message))
    } else if let Some(module) = message.strip_prefix("No such built-in module: ") {
        (Kind::MissingModule, module)
    } else if begins(message, &DENIED_TO_NODE) {
        (Kind::PermissionDenied, quoted(message).unwrap_or_default())
    } else if name == "SyntaxError" {
        (Kind::SyntaxError, name)
    } else {
        (Kind::Other, name)
    }
}

/// The first words in quotation marks.
#[must_use]
pub fn quoted(text: &str) -> Option<&str> {
    let marks: [(char, char); 3] = [('\'', '\''), ('\u{2018}', '\u{2019}'), ('"', '"')];
    marks.into_iter().find_map(|(open, close)| {
        let (_, rest) = text.split_once(open)?;
        rest.split_once(close).map(|(inner, _)| inner)
    })
}

fn begins(message: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| message.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_name_and_message() {
        let missing = python("ModuleNotFoundError", "No module named 'scipy.stats'");
        assert_eq!(missing, (Kind::MissingModule, "scipy.stats"));
        assert_eq!(python("TabError", "t"), (Kind::SyntaxError, "TabError"));
        assert_eq!(python("MemoryError", ""), (Kind::OutOfMemory, "MemoryError"));
        assert_eq!(python("OSError", "[Errno 30] Read-only: '/x'"), (Kind::PermissionDenied, "/x"));
        // A name alone says nothing: programs raise what they like.
        assert_eq!(python("PermissionError", "of my own"), (Kind::Other, "PermissionError"));
        assert_eq!(python("OSError", "[Errno 2] No such file: '/x'"), (Kind::Other, "OSError"));

        assert_eq!(node("Error", "Cannot find module 'a'\nRequire stack:"), (Kind::MissingModule, "a"));
        assert_eq!(node("Error", "No such built-in module: node:fss"), (Kind::MissingModule, "node:fss"));
        assert_eq!(node("Error", "EPERM: not permitted, open \"/x\""), (Kind::PermissionDenied, "/x"));
        assert_eq!(node("SyntaxError", "Unexpected token"), (Kind::SyntaxError, "SyntaxError"));
        assert_eq!(node("TypeError", "t"), (Kind::Other, "TypeError"));
    }

    #[test]
    fn quotation_marks_of_every_kind_are_read() {
        for text in ["no 'a'", "no \u{2018}a\u{2019}", "no \"a\"", "'a' or 'b'"] {
            assert_eq!(quoted(text), Some("a"), "{text}");
        }
        assert_eq!(quoted("it's"), None);
    }
}
