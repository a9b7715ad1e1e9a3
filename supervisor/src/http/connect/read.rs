//! Reads what a caller sends: one message, or many in frames.

use axum::body::{Body, BodyDataStream};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use super::code::{Code, ConnectError};
use super::frame::Frames;

/// Largest message.
const MAX_MESSAGE: usize = 4 << 20;
/// Kinds of bodies.
const UNARY: &str = "application/json";
const STREAM: &str = "application/connect+json";

/// The one message of a call with one answer.
pub(in crate::http) async fn message<T: DeserializeOwned>(
    parts: &Parts,
    body: Body,
) -> Result<T, ConnectError> {
    let whole = message_bytes(parts, body)?.await?;
    // A message without any field may be sent as nothing.
    decode(if whole.is_empty() { b"{}" } else { &whole })
}

/// The same, as it was sent. Its headers are looked at now, its body once it is waited for.
pub(in crate::http) fn message_bytes(
    parts: &Parts,
    body: Body,
) -> Result<impl Future<Output = Result<Bytes, ConnectError>> + Send + use<>, ConnectError> {
    check(parts, UNARY, "content-encoding")?;
    Ok(collect(body))
}

async fn collect(body: Body) -> Result<Bytes, ConnectError> {
    let mut pieces = body.into_data_stream();
    let mut whole = BytesMut::new();
    while let Some(piece) = next(&mut pieces).await? {
        if whole.len() + piece.len() > MAX_MESSAGE {
            return Err(ConnectError::new(
                Code::ResourceExhausted,
                format!("a message has at most {MAX_MESSAGE} bytes"),
            ));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// The messages of a stream.
#[derive(Debug)]
pub(in crate::http) struct Messages {
    pieces: BodyDataStream,
    frames: Frames,
}

impl Messages {
    pub(in crate::http) fn of(parts: &Parts, body: Body) -> Result<Self, ConnectError> {
        check(parts, STREAM, "connect-content-encoding")?;
        Ok(Self { pieces: body.into_data_stream(), frames: Frames::new(MAX_MESSAGE) })
    }

    /// The next message; `None` where the stream ends between two. One that breaks off is an error.
    pub(in crate::http) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ConnectError> {
        self.next_bytes().await?.map(|message| decode(&message)).transpose()
    }

    /// The same, as it was sent.
    pub(in crate::http) async fn next_bytes(&mut self) -> Result<Option<Bytes>, ConnectError> {
        let wrong = |error: super::frame::FrameError| ConnectError::invalid(error.to_string());
        loop {
            if let Some(message) = self.frames.next().map_err(wrong)? {
                return Ok(Some(message));
            }
            match next(&mut self.pieces).await? {
                Some(piece) => self.frames.push(&piece),
                None => return self.frames.end().map_err(wrong).map(|()| None),
            }
        }
    }

    /// The only message of a stream.
    pub(in crate::http) async fn only<T: DeserializeOwned>(mut self) -> Result<T, ConnectError> {
        let first = self.next().await?;
        match self.next::<serde::de::IgnoredAny>().await? {
            None => first.ok_or_else(|| ConnectError::invalid("a message is needed")),
            Some(_) => Err(ConnectError::invalid("one message is taken, and no more")),
        }
    }
}

async fn next(pieces: &mut BodyDataStream) -> Result<Option<Bytes>, ConnectError> {
    let piece = pieces.next().await.transpose();
    piece.map_err(|_| ConnectError::invalid("the request broke off"))
}

fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, ConnectError> {
    serde_json::from_slice(message)
        .map_err(|error| ConnectError::invalid(format!("the message cannot be read: {error}")))
}

/// Refuses what is not JSON as it is.
fn check(parts: &Parts, kind: &str, encoding: &str) -> Result<(), ConnectError> {
    let text = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let sent = text(CONTENT_TYPE.as_str()).unwrap_or_default().split(';').next().unwrap_or_default();
    if !sent.trim().eq_ignore_ascii_case(kind) {
        return Err(ConnectError::invalid(format!("the content type of this call is {kind}")));
    }
    if text("connect-protocol-version").is_some_and(|version| version != "1") {
        return Err(ConnectError::invalid("only version 1 of the Connect protocol is spoken"));
    }
    if text(encoding).is_some_and(|encoding| encoding != "identity") {
        return Err(ConnectError::new(Code::Unimplemented, "compressed messages are not taken"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
