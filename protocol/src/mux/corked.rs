//! A byte stream on which writes wait until there is nothing more to say.
//!
//! The multiplexer flushes after every frame, and every write to a guest's channel, or from it, leaves the virtual
//! machine and wakes somebody. So its flushes do nothing here; [`Cork::pull`] writes what has gathered, once the
//! multiplexer is done. What the peer does not wait for goes with the next frame that it does wait for: pings,
//! their answers, and a host's agreement to the end of a stream that the guest has ended first. Pieces of files are not gathered where
//! the stream takes several parts in one write: each is worth a write, with what has gathered before it.
//!
//! What a host reads is looked at, too: the multiplexer keeps each body that nobody has read in an allocation of its
//! own, which its window does not count. A guest that answers byte for byte is cut off. What comes on streams that the
//! guest has opened, and goes out on them, is told to [`held`](super::held): there a program decides how long a body is.

use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::held::Held;
use super::{MAX_BODY_BYTES, MAX_STREAMS, Side};

/// Bytes that may gather: beyond them they are written, whatever comes next.
const MOST: usize = 2 * MAX_BODY_BYTES;

/// From this size on a write is not gathered.
const LARGE: usize = 16 * 1024;

/// Bytes that are read in one turn. Then whoever else runs on the same thread has its own: a transfer at full speed
/// would keep everything else waiting for as long as there is something to read.
pub(super) const TURN: usize = 64 * 1024;

/// Bytes of the head of a frame: a version, a kind, two of flags, four of the stream, four of a length.
const HEAD: usize = 12;
/// A frame that has a body.
const DATA: u8 = 0;
/// A frame that asks for an answer, or is one.
const PING: u8 = 2;
/// The shortest body of which a session may consist: the shortest reply there is.
const SHORTEST: u64 = 6;
/// So many bodies may be shorter.
const SHORT_BODIES: u64 = 16 * 1024;
/// The flag of a frame that opens a stream.
const OPEN: u8 = 1;
/// The flag of a frame that ends its sender's half of a stream.
const END: u8 = 4;
/// The flag of one that ends both halves.
const RESET: u8 = 8;

/// The stream as the multiplexer uses it.
#[derive(Debug)]
pub struct Corked<T>(Arc<Mutex<Shared<T>>>);

/// What lets the writes go.
#[derive(Debug)]
pub struct Cork<T>(Arc<Mutex<Shared<T>>>);

#[derive(Debug)]
struct Shared<T> {
    io: T,
    gathered: BytesMut,
    /// Bytes that were read in this turn.
    read: usize,
    /// The peer waits for some of it.
    pressing: bool,
    /// The multiplexer had more and there was no room.
    full: bool,
    frames: Frames,
    arriving: Frames,
    /// Streams of which the guest has ended its half and the host has not: at most so many as there may be.
    ended: HashSet<u32>,
    /// Bodies that have arrived as answers, and their bytes.
    bodies: (u64, u64),
    held: Held,
}

/// Puts a cork on one side's byte stream.
pub(super) fn cork<T>(io: T, side: Side, held: Held) -> (Corked<T>, Cork<T>) {
    let frames = || Frames { side, head: [0; HEAD], known: 0, body: 0 };
    let shared = Arc::new(Mutex::new(Shared {
        io,
        gathered: BytesMut::new(),
        read: 0,
        pressing: false,
        full: false,
        frames: frames(),
        arriving: frames(),
        ended: HashSet::new(),
        bodies: (0, 0),
        held,
    }));
    (Corked(shared.clone()), Cork(shared))
}

impl<T> Drop for Cork<T> {
    fn drop(&mut self) {
        lock(&self.0).held.over();
    }
}

impl<T> Cork<T> {
    /// Begins another turn of reading.
    pub fn next_turn(&self) {
        lock(&self.0).read = 0;
    }
}

impl<T: AsyncWrite + Unpin> Cork<T> {
    /// Writes what has gathered, if the peer waits for any of it. `true` means that the multiplexer found no room
    /// before and finds some now.
    ///
    /// # Errors
    /// When the stream fails.
    pub fn pull(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut shared = lock(&self.0);
        if shared.pressing || shared.full {
            ready!(shared.write_out(cx))?;
        }
        Poll::Ready(Ok(std::mem::take(&mut shared.full)))
    }
}

fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: AsyncWrite + Unpin> Shared<T> {
    fn write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.gathered))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.gathered.advance(written),
            }
        }
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.pressing = false;
        Poll::Ready(Ok(()))
    }

    /// Writes what has gathered and this, as far as that goes at once. How much of this is written.
    fn write_through(&mut self, cx: &mut Context<'_>, data: &[u8]) -> io::Result<usize> {
        let both = [IoSlice::new(&self.gathered), IoSlice::new(data)];
        match Pin::new(&mut self.io).poll_write_vectored(cx, &both)? {
            Poll::Pending => Ok(0),
            Poll::Ready(0) => Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(written) => {
                let gathered = written.min(self.gathered.len());
                self.gathered.advance(gathered);
                Ok(written - gathered)
            }
        }
    }
}

