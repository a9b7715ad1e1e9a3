//! Lists the detached executions of a sandbox.

use super::job::JobView;
use crate::service::caller::{Caller, Scope};
use crate::service::error::ServiceError;
use crate::service::registry::Service;

impl Service {
    /// The detached executions of a sandbox, oldest first.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn detached(&self, caller: &Caller, sandbox: &str) -> Result<Vec<JobView>, ServiceError> {
        caller.require(Scope::Exec)?;
        let sandbox = self.alive(caller, sandbox)?;
        let inner = sandbox.lock();
        Ok(inner.jobs.all().map(|job| job.view()).collect())
    }
}
