//! Undoes what supervisors left behind that were killed: found by their locks, which the kernel releases.
//!
//! Run before anything else by every command that makes machines. It touches nothing but directories below
//! the run directory and what their records name.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::host::{LOCK, workdir_tree};

/// What was found and undone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Supervisors that are gone.
    pub supervisors: usize,
    /// Those of them whose remains could not all be removed.
    pub stubborn: usize,
}

/// Undoes what dead supervisors left in a data directory, for commands that start no machine themselves.
///
/// # Errors
/// When the run directory cannot be read.
pub fn reclaim(data_dir: &Path) -> io::Result<Reclaimed> {
    match reclaim_dead(&data_dir.join("run")) {
        // Nobody has ever started a machine here.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Reclaimed::default()),
        other => other,
    }
}

/// Undoes every instance whose lock is free.
///
/// # Errors
/// When the run directory cannot be read. What cannot be undone is logged and tried again next time.
pub(super) fn reclaim_dead(run: &Path) -> io::Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    for entry in fs::read_dir(run)? {
        let path = entry?.path();
        if !is_dead(&path) {
            continue;
        }
        reclaimed.supervisors += 1;
        if let Err(error) = workdir_tree(&path) {
            reclaimed.stubborn += 1;
            tracing::warn!(%error, path = %path.display(), "remains of an earlier supervisor could not be removed");
        }
    }
    Ok(reclaimed)
}

/// Whether nobody holds the lock. A directory that has none yet is being made right now.
fn is_dead(instance: &Path) -> bool {
    match File::open(instance.join(LOCK)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        },
        Err(_) => false,
    }
}