impl<T> Shared<T> {
    /// Counts the bodies in what has arrived, and notes ends; refuses a guest whose answers are shorter than any reply,
    /// and one that says more on its own streams than is held.
    fn arrived(&mut self, data: &[u8]) -> io::Result<()> {
        let Self { arriving, ended, bodies: (count, bytes), held, .. } = self;
        if arriving.side == Side::Guest {
            return Ok(());
        }
        let mut within = true;
        arriving.follow(data, |frames| {
            if frames.flags() & END != 0 && ended.len() < MAX_STREAMS {
                ended.insert(frames.stream());
            }
            let of_the_guest = frames.is_of_the_guest();
            if of_the_guest && frames.flags() & OPEN != 0 {
                held.opened(frames.stream());
            }
            match frames.body {
                0 => {}
                body if of_the_guest => within &= held.came(frames.stream(), body),
                body => {
                    *count += 1;
                    *bytes += body as u64;
                }
            }
        });
        let refused = match within {
            false => "the guest says more on its connections than is held for it",
            true if *count > SHORT_BODIES + *bytes / SHORTEST => "the guest sends its answers in crumbs",
            true => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, refused))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Corked<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.0);
        if shared.read >= TURN {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut shared.io).poll_read(cx, out))?;
        let came = &out.filled()[before..];
        shared.read += came.len();
        Poll::Ready(shared.arrived(came))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Corked<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut shared = lock(&self.0);
        if shared.gathered.len() >= MOST && shared.write_out(cx)?.is_pending() {
            shared.full = true;
            return Poll::Pending;
        }
        let through = data.len() >= LARGE && shared.io.is_write_vectored();
        let written = if through { shared.write_through(cx, data)? } else { 0 };
        shared.gathered.extend_from_slice(&data[written..]);
        let Shared { frames, ended, pressing, held, .. } = &mut *shared;
        *pressing |= frames.press(data, ended, held);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = lock(&self.0);
        ready!(shared.write_out(cx))?;
        Pin::new(&mut shared.io).poll_shutdown(cx)
    }
}

/// Follows the frames in what is written.
#[derive(Debug)]
struct Frames {
    side: Side,
    head: [u8; HEAD],
    /// Bytes of the head that are known.
    known: usize,
    /// Bytes of the body that are still to come.
    body: usize,
}

impl Frames {
    /// Whether these bytes hold some of a frame that the peer waits for; `ended` are the streams that it has ended.
    fn press(&mut self, data: &[u8], ended: &mut HashSet<u32>, held: &Held) -> bool {
        // The rest of a body that somebody waits for.
        let mut pressing = self.body > 0 && !data.is_empty();
        self.follow(data, |frames| {
            pressing |= frames.is_waited_for(ended);
            if frames.body > 0 && frames.side == Side::Host && frames.is_of_the_guest() {
                held.sent(frames.body);
            }
        });
        pressing
    }

    /// The stream of the frame is one that the guest has opened.
    fn is_of_the_guest(&self) -> bool {
        self.stream().is_multiple_of(2)
    }

    fn flags(&self) -> u8 {
        self.head[3]
    }

    fn stream(&self) -> u32 {
        let [_, _, _, _, a, b, c, d, ..] = self.head;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Goes through these bytes; every head is told, with the length of its body known, once it is whole.
    fn follow(&mut self, mut data: &[u8], mut told: impl FnMut(&Self)) {
        while !data.is_empty() {
            if self.body > 0 {
                let body = self.body.min(data.len());
                self.body -= body;
                data = &data[body..];
                continue;
            }
            let (head, rest) = data.split_at((HEAD - self.known).min(data.len()));
            self.head[self.known..][..head.len()].copy_from_slice(head);
            self.known += head.len();
            data = rest;
            if self.known == HEAD {
                self.known = 0;
                let [_, kind, .., a, b, c, d] = self.head;
                if kind == DATA {
                    self.body = u32::from_be_bytes([a, b, c, d]) as usize;
                }
                told(self);
            }
        }
    }

    /// Whether the peer waits for the frame with this head.
    fn is_waited_for(&self, ended: &mut HashSet<u32>) -> bool {
        let over = self.flags() & (END | RESET) != 0 && ended.remove(&self.stream());
        // Who has ended its own half of a stream that the host has opened is done with it. Other ends are waited for: of a
        // connection, whoever opened it, each side ends its half when it has said all.
        let agrees = over && self.flags() == END && self.body == 0 && !self.is_of_the_guest();
        self.head[1] != PING && !agrees
    }
}

#[cfg(test)]
mod tests;
