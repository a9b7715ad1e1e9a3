//! Tells interpreters that were started before the snapshot to take fresh randomness.
//!
//! While a template is built each registers itself as a file named by its process id; its content says which
//! kind it is, and so which signal it listens to. It answers by removing the file. Whoever does not answer
//! keeps the gate closed: a clone that shares its random numbers with others is worse than none.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Where interpreters register. Made at boot; elsewhere there are none.
pub const REGISTRY: &str = "/run/rekindle/interpreters";
/// How long they may take, on a busy host.
const DEADLINE: Duration = Duration::from_secs(10);

/// Signals every registered interpreter and waits until each has answered.
///
/// # Errors
/// When one does not.
pub fn reseed() -> io::Result<()> {
    let room = Path::new(REGISTRY);
    // Watched before the first signal, so that no answer is missed.
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    inotify.add_watch(room, AddWatchFlags::IN_DELETE)?;
    for (pid, signal) in registered(room)? {
        signal_interpreter(room, pid, signal)?;
    }
    let started = Instant::now();
    loop {
        let left = registered(room)?;
        if left.is_empty() {
            return Ok(());
        }
        let patience = DEADLINE.saturating_sub(started.elapsed());
        if patience.is_zero() {
            let pids: Vec<String> = left.iter().map(|(pid, _)| pid.to_string()).collect();
            return Err(io::Error::other(format!(
                "no fresh randomness taken by process {}",
                pids.join(", ")
            )));
        }
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        poll(&mut [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)], timeout)?;
        // Only that something was removed matters, not what.
        let _ = inotify.read_events();
    }
}

/// Whether any is registered.
///
/// # Errors
/// When the room cannot be read.
pub fn anyone() -> io::Result<bool> {
    match registered(Path::new(REGISTRY)) {
        Ok(registered) => Ok(!registered.is_empty()),
        // Not a guest: nobody can have registered.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the registrations of interpreters that have ended, before a snapshot makes them everyone's.
///
/// # Errors
/// When the room cannot be read.
pub fn forget_dead() -> io::Result<()> {
    let room = Path::new(REGISTRY);
    if !anyone()? {
        return Ok(());
    }
    for (pid, _) in registered(room)? {
        // Signal 0 only asks whether there is somebody.
        signal_interpreter(room, pid, 0)?;
    }
    Ok(())
}

/// Sends the signal; an interpreter that has ended meanwhile needs nothing.
fn signal_interpreter(room: &Path, pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: `kill` takes two numbers; the pid is positive, so it means one process.
    // JUSTIFICATION: the safe wrapper does not know real-time signals.
    if unsafe { libc::kill(pid, signal) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ESRCH) => fs::remove_file(room.join(pid.to_string())),
        error => Err(error),
    }
}

/// The registered processes and the signal each listens to.
fn registered(room: &Path) -> io::Result<Vec<(i32, i32)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(room)? {
        let entry = entry?;
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()).filter(|pid| *pid > 1);
        // It may have answered since the directory was read.
        let Ok(kind) = fs::read_to_string(entry.path()) else { continue };
        let signal = match kind.trim_end() {
            "python" => Some(libc::SIGRTMIN() + 6),
            "node" => Some(libc::SIGUSR2),
            _ => None,
        };
        match (pid, signal) {
            (Some(pid), Some(signal)) => found.push((pid, signal)),
            // Not a registration; nothing may wait for it.
            _ => fs::remove_file(entry.path())?,
        }
    }
    Ok(found)
}
