//! The description of the API: its `google.protobuf.FileDescriptorSet` in JSON, so that a client in any language can
//! check itself against it. As public as the reflection of gRPC, and bounded as that is.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::Api;
use crate::door::ConnectionInfo;
use crate::http::connect::{Code, ConnectError, refused};

/// What is answered, made once. A damaged description is noticed when its pool is made.
pub(super) fn description() -> Bytes {
    let set = DescriptorPool::global().get_message_by_name("google.protobuf.FileDescriptorSet");
    let message = set.and_then(|set| DynamicMessage::decode(set, rekindle_api::DESCRIPTORS).ok());
    message.and_then(|message| serde_json::to_vec(&message).ok()).unwrap_or_default().into()
}

pub(super) fn handle(api: &Api, request: &Request<Body>) -> Response<Body> {
    if request.method() != Method::GET {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return answer;
    }
    let connection = ConnectionInfo::of(request.extensions());
    let Ok(place) = Arc::clone(&connection.public_calls).try_acquire_owned() else {
        return refused(&ConnectError::new(Code::ResourceExhausted, "too many of these on this connection"));
    };
    // The place is taken until the last of it is read.
    let body = Full::new(api.description.clone()).map_frame(move |frame| {
        let _taken = &place;
        frame
    });
    let mut answer = Response::new(Body::new(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
