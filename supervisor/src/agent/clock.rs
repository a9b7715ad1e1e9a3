//! Sets a guest's wall clock, which stands still while its processors do.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rekindle_protocol::wire::{ClockRequest, request::Op};

use super::client::AgentClient;
use super::error::AgentError;

impl AgentClient {
    /// Sets the clock to the host's.
    ///
    /// # Errors
    /// See [`AgentError`]. Agents before protocol 3.4 refuse it as unknown.
    pub async fn set_clock(&self, within: Duration) -> Result<(), AgentError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.command("clock", Op::Clock(ClockRequest { unix_nanos }), within).await
    }
}
