//! Has a guest start interpreters that wait for code to run.

use std::time::Duration;

use rekindle_protocol::wire::{WarmRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Starts the interpreters and returns when they wait.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn warm(&self, request: WarmRequest, within: Duration) -> Result<(), AgentError> {
        self.command("warm", Op::Warm(request), within).await
    }
}
