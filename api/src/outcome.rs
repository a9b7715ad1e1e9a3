//! How an execution ended, without going through two optional messages.

use crate::v1::execution_outcome::Outcome;
use crate::v1::{ExecuteResponse, TimelineEntry, timeline_outcome};

impl ExecuteResponse {
    /// How the execution ended; `None` only where a newer server has a word for it that this client does not know.
    #[must_use]
    pub fn ended(&self) -> Option<Outcome> {
        self.outcome.as_ref()?.outcome
    }
}

impl TimelineEntry {
    /// What came of the call; `None` only where a newer server has a word for it that this client does not know.
    #[must_use]
    pub fn came(&self) -> Option<timeline_outcome::Outcome> {
        self.outcome.as_ref()?.outcome
    }
}
