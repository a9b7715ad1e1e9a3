//! The one table from what went wrong to what a caller is told: code, reason, whether to try again, and a hint.

use std::time::Duration;

use rekindle_api::v1::{ErrorDetail, ErrorReason};
use tonic::{Code, Status};

use super::messages;
use crate::agent::{AgentError, Refusal};
use crate::pool::ClaimError;
use crate::service::{EndReason, ServiceError};

/// One line of the table.
struct Row {
    code: Code,
    reason: ErrorReason,
    retry: Retry,
    hint: &'static str,
}

enum Retry {
    Never,
    Later(Duration),
}

const fn row(code: Code, reason: ErrorReason, hint: &'static str) -> Row {
    Row { code, reason, retry: Retry::Never, hint }
}

const fn later(code: Code, reason: ErrorReason, after: Duration, hint: &'static str) -> Row {
    Row { code, reason, retry: Retry::Later(after), hint }
}

/// Nobody knows when.
const SOME_TIME: Duration = Duration::ZERO;

fn table(error: &ServiceError) -> Row {
    use ErrorReason as Reason;
    match error {
        ServiceError::Invalid { .. } => row(Code::InvalidArgument, Reason::InvalidRequest, ""),
        ServiceError::Limit { .. } => row(
            Code::InvalidArgument,
            Reason::LimitExceeded,
            "ask for less, or have the operator raise the limit in the configuration",
        ),
        ServiceError::UnknownTemplate { .. } => {
            row(Code::NotFound, Reason::UnknownTemplate, "ListTemplates names what there is")
        }
        ServiceError::UnknownSandbox => {
            row(Code::NotFound, Reason::UnknownSandbox, "it never was, it ended long ago, or it is not yours")
        }
        ServiceError::Ended { end, during } => ended(end.reason, *during),
        ServiceError::Paused => row(Code::FailedPrecondition, Reason::SandboxPaused, "resume it first"),
        ServiceError::UnderWay { .. } => later(
            Code::FailedPrecondition,
            Reason::Busy,
            SOME_TIME,
            "wait for the calls in the sandbox to end, or cancel them",
        ),
        ServiceError::MissingScope { .. } => {
            row(Code::PermissionDenied, Reason::MissingScope, "use a token with this scope")
        }
        ServiceError::Quota { .. } => later(
            Code::ResourceExhausted,
            Reason::QuotaExceeded,
            SOME_TIME,
            "destroy sandboxes you no longer need, or ask for a larger quota",
        ),
        ServiceError::Claim(error) => claim(error),
        ServiceError::LowDisk(_) => low_disk(),
        ServiceError::Agent(error) => agent(error),
        ServiceError::Machine(_) => row(Code::Internal, Reason::Internal, "the supervisor's log says more"),
        ServiceError::KeyReused => {
            row(Code::AlreadyExists, Reason::KeyReused, "use a new key for every new program")
        }
        ServiceError::ResultGone => row(
            Code::AlreadyExists,
            Reason::KeyReused,
            "the program has run: use a new key to run it again, and a smaller output_limit to have results kept for longer",
        ),
        ServiceError::Shared(error) => table(error),
        ServiceError::ShuttingDown => shutting_down(),
        ServiceError::Lagged => {
            later(Code::OutOfRange, Reason::WatchLagged, SOME_TIME, "list and watch again, and read faster")
        }
        ServiceError::Deadline { .. } => {
            row(Code::DeadlineExceeded, Reason::Deadline, "give the call more time")
        }
        ServiceError::Random(_) => row(Code::Internal, Reason::Internal, "the supervisor's log says more"),
    }
}

fn ended(reason: EndReason, during: bool) -> Row {
    const AGAIN: &str = "create a new sandbox; what was in this one is gone";
    // A call that comes too late meets a fact; one that was under way met an accident.
    if !during {
        return row(Code::FailedPrecondition, ErrorReason::SandboxEnded, AGAIN);
    }
    let reason = match reason {
        EndReason::Destroyed | EndReason::Expired | EndReason::Idle | EndReason::Shutdown => {
            ErrorReason::SandboxEnded
        }
        EndReason::OutOfMemory => ErrorReason::OutOfMemory,
        EndReason::AgentLost => ErrorReason::AgentLost,
        EndReason::VmLost => ErrorReason::VmLost,
    };
    row(Code::Unavailable, reason, AGAIN)
}

fn claim(error: &ClaimError) -> Row {
    match error {
        ClaimError::UnknownTemplate { .. } => {
            row(Code::NotFound, ErrorReason::UnknownTemplate, "ListTemplates names what there is")
        }
        ClaimError::Full { retry_after, .. } => later(
            Code::ResourceExhausted,
            ErrorReason::HostFull,
            *retry_after,
            "wait longer with queue_millis, try another host, or destroy sandboxes",
        ),
        ClaimError::QueueFull { retry_after, .. } => later(
            Code::ResourceExhausted,
            ErrorReason::QueueFull,
            *retry_after,
            "try again later or on another host",
        ),
        ClaimError::ShareFull { retry_after, .. } => later(
            Code::ResourceExhausted,
            ErrorReason::QueueFull,
            *retry_after,
            "wait for the tenant's own requests to be met before asking for more",
        ),
        ClaimError::TooLarge { .. } => row(
            Code::ResourceExhausted,
            ErrorReason::HostFull,
            "this host can never hold it; use a smaller template or a larger budget",
        ),
        ClaimError::LowDisk(_) => low_disk(),
        ClaimError::Start(_) => later(
            Code::Internal,
            ErrorReason::StartFailed,
            SOME_TIME,
            "the supervisor's log says more; `rekindle doctor` on the host may say why",
        ),
        ClaimError::ShuttingDown => shutting_down(),
    }
}

