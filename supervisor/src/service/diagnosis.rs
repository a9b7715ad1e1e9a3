//! What went wrong in an execution, as a code that programs branch on and a sentence that says what to do about it. Made
//! from how it ended, what the guest makes of its words, and what is installed. Pure; docs/guides/diagnoses.md lists the
//! codes.

pub(super) mod code;
pub(super) mod near;

use crate::agent::{Diagnosis as Guess, DiagnosisKind, Finished, Outcome, Output};
use crate::host::untrusted::printable;
use crate::network::NetworkSummary;

/// Lines that are told of a program that ran out of time, of each stream.
const LAST_LINES: usize = 3;
/// Bytes of each.
const LINE: usize = 200;
/// Bytes of what an exception says.
const MESSAGE: usize = 200;
/// Names of packages in a sentence.
const MOST_INSTALLED: usize = 24;
/// Where images have npm's packages (`rootfs/customize.sh`).
const GLOBAL: &str = "/usr/local/lib/node_modules";

/// What went wrong. Its word is stable: programs compare with it, and metrics count by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// A module could not be imported.
    MissingModule,
    /// A command was not found.
    MissingCommand,
    /// The source could not be parsed.
    SyntaxError,
    /// An exception nobody caught.
    UncaughtException,
    /// An exception ended a thread or a task, not the program.
    BackgroundException,
    /// A connection was denied.
    NetworkDenied,
    /// The program's user may not do it.
    PermissionDenied,
    /// There was no more memory.
    OutOfMemory,
    /// It ran into its time limit.
    TimedOut,
    /// A fault of its own ended it.
    Crashed,
    /// A signal ended it.
    Killed,
    /// Code ended well and printed nothing.
    EmptyOutput,
}

impl Category {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::MissingModule,
        Self::MissingCommand,
        Self::SyntaxError,
        Self::UncaughtException,
        Self::BackgroundException,
        Self::NetworkDenied,
        Self::PermissionDenied,
        Self::OutOfMemory,
        Self::TimedOut,
        Self::Crashed,
        Self::Killed,
        Self::EmptyOutput,
    ];

    /// Its code.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::MissingModule => "missing_module",
            Self::MissingCommand => "missing_command",
            Self::SyntaxError => "syntax_error",
            Self::UncaughtException => "uncaught_exception",
            Self::BackgroundException => "background_exception",
            Self::NetworkDenied => "network_denied",
            Self::PermissionDenied => "permission_denied",
            Self::OutOfMemory => "out_of_memory",
            Self::TimedOut => "timed_out",
            Self::Crashed => "crashed",
            Self::Killed => "killed",
            Self::EmptyOutput => "empty_output",
        }
    }
}

/// What went wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The code.
    pub category: Category,
    /// What it is about: a module, a command, an exception, a path, a host or a signal.
    pub subject: String,
    /// What to do about it, in one line. Words of the guest's in it are printable and short.
    pub hint: String,
    /// Names that may have been meant.
    pub near: Vec<String>,
}

impl Diagnosis {
    /// The memory that it holds.
    pub(super) fn weight(&self) -> usize {
        let near: usize = self.near.iter().map(|name| size_of::<String>() + name.capacity()).sum();
        size_of::<Self>() + self.subject.capacity() + self.hint.capacity() + near
    }
}

