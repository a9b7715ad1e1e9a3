//! Begins a session on a byte stream that may still carry bytes of an earlier one, and exchanges hellos.
//!
//! Used once per connection on each side, before [`mux`](crate::mux).
//!
//! ```text
//!   host                                       guest
//!   preamble(nonce 1), hello  ───────────────► scans, discarding everything, until it sees both
//!   scans for nonce 1         ◄─────────────── preamble(nonce 1), hello or a refusal
//!                                              unless refused, both start the multiplexer
//!
//!   no answer in time: filler, preamble(nonce 2), hello; only the newest nonce counts
//! ```
//!
//! A serial port has no connections: bytes of a dropped session, or from before a snapshot, can still be
//! under way in both directions, and the guest may still be in the middle of an old multiplexer frame. The
//! filler is longer than any frame body and is no valid frame header, so it pushes such a guest out of step
//! and back to scanning.
//!
//! Hello rides on the preamble so that a clone's first answer takes one exchange, and of the agent only the
//! few lines here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout_at};

use crate::limits::MAX_HELLO_BYTES;
use crate::wire::{self, request::Op, response::Reply};

/// What a preamble starts with. The first byte is no valid version of a multiplexer frame.
pub const MAGIC: [u8; 16] = *b"\xffREKINDLE-AGENT\n";
/// Bytes of a nonce.
pub const NONCE: usize = 16;
/// Bytes before the message that follows it: its length.
const PREFIX: usize = size_of::<u32>();

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
    /// It echoed the preamble and no hello followed, as agents of protocol 1 do.
    #[error(
        "the agent did not say hello within {waited:?}\nhint: it may be of an older version: build its image again"
    )]
    NoHello {
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

/// Host side: says hello, and returns the answer with the stream behind it. After a refusal the guest starts
/// no session on it.
///
/// # Errors
/// See [`PreambleError`].
pub async fn initiate<T: AsyncRead + AsyncWrite + Unpin>(
    mut io: T,
    hello: wire::HelloRequest,
    deadline: Instant,
) -> Result<(Reply, Prefixed<T>), PreambleError> {
    let hello = wire::Request { op: Some(Op::Hello(hello)) };
    let started = Instant::now();
    let mut patience = FIRST_PATIENCE;
    let mut scanner = Scanner::default();
    let mut discarded = 0;
    let mut echoed = false;
    let mut opening = BytesMut::new();
    loop {
        let mut nonce = [0u8; NONCE];
        getrandom::fill(&mut nonce).map_err(PreambleError::Random)?;
        append(&mut opening, nonce, &hello);
        let retry_at = deadline.min(Instant::now() + patience);
        let (mut reader, mut writer) = tokio::io::split(&mut io);
        // Reading goes on while the opening is written: the guest may be blocked writing stale bytes.
        let send = async {
            writer.write_all(&opening).await?;
            writer.flush().await
        };
        let scan = async {
            let ours = |found, response: wire::Response| (found == nonce).then_some(response.reply).flatten();
            loop {
                if let Some(answer) = scanner.next(ours) {
                    return Ok(Some(answer));
                }
                echoed |= scanner.buffer.windows(NONCE).any(|window| window == nonce);
                let n = reader.read_buf(&mut scanner.buffer).await?;
                discarded += n;
                if n == 0 || discarded > MAX_STALE_BYTES {
                    return Ok::<_, io::Error>(None);
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
            Ok(Ok(Some(answer))) => return Ok((answer, Prefixed { before: scanner.buffer.freeze(), io })),
            Ok(Ok(None)) if discarded > MAX_STALE_BYTES => return Err(PreambleError::Flooded),
            Ok(Ok(None)) => return Err(PreambleError::Closed),
            Ok(Err(error)) => return Err(PreambleError::Io(error)),
            Err(_) if Instant::now() >= deadline => {
                let waited = started.elapsed();
                return Err(if echoed {
                    PreambleError::NoHello { waited }
                } else {
                    PreambleError::NoAnswer { waited }
                });
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

/// Guest side: discards everything until a host says hello, answers, and hands out the stream from there on.
/// After a refusal it goes on waiting.
///
/// It waits without limit: a guest has nothing better to do. `None` means the stream ended first.
///
/// # Errors
/// When the stream fails.
pub async fn respond<T: AsyncRead + AsyncWrite + Unpin>(
    io: T,
    answer: impl Fn(&wire::HelloRequest) -> Reply,
) -> io::Result<Option<Prefixed<T>>> {
    respond_again(Prefixed { before: Bytes::new(), io }, answer).await
}

/// Like [`respond`], on a stream whose last session is over but which has not ended itself.
///
/// # Errors
/// When the stream fails.
pub async fn respond_again<T: AsyncRead + AsyncWrite + Unpin>(
    stream: Prefixed<T>,
    answer: impl Fn(&wire::HelloRequest) -> Reply,
) -> io::Result<Option<Prefixed<T>>> {
    let Prefixed { before, mut io } = stream;
    let mut scanner = Scanner { buffer: before.into() };
    let hello = |nonce, request: wire::Request| match request.op {
        Some(Op::Hello(hello)) => Some((nonce, hello)),
        _ => None,
    };
    loop {
        let Some((nonce, hello)) = scanner.next(hello) else {
            if io.read_buf(&mut scanner.buffer).await? == 0 {
                return Ok(None);
            }
            continue;
        };
        let reply = answer(&hello);
        let refused = matches!(reply, Reply::Error(_));
        let mut opening = BytesMut::new();
        append(&mut opening, nonce, &wire::Response { reply: Some(reply) });
        io.write_all(&opening).await?;
        io.flush().await?;
        if !refused {
            return Ok(Some(Prefixed { before: scanner.buffer.freeze(), io }));
        }
    }
}

/// Adds a preamble and the message that follows it.
pub fn append(opening: &mut BytesMut, nonce: [u8; NONCE], message: &impl Message) {
    opening.put_slice(&MAGIC);
    opening.put_slice(&nonce);
    // Both sides bound the texts in it; a message too long for its prefix cannot be built.
    opening.put_u32(message.encoded_len() as u32);
    message.encode_raw(opening);
}

/// Finds preambles in what has been read so far; keeps of it what may still become one.
#[derive(Default)]
struct Scanner {
    buffer: BytesMut,
}

impl Scanner {
    /// The first complete preamble whose message `read` accepts; afterwards the buffer starts right behind it.
    ///
    /// One that is cut short does not hide a later one: what follows it may be its rest, or the next try.
    fn next<M: Message + Default, R>(&mut self, read: impl Fn([u8; NONCE], M) -> Option<R>) -> Option<R> {
        let mut keep = None;
        let mut at = 0;
        while let Some(found) = self.buffer[at..].windows(MAGIC.len()).position(|window| window == MAGIC) {
            at += found;
            match parse(&self.buffer[at + MAGIC.len()..]) {
                Parsed::Incomplete => keep = keep.or(Some(at)),
                Parsed::Nonsense => {}
                Parsed::Message { nonce, message, length } => {
                    if let Some(accepted) = read(nonce, message) {
                        self.buffer.advance(at + MAGIC.len() + length);
                        return Some(accepted);
                    }
                }
            }
            at += MAGIC.len();
        }
        // Else only a tail shorter than the magic can still become one.
        let tail = self.buffer.len() - self.buffer.len().min(MAGIC.len() - 1);
        self.buffer.advance(keep.unwrap_or(tail.max(at.min(self.buffer.len()))));
        None
    }
}

/// What is behind a magic.
enum Parsed<M> {
    Incomplete,
    Nonsense,
    Message { nonce: [u8; NONCE], message: M, length: usize },
}

fn parse<M: Message + Default>(behind: &[u8]) -> Parsed<M> {
    let Some((&nonce, rest)) = behind.split_first_chunk::<NONCE>() else { return Parsed::Incomplete };
    let Some((&prefix, rest)) = rest.split_first_chunk::<PREFIX>() else { return Parsed::Incomplete };
    let length = u32::from_be_bytes(prefix) as usize;
    if length > MAX_HELLO_BYTES {
        return Parsed::Nonsense;
    }
    let Some(body) = rest.get(..length) else { return Parsed::Incomplete };
    match M::decode(body) {
        Ok(message) => Parsed::Message { nonce, message, length: NONCE + PREFIX + length },
        Err(_) => Parsed::Nonsense,
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
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
