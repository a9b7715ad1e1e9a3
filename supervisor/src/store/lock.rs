//! Locks on files: held by a process, dropped by the kernel when it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::StoreError;

/// A held lock.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl Drop for FileLock {
    /// Gives it up by name: closing the file is not enough while a child that is just being started has a copy of it.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl FileLock {
    /// Waits for the lock nobody else may hold.
    pub(super) fn exclusive(path: &Path) -> Result<Self, StoreError> {
        let file = open(path)?;
        file.lock().map_err(StoreError::file("lock", path))?;
        Ok(Self { file })
    }

    /// Takes the lock nobody else may hold, unless somebody does.
    pub(super) fn try_exclusive(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(StoreError::file("lock", path)(error)),
        }
    }

    /// Takes a lock many may hold, of a file that exists; `None` while somebody removes it.
    pub(super) fn try_shared(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = File::open(path).map_err(StoreError::file("open", path))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { file })),
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

#[cfg(test)]
mod tests {
    use super::FileLock;

    #[test]
    fn a_lock_that_is_given_up_is_free_even_if_a_child_has_a_copy_of_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        let lock = FileLock::exclusive(&path).expect("locked");
        let copy = lock.file.try_clone().expect("copied");
        assert!(FileLock::try_shared(&path).expect("opened").is_none());
        drop(lock);
        assert!(FileLock::try_shared(&path).expect("opened").is_some());
        drop(copy);
    }
}