/// What went wrong in an execution, if something did. `packages` are those of the image, as `name version`.
#[must_use]
pub fn diagnose(finished: &Finished, network: &NetworkSummary, packages: &[String]) -> Option<Diagnosis> {
    let guess = finished.diagnosis.as_ref();
    let (category, subject) = match finished.outcome {
        Outcome::Cancelled => return None,
        Outcome::OutOfMemory => (Category::OutOfMemory, String::new()),
        Outcome::Signaled(_) if guess.is_some_and(|guess| guess.kind == DiagnosisKind::OutOfMemory) => {
            (Category::OutOfMemory, String::new())
        }
        Outcome::Signaled(signal) => signalled(signal),
        // A program that failed after a connection of its was denied most likely failed of that, unless it did not
        // even begin.
        Outcome::Exited(1..) | Outcome::TimedOut if began(guess) && !network.denials.is_empty() => {
            let host = network.denials.first().map(|denial| denial.host.to_string());
            (Category::NetworkDenied, host.unwrap_or_default())
        }
        Outcome::TimedOut => (Category::TimedOut, String::new()),
        Outcome::Exited(code) => {
            let guess = guess?;
            let beside =
                matches!(guess.kind, DiagnosisKind::BackgroundException | DiagnosisKind::EmptyOutput);
            if code == 0 && !beside {
                return None;
            }
            (category(guess.kind), guess.subject.clone())
        }
    };
    let near = match (category, guess) {
        (Category::MissingModule, Some(guess)) if guess.python() => near::modules(&subject, packages),
        (Category::MissingModule, Some(guess)) if guess.node() && !is_file(&subject) => {
            near::node_modules(&subject, packages)
        }
        (Category::MissingCommand, _) => near::commands(&subject, packages),
        _ => Vec::new(),
    };
    let hint = hint(category, finished, &near, packages);
    Some(Diagnosis { category, subject, hint, near })
}

fn began(guess: Option<&Guess>) -> bool {
    guess.is_none_or(|guess| {
        matches!(guess.kind, DiagnosisKind::UncaughtException | DiagnosisKind::BackgroundException)
    })
}

fn category(kind: DiagnosisKind) -> Category {
    match kind {
        DiagnosisKind::MissingModule => Category::MissingModule,
        DiagnosisKind::SyntaxError => Category::SyntaxError,
        DiagnosisKind::UncaughtException => Category::UncaughtException,
        DiagnosisKind::MissingCommand => Category::MissingCommand,
        DiagnosisKind::PermissionDenied => Category::PermissionDenied,
        DiagnosisKind::OutOfMemory => Category::OutOfMemory,
        DiagnosisKind::Crashed => Category::Crashed,
        DiagnosisKind::BackgroundException => Category::BackgroundException,
        DiagnosisKind::EmptyOutput => Category::EmptyOutput,
    }
}

fn signalled(signal: u8) -> (Category, String) {
    let (category, name) = match signal {
        4 => (Category::Crashed, "SIGILL"),
        6 => (Category::Crashed, "SIGABRT"),
        7 => (Category::Crashed, "SIGBUS"),
        8 => (Category::Crashed, "SIGFPE"),
        11 => (Category::Crashed, "SIGSEGV"),
        2 => (Category::Killed, "SIGINT"),
        9 => (Category::Killed, "SIGKILL"),
        13 => (Category::Killed, "SIGPIPE"),
        15 => (Category::Killed, "SIGTERM"),
        other => return (Category::Killed, format!("signal {other}")),
    };
    (category, name.to_owned())
}

fn hint(category: Category, finished: &Finished, near: &[String], packages: &[String]) -> String {
    let guess = finished.diagnosis.as_ref();
    let message = guess.map(|guess| printable(&guess.message, MESSAGE)).filter(|message| !message.is_empty());
    let says = |advice: &str| match &message {
        Some(message) => format!("{message}; {advice}"),
        None => advice.to_owned(),
    };
    match category {
        Category::MissingModule => missing_module(guess, near, packages),
        Category::MissingCommand => match near {
            [] => "it is not installed; use another command".to_owned(),
            near => format!("it is not installed; there is {}", near.join(", ")),
        },
        Category::SyntaxError => says("the code could not be parsed, nothing of it has run"),
        Category::UncaughtException => says("standard error says where"),
        Category::BackgroundException => {
            says("it ended a thread, task or process while the program went on, so results may be incomplete")
        }
        Category::NetworkDenied => {
            "the network policy does not allow it; trying again does not help".to_owned()
        }
        Category::PermissionDenied => {
            "the program's user may not do this; use paths below the home directory or /tmp".to_owned()
        }
        Category::OutOfMemory => {
            let peak = finished.usage.peak_memory_bytes;
            let peak = peak.map(|bytes| format!("; at most {} MiB were used", bytes.div_ceil(1 << 20)));
            format!("use less memory, such as by reading data in pieces{}", peak.unwrap_or_default())
        }
        Category::TimedOut => {
            let after = last_lines(finished);
            format!("do less in one execution, or allow more time{after}")
        }
        Category::Crashed => crash(finished, guess).to_owned(),
        Category::Killed => "a signal ended it; the program did not return by itself".to_owned(),
        Category::EmptyOutput => {
            "it ended well and printed nothing; print what you want to see, a last expression is not shown"
                .to_owned()
        }
    }
}

