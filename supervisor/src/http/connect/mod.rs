//! The Connect protocol with its JSON codec, as far as the SDKs of E2B speak it: calls with one answer, and streams of
//! messages in frames. Pure but for the bodies it reads and makes; it knows no service.
//!
//! ```text
//! unary:   POST, JSON ──▶ 200 JSON, or a status and {"code","message"}
//! stream:  POST, frames ──▶ 200, frames; the last one has flag 2 and says how it ended
//! ```

mod code;
mod frame;
pub(super) mod json;
mod read;
mod stream;
mod timeout;
mod unary;

pub(super) use code::{Code, ConnectError, Detail};
pub(super) use frame::Frames;
pub(super) use read::{Messages, message, message_bytes};
pub(super) use stream::{Stop, failed, stream};
pub(super) use timeout::timeout;
pub(super) use unary::{refused, unary};

/// The messages in a body that comes in pieces of so many bytes, and whether it was in order to its end. For fuzzing.
pub(crate) fn decode(body: &[u8], step: usize, most: usize) -> (Vec<bytes::Bytes>, bool) {
    let mut frames = frame::Frames::new(most);
    let mut messages = Vec::new();
    for piece in body.chunks(step) {
        frames.push(piece);
        loop {
            match frames.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, false),
            }
        }
    }
    let whole = frames.end().is_ok();
    (messages, whole)
}
