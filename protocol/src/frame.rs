//! One message on a stream: a big-endian `u32` length, then that many bytes of protobuf.
//!
//! Used on both sides for every message of every operation. Memory grows with the bytes that really arrive,
//! never with the length a peer merely claims.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::limits::MAX_FRAME_BYTES;
use crate::mux::MAX_BODY_BYTES;

/// Bytes of the length prefix.
const PREFIX: usize = 4;

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer announced, or the caller built, a message beyond the limit.
    #[error("a message of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}")]
    TooLarge {
        /// Its length.
        length: usize,
    },
    /// The stream ended inside a message.
    #[error("the stream ended inside a message")]
    Truncated,
    /// The bytes are no such message.
    #[error("a message could not be decoded")]
    Malformed(#[source] prost::DecodeError),
    /// The stream failed.
    #[error("the stream failed")]
    Io(#[source] std::io::Error),
}

/// Reads one message. `None` means the peer ended the stream between messages.
///
/// # Errors
/// See [`FrameError`]; after one the stream is out of step and must be dropped.
pub async fn read<M: Message + Default>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<M>, FrameError> {
    let mut prefix = [0u8; PREFIX];
    let mut filled = 0;
    while filled < PREFIX {
        match stream.read(&mut prefix[filled..]).await.map_err(FrameError::Io)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(FrameError::Truncated),
            n => filled += n,
        }
    }
    let length = check_length(u32::from_be_bytes(prefix) as usize)?;
    let mut body = BytesMut::new();
    let mut limited = stream.take(length as u64);
    while body.len() < length {
        body.reserve((length - body.len()).min(MAX_BODY_BYTES));
        if limited.read_buf(&mut body).await.map_err(FrameError::Io)? == 0 {
            return Err(FrameError::Truncated);
        }
    }
    decode(body.freeze()).map(Some)
}

/// Writes one message and flushes it.
///
/// # Errors
/// See [`FrameError`].
pub async fn write<M: Message>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> Result<(), FrameError> {
    let frame = encode(message)?;
    stream.write_all(&frame).await.map_err(FrameError::Io)?;
    stream.flush().await.map_err(FrameError::Io)
}

/// The bytes of one message with its prefix.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode<M: Message>(message: &M) -> Result<Bytes, FrameError> {
    let length = check_length(message.encoded_len())?;
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    // `check_length` bounds it far below u32::MAX.
    frame.put_u32(length as u32);
    message.encode_raw(&mut frame);
    Ok(frame.freeze())
}

/// Decodes one message from a buffer that starts with its prefix, for tests and fuzzers of the format.
///
/// # Errors
/// See [`FrameError`].
pub fn decode_prefixed<M: Message + Default>(mut input: Bytes) -> Result<M, FrameError> {
    if input.len() < PREFIX {
        return Err(FrameError::Truncated);
    }
    let length = check_length(input.get_u32() as usize)?;
    if input.len() < length {
        return Err(FrameError::Truncated);
    }
    decode(input.split_to(length))
}

pub(crate) fn check_length(length: usize) -> Result<usize, FrameError> {
    if length > MAX_FRAME_BYTES { Err(FrameError::TooLarge { length }) } else { Ok(length) }
}

fn decode<M: Message + Default>(body: Bytes) -> Result<M, FrameError> {
    M::decode(body).map_err(FrameError::Malformed)
}

#[cfg(test)]
mod tests;
