//! Asks for a sign of life.

use std::time::Duration;

use rekindle_protocol::wire::{PingRequest, request::Op, response::Reply};

use super::client::AgentClient;
use super::error::AgentError;

/// The guest's clocks. A guest can say anything here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pong {
    /// Its wall clock in nanoseconds since 1970.
    pub unix_nanos: u64,
    /// Nanoseconds since it booted.
    pub boot_nanos: u64,
}

impl AgentClient {
    /// Asks for a sign of life.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn ping(&self, within: Duration) -> Result<Pong, AgentError> {
        match self.call("ping", Op::Ping(PingRequest {}), within).await? {
            (_, Reply::Pong(pong)) => Ok(Pong { unix_nanos: pong.unix_nanos, boot_nanos: pong.boot_nanos }),
            (operation, other) => Err(operation.unexpected(&other)),
        }
    }
}
