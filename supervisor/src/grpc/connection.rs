//! Connections: counted, known by where they come from, and given up when they say nothing that is gRPC.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

/// Bytes with which every HTTP/2 connection begins.
const PREFACE: usize = 24;
/// How long a connection may take to send them. TLS begins with more than that, so it is covered too.
const GREETING: Duration = Duration::from_secs(10);

/// How long a connection from the network may stay before a call on it was admitted: a stranger must not hold a
/// place for ever. Health checks need no token, and connect again.
const STRANGER: Duration = Duration::from_secs(60);

/// Who is at the other end of a connection, and whether it has been let in.
#[derive(Debug, Clone)]
pub(super) struct Guest {
    pub peer: Peer,
    admitted: Arc<AtomicBool>,
}

impl Guest {
    fn new(peer: Peer) -> Self {
        // Whoever could open the socket is no stranger.
        let known = matches!(peer, Peer::Socket { .. });
        Self { peer, admitted: Arc::new(AtomicBool::new(known)) }
    }

    /// Nobody knows; as untrusted as the network.
    pub(super) fn unknown() -> Self {
        Self::new(Peer::Tcp { address: None })
    }

    /// A call of its was admitted.
    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }
}

/// Where a call comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// The unix socket.
    Socket {
        /// The user at the other end, where the kernel says.
        uid: Option<u32>,
    },
    /// The network.
    Tcp {
        /// The address at the other end.
        address: Option<SocketAddr>,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { uid: Some(uid) } => write!(f, "uid:{uid}"),
            Self::Socket { uid: None } => f.write_str("socket"),
            Self::Tcp { address: Some(address) } => write!(f, "{address}"),
            Self::Tcp { address: None } => f.write_str("unknown"),
        }
    }
}

/// What can be listened on.
pub(super) trait Origin: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn peer(&self) -> Peer;
}

impl Origin for UnixStream {
    fn peer(&self) -> Peer {
        Peer::Socket { uid: self.peer_cred().ok().map(|cred| cred.uid()) }
    }
}

impl Origin for TcpStream {
    fn peer(&self) -> Peer {
        Peer::Tcp { address: self.peer_addr().ok() }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection<IO> {
    io: IO,
    guest: Guest,
    /// Bytes that must still arrive in time.
    missing: usize,
    /// When the next thing that must happen should have happened.
    patience: Pin<Box<Sleep>>,
    _place: Arc<OwnedSemaphorePermit>,
}

impl<IO: Origin> Connection<IO> {
    pub(super) fn new(io: IO, place: OwnedSemaphorePermit) -> Self {
        let guest = Guest::new(io.peer());
        let patience = Box::pin(tokio::time::sleep_until(Instant::now() + GREETING));
        Self { io, guest, missing: PREFACE, patience, _place: Arc::new(place) }
    }
}

impl<IO> Connected for Connection<IO> {
    type ConnectInfo = Guest;

    fn connect_info(&self) -> Guest {
        self.guest.clone()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Connection<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if self.missing > 0 {
            self.missing = self.missing.saturating_sub(buf.filled().len() - before);
            if self.missing == 0 {
                self.patience.as_mut().reset(Instant::now() + STRANGER);
            }
        }
        let waits = self.missing > 0 || !self.guest.admitted.load(Ordering::Relaxed);
        if polled.is_pending() && waits && self.patience.as_mut().poll(cx).is_ready() {
            let what = if self.missing > 0 { "no greeting in time" } else { "no admitted call in time" };
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Connection<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
