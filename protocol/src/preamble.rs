//! Finds the start of a session in a byte stream that may still carry bytes of an earlier one.
//!
//! Used once per connection on each side, before [`mux`](crate::mux).
//!
//! ```text
//!   host                                guest
//!   preamble(nonce 1)  ───────────────► scans, discarding everything, until it sees a preamble
//!   scans for nonce 1  ◄─────────────── preamble(nonce 1)          both start the multiplexer
//!
//!   no answer in time: filler, preamble(nonce 2); only the newest nonce counts
//! ```
//!
//! A serial port has no connections: bytes of a dropped session, or from before a snapshot, can still be
//! under way in both directions, and the guest may still be in the middle of an old multiplexer frame. The
//! filler is longer than any frame body and is no valid frame header, so it pushes such a guest out of step
//! and back to scanning.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout_at};

/// What a preamble starts with. The first byte is no valid version of a multiplexer frame.
pub const MAGIC: [u8; 16] = *b"\xffREKINDLE-AGENT\n";
/// Bytes of a whole preamble: the magic and a nonce.
pub const LENGTH: usize = MAGIC.len() + NONCE;
const NONCE: usize = 16;

/// Longer than one frame body, so that it outlasts any frame the peer may be waiting to complete.
const FILLER: usize = 2 * crate::mux::MAX_BODY_BYTES;
/// How long the host waits for the first answer; doubled for every further try.
const FIRST_PATIENCE: Duration = Duration::from_millis(500);
/// Stale bytes the host is willing to discard.
const MAX_STALE_BYTES: usize = 16 * 1024 * 1024;

/// Why no session could be started.
#[derive(Debug, thiserror::Error)]
pub enum PreambleError {
    /// Nobody answered.
    #[error("the agent did not answer within {waited:?}")]
    NoAnswer {
        /// How long was waited.
        waited: Duration,
    },
    /// The stream ended.
    #[error("the stream ended before a session began")]
    Closed,
    /// The peer sends without end, but not what it should.
    #[error("more than {MAX_STALE_BYTES} bytes arrived and none began a session")]
    Flooded,
    /// No random bytes could be had for the nonce.
    #[error("no random bytes could be had")]
    Random(#[source] getrandom::Error),
    /// The stream failed.
    #[error("the stream failed")]
    Io(#[source] io::Error),
}

/// Host side: starts a session, or fails when `deadline` has passed.
///
/// # Errors
/// See [`PreambleError`].
pub async fn initiate<T: AsyncRead + AsyncWrite + Unpin>(
    mut io: T,
    deadline: Instant,
) -> Result<Prefixed<T>, PreambleError> {
    let started = Instant::now();
    let mut patience = FIRST_PATIENCE;
    let mut scanner = Scanner::default();
    let mut discarded = 0;
    let mut opening = BytesMut::new();
    loop {
        let mut nonce = [0u8; NONCE];
        getrandom::fill(&mut nonce).map_err(PreambleError::Random)?;
        opening.extend_from_slice(&MAGIC);
        opening.extend_from_slice(&nonce);
        let retry_at = deadline.min(Instant::now() + patience);
        let (mut reader, mut writer) = tokio::io::split(&mut io);
        // Reading goes on while the opening is written: the guest may be blocked writing stale bytes.
        let send = async {
            writer.write_all(&opening).await?;
            writer.flush().await
        };
        let scan = async {
            loop {
                while let Some(found) = scanner.next() {
                    if found == nonce {
                        return Ok(true);
                    }
                }
                let n = reader.read_buf(&mut scanner.buffer).await?;
                discarded += n;
                if n == 0 || discarded > MAX_STALE_BYTES {
                    return Ok::<_, io::Error>(false);
                }
            }
        };
        let attempt = async {
            tokio::pin!(scan);
            tokio::select! {
                found = &mut scan => found,
                sent = send => match sent {
                    Ok(()) => scan.await,
                    Err(error) => Err(error),
                },
            }
        };
        match timeout_at(retry_at, attempt).await {
            Ok(Ok(true)) => return Ok(Prefixed { before: scanner.buffer.freeze(), io }),
            Ok(Ok(false)) if discarded > MAX_STALE_BYTES => return Err(PreambleError::Flooded),
            Ok(Ok(false)) => return Err(PreambleError::Closed),
            Ok(Err(error)) => return Err(PreambleError::Io(error)),
            Err(_) if Instant::now() >= deadline => {
                return Err(PreambleError::NoAnswer { waited: started.elapsed() });
            }
            Err(_) => {
                // A cancelled `write_all` may have left half an opening behind; the filler covers that too.
                patience *= 2;
                opening.clear();
                opening.resize(FILLER, 0xff);
            }
        }
    }
}

/// Guest side: discards everything until a preamble, answers it, and hands out the stream from there on.
///
/// It waits without limit: a guest has nothing better to do. `None` means the stream ended first.
///
/// # Errors
/// When the stream fails.
pub async fn respond<T: AsyncRead + AsyncWrite + Unpin>(io: T) -> io::Result<Option<Prefixed<T>>> {
    respond_again(Prefixed { before: Bytes::new(), io }).await
}

/// Like [`respond`], on a stream whose last session is over but which has not ended itself.
///
/// # Errors
/// When the stream fails.
pub async fn respond_again<T: AsyncRead + AsyncWrite + Unpin>(
    stream: Prefixed<T>,
) -> io::Result<Option<Prefixed<T>>> {
    let Prefixed { before, mut io } = stream;
    let mut scanner = Scanner { buffer: before.into() };
    let nonce = loop {
        if let Some(nonce) = scanner.next() {
            break nonce;
        }
        if io.read_buf(&mut scanner.buffer).await? == 0 {
            return Ok(None);
        }
    };
    let mut answer = [0u8; LENGTH];
    answer[..MAGIC.len()].copy_from_slice(&MAGIC);
    answer[MAGIC.len()..].copy_from_slice(&nonce);
    io.write_all(&answer).await?;
    io.flush().await?;
    Ok(Some(Prefixed { before: scanner.buffer.freeze(), io }))
}

/// Finds preambles in what has been read so far; keeps at most one incomplete preamble of it.
#[derive(Default)]
struct Scanner {
    buffer: BytesMut,
}

impl Scanner {
    /// The nonce of the next preamble; afterwards the buffer starts right behind it.
    fn next(&mut self) -> Option<[u8; NONCE]> {
        match self.buffer.windows(MAGIC.len()).position(|window| window == MAGIC) {
            Some(at) => {
                self.buffer.advance(at);
                if self.buffer.len() < LENGTH {
                    return None;
                }
                let preamble = self.buffer.split_to(LENGTH);
                preamble[MAGIC.len()..].try_into().ok()
            }
            None => {
                // Only a tail shorter than the magic can still become one.
                let keep = self.buffer.len().min(MAGIC.len() - 1);
                self.buffer.advance(self.buffer.len() - keep);
                None
            }
        }
    }
}

/// A stream with bytes that were already read from it put back in front.
#[derive(Debug)]
pub struct Prefixed<T> {
    before: Bytes,
    io: T,
}

impl<T: AsyncRead + Unpin> AsyncRead for Prefixed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, out);
        }
        let n = self.before.len().min(out.remaining());
        out.put_slice(&self.before.split_to(n));
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prefixed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
