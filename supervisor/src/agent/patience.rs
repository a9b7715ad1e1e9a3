//! How long the supervisor waits for an agent. Deadlines are the only defence against a guest that says
//! nothing at all, so no call goes without one.

use std::time::Duration;

use tokio::time::Instant;

/// Far enough to never come, near enough to be added to any instant.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// When a wait that starts now ends.
pub(super) fn deadline(within: Duration) -> Instant {
    Instant::now() + within.min(FOREVER)
}

/// How long to wait in an execution.
#[derive(Debug, Clone, Copy)]
pub struct ExecutePatience {
    /// For the program to be started.
    pub start: Duration,
    /// For the result, after the execution's own time limit has passed. An execution without a time limit is
    /// waited for without one.
    pub grace: Duration,
}

impl Default for ExecutePatience {
    fn default() -> Self {
        Self { start: Duration::from_secs(60), grace: Duration::from_secs(30) }
    }
}

/// How long to wait in a transfer.
#[derive(Debug, Clone, Copy)]
pub struct TransferPatience {
    /// For the agent to take or bring the next piece, and to put a finished file in its place.
    pub stall: Duration,
    /// For the whole transfer.
    pub total: Duration,
}

impl Default for TransferPatience {
    fn default() -> Self {
        Self { stall: Duration::from_secs(60), total: Duration::from_secs(60 * 60) }
    }
}
