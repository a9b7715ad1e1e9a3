//! Why the service said no. `grpc` has the one table that turns these into status codes and details.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::caller::Scope;
use super::sandbox::End;
use crate::agent::{AgentError, Refusal};
use crate::config::TemplateName;
use crate::host::disk::LowDisk;
use crate::pool::ClaimError;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The request makes no sense.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it.
        what: Cow<'static, str>,
    },
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
    /// The caller lacks a scope.
    #[error("this token lacks the scope `{scope}`")]
    MissingScope {
        /// Which one.
        scope: Scope,
    },
    /// The tenant has as much as it may have.
    #[error("the tenant's quota of {most} {what} is used up")]
    Quota {
        /// Of what.
        what: &'static str,
        /// How much it may have.
        most: u64,
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
    /// The idempotency key belongs to another program.
    #[error("the idempotency key was used for another program")]
    KeyReused,
    /// The program of the idempotency key has run, and its result had to make room for later ones.
    #[error("the program of the idempotency key has run, and its result is no longer kept")]
    ResultGone,
    /// The call that ran the program for this idempotency key failed.
    #[error(transparent)]
    Shared(Arc<ServiceError>),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// A watch could not keep up.
    ///
    /// It does not say how many it missed: that counts other tenants' events too.
    #[error("events were missed")]
    Lagged,
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

    /// Its short name in timelines and metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_request",
            Self::Limit { .. } => "limit_exceeded",
            Self::UnknownTemplate { .. } => "unknown_template",
            Self::UnknownSandbox => "unknown_sandbox",
            Self::Ended { end, .. } => end.reason.word(),
            Self::Paused => "sandbox_paused",
            Self::UnderWay { .. } => "busy",
            Self::MissingScope { .. } => "missing_scope",
            Self::Quota { .. } => "quota_exceeded",
            Self::Claim(error) => match error {
                ClaimError::UnknownTemplate { .. } => "unknown_template",
                ClaimError::Full { .. } | ClaimError::TooLarge { .. } => "host_full",
                ClaimError::QueueFull { .. } | ClaimError::ShareFull { .. } => "queue_full",
                ClaimError::LowDisk(_) => "host_disk_full",
                ClaimError::Start(_) => "start_failed",
                ClaimError::ShuttingDown => "shutting_down",
            },
            Self::LowDisk(_) => "host_disk_full",
            Self::Agent(error) => agent_word(error),
            Self::Machine(_) | Self::Random(_) => "internal",
            Self::KeyReused | Self::ResultGone => "key_reused",
            Self::Shared(error) => error.word(),
            Self::ShuttingDown => "shutting_down",
            Self::Lagged => "watch_lagged",
            Self::Deadline { .. } => "deadline",
        }
    }
}

/// The same names as the reasons of the API.
fn agent_word(error: &AgentError) -> &'static str {
    match error {
        AgentError::Refused { kind, .. } => match kind {
            Refusal::InvalidArgument | Refusal::UnknownRequest => "invalid_request",
            Refusal::VersionMismatch | Refusal::GateClosed | Refusal::GateFailed | Refusal::Internal => {
                "internal"
            }
            Refusal::NotFound => "not_found",
            Refusal::PermissionDenied => "permission_denied",
            Refusal::AlreadyExists => "already_exists",
            Refusal::NotADirectory | Refusal::IsADirectory | Refusal::NotEmpty => "wrong_file_kind",
            Refusal::NoSpace => "no_space",
            Refusal::TooLarge => "limit_exceeded",
            Refusal::ChecksumMismatch => "corrupted",
            Refusal::Busy => "busy",
            Refusal::SpawnFailed => "spawn_failed",
        },
        AgentError::Busy => "busy",
        AgentError::Abandoned { .. }
        | AgentError::Silent { .. }
        | AgentError::Lost { .. }
        | AgentError::Protocol { .. } => "agent_lost",
        AgentError::Corrupted { .. } => "corrupted",
        AgentError::TooLarge { .. } => "limit_exceeded",
        AgentError::Invalid { .. } => "invalid_request",
        // One side of a transfer broke off.
        AgentError::Source(_) | AgentError::Sink(_) => "cancelled",
    }
}
