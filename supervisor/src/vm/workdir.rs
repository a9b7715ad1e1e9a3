//! The directory of one machine: its sockets, its scratch disk, and the record by which a later supervisor
//! can undo it. Nothing else in the program removes a machine's files. What cannot be removed now, for want of
//! descriptors perhaps, is tried again with the next one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::users::UserLease;
use crate::host::cgroup::CgroupRecord;
use crate::host::process::ProcessIdentity;
use crate::host::undo;

/// Name of the record inside a machine's directory.
const RECORD: &str = "record.json";
/// How long a killed monitor may take to be gone.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// What must be undone if nobody is left who knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The machine's control group.
    pub cgroup: CgroupRecord,
    /// Its monitor.
    pub process: Option<ProcessIdentity>,
}

/// A machine's directory, removed with everything in it when this is closed or dropped.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    /// Whom the machine runs as: nobody else becomes that user while its files are there.
    user: Option<UserLease>,
}

impl WorkDir {
    /// Makes the directory; only its owner may look inside.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, user: None })
    }

    /// Keeps a user for as long as the directory is there.
    pub(super) fn keep(&mut self, user: UserLease) {
        self.user = Some(user);
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the record, whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write_record(&self, record: &Record) -> io::Result<()> {
        let (new, path) = (self.path.join("record.new"), self.path.join(RECORD));
        fs::write(&new, serde_json::to_vec(record)?)?;
        fs::rename(new, path)
    }

    /// Removes it.
    ///
    /// # Errors
    /// When something in it cannot be removed now.
    pub fn close(mut self) -> io::Result<()> {
        remove_or_keep(std::mem::take(&mut self.path), self.user.take())
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let (path, user) = (std::mem::take(&mut self.path), self.user.take());
        if path.as_os_str().is_empty() {
            return;
        }
        undo::later(move || {
            let shown = path.clone();
            if let Err(error) = remove_or_keep(path, user) {
                tracing::warn!(%error, path = %shown.display(), "a machine's directory was left behind");
            }
        });
    }
}

/// Undoes a machine whose supervisor is gone: its process, its control group, its directory.
///
/// # Errors
/// When something could not be undone; the directory stays then, so that the next start tries again.
pub fn reclaim(path: &Path) -> io::Result<()> {
    // A machine whose record was never written has no process and no group yet.
    if let Ok(text) = fs::read(path.join(RECORD)) {
        let record: Record = serde_json::from_slice(&text).unwrap_or_default();
        if let Some(process) = &record.process {
            process.kill(KILL_GRACE)?;
        }
        record.cgroup.reclaim().map_err(io::Error::other)?;
    }
    remove(path)
}

/// Directories that could not be removed, each with whom its machine ran as: nobody else becomes that user yet.
static LEFT: Mutex<Vec<(PathBuf, Option<UserLease>)>> = Mutex::new(Vec::new());

fn left() -> MutexGuard<'static, Vec<(PathBuf, Option<UserLease>)>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a directory and those that were left before it; one that cannot be removed is kept in mind.
fn remove_or_keep(path: PathBuf, user: Option<UserLease>) -> io::Result<()> {
    let removed = remove(&path);
    if removed.is_err() {
        left().push((path, user));
        return removed;
    }
    let before = std::mem::take(&mut *left());
    let stubborn = before.into_iter().filter(|(path, _)| remove(path).is_err()).collect::<Vec<_>>();
    left().extend(stubborn);
    removed
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::undo::tests::hold_up;

    #[tokio::test]
    async fn a_machine_that_is_given_up_is_removed_off_the_runtime() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vm");
        let held = hold_up();
        drop(WorkDir::create(path.clone()).expect("made"));
        assert!(path.exists(), "this thread has not waited for the disk");
        drop(held);
        undo::settle();
        assert!(!path.exists(), "and it is removed all the same");
    }
}
