//! Opens the restore gate: makes a clone its own before anything of a caller's runs in it.

use std::time::Duration;

use rekindle_protocol::wire::{RestoreRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Brings fresh entropy, the time, a name and limits. Only its success opens the gate.
    ///
    /// # Errors
    /// See [`AgentError`]; after any of them the guest must not be used.
    pub async fn restore(&self, request: RestoreRequest, within: Duration) -> Result<(), AgentError> {
        self.command("restore", Op::Restore(request), within).await
    }
}
