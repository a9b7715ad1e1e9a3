//! What is on the socket of one connection, in both directions: frames of a kind, a length, and so many bytes.
//!
//! The end of a direction is a frame of its own, so that a side that is gone is not taken for one that has said all.

use std::io;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes before those of a frame.
pub(super) const HEAD: usize = 5;
/// Most bytes of one.
pub(super) const MAX: usize = 64 * 1024;

/// What is in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of the connection.
    Data,
    /// An event, as JSON.
    Event,
    /// The sender has said all.
    End,
}

/// What begins a frame.
pub(super) fn head(kind: Kind, length: usize) -> [u8; HEAD] {
    let kind = match kind {
        Kind::Data => 0,
        Kind::Event => 1,
        Kind::End => 2,
    };
    // Nobody makes one that is larger than `MAX`.
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [kind, a, b, c, d]
}

/// Reads what begins a frame.
pub(super) fn read_head(bytes: [u8; HEAD]) -> io::Result<(Kind, usize)> {
    let [kind, length @ ..] = bytes;
    let length = u32::from_be_bytes(length) as usize;
    let kind = match kind {
        0 => Kind::Data,
        1 => Kind::Event,
        2 if length == 0 => Kind::End,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of no kind")),
    };
    if length > MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame that is too long"));
    }
    Ok((kind, length))
}

/// Reads frames. Can be abandoned between two, and in one.
pub(super) struct Frames<R> {
    from: R,
    read: BytesMut,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, read: BytesMut::new() }
    }

    /// The next one. A sender that is gone is an error.
    pub(super) async fn next(&mut self) -> io::Result<(Kind, BytesMut)> {
        loop {
            let mut missing = HEAD;
            if let Some(head) = self.read.first_chunk::<HEAD>() {
                let (kind, length) = read_head(*head)?;
                if self.read.len() >= HEAD + length {
                    self.read.advance(HEAD);
                    return Ok((kind, self.read.split_to(length)));
                }
                missing = HEAD + length - self.read.len();
            }
            self.read.reserve(missing.max(MAX / 4));
            if self.from.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_however_they_arrive_and_nonsense_is_not() {
        let whole =
            [&head(Kind::Data, 3)[..], b"abc", &head(Kind::Event, 2), b"{}", &head(Kind::End, 0)].concat();
        let (mut to, from) = tokio::io::duplex(2);
        let writing = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut to, &whole).await.unwrap();
        });
        let mut frames = Frames::new(from);
        for (kind, bytes) in [(Kind::Data, &b"abc"[..]), (Kind::Event, b"{}"), (Kind::End, b"")] {
            let (read, came) = frames.next().await.unwrap();
            assert_eq!((read, &came[..]), (kind, bytes));
        }
        writing.await.unwrap();
        assert_eq!(frames.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for wrong in [head(Kind::Data, MAX + 1), head(Kind::End, 1), [9, 0, 0, 0, 0], [0xff; HEAD]] {
            let kind = Frames::new(&wrong[..]).next().await.unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "{wrong:?}");
        }
    }
}
