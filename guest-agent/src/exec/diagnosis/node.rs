//! What Node prints of what was thrown and nobody caught.
//!
//! ```text
//! [eval]:1                 where
//! throw new Failure('x')   the line
//! ^                        the place in it
//!                          (no empty line before a value that is no object)
//! Error: x                 what was thrown
//!     at [eval]:1:7
//! ```

use rekindle_protocol::wire::{DiagnosisKind, Language};

use super::{Found, quoted};

/// How the last line begins.
pub(super) const TRAILER: &str = "Node.js v";
/// The subject of something thrown that has no name.
const NO_ERROR: &str = "thrown value";

/// What ended a program that failed.
pub(super) fn uncaught(stderr: &str) -> Option<Found> {
    let found = heap(stderr).or_else(|| thrown(stderr)).or_else(|| named(stderr))?;
    Some(found.of(Language::Node))
}

/// A program whose objects outgrew its heap. A signal or an exit code as of one ends it.
pub(super) fn heap(stderr: &str) -> Option<Found> {
    let full = "JavaScript heap out of memory";
    stderr.contains(full).then(|| Found::new(DiagnosisKind::OutOfMemory, "", full).of(Language::Node))
}

/// What follows the mark below the line that threw.
fn thrown(stderr: &str) -> Option<Found> {
    let lines: Vec<&str> = stderr.lines().collect();
    let mark = (2..lines.len()).rev().find(|&at| is_mark(lines[at]) && is_place(lines[at - 2]))?;
    let line = lines[mark + 1..].iter().find(|line| !line.is_empty())?;
    let (head, message) = line.split_once(": ").unwrap_or((line.trim_end_matches([':', ']']), ""));
    let name = head.trim_start_matches('[').split(" [").next().unwrap_or(head);
    if !is_name(name) || lines[mark + 1..].iter().any(|line| line.starts_with("(Use `node --trace-uncaught"))
    {
        return Some(Found::new(DiagnosisKind::UncaughtException, NO_ERROR, line));
    }
    if name == "UnhandledPromiseRejection" {
        let reason = line.split_once("with the reason \"").map_or(message, |(_, reason)| reason);
        let reason = reason.trim_end_matches(['.', ']', '"', ' ', '{']);
        return Some(Found::new(DiagnosisKind::UncaughtException, name, reason));
    }
    let column = lines[mark].find('^').unwrap_or_default();
    let own = lines[mark - 1].get(column..).and_then(constructed);
    // A class that sets no name has the one it inherits: its own is only where it was thrown.
    let name = own.filter(|_| name.ends_with("Error")).unwrap_or(name);
    Some(told(name, message))
}

/// Without such a mark: the first line that begins as an error does.
fn named(stderr: &str) -> Option<Found> {
    let mut lines = stderr.lines().map(|line| line.strip_prefix("Uncaught ").unwrap_or(line));
    lines.find_map(|line| {
        let (head, message) = line.split_once(": ").unwrap_or((line, ""));
        let name = head.split(" [").next().unwrap_or(head);
        let error = is_name(name) && (name.ends_with("Error") || name.ends_with("Exception"));
        error.then(|| told(name, message))
    })
}

fn told(name: &str, message: &str) -> Found {
    use DiagnosisKind as Kind;
    let begins = |words: &[&str]| words.iter().any(|words| message.starts_with(words));
    if begins(&["Cannot find module", "Cannot find package"]) {
        Found::new(Kind::MissingModule, quoted(message).unwrap_or(message), message)
    } else if let Some(module) = message.strip_prefix("No such built-in module: ") {
        Found::new(Kind::MissingModule, module, message)
    } else if begins(&["EACCES: ", "EPERM: ", "EROFS: "]) {
        Found::new(Kind::PermissionDenied, quoted(message).unwrap_or_default(), message)
    } else if name == "SyntaxError" {
        Found::new(Kind::SyntaxError, name, message)
    } else {
        Found::new(Kind::UncaughtException, name, message)
    }
}

/// The class in `throw new Class(` or `new Class(`.
fn constructed(source: &str) -> Option<&str> {
    let source = source.strip_prefix("throw ").unwrap_or(source).trim_start().strip_prefix("new ")?;
    let name = source.split('(').next()?.trim();
    let class = name.rsplit('.').next()?;
    (is_name(class) && !class.starts_with("ERR_")).then_some(class)
}

fn is_mark(line: &str) -> bool {
    let marks = line.trim_start_matches([' ', '\t']);
    !marks.is_empty() && marks.bytes().all(|byte| byte == b'^')
}

/// `[eval]:1`, or a path and a line.
fn is_place(line: &str) -> bool {
    let number = line.rsplit_once(':').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}
