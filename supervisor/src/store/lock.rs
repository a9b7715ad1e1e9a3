//! Locks on files: held by a process, dropped by the kernel when it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::StoreError;

/// A held lock.
#[derive(Debug)]
pub struct FileLock {
    /// Held for as long as it is open.
    _file: File,
}

impl FileLock {
    /// Waits for the lock nobody else may hold.
    pub(super) fn exclusive(path: &Path) -> Result<Self, StoreError> {
        let file = open(path)?;
        file.lock().map_err(StoreError::file("lock", path))?;
        Ok(Self { _file: file })
    }

    /// Takes the lock nobody else may hold, unless somebody does.
    pub(super) fn try_exclusive(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(StoreError::file("lock", path)(error)),
        }
    }

    /// Takes a lock many may hold, of a file that exists; `None` while somebody removes it.
    pub(super) fn try_shared(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = File::open(path).map_err(StoreError::file("open", path))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(StoreError::file("lock", path)(error)),
        }
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(StoreError::file("open", path))
}
