//! Why a call in a sandbox is not met, in the words of whoever is told.

use axum::body::Body;
use axum::http::{Response, StatusCode};

use crate::door::CallRecord;
use crate::http::connect::{self, Code, ConnectError};
use crate::http::refusal::{self, HttpRefusal};
use crate::service::{ErrorKind, ServiceError};

/// Why a call is not met.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The service says no.
    Service(ServiceError),
    /// What was asked for makes no sense, or is told in other words than the service's.
    Connect(ConnectError),
    /// The same of a call that is not Connect's.
    Http(HttpRefusal),
}

impl From<ServiceError> for Trouble {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<ConnectError> for Trouble {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<HttpRefusal> for Trouble {
    fn from(refusal: HttpRefusal) -> Self {
        Self::Http(refusal)
    }
}

impl Trouble {
    /// The sandbox is not there, or does not answer.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Service(error) if is_gone(error.kind()))
    }

    /// In Connect's words.
    pub(super) fn connect(&self) -> ConnectError {
        match self {
            Self::Service(error) => error.into(),
            Self::Connect(error) => error.clone(),
            Self::Http(refusal) => {
                let code = match refusal.status {
                    StatusCode::UNAUTHORIZED => Code::Unauthenticated,
                    StatusCode::NOT_FOUND => Code::NotFound,
                    _ => Code::InvalidArgument,
                };
                ConnectError::new(code, refusal.message.clone())
            }
        }
    }

    /// In the words of HTTP.
    pub(super) fn http(&self, sandbox: &str) -> Response<Body> {
        match self {
            trouble if trouble.is_gone() => gone(sandbox),
            Self::Service(error) => HttpRefusal::from(error).into_response(),
            Self::Http(refusal) => refusal.clone().into_response(),
            Self::Connect(error) => {
                let status = connect::refused(error).status();
                HttpRefusal::new(status, error.message.clone()).into_response()
            }
        }
    }

    /// Writes down that the call was not met.
    pub(super) fn settle(self, record: &mut CallRecord) {
        let word = self.connect().code.word();
        match self {
            Self::Service(error) => record.settle::<()>(&Err(error), word),
            Self::Connect(_) | Self::Http(_) => record.reject("malformed_request", word),
        }
    }
}

/// Whether a failure means that there is no sandbox to talk to.
pub(in crate::http) fn is_gone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownSandbox
            | ErrorKind::SandboxEnded
            | ErrorKind::SandboxPaused
            | ErrorKind::AgentLost
            | ErrorKind::VmLost
            | ErrorKind::OutOfMemory
    )
}

/// What is said for a sandbox that is not there.
pub(in crate::http) fn gone(sandbox: &str) -> Response<Body> {
    let known: String = sandbox.chars().take(64).collect();
    let body = serde_json::json!({"sandboxId": known, "message": "The sandbox was not found", "code": 502});
    refusal::json_response(StatusCode::BAD_GATEWAY, &body)
}
