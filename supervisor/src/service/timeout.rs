//! Changes how long a sandbox still has.

use std::time::Duration;

use tokio::time::Instant;

use super::caller::{Caller, Scope};
use super::change::Change;
use super::create::AtTimeout;
use super::error::ServiceError;
use super::events::SandboxEventKind;
use super::registry::Service;
use super::sandbox::{Sandbox, SandboxState, SandboxView};

impl Service {
    /// Sets the time to live, the idle timeout, and what happens when the first is over; `None` leaves one as it is, an
    /// idle timeout of zero removes it. The longest life counts from the creation on.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn set_timeout(
        &self,
        caller: &Caller,
        sandbox: &str,
        ttl: Option<Duration>,
        idle: Option<Duration>,
        at_timeout: Option<AtTimeout>,
    ) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        let sandbox = self.alive(caller, sandbox)?;
        let change = Change::begin(self, &sandbox, &caller.origin, "set_timeout");
        change.done(self.set_timeout_alive(&sandbox, ttl, idle, at_timeout))
    }

    fn set_timeout_alive(
        &self,
        sandbox: &Sandbox,
        ttl: Option<Duration>,
        idle: Option<Duration>,
        at_timeout: Option<AtTimeout>,
    ) -> Result<SandboxView, ServiceError> {
        let now = Instant::now();
        {
            let mut inner = sandbox.lock();
            if matches!(inner.state, SandboxState::Ending | SandboxState::Ended) {
                return Err(sandbox.over(&inner, false));
            }
            let most = self.config().max_ttl;
            let left = most.saturating_sub(inner.lifetime.ran(now));
            if let Some(ttl) = ttl {
                ServiceError::bound_time("ttl", ttl, left)?;
                ServiceError::more_than_zero("ttl", ttl)?;
            }
            if let Some(idle) = idle {
                ServiceError::bound_time("idle_timeout", idle, most)?;
                inner.lifetime.set_idle(now, Some(idle).filter(|idle| !idle.is_zero()));
            }
            if let Some(ttl) = ttl {
                inner.lifetime.set_ttl(now, ttl);
            }
            if let Some(at_timeout) = at_timeout {
                inner.at_timeout = at_timeout;
            }
        }
        sandbox.wake();
        self.events().tell(SandboxEventKind::TimeoutChanged, sandbox.view());
        Ok(sandbox.view())
    }
}
