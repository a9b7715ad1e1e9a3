//! Why the service said no. `grpc` has the one table that turns these into status codes and details.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::caller::Scope;
use super::sandbox::{End, EndReason};
use super::timeline::TimelineOutcome;
use crate::agent::{AgentError, InvalidClock, Refusal};
use crate::config::TemplateName;
use crate::host::disk::LowDisk;
use crate::pool::ClaimError;

/// When a host whose disk is nearly full is worth asking again.
const AFTER_LOW_DISK: Duration = Duration::from_secs(5);

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The request makes no sense.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it.
        what: Cow<'static, str>,
    },
    /// There can be no such clock.
    #[error(transparent)]
    Clock(#[from] InvalidClock),
    /// A number is beyond what this server allows.
    #[error("{what} is {asked}, and this server allows at most {most}")]
    Limit {
        /// Which number.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// What is allowed.
        most: u64,
    },
    /// A time is longer than this server allows.
    #[error("{what} is {asked:?}, and this server allows at most {most:?}")]
    TimeLimit {
        /// Which time.
        what: &'static str,
        /// What was asked for.
        asked: Duration,
        /// What is allowed.
        most: Duration,
    },
    /// No such template.
    #[error("there is no template named {name}")]
    UnknownTemplate {
        /// The name.
        name: TemplateName,
    },
    /// No such sandbox, or another tenant's: nobody is told which.
    #[error("there is no such sandbox")]
    UnknownSandbox,
    /// The sandbox has ended.
    #[error("the sandbox has ended: {}", end.message)]
    Ended {
        /// How.
        end: End,
        /// It ended while this call was under way.
        during: bool,
    },
    /// The sandbox is paused.
    #[error("the sandbox is paused")]
    Paused,
    /// Something is under way that must end first.
    #[error("{calls} calls are under way in the sandbox")]
    UnderWay {
        /// How many.
        calls: usize,
    },
    /// No such detached execution in the sandbox, or it ended too long ago.
    #[error("there is no such execution in the sandbox")]
    UnknownExecution,
    /// No such watcher in the sandbox, or its watch has failed.
    #[error("there is no such watcher in the sandbox")]
    UnknownWatcher,
    /// The execution has ended.
    #[error("the execution has ended")]
    ExecutionEnded,
    /// No program in the sandbox serves this port.
    #[error("nothing listens at port {port} of the sandbox")]
    PortClosed {
        /// Which one.
        port: u16,
    },
    /// The sandbox has as many detached programs as it may have.
    #[error("{most} detached executions run in the sandbox, and it may have no more")]
    TooManyDetached {
        /// How many it may have.
        most: usize,
    },
    /// The sandbox has had all its turns.
    #[error("the {most} turns of the sandbox are spent")]
    TurnsSpent {
        /// How many it had.
        most: u32,
    },
    /// The caller lacks a scope.
    #[error("this token lacks the scope `{scope}`")]
    MissingScope {
        /// Which one.
        scope: Scope,
    },
    /// The token does not allow this network policy.
    #[error("this token does not allow the network policy {name:?}")]
    NetworkForbidden {
        /// Which one.
        name: String,
    },
    /// The token does not allow this service of the gateway.
    #[error("this token does not allow the gateway's service {service:?}")]
    GatewayForbidden {
        /// Which one.
        service: String,
    },
    /// Nobody is root in this sandbox, or not this caller.
    #[error("{by} does not allow root in its sandboxes")]
    RootForbidden {
        /// Who forbids it.
        by: &'static str,
    },
    /// The tenant has as much as it may have.
    #[error("the tenant's quota of {most} {what} is used up")]
    Quota {
        /// Of what.
        what: &'static str,
        /// How much it may have.
        most: u64,
    },
    /// The tenant calls more often than it may.
    #[error("the tenant makes more than {per_second} calls a second")]
    CallRate {
        /// How many it may make.
        per_second: u32,
        /// When the next one is let in.
        retry_after: Duration,
    },
    /// No machine could be had.
    #[error(transparent)]
    Claim(ClaimError),
    /// The host's disk is nearly full, and what is written might be lost.
    #[error(transparent)]
    LowDisk(LowDisk),
    /// The agent refused, or the call failed without ending the sandbox.
    #[error(transparent)]
    Agent(AgentError),
    /// The machine refused to be paused or resumed.
    #[error("the machine refused")]
    Machine(#[source] crate::engine::EngineError),
    /// The idempotency key or request id belongs to another request.
    #[error("the key was used for another request")]
    KeyReused,
    /// What the key stands for was done, and its result had to make room for later ones.
    #[error("the request with this key was carried out, and its result is no longer kept")]
    ResultGone,
    /// The call that did the work for this key failed.
    #[error(transparent)]
    Shared(Arc<ServiceError>),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// A watch could not keep up. It does not say how many it missed: that counts other tenants' events too.
    #[error("events were missed")]
    Lagged,
    /// There is no such context in the sandbox.
    #[error("there is no such context")]
    UnknownContext,
    /// A code interpreter has all that it may have.
    #[error("{most} {what}, and more may not")]
    InterpreterFull {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// The program that describes data did not do its work.
    #[error("nothing was described: {0}")]
    NotDescribed(Cow<'static, str>),
    /// The deadline of the call was over.
    #[error("the deadline of the call was over after {after:?}")]
    Deadline {
        /// How long it had.
        after: Duration,
    },
    /// No random bytes could be had.
    #[error("no random bytes could be had")]
    Random(#[source] getrandom::Error),
}

impl ServiceError {
    /// A request that makes no sense.
    pub(super) fn invalid(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid { what: what.into() }
    }

    /// Refuses a number that is too large.
    pub(super) fn bound(what: &'static str, asked: u64, most: u64) -> Result<(), Self> {
        if asked <= most { Ok(()) } else { Err(Self::Limit { what, asked, most }) }
    }

    /// Refuses a time that is too long.
    pub(super) fn bound_time(what: &'static str, asked: Duration, most: Duration) -> Result<(), Self> {
        if asked <= most { Ok(()) } else { Err(Self::TimeLimit { what, asked, most }) }
    }

    /// Refuses no time at all.
    pub(super) fn more_than_zero(what: &'static str, asked: Duration) -> Result<(), Self> {
        if asked.is_zero() { Err(Self::invalid(format!("{what} must be more than zero"))) } else { Ok(()) }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. } | Self::Clock(_) => ErrorKind::InvalidRequest,
            Self::Limit { .. } | Self::TimeLimit { .. } => ErrorKind::LimitExceeded,
            Self::UnknownTemplate { .. } => ErrorKind::UnknownTemplate,
            Self::UnknownSandbox => ErrorKind::UnknownSandbox,
            Self::Ended { end, during } => ended_kind(end.reason, *during),
            Self::Paused => ErrorKind::SandboxPaused,
            Self::UnderWay { .. } | Self::TooManyDetached { .. } | Self::InterpreterFull { .. } => {
                ErrorKind::Busy
            }
            Self::UnknownExecution
            | Self::ExecutionEnded
            | Self::UnknownWatcher
            | Self::UnknownContext
            | Self::PortClosed { .. } => ErrorKind::NotFound,
            Self::TurnsSpent { .. } => ErrorKind::TurnsSpent,
            Self::MissingScope { .. } => ErrorKind::MissingScope,
            Self::NetworkForbidden { .. } | Self::GatewayForbidden { .. } => ErrorKind::NetworkForbidden,
            Self::RootForbidden { .. } => ErrorKind::RootForbidden,
            Self::Quota { .. } => ErrorKind::QuotaExceeded,
            Self::CallRate { .. } => ErrorKind::RateLimited,
            Self::Claim(error) => match error {
                ClaimError::UnknownTemplate { .. } => ErrorKind::UnknownTemplate,
                ClaimError::Full { .. } | ClaimError::TooLarge { .. } => ErrorKind::HostFull,
                ClaimError::QueueFull { .. } | ClaimError::ShareFull { .. } => ErrorKind::QueueFull,
                ClaimError::LowDisk(_) => ErrorKind::HostDiskFull,
                ClaimError::Start(_) => ErrorKind::StartFailed,
                ClaimError::ShuttingDown => ErrorKind::ShuttingDown,
            },
            Self::LowDisk(_) => ErrorKind::HostDiskFull,
            Self::Agent(error) => agent_kind(error),
            Self::Machine(_) | Self::Random(_) => ErrorKind::Internal,
            Self::KeyReused | Self::ResultGone => ErrorKind::KeyReused,
            Self::Shared(error) => error.kind(),
            Self::ShuttingDown => ErrorKind::ShuttingDown,
            Self::Lagged => ErrorKind::WatchLagged,
            Self::NotDescribed(_) => ErrorKind::SpawnFailed,
            Self::Deadline { .. } => ErrorKind::Deadline,
        }
    }

    /// When it is worth asking again, where somebody knows.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::CallRate { retry_after, .. }
            | Self::Claim(
                ClaimError::Full { retry_after, .. }
                | ClaimError::QueueFull { retry_after, .. }
                | ClaimError::ShareFull { retry_after, .. },
            ) => Some(*retry_after),
            Self::LowDisk(_) | Self::Claim(ClaimError::LowDisk(_)) => Some(AFTER_LOW_DISK),
            Self::Shared(error) => error.retry_after(),
            _ => None,
        }
    }

    /// Its short name in metrics and the audit log.
    #[must_use]
    pub fn word(&self) -> &'static str {
        TimelineOutcome::of(self).word()
    }
}

