//! Starts a session: preamble, multiplexer, hello. Called once per byte stream.

use std::sync::Arc;
use std::time::Duration;

use rekindle_protocol::wire::{HelloRequest, request::Op, response::Reply};
use rekindle_protocol::{VERSION, preamble};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::{AgentClient, Lane, Session};
use super::error::{AgentError, ConnectError, Refusal};
use super::hello::Hello;
use super::operation::Operation;
use super::patience::deadline;

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
        let deadline = deadline(within);
        let begun = tokio::time::Instant::now();
        let io = preamble::initiate(io, deadline).await.map_err(ConnectError::Preamble)?;
        tracing::debug!(after = ?begun.elapsed(), "the preamble was answered");
        let session = Session::start(io);
        let request = HelloRequest {
            version: Some(VERSION),
            program: concat!("rekindle ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let answer = async {
            let mut hello =
                Operation::begin(&session, HELLO, Lane::Call, Op::Hello(request), deadline).await?;
            match hello.receive(Some(deadline)).await? {
                Reply::Hello(answer) => Ok(answer),
                other => Err(hello.unexpected(&other)),
            }
        };
        let answer = answer.await.map_err(|error| match error {
            AgentError::Refused { kind: Refusal::VersionMismatch, message, .. } => {
                ConnectError::VersionRefused { host: VERSION.into(), message }
            }
            other => ConnectError::Hello(other),
        })?;
        // The version comes first: nothing else of another major version can be relied upon.
        if let Some(agent) = answer.version.filter(|agent| agent.major != VERSION.major) {
            return Err(ConnectError::Version { host: VERSION.into(), agent: agent.into() });
        }
        let hello = Hello::from_wire(&answer).map_err(|what| {
            ConnectError::Hello(AgentError::Protocol { operation: HELLO, what: what.into() })
        })?;
        Ok(Self { session, hello: Arc::new(hello) })
    }
}

#[cfg(test)]
mod tests;
