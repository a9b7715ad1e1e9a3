//! A piece of a file as a whole frame, made around its bytes where they lie.
//!
//! The frame is the one [`frame::encode`](crate::frame::encode) makes of the same message, without its copy.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::frame::{FrameError, check_length};

/// Bytes in front of a piece: a length of four, then twice a field's number and the length of what is in it.
const ROOM: usize = 4 + 2 * (1 + 4);

/// `Chunk.data`.
const DATA: u32 = 1;

/// The message a piece is sent in, by the number of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Carrier {
    /// `UploadPart.chunk`.
    UploadPart = 1,
    /// `Response.chunk`.
    Response = 9,
}

/// A piece in the making.
#[derive(Debug)]
pub struct Piece(BytesMut);

impl Piece {
    /// An empty one, with room for so many bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut buffer = BytesMut::with_capacity(ROOM + capacity);
        buffer.put_bytes(0, ROOM);
        Self(buffer)
    }

    /// What to add its bytes to.
    pub fn tail(&mut self) -> &mut BytesMut {
        &mut self.0
    }

    /// Puts a frame around it. The bytes of the piece, and the frame they lie in.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`].
    pub fn framed(mut self, carrier: Carrier) -> Result<(Bytes, Bytes), FrameError> {
        let length = self.0.len() - ROOM;
        let field = carrier as u32;
        let inner = key_len(DATA) + encoded_len_varint(length as u64) + length;
        let body = check_length(key_len(field) + encoded_len_varint(inner as u64) + inner)?;
        let mut head = [0; ROOM];
        let mut rest = &mut head[..];
        // `check_length` bounds it far below u32::MAX.
        rest.put_u32(body as u32);
        encode_key(field, WireType::LengthDelimited, &mut rest);
        encode_varint(inner as u64, &mut rest);
        encode_key(DATA, WireType::LengthDelimited, &mut rest);
        encode_varint(length as u64, &mut rest);
        let unused = rest.len();
        self.0[unused..ROOM].copy_from_slice(&head[..ROOM - unused]);
        let whole = self.0.freeze();
        Ok((whole.slice(ROOM..), whole.slice(unused..)))
    }
}

#[cfg(test)]
mod tests {
    //! The frames are those that the messages are encoded to.

    use super::*;
    use crate::frame::encode;
    use crate::limits::{MAX_CHUNK_BYTES, MAX_FRAME_BYTES};
    use crate::wire::response::Reply;
    use crate::wire::upload_part::Part;
    use crate::wire::{Chunk, Response, UploadPart};

    #[test]
    fn it_is_the_frame_of_the_message() {
        for size in [1, 2, 127, 128, 16_383, 16_384, 65_536, MAX_CHUNK_BYTES] {
            let content: Vec<u8> = (0..size).map(|number| (number * 7 % 251) as u8).collect();
            let framed = |carrier| {
                let mut piece = Piece::with_capacity(size);
                piece.tail().extend_from_slice(&content);
                piece.framed(carrier).expect("small")
            };
            let chunk = || Chunk { data: Bytes::copy_from_slice(&content) };
            let (piece, frame) = framed(Carrier::UploadPart);
            assert_eq!(piece, content);
            assert_eq!(
                frame,
                encode(&UploadPart { part: Some(Part::Chunk(chunk())) }).expect("small"),
                "{size}"
            );
            let (piece, frame) = framed(Carrier::Response);
            assert_eq!(piece, content);
            assert_eq!(
                frame,
                encode(&Response { reply: Some(Reply::Chunk(chunk())) }).expect("small"),
                "{size}"
            );
        }
    }

    #[test]
    fn one_that_fits_into_no_frame_is_refused() {
        let mut piece = Piece::with_capacity(0);
        piece.tail().put_bytes(7, MAX_FRAME_BYTES);
        assert!(matches!(piece.framed(Carrier::Response), Err(FrameError::TooLarge { .. })));
    }
}
