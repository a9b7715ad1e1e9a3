//! What clients send: JSON, of a bounded size, in a bounded time.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use crate::http::refusal::HttpRefusal;
use crate::service::CodeLanguage;

/// Largest body: code of the largest size, much of it escaped.
const MAX_BODY: usize = 3 << 20;
/// How long one may take to arrive.
const WITHIN: Duration = Duration::from_secs(60);

/// Reads a body.
pub(super) async fn read<T: DeserializeOwned>(body: Body) -> Result<T, HttpRefusal> {
    let bytes = match tokio::time::timeout(WITHIN, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = format!("the body is larger than {MAX_BODY} bytes, or was broken off");
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

/// The language of this name.
pub(super) fn language(name: Option<&str>) -> Result<CodeLanguage, HttpRefusal> {
    let name = name.unwrap_or_default();
    CodeLanguage::named(name).ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        let message =
            format!("there is no language `{name}`: python, javascript, typescript and bash are there");
        HttpRefusal::bad_request(message)
    })
}