/// A call that comes too late meets a fact; one that was under way met an accident.
fn ended_kind(reason: EndReason, during: bool) -> ErrorKind {
    match reason {
        EndReason::OutOfMemory if during => ErrorKind::OutOfMemory,
        EndReason::AgentLost if during => ErrorKind::AgentLost,
        EndReason::VmLost if during => ErrorKind::VmLost,
        _ => ErrorKind::SandboxEnded,
    }
}

fn agent_kind(error: &AgentError) -> ErrorKind {
    match error {
        AgentError::Refused { kind, .. } => match kind {
            Refusal::InvalidArgument | Refusal::UnknownRequest => ErrorKind::InvalidRequest,
            Refusal::VersionMismatch | Refusal::GateClosed | Refusal::GateFailed | Refusal::Internal => {
                ErrorKind::Internal
            }
            Refusal::NotFound => ErrorKind::NotFound,
            Refusal::PermissionDenied => ErrorKind::PermissionDenied,
            Refusal::AlreadyExists => ErrorKind::AlreadyExists,
            Refusal::NotADirectory | Refusal::IsADirectory | Refusal::NotEmpty => ErrorKind::WrongFileKind,
            Refusal::NoSpace => ErrorKind::NoSpace,
            Refusal::TooLarge => ErrorKind::LimitExceeded,
            Refusal::ChecksumMismatch => ErrorKind::Corrupted,
            Refusal::Busy => ErrorKind::Busy,
            Refusal::SpawnFailed => ErrorKind::SpawnFailed,
        },
        AgentError::Busy => ErrorKind::Busy,
        AgentError::Abandoned { .. }
        | AgentError::Silent { .. }
        | AgentError::Lost { .. }
        | AgentError::Protocol { .. } => ErrorKind::AgentLost,
        AgentError::Corrupted { .. } => ErrorKind::Corrupted,
        AgentError::TooLarge { .. } => ErrorKind::LimitExceeded,
        // Who sent something that is no content, or reads no more.
        AgentError::Invalid { .. } | AgentError::Source(_) | AgentError::Sink(_) => ErrorKind::InvalidRequest,
    }
}

