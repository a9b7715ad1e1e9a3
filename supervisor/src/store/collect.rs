//! Removes snapshots: one by one, or all that nobody needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::StoreError;
use super::list::Entry;
use super::lock::FileLock;
use super::manifest::Manifest;
use super::root::{LOCK, Store};

/// What a collection did.
#[derive(Debug, Default)]
pub struct Collected {
    /// The directories that were removed.
    pub removed: Vec<PathBuf>,
    /// Bytes freed on the disk.
    pub freed_bytes: u64,
    /// How many were not needed but in use.
    pub in_use: usize,
}

impl Store {
    /// Removes every snapshot for which `keep` says no and that is older than `min_age`. Damaged ones are not
    /// kept. One in use stays.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn collect(
        &self,
        min_age: Duration,
        keep: impl Fn(&Manifest) -> bool,
    ) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        for entry in self.list()? {
            if entry.manifest.as_ref().is_ok_and(&keep) || age(&entry.dir) < min_age {
                continue;
            }
            match self.remove(&entry) {
                Ok(()) => {
                    collected.freed_bytes += entry.disk_bytes;
                    collected.removed.push(entry.dir);
                }
                Err(StoreError::InUse { .. }) => collected.in_use += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(collected)
    }

    /// Removes one snapshot.
    ///
    /// # Errors
    /// [`StoreError::InUse`] while a machine runs from it.
    pub fn remove(&self, entry: &Entry) -> Result<(), StoreError> {
        let _guard = self.guard_staging()?;
        let Some(lock) = FileLock::try_exclusive(&entry.dir.join(LOCK))? else {
            return Err(StoreError::InUse { path: entry.dir.clone() });
        };
        // Renamed away first: half of a snapshot is never seen, and an interrupted removal is reclaimed.
        let aside = tempfile::Builder::new()
            .prefix("removed-")
            .tempdir_in(self.staging())
            .map_err(StoreError::file("create a directory in", &self.staging()))?
            .keep();
        let renamed = fs::rename(&entry.dir, &aside).map_err(StoreError::file("rename", &entry.dir));
        drop(lock);
        let removed = fs::remove_dir_all(&aside).map_err(StoreError::file("remove", &aside));
        if let Some(parent) = entry.dir.parent() {
            // Refused while it holds another snapshot.
            let _ = fs::remove_dir(parent);
        }
        renamed.and(removed)
    }
}

fn age(dir: &Path) -> Duration {
    let modified = fs::metadata(dir).and_then(|facts| facts.modified());
    modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default()
}
