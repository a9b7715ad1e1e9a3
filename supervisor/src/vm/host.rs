//! What all machines of one supervisor share: the engine, the control groups, the maker of scratch disks and
//! the directory their directories are in.
//!
//! ```text
//!   <data>/run/<instance>/lock      held for as long as the supervisor lives
//!   <data>/run/<instance>/<vm>/     one machine
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::recovery::{self, Holder, Reclaimed};
use super::users::{UserRange, Users};
use super::workdir;
use crate::engine::Engine;
use crate::host::cgroup::{CgroupManager, LimitKind, Unenforced};
use crate::host::disk::{in_memory, whole_disk};
use crate::host::scratch::ScratchMaker;
use crate::host::undo;

/// Name of the lock in an instance's directory.
pub(super) const LOCK: &str = "lock";

/// What a supervisor decides once.
#[derive(Debug)]
pub struct VmHostConfig {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Where limits are enforced.
    pub cgroups: CgroupManager,
    /// Refuse to start a machine whose limits cannot be enforced.
    pub require_limits: bool,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Whom monitors run as; `None` keeps the supervisor's user.
    pub users: Option<UserRange>,
}

/// Why a supervisor cannot hold machines.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} for machines", path.display())]
pub struct HostError {
    /// The directory or file.
    path: PathBuf,
    /// What the kernel said.
    #[source]
    source: io::Error,
}

/// What the run directory, and with it every scratch disk, is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    /// A whole disk, by its major and minor number.
    Block(u32, u32),
    /// Memory, which is limited as such.
    Memory,
    /// Something whose traffic no group can limit.
    Unknown,
}

impl Disk {
    fn of(path: &Path) -> Self {
        match whole_disk(path) {
            Some((major, minor)) => Self::Block(major, minor),
            None if in_memory(path) => Self::Memory,
            None => Self::Unknown,
        }
    }
}

/// The place machines are made in.
#[derive(Debug)]
pub struct VmHost {
    pub(super) config: VmHostConfig,
    pub(super) scratch: ScratchMaker,
    /// What machines write to.
    pub(super) disk: Disk,
    pub(super) users: Option<Users>,
    /// This supervisor's directory.
    instance: PathBuf,
    /// Held for life: who can take it knows that this supervisor is gone.
    _lock: File,
    reclaimed: Reclaimed,
    restores_repeated: AtomicU64,
}

impl VmHost {
    /// Prepares the directory, and first undoes what dead supervisors left behind.
    ///
    /// # Errors
    /// When the data directory cannot be used.
    pub fn open(mut config: VmHostConfig) -> Result<Self, HostError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| HostError { path, source }
        };
        let run = config.data_dir.join("run");
        fs::create_dir_all(&run).map_err(failed(&run))?;
        let reclaimed = recovery::reclaim_dead(&run).map_err(failed(&run))?;
        let name = super::VmId::random().map_err(io::Error::other).map_err(failed(&run))?;
        // Named by its lock only once that is held: a directory without a held lock is a dead one.
        let staged = run.join(format!("{name}.new"));
        fs::create_dir(&staged).map_err(failed(&staged))?;
        let lock = File::create(staged.join(LOCK)).map_err(failed(&staged))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(failed(&staged)(io::ErrorKind::WouldBlock.into()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&staged)(error)),
        }
        let holder = Holder::this_process().map_err(failed(&staged))?;
        let holder = serde_json::to_vec(&holder).map_err(io::Error::from).map_err(failed(&staged))?;
        (&lock).write_all(&holder).map_err(failed(&staged))?;
        let instance = run.join(name.to_string());
        fs::rename(&staged, &instance).map_err(failed(&instance))?;
        let scratch = ScratchMaker::new(&config.data_dir.join("blanks"));
        // Not the data directory's: the run directory may be a mount of its own.
        let disk = Disk::of(&instance);
        if disk == Disk::Unknown {
            let reason = format!("{} is not on a single disk", run.display());
            config.cgroups = config.cgroups.without(Unenforced { limit: LimitKind::Io, reason });
        }
        let users = config.users.map(Users::new);
        Ok(Self {
            config,
            scratch,
            disk,
            users,
            instance,
            _lock: lock,
            reclaimed,
            restores_repeated: AtomicU64::new(0),
        })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.config.engine
    }

    /// Where limits are enforced.
    #[must_use]
    pub fn cgroups(&self) -> &CgroupManager {
        &self.config.cgroups
    }

    /// What was undone at the start.
    #[must_use]
    pub fn reclaimed(&self) -> &Reclaimed {
        &self.reclaimed
    }

    /// How many clones kept silent and were replaced.
    #[must_use]
    pub fn restores_repeated(&self) -> u64 {
        self.restores_repeated.load(Ordering::Relaxed)
    }

    pub(super) fn count_repeated_restore(&self) {
        self.restores_repeated.fetch_add(1, Ordering::Relaxed);
    }

    /// The directory machines' directories, and with them their disks, are in.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        &self.instance
    }

    /// The directory for a new machine.
    pub(super) fn work_dir(&self, id: super::VmId) -> PathBuf {
        self.instance.join(id.to_string())
    }
}

impl Drop for VmHost {
    fn drop(&mut self) {
        // What is being undone already is not undone twice.
        undo::settle();
        // Machines hold no reference to their host; one that is still there is undone here.
        if let Err(error) = workdir_tree(&self.instance) {
            tracing::warn!(%error, path = %self.instance.display(), "the run directory was left behind");
        }
    }
}

/// Undoes every machine below an instance's directory, then the directory. One that cannot be undone keeps the
/// directory, not the others.
pub(super) fn workdir_tree(instance: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for entry in fs::read_dir(instance)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            outcome = outcome.and(workdir::reclaim(&entry.path()));
        }
    }
    outcome.and_then(|()| fs::remove_dir_all(instance))
}

#[cfg(test)]
mod tests;
