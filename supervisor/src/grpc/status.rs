//! The one table from what went wrong to what a caller is told: code, reason, whether to try again, and a hint.

use std::time::Duration;

use rekindle_api::time::duration;
use rekindle_api::v1::{ErrorDetail, ErrorReason};
use tonic::{Code, Status};

use super::messages;
use crate::agent::{AgentError, InvalidClock, Refusal};
use crate::pool::ClaimError;
use crate::service::{ErrorKind, ServiceError};

/// One line of the table; the reason is the error's kind.
struct Row {
    code: Code,
    retry: Retry,
    hint: &'static str,
}

enum Retry {
    Never,
    /// After this long, where somebody knows.
    Later(Option<Duration>),
}

const fn row(code: Code, hint: &'static str) -> Row {
    Row { code, retry: Retry::Never, hint }
}

const fn later(code: Code, after: Option<Duration>, hint: &'static str) -> Row {
    Row { code, retry: Retry::Later(after), hint }
}

fn table(error: &ServiceError) -> Row {
    match error {
        ServiceError::Invalid { .. } => row(Code::InvalidArgument, ""),
        ServiceError::Clock(InvalidClock::Moment) => row(
            Code::InvalidArgument,
            "give `now` as a timestamp such as 2024-01-02T03:04:05Z, or leave it out",
        ),
        ServiceError::Clock(InvalidClock::Timezone) => row(
            Code::InvalidArgument,
            "`ls /usr/share/zoneinfo` in the sandbox shows the names; for a rule of your own set TZ in `env`",
        ),
        ServiceError::Limit { .. } | ServiceError::TimeLimit { .. } => row(
            Code::InvalidArgument,
            "ask for less, or have the operator raise the limit in the configuration",
        ),
        ServiceError::UnknownTemplate { .. } => row(Code::NotFound, "ListTemplates names what there is"),
        ServiceError::UnknownSandbox => {
            row(Code::NotFound, "it never was, it ended long ago, or it is not yours")
        }
        // A call that comes too late meets a fact; one that was under way met an accident.
        ServiceError::Ended { during, .. } => row(
            if *during { Code::Unavailable } else { Code::FailedPrecondition },
            "create a new sandbox; what was in this one is gone",
        ),
        ServiceError::Paused => row(Code::FailedPrecondition, "resume it first"),
        ServiceError::UnderWay { .. } => {
            later(Code::FailedPrecondition, None, "wait for the calls in the sandbox to end, or cancel them")
        }
        ServiceError::UnknownExecution => {
            row(Code::NotFound, "List of Executions names what there is; others end with their call")
        }
        ServiceError::UnknownContext => row(Code::NotFound, "create one, or name none"),
        ServiceError::InterpreterFull { .. } => {
            later(Code::ResourceExhausted, None, "wait for runs to end, or remove contexts")
        }
        ServiceError::UnknownWatcher => row(Code::NotFound, "watch the directory again"),
        ServiceError::PortClosed { .. } => row(Code::NotFound, "start a program that serves it"),
        ServiceError::ExecutionEnded => row(Code::NotFound, "Wait tells how it ended"),
        ServiceError::TooManyDetached { .. } => {
            later(Code::ResourceExhausted, None, "wait for one to end, or end one with Signal")
        }
        ServiceError::TurnsSpent { .. } => row(
            Code::ResourceExhausted,
            "files can still be read and written; create a sandbox with a larger max_turns to run more",
        ),
        ServiceError::MissingScope { .. } => row(Code::PermissionDenied, "use a token with this scope"),
        ServiceError::NetworkForbidden { .. } => row(
            Code::PermissionDenied,
            "use a token made with `rekindle token create --network`, or leave the policy out",
        ),
        ServiceError::GatewayForbidden { .. } => row(
            Code::PermissionDenied,
            "use a token made with `rekindle token create --gateway`, or leave the service out",
        ),
        ServiceError::RootForbidden { .. } => row(
            Code::PermissionDenied,
            "leave the user out, or ask the operator for a token without `--no-root` and a template with `root = true`",
        ),
        ServiceError::Quota { .. } => later(
            Code::ResourceExhausted,
            None,
            "destroy sandboxes you no longer need, or ask for a larger quota",
        ),
        ServiceError::CallRate { retry_after, .. } => later(
            Code::ResourceExhausted,
            Some(*retry_after),
            "make fewer calls, or have the operator raise auth.max_calls_per_second",
        ),
        ServiceError::Claim(error) => claim(error),
        ServiceError::LowDisk(_) => low_disk(),
        ServiceError::Agent(error) => agent(error),
        ServiceError::Machine(_) => row(Code::Internal, "the supervisor's log says more"),
        ServiceError::KeyReused => row(Code::AlreadyExists, "use a new key for every new request"),
        ServiceError::ResultGone => row(
            Code::AlreadyExists,
            "it is not done again: use a new key for that, and with Execute a smaller output_limit to have results kept for longer",
        ),
        ServiceError::Shared(error) => table(error),
        ServiceError::ShuttingDown => shutting_down(),
        ServiceError::NotDescribed { .. } => row(
            Code::FailedPrecondition,
            "describe fewer or smaller data, or look at it with a program of your own",
        ),
        ServiceError::Lagged => later(Code::OutOfRange, None, "list and watch again, and read faster"),
        ServiceError::Deadline { .. } => row(Code::DeadlineExceeded, "give the call more time"),
        ServiceError::Random(_) => row(Code::Internal, "the supervisor's log says more"),
    }
}

