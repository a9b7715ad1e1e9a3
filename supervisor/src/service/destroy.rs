//! Ends a sandbox because its owner, or who runs the host, wants it.

use super::caller::{Caller, Scope};
use super::change::Asked;
use super::error::ServiceError;
use super::registry::{Found, Service};
use super::sandbox::{EndReason, Sandbox, SandboxView};
use super::timeline::{TimelineEntry, TimelineOutcome};
use crate::telemetry::Origin;

/// Calls that are remembered while they wait for the end of one sandbox. All of them but the first change nothing.
const MAX_WAITING: usize = 16;

impl Service {
    /// Ends a sandbox and returns when nothing of it is left. One that has ended already is fine.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn destroy(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        match self.find(caller, sandbox, true)? {
            Found::Alive(sandbox) => {
                // Its tenant reads its timeline, and not what whoever runs the host is at work on.
                let own = caller.tenant == sandbox.facts.tenant;
                sandbox.want_destroyed(&if own { caller.origin.clone() } else { Origin::default() });
                sandbox.ended().await;
                // One that came while it ended is told to the log alone.
                sandbox.take_destroys();
                Ok(sandbox.view())
            }
            Found::Gone(gone) => Ok(gone.view.clone()),
        }
    }
}

impl Sandbox {
    /// Asks the keeper to end it, whether or not the caller still waits then.
    fn want_destroyed(&self, origin: &Origin) {
        {
            let mut inner = self.lock();
            if inner.destroys.len() < MAX_WAITING {
                inner.destroys.push(Asked::begin(&self.span, origin, "destroy", ""));
            }
        }
        self.want_end(EndReason::Destroyed, "it was destroyed");
    }

    /// The calls that have waited for its end, which has come.
    pub(super) fn take_destroys(&self) -> Vec<TimelineEntry> {
        let mut destroys = std::mem::take(&mut self.lock().destroys);
        destroys.iter_mut().filter_map(|asked| asked.finish(TimelineOutcome::Done)).collect()
    }
}
