//! What was denied, one line of JSON each, where programs in the guest can read it.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file.
const PATH: &str = "/run/rekindle/network.jsonl";
/// Its size. Beyond it the file begins anew: it is in the guest's memory.
const MAX_BYTES: u64 = 256 * 1024;

/// The file, written by one at a time.
pub(super) struct Denials(Mutex<PathBuf>);

impl Default for Denials {
    fn default() -> Self {
        Self(Mutex::new(PATH.into()))
    }
}

impl Denials {
    /// Adds a line. A file that cannot be written is not worth failing for.
    pub(super) fn add(&self, line: &str) {
        let path = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !line.is_empty() && append(&path, line).is_err() {
            eprintln!("rekindle-agent: a denial cannot be written down");
        }
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.len() + line.len() as u64 > MAX_BYTES {
        file.set_len(0)?;
    }
    // One call, so that who reads at the same time sees whole lines.
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    //! Lines, and how many.

    use super::*;

    #[test]
    fn what_is_denied_is_one_line_each_and_the_file_stays_small() {
        let dir = std::env::temp_dir().join(format!("denials-{}", std::process::id()));
        let denials = Denials(Mutex::new(dir.join("sub/network.jsonl")));
        let read = || std::fs::read_to_string(dir.join("sub/network.jsonl")).expect("the file");
        denials.add("{\"a\":1}");
        denials.add("");
        denials.add("{\"b\":2}");
        assert_eq!(read(), "{\"a\":1}\n{\"b\":2}\n");
        for _ in 0..100 {
            denials.add(&"x".repeat(10_000));
        }
        assert!(read().len() as u64 <= MAX_BYTES + 1, "{}", read().len());
        assert!(read().lines().all(|line| line.len() == 10_000), "a line was cut");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
