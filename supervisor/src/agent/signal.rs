//! Sends a signal to a running execution.

use std::time::Duration;

use rekindle_protocol::wire::{SignalRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Sends a signal to an execution's first process, or to `everyone` in it.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn signal(
        &self,
        execution: u64,
        signal: u8,
        everyone: bool,
        within: Duration,
    ) -> Result<(), AgentError> {
        let request = SignalRequest { execution, signal: signal.into(), everyone };
        self.command("signal", Op::Signal(request), within).await
    }
}
