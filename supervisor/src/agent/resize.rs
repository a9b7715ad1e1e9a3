//! Changes the size of a running execution's terminal.

use std::time::Duration;

use rekindle_protocol::wire::{ResizeRequest, TerminalSize, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Tells an execution's terminal its new size.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn resize(
        &self,
        execution: u64,
        size: TerminalSize,
        within: Duration,
    ) -> Result<(), AgentError> {
        let request = ResizeRequest { execution, size: Some(size) };
        self.command("resize", Op::Resize(request), within).await
    }
}
