//! Namespaces for a program that changes its user, as a jailer does.
//!
//! ```text
//! supervisor ──▶ sh (first process of the namespace) ──▶ the program
//!      dies ⇒ killed                       dies ⇒ killed, by the kernel
//! ```
//!
//! A program that changes its user loses the tie to its parent, which the kernel clears then. So the
//! tie is held by a small process that never changes its own: when the supervisor goes, it goes, and the
//! kernel ends every process of a namespace whose first one ends. Used by `spawn` only.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::network;
use super::spec::Namespaces;

/// Stays the first process: one that only waits.
const FIRST: [&str; 3] = ["-c", "\"$@\" & wait \"$!\"", "sh"];

/// The command that runs `program` one level deeper.
pub(super) fn wrap(program: &Path, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let mut words: Vec<OsString> = FIRST.map(OsString::from).into();
    words.push(program.into());
    words.extend(args);
    ("/bin/sh".into(), words)
}

/// While this is held, a child of this thread is the first process of a namespace of its own.
pub(super) struct Birthplace {
    own: File,
}

impl Birthplace {
    /// Makes the namespace. The thread itself stays where it is.
    pub(super) fn open() -> io::Result<Self> {
        let own = File::open("/proc/thread-self/ns/pid")?;
        unshare(CloneFlags::CLONE_NEWPID)?;
        Ok(Self { own })
    }
}

impl Drop for Birthplace {
    fn drop(&mut self) {
        // It cannot fail for a thread that was let into a namespace below; if it did, no child could be
        // born any more, which shows.
        let _ = setns(&self.own, CloneFlags::CLONE_NEWPID);
    }
}

/// The binds with everything allocated, for use between fork and exec.
pub(super) struct Entry {
    binds: Vec<(CString, CString, bool)>,
    network: OwnedFd,
    supervisor: OwnedFd,
}

impl Entry {
    pub(super) fn prepare(namespaces: &Namespaces) -> io::Result<Self> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        let bind = |bind: &super::spec::Bind| Ok((text(&bind.source)?, text(&bind.target)?, bind.writable));
        Ok(Self {
            binds: namespaces.binds.iter().map(bind).collect::<io::Result<_>>()?,
            network: network::take()?,
            supervisor: pidfd_open(getpid(), PidfdFlags::empty())?,
        })
    }

    /// Whether the supervisor lives. A process in a namespace of its own cannot see who its parent is.
    pub(super) fn supervisor_lives(&self) -> io::Result<bool> {
        let mut ended = [PollFd::new(self.supervisor.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut ended, PollTimeout::ZERO)? == 0)
    }

    /// Enters its namespaces and makes the binds. System calls only.
    pub(super) fn enter(&self) -> io::Result<()> {
        setns(&self.network, CloneFlags::CLONE_NEWNET)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none = None::<&CString>.map(CString::as_c_str);
        mount(none, c"/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none)?;
        for (source, target, writable) in &self.binds {
            mount(Some(source.as_c_str()), target.as_c_str(), none, MsFlags::MS_BIND, none)?;
            let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
            if !writable {
                flags |= MsFlags::MS_RDONLY;
            }
            mount(none, target.as_c_str(), none, flags, none)?;
        }
        Ok(())
    }
}
