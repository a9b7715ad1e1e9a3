//! Undoes what supervisors left behind that were killed: found by their locks, which the kernel releases.
//!
//! Run before anything else by every command that makes machines. It touches nothing but directories below
//! the run directory and what their records name.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::host::{LOCK, workdir_tree};
use crate::host::process::ProcessIdentity;

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

/// Who holds an instance's lock, written into it.
///
/// A child that its supervisor was just starting holds the lock too until it has become the monitor. For that
/// moment the lock alone would say that a killed supervisor lives.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Holder {
    process: ProcessIdentity,
    /// Process ids mean something only within one namespace: a supervisor in another container is not looked
    /// for in this one.
    pid_namespace: PathBuf,
}

impl Holder {
    /// This supervisor.
    pub(super) fn this_process() -> io::Result<Self> {
        Ok(Self { process: ProcessIdentity::of(std::process::id())?, pid_namespace: pid_namespace()? })
    }

    fn is_gone(&self) -> bool {
        pid_namespace().is_ok_and(|own| own == self.pid_namespace) && !self.process.is_alive()
    }
}

fn pid_namespace() -> io::Result<PathBuf> {
    fs::read_link("/proc/self/ns/pid")
}

/// Whether nobody holds the lock, or who took it is gone. A directory that has none yet is being made right now.
fn is_dead(instance: &Path) -> bool {
    let path = instance.join(LOCK);
    match File::open(&path).map(|lock| lock.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock)) => fs::read(&path)
            .ok()
            .and_then(|text| serde_json::from_slice::<Holder>(&text).ok())
            .is_some_and(|holder| holder.is_gone()),
        Ok(Err(TryLockError::Error(_))) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
