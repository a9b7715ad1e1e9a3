//! A call with one answer.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::code::ConnectError;

/// The answer.
pub(in crate::http) fn unary(message: &impl Serialize) -> Response<Body> {
    // Our own messages have string keys and no failing parts.
    json(StatusCode::OK, serde_json::to_vec(message).unwrap_or_default())
}

/// Why there is none.
pub(in crate::http) fn refused(error: &ConnectError) -> Response<Body> {
    json(error.code.status(), serde_json::to_vec(error).unwrap_or_default())
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
