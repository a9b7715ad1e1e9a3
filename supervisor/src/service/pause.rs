//! Stops a sandbox's processors and clocks, and lets them run again.

use tokio::time::Instant;

use super::call::Change;
use super::caller::{Caller, Scope};
use super::error::ServiceError;
use super::events::SandboxEventKind;
use super::registry::Service;
use super::sandbox::{Sandbox, SandboxState, SandboxView};

impl Service {
    /// Pauses a sandbox in which nothing is under way. Pausing a paused one is fine.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn pause(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        let sandbox = self.alive(caller, sandbox)?;
        let change = Change::begin(self, &sandbox, "pause");
        change.done(self.pause_alive(&sandbox).await)
    }

    async fn pause_alive(&self, sandbox: &Sandbox) -> Result<SandboxView, ServiceError> {
        {
            let mut inner = sandbox.lock();
            match inner.state {
                SandboxState::Paused => {
                    drop(inner);
                    return Ok(sandbox.view());
                }
                // A program that stands still would look lost to who waits for it.
                SandboxState::Running if inner.lifetime.under_way() > 0 => {
                    return Err(ServiceError::UnderWay { calls: inner.lifetime.under_way() });
                }
                SandboxState::Running => {}
                SandboxState::Ending | SandboxState::Ended => return Err(sandbox.over(&inner, false)),
            }
            // From here on no call gets in; the clocks stop with the processors.
            inner.state = SandboxState::Paused;
            inner.lifetime.pause(Instant::now());
        }
        sandbox.wake();
        if let Err(error) = sandbox.vm.pause().await {
            self.set_running(sandbox);
            return Err(ServiceError::Machine(error));
        }
        self.events().tell(SandboxEventKind::Paused, sandbox.view());
        Ok(sandbox.view())
    }

    /// Lets a paused sandbox run again. Resuming a running one is fine.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn resume(&self, caller: &Caller, sandbox: &str) -> Result<SandboxView, ServiceError> {
        caller.require(Scope::Create)?;
        let sandbox = self.alive(caller, sandbox)?;
        let change = Change::begin(self, &sandbox, "resume");
        change.done(self.resume_alive(&sandbox).await)
    }

    async fn resume_alive(&self, sandbox: &Sandbox) -> Result<SandboxView, ServiceError> {
        {
            let inner = sandbox.lock();
            match inner.state {
                SandboxState::Running => {
                    drop(inner);
                    return Ok(sandbox.view());
                }
                SandboxState::Paused => {}
                SandboxState::Ending | SandboxState::Ended => return Err(sandbox.over(&inner, false)),
            }
        }
        sandbox.vm.resume().await.map_err(ServiceError::Machine)?;
        self.set_running(sandbox);
        self.events().tell(SandboxEventKind::Resumed, sandbox.view());
        Ok(sandbox.view())
    }

    fn set_running(&self, sandbox: &Sandbox) {
        let mut inner = sandbox.lock();
        if inner.state == SandboxState::Paused {
            inner.state = SandboxState::Running;
            inner.lifetime.resume(Instant::now());
        }
        drop(inner);
        sandbox.wake();
    }
}
