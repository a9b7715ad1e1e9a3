//! Closes the restore gate and leaves a guest quiet, ready for a memory snapshot.

use std::time::Duration;

use rekindle_protocol::wire::{QuiesceRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Closes the gate and syncs; refused as busy while something runs.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub async fn quiesce(&self, drop_caches: bool, within: Duration) -> Result<(), AgentError> {
        self.command("quiesce", Op::Quiesce(QuiesceRequest { drop_caches }), within).await
    }
}
