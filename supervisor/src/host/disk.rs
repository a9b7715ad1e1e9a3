//! Which disk a directory is on, for limits that are set per disk, and whether enough of it is free.
//!
//! Scratch disks are sparse files: what a guest was promised is there only as long as nobody else takes it. The pool
//! hands out no more than there is; a [`Reserve`] notices when somebody else filled the disk all the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::stat::{major, minor, stat};
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;

/// The kernel's number of a file system that is a page cache and nothing else.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// What is free for this process on the file system of `path`, in MiB; `None` where the kernel does not say.
#[must_use]
pub fn free_mib(path: &Path) -> Option<u64> {
    let facts = statvfs(path).ok()?;
    Some(facts.blocks_available().saturating_mul(facts.fragment_size()) >> 20)
}

/// Whether `path` is on a file system that forgets everything when the host restarts.
#[must_use]
pub fn in_memory(path: &Path) -> bool {
    let kind = statfs(path).map(|facts| facts.filesystem_type());
    kind.is_ok_and(|kind| kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}

/// Less is free than must stay so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host's disk is nearly full: {free_mib} MiB are free, and {reserve_mib} must stay free")]
pub struct LowDisk {
    /// What is free.
    pub free_mib: u64,
    /// What must be.
    pub reserve_mib: u64,
}

/// What was last seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// What was free.
    pub free_mib: u64,
    /// Whether it was too little.
    pub low: bool,
}

/// Something that must stay free on a file system.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    mib: u64,
    seen: Mutex<Seen>,
}

impl Reserve {
    /// On the file system of `path`.
    #[must_use]
    pub fn new(path: &Path, mib: u64) -> Self {
        let reserve = Self { path: path.to_owned(), mib, seen: Mutex::default() };
        // What is wrong already is logged, and met by the first who asks.
        let _ = reserve.check();
        reserve
    }

    /// Looks, and logs what has changed. A single system call.
    ///
    /// # Errors
    /// When less is free than must be.
    pub fn check(&self) -> Result<(), LowDisk> {
        // A file system that cannot be asked is no reason to refuse; what needs it fails by itself.
        let Some(free_mib) = free_mib(&self.path) else { return Ok(()) };
        let low = LowDisk { free_mib, reserve_mib: self.mib };
        let now = Seen { free_mib, low: free_mib < self.mib };
        let before = std::mem::replace(&mut *self.lock(), now);
        match (before.low, now.low) {
            (false, true) => {
                let path = self.path.display();
                tracing::error!(%path, "{low}; new sandboxes and uploads are refused\nhint: free space there");
            }
            (true, false) => tracing::info!(free_mib, "the host's disk has room again"),
            _ => {}
        }
        if now.low { Err(low) } else { Ok(()) }
    }

    /// What was last seen.
    #[must_use]
    pub fn seen(&self) -> Seen {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Major and minor number of the whole disk that holds `path`; `None` where there is no one disk, as on
/// memory, network and copy-on-write file systems.
#[must_use]
pub fn whole_disk(path: &Path) -> Option<(u32, u32)> {
    let device = stat(path).ok()?.st_dev;
    let numbers = (u32::try_from(major(device)).ok()?, u32::try_from(minor(device)).ok()?);
    let entry = format!("/sys/dev/block/{}:{}", numbers.0, numbers.1);
    if !Path::new(&entry).exists() {
        return None;
    }
    if !Path::new(&entry).join("partition").exists() {
        return Some(numbers);
    }
    // A partition's directory is inside its disk's.
    let text = fs::read_to_string(Path::new(&entry).canonicalize().ok()?.parent()?.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    //! Memory is no disk.

    use super::*;

    #[test]
    fn a_file_system_in_memory_is_on_no_disk() {
        assert_eq!(whole_disk(Path::new("/proc")), None);
        assert_eq!(whole_disk(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn what_forgets_is_told_from_what_keeps() {
        let kind = |path: &str| {
            let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
            let line = mounts.lines().rev().find(|line| line.split(' ').nth(1) == Some(path));
            line.and_then(|line| line.split(' ').nth(2)).map(str::to_owned)
        };
        assert!(!in_memory(Path::new("/proc")), "it keeps nothing, and is no place for files");
        for path in ["/", "/dev/shm", "/run", "/tmp"] {
            let Some(kind) = kind(path) else { continue };
            assert_eq!(in_memory(Path::new(path)), kind == "tmpfs" || kind == "ramfs", "{path} is {kind}");
        }
    }

    #[test]
    fn a_disk_that_is_found_is_a_whole_one() {
        if let Some((major, minor)) = whole_disk(Path::new("/")) {
            assert!(Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists());
            assert!(!Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists());
        }
    }
}
