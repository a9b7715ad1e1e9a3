//! Shows a failure to a person: what, why down the chain, and what to do about it.

use std::io;
use std::process::ExitCode;

use rekindle::agent::{AgentError, Refusal};

use super::OWN_FAILURE;

/// A program that the sandbox does not have, or that may not be executed there: the caller's mistake and not a
/// failure of ours, so it ends with the codes that a shell has for it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the program was not started: {reason}\n\
     hint: program and directory must be in the sandbox; --sh 'ls /usr/bin' lists what is there"
)]
pub struct NotStarted {
    /// What the sandbox says.
    pub reason: String,
    /// What a shell exits with.
    pub code: u8,
}

impl NotStarted {
    /// There is no such program.
    pub const MISSING: u8 = 127;
    /// It may not be executed.
    pub const FORBIDDEN: u8 = 126;
}

/// A program that could not be started, by whose fault it is.
pub fn not_started(error: AgentError) -> anyhow::Error {
    let code = match error.refusal() {
        Some(Refusal::NotFound) => NotStarted::MISSING,
        Some(Refusal::PermissionDenied) => NotStarted::FORBIDDEN,
        _ => return anyhow::Error::new(error).context("the program could not be started"),
    };
    NotStarted { reason: error.to_string(), code }.into()
}

/// Prints the chain of an error and returns what to exit with: the code for our own failures, unless the error has
/// one of its own.
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprint!("{}", describe(error));
    ExitCode::from(error.downcast_ref::<NotStarted>().map_or(OWN_FAILURE, |error| error.code))
}

/// The chain line by line; hints, wherever in it they are, come last.
fn describe(error: &anyhow::Error) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut hints: Vec<String> = Vec::new();
    let mut last = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // A transparent wrapper says the same again.
        if text == last {
            continue;
        }
        for line in text.lines() {
            if line.starts_with("hint:") {
                hints.push(line.to_owned());
            } else if lines.is_empty() {
                lines.push(format!("error: {line}"));
            } else {
                lines.push(format!("  {line}"));
            }
        }
        last = text;
    }
    if hints.is_empty() {
        let kind = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
        hints.push(general_hint(kind).into());
    }
    hints.dedup();
    lines.append(&mut hints);
    lines.join("\n") + "\n"
}

/// What to do about a failure that does not say so itself, by what the kernel said.
fn general_hint(kind: Option<io::ErrorKind>) -> &'static str {
    use io::ErrorKind;
    match kind {
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "hint: free some space, or set REKINDLE_DATA to a larger disk"
        }
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            "hint: this needs rights you do not have there; for Rekindle's own files, set REKINDLE_DATA and \
             REKINDLE_CACHE to directories you may write to"
        }
        Some(ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory) => {
            "hint: check the path"
        }
        _ => "hint: `rekindle doctor` says what this host lacks, and -v shows more of what happened",
    }
}

#[cfg(test)]
mod tests {
    //! What a person reads.

    use super::*;

    #[test]
    fn a_full_disk_is_explained_wherever_it_was_met() {
        let error = anyhow::Error::new(io::Error::from(io::ErrorKind::StorageFull)).context("cannot write");
        assert!(
            describe(&error).ends_with("\nhint: free some space, or set REKINDLE_DATA to a larger disk\n")
        );
    }

    #[test]
    fn every_failure_ends_in_something_to_do() {
        let hint = |error: anyhow::Error| describe(&error).lines().last().unwrap_or_default().to_owned();
        let met = |kind: io::ErrorKind| anyhow::Error::new(io::Error::from(kind)).context("cannot use x");
        assert!(hint(met(io::ErrorKind::PermissionDenied)).contains("REKINDLE_DATA"));
        assert!(hint(met(io::ErrorKind::NotFound)).starts_with("hint: check the path"));
        assert!(hint(met(io::ErrorKind::BrokenPipe)).starts_with("hint: `rekindle doctor`"));
        assert!(hint(anyhow::anyhow!("no reason at all")).starts_with("hint: `rekindle doctor`"));
        assert_eq!(hint(anyhow::anyhow!("x\nhint: own").context("y")), "hint: own", "its own goes first");
    }

    #[test]
    fn a_program_that_is_not_there_ends_as_in_a_shell_and_our_own_failures_do_not() {
        let missing =
            NotStarted { reason: "there is no program \"x\" here".into(), code: NotStarted::MISSING };
        let missing = anyhow::Error::new(missing);
        assert_eq!(report(&missing), ExitCode::from(127));
        assert!(!describe(&missing).contains("doctor"), "{}", describe(&missing));
        assert_eq!(report(&anyhow::anyhow!("broken")), ExitCode::from(OWN_FAILURE));
    }

    #[test]
    fn the_chain_is_shown_once_and_hints_come_last() {
        let inner = anyhow::anyhow!("no such file\nhint: run `cargo xtask build`");
        let error = inner.context("the image is missing").context("cannot start");
        assert_eq!(
            describe(&error),
            "error: cannot start\n  the image is missing\n  no such file\nhint: run `cargo xtask build`\n"
        );
    }
}