fn missing_module(guess: Option<&Guess>, near: &[String], packages: &[String]) -> String {
    match guess {
        Some(guess) if guess.python() => missing_in_python(&guess.subject, near, packages),
        Some(guess) if guess.node() => missing_in_node(&guess.subject, near, packages),
        _ => "it is not installed; use another, or write it".to_owned(),
    }
}

fn missing_in_python(module: &str, near: &[String], packages: &[String]) -> String {
    let mut sentence = "it is not installed".to_owned();
    if let Some(package) = near::package_of(module) {
        sentence.push_str(&format!(" (its package is {package})"));
    }
    if !near.is_empty() {
        sentence.push_str(&format!("; near it are {}", near.join(", ")));
    }
    match some_of(near::installed(packages)) {
        None if packages.is_empty() => {}
        None => sentence.push_str("; only Python's standard library is"),
        Some(names) => sentence.push_str(&format!("; besides the standard library there are {names}")),
    }
    sentence
}

fn missing_in_node(module: &str, near: &[String], packages: &[String]) -> String {
    if is_file(module) {
        return "there is no such file; a relative path begins at the file that imports it".to_owned();
    }
    let own = near::package_of_node(module);
    if near::installed_npm(packages).any(|name| name == own) {
        return format!(
            "it is installed globally, where Node does not look by itself: use {GLOBAL}/{module}"
        );
    }
    let mut sentence = "it is not installed".to_owned();
    if !near.is_empty() {
        sentence.push_str(&format!("; near it are {}", near.join(", ")));
    }
    match some_of(near::installed_npm(packages)) {
        None => sentence.push_str("; use what Node itself has, or write it"),
        Some(names) => {
            sentence.push_str(&format!("; besides Node's own modules there are, in {GLOBAL}, {names}"));
        }
    }
    sentence
}

/// Whether a module is named as a file is, and not as a package.
fn is_file(module: &str) -> bool {
    module.starts_with(['.', '/']) || module.starts_with("file:")
}

/// The first of these names, and how many more there are.
fn some_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let mut told = names.get(..MOST_INSTALLED).unwrap_or(&names).join(", ");
    if names.len() > MOST_INSTALLED {
        told.push_str(&format!(" and {} more", names.len() - MOST_INSTALLED));
    }
    (!names.is_empty()).then_some(told)
}

/// What a fault most often means.
fn crash(finished: &Finished, guess: Option<&Guess>) -> &'static str {
    let signal = match finished.outcome {
        Outcome::Signaled(signal) => signalled(signal).1,
        _ => guess.map(|guess| guess.subject.clone()).unwrap_or_default(),
    };
    match signal.as_str() {
        "SIGSEGV" => {
            "a segmentation fault: native code used memory that is not its own, most often in an extension \
             module, or after endless recursion"
        }
        "SIGABRT" => {
            "the program gave up by itself, most often after a failed check; standard error says which"
        }
        "SIGBUS" => "a file that is mapped into memory has become shorter, or the disk is full",
        "SIGFPE" => "an integer was divided by zero in native code",
        "SIGILL" => "native code uses instructions that this processor does not have",
        _ => "a fault ended it",
    }
}

/// The last that a program printed, in one line.
fn last_lines(finished: &Finished) -> String {
    let last = |name: &str, output: &Output| {
        let lines: Vec<&str> = output.text.lines().filter(|line| !line.trim().is_empty()).collect();
        let first = lines.len().saturating_sub(LAST_LINES);
        let shown: Vec<String> = lines[first..].iter().map(|line| printable(line.trim(), LINE)).collect();
        (!shown.is_empty()).then(|| format!("; the last lines of its {name}: {}", shown.join(" / ")))
    };
    let told = [last("stdout", &finished.stdout), last("stderr", &finished.stderr)];
    let told: String = told.into_iter().flatten().collect();
    if told.is_empty() { "; it had printed nothing".to_owned() } else { told }
}

#[cfg(test)]
mod tests;
