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

/// How long to wait in an execution. A machine that hangs is found `suspicion` and `sign_of_life` after the
/// execution's own time limit; `start` and `grace` bound the patience with an agent that lives and is slow.
#[derive(Debug, Clone, Copy)]
pub struct ExecutePatience {
    /// For the program to be started.
    pub start: Duration,
    /// For the result, after the execution's own time limit has passed. An execution without a time limit is
    /// waited for without one.
    pub grace: Duration,
    /// For the start, and for the result after the time limit, before the agent is asked for a sign of life, and
    /// from one such question to the next.
    pub suspicion: Duration,
    /// For that sign. An agent that gives none is lost.
    pub sign_of_life: Duration,
}

impl Default for ExecutePatience {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            suspicion: Duration::from_secs(5),
            sign_of_life: Duration::from_secs(10),
        }
    }
}

impl ExecutePatience {
    /// For a reply that is expected within `expected` and waited for until `most`.
    pub(super) fn overdue(&self, expected: Duration, most: Duration) -> Overdue {
        Overdue {
            suspect: deadline(expected.saturating_add(self.suspicion)),
            suspicion: self.suspicion,
            sign_of_life: self.sign_of_life,
            deadline: deadline(most),
        }
    }
}

/// From when on a reply is missed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overdue {
    /// When the agent is next asked for a sign of life.
    pub(super) suspect: Instant,
    pub(super) suspicion: Duration,
    pub(super) sign_of_life: Duration,
    /// When it is given up, whatever it says.
    pub(super) deadline: Instant,
}

impl Overdue {
    /// Moves all of it into the future.
    pub(super) fn postpone(&mut self, by: Duration) {
        let by = by.min(FOREVER);
        self.suspect += by;
        self.deadline += by;
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
