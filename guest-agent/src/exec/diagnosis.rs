//! Guesses what kind of failure an execution's own words describe, for a caller that decides whether to try
//! again. Pure; it never changes an outcome.

mod node;
mod python;

use rekindle_protocol::failure::{self, quoted};
use rekindle_protocol::wire::{Diagnosis, DiagnosisKind, Language};

/// Bytes kept of a subject, and of a message.
const MAX_SUBJECT: usize = 256;
/// What a shell adds to the number of the signal that ended its program.
const SIGNALED: u8 = 128;

/// What is known of an execution that returned, or that a signal ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// Of its code; nothing when it is a command or a line for a shell.
    pub language: Option<Language>,
    /// Its exit code; nothing when a signal ended it.
    pub code: Option<u8>,
    /// One of its processes was killed for its memory.
    pub out_of_memory: bool,
    /// It printed nothing at all.
    pub silent: bool,
    /// What it printed to standard error, or the terminal.
    pub stderr: &'a str,
}

/// A kind of failure, in the program's words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    kind: DiagnosisKind,
    subject: String,
    message: String,
    language: Option<Language>,
}

impl Found {
    fn new(kind: DiagnosisKind, subject: &str, message: &str) -> Self {
        Self { kind, subject: subject.to_owned(), message: message.to_owned(), language: None }
    }

    fn of(self, language: Language) -> Self {
        Self { language: Some(language), ..self }
    }
}

/// What an execution's words say about its failure.
pub fn diagnose(ended: &Ended<'_>) -> Option<Diagnosis> {
    let Found { kind, subject, message, language } = find(ended)?;
    let language = language.map_or(0, i32::from);
    Some(Diagnosis { kind: kind.into(), subject: short(&subject), message: short(&message), language })
}

fn find(ended: &Ended<'_>) -> Option<Found> {
    let Ended { language, code, out_of_memory, silent, stderr } = *ended;
    let interpreted = matches!(language, Some(Language::Python | Language::Node));
    match code {
        Some(0) if silent && interpreted => {
            return Some(Found { language, ..Found::new(DiagnosisKind::EmptyOutput, "", "") });
        }
        // Of a program that went on all the same, only what failed beside it is of interest.
        Some(0) => return python::background(stderr),
        _ => {}
    }
    if out_of_memory {
        return Some(Found { language, ..Found::new(DiagnosisKind::OutOfMemory, "", "") });
    }
    match (language, code) {
        (Some(Language::Python), Some(_)) => python::uncaught(stderr),
        (Some(Language::Node), _) => node::uncaught(stderr),
        (_, Some(code)) => shell(code, stderr),
        (_, None) => None,
    }
}

/// What a shell says, or an interpreter that it has run.
fn shell(code: u8, stderr: &str) -> Option<Found> {
    if let Some(signal) = code.checked_sub(SIGNALED).and_then(crash) {
        return Some(node::heap(stderr).unwrap_or_else(|| Found::new(DiagnosisKind::Crashed, signal, "")));
    }
    if stderr.contains(python::HEADER) {
        return python::uncaught(stderr);
    }
    if stderr.lines().any(|line| line.starts_with(node::TRAILER)) {
        return node::uncaught(stderr);
    }
    if stderr.contains("syntax error") || stderr.contains("Syntax error") {
        return Some(Found::new(DiagnosisKind::SyntaxError, "", ""));
    }
    // `sh: 1: name: not found` and `bash: line 1: name: command not found`.
    let missing = |line: &&str| line.ends_with(": command not found") || line.ends_with(": not found");
    if code == 127
        && let Some(line) = stderr.lines().rev().find(missing)
    {
        return Some(Found::new(DiagnosisKind::MissingCommand, line.rsplit(": ").nth(1)?, ""));
    }
    // `bash: line 1: /etc/x: Permission denied`, and `touch: cannot touch '/etc/x': Permission denied`.
    let denied = |line: &str| DENIALS.into_iter().find_map(|words| line.strip_suffix(words).map(str::len));
    let line = stderr.lines().next_back()?;
    let subject = line.get(..denied(line)?)?.rsplit(": ").next().unwrap_or_default();
    let subject = quoted(subject).unwrap_or_else(|| subject.trim_start_matches("cannot create "));
    Some(Found::new(DiagnosisKind::PermissionDenied, subject, ""))
}

/// How the C library says that something is not allowed.
const DENIALS: [&str; 3] = [": Permission denied", ": Operation not permitted", ": Read-only file system"];

/// The name of a signal that a fault of the program's own sends it.
fn crash(signal: u8) -> Option<&'static str> {
    Some(match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        11 => "SIGSEGV",
        _ => return None,
    })
}

/// The kind in the words of the protocol.
fn kind(kind: failure::Kind) -> DiagnosisKind {
    match kind {
        failure::Kind::MissingModule => DiagnosisKind::MissingModule,
        failure::Kind::SyntaxError => DiagnosisKind::SyntaxError,
        failure::Kind::PermissionDenied => DiagnosisKind::PermissionDenied,
        failure::Kind::OutOfMemory => DiagnosisKind::OutOfMemory,
        failure::Kind::Other => DiagnosisKind::UncaughtException,
    }
}

/// Cut to what is kept, without the room for the rest.
fn short(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_SUBJECT);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests;
