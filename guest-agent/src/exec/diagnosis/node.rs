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

use rekindle_protocol::failure;
use rekindle_protocol::wire::{DiagnosisKind, Language};

use super::Found;

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
    let (place, source, below) = (lines[mark - 2], lines[mark - 1], &lines[mark + 1..]);
    let thrown = lines[mark].find('^').and_then(|column| from(source, column)?.strip_prefix("throw "));
    let own =
        thrown.and_then(|value| constructed(value).or_else(|| constructed_before(place, source, below)));
    // Node names the class of an error, but not where a script of `-e` throws as it is first run: there a class that
    // sets no name has the one it inherits, and its own is only in the source.
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
    let (kind, subject) = failure::node(name, message);
    Found::new(super::kind(kind), subject, message)
}

/// The class that the line which threw declares, and constructs where the stack begins: `at f ([eval]:1:46)`.
fn constructed_before<'a>(place: &str, source: &'a str, below: &[&str]) -> Option<&'a str> {
    let frame = below.iter().find_map(|line| line.strip_prefix("    at "))?;
    let frame = frame.trim_end_matches([' ', '{', ')']).rsplit('(').next()?;
    let column: usize = frame.strip_prefix(place)?.strip_prefix(':')?.parse().ok()?;
    let class = constructed(from(source, column.checked_sub(1)?)?)?;
    // Classes of the language's own throw where they are constructed.
    source.contains(&format!("class {class} extends ")).then_some(class)
}

/// A line from a column on.
fn from(line: &str, column: usize) -> Option<&str> {
    let (at, _) = line.char_indices().nth(column)?;
    line.get(at..)
}

/// The class in `new Class(`.
fn constructed(source: &str) -> Option<&str> {
    let name = source.trim_start().strip_prefix("new ")?.split('(').next()?.trim();
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
