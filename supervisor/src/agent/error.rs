//! What can go wrong between the supervisor and an agent, told apart by what a caller can do about it.
//!
//! Every text that came from a guest has been bounded and made printable before it gets in here.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rekindle_protocol::preamble::PreambleError;
use rekindle_protocol::wire;
use serde::Serialize;

use super::hello::ProtocolVersion;

/// Why no session with an agent came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The two sides did not find each other on the byte stream.
    #[error("no session with the agent could be started")]
    Preamble(#[source] PreambleError),
    /// The agent speaks another major version.
    #[error("the agent speaks protocol {agent}, this supervisor {host}")]
    Version {
        /// Ours.
        host: ProtocolVersion,
        /// The agent's.
        agent: ProtocolVersion,
    },
    /// The agent refused our version, in its own words.
    #[error("the agent refused protocol {host}: {message}")]
    VersionRefused {
        /// Ours.
        host: ProtocolVersion,
        /// The agent's words.
        message: String,
    },
    /// The hello failed in another way.
    #[error("the agent did not introduce itself")]
    Hello(#[source] AgentError),
}

impl ConnectError {
    /// Whether no answer came in time.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Preamble(PreambleError::NoAnswer { .. } | PreambleError::NoHello { .. }))
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The agent said no. The session is fine.
    #[error("{operation} was refused: {message}")]
    Refused {
        /// The operation.
        operation: &'static str,
        /// The reason, for programs.
        kind: Refusal,
        /// The reason, for people.
        message: String,
    },
    /// The whole session is over.
    #[error("the session with the agent was lost during {operation}")]
    Lost {
        /// The operation.
        operation: &'static str,
        /// What ended it; nothing when the agent closed it in good order.
        #[source]
        cause: Option<Arc<io::Error>>,
    },
    /// The agent dropped this operation without a word; the session goes on.
    #[error("the agent gave up {operation} without an answer")]
    Abandoned {
        /// The operation.
        operation: &'static str,
    },
    /// The agent did not answer in time.
    #[error("the agent did not answer {operation} within {waited:?}")]
    Silent {
        /// The operation.
        operation: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The agent sent something it must not send. It cannot be trusted with more.
    #[error("the agent broke the protocol in {operation}: {what}")]
    Protocol {
        /// The operation.
        operation: &'static str,
        /// What was wrong.
        what: Cow<'static, str>,
    },
    /// The bytes that arrived are not the bytes that were sent.
    #[error("the bytes of {operation} were changed on their way")]
    Corrupted {
        /// The operation.
        operation: &'static str,
    },
    /// More arrived than the caller is willing to take.
    #[error("{operation} exceeds {limit} bytes")]
    TooLarge {
        /// The operation.
        operation: &'static str,
        /// The caller's limit.
        limit: u64,
    },
    /// The caller asked for something that cannot be sent.
    #[error("{operation} cannot be asked for: {what}")]
    Invalid {
        /// The operation.
        operation: &'static str,
        /// What is wrong with it.
        what: Cow<'static, str>,
    },
    /// So much is under way on this connection that nothing more was tried.
    #[error("too many operations are under way")]
    Busy,
    /// What was to be uploaded could not be read.
    #[error("the source of an upload could not be read")]
    Source(#[source] io::Error),
    /// What was downloaded could not be written.
    #[error("the target of a download could not be written")]
    Sink(#[source] io::Error),
}

impl AgentError {
    /// Why the agent refused, if that is what happened.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            Self::Busy => Some(Refusal::Busy),
            _ => None,
        }
    }

    /// Whether the session can carry further operations, as far as this error can tell.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Silent { .. } | Self::Protocol { .. })
    }
}

/// The reasons an agent gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The request makes no sense.
    InvalidArgument,
    /// The agent does not know the operation.
    UnknownRequest,
    /// No hello, or the versions do not fit.
    VersionMismatch,
    /// The restore gate is closed.
    GateClosed,
    /// The restore gate could not be opened; the guest must not be used.
    GateFailed,
    /// No such path, program, user or execution.
    NotFound,
    /// The unprivileged user may not do this.
    PermissionDenied,
    /// The path exists.
    AlreadyExists,
    /// A directory was needed.
    NotADirectory,
    /// A file was needed.
    IsADirectory,
    /// The directory holds entries.
    NotEmpty,
    /// The sandbox's disk is full.
    NoSpace,
    /// A limit would be exceeded.
    TooLarge,
    /// The bytes that arrived are not the bytes that were announced.
    ChecksumMismatch,
    /// Too much is under way.
    Busy,
    /// The program could not be started.
    SpawnFailed,
    /// The agent failed, or gave a reason this supervisor does not know.
    Internal,
}

impl Refusal {
    /// The reason behind a number from the wire; one that is unknown is the agent's own failure.
    pub(super) fn from_wire(code: i32) -> Self {
        use wire::ErrorCode as Code;
        match Code::try_from(code).unwrap_or(Code::Internal) {
            Code::InvalidArgument => Self::InvalidArgument,
            Code::UnknownRequest => Self::UnknownRequest,
            Code::VersionMismatch => Self::VersionMismatch,
            Code::GateClosed => Self::GateClosed,
            Code::GateFailed => Self::GateFailed,
            Code::NotFound => Self::NotFound,
            Code::PermissionDenied => Self::PermissionDenied,
            Code::AlreadyExists => Self::AlreadyExists,
            Code::NotADirectory => Self::NotADirectory,
            Code::IsADirectory => Self::IsADirectory,
            Code::NotEmpty => Self::NotEmpty,
            Code::NoSpace => Self::NoSpace,
            Code::TooLarge => Self::TooLarge,
            Code::ChecksumMismatch => Self::ChecksumMismatch,
            Code::Busy => Self::Busy,
            Code::SpawnFailed => Self::SpawnFailed,
            Code::Internal | Code::Unspecified => Self::Internal,
        }
    }
}