/// Kinds of failures: the reasons of the API, one for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "documented in the API")]
pub enum ErrorKind {
    InvalidRequest,
    LimitExceeded,
    UnknownTemplate,
    UnknownSandbox,
    SandboxEnded,
    SandboxPaused,
    AgentLost,
    VmLost,
    OutOfMemory,
    StartFailed,
    HostFull,
    QueueFull,
    QuotaExceeded,
    Busy,
    MissingScope,
    KeyReused,
    NotFound,
    PermissionDenied,
    AlreadyExists,
    WrongFileKind,
    NoSpace,
    Corrupted,
    SpawnFailed,
    ShuttingDown,
    WatchLagged,
    Internal,
    Deadline,
    HostDiskFull,
    RateLimited,
    NetworkForbidden,
    RootForbidden,
    TurnsSpent,
}

impl ErrorKind {
    /// Its short name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::LimitExceeded => "limit_exceeded",
            Self::UnknownTemplate => "unknown_template",
            Self::UnknownSandbox => "unknown_sandbox",
            Self::SandboxEnded => "sandbox_ended",
            Self::SandboxPaused => "sandbox_paused",
            Self::AgentLost => "agent_lost",
            Self::VmLost => "vm_lost",
            Self::OutOfMemory => "out_of_memory",
            Self::StartFailed => "start_failed",
            Self::HostFull => "host_full",
            Self::QueueFull => "queue_full",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Busy => "busy",
            Self::MissingScope => "missing_scope",
            Self::KeyReused => "key_reused",
            Self::NotFound => "not_found",
            Self::PermissionDenied => "permission_denied",
            Self::AlreadyExists => "already_exists",
            Self::WrongFileKind => "wrong_file_kind",
            Self::NoSpace => "no_space",
            Self::Corrupted => "corrupted",
            Self::SpawnFailed => "spawn_failed",
            Self::ShuttingDown => "shutting_down",
            Self::WatchLagged => "watch_lagged",
            Self::Internal => "internal",
            Self::Deadline => "deadline",
            Self::HostDiskFull => "host_disk_full",
            Self::RateLimited => "rate_limited",
            Self::NetworkForbidden => "network_forbidden",
            Self::RootForbidden => "root_forbidden",
            Self::TurnsSpent => "turns_spent",
        }
    }
}
