//! What a context's program writes: bytes that code prints, and messages of its own between them. Pure, and never
//! larger than it may be, whatever comes.
//!
//! ```text
//! message = piece* last          piece = 0x1E '+' bytes LF          last = 0x1E '.' bytes LF
//! ```
//!
//! A piece is short enough that the kernel writes it in one go, also when other programs write to the same pipe; what
//! they write between two pieces is theirs. What begins like a piece and is none was printed.

use bytes::{Buf as _, Bytes, BytesMut};

/// What a piece begins with.
const MARK: u8 = 0x1e;
/// Longest piece.
const MAX_PIECE: usize = 4096;
/// Longest message.
const MAX_MESSAGE: usize = 8 << 20;

/// One stream of a program.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Received and not looked at, or the beginning of a piece.
    buffer: BytesMut,
    /// Pieces of a message that goes on.
    message: Vec<u8>,
}

/// What was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// By code.
    Printed(Bytes),
    /// By its program: a whole message.
    Message(Vec<u8>),
    /// A message that was too long, and is gone.
    TooLong,
}

impl Frames {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Something is missing at this point: what had begun is worth nothing.
    pub(super) fn cut(&mut self) {
        *self = Self::default();
    }

    /// Bytes of a message that goes on.
    pub(super) fn held(&self) -> usize {
        self.message.len()
    }

    /// The next frame that is there; nothing when more must come.
    pub(super) fn next(&mut self) -> Option<Frame> {
        loop {
            let start = self.buffer.iter().position(|byte| *byte == MARK).unwrap_or(self.buffer.len());
            if start > 0 {
                return Some(Frame::Printed(self.buffer.split_to(start).freeze()));
            }
            let kind = *self.buffer.get(1)?;
            let looked_at = self.buffer.len().min(MAX_PIECE);
            let end = self.buffer[..looked_at].iter().position(|byte| *byte == b'\n');
            match (kind, end) {
                (b'+' | b'.', Some(end)) => {
                    let piece = self.buffer.split_to(end + 1);
                    let piece = &piece[2..end];
                    if self.message.len() + piece.len() > MAX_MESSAGE {
                        self.message = Vec::new();
                        // What is left of it makes no sense, and is told apart from a message by that.
                        return Some(Frame::TooLong);
                    }
                    self.message.extend_from_slice(piece);
                    if kind == b'.' {
                        return Some(Frame::Message(std::mem::take(&mut self.message)));
                    }
                }
                (b'+' | b'.', None) if looked_at < MAX_PIECE => return None,
                // The mark was printed, and what follows is looked at by itself.
                _ => {
                    let printed = Bytes::copy_from_slice(&[MARK]);
                    self.buffer.advance(1);
                    return Some(Frame::Printed(printed));
                }
            }
        }
    }
}

/// Bytes as text, of which a character may come in two parts.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// The beginning of a character.
    begun: Vec<u8>,
}

impl Text {
    /// The text so far; what is none is replaced.
    pub(super) fn push(&mut self, data: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(data);
        let mut whole = bytes.len();
        for back in 1..=3.min(bytes.len()) {
            let first = bytes[bytes.len() - back];
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => continue,
            };
            if length > back {
                whole = bytes.len() - back;
            }
            break;
        }
        self.begun = bytes.split_off(whole);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned()
    }
}

#[cfg(test)]
mod tests;
