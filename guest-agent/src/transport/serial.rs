//! A serial line: a virtio-serial port, or a terminal standing in for one. It is one device that stays open;
//! hosts come and go on it.
//!
//! While no host is connected the port always reports a hang-up, so waiting for the next one takes an
//! edge-triggered watch of its own: it sleeps until something changes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::agent::Agent;
use crate::session;
use crate::watched::{Owns, watch};

const PORTS: &str = "/sys/class/virtio-ports";

/// Opens the virtio-serial port called `name`. There is no udev in the guest, so it is found by hand.
///
/// # Errors
/// When there is no such port.
pub fn find_port(name: &str) -> io::Result<File> {
    for entry in fs::read_dir(PORTS)? {
        let entry = entry?;
        let found = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if found.trim_end() == name {
            return open(&PathBuf::from("/dev").join(entry.file_name()));
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no virtio-serial port is called {name}")))
}

/// Opens a terminal device and makes it pass every byte unchanged.
///
/// # Errors
/// When it is no terminal.
pub fn open_tty(path: &Path) -> io::Result<File> {
    let tty = open(path)?;
    let mut settings = tcgetattr(&tty)?;
    cfmakeraw(&mut settings);
    tcsetattr(&tty, SetArg::TCSANOW, &settings)?;
    Ok(tty)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Serves one host after the other on the line.
///
/// # Errors
/// When the device fails.
pub async fn serve(agent: Arc<Agent>, line: File) -> io::Result<()> {
    let line = Arc::new(line);
    loop {
        wait_for_host(&line).await?;
        // Registered anew for every host: a hang-up seen once sticks to a registration.
        let stream = SerialStream { line: watch(line.clone(), Interest::READABLE | Interest::WRITABLE)? };
        session::serve(agent.clone(), stream).await;
    }
}

/// A watch of its own, itself watched by the event loop.
struct Edges(Epoll);

impl AsRawFd for Edges {
    fn as_raw_fd(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }
}

impl Owns for Edges {}

/// Sleeps until a host has the line open.
async fn wait_for_host(line: &File) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let edges = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
    epoll.add(line, EpollEvent::new(edges, 0))?;
    let watched = watch(Edges(epoll), Interest::READABLE)?;
    loop {
        let mut now = [PollFd::new(line.as_fd(), PollFlags::POLLIN | PollFlags::POLLOUT)];
        poll(&mut now, PollTimeout::ZERO)?;
        if !now[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)) {
            return Ok(());
        }
        let mut changed = watched.readable().await?;
        match changed.get_inner().0.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO) {
            Ok(_) | Err(Errno::EINTR) => changed.clear_ready(),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The line while one host is connected; a hang-up is its end.
struct SerialStream {
    line: AsyncFd<Arc<File>>,
}

impl AsyncRead for SerialStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A port gives at most a page at once. Whatever is there and fits is taken, so that the way through the
        // layers above is gone once for many of them.
        let before = out.filled().len();
        while out.remaining() > 0 {
            let mut guard = match self.line.poll_read_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => break,
            };
            let unfilled = out.initialize_unfilled();
            match guard.try_io(|line| line.get_ref().as_ref().read(unfilled)) {
                Ok(Ok(0)) => return Poll::Ready(Ok(())),
                Ok(Ok(n)) => out.advance(n),
                // A terminal whose other side has closed.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
        if out.filled().len() > before || out.remaining() == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncWrite for SerialStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.line.poll_write_ready(cx))?;
            match guard.try_io(|line| line.get_ref().as_ref().write(data)) {
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