fn claim(error: &ClaimError) -> Row {
    match error {
        ClaimError::UnknownTemplate { .. } => row(Code::NotFound, "ListTemplates names what there is"),
        ClaimError::Full { retry_after, .. } => later(
            Code::ResourceExhausted,
            Some(*retry_after),
            "wait longer with queue_timeout, try another host, or destroy sandboxes",
        ),
        ClaimError::QueueFull { retry_after, .. } => {
            later(Code::ResourceExhausted, Some(*retry_after), "try again later or on another host")
        }
        ClaimError::ShareFull { retry_after, .. } => later(
            Code::ResourceExhausted,
            Some(*retry_after),
            "wait for the tenant's own requests to be met before asking for more",
        ),
        ClaimError::TooLarge { .. } => row(
            Code::ResourceExhausted,
            "this host can never hold it; use a smaller template or a larger budget",
        ),
        ClaimError::LowDisk(_) => low_disk(),
        ClaimError::Start(_) => later(
            Code::Internal,
            None,
            "the supervisor's log says more; `rekindle doctor` on the host may say why",
        ),
        ClaimError::ShuttingDown => shutting_down(),
    }
}

fn low_disk() -> Row {
    later(
        Code::ResourceExhausted,
        Some(Duration::from_secs(5)),
        "try another host; its operator frees space on the disk of the run directory",
    )
}

fn shutting_down() -> Row {
    later(Code::Unavailable, None, "try again, or another host")
}

fn agent(error: &AgentError) -> Row {
    match error {
        AgentError::Refused { kind, .. } => refused(*kind),
        AgentError::Busy => refused(Refusal::Busy),
        AgentError::Abandoned { .. } | AgentError::Silent { .. } | AgentError::Lost { .. } => {
            row(Code::Unavailable, "create a new sandbox")
        }
        AgentError::Protocol { .. } => row(Code::Unavailable, "create a new sandbox"),
        AgentError::Corrupted { .. } => later(Code::DataLoss, None, "send it again"),
        AgentError::TooLarge { .. } => row(Code::InvalidArgument, "allow more with max_bytes"),
        AgentError::Invalid { .. } => row(Code::InvalidArgument, ""),
        // Who went away hears nothing; who is still there sent something that is no content.
        AgentError::Source(_) => row(Code::InvalidArgument, "send the file once, then its content"),
        AgentError::Sink(_) => row(Code::Cancelled, "the download was cut short"),
    }
}

fn refused(kind: Refusal) -> Row {
    match kind {
        Refusal::InvalidArgument | Refusal::UnknownRequest => row(Code::InvalidArgument, ""),
        Refusal::VersionMismatch | Refusal::GateClosed | Refusal::GateFailed | Refusal::Internal => {
            row(Code::Internal, "the supervisor's log says more")
        }
        Refusal::NotFound => row(Code::NotFound, ""),
        Refusal::PermissionDenied => {
            row(Code::PermissionDenied, "the sandbox's user may write to its home and to /tmp")
        }
        Refusal::AlreadyExists => row(Code::AlreadyExists, ""),
        Refusal::NotADirectory | Refusal::IsADirectory => row(Code::FailedPrecondition, ""),
        Refusal::NotEmpty => row(Code::FailedPrecondition, "set `recursive` to remove what is in it"),
        Refusal::NoSpace => row(Code::ResourceExhausted, "remove files in the sandbox"),
        Refusal::TooLarge => row(Code::InvalidArgument, ""),
        Refusal::ChecksumMismatch => later(Code::DataLoss, None, "send it again"),
        Refusal::Busy => later(
            Code::ResourceExhausted,
            Some(Duration::from_millis(100)),
            "fewer calls at once in one sandbox",
        ),
        Refusal::SpawnFailed => row(Code::FailedPrecondition, ""),
    }
}

