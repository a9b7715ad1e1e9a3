//! Finds a detached execution that runs by what it is called in the sandbox, or by its caller.

use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::id::ExecutionId;
use crate::service::registry::Service;

/// What a program that runs may be called by besides its own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSelector {
    /// Its process id in the sandbox.
    Pid(u32),
    /// What its caller called it; of several the last one.
    Tag(String),
}

impl Service {
    /// The detached execution that runs and is called so.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn select_detached(
        &self,
        caller: &Caller,
        sandbox: &str,
        selector: &JobSelector,
    ) -> Result<ExecutionId, ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let inner = sandbox.lock();
        let mut running = inner.jobs.all().filter(|job| job.check_runs().is_ok());
        let found = match selector {
            JobSelector::Pid(pid) => running.find(|job| job.pid == *pid),
            JobSelector::Tag(tag) => running.filter(|job| job.tag.as_ref() == Some(tag)).last(),
        };
        found.map(|job| job.id).ok_or(ServiceError::UnknownExecution)
    }
}
