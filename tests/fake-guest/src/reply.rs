//! Answers: the last frame of an operation, or one of several.

use rekindle_protocol::frame;
use rekindle_protocol::mux::Stream;
use rekindle_protocol::wire::{self, ErrorCode, response::Reply};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// A refusal.
pub(crate) type Refused = (ErrorCode, &'static str);

/// One frame of several; whether the host still listens.
pub(crate) async fn send(stream: &mut (impl AsyncWrite + Unpin), reply: Reply) -> bool {
    frame::write(stream, &wire::Response { reply: Some(reply) }).await.is_ok()
}

/// The last frame.
pub(crate) async fn finish(mut stream: Stream, answer: Result<Reply, Refused>) {
    let reply = answer.unwrap_or_else(refusal);
    if send(&mut stream, reply).await {
        let _ = stream.shutdown().await;
    }
}

pub(crate) fn done() -> Reply {
    Reply::Done(wire::Done {})
}

pub(crate) fn refusal((code, message): Refused) -> Reply {
    Reply::Error(wire::Error { code: code.into(), message: message.to_owned() })
}
