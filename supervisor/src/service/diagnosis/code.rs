//! What went wrong in code of a context, in the same codes as for executions. Code of a context has no exit code and no
//! agent that reads its words: its program says the name of the error and its message. Pure.

use rekindle_protocol::failure;

use super::{Category, Diagnosis, Guess, diagnose};
use crate::agent::{DiagnosisKind, Finished, GuessLanguage, Outcome, Output, Usage};
use crate::host::untrusted::printable;
use crate::network::NetworkSummary;
use crate::service::interpreter::{CodeError, CodeLanguage};

/// Bytes that are kept of a subject, and of a message.
const MAX: usize = 256;
/// What a shell adds to the number of the signal that ended its program.
const SIGNALED: u8 = 128;

/// What went wrong in code that failed. `printed` is the end of what it printed to standard error.
pub(in crate::service) fn diagnose_code(
    language: CodeLanguage,
    error: &CodeError,
    printed: &str,
    network: &NetworkSummary,
    packages: &[String],
) -> Option<Diagnosis> {
    let guess = match language {
        CodeLanguage::Python => python(error),
        CodeLanguage::JavaScript | CodeLanguage::TypeScript => node(error),
        CodeLanguage::Bash => bash(error, printed)?,
    };
    let (shell, message) = (guess.language.is_none(), guess.message.clone());
    let failed = Finished {
        outcome: Outcome::Exited(1),
        stdout: nothing(),
        stderr: nothing(),
        usage: Usage::default(),
        diagnosis: Some(guess),
        interpreter: None,
    };
    let mut found = diagnose(&failed, network, packages)?;
    if found.category == Category::UncaughtException && !shell {
        // Not on standard error, as of an execution.
        let says = if message.is_empty() { String::new() } else { format!("{message}; ") };
        found.hint = format!("{says}the traceback says where");
    }
    Some(found)
}

/// What ended the program of a context, where it was not the code's own wish.
pub(in crate::service) fn diagnose_context(finished: &Finished, packages: &[String]) -> Option<Diagnosis> {
    diagnose(finished, &NetworkSummary::default(), packages).filter(|found| {
        // What its program printed is in frames: nothing else of it makes sense.
        matches!(found.category, Category::OutOfMemory | Category::Crashed | Category::Killed)
    })
}

fn guess(kind: DiagnosisKind, subject: &str, message: &str, language: Option<GuessLanguage>) -> Guess {
    Guess { kind, subject: printable(subject, MAX), message: printable(message, MAX), language }
}

fn python(CodeError { name, value, .. }: &CodeError) -> Guess {
    let (kind, subject) = failure::python(name, value);
    guess(known(kind), subject, value, Some(GuessLanguage::Python))
}

fn node(CodeError { name, value, traceback, .. }: &CodeError) -> Guess {
    let (kind, subject) = failure::node(name, value);
    // What is no Error has no stack.
    let thrown = kind == failure::Kind::Other && name == "Error" && traceback.is_empty();
    let subject = if thrown { "thrown value" } else { subject };
    guess(known(kind), subject, value, Some(GuessLanguage::Node))
}

/// The kind as executions have it.
fn known(kind: failure::Kind) -> DiagnosisKind {
    match kind {
        failure::Kind::MissingModule => DiagnosisKind::MissingModule,
        failure::Kind::SyntaxError => DiagnosisKind::SyntaxError,
        failure::Kind::PermissionDenied => DiagnosisKind::PermissionDenied,
        failure::Kind::OutOfMemory => DiagnosisKind::OutOfMemory,
        failure::Kind::Other => DiagnosisKind::UncaughtException,
    }
}

/// A shell tells but the status of what failed last.
fn bash(CodeError { name, value, .. }: &CodeError, printed: &str) -> Option<Guess> {
    use DiagnosisKind as Kind;
    let status: u8 = value.parse().ok().filter(|_| name == "ExitStatus")?;
    let of = |kind, subject: &str| Some(guess(kind, subject, "", None));
    match status {
        126 => of(Kind::PermissionDenied, last(printed, &[": Permission denied"]).unwrap_or_default()),
        127 => of(Kind::MissingCommand, last(printed, &[": command not found", ": not found"])?),
        _ => match status.checked_sub(SIGNALED)? {
            4 => of(Kind::Crashed, "SIGILL"),
            6 => of(Kind::Crashed, "SIGABRT"),
            7 => of(Kind::Crashed, "SIGBUS"),
            8 => of(Kind::Crashed, "SIGFPE"),
            11 => of(Kind::Crashed, "SIGSEGV"),
            _ => None,
        },
    }
}

/// What the last line that ends so is about: `name` in `bash: line 1: name: command not found`.
fn last<'a>(printed: &'a str, endings: &[&str]) -> Option<&'a str> {
    let about = |line: &'a str| endings.iter().find_map(|ending| line.strip_suffix(ending));
    printed.lines().rev().find_map(about)?.rsplit(": ").next()
}

