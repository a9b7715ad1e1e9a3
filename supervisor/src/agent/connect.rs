//! Starts a session: hello on the preamble, then the multiplexer. Called once per byte stream.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rekindle_protocol::limits::{MAX_HELLO_BYTES, MAX_MESSAGE_BYTES};
use rekindle_protocol::wire::{self, HelloRequest, RestoreRequest, response::Reply};
use rekindle_protocol::{VERSION, preamble};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::{AgentClient, Session};
use super::error::{AgentError, ConnectError, Refusal};
use super::hello::Hello;
use super::patience::deadline;
use super::restore::RESTORE;
use super::untrusted::printable;

/// The operation's name in errors.
const HELLO: &str = "hello";
/// What a hello is besides the restore it brings, and more.
const OWN_BYTES: usize = 1024;

impl AgentClient {
    /// Starts a session on a byte stream whose other end an agent holds.
    ///
    /// # Errors
    /// See [`ConnectError`]. The byte stream is dropped; a serial port can be dialled again.
    pub async fn connect(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        Self::greet(io, None, within).await
    }

    /// The same, and opens the restore gate in the same exchange. An older agent does not, and neither does one whose
    /// hello would be too long: [`Hello::restored`] tells.
    ///
    /// # Errors
    /// See [`ConnectError`]; after any of them the guest must not be used.
    pub async fn connect_with(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        restore: RestoreRequest,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        let fits = restore.encoded_len() + OWN_BYTES <= MAX_HELLO_BYTES;
        Self::greet(io, fits.then_some(restore), within).await
    }

    async fn greet(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        restore: Option<RestoreRequest>,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        let with_restore = restore.is_some();
        let request = HelloRequest {
            version: Some(VERSION),
            program: concat!("rekindle ", env!("CARGO_PKG_VERSION")).to_owned(),
            restore,
        };
        let (answer, io) =
            preamble::initiate(io, request, deadline(within)).await.map_err(ConnectError::Preamble)?;
        let answer = match answer {
            Reply::Hello(answer) => answer,
            Reply::Error(error) => return Err(refused(&error, with_restore)),
            _ => return Err(nonsense("an answer that is no hello")),
        };
        // The version comes first: nothing else of another major version can be relied upon.
        if let Some(agent) = answer.version.filter(|agent| agent.major != VERSION.major) {
            return Err(ConnectError::Version { host: VERSION.into(), agent: agent.into() });
        }
        let hello = Hello::from_wire(&answer).map_err(nonsense)?;
        if hello.restored && !with_restore {
            return Err(nonsense("a restore that nobody asked for"));
        }
        Ok(Self { session: Session::start(io), hello: Arc::new(hello) })
    }
}

/// A refusal in the agent's own words.
fn refused(error: &wire::Error, with_restore: bool) -> ConnectError {
    let message = printable(&error.message, MAX_MESSAGE_BYTES);
    match Refusal::from_wire(error.code) {
        Refusal::VersionMismatch => ConnectError::VersionRefused { host: VERSION.into(), message },
        kind if with_restore => ConnectError::Gate(AgentError::Refused { operation: RESTORE, kind, message }),
        kind => ConnectError::Hello(AgentError::Refused { operation: HELLO, kind, message }),
    }
}

fn nonsense(what: &'static str) -> ConnectError {
    ConnectError::Hello(AgentError::Protocol { operation: HELLO, what: what.into() })
}

#[cfg(test)]
mod tests;
