//! Stops a guest from inside.

use std::time::Duration;

use rekindle_protocol::wire::{PoweroffRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Asks the guest to go down. Success means that it has begun to, not that it is gone.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn poweroff(&self, within: Duration) -> Result<(), AgentError> {
        self.command("poweroff", Op::Poweroff(PoweroffRequest {}), within).await
    }
}