fn nothing() -> Output {
    Output {
        text: String::new(),
        truncated: false,
        total_bytes: 0,
        total_chars: 0,
        spilled_path: None,
        spilled_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    //! What code says of its failure, and what becomes of it.

    use super::*;

    fn told(
        language: CodeLanguage,
        name: &str,
        value: &str,
        printed: &str,
    ) -> Option<(&'static str, String)> {
        let error =
            CodeError { name: name.into(), value: value.into(), traceback: "at 1".into(), diagnosis: None };
        let found = diagnose_code(language, &error, printed, &NetworkSummary::default(), &[])?;
        Some((found.category.word(), found.subject))
    }

    #[test]
    fn errors_of_code_have_the_codes_of_executions() {
        use CodeLanguage::{Bash, JavaScript, Python, TypeScript};
        let not = "bash: line 14: nope: command not found\n";
        let denied = "bash: line 14: /etc: Is a directory\nbash: line 15: ./x: Permission denied\n";
        for (language, name, value, printed, code, subject) in [
            (
                Python,
                "ModuleNotFoundError",
                "No module named 'scipy.stats'",
                "",
                "missing_module",
                "scipy.stats",
            ),
            (Python, "IndentationError", "unexpected indent", "", "syntax_error", "IndentationError"),
            (Python, "MemoryError", "", "", "out_of_memory", "MemoryError"),
            (Python, "PermissionError", "[Errno 13] Permission denied: '/x'", "", "permission_denied", "/x"),
            (Python, "PermissionError", "of my own", "", "uncaught_exception", "PermissionError"),
            (Python, "ValueError", "v", "", "uncaught_exception", "ValueError"),
            (JavaScript, "Error", "Cannot find module 'a'\nRequire stack:", "", "missing_module", "a"),
            (JavaScript, "Error", "No such built-in module: node:fss", "", "missing_module", "node:fss"),
            (JavaScript, "Error", "EACCES: permission denied, open '/x'", "", "permission_denied", "/x"),
            (TypeScript, "SyntaxError", "Unexpected token", "", "syntax_error", "SyntaxError"),
            (TypeScript, "TypeError", "t", "", "uncaught_exception", "TypeError"),
            (Bash, "ExitStatus", "127", not, "missing_command", "nope"),
            (Bash, "ExitStatus", "126", denied, "permission_denied", "./x"),
            (Bash, "ExitStatus", "139", "", "crashed", "SIGSEGV"),
        ] {
            assert_eq!(
                told(language, name, value, printed),
                Some((code, subject.to_owned())),
                "{name} {value}"
            );
        }
        for (status, printed) in
            [("1", not), ("127", "nothing of the kind"), ("130", ""), ("x", not), ("999", "")]
        {
            assert_eq!(told(Bash, "ExitStatus", status, printed), None, "{status}");
        }
    }

    #[test]
    fn hints_are_one_short_line_whatever_code_says() {
        let long = "n\u{1b}[2J\n".repeat(10_000);
        let error = CodeError { name: long.clone(), value: long, traceback: String::new(), diagnosis: None };
        let network = NetworkSummary::default();
        for language in [CodeLanguage::Python, CodeLanguage::JavaScript] {
            let found = diagnose_code(language, &error, "", &network, &[]).expect("a diagnosis");
            assert!(found.subject.len() <= MAX && found.hint.len() < 1_000, "{found:?}");
            assert!(found.hint.ends_with("; the traceback says where"), "{found:?}");
            assert!(!format!("{}{}", found.subject, found.hint).contains(char::is_control), "{found:?}");
        }
        let thrown = CodeError { name: "Error".into(), value: "7".into(), ..CodeError::default() };
        let found = diagnose_code(CodeLanguage::JavaScript, &thrown, "", &network, &[]).expect("a diagnosis");
        assert_eq!((&found.subject[..], &found.hint[..]), ("thrown value", "7; the traceback says where"));
        let missing = CodeError {
            name: "ModuleNotFoundError".into(),
            value: "No module named 'nunpy'".into(),
            ..CodeError::default()
        };
        let packages = ["pip:numpy 2.4.6".to_owned()];
        let found =
            diagnose_code(CodeLanguage::Python, &missing, "", &network, &packages).expect("a diagnosis");
        assert_eq!(found.near, ["numpy"]);
    }

    #[test]
    fn a_context_whose_program_is_gone_says_why_only_where_it_is_sure() {
        let ended = |outcome| Finished {
            outcome,
            stdout: nothing(),
            stderr: nothing(),
            usage: Usage { peak_memory_bytes: Some(65 << 20), ..Usage::default() },
            diagnosis: None,
            interpreter: None,
        };
        let told = |outcome| diagnose_context(&ended(outcome), &[]).map(|found| found.category.word());
        assert_eq!(told(Outcome::OutOfMemory), Some("out_of_memory"));
        assert_eq!(told(Outcome::Signaled(11)), Some("crashed"));
        assert_eq!(told(Outcome::Signaled(9)), Some("killed"));
        for none in [Outcome::Exited(3), Outcome::Cancelled, Outcome::TimedOut] {
            assert_eq!(told(none), None);
        }
    }
}
