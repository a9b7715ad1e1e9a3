//! A process named so that a later supervisor can find *that* process and no other.
//!
//! A pid alone is reused; a pid with its start time, within one boot, is not. Written into a VM's
//! record at launch and read back by recovery. It never signals a process it cannot prove to be the
//! recorded one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Pid, start time and boot: together unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
    /// The kernel's boot id, so that a record from before a reboot matches nothing.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The identity of a running process.
    ///
    /// # Errors
    /// When there is no such process or `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, start_ticks: start_ticks(pid)?, boot_id: boot_id()? })
    }

    /// Whether the recorded process still runs; a zombie does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.open().ok().flatten().is_some_and(|pidfd| !has_exited(&pidfd))
    }

    /// Kills the recorded process if it still runs and waits until it is gone, at most `grace`.
    ///
    /// Returns whether there was something to kill.
    ///
    /// # Errors
    /// When it may not be signalled, or is still there after `grace`.
    pub fn kill(&self, grace: Duration) -> io::Result<bool> {
        let Some(pidfd) = self.open()? else { return Ok(false) };
        if has_exited(&pidfd) {
            return Ok(false);
        }
        match pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) => {}
            Err(rustix::io::Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if wait_exit(&pidfd, grace)? {
            Ok(true)
        } else {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("process {} did not die", self.pid)))
        }
    }

    /// A pidfd of the recorded process, or `None` when it is gone or another one has its pid.
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        if boot_id()? != self.boot_id {
            return Ok(None);
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Checked after the pidfd is held: from here on the pid cannot come to mean another process.
        match start_ticks(self.pid) {
            Ok(ticks) if ticks == self.start_ticks => Ok(Some(pidfd)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Waits on a pidfd; `true` when the process has ended within `grace`.
pub(crate) fn wait_exit(pidfd: &OwnedFd, grace: Duration) -> io::Result<bool> {
    let millis = u16::try_from(grace.as_millis()).unwrap_or(u16::MAX);
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(count) => return Ok(count > 0),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn has_exited(pidfd: &OwnedFd) -> bool {
    wait_exit(pidfd, Duration::ZERO).unwrap_or(true)
}

fn start_ticks(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command name may hold spaces and parentheses; fields are counted after its last one.
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc stat line not understood"))
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
