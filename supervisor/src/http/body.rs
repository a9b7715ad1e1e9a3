//! What clients send: JSON, of a bounded size, in a bounded time.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use super::refusal::HttpRefusal;

/// How long one may take to arrive.
const WITHIN: Duration = Duration::from_secs(60);

/// Reads a body of at most so many bytes; an empty one is an object without fields.
pub(super) async fn read<T: DeserializeOwned>(body: Body, most: usize) -> Result<T, HttpRefusal> {
    let bytes = match tokio::time::timeout(WITHIN, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = format!("the body is larger than {most} bytes, or was broken off");
            return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => {
            return Err(HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"));
        }
    };
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(text)
        .map_err(|error| HttpRefusal::bad_request(format!("the body cannot be read: {error}")))
}
