//! Frames of a stream: one byte of flags, four of length, then that many of JSON. Bounded by what the length says,
//! before any of it is there.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use serde::Serialize;

use super::code::ConnectError;

/// Bytes before the message.
const HEAD: usize = 5;
/// The message is compressed; nobody who calls here does that.
const COMPRESSED: u8 = 1;
/// The last frame of an answer.
const END: u8 = 2;

/// Why bytes are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::http) enum FrameError {
    #[error("a message of {length} bytes exceeds the limit of {most}")]
    TooLarge { length: usize, most: usize },
    #[error("compressed messages are not taken")]
    Compressed,
    #[error("a frame with flags that no request has: {flags:#04x}")]
    Flags { flags: u8 },
    #[error("the stream ended within a message")]
    Truncated,
}

/// Takes a request's frames apart.
#[derive(Debug)]
pub(in crate::http) struct Frames {
    buffer: BytesMut,
    most: usize,
}

impl Frames {
    /// Frames with messages of at most so many bytes.
    pub(in crate::http) fn new(most: usize) -> Self {
        Self { buffer: BytesMut::new(), most }
    }

    /// More bytes. Before that, [`Frames::next`] has taken all it can.
    pub(in crate::http) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message that is there whole.
    pub(in crate::http) fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((&flags, rest)) = self.buffer.split_first() else { return Ok(None) };
        match flags {
            0 => {}
            COMPRESSED => return Err(FrameError::Compressed),
            flags => return Err(FrameError::Flags { flags }),
        }
        let Some(&length) = rest.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        if length > self.most {
            return Err(FrameError::TooLarge { length, most: self.most });
        }
        if self.buffer.len() < HEAD + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// The stream has ended: nothing may be left.
    pub(in crate::http) fn end(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(FrameError::Truncated) }
    }
}

/// A message of an answer.
pub(super) fn event(message: &impl Serialize) -> Bytes {
    frame(0, message)
}

/// The last frame of an answer.
pub(super) fn end(error: Option<&ConnectError>) -> Bytes {
    #[derive(Serialize)]
    struct End<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ConnectError>,
    }
    frame(END, &End { error })
}

fn frame(flags: u8, message: &impl Serialize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(256);
    bytes.put_u8(flags);
    bytes.put_u32(0);
    let mut writer = bytes.writer();
    // Our own messages have string keys and no failing parts, and memory takes every byte.
    if serde_json::to_writer(&mut writer, message).is_err() {
        tracing::error!("a message could not be written");
    }
    let mut bytes = writer.into_inner();
    let length = u32::try_from(bytes.len() - HEAD).unwrap_or(u32::MAX);
    bytes[1..HEAD].copy_from_slice(&length.to_be_bytes());
    bytes.freeze()
}

#[cfg(test)]
mod tests;
