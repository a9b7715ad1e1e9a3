//! Codes of the protocol, and the one table from what went wrong to a code.

use axum::http::StatusCode;
use serde::{Serialize, Serializer};

use crate::http::refusal::HttpRefusal;
use crate::service::{ErrorKind, ServiceError};

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Code {
    Canceled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    /// The code with this number in gRPC.
    pub(in crate::http) fn of_grpc(number: u16) -> Self {
        match number {
            1 => Self::Canceled,
            3 => Self::InvalidArgument,
            4 => Self::DeadlineExceeded,
            5 => Self::NotFound,
            6 => Self::AlreadyExists,
            7 => Self::PermissionDenied,
            8 => Self::ResourceExhausted,
            9 => Self::FailedPrecondition,
            10 => Self::Aborted,
            11 => Self::OutOfRange,
            12 => Self::Unimplemented,
            13 => Self::Internal,
            14 => Self::Unavailable,
            15 => Self::DataLoss,
            16 => Self::Unauthenticated,
            _ => Self::Unknown,
        }
    }

    /// Its name on the wire and in metrics.
    pub(in crate::http) fn word(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The status of a call with one answer.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => StatusCode::BAD_REQUEST,
            // What proxies have for a client that closed its request; it has no name.
            Self::Canceled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Unknown | Self::Internal | Self::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// A call that failed, as its caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::http) struct ConnectError {
    pub code: Code,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// One thing more about an error, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::http) struct Detail {
    /// Name of the message.
    #[serde(rename = "type")]
    pub kind: String,
    /// The message, in base64 without padding.
    pub value: String,
    /// The message in JSON, where its type is known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug: Option<serde_json::Value>,
}

impl ConnectError {
    pub(in crate::http) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// A request that makes no sense.
    pub(in crate::http) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }
}

impl From<&ServiceError> for ConnectError {
    fn from(error: &ServiceError) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidRequest
            | ErrorKind::LimitExceeded
            | ErrorKind::WrongFileKind
            | ErrorKind::SpawnFailed => Code::InvalidArgument,
            ErrorKind::UnknownTemplate | ErrorKind::NotFound => Code::NotFound,
            ErrorKind::UnknownSandbox
            | ErrorKind::SandboxEnded
            | ErrorKind::SandboxPaused
            | ErrorKind::AgentLost
            | ErrorKind::VmLost
            | ErrorKind::OutOfMemory
            | ErrorKind::ShuttingDown => Code::Unavailable,
            ErrorKind::HostFull
            | ErrorKind::QueueFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::Busy
            | ErrorKind::NoSpace
            | ErrorKind::HostDiskFull
            | ErrorKind::TurnsSpent
            | ErrorKind::RateLimited => Code::ResourceExhausted,
            ErrorKind::MissingScope
            | ErrorKind::NetworkForbidden
            | ErrorKind::RootForbidden
            | ErrorKind::PermissionDenied => Code::PermissionDenied,
            ErrorKind::AlreadyExists | ErrorKind::KeyReused => Code::AlreadyExists,
            ErrorKind::Corrupted => Code::DataLoss,
            ErrorKind::WatchLagged => Code::Aborted,
            ErrorKind::StartFailed | ErrorKind::Internal => Code::Internal,
            ErrorKind::Deadline => Code::DeadlineExceeded,
        };
        Self::new(code, HttpRefusal::from(error).message)
    }
}
