//! Shows a failure to a person: what, why down the chain, and what to do about it.

use std::io;
use std::process::ExitCode;

use super::OWN_FAILURE;

/// Prints the chain of an error and returns the code for our own failures.
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprint!("{}", describe(error));
    ExitCode::from(OWN_FAILURE)
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
    fn the_chain_is_shown_once_and_hints_come_last() {
        let inner = anyhow::anyhow!("no such file\nhint: run `cargo xtask build`");
        let error = inner.context("the image is missing").context("cannot start");
        assert_eq!(
            describe(&error),
            "error: cannot start\n  the image is missing\n  no such file\nhint: run `cargo xtask build`\n"
        );
    }
}
