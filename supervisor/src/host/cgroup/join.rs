//! The ticket with which a child enters its group before it runs its program.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Open lists of members of one group. Made by [`super::Cgroup::join`], used by `process::spawn`.
#[derive(Debug)]
pub struct CgroupJoin {
    pub(super) procs: Vec<OwnedFd>,
    /// The group's directory, where a process can be started in it.
    pub(super) cgroup_fd: Option<OwnedFd>,
}

impl CgroupJoin {
    /// The directory of the group to spawn into; none where a process has to move by itself.
    pub(crate) fn cgroup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.cgroup_fd.as_ref().map(AsFd::as_fd)
    }

    /// Moves the calling process into the group.
    ///
    /// Runs between fork and exec: system calls only.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for procs in &self.procs {
            nix::unistd::write(procs, b"0")?;
        }
        Ok(())
    }
}
