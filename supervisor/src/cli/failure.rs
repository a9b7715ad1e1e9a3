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
    let is_full = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull)
    };
    // Whichever file it was that did not fit.
    if hints.is_empty() && error.chain().any(is_full) {
        hints.push("hint: free some space, or set REKINDLE_DATA to a larger disk".into());
    }
    hints.dedup();
    lines.append(&mut hints);
    lines.join("\n") + "\n"
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
    fn the_chain_is_shown_once_and_hints_come_last() {
        let inner = anyhow::anyhow!("no such file\nhint: run `cargo xtask build`");
        let error = inner.context("the image is missing").context("cannot start");
        assert_eq!(
            describe(&error),
            "error: cannot start\n  the image is missing\n  no such file\nhint: run `cargo xtask build`\n"
        );
    }
}
