//! Starts a session: hello on the preamble, then the multiplexer. Called once per byte stream.

use std::sync::Arc;
use std::time::Duration;

use rekindle_protocol::limits::MAX_MESSAGE_BYTES;
use rekindle_protocol::wire::{self, HelloRequest, response::Reply};
use rekindle_protocol::{VERSION, preamble};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::{AgentClient, Session};
use super::error::{AgentError, ConnectError, Refusal};
use super::hello::Hello;
use super::patience::deadline;
use super::user::GuestUser;
use crate::host::untrusted::printable;

/// The operation's name in errors.
const HELLO: &str = "hello";

impl AgentClient {
    /// Starts a session on a byte stream whose other end an agent holds.
    ///
    /// # Errors
    /// See [`ConnectError`]. The byte stream is dropped; a serial port can be dialled again.
    pub async fn connect(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        within: Duration,
    ) -> Result<Self, ConnectError> {
        let request = HelloRequest {
            version: Some(VERSION),
            program: concat!("rekindle ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let (answer, io) =
            preamble::initiate(io, request, deadline(within)).await.map_err(ConnectError::Preamble)?;
        let answer = match answer {
            Reply::Hello(answer) => answer,
            Reply::Error(error) => return Err(refused(&error)),
            _ => return Err(nonsense("an answer that is no hello")),
        };
        // The version comes first: nothing else of another major version can be relied upon.
        if let Some(agent) = answer.version.filter(|agent| agent.major != VERSION.major) {
            return Err(ConnectError::Version { host: VERSION.into(), agent: agent.into() });
        }
        let hello = Hello::from_wire(&answer).map_err(nonsense)?;
        Ok(Self { session: Session::start(io), hello: Arc::new(hello), user: GuestUser::default() })
    }
}

/// A refusal in the agent's own words.
fn refused(error: &wire::Error) -> ConnectError {
    let message = printable(&error.message, MAX_MESSAGE_BYTES);
    match Refusal::from_wire(error.code) {
        Refusal::VersionMismatch => ConnectError::VersionRefused { host: VERSION.into(), message },
        kind => ConnectError::Hello(AgentError::Refused { operation: HELLO, kind, message }),
    }
}

fn nonsense(what: &'static str) -> ConnectError {
    ConnectError::Hello(AgentError::Protocol { operation: HELLO, what: what.into() })
}

#[cfg(test)]
mod tests;
