//! What a caller sends, turned from JSON into frames of gRPC as the handler reads it, and not before.

use std::io;
use std::sync::{Arc, LazyLock, OnceLock};

use axum::body::Body;
use axum::http::request::Parts;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{once, try_unfold};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use super::exchange::Shape;
use crate::http::connect::{ConnectError, Messages, message_bytes};

/// Bytes before the message of a frame.
const HEAD: usize = 5;

/// Why the request could not be read. The handler sees that it breaks off, and only here is known why.
pub(super) type Trouble = Arc<OnceLock<ConnectError>>;

/// The body of the same request in gRPC.
pub(super) fn body(
    shape: Shape,
    parts: &Parts,
    body: Body,
    input: MessageDescriptor,
    trouble: Trouble,
) -> Result<Body, ConnectError> {
    let noted = move |error: ConnectError| {
        let told = io::Error::new(io::ErrorKind::InvalidData, error.message.clone());
        // The first one counts; there is no second.
        let _ = trouble.set(error);
        told
    };
    Ok(match shape {
        Shape::Unary => {
            let message = message_bytes(parts, body)?;
            Body::from_stream(once(async move {
                message.await.and_then(|message| turn(&message, input)).map_err(noted)
            }))
        }
        Shape::Stream => {
            let messages = Messages::of(parts, body)?;
            Body::from_stream(try_unfold((messages, input, noted), |(mut messages, input, noted)| async {
                match messages.next_bytes().await {
                    Ok(None) => Ok(None),
                    Ok(Some(message)) => match turn(&message, input.clone()) {
                        Ok(frame) => Ok(Some((frame, (messages, input, noted)))),
                        Err(error) => Err(noted(error)),
                    },
                    Err(error) => Err(noted(error)),
                }
            }))
        }
    })
}

/// One message of JSON as one of gRPC.
fn turn(json: &[u8], input: MessageDescriptor) -> Result<Bytes, ConnectError> {
    let message = read(json, input)?;
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(HEAD + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).map_err(|_| ConnectError::invalid("the message is too large"))?);
    message.encode(&mut frame).map_err(|_| ConnectError::invalid("the message is too large"))?;
    Ok(frame.freeze())
}

fn read(json: &[u8], input: MessageDescriptor) -> Result<DynamicMessage, ConnectError> {
    let unreadable =
        |error: serde_json::Error| ConnectError::invalid(format!("the message cannot be read: {error}"));
    // A message without any field may be sent as nothing.
    let mut json = serde_json::Deserializer::from_slice(if json.is_empty() { b"{}" } else { json });
    let message = DynamicMessage::deserialize(input, &mut json).map_err(unreadable)?;
    json.end().map_err(unreadable)?;
    Ok(message)
}

/// The message of the method with this number, and what it is after a way there and back. For fuzzing.
pub(crate) fn there_and_back(number: usize, json: &[u8]) -> Option<(DynamicMessage, Option<DynamicMessage>)> {
    static POOL: LazyLock<Option<DescriptorPool>> =
        LazyLock::new(|| DescriptorPool::decode(rekindle_api::DESCRIPTORS).ok());
    let pool = POOL.as_ref()?;
    let methods: Vec<_> = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    let input = methods.get(number % methods.len())?.input();
    let frame = turn(json, input.clone()).ok()?;
    let message = DynamicMessage::decode(input.clone(), frame.slice(HEAD..)).ok()?;
    let json = serde_json::to_vec(&message).ok();
    let back = json.and_then(|json| read(&json, input).ok());
    Some((message, back))
}
