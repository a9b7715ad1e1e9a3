//! The scratch disk of a machine that was stopped, until another one boots with it.
//!
//! It is in a directory of its own beside those of machines, without a record: a supervisor that finds it after the
//! death of this one knows by that that nothing runs on it, and removes it as it removes machines.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use super::id::VmId;
use super::scratch::SCRATCH;
use super::workdir::WorkDir;
use crate::host::scratch;

/// A disk that outlives its machine. Dropped, it is removed in the background.
#[derive(Debug)]
pub struct KeptDisk {
    dir: WorkDir,
}

impl KeptDisk {
    /// Takes the disk out of the directory of a machine that has ended.
    pub(super) async fn take(machine: &Path) -> io::Result<Self> {
        let machine = machine.to_owned();
        tokio::task::spawn_blocking(move || Self::take_now(&machine)).await.map_err(io::Error::other)?
    }

    fn take_now(machine: &Path) -> io::Result<Self> {
        let id = VmId::random().map_err(io::Error::other)?;
        let dir = WorkDir::create(machine.with_file_name(id.to_string()))?;
        let kept = Self { dir };
        let path = kept.path();
        fs::rename(machine.join(SCRATCH), &path)?;
        // It was the machine's user's, who may be another machine's by tomorrow.
        let owner = fs::metadata(kept.dir.path())?;
        if fs::metadata(&path)?.uid() != owner.uid() {
            chown(&path, Some(owner.uid()), Some(owner.gid()))?;
        }
        Ok(kept)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(SCRATCH)
    }

    /// Bytes it takes up on the host.
    ///
    /// # Errors
    /// When it is not there.
    pub fn bytes(&self) -> io::Result<u64> {
        scratch::held(&self.path())
    }

    /// Removes it. A machine that has booted with it keeps what it has.
    pub async fn close(self) {
        let removed = tokio::task::spawn_blocking(move || self.dir.close()).await;
        if let Err(error) = removed.map_err(io::Error::other).and_then(|removed| removed) {
            tracing::warn!(%error, "the disk of a stopped machine was left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_disk_outlives_its_machine_and_one_that_boots_with_it_outlives_the_disk() {
        let run = tempfile::tempdir().expect("a directory");
        let machine = run.path().join("vm-1");
        fs::create_dir(&machine).expect("made");
        fs::write(machine.join(SCRATCH), "files").expect("written");
        let kept = KeptDisk::take(&machine).await.expect("kept");
        fs::remove_dir_all(&machine).expect("the machine is gone, and its disk not in it");
        assert_eq!(fs::read_to_string(kept.path()).expect("read"), "files");
        let next = run.path().join("next");
        crate::host::scratch::link(&kept.path(), &next).expect("linked");
        fs::write(&next, "more files").expect("written");
        assert_eq!(fs::read_to_string(kept.path()).expect("read"), "more files", "it is the same disk");
        kept.close().await;
        assert_eq!(fs::read_to_string(&next).expect("read"), "more files");
        let left: Vec<_> =
            fs::read_dir(run.path()).expect("read").flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, [next]);
    }

    #[tokio::test]
    async fn where_there_is_no_disk_nothing_is_left_behind() {
        let run = tempfile::tempdir().expect("a directory");
        let machine = run.path().join("vm-1");
        fs::create_dir(&machine).expect("made");
        KeptDisk::take(&machine).await.expect_err("there is none");
        crate::host::undo::settle();
        assert_eq!(fs::read_dir(run.path()).expect("read").count(), 1);
    }
}
