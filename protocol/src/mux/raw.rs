//! A stream that carries a TCP connection's bytes as they are, and tells its end from its reset.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::{Piece, Stream};

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

    /// Its two halves, each for whoever uses it.
    #[must_use]
    pub fn halves(self) -> (RawReader, RawWriter) {
        let shared = Arc::new(Mutex::new(self));
        (RawReader(Arc::clone(&shared)), RawWriter(shared))
    }

    /// A stream of which one half has ended is not closed; one that was reset, or whose session is over, is.
    fn was_cut_off(&self) -> bool {
        !self.ended && self.stream.is_closed()
    }
}

/// The half of a stream that is read.
#[derive(Debug)]
pub struct RawReader(Arc<Mutex<RawStream>>);

/// The half of a stream that is written.
#[derive(Debug)]
pub struct RawWriter(Arc<Mutex<RawStream>>);

fn lock(stream: &Mutex<RawStream>) -> MutexGuard<'_, RawStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RawReader {
    /// The next bytes as they came, which are not copied for that; nothing at the end.
    ///
    /// # Errors
    /// When the stream was reset, or its session is over.
    pub async fn piece(&mut self) -> io::Result<Option<Piece>> {
        poll_fn(|cx| {
            let mut raw = lock(&self.0);
            let piece = ready!(raw.stream.poll_piece(cx))?;
            if piece.is_none() && raw.was_cut_off() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            Poll::Ready(Ok(piece))
        })
        .await
    }
}

impl AsyncRead for RawReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_read(cx, buffer)
    }
}

impl AsyncWrite for RawWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(cx)
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
        if ended && self.was_cut_off() {
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
