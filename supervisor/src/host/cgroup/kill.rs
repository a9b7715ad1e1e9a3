//! Empties a group and removes its directories.
//!
//! Waiting is done on pidfds, so the end of a process is an event; used by the guard and by recovery.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::CgroupError;
use crate::host::process::wait_exit;

/// How long a killed group may take to become empty. Freeing gigabytes of guest memory on a loaded
/// host takes seconds, not milliseconds.
const GRACE: Duration = Duration::from_secs(20);

/// Kills everything in the group; returns once it is empty.
pub(super) fn empty(dir: &Path) -> Result<(), CgroupError> {
    let deadline = Instant::now() + GRACE;
    loop {
        let pids = processes(dir)?;
        if pids.is_empty() {
            return Ok(());
        }
        // Opened before the kill: afterwards the numbers may mean other processes.
        let doomed: Vec<OwnedFd> = pids.iter().filter_map(|pid| open_member(dir, *pid)).collect();
        if fs::write(dir.join("cgroup.kill"), "1").is_err() {
            for pidfd in &doomed {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
        }
        for pidfd in &doomed {
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = wait_exit(pidfd, left).map_err(CgroupError::file("wait for", dir))?;
            if !ended {
                return Err(CgroupError::Unkillable { path: dir.to_owned(), count: processes(dir)?.len() });
            }
        }
        if Instant::now() >= deadline {
            return Err(CgroupError::Unkillable { path: dir.to_owned(), count: processes(dir)?.len() });
        }
    }
}

/// Removes an empty group's directory; one that is gone already is fine.
pub(super) fn remove(dir: &Path) -> Result<(), CgroupError> {
    let deadline = Instant::now() + GRACE;
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // A process between its exit and its release still counts for a moment, and the kernel
            // gives no event for that in the older hierarchies.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                empty(dir)?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(CgroupError::file("remove", dir)(error)),
        }
    }
}

/// The processes in a group; none when the group does not exist.
pub(super) fn processes(dir: &Path) -> Result<Vec<u32>, CgroupError> {
    let path = dir.join("cgroup.procs");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        // A removed group answers its open files with "no such device".
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(Vec::new()),
        Err(error) => Err(CgroupError::file("read", &path)(error)),
    }
}

/// A pidfd of `pid`, if it is still a member once the pidfd is held.
fn open_member(dir: &Path, pid: u32) -> Option<OwnedFd> {
    let pidfd = pidfd_open(i32::try_from(pid).ok().and_then(Pid::from_raw)?, PidfdFlags::empty()).ok()?;
    processes(dir).ok()?.contains(&pid).then_some(pidfd)
}
