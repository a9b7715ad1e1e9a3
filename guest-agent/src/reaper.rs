//! The one place that waits for children. Executions get a future of their child's end; everything else that
//! dies, orphans adopted by PID 1 included, is collected silently.
//!
//! Nothing else in the agent may call a `wait` function: it would steal an exit status from here.

use std::collections::HashMap;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::watched::watch;

/// How a child ended.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// What the kernel says of it.
    pub status: Status,
    /// CPU of the child and of the descendants it waited for, in microseconds.
    pub cpu_micros: u64,
    /// The largest of them, in bytes.
    pub peak_memory_bytes: u64,
}

/// The two ways a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It returned this code.
    Exited(u8),
    /// This signal ended it.
    Signaled(u8),
}

/// Waits for all children of the agent.
pub struct Reaper {
    waiting: Mutex<HashMap<i32, oneshot::Sender<Exit>>>,
    signals: AsyncFd<SignalFd>,
}

impl Reaper {
    /// Starts to receive SIGCHLD and becomes the parent of orphans. To be called before there are other threads:
    /// none may take the signal, which is read from a descriptor instead of interrupting anything.
    ///
    /// # Errors
    /// When the signal cannot be received.
    pub fn new() -> io::Result<Self> {
        // PID 1 gets orphans anyway; elsewhere this makes the agent see the same deaths.
        nix::sys::prctl::set_child_subreaper(true)?;
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        children.thread_block()?;
        let signals = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { waiting: Mutex::default(), signals: watch(signals, Interest::READABLE)? })
    }

    /// Starts a child with `start` and promises to tell of its end.
    ///
    /// # Errors
    /// What `start` fails with.
    pub fn adopt<T, E>(
        &self,
        start: impl FnOnce() -> Result<(i32, T), E>,
    ) -> Result<(T, oneshot::Receiver<Exit>), E> {
        // Held across the start, so that a child that ends at once is still found waiting.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (pid, value) = start()?;
        let (sender, receiver) = oneshot::channel();
        waiting.insert(pid, sender);
        Ok((value, receiver))
    }

    /// Takes over a child that somebody else started and left to the agent.
    ///
    /// # Errors
    /// When there is no such process any more.
    pub fn adopt_orphan(&self, pid: i32) -> io::Result<(OwnedFd, oneshot::Receiver<Exit>)> {
        // Nothing is collected while this is held, so a process that can be opened is one to wait for.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the call takes two numbers and returns a new descriptor or an error.
        // JUSTIFICATION: there is no safe wrapper.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
        // JUSTIFICATION: it arrives as a number.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        let (sender, receiver) = oneshot::channel();
        waiting.insert(pid, sender);
        Ok((pidfd, receiver))
    }

    /// Collects children for as long as the agent lives.
    pub async fn run(&self) {
        loop {
            self.collect();
            let Ok(mut ready) = self.signals.readable().await else { return };
            // Before children are collected, so that one that ends meanwhile is told of again.
            while matches!(self.signals.get_ref().read_signal(), Ok(Some(_))) {}
            ready.clear_ready();
        }
    }

    fn collect(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((pid, exit)) = wait_any() {
            if let Some(sender) = waiting.remove(&pid) {
                // Whoever asked may have stopped caring.
                let _ = sender.send(exit);
            }
        }
    }
}

/// Collects one child that has ended.
fn wait_any() -> Option<(i32, Exit)> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live, writable values of the right type.
    // JUSTIFICATION: no safe wrapper returns the resource usage together with the status.
    let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) };
    if pid <= 0 {
        return None;
    }
    let status = if libc::WIFSIGNALED(status) {
        Status::Signaled(libc::WTERMSIG(status) as u8)
    } else {
        Status::Exited(libc::WEXITSTATUS(status) as u8)
    };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    let exit = Exit {
        status,
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss as u64 * 1024,
    };
    Some((pid, exit))
}