fn low_disk() -> Row {
    later(
        Code::ResourceExhausted,
        ErrorReason::HostDiskFull,
        Duration::from_secs(5),
        "try another host; its operator frees space on the disk of the run directory",
    )
}

fn shutting_down() -> Row {
    later(Code::Unavailable, ErrorReason::ShuttingDown, SOME_TIME, "try again, or another host")
}

fn agent(error: &AgentError) -> Row {
    match error {
        AgentError::Refused { kind, .. } => refused(*kind),
        AgentError::Busy => refused(Refusal::Busy),
        AgentError::Abandoned { .. } | AgentError::Silent { .. } | AgentError::Lost { .. } => {
            row(Code::Unavailable, ErrorReason::AgentLost, "create a new sandbox")
        }
        AgentError::Protocol { .. } => row(Code::Unavailable, ErrorReason::AgentLost, "create a new sandbox"),
        AgentError::Corrupted { .. } => {
            later(Code::DataLoss, ErrorReason::Corrupted, SOME_TIME, "send it again")
        }
        AgentError::TooLarge { .. } => {
            row(Code::InvalidArgument, ErrorReason::LimitExceeded, "allow more with max_bytes")
        }
        AgentError::Invalid { .. } => row(Code::InvalidArgument, ErrorReason::InvalidRequest, ""),
        // Who went away hears nothing; who is still there sent something that is no content.
        AgentError::Source(_) => {
            row(Code::InvalidArgument, ErrorReason::InvalidRequest, "send the file once, then its content")
        }
        AgentError::Sink(_) => {
            row(Code::Cancelled, ErrorReason::InvalidRequest, "the download was cut short")
        }
    }
}

fn refused(kind: Refusal) -> Row {
    use ErrorReason as Reason;
    match kind {
        Refusal::InvalidArgument | Refusal::UnknownRequest => {
            row(Code::InvalidArgument, Reason::InvalidRequest, "")
        }
        Refusal::VersionMismatch | Refusal::GateClosed | Refusal::GateFailed | Refusal::Internal => {
            row(Code::Internal, Reason::Internal, "the supervisor's log says more")
        }
        Refusal::NotFound => row(Code::NotFound, Reason::NotFound, ""),
        Refusal::PermissionDenied => row(
            Code::PermissionDenied,
            Reason::PermissionDenied,
            "the sandbox's user may write to its home and to /tmp",
        ),
        Refusal::AlreadyExists => row(Code::AlreadyExists, Reason::AlreadyExists, ""),
        Refusal::NotADirectory | Refusal::IsADirectory => {
            row(Code::FailedPrecondition, Reason::WrongFileKind, "")
        }
        Refusal::NotEmpty => {
            row(Code::FailedPrecondition, Reason::WrongFileKind, "set `recursive` to remove what is in it")
        }
        Refusal::NoSpace => row(Code::ResourceExhausted, Reason::NoSpace, "remove files in the sandbox"),
        Refusal::TooLarge => row(Code::InvalidArgument, Reason::LimitExceeded, ""),
        Refusal::ChecksumMismatch => later(Code::DataLoss, Reason::Corrupted, SOME_TIME, "send it again"),
        Refusal::Busy => later(
            Code::ResourceExhausted,
            Reason::Busy,
            Duration::from_millis(100),
            "fewer calls at once in one sandbox",
        ),
        Refusal::SpawnFailed => row(Code::FailedPrecondition, Reason::SpawnFailed, ""),
    }
}

/// The status of an error, with its detail.
pub(super) fn status(error: &ServiceError) -> Status {
    let row = table(error);
    let (retryable, after) = match row.retry {
        Retry::Never => (false, Duration::ZERO),
        Retry::Later(after) => (true, after),
    };
    let detail = ErrorDetail {
        reason: row.reason.into(),
        retryable,
        retry_after_millis: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
        hint: row.hint.to_owned(),
        end: match innermost(error) {
            ServiceError::Ended { end, .. } => Some(messages::end(end)),
            _ => None,
        },
    };
    let message = match innermost(error) {
        // Paths and commands of the host are for its operator.
        inner @ (ServiceError::Claim(ClaimError::Start(_)) | ServiceError::Machine(_)) => {
            tracing::error!(error = chain(inner), "a machine failed");
            "the machine could not be started, paused or resumed".to_owned()
        }
        other => chain(other),
    };
    rekindle_api::status(row.code, message, &detail)
}

/// Code and reason of an error.
pub(super) fn verdict(error: &ServiceError) -> (Code, ErrorReason) {
    let row = table(error);
    (row.code, row.reason)
}

/// The only thing a caller without a valid token ever hears.
pub(super) fn unauthenticated() -> Status {
    let detail = ErrorDetail {
        reason: ErrorReason::Unauthenticated.into(),
        hint: "send `authorization: Bearer <token>` with a valid token".into(),
        ..ErrorDetail::default()
    };
    rekindle_api::status(Code::Unauthenticated, "a valid token is needed".into(), &detail)
}

/// The name of a code in metrics.
pub(super) fn word(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

fn innermost(error: &ServiceError) -> &ServiceError {
    match error {
        ServiceError::Shared(error) => innermost(error),
        other => other,
    }
}

/// The whole chain on one line. Hints have a place of their own.
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
