//! A descriptor whose readiness is an event of the runtime: a pidfd, a seccomp listener.
//!
//! Used inside `host` only.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime, to be told when it becomes readable.
pub(super) fn watch_readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor until it is dropped, and the registration
    // owns it.
    // JUSTIFICATION: the safe constructors are deprecated because they accept types without that
    // guarantee.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    registered.map_err(io::Error::other)
}
