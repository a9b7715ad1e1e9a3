//! Writes results to standard output. A reader that has seen enough, such as `head`, is no failure.

use std::io::{self, Write as _};

use serde::Serialize;

/// Prints text as it is.
pub fn text(text: &str) -> anyhow::Result<()> {
    bytes(text.as_bytes())
}

/// Prints a line.
pub fn line(line: &str) -> anyhow::Result<()> {
    text(&format!("{line}\n"))
}

/// Prints something as JSON over several lines.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?)
}

fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
