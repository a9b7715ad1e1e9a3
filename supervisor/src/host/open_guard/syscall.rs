//! The system calls of the guard that no crate wraps.
//!
//! JUSTIFICATION for the unsafe blocks: seccomp's user notification has no safe binding among the
//! dependencies; each block is one call on values that live in the caller's frame.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What was waiting on the listener.
pub(super) enum Received {
    Question(libc::seccomp_notif),
    Nothing,
    HungUp,
}

/// Puts the filter on the calling process and sends its listener over `channel`.
pub(super) fn install(program: &[libc::sock_filter], channel: &OwnedFd) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` points at `length` instructions that outlive the call; the kernel copies them.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const filter,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    let listener = i32::try_from(listener).map_err(|_| io::ErrorKind::InvalidData)?;
    send_descriptor(channel, listener)
    // The listener is close-on-exec, so the guarded program never holds its own guard.
}

/// Sends one descriptor without allocating, as needed between fork and exec.
fn send_descriptor(channel: &OwnedFd, descriptor: i32) -> io::Result<()> {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Aligned for the header and larger than one descriptor needs.
    let mut control = [0_u64; 8];
    // SAFETY: every pointer in the message refers to a local that outlives the call, and the control
    // buffer has room for one header with one descriptor.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(descriptor);
        if libc::sendmsg(channel.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Takes the next question without blocking.
pub(super) fn receive(listener: &OwnedFd) -> Received {
    let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::ZERO) {
        Ok(0) | Err(nix::errno::Errno::EINTR) => return Received::Nothing,
        Ok(_) => {}
        Err(_) => return Received::HungUp,
    }
    let events = fds[0].revents().unwrap_or(PollFlags::POLLHUP);
    if !events.contains(PollFlags::POLLIN) {
        return Received::HungUp;
    }
    // SAFETY: the kernel demands a zeroed structure and fills exactly its size.
    let mut question: libc::seccomp_notif = unsafe { zeroed() };
    // SAFETY: the pointer is to a live local of the type the request names.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut question) };
    if result == 0 { Received::Question(question) } else { Received::Nothing }
}

/// Whether the process that asked is still waiting, so that its pid still means it.
pub(super) fn still_asked(listener: &OwnedFd, id: u64) -> bool {
    // SAFETY: the pointer is to a live local of the type the request names.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// Ends the call with a duplicate of `descriptor` as its result.
pub(super) fn hand_over(listener: &OwnedFd, id: u64, descriptor: &OwnedFd) {
    let answer = libc::seccomp_notif_addfd {
        id,
        flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SEND).unwrap_or(2),
        srcfd: descriptor.as_raw_fd().cast_unsigned(),
        newfd: 0,
        newfd_flags: libc::O_CLOEXEC.cast_unsigned(),
    };
    // SAFETY: the pointer is to a live local of the type the request names.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const answer) };
    if result < 0 {
        refuse(listener, id);
    }
}

/// Ends the call with `EACCES`.
pub(super) fn refuse(listener: &OwnedFd, id: u64) {
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: -libc::EACCES, flags: 0 };
    // SAFETY: the pointer is to a live local of the type the request names.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
}
