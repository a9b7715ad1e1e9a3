//! Splits one byte stream into many with yamux: one stream per operation.
//!
//! The host is the client and opens streams; the agent accepts them. [`session`] returns a [`Driver`] that
//! must be polled for anything to move: whoever owns the byte stream runs it.

mod corked;
mod held;
mod raw;
mod stream;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};
use yamux::{Config, Connection, ConnectionError, Mode};

use self::corked::{Cork, Corked, cork};
use self::held::Held;
pub use self::raw::{RawReader, RawStream, RawWriter};
pub use self::stream::{Piece, Stream};
use crate::limits::{CHUNK_BYTES, MAX_STREAMS};

/// Largest body of one multiplexer frame that this side sends: a whole piece of a file with what is around it.
pub const MAX_BODY_BYTES: usize = CHUNK_BYTES + 256;

/// Which end of the byte stream this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The supervisor's.
    Host,
    /// The agent's.
    Guest,
}

impl Side {
    /// Bytes that windows of streams may grow by, all together, when what arrives is taken at once. Without it a
    /// sender of a file stops and waits for half of the time. A host has thousands of guests, whose callers may read
    /// slowly. In a guest more would make nothing faster, and what is on its way is ahead of every request.
    fn window_to_grow_into(self) -> usize {
        match self {
            Self::Host => 1 << 20,
            Self::Guest => 512 << 10,
        }
    }
}

/// The session is over; no stream can be opened any more.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the session with the agent is over")]
pub struct SessionOver;

/// Opens streams of a session. The session closes when the last opener is dropped.
#[derive(Debug, Clone)]
pub struct Opener {
    requests: mpsc::Sender<oneshot::Sender<Stream>>,
}

impl Opener {
    /// Opens one stream.
    ///
    /// # Errors
    /// When the session is over.
    pub async fn open(&self) -> Result<Stream, SessionOver> {
        let (reply, stream) = oneshot::channel();
        self.requests.send(reply).await.map_err(|_| SessionOver)?;
        stream.await.map_err(|_| SessionOver)
    }

    /// Completes when the session is over.
    pub async fn closed(&self) {
        self.requests.closed().await;
    }
}

/// Streams the peer opens.
#[derive(Debug)]
pub struct Incoming {
    streams: mpsc::Receiver<Stream>,
}

impl Incoming {
    /// The next one; `None` when the session is over.
    pub async fn next(&mut self) -> Option<Stream> {
        self.streams.recv().await
    }
}

/// Starts a session on a byte stream on which [`preamble`](crate::preamble) has finished.
pub fn session<T: AsyncRead + AsyncWrite + Unpin>(io: T, side: Side) -> (Opener, Incoming, Driver<T>) {
    let mut config = Config::default();
    config.set_max_num_streams(MAX_STREAMS);
    // The smallest window yamux accepts for that many streams, and a little for those that carry files. What a guest can
    // make a host hold in those that it opens is bounded by `held`.
    let least = MAX_STREAMS * yamux::DEFAULT_CREDIT as usize;
    config.set_max_connection_receive_window(Some(least + side.window_to_grow_into()));
    config.set_split_send_size(MAX_BODY_BYTES);
    let mode = match side {
        Side::Host => Mode::Client,
        Side::Guest => Mode::Server,
    };
    let (requests, opening) = mpsc::channel(MAX_STREAMS);
    let (accepted, streams) = mpsc::channel(MAX_STREAMS);
    let held = Held::default();
    let (corked, cork) = cork(io, side, held.clone());
    let driver = Driver {
        connection: Connection::new(corked.compat(), config, mode),
        cork,
        opening: Some(opening),
        waiting: VecDeque::new(),
        accepted,
        held: (side == Side::Host).then_some(held),
    };
    (Opener { requests }, Incoming { streams }, driver)
}

/// Moves the bytes of a session.
pub struct Driver<T> {
    connection: Connection<Compat<Corked<T>>>,
    cork: Cork<T>,
    /// `None` once the session closes.
    opening: Option<mpsc::Receiver<oneshot::Sender<Stream>>>,
    waiting: VecDeque<oneshot::Sender<Stream>>,
    accepted: mpsc::Sender<Stream>,
    /// What a host counts of the streams that it accepts.
    held: Option<Held>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    /// Runs until the peer or the last [`Opener`] ends the session.
    ///
    /// # Errors
    /// When the byte stream fails or the peer breaks the multiplexer's rules.
    pub async fn run(mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll(cx)).await.map_err(|error| match error {
            ConnectionError::Io(error) => error,
            ConnectionError::Closed => io::ErrorKind::ConnectionAborted.into(),
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.cork.next_turn();
        loop {
            let over = self.advance(cx);
            match self.cork.pull(cx) {
                Poll::Ready(Ok(true)) if over.is_pending() => {}
                Poll::Ready(Err(error)) if over.is_pending() => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(false)) => {
                    self.settled();
                    return over;
                }
                _ => return over,
            }
        }
    }

    /// There was room for all that the multiplexer had to write, so that it has let go of what was dropped.
    fn settled(&self) {
        if let Some(held) = &self.held {
            held.settled();
        }
    }

    /// Does all that can be done now, but for writing.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        if let Some(held) = &self.held {
            held.begin();
        }
        while let Some(opening) = &mut self.opening {
            match opening.poll_recv(cx) {
                Poll::Ready(Some(reply)) => self.waiting.push_back(reply),
                Poll::Ready(None) => self.opening = None,
                Poll::Pending => break,
            }
        }
        if self.opening.is_none() && self.waiting.is_empty() {
            return self.connection.poll_close(cx);
        }
        while let Some(reply) = self.waiting.front() {
            if reply.is_closed() {
                self.waiting.pop_front();
                continue;
            }
            match self.connection.poll_new_outbound(cx) {
                Poll::Ready(Ok(stream)) => {
                    if let Some(reply) = self.waiting.pop_front() {
                        // A caller that gave up drops the stream, which resets it.
                        let _ = reply.send(Stream::new(stream, None));
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        loop {
            match self.connection.poll_next_inbound(cx) {
                // A side that does not accept drops the stream, which resets it.
                Poll::Ready(Some(Ok(stream))) => {
                    drop(self.accepted.try_send(Stream::new(stream, self.held.clone())));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// A driver is also a plain future, for a task that owns nothing else.
impl<T: AsyncRead + AsyncWrite + Unpin> Future for Driver<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Driver::poll(&mut self, cx).map(drop)
    }
}

#[cfg(test)]
mod tests;
