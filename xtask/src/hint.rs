//! Errors that tell a person what to do next.
//!
//! Any error can carry one hint; [`render`] prints the chain and ends with the `hint:` line.

use std::fmt::{self, Display};

/// An error together with what to do about it.
#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl Display for Hinted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.error, formatter)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The error itself is shown by `Display`, so the chain goes on below it.
        self.error.source()
    }
}

/// Adds a hint to the error of a result.
pub trait Hint<T> {
    /// Says what a person can do about the error.
    fn hint(self, hint: impl Display) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Display) -> anyhow::Result<T> {
        self.map_err(|error| anyhow::Error::new(Hinted { error: error.into(), hint: hint.to_string() }))
    }
}

/// The whole error as a person reads it: message, causes, and the innermost hint last.
pub fn render(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut hint = None;
    for (depth, cause) in error.chain().enumerate() {
        text.push_str(if depth == 0 { "error: " } else { "  caused by: " });
        text.push_str(&cause.to_string());
        text.push('\n');
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            hint = Some(hinted.hint.clone());
        }
    }
    if let Some(hint) = hint {
        text.push_str("hint: ");
        text.push_str(&hint);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn the_hint_is_the_last_line_and_nothing_is_said_twice() {
        let error = Err::<(), _>(anyhow!("disk full").context("cannot write"))
            .hint("make room")
            .context("building the image")
            .unwrap_err();
        assert_eq!(
            render(&error),
            "error: building the image\n  caused by: cannot write\n  caused by: disk full\nhint: make room\n"
        );
    }
}
