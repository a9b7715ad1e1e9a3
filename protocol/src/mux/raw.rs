//! A stream that carries a TCP connection's bytes as they are, and tells its end from its reset.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Stream;

/// A stream of bytes. Closing it ends this side's half; dropping it before both halves have ended resets it.
#[derive(Debug)]
pub struct RawStream {
    stream: Stream,
    /// This side has ended its half.
    ended: bool,
}

impl RawStream {
    /// What follows on a stream once its frames have been exchanged.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self { stream, ended: false }
    }
}

impl AsyncRead for RawStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let ended = read.is_ready() && room > 0 && buffer.filled().len() == before;
        // A stream of which one half has ended is not closed; one that was reset, or whose session is over, is.
        if ended && !self.ended && self.stream.is_closed() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        read
    }
}

impl AsyncWrite for RawStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ended = true;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
