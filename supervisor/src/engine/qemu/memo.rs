//! Remembers what a program said about itself: asking it takes as long as a fifth of a restore.
//!
//! Kept in the cache directory, next to everything that changes when the program does. Called by `find`.
//! Without a place to keep it the program is asked every time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Dirs;

/// Longest memo that is read.
const MAX_BYTES: u64 = 16 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    program: Seen,
    line: String,
}

/// A file that looks the same is the same. The change time cannot be set by a program.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    fn of(program: &Path) -> Option<Self> {
        let path = program.canonicalize().ok()?;
        let facts = fs::metadata(&path).ok()?;
        Some(Self {
            path,
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

/// Where it is kept.
pub(super) fn place() -> Option<PathBuf> {
    Dirs::find().ok().map(|dirs| dirs.cache.join("monitors").join("qemu.json"))
}

/// What `program`, as it is now, said.
pub(super) fn recall(place: &Path, program: &Path) -> Option<String> {
    if fs::metadata(place).ok()?.len() > MAX_BYTES {
        return None;
    }
    let memo: Memo = serde_json::from_slice(&fs::read(place).ok()?).ok()?;
    (Seen::of(program)? == memo.program).then_some(memo.line)
}

/// Keeps what it said, aside first: two commands may do this at once.
pub(super) fn keep(place: &Path, program: &Path, line: &str) {
    let _ = try_keep(place, program, line);
}

fn try_keep(place: &Path, program: &Path, line: &str) -> Option<()> {
    let memo = Memo { program: Seen::of(program)?, line: line.to_owned() };
    let dir = place.parent()?;
    fs::create_dir_all(dir).ok()?;
    let aside = tempfile::NamedTempFile::new_in(dir).ok()?;
    fs::write(aside.path(), serde_json::to_vec(&memo).ok()?).ok()?;
    aside.persist(place).ok().map(drop)
}

#[cfg(test)]
mod tests;
