//! One lock per key, shared with the commands a build starts.

use std::fs::{File, TryLockError};

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::Cache;

/// A held lock; dropping it releases it (once the commands that inherited it are gone).
pub struct Lock {
    _file: File,
}

impl Cache {
    /// Takes the lock, telling the person when somebody else is building the same thing.
    pub(super) fn lock(&self, name: &str) -> Result<Lock> {
        if let Some(lock) = self.try_lock(name)? {
            return Ok(lock);
        }
        eprintln!("waiting for another build of {name} to finish");
        let file = self.lock_file(name)?;
        file.lock().with_context(|| format!("cannot lock {name}"))?;
        share(&file)?;
        Ok(Lock { _file: file })
    }

    /// Takes the lock only if nobody holds it.
    pub(super) fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        let file = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => {
                share(&file)?;
                Ok(Some(Lock { _file: file }))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {name}")),
        }
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.root.join("locks").join(name);
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))
    }
}

/// Lets commands inherit the lock: they may outlive a killed parent and still write.
fn share(file: &File) -> Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty())).context("cannot share a lock with commands")?;
    Ok(())
}
