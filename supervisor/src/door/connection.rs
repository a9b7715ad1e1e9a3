//! Connections: known by where they come from, and given up when they say nothing, when nobody on
//! them is admitted, or when their peer no longer reads.
//!
//! ```text
//! accepted ──▶ greeting ──▶ stranger ──a call was admitted──▶ admitted ──▶ closed
//!                 │            │ so many bytes are read           │
//!                 └── too late ┴── too late ──▶ closed ◀── writes stand still
//! ```

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use hyper::http::Extensions;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};

use super::places::Place;

/// Bytes with which every HTTP/2 connection begins. No request of HTTP/1.1 is shorter.
const PREFACE: usize = 24;
/// Health checks and reflections at a time on one connection: they need no token.
const PUBLIC_CALLS: usize = 8;

/// What a connection may take. Operators set how many there are; the rest is the same everywhere.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Connections at a time on the unix socket.
    pub socket: usize,
    /// Connections at a time from the network.
    pub tcp: usize,
    /// Of these, from one address (IPv6: one /64 network).
    pub per_address: usize,
    /// How long a connection may take to send its first bytes, and a TLS handshake to be over.
    pub greeting: Duration,
    /// How long a connection that needs a token may stay before a call on it was admitted: a stranger must not
    /// hold a place for ever. Health checks need no token, and connect again.
    pub stranger: Duration,
    /// Bytes read from a connection before a call on it was admitted: the most a stranger can make this process
    /// hold, in whatever frames it sends them. A call is admitted by its headers, so its body may be any size.
    pub stranger_bytes: usize,
    /// How long a connection over HTTP may be without a request before it is closed in good order. Clients keep one for
    /// each sandbox that has a name, also when that has long ended.
    pub idle: Duration,
    /// How long a write may stand still: a peer that never reads must not hold a place for ever either.
    pub write_stall: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            socket: 256,
            tcp: 1024,
            per_address: 128,
            greeting: Duration::from_secs(10),
            stranger: Duration::from_secs(60),
            stranger_bytes: 128 * 1024,
            idle: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
        }
    }
}

/// Who is at the other end of a connection, and whether a call on it was admitted.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub peer: Peer,
    /// Places for calls that need no token.
    pub public_calls: Arc<Semaphore>,
    admission: Arc<AdmissionFlag>,
}

/// Told by a call, waited for by its connection.
#[derive(Debug, Default)]
struct AdmissionFlag {
    admitted: AtomicBool,
    reader: AtomicWaker,
}

impl ConnectionInfo {
    fn new(peer: Peer, trusted: bool) -> Self {
        let admission = AdmissionFlag { admitted: AtomicBool::new(trusted), reader: AtomicWaker::new() };
        Self { peer, public_calls: Arc::new(Semaphore::new(PUBLIC_CALLS)), admission: Arc::new(admission) }
    }

    /// The connection a request came on; where nobody knows, it is as untrusted as the network.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_else(|| Self::new(Peer::Tcp { address: None }, false))
    }

    /// A call of its was admitted.
    pub(crate) fn admit(&self) {
        if !self.admission.admitted.swap(true, Ordering::AcqRel) {
            self.admission.reader.wake();
        }
    }

    fn is_admitted(&self) -> bool {
        self.admission.admitted.load(Ordering::Acquire)
    }
}

/// A connection that knows who is at its other end.
pub(crate) trait Informed {
    fn info(&self) -> ConnectionInfo;
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
pub(crate) trait Origin: AsyncRead + AsyncWrite + Unpin + Send + 'static {
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
pub(crate) struct Connection<IO> {
    io: IO,
    info: ConnectionInfo,
    limits: Arc<ConnectionLimits>,
    /// Bytes that must still arrive in time.
    missing: usize,
    /// Bytes that are still read from a stranger.
    allowance: usize,
    /// When the next thing that must happen should have happened.
    deadline: Pin<Box<Sleep>>,
    /// When a write that stands still has done so for too long.
    stall: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl<IO: Origin> Connection<IO> {
    /// A connection; one that is `trusted` needs no token, so that whoever opened it is no stranger.
    pub(crate) fn new(io: IO, place: Place, trusted: bool, limits: &Arc<ConnectionLimits>) -> Self {
        Self {
            info: ConnectionInfo::new(io.peer(), trusted),
            missing: PREFACE,
            allowance: limits.stranger_bytes,
            deadline: Box::pin(sleep(limits.greeting)),
            stall: None,
            limits: Arc::clone(limits),
            io,
            _place: place,
        }
    }
}

impl<IO> Connection<IO> {
    /// Fails once the deadline is over. Every poll asks first, whatever the peer does or does not do meanwhile, so
    /// that the deadline always wakes whoever polls.
    fn in_time(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let waits = self.missing > 0 || !self.info.is_admitted();
        if waits && self.deadline.as_mut().poll(cx).is_ready() {
            let what = if self.missing > 0 { "no greeting in time" } else { "no admitted call in time" };
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        Ok(())
    }

    /// Whether a stranger has sent all that is read from one. Its admission wakes whoever polls.
    fn exhausted(&self, cx: &Context<'_>) -> bool {
        if self.allowance > 0 || self.info.is_admitted() {
            return false;
        }
        self.info.admission.reader.register(cx.waker());
        !self.info.is_admitted()
    }

    fn received(&mut self, count: usize) {
        self.allowance = self.allowance.saturating_sub(count);
        if self.missing > 0 {
            self.missing = self.missing.saturating_sub(count);
            if self.missing == 0 {
                self.deadline.as_mut().reset(Instant::now() + self.limits.stranger);
            }
        }
    }

    /// A write, which must not stand still for too long.
    fn moving(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut IO, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.in_time(cx)?;
        let polled = write(&mut self.io, cx);
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(self.limits.write_stall)));
        stall
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<IO> Informed for Connection<IO> {
    fn info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Connection<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        if self.exhausted(cx) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.received(buf.filled().len() - before);
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Connection<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.moving(cx, |io, cx| Pin::new(io).poll_write(cx, data))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(cx)?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.moving(cx, |io, cx| Pin::new(io).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
