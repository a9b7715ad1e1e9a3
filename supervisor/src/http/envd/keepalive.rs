//! How often a silent stream says that it is there.

use std::time::Duration;

use axum::http::HeaderMap;

/// Unless its caller says how often.
const KEEPALIVE: Duration = Duration::from_secs(90);
const MAX_KEEPALIVE_SECONDS: u64 = 3600;

/// How often a silent stream says that it is there.
pub(super) fn keepalive(headers: &HeaderMap) -> Duration {
    let header = headers.get("keepalive-ping-interval").and_then(|value| value.to_str().ok());
    let seconds = header.and_then(|text| text.parse().ok());
    seconds.map_or(KEEPALIVE, |seconds: u64| Duration::from_secs(seconds.clamp(1, MAX_KEEPALIVE_SECONDS)))
}
