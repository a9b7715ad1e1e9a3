//! A connected socket that whoever started the agent left open for it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// Takes over descriptor `fd`.
///
/// # Errors
/// When there is no such descriptor or it is no stream socket.
pub fn inherited_socket(fd: i32) -> io::Result<UnixStream> {
    // SAFETY: the number comes from the agent's own command line, where it names a descriptor left open for
    // it, and it is taken over once, before anything else could have opened one.
    // JUSTIFICATION: a descriptor number can only become an owned descriptor this way.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    let socket = UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    Ok(socket)
}
