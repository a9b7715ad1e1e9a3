//! The stream of one operation, or of one connection: the multiplexer's, and what the host counts of those that a guest
//! has opened.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt};

use super::held::Held;

/// One operation's stream. Dropping it before it was closed resets it, which cancels the operation.
#[derive(Debug)]
pub struct Stream {
    inner: Compat<yamux::Stream>,
    /// Counts it, where the other side is a guest that has opened it.
    held: Option<Held>,
    id: u32,
}

impl Stream {
    pub(super) fn new(inner: yamux::Stream, held: Option<Held>) -> Self {
        Self { id: inner.id().val(), inner: inner.compat(), held }
    }

    /// Both halves have ended, or it was reset, or the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.get_ref().is_closed()
    }
}

/// Bytes of a stream as they came, in one frame.
#[derive(Debug)]
pub struct Piece(yamux::Packet);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Stream {
    /// The next piece, which is not copied for that; nothing at the end. `poll_read` goes on where it ends.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
        let piece = ready!(Pin::new(self.inner.get_mut()).poll_next(cx)).transpose()?;
        if let (Some(held), Some(piece)) = (&self.held, &piece) {
            held.read(self.id, piece.as_ref().len());
        }
        Poll::Ready(Ok(piece.map(Piece)))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.dropped(self.id);
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let came = buffer.filled().len() - before;
        if let Some(held) = self.held.as_ref().filter(|_| came > 0) {
            held.read(self.id, came);
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(held) = &self.held {
            ready!(held.poll_room(self.id, cx));
        }
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes));
        if let (Some(held), Ok(written)) = (&self.held, &written) {
            held.queued(*written);
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
