//! The store itself: its directories and the locks on building.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::StoreError;
use super::lock::FileLock;
use crate::config::TemplateName;

/// The snapshots of one data directory.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens the store in `data`, making its directories. They are for their owner alone: a snapshot holds
    /// whatever was in its guest's memory.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let store = Self { root: data.to_owned() };
        for dir in [store.root.clone(), store.snapshots(), store.staging(), store.locks()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .map_err(StoreError::file("create", &dir))?;
        }
        Ok(store)
    }

    /// Waits until nobody else builds this template. Blocks.
    ///
    /// # Errors
    /// When the lock cannot be used.
    pub fn lock_build(&self, template: &TemplateName) -> Result<FileLock, StoreError> {
        FileLock::exclusive(&self.locks().join(format!("build-{template}")))
    }

    /// Removes what interrupted builds and removals left. What others are building stays.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn reclaim(&self) -> Result<usize, StoreError> {
        let _guard = self.guard_staging()?;
        let mut removed = 0;
        for dir in entries(&self.staging())? {
            if dir.is_dir() && FileLock::try_exclusive(&dir.join(LOCK))?.is_some() {
                fs::remove_dir_all(&dir).map_err(StoreError::file("remove", &dir))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Held while a staging directory is made or looked for, so that a new one is never seen unlocked.
    pub(super) fn guard_staging(&self) -> Result<FileLock, StoreError> {
        FileLock::exclusive(&self.locks().join("staging"))
    }

    pub(super) fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    pub(super) fn template_dir(&self, template: &TemplateName) -> PathBuf {
        self.snapshots().join(template.as_str())
    }

    pub(super) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }
}

/// The lock file in each snapshot's directory.
pub(super) const LOCK: &str = "lock";
/// The description in each snapshot's directory.
pub(super) const MANIFEST: &str = "manifest.json";
/// The guest's memory.
pub(super) const MEMORY: &str = "memory";
/// The state of processors and devices.
pub(super) const STATE: &str = "state";
/// The template's scratch disk as it was when the machine was frozen.
pub(super) const SCRATCH: &str = "scratch";
/// All files of a snapshot that its manifest vouches for.
pub(super) const FILES: [&str; 3] = [MEMORY, STATE, SCRATCH];

/// What is in a directory, sorted; nothing when it is not there.
pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error| StoreError::file("read", dir)(error);
    let listing = match fs::read_dir(dir) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in listing {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}
