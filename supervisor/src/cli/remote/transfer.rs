//! What `put` and `get` share: a bar for people, and the check of what arrived.

use std::io::IsTerminal as _;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest as _, Sha256};

use super::escape;

/// Counts and hashes what passes, and shows it where somebody looks.
pub struct Meter {
    hash: Sha256,
    bytes: u64,
    bar: ProgressBar,
}

impl Meter {
    /// Begins. `total` is how much will pass, where that is known.
    pub fn start(what: &str, total: Option<u64>) -> Self {
        let (bar, template) = match total {
            _ if !std::io::stderr().is_terminal() => (ProgressBar::hidden(), ""),
            Some(total) => (
                ProgressBar::new(total),
                "{prefix} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {prefix} {binary_bytes} {binary_bytes_per_sec}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(escape::text(what));
        Self { hash: Sha256::new(), bytes: 0, bar }
    }

    /// These bytes have passed.
    pub fn pass(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.bar.inc(bytes.len() as u64);
    }

    /// How many have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compares with what the other side says.
    pub fn check(self, size: u64, sha256: &[u8]) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        if self.bytes != size {
            bail!("{} bytes passed and the server counted {size}\nhint: try again", self.bytes);
        }
        if self.hash.clone().finalize()[..] != *sha256 {
            bail!("the bytes were changed on their way: their SHA-256 differs\nhint: try again");
        }
        Ok(())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    //! What is believed.

    use super::*;

    #[test]
    fn only_the_same_bytes_are_taken() {
        let meter = || {
            let mut meter = Meter::start("x", None);
            meter.pass(b"ab");
            meter.pass(b"c");
            meter
        };
        let right = Sha256::digest(b"abc");
        assert!(meter().check(3, &right).is_ok());
        assert!(meter().check(4, &right).is_err());
        assert!(meter().check(3, &Sha256::digest(b"abd")).is_err());
        assert!(meter().check(3, b"").is_err(), "a server that does not say");
    }
}
