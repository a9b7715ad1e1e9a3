//! Waits for the end of a detached execution, or tells of one that has ended.

use crate::service::caller::Caller;
use crate::service::error::ServiceError;
use crate::service::execute::Executed;
use crate::service::registry::Service;

impl Service {
    /// How a detached execution ended, once it has. Dropping the future leaves it as it is.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn wait_detached(
        &self,
        caller: &Caller,
        sandbox: &str,
        execution: &str,
    ) -> Result<Executed, ServiceError> {
        let (_, job) = self.job(caller, sandbox, execution)?;
        job.ended().await.map_err(ServiceError::Shared)
    }
}
