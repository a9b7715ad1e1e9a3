//! The ticket with which a child enters its group before it runs its program.

use std::io;
use std::os::fd::OwnedFd;

/// Open lists of members of one group. Made by [`super::Cgroup::join`], used by `process::spawn`.
#[derive(Debug)]
pub struct CgroupJoin {
    pub(super) procs: Vec<OwnedFd>,
}

impl CgroupJoin {
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
