//! Decides, for one child, what it may open for writing: nothing but what it is handed.
//!
//! ```text
//! child: openat(path, O_RDWR) ──stopped by seccomp──▶ supervisor: is the path granted?
//!        ◀── the granted descriptor, whatever its own mode ──── yes
//!        ◀── EACCES ───────────────────────────────────────────  no
//! ```
//!
//! QEMU before 8.2 opens the memory file of a clone read-write even though it maps it privately. The
//! guard hands it a *read-only* descriptor in answer, so that not even a monitor taken over by its
//! guest can write to a snapshot other clones share (docs/decisions/0020). Opening to read is not
//! stopped. The same filter keeps a child from the host's network and from other processes. Called by
//! `process::spawn`; the child is never trusted with more than its grants.

mod filter;
mod syscall;

#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, socketpair,
};

use crate::host::readable::watch_readable;

/// The capability that reading another user's memory takes, as the kernel numbers them.
const SYS_PTRACE: u32 = 19;
/// Longest path the guard reads from a child before it refuses.
const MAX_PATH: usize = 4096;

/// A path the child may open, and what it gets when it does.
#[derive(Debug)]
pub struct OpenGrant {
    /// The path exactly as the child will name it.
    pub path: CString,
    /// The descriptor it receives instead of a fresh one; a duplicate each time.
    pub descriptor: OwnedFd,
}

/// Why the guard could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
pub struct GuardError {
    /// The step that failed.
    operation: &'static str,
    /// What the kernel said.
    #[source]
    source: io::Error,
}

/// Whether children can be guarded that run as users of their own, as root's do: the guard reads their memory.
/// A container's root usually may not.
#[must_use]
pub fn may_guard_others() -> bool {
    !nix::unistd::geteuid().is_root()
        || std::fs::read_to_string("/proc/self/status").is_ok_and(|status| may_read_others(&status))
}

/// The same, by what the kernel tells about a process.
fn may_read_others(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|set| set & (1 << SYS_PTRACE) != 0)
}

fn failed(operation: &'static str) -> impl FnOnce(io::Error) -> GuardError {
    move |source| GuardError { operation, source }
}

/// A guard for a child that is about to be forked.
pub(crate) struct PreparedGuard {
    grants: Vec<OpenGrant>,
    ours: OwnedFd,
    theirs: Arc<OwnedFd>,
}

/// The child's half, used between fork and exec.
pub(crate) struct Installer {
    channel: Arc<OwnedFd>,
    program: Vec<libc::sock_filter>,
}

/// A guard whose child runs and whose questions are not yet answered.
pub(crate) struct PendingGuard {
    grants: Vec<OpenGrant>,
    listener: OwnedFd,
}

/// Makes the channel over which the child's guard comes back.
pub(crate) fn build(grants: Vec<OpenGrant>) -> Result<PreparedGuard, GuardError> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|error| failed("socketpair")(error.into()))?;
    Ok(PreparedGuard { grants, ours, theirs: Arc::new(theirs) })
}

impl PreparedGuard {
    pub(crate) fn installer(&self) -> Installer {
        Installer { channel: Arc::clone(&self.theirs), program: filter::build() }
    }

    /// Takes the guard's descriptor from the child, which sent it before its `exec`.
    pub(crate) fn receive(self) -> Result<PendingGuard, GuardError> {
        let mut byte = [0_u8];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let mut space = cmsg_space!(RawFd);
        // The child has passed `exec` by now, so its message is there or never comes.
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(self.ours.as_raw_fd(), &mut parts, Some(&mut space), flags)
            .map_err(|error| failed("receiving the guard")(error.into()))?;
        let listener = message
            .cmsgs()
            .map_err(|error| failed("receiving the guard")(error.into()))?
            .find_map(|part| match part {
                ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
                _ => None,
            })
            .ok_or_else(|| failed("receiving the guard")(io::Error::other("no descriptor in the message")))?;
        // SAFETY: the kernel has just made this descriptor for us and nobody else knows its number.
        let listener = unsafe { OwnedFd::from_raw_fd(listener) };
        Ok(PendingGuard { grants: self.grants, listener })
    }
}

impl PendingGuard {
    /// Answers the child for as long as it lives.
    pub(crate) fn serve(self) -> Result<(), GuardError> {
        let Self { grants, listener } = self;
        let listener = watch_readable(listener).map_err(failed("watching the guard"))?;
        tokio::spawn(async move {
            // The listener hangs up when the last process under the filter has ended.
            while let Ok(mut ready) = listener.readable().await {
                match answer(listener.get_ref(), &grants) {
                    Answer::Given => {}
                    Answer::NothingAsked => ready.clear_ready(),
                    Answer::ChildGone => return,
                }
            }
        });
        Ok(())
    }
}

enum Answer {
    Given,
    NothingAsked,
    ChildGone,
}

fn answer(listener: &OwnedFd, grants: &[OpenGrant]) -> Answer {
    let question = match syscall::receive(listener) {
        syscall::Received::Question(question) => question,
        syscall::Received::Nothing => return Answer::NothingAsked,
        syscall::Received::HungUp => return Answer::ChildGone,
    };
    let granted = read_path(question.pid, question.data.args[1])
        // The child may have ended and its pid come to mean another: only then is the id invalid.
        .filter(|_| syscall::still_asked(listener, question.id))
        .and_then(|path| grants.iter().find(|grant| grant.path.as_bytes() == path));
    match granted {
        Some(grant) => syscall::hand_over(listener, question.id, &grant.descriptor),
        None => syscall::refuse(listener, question.id),
    }
    Answer::Given
}

impl Installer {
    /// Puts the filter on the calling process and sends its listener to the supervisor.
    ///
    /// Runs between fork and exec: system calls only.
    pub(crate) fn install(&self) -> io::Result<()> {
        syscall::install(&self.program, &self.channel)
    }
}

/// The path argument, read from the child's memory.
fn read_path(pid: u32, address: u64) -> Option<Vec<u8>> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut path = Vec::new();
    let mut chunk = [0_u8; 256];
    while path.len() < MAX_PATH {
        let at = address.checked_add(u64::try_from(path.len()).ok()?)?;
        // Not beyond the page, so that a path at the end of a mapping can be read.
        let in_page = 4096 - usize::try_from(at % 4096).ok()?;
        let want = in_page.min(chunk.len());
        let got = memory.read_at(&mut chunk[..want], at).ok().filter(|&count| count > 0)?;
        if let Some(end) = chunk[..got].iter().position(|&byte| byte == 0) {
            path.extend_from_slice(&chunk[..end]);
            return Some(path);
        }
        path.extend_from_slice(&chunk[..got]);
    }
    None
}
