//! The full check: every byte of a snapshot against its manifest.

use super::list::Entry;
use super::load::Snapshot;
use super::root::Store;
use super::{StoreError, digest};

impl Store {
    /// Hashes the files of a stored snapshot. Blocks; about a second per gigabyte.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] naming the file that is not what it was.
    pub fn verify(&self, entry: &Entry) -> Result<(), StoreError> {
        Snapshot::open(&entry.dir)?.verify()
    }
}

impl Snapshot {
    /// Hashes both files. Blocks; about a second per gigabyte.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] naming the file that is not what it was.
    pub fn verify(&self) -> Result<(), StoreError> {
        let manifest = self.manifest();
        for (name, expected) in manifest.files() {
            let found = digest::facts(&self.dir().join(name))?;
            if found.size != expected.size {
                let what = format!("{name} has {} bytes instead of {}", found.size, expected.size);
                return Err(StoreError::damaged(self.dir(), what));
            }
            if found.sha256 != expected.sha256 {
                let what = format!("{name} has the hash {} instead of {}", found.sha256, expected.sha256);
                return Err(StoreError::damaged(self.dir(), what));
            }
        }
        Ok(())
    }
}
