//! The one table from what went wrong to what a client over HTTP is told: status, message, whether to try again.
//!
//! The SDKs turn the status into an exception and show the message; by themselves they repeat what is answered with
//! 429, 502, 503 or 504, unless `Should-Retry` says not to.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use crate::service::{ErrorKind, ServiceError};

/// Whether the client should try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    /// After this long, where somebody knows.
    Later(Option<Duration>),
}

/// Why a request is not met.
#[derive(Debug, Clone)]
pub(super) struct HttpRefusal {
    pub status: StatusCode,
    pub message: String,
    /// What tells refusals of one status apart, for programs.
    pub error_code: Option<&'static str>,
    pub retry: Retry,
}

impl HttpRefusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), error_code: None, retry: Retry::Never }
    }

    /// A request that makes no sense.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The only thing a caller without a valid key ever hears.
    pub(super) fn unauthenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "a valid API key is needed: a token of `rekindle token create`")
    }

    /// What this server does not offer.
    pub(super) fn not_offered(what: &str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, format!("Rekindle has no {what}"))
    }

    /// Its name in metrics.
    pub(super) fn word(&self) -> &'static str {
        word(self.status)
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut body = json!({"code": self.status.as_u16(), "message": self.message});
        if let Some(code) = self.error_code {
            body["error_code"] = code.into();
        }
        let mut response = json_response(self.status, &body);
        let headers = response.headers_mut();
        match self.retry {
            Retry::Never => {
                headers.insert("should-retry", HeaderValue::from_static("false"));
            }
            Retry::Later(after) => {
                // Whole seconds, and never none: a client that comes back at once helps nobody.
                let seconds = after.map(|after| after.as_secs_f64().ceil().max(1.0) as u64);
                if let Some(seconds) = seconds {
                    headers.insert(RETRY_AFTER, seconds.into());
                }
            }
        }
        response
    }
}

/// An answer in JSON.
pub(super) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The name of a status in metrics, in the words gRPC has for the same.
pub(super) fn word(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..=399 => "ok",
        400 | 405 | 411 | 413 | 414 | 415 | 422 => "invalid_argument",
        401 => "unauthenticated",
        403 => "permission_denied",
        404 => "not_found",
        409 => "failed_precondition",
        429 | 507 => "resource_exhausted",
        501 => "unimplemented",
        502 | 503 => "unavailable",
        504 => "deadline_exceeded",
        500..=599 => "internal",
        _ => "unknown",
    }
}

impl From<&ServiceError> for HttpRefusal {
    fn from(error: &ServiceError) -> Self {
        let (status, retry) = row(error);
        let kind = error.kind();
        let message = match kind {
            // Paths and commands of the host are for its operator.
            ErrorKind::StartFailed | ErrorKind::Internal => {
                tracing::error!(error = chain(error), "a call over HTTP failed");
                "the server failed; its log says more".to_owned()
            }
            _ => chain(error),
        };
        let error_code = match kind {
            ErrorKind::KeyReused => Some("idempotency_key_reused"),
            _ => Some(kind.word()),
        };
        Self { status, message, error_code, retry }
    }
}

fn row(error: &ServiceError) -> (StatusCode, Retry) {
    if let ServiceError::Shared(error) = error {
        return row(error);
    }
    let later = |status| (status, Retry::Later(error.retry_after()));
    let never = |status| (status, Retry::Never);
    if let ServiceError::UnderWay { .. } = error {
        // The SDKs take a conflict for a sandbox that is paused already.
        return later(StatusCode::SERVICE_UNAVAILABLE);
    }
    match error.kind() {
        ErrorKind::InvalidRequest | ErrorKind::LimitExceeded | ErrorKind::WrongFileKind => {
            never(StatusCode::BAD_REQUEST)
        }
        ErrorKind::UnknownTemplate
        | ErrorKind::UnknownSandbox
        | ErrorKind::SandboxEnded
        | ErrorKind::NotFound => never(StatusCode::NOT_FOUND),
        ErrorKind::MissingScope
        | ErrorKind::NetworkForbidden
        | ErrorKind::RootForbidden
        | ErrorKind::PermissionDenied => never(StatusCode::FORBIDDEN),
        ErrorKind::SandboxPaused | ErrorKind::Busy | ErrorKind::AlreadyExists | ErrorKind::KeyReused => {
            never(StatusCode::CONFLICT)
        }
        // A tenant that has all it may have is not helped by asking again at once.
        ErrorKind::QuotaExceeded | ErrorKind::TurnsSpent => never(StatusCode::TOO_MANY_REQUESTS),
        ErrorKind::RateLimited => later(StatusCode::TOO_MANY_REQUESTS),
        ErrorKind::HostFull | ErrorKind::QueueFull | ErrorKind::HostDiskFull | ErrorKind::ShuttingDown => {
            later(StatusCode::SERVICE_UNAVAILABLE)
        }
        ErrorKind::NoSpace => never(StatusCode::INSUFFICIENT_STORAGE),
        // It may have been carried out, and what was in the sandbox is gone.
        ErrorKind::AgentLost | ErrorKind::VmLost | ErrorKind::OutOfMemory => never(StatusCode::BAD_GATEWAY),
        ErrorKind::Deadline => never(StatusCode::GATEWAY_TIMEOUT),
        ErrorKind::StartFailed
        | ErrorKind::Corrupted
        | ErrorKind::SpawnFailed
        | ErrorKind::WatchLagged
        | ErrorKind::Internal => never(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The whole chain on one line. Hints are for who runs the host.
fn chain(error: &ServiceError) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text.lines().filter(|line| !line.starts_with("hint:")).collect::<Vec<_>>().join(" ");
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}
