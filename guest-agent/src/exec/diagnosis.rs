//! Guesses what kind of failure an execution's own words describe, for a caller that decides whether to try
//! again. Pure; it never changes an outcome.

use rekindle_protocol::wire::{Diagnosis, DiagnosisKind, Language};

const MAX_SUBJECT: usize = 256;

/// Looks at standard error of an execution that returned `code`.
pub fn diagnose(language: Option<Language>, code: u8, stderr: &str) -> Option<Diagnosis> {
    if code == 0 {
        return None;
    }
    let (kind, subject) = match language {
        Some(Language::Python) => python(stderr),
        Some(Language::Node) => node(stderr),
        _ => shell(code, stderr),
    }?;
    let end = subject.floor_char_boundary(MAX_SUBJECT);
    Some(Diagnosis { kind: kind as i32, subject: subject[..end].into() })
}

/// The last unindented line that looks like `Name: message` names the exception.
fn python(stderr: &str) -> Option<(DiagnosisKind, &str)> {
    let exception = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
            && name.rsplit('.').next().is_some_and(|last| last.starts_with(char::is_uppercase))
    };
    let traced =
        stderr.contains("Traceback (most recent call last):") || stderr.contains("File \"<string>\"");
    let line = stderr.lines().rev().filter(|_| traced).find(exception)?;
    let (name, message) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    Some(match name {
        "ModuleNotFoundError" => (DiagnosisKind::MissingModule, quoted(message).unwrap_or(message)),
        "SyntaxError" | "IndentationError" | "TabError" => (DiagnosisKind::SyntaxError, name),
        _ => (DiagnosisKind::UncaughtException, name),
    })
}

/// Node prints `Name: message` unindented, somewhere before the stack.
fn node(stderr: &str) -> Option<(DiagnosisKind, &str)> {
    let header = |line: &&str| {
        let line = line.strip_prefix("Uncaught ").unwrap_or(line);
        line.split([':', ' '])
            .next()
            .is_some_and(|name| name.ends_with("Error") || name.ends_with("Exception"))
    };
    let line = stderr.lines().find(header)?;
    let line = line.strip_prefix("Uncaught ").unwrap_or(line);
    let name = line.split([':', ' ']).next().unwrap_or(line);
    if line.contains("Cannot find module") || line.contains("Cannot find package") {
        return Some((DiagnosisKind::MissingModule, quoted(line).unwrap_or(line)));
    }
    let kind =
        if name == "SyntaxError" { DiagnosisKind::SyntaxError } else { DiagnosisKind::UncaughtException };
    Some((kind, name))
}

/// `sh: 1: name: not found` and `bash: line 1: name: command not found`.
fn shell(code: u8, stderr: &str) -> Option<(DiagnosisKind, &str)> {
    if stderr.contains("syntax error") || stderr.contains("Syntax error") {
        return Some((DiagnosisKind::SyntaxError, ""));
    }
    if code != 127 {
        return None;
    }
    let missing = |line: &str| line.ends_with(": command not found") || line.ends_with(": not found");
    let line = stderr.lines().rev().find(|line| missing(line))?;
    let name = line.rsplit(": ").nth(1)?;
    Some((DiagnosisKind::MissingCommand, name))
}

fn quoted(text: &str) -> Option<&str> {
    text.split('\'').nth(1)
}

#[cfg(test)]
mod tests {
    //! Words real interpreters print.

    use super::*;

    fn told(language: Option<Language>, code: u8, stderr: &str) -> Option<(DiagnosisKind, String)> {
        diagnose(language, code, stderr).map(|d| (DiagnosisKind::try_from(d.kind).expect("known"), d.subject))
    }

    #[test]
    fn python_failures_are_told_apart() {
        let trace = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n    x\n";
        let python = |text: &str| told(Some(Language::Python), 1, text);
        assert_eq!(
            python(&format!("{trace}ModuleNotFoundError: No module named 'left_pad'\n")),
            Some((DiagnosisKind::MissingModule, "left_pad".into()))
        );
        assert_eq!(
            python("  File \"<string>\", line 1\n    if\n      ^\nSyntaxError: invalid syntax\n"),
            Some((DiagnosisKind::SyntaxError, "SyntaxError".into()))
        );
        assert_eq!(
            python(&format!("{trace}ZeroDivisionError: division by zero\n")),
            Some((DiagnosisKind::UncaughtException, "ZeroDivisionError".into()))
        );
        assert_eq!(
            python(&format!("{trace}json.decoder.JSONDecodeError: Expecting value\n")),
            Some((DiagnosisKind::UncaughtException, "json.decoder.JSONDecodeError".into()))
        );
        assert_eq!(
            python(&format!("{trace}KeyboardInterrupt\n")),
            Some((DiagnosisKind::UncaughtException, "KeyboardInterrupt".into()))
        );
        assert_eq!(python("Error: my own words before sys.exit(1)\n"), None);
        assert_eq!(told(Some(Language::Python), 0, &format!("{trace}ValueError: x\n")), None);
    }

    #[test]
    fn node_failures_are_told_apart() {
        let node = |text: &str| told(Some(Language::Node), 1, text);
        assert_eq!(
            node(
                "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module 'left-pad'\nRequire stack:\n"
            ),
            Some((DiagnosisKind::MissingModule, "left-pad".into()))
        );
        assert_eq!(
            node("[eval]:1\nlet let\n    ^^^\n\nSyntaxError: let is disallowed\n    at x\n"),
            Some((DiagnosisKind::SyntaxError, "SyntaxError".into()))
        );
        assert_eq!(
            node("[eval]:1\nfoo\n^\n\nReferenceError: foo is not defined\n    at [eval]:1:1\n"),
            Some((DiagnosisKind::UncaughtException, "ReferenceError".into()))
        );
        assert_eq!(node("just words\n"), None);
    }

    #[test]
    fn a_missing_command_is_named() {
        let shell = |code, text: &str| told(None, code, text);
        assert_eq!(
            shell(127, "bash: line 1: frobnicate: command not found\n"),
            Some((DiagnosisKind::MissingCommand, "frobnicate".into()))
        );
        assert_eq!(
            shell(127, "/bin/sh: 1: frobnicate: not found\n"),
            Some((DiagnosisKind::MissingCommand, "frobnicate".into()))
        );
        assert_eq!(shell(1, "grep: x: not found\n"), None);
        assert_eq!(
            told(Some(Language::Bash), 2, "bash: -c: line 1: syntax error near unexpected token `)'\n"),
            Some((DiagnosisKind::SyntaxError, String::new()))
        );
    }
}