/// The reason of a kind of failure.
pub(super) fn reason(kind: ErrorKind) -> ErrorReason {
    match kind {
        ErrorKind::InvalidRequest => ErrorReason::InvalidRequest,
        ErrorKind::LimitExceeded => ErrorReason::LimitExceeded,
        ErrorKind::UnknownTemplate => ErrorReason::UnknownTemplate,
        ErrorKind::UnknownSandbox => ErrorReason::UnknownSandbox,
        ErrorKind::SandboxEnded => ErrorReason::SandboxEnded,
        ErrorKind::SandboxPaused => ErrorReason::SandboxPaused,
        ErrorKind::AgentLost => ErrorReason::AgentLost,
        ErrorKind::VmLost => ErrorReason::VmLost,
        ErrorKind::OutOfMemory => ErrorReason::OutOfMemory,
        ErrorKind::StartFailed => ErrorReason::StartFailed,
        ErrorKind::HostFull => ErrorReason::HostFull,
        ErrorKind::QueueFull => ErrorReason::QueueFull,
        ErrorKind::QuotaExceeded => ErrorReason::QuotaExceeded,
        ErrorKind::Busy => ErrorReason::Busy,
        ErrorKind::MissingScope => ErrorReason::MissingScope,
        ErrorKind::KeyReused => ErrorReason::KeyReused,
        ErrorKind::NotFound => ErrorReason::NotFound,
        ErrorKind::PermissionDenied => ErrorReason::PermissionDenied,
        ErrorKind::AlreadyExists => ErrorReason::AlreadyExists,
        ErrorKind::WrongFileKind => ErrorReason::WrongFileKind,
        ErrorKind::NoSpace => ErrorReason::NoSpace,
        ErrorKind::Corrupted => ErrorReason::Corrupted,
        ErrorKind::SpawnFailed => ErrorReason::SpawnFailed,
        ErrorKind::ShuttingDown => ErrorReason::ShuttingDown,
        ErrorKind::WatchLagged => ErrorReason::WatchLagged,
        ErrorKind::Internal => ErrorReason::Internal,
        ErrorKind::Deadline => ErrorReason::Deadline,
        ErrorKind::HostDiskFull => ErrorReason::HostDiskFull,
        ErrorKind::RateLimited => ErrorReason::RateLimited,
        ErrorKind::NetworkForbidden => ErrorReason::NetworkForbidden,
        ErrorKind::RootForbidden => ErrorReason::RootForbidden,
        ErrorKind::TurnsSpent => ErrorReason::TurnsSpent,
    }
}

/// The status of an error, with its detail.
pub(super) fn status(error: &ServiceError) -> Status {
    let row = table(error);
    let (retryable, after) = match row.retry {
        Retry::Never => (false, None),
        Retry::Later(after) => (true, after),
    };
    let detail = ErrorDetail {
        reason: reason(error.kind()).into(),
        retryable,
        retry_after: after.map(duration),
        hint: Some(row.hint)
            .filter(|hint| !hint.is_empty())
            .or_else(|| own_hint(error))
            .unwrap_or_default()
            .to_owned(),
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

/// The code of an error.
pub(super) fn code(error: &ServiceError) -> Code {
    table(error).code
}

/// The status of a call that the gRPC library answered by itself, with a detail: a message that is too large or
/// garbled, or a method that does not exist.
pub(super) fn undecoded(status: &Status) -> Status {
    let (code, reason, hint) = match status.code() {
        Code::Unimplemented => (
            Code::Unimplemented,
            ErrorReason::UnknownMethod,
            "the server is of another version, or does not know the encoding; reflection lists its methods",
        ),
        Code::OutOfRange | Code::ResourceExhausted => (
            Code::InvalidArgument,
            ErrorReason::LimitExceeded,
            "send less in one message; Upload and ExecuteStream take many",
        ),
        Code::Cancelled => (Code::Cancelled, ErrorReason::InvalidRequest, "the call was broken off"),
        _ => (
            Code::InvalidArgument,
            ErrorReason::InvalidRequest,
            "send the message that the API's description has for this method",
        ),
    };
    let detail = ErrorDetail { reason: reason.into(), hint: hint.into(), ..ErrorDetail::default() };
    let message = match status.message() {
        "" if code == Code::Unimplemented => "there is no such method",
        "" => "the message cannot be read",
        said => said,
    };
    rekindle_api::status(code, message.to_owned(), &detail)
}

/// Too many calls that need no token.
pub(super) fn too_many_public_calls() -> Status {
    let detail = ErrorDetail {
        reason: ErrorReason::Busy.into(),
        retryable: true,
        hint: "end some of them first".into(),
        ..ErrorDetail::default()
    };
    let message = "too many health checks and reflections on this connection";
    rekindle_api::status(Code::ResourceExhausted, message.into(), &detail)
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

/// What a request that makes no sense says about itself.
fn own_hint(error: &ServiceError) -> Option<&str> {
    let ServiceError::Invalid { what } = innermost(error) else { return None };
    what.lines().find_map(|line| line.strip_prefix("hint: "))
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
